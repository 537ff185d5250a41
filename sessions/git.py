"""What is asked of git, without believing the environment, and never for longer than two seconds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

LIMIT_S = 2.0
_NO_SUCH_OPTION = 129


def current_branch(workdir: str) -> str | None:
    """Return the name of the checked out branch.

    Returns:
        None outside a repository, on a detached HEAD, without git, or when git takes longer than two seconds.
    """
    said = _asked(workdir, "symbolic-ref", "--short", "-q", "HEAD")
    return (said or b"").decode("utf-8", "replace").strip() or None


def worktrees(workdir: str) -> list[str]:
    """Return the resolved paths of all worktrees of the repository a directory lies in, the main one first.

    One whose directory is gone stays among them until git forgets it. Of a repository that keeps its data elsewhere (a
    submodule, a separate git directory) git does not know the main one: it is there where the directory lies in it.

    Returns:
        Empty outside a repository, without git, or when git takes longer than two seconds.
    """
    told = _told(workdir)
    known = [os.path.realpath(os.fsdecode(each)) for each in told]
    found = [each for each in known if os.path.lexists(os.path.join(each, ".git")) or not os.path.isdir(each)]
    if told and not any(workdir == each or workdir.startswith(os.path.join(each, "")) for each in found):
        own = _asked(workdir, "rev-parse", "--show-toplevel")
        found[:0] = [os.path.realpath(os.fsdecode(own.removesuffix(b"\n")))] if own and own.strip() else []
    return found


def _told(workdir: str) -> list[bytes]:
    listing = ("worktree", "list", "--porcelain")
    end, done = b"\0", _done(workdir, *listing, "-z")
    if done is not None and done.returncode == _NO_SUCH_OPTION:  # git before 2.36
        end, done = b"\n", _done(workdir, *listing)
    said = done.stdout if done is not None and done.returncode == 0 else b""
    records = (record.split(end) for record in said.split(2 * end))
    return [
        lines[0].removeprefix(b"worktree ")
        for lines in records
        if lines[0].startswith(b"worktree ") and b"bare" not in lines
    ]


def _asked(workdir: str, *arguments: str) -> bytes | None:
    done = _done(workdir, *arguments)
    return done.stdout if done is not None and done.returncode == 0 else None


def _done(workdir: str, *arguments: str) -> subprocess.CompletedProcess[bytes] | None:
    import subprocess  # noqa: PLC0415 - most commands ask nothing

    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", "-C", workdir, *arguments],
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
