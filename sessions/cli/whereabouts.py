"""Where a session belongs, seen from the current directory, and so how one goes on with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions import catalog, ids, listing, paths
from sessions.belonging import Where
from sessions.cli import options, output
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
        return output.command("resume", self.row.id, root=options.moving_root(), directory=self.directory)


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
    found = store.belonging(row, paths.current())
    return Whereabouts(row, found.where, found.directory)
