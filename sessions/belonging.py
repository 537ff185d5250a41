"""Where a session belongs, seen from a directory; and which of several with one id is meant there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sessions import listing, paths, repository
from sessions.listing import SessionInfo
from sessions.worktrees import Worktrees


class Where(Enum):
    """Where a session belongs."""

    HERE = "to this project"
    WORKTREE = "to another worktree of the same repository"
    ELSEWHERE = "to another project"
    GONE = "to a directory that is gone"
    UNKNOWN = "nobody knows: its file does not say it"


@dataclass(frozen=True, slots=True)
class Belonging:
    """Where a session belongs.

    Attributes:
        where: Seen from the directory that was asked about.
        directory: The one in which one goes on with it; None where nobody knows.
    """

    where: Where
    directory: str | None


def belonging(root: Path, row: SessionInfo, here: str | None) -> Belonging:
    """Return where a session belongs. Git is asked only where it may be one of another worktree.

    Args:
        root: Where the sessions are kept.
        here: The directory it is seen from, resolved; None where there is none.
    """
    if row.workdir is None:
        return _headerless(root, row, here)
    directory = paths.resolved(row.workdir)
    if directory is None:
        return Belonging(Where.UNKNOWN, None)
    if directory == here:
        return Belonging(Where.HERE, here)
    if not os.path.isdir(directory):
        return Belonging(Where.GONE, row.workdir)
    if here is not None and repository.may_be_one(here, directory) and Worktrees(here).hold(directory):
        return Belonging(Where.WORKTREE, directory)
    return Belonging(Where.ELSEWHERE, directory)


def nearest(root: Path, twins: Sequence[Path], here: str | None) -> Path:
    """Return that of several transcripts of one id that is meant in a directory.

    Of its project, else of another worktree of the repository, else the first one. A project's transcripts lie in the
    project's directory: a copy elsewhere comes behind.

    Args:
        twins: The one written last first; at least one.
        here: Resolved; None where there is none.
    """
    if here is None or len(twins) < 2:
        return twins[0]
    place = paths.project_directory(root, here)
    found = {path: where for path in twins if (where := _where(root, path, here)) is not None}
    wanted: list[Callable[[Path], bool]] = [
        lambda path: found[path] is Where.HERE and path.parent == place,
        lambda path: found[path] is Where.HERE,
        lambda path: found[path] is Where.WORKTREE,
    ]
    return next((path for is_it in wanted for path in found if is_it(path)), twins[0])


def _headerless(root: Path, row: SessionInfo, here: str | None) -> Belonging:
    """Return where a session belongs of which only the project's directory in the store is known."""
    if here is not None and row.path.parent == paths.project_directory(root, here):
        return Belonging(Where.HERE, here)
    roots = Worktrees(here).roots if here is not None and repository.may_be_one(here, here) else ()
    for each in roots:
        if row.path.parent == paths.project_directory(root, each):
            return Belonging(Where.WORKTREE if os.path.isdir(each) else Where.GONE, each)
    return Belonging(Where.UNKNOWN, None)


def _where(root: Path, path: Path, here: str) -> Where | None:
    with contextlib.suppress(OSError):  # it went, or cannot be read
        return belonging(root, listing.row_of(path), here).where
    return None
