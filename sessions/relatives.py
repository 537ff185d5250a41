"""The other sessions of one conversation that are open in this process: its root, and those of its subagents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sessions import paths
from sessions.errors import SessionsError
from sessions.hold import Hold
from sessions.ownership import is_owned


class Relative(Protocol):
    """A session that is open."""

    hold: Hold

    def close(self) -> None:
        """Give the lock back."""


S = TypeVar("S", bound=Relative)


class Relatives(Generic[S]):
    """The relatives of one session. All lie beside it, however deep they are nested.

    Args:
        path: Its transcript.
        root_id: Of a subagent's session: the root; None for the root itself.
        opened: Returns the session of a transcript that is open in this process.
    """

    def __init__(self, path: Path, root_id: str | None, opened: Callable[[Path], S | None]) -> None:
        self._path = path
        self._root_id = root_id
        self._opened = opened

    @property
    def root(self) -> S | None:
        """The session of the root, where that is another one and open here."""
        return self._opened(self._transcript(self._root_id)) if self._root_id is not None else None

    def is_open(self, child: str) -> bool:
        """Tell whether a subagent's session is open here."""
        return self._opened(self._transcript(child)) is not None

    def is_left(self, session_id: str) -> bool:
        """Tell of a subagent's session, to its root, whether nobody works in it any more; of all others: no."""
        transcript = self._transcript(session_id)
        return self._root_id is None and transcript != self._path and not is_owned(transcript)

    def dismiss(self, children: Sequence[str]) -> list[str]:
        """Close those of the subagents' sessions that are open here, for everybody; return which were."""
        ended: list[str] = []
        for name in children:
            child = self._opened(self._transcript(name))
            if child is not None:
                child.hold.let_go(everybody=True)
                with contextlib.suppress(OSError, SessionsError):
                    child.close()
                ended.append(name)
        return ended

    def _transcript(self, session_id: str) -> Path:
        return paths.beside(self._path, session_id)
