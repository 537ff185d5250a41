"""What a turn did to files, net: recorded when it ends, for lists."""

from __future__ import annotations

from collections.abc import Iterable

from sessions.rewind.lines import count_changes, is_binary
from sessions.rewind.payloads import Payloads
from sessions.rewind.plan import Status
from sessions.rewind.states import Absent, Content, Directory, Image, Link, same
from sessions.rewind.timeline import Touch

_COUNTED_BYTES = 2 << 20


def net(touches: Iterable[Touch], payloads: Payloads) -> dict[str, object]:
    """Return the files a turn changed and how many lines it added and removed.

    Returns:
        ``files`` (``path``, ``status``), ``insertions`` and ``deletions``; the counts are None where one is unknown.
    """
    listed: list[dict[str, object]] = []
    added: int | None = 0
    removed: int | None = 0
    for touch in touches:
        status = status_of(touch)
        if status is None:
            continue
        listed.append({"path": touch.path, "status": status})
        changes = _changes(touch, payloads)
        if changes is None:
            added = removed = None
        elif added is not None and removed is not None:
            added, removed = added + changes[0], removed + changes[1]
    return {"files": listed, "insertions": added, "deletions": removed}


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
