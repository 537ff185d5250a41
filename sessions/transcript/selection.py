"""Which bytes of a transcript a fork copies: every visible line that belongs to the conversation. Pure.

Header and title lines are the session's own, and a rollback event has done its work: none of them is copied, and what
an event hides is not either. All else is, byte for byte: messages, lines nobody can read, unknown ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from sessions.transcript.entry import Entry, Kind


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes ``[start, end)`` of a file."""

    start: int
    end: int


class HidesSomethingError(Exception):
    """A rollback event was met by a selection that did not note which message lies where."""


class Selection:
    """The ranges chosen so far, in order and none touching the next. Give it every line, in order.

    Args:
        noting: Whether ids are noted, so that rollback events can be followed: memory then grows with the number of
            messages, else with the number of lines that are left out.
    """

    def __init__(self, *, noting: bool) -> None:
        self.ranges: list[Range] = []
        self._noting = noting
        self._first: dict[str, int] = {}  # where the first visible line of a message starts, in file order

    def keep(self, start: int, end: int) -> None:
        """Choose a line that is surely visible and no event."""
        if self.ranges and self.ranges[-1].end == start:
            start = self.ranges.pop().start
        self.ranges.append(Range(start, end))

    def take(self, entry: Entry, start: int, end: int) -> None:
        """Take in a line.

        Raises:
            HidesSomethingError: It is a rollback event, and ids were not noted.
        """
        match entry.kind:
            case Kind.HEADER | Kind.TITLE:
                return
            case Kind.ROLLBACK:
                self._hide(entry.hides_from)
                return
            case Kind.MESSAGE if self._noting and entry.id is not None:
                self._first.setdefault(entry.id, start)
            case _:
                pass
        self.keep(start, end)

    def _hide(self, message_id: str | None) -> None:
        if not self._noting:
            raise HidesSomethingError
        start = self._first.get(message_id) if message_id is not None else None
        if start is None:
            return
        while self._first and (last := next(reversed(self._first.items())))[1] >= start:
            del self._first[last[0]]
        while self.ranges and self.ranges[-1].end > start:
            cut = self.ranges.pop()
            if cut.start < start:
                self.ranges.append(Range(cut.start, start))
