"""What a turn did to files, net, for lists. It is recorded when the turn ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from sessions.rewind.changes import Part, net_changes
from sessions.rewind.lines import count_changes, is_binary
from sessions.rewind.payloads import Payloads
from sessions.rewind.plan import Status, TouchedFile
from sessions.rewind.recorded import Touch, TurnSummary
from sessions.rewind.states import Absent, Content, Image, Link

_COUNTED_BYTES = 2 << 20


def net(touches: Iterable[Touch], payloads: Payloads) -> TurnSummary:
    """Return the files a turn changed, sorted by path, and how many lines it added and removed.

    Of a file nobody recorded the end of the lines are unknown, and so are then those of all.
    """
    files: list[TouchedFile] = []
    added: int | None = 0
    removed: int | None = 0
    for change in net_changes(list(touches), lambda _: True, guesses={}):
        files.append(TouchedFile(change.path, cast("Status", change.status)))
        for part in change.parts:
            counts = _counts(part, payloads)
            if counts is None:
                added = removed = None
            elif added is not None and removed is not None:
                added, removed = added + counts[0], removed + counts[1]
    return TurnSummary(tuple(files), added, removed)


def _counts(part: Part, payloads: Payloads) -> tuple[int, int] | None:
    before, after = _text(part.before, payloads), _text(part.after, payloads)
    if before is None or after is None:
        return None
    return (0, 0) if is_binary(before) or is_binary(after) else count_changes(before, after)


def _text(image: Image | None, payloads: Payloads) -> bytes | None:
    if image is None:
        return None
    match image.state:
        case Absent() | Link():
            return b""
        case Content(size=size) if size <= _COUNTED_BYTES and payloads.exists(image):
            return b"".join(payloads.chunks(image))
        case _:
            return None
