"""What a turn did to files, net, for lists. It is recorded when the turn ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from sessions.rewind.changes import Part, net_changes
from sessions.rewind.counting import LineCounter, Lines
from sessions.rewind.plan import Status, TouchedFile
from sessions.rewind.recorded import Touch, TurnSummary
from sessions.rewind.states import Image

Read = Callable[[Image], bytes | None]


def net(touches: Iterable[Touch], read: Read, counter: LineCounter | None = None) -> TurnSummary:
    """Return the files a turn changed, sorted by path, and how many lines it added and removed.

    Of a file nobody recorded the end of the lines are unknown, and so are then those of all; the rest is not read.

    Args:
        read: Gives the bytes of an image of a file, None where they are not to be had.
        counter: Shared by all turns of a list; without it the turn has one of its own.
    """
    changes = net_changes(list(touches), lambda _: True, guesses={})
    files = tuple(TouchedFile(change.path, cast("Status", change.status)) for change in changes)
    total = Lines(0, 0)
    counter = counter or LineCounter()
    for part in (part for change in changes for part in change.parts):
        counts = _counts(part, read, counter)
        if counts is None:
            return TurnSummary(files, None, None)
        total = Lines(total.insertions + counts.insertions, total.deletions + counts.deletions)
    return TurnSummary(files, total.insertions, total.deletions)


def _counts(part: Part, read: Read, counter: LineCounter) -> Lines | None:
    after = part.after
    if after is None:
        return None
    return counter.count(part.before.state, after.state, lambda: read(part.before), lambda: read(after))
