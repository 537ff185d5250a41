"""What a turn did to files, net, for lists. It is recorded when the turn ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sessions.rewind.lines import count_changes, is_binary
from sessions.rewind.payloads import Payloads
from sessions.rewind.plan import Status, TouchedFile
from sessions.rewind.states import Absent, Content, Directory, Image, Link, same
from sessions.rewind.timeline import Touch, TurnSummary

_COUNTED_BYTES = 2 << 20


def net(touches: Iterable[Touch], payloads: Payloads) -> TurnSummary:
    """Return the files a turn changed, sorted by path, and how many lines it added and removed.

    A file nobody recorded the end of counts as modified, and the lines as unknown.
    """
    files: list[TouchedFile] = []
    added: int | None = 0
    removed: int | None = 0
    for touch in merged(touches):
        status = status_of(touch) if touch.after is not None else "modified"
        if status is None:
            continue
        files.append(TouchedFile(touch.path, status))
        changes = _changes(touch, payloads) if touch.after is not None else None
        if changes is None:
            added = removed = None
        elif added is not None and removed is not None:
            added, removed = added + changes[0], removed + changes[1]
    return TurnSummary(tuple(files), added, removed)


def merged(touches: Iterable[Touch]) -> list[Touch]:
    """Return one touch a path, sorted by path: what it was before the first and after the last of several."""
    paths: dict[str, Touch] = {}
    for touch in touches:
        first = paths.setdefault(touch.path, touch)
        paths[touch.path] = replace(touch, order=first.order, before=first.before)
    return [paths[path] for path in sorted(paths)]


def status_of(touch: Touch) -> Status | None:
    """Return what a touch did, net; None for nothing, for directories, and where the end is unknown."""
    if touch.after is None or same(touch.before.state, touch.after.state):
        return None
    if isinstance(touch.before.state, Directory) or isinstance(touch.after.state, Directory):
        return None
    if isinstance(touch.before.state, Absent):
        return "created"
    return "deleted" if isinstance(touch.after.state, Absent) else "modified"


def _changes(touch: Touch, payloads: Payloads) -> tuple[int, int] | None:
    assert touch.after is not None
    before, after = _text(touch.before, payloads), _text(touch.after, payloads)
    if before is None or after is None:
        return None
    return (0, 0) if is_binary(before) or is_binary(after) else count_changes(before, after)


def _text(image: Image, payloads: Payloads) -> bytes | None:
    match image.state:
        case Absent() | Directory() | Link():
            return b""
        case Content(size=size) if size <= _COUNTED_BYTES and payloads.exists(image):
            return b"".join(payloads.chunks(image))
        case _:
            return None
