"""A transcript while others write it: which messages came since the last look, and which are gone or back again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sessions.transcript import collapse, lines, scanning, turns
from sessions.transcript.entry import Entry, Kind
from sessions.transcript.rollback import rollback_line

_BEGINNING_CHARACTERS = 200  # of a prompt


@dataclass(frozen=True, slots=True)
class Came:
    """A message; ``again``: one that was gone and is back, which was told of before."""

    entry: Entry
    again: bool = False


@dataclass(frozen=True, slots=True)
class WentBack:
    """Messages are gone, or hidden.

    Attributes:
        messages: How many.
        message_id: The first of them; empty where it has no id.
        turn: The turn that is of, 1-based, as it was before; 0 in front of the first.
        prompt: The beginning of that turn's prompt, if the prompt is the first; None for a place inside a turn.
    """

    messages: int
    message_id: str
    turn: int
    prompt: str | None

    def to_line(self) -> bytes:
        """Return the event that says so in a transcript, without a newline."""
        return rollback_line(self.message_id, index=self.turn)


@dataclass(frozen=True, slots=True)
class CameBack:
    """A rewind was taken back: so many messages are there again; each follows as one that came again."""

    messages: int


Event = Came | WentBack | CameBack


@dataclass(frozen=True, slots=True)
class _Known:
    """What is kept of a message."""

    id: str | None
    turn: int
    prompt: str | None


class Growing:
    """Tells what happens to one transcript. Takes no lock; memory grows with the number of messages, not their size.

    A message counts as known by its bytes: what a compaction says again, and what an undo restores, is not new. One
    that is written again with other content, as it was still streaming, is.

    A last line that is not a complete object is waited for. A file with another inode, a shorter one, and one that
    differs in front of where the last look ended, was rewritten: it is read from its start. While nothing changes a
    look is one ``stat``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._status = (0, 0, 0)
        self._offset = 0
        self._anchor = b""  # the bytes in front of the offset
        self._known: set[int] = set()  # every message there ever was
        self._visible: dict[int, _Known] = {}
        self._numbers: dict[str, int] = {}  # the turns of the visible prompts

    def begin(self, last: int, *, history: bool) -> Iterator[Entry]:
        """Read the file and yield the last messages it has now, of what is visible or of what the model sees.

        Raises:
            FileNotFoundError: There is no such file.
        """
        with lines.opened(self.path) as (descriptor, _):
            places, _ = self._read(descriptor)
            rule = collapse.history if history else collapse.model_view
            shown = rule(places)
            for place in shown[max(len(shown) - last, 0) :]:
                yield scanning.entry_at(descriptor, place.offset, place.end)

    def look(self) -> Iterator[Event]:
        """Yield what happened since the last look, in an order that makes sense of it: gone, back, new.

        Raises:
            FileNotFoundError: The file is gone.
        """
        found = os.stat(self.path)
        if self._status == (found.st_ino, found.st_size, found.st_mtime_ns):
            return
        with lines.opened(self.path) as (descriptor, size):
            status = os.fstat(descriptor)
            anchor = lines.read(descriptor, self._offset - len(self._anchor), len(self._anchor))
            if status.st_ino != self._status[0] or size < self._offset or anchor != self._anchor:
                yield from self._anew(descriptor)
            else:
                yield from self._appended(descriptor)

    def _appended(self, descriptor: int) -> Iterator[Event]:
        self._note_status(descriptor)
        for _, end, entry in scanning.every_line(descriptor, self._offset):
            key = hash(entry.raw)
            is_new = key not in self._known
            # What hides, and what was gone and is back (of an undo, whose file may look as if lines were appended).
            if entry.kind is Kind.ROLLBACK or (not is_new and key not in self._visible):
                yield from self._anew(descriptor)
                return
            self._offset = end
            if entry.kind is Kind.MESSAGE:
                self._take(key, entry)
                if is_new:
                    yield Came(entry)
        self._set_anchor(descriptor)

    def _anew(self, descriptor: int) -> Iterator[Event]:
        """Read the whole file, and tell what is different."""
        before, known = self._visible, set(self._known)
        places, keys = self._read(descriptor)
        if gone := [said for key, said in before.items() if key not in self._visible]:
            yield WentBack(len(gone), gone[0].id or "", gone[0].turn, gone[0].prompt)
        shown = {keys[place.offset]: place for place in _messages(places)}
        if back := [place for key, place in shown.items() if key in known and key not in before]:
            yield CameBack(len(back))
            yield from (Came(scanning.entry_at(descriptor, place.offset, place.end), again=True) for place in back)
        yield from (
            Came(scanning.entry_at(descriptor, place.offset, place.end))
            for key, place in shown.items()
            if key not in known
        )

    def _read(self, descriptor: int) -> tuple[list[scanning.Place], dict[int, int]]:
        """Take in the whole file; return notes on its messages and events, and by which key each message is known."""
        self._note_status(descriptor)
        self._offset = 0
        self._visible, self._numbers = {}, {}
        places: list[scanning.Place] = []
        keys: dict[int, int] = {}
        for offset, end, entry in scanning.every_line(descriptor):
            places.extend(scanning.places_in([(offset, end, entry)]))
            keys[offset] = hash(entry.raw)
            self._offset = end
        for place in _messages(places):
            prompt = place.prompt.preview if place.prompt is not None else None
            self._add(keys[place.offset], place.id, prompt)
        self._known.update(keys[place.offset] for place in places)
        self._set_anchor(descriptor)
        return places, keys

    def _take(self, key: int, entry: Entry) -> None:
        self._known.add(key)
        self._add(key, entry.id, turns.typed(entry))

    def _add(self, key: int, message_id: str | None, prompt: str | None) -> None:
        turn = len(self._numbers)
        if prompt is not None and message_id is not None:
            turn = self._numbers.setdefault(message_id, turn + 1)
        self._visible.setdefault(key, _Known(message_id, turn, prompt and prompt[:_BEGINNING_CHARACTERS]))

    def _note_status(self, descriptor: int) -> None:
        """Note what the file is before it is read: what is written meanwhile makes it another one."""
        found = os.fstat(descriptor)
        self._status = found.st_ino, found.st_size, found.st_mtime_ns

    def _set_anchor(self, descriptor: int) -> None:
        length = min(self._offset, scanning.ANCHOR_BYTES)
        self._anchor = lines.read(descriptor, self._offset - length, length)


def _messages(places: Iterable[scanning.Place]) -> Iterator[scanning.Place]:
    return (place for place in collapse.visible(places) if place.kind is Kind.MESSAGE)
