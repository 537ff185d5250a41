"""The worktrees of one repository, and which of them a session's directory lies in."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from sessions import git, paths

_SHORTENED = re.compile("-[0-9a-f]{8}$")


class Worktrees:
    """All worktrees of the repository a directory lies in.

    Args:
        directory: Resolved.

    Attributes:
        roots: Resolved, that of ``directory`` first; outside a repository the directory itself, alone.
    """

    def __init__(self, directory: str) -> None:
        found = git.worktrees(directory)
        own = _innermost(directory, found)
        self._directory = directory
        self._known = found if own is not None else []
        self.roots = (directory,) if own is None else (own, *(each for each in found if each != own))

    def hold(self, workdir: str) -> bool:
        """Tell whether a session's directory, resolved, lies in one of them.

        It lies in the innermost repository around it: one inside a worktree (nested, a submodule) is another. A
        directory that is gone is judged by its name. Outside a repository only the directory itself counts.
        """
        if not self._known:
            return workdir == self._directory
        root = _innermost(workdir, self._known)
        return root is not None and not _has_repository_between(root, workdir)

    def projects(self, projects: Path) -> Iterable[str]:
        """Return the names of the directories in which their sessions can lie, and perhaps some more."""
        names = {paths.encode_workdir(root) for root in self.roots}
        if not self._known:
            return names
        begins = [paths.encoded(root) for root in self.roots]
        with contextlib.suppress(OSError):  # whoever lists them says so
            names.update(name for name in os.listdir(projects) if any(_may_lie_below(name, each) for each in begins))
        return names


def _innermost(directory: str, roots: Iterable[str]) -> str | None:
    around = [root for root in roots if directory == root or directory.startswith(os.path.join(root, ""))]
    return max(around, key=len, default=None)


def _has_repository_between(root: str, directory: str) -> bool:
    while directory != root:
        if os.path.lexists(os.path.join(directory, ".git")):
            return True
        directory = os.path.dirname(directory)
    return False


def _may_lie_below(name: str, begin: str) -> bool:
    """Tell whether a project's name can be that of a path whose encoding begins so; a long one was cut short."""
    return name.startswith(begin) or (_SHORTENED.search(name) is not None and begin.startswith(name[:-9]))
