"""Where a session belongs, seen from the current directory, and so how one goes on with it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from sessions import paths
from sessions.cli import options, output, shell
from sessions.errors import ConflictError, NotFoundError, RequestError
from sessions.transcript import reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions.listing import SessionInfo
    from sessions.overview import ListScope
    from sessions.session import Session
    from sessions.store import SessionStore


class Where(Enum):
    """Where a session belongs."""

    HERE = "to this project"
    WORKTREE = "to another worktree of the same repository"
    ELSEWHERE = "to another project"
    GONE = "to a directory that is gone"
    UNKNOWN = "nobody knows: its file does not say it"


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where one session belongs; ``directory``: where one goes on with it, None where nobody knows."""

    row: SessionInfo
    where: Where
    directory: str | None

    @property
    def here(self) -> bool:
        """Whether one goes on with it without changing to another directory first."""
        return self.where in {Where.HERE, Where.WORKTREE}

    @property
    def command(self) -> str:
        """The command line that goes on with it, from anywhere: to be pasted."""
        root = options.moving_root()
        store = ("--root", os.path.abspath(root)) if root is not None else ()
        end = ("--",) if self.row.id.startswith("-") else ()
        return shell.in_directory(self.directory, (*output.program(), "resume", *store, *end, self.row.id))


def here() -> str | None:
    """Return the current directory; None where it was removed under us."""
    try:
        return os.path.realpath(os.curdir)
    except FileNotFoundError:
        return None


def of_path(store: SessionStore, transcript: Path) -> Whereabouts:
    """Return where the session of a transcript belongs.

    Raises:
        RequestError: It is the session of a subagent, which nobody resumes.
        NotFoundError: It is gone.
    """
    current = here()
    for directory, scope in _lists(transcript, current):
        row = next((row for row in store.list(directory, scope=scope) if row.path == transcript), None)
        if row is not None:
            return _found(store, row, scope if directory == current else "all", current)
    session_id = transcript.name.removesuffix(".jsonl")
    if transcript.exists():
        with store.open(session_id, read_only=True) as session:
            if session.root_id is not None:
                raise RequestError(f"a subagent's session is not resumed by itself: session {session.root_id} is")
    raise NotFoundError("session", session_id)


def of_row(store: SessionStore, row: SessionInfo) -> Whereabouts:
    """Return where a session of a list belongs; as ``of_path``."""
    return of_path(store, row.path)


@contextlib.contextmanager
def opened(store: SessionStore, row: SessionInfo, *, read_only: bool) -> Iterator[Session]:
    """Open exactly the session of a row.

    Raises:
        ConflictError: A session of another project has the same id, and was touched later.
    """
    with store.open(row.id, read_only=read_only) as session:
        if session.path != row.path:
            raise ConflictError(f"another project has a session {row.id} too, touched later: {session.path}")
        yield session


def _lists(transcript: Path, current: str | None) -> Iterator[tuple[str, ListScope]]:
    """Yield the lists a session can be in, and whose they are: the short ones first."""
    if current is not None:
        yield current, "project"
        yield current, "worktrees"
    with contextlib.suppress(OSError):
        head = reader.head(transcript)
        own = paths.resolved(head.workdir) if head is not None and head.workdir is not None else None
        if own is not None and own != current:
            yield own, "project"
    yield current or os.sep, "all"


def _found(store: SessionStore, row: SessionInfo, scope: ListScope, current: str | None) -> Whereabouts:
    directory = paths.resolved(row.workdir) if row.workdir is not None else None
    if scope == "project":
        return Whereabouts(row, Where.HERE, current)
    if directory is None and scope == "worktrees" and row.workdir is None:
        projects = {paths.project_directory(store.root, each): each for each in store.worktrees(current)}
        directory = projects.get(row.path.parent)
    if directory is None:
        return Whereabouts(row, Where.UNKNOWN, None)
    if not os.path.isdir(directory):
        return Whereabouts(row, Where.GONE, row.workdir)
    return Whereabouts(row, Where.WORKTREE if scope == "worktrees" else Where.ELSEWHERE, directory)
