"""What is asked of git, without believing the environment, and never for longer than two seconds."""

from __future__ import annotations

import os

LIMIT_S = 2.0


def current_branch(workdir: str) -> str | None:
    """Return the name of the checked out branch.

    Returns:
        None outside a repository, on a detached HEAD, without git, or when git takes longer than two seconds.
    """
    said = _asked(workdir, "symbolic-ref", "--short", "-q", "HEAD")
    return (said or b"").decode("utf-8", "replace").strip() or None


def worktrees(workdir: str) -> list[str]:
    """Return the resolved paths of all worktrees of the repository a directory lies in, the main one first.

    One whose directory is gone stays in it until git forgets it. A bare repository is none, and neither is what has no
    ``.git`` to go back to it.

    Returns:
        Empty outside a repository, without git, or when git takes longer than two seconds.
    """
    said = _asked(workdir, "worktree", "list", "--porcelain", "-z")
    records = (record.split(b"\0") for record in (said or b"").split(b"\0\0"))
    return [
        os.path.realpath(os.fsdecode(lines[0].removeprefix(b"worktree ")))
        for lines in records
        if lines[0].startswith(b"worktree ") and b"bare" not in lines
    ]


def _asked(workdir: str, *arguments: str) -> bytes | None:
    import subprocess  # noqa: PLC0415 - most commands ask nothing

    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        said = subprocess.run(
            ["git", "-C", workdir, *arguments],
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return said.stdout if said.returncode == 0 else None
