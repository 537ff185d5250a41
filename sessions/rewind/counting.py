"""How many lines changes insert and delete, for lists and plans. Pure.

The numbers are those a diff shows. A diff takes the time its reader gives it; a list and a plan may not take long,
however many files there are, so all files of one share a budget. From the first file on that is beyond it nothing is
counted any more, and the same files give the same numbers every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, assert_never

from sessions.rewind.lines import Allowance, count_changes, is_binary
from sessions.rewind.states import Absent, Content, Directory, FileState, Link, OverLimit, Unreadable

MOST_FILES = 200
"""A plan of more files counts the lines of none: planning does not read what it need not."""

_MOST_FILE_BYTES = 2 << 20
_MOST_BYTES = 64 << 20  # of all files together
_MOST_STEPS = 4_000_000  # likewise: looks at a line, one or two seconds of matching

Read = Callable[[], bytes | None]
"""Gives the bytes of a file, None where they are not to be had."""


class Lines(NamedTuple):
    """How many lines a change inserts and deletes; none where the content is binary."""

    insertions: int
    deletions: int
    binary: bool = False


class LineCounter:
    """Counts the lines of one change after the other, within one budget for all."""

    def __init__(self) -> None:
        self._bytes_left = _MOST_BYTES
        self._allowance = Allowance(_MOST_STEPS)

    def count(self, before: FileState, after: FileState, read_before: Read, read_after: Read) -> Lines | None:
        """Count one change; None where that is not known: too much, or not to be had.

        Args:
            read_before: Asked only for a file, and only within the budget.
            read_after: Likewise.
        """
        if not self._affords(before, after):
            return None
        old, new = _text(before, read_before), _text(after, read_after)
        if old is None or new is None:
            return None
        if {type(before), type(after)} != {Link, Content}:
            return self._between(old, new)
        gone, came = self._between(old, b""), self._between(b"", new)  # as a diff shows it: one goes, another comes
        if gone is None or came is None:
            return None
        return Lines(came.insertions, gone.deletions, gone.binary or came.binary)

    def _affords(self, before: FileState, after: FileState) -> bool:
        sizes = [state.size for state in (before, after) if isinstance(state, Content)]
        if any(size > _MOST_FILE_BYTES for size in sizes):
            return False
        if sum(sizes) > self._bytes_left or not self._allowance.steps:
            self._bytes_left = self._allowance.steps = 0
            return False
        self._bytes_left -= sum(sizes)
        return True

    def _between(self, old: bytes, new: bytes) -> Lines | None:
        if is_binary(old) or is_binary(new):
            return Lines(0, 0, binary=True)
        counts = count_changes(old, new, allowance=self._allowance)
        return Lines(*counts) if counts is not None else None


def _text(state: FileState, read: Read) -> bytes | None:
    match state:
        case Absent() | Directory():
            return b""
        case Link(target):
            return target.encode("utf-8", "surrogatepass")
        case Content():
            return read()
        case OverLimit() | Unreadable():
            return None
    assert_never(state)
