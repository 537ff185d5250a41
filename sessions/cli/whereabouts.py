"""Where a session belongs, seen from the current directory, and so how one goes on with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions import catalog, ids, listing
from sessions.belonging import Where
from sessions.cli import options, output, shell
from sessions.errors import NotFoundError, RequestError

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.listing import SessionInfo
    from sessions.store import SessionStore


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
    """Return where the session of a transcript belongs, seen from the current directory.

    Raises:
        RequestError: It is the session of a subagent, which nobody resumes.
        NotFoundError: It is gone.
        OSError: It cannot be read.
    """
    try:
        row = listing.row_of(transcript)
    except FileNotFoundError:
        raise NotFoundError("session", catalog.id_of(transcript)) from None
    if row.id.startswith(ids.CHILD_PREFIX):
        if row.root_id is None:
            raise NotFoundError("session", row.id)
        raise RequestError(f"a subagent's session is not resumed by itself: session {row.root_id} is")
    found = store.belonging(row, here())
    return Whereabouts(row, found.where, found.directory)
