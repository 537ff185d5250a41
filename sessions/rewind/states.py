"""What a path can be. Six different things, because mistaking one for another deletes somebody's file.

"Did not exist", "was empty", "could not be read", "is a directory", "is a link" and "over the limit" are told apart by
type; ``match`` with ``assert_never`` keeps every reader honest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing has this name."""


@dataclass(frozen=True, slots=True)
class Content:
    """A regular file. ``sha256`` in hexadecimal digits, ``size`` in bytes, ``mode`` the permission bits (07777)."""

    sha256: str
    size: int
    mode: int


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory and the permission bits (07777) of it, not what is in it."""

    mode: int


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link; ``target`` as the system spells it (undecodable bytes as surrogates)."""

    target: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """There is something, and it could not be read, or is neither file, directory nor link; ``why`` says so."""

    why: str


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A regular file larger than what is captured."""

    size: int
    mode: int


FileState = Absent | Content | Directory | Link | Unreadable | OverLimit


def same(one: FileState, other: FileState) -> bool:
    """Tell whether two states are the same file. What could not be read, or was not captured, is never the same."""
    match one:
        case Absent() | Content() | Link() | Directory():
            return one == other
        case Unreadable() | OverLimit():
            return False
    assert_never(one)


def to_record(state: FileState) -> dict[str, object]:
    """Return the state as plain data for a record; ``from_record(to_record(s)) == s``."""
    match state:
        case Absent():
            return {"is": "absent"}
        case Content(sha256, size, mode):
            return {"is": "content", "sha256": sha256, "size": size, "mode": mode}
        case Directory(mode):
            return {"is": "directory", "mode": mode}
        case Link(target):
            return {"is": "link", "target": target}
        case Unreadable(why):
            return {"is": "unreadable", "why": why}
        case OverLimit(size, mode):
            return {"is": "over_limit", "size": size, "mode": mode}
    assert_never(state)


def from_record(record: object) -> FileState:
    """Return the state a record describes.

    Raises:
        ValueError: It describes none.
    """
    match record:
        case {"is": "absent"}:
            return Absent()
        case {"is": "content", "sha256": str(sha256), "size": int(size), "mode": int(mode)} if _sane(size, mode):
            return Content(sha256, size, mode)
        case {"is": "directory", "mode": int(mode)} if _sane(0, mode):
            return Directory(mode)
        case {"is": "link", "target": str(target)} if target and "\0" not in target:
            return Link(target)
        case {"is": "unreadable", "why": str(why)}:
            return Unreadable(why)
        case {"is": "over_limit", "size": int(size), "mode": int(mode)} if _sane(size, mode):
            return OverLimit(size, mode)
        case _:
            raise ValueError(f"not a file state: {record!r}"[:200])


@dataclass(frozen=True, slots=True)
class Payload:
    """Where bytes lie: ``size`` bytes from ``offset`` of a file; its path is relative to the sidecar, or absolute."""

    file: str
    offset: int = 0
    size: int | None = None

    def to_record(self) -> dict[str, object]:
        """Return plain data; ``payload_from(p.to_record()) == p``."""
        return {"file": self.file, "offset": self.offset, "size": self.size}


def payload_from(record: object) -> Payload | None:
    """Return the payload a record describes, None where it describes none."""
    match record:
        case {"file": str(file), "offset": int(offset), "size": (int() | None) as size} if (
            _sane(offset, 0) and _sane(size or 0, 0) and ".." not in file.split("/") and "\0" not in file
        ):
            return Payload(file, offset, size)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Image:
    """A state, and where its bytes are kept; ``payload`` is None for anything but kept content."""

    state: FileState
    payload: Payload | None = None

    def to_record(self) -> dict[str, object]:
        """Return plain data; ``image_from(i.to_record()) == i``."""
        return {"state": to_record(self.state), "payload": self.payload.to_record() if self.payload else None}


def image_from(record: Mapping[str, object]) -> Image:
    """Return the image a record holds.

    Raises:
        ValueError: It holds none.
    """
    if not isinstance(record, Mapping):
        raise ValueError("not an image")
    return Image(from_record(record.get("state")), payload_from(record.get("payload")))


def _sane(size: int, mode: int) -> bool:
    return 0 <= size < 1 << 63 and 0 <= mode <= 0o7777
