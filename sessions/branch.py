"""Which branch a directory is on, asked of git without believing the environment."""

from __future__ import annotations

import os
import subprocess

LIMIT_S = 2.0


def current_branch(workdir: str) -> str | None:
    """Return the name of the checked out branch.

    Returns:
        None outside a repository, on a detached HEAD, without git, or when git takes longer than two seconds.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        said = subprocess.run(
            ["git", "-C", workdir, "symbolic-ref", "--short", "-q", "HEAD"],
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    name = said.stdout.decode("utf-8", "replace").strip()
    return name if said.returncode == 0 and name else None
