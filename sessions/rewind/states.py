"""What a path can be. Six different things, because mistaking one for another deletes somebody's file.

"Did not exist", "was empty", "could not be read", "is a directory", "is a link" and "over the limit" are told apart by
type; ``match`` with ``assert_never`` keeps every reader honest.
"""

from __future__ import annotations

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
    """A directory. Two are the same whatever their mode; a new one gets it."""

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
        case Absent() | Content() | Link():
            return one == other
        case Directory():
            return isinstance(other, Directory)
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
        case {"is": "content", "sha256": str(sha256), "size": int(size), "mode": int(mode)}:
            return Content(sha256, size, mode)
        case {"is": "directory", "mode": int(mode)}:
            return Directory(mode)
        case {"is": "link", "target": str(target)}:
            return Link(target)
        case {"is": "unreadable", "why": str(why)}:
            return Unreadable(why)
        case {"is": "over_limit", "size": int(size), "mode": int(mode)}:
            return OverLimit(size, mode)
        case _:
            raise ValueError(f"not a file state: {record!r}"[:200])
