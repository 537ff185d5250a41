"""The sessions of subagents that leave with a rewind: moved into its undo record, and back by its undo.

A move is a rename of the transcript and one of the sidecar; doing it again, after a crash, goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sessions import files, paths
from sessions.errors import ConflictError, LockedError
from sessions.ids import is_safe
from sessions.locks import FileLock, HeldError
from sessions.ownership import LOCK
from sessions.transcript import reader

_DIRECTORY = "children"


@dataclass(frozen=True, slots=True)
class Move:
    """Sessions of subagents that change their place with a transaction.

    Attributes:
        ids: Whose.
        record: The undo record they lie in when they are away.
        away: Whether they go there, or come back.
    """

    ids: tuple[str, ...]
    record: str
    away: bool

    def reversed(self) -> Move:
        """Return its undo."""
        return Move(self.ids, self.record, not self.away)

    def to_record(self) -> dict[str, object]:
        """Return plain data; ``move_from(m.to_record()) == m``."""
        return {"ids": list(self.ids), "record": self.record, "away": self.away}


def move_from(data: object) -> Move:
    """Return the move a record tells of.

    Raises:
        ValueError: It tells of none.
    """
    match data:
        case {"ids": [*names], "record": str(record), "away": bool(away)} if is_safe(record):
            ids = tuple(name for name in names if isinstance(name, str) and is_safe(name))
            if len(ids) == len(names):
                return Move(ids, record, away)
    raise ValueError("no move of subagents' sessions")


class Children:
    """The sessions of subagents beside one transcript.

    Args:
        transcript: The root's.
    """

    def __init__(self, transcript: Path) -> None:
        self._path = transcript
        self._root = transcript.name.removesuffix(".jsonl")
        self._undo = paths.sidecar(transcript) / "undo"

    def there(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Return those of which something is there: one that was killed early has a sidecar and no transcript."""
        return tuple(name for name in ids if self._is_own(self._transcript(name)))

    def _is_own(self, path: Path) -> bool:
        """Tell whether something of a subagent of this root is there: its header says so, whatever a record says."""
        try:
            header = reader.head(path)
        except FileNotFoundError:
            return paths.sidecar(path).is_dir()
        return header is not None and header.link is not None and header.link.root == self._root

    @contextlib.contextmanager
    def claimed(self, ids: Iterable[str], *, but_own: bool = False) -> Iterator[None]:
        """Hold the locks of those that are there: nobody writes in them.

        Args:
            but_own: Those this process holds itself do not count.

        Raises:
            LockedError: Somebody does.
        """
        with contextlib.ExitStack() as stack:
            for name in ids:
                lock = FileLock(paths.sidecar(self._transcript(name)) / LOCK)
                if not lock.path.parent.is_dir():
                    continue
                stack.callback(lock.release)
                try:
                    lock.acquire()
                except HeldError as held:
                    if but_own and held.pid == os.getpid():
                        continue
                    raise LockedError(name, held.pid, held.command) from None
            yield

    def refuse_taken(self, moves: Iterable[Move]) -> None:
        """Refuse to bring back a session where another one took its place.

        Raises:
            ConflictError: There is such a place.
        """
        for name in (name for move in moves if not move.away for name in move.ids):
            if os.path.lexists(self._transcript(name)):
                raise ConflictError(
                    f"{self._transcript(name)} is there already, and would come back; nothing was changed"
                )

    def carry_out(self, move: Move) -> None:
        """Move them; what is moved already stays.

        Raises:
            OSError: Not all could be moved.
        """
        aside = self._undo / move.record / _DIRECTORY
        source, target = (self._path.parent, aside) if move.away else (aside, self._path.parent)
        if move.away:
            files.make_directory(aside)
        for name in _names(move.ids):
            with contextlib.suppress(FileNotFoundError):
                if not os.path.lexists(target / name):
                    os.rename(source / name, target / name)
        for directory in (target, source):
            with contextlib.suppress(FileNotFoundError):
                files.sync_directory(directory)

    def _transcript(self, name: str) -> Path:
        return paths.beside(self._path, name)


def _names(ids: Sequence[str]) -> Iterator[str]:
    for name in ids:
        yield f"{name}.jsonl"
        yield f"{name}.ckpt"
