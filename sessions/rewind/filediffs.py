"""What changed, as patches: reads the bytes of each file when it is its turn, and keeps none."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from sessions.rewind.changes import NetChange, Part
from sessions.rewind.diff import FileDiff
from sessions.rewind.moves import with_moves
from sessions.rewind.payloads import Payloads
from sessions.rewind.states import Absent, Content, Directory, Image, Link, OverLimit, Unreadable
from sessions.rewind.unified import NO_FILE, Patch, Side, patch
from sessions.rewind.worktree import OutsideError, Worktree

MOST_BYTES = 16 << 20
"""A larger file is shown by size and hash."""
_IN_BETWEEN = b"somebody else changed this file here; what follows is what the agent did to it after that\n"
"""Between two patches of one file. git skips what is no patch; it must not begin like a line of one."""

_FILE, _LINK = 0o100000, 0o120000


@dataclass(frozen=True, slots=True)
class Contents:
    """The bytes of images.

    Attributes:
        live: Where in the worktree contents are that nobody kept, by their SHA-256.
    """

    payloads: Payloads
    worktree: Worktree
    live: Mapping[str, str] = field(default_factory=dict)

    def of(self, image: Image) -> bytes | None:
        """Return a file's bytes, or a link's target; None where they are too many, lost, or not the recorded ones."""
        match image.state:
            case Link(target):
                return os.fsencode(target)
            case Content(sha256, size, _) if size <= MOST_BYTES:
                content = self._read(image, sha256, size)
                return content if content is not None and hashlib.sha256(content).hexdigest() == sha256 else None
            case _:
                return None

    def _read(self, image: Image, sha256: str, size: int) -> bytes | None:
        try:
            if image.payload is not None:
                return b"".join(self.payloads.chunks(image))
            if sha256 not in self.live:
                return None
            with self.worktree.reading(self.live[sha256]) as fd, open(fd, "rb", closefd=False) as file:
                return file.read(size + 1)
        except (OSError, OutsideError):
            return None


@dataclass(frozen=True, slots=True)
class FileDiffs:
    """The files of a diff: each pass reads them anew and keeps none."""

    changes: Sequence[NetChange]
    contents: Contents
    shown: Callable[[str], str]

    def __iter__(self) -> Iterator[FileDiff]:
        changes = with_moves(self.changes, self.contents.of)
        for change in sorted(changes, key=lambda change: self.shown(change.path)):
            yield self._file(change)

    def _file(self, change: NetChange) -> FileDiff:
        moved_from = self.shown(change.moved_from) if change.moved_from is not None else None
        path = self.shown(change.path)
        total = Patch(b"")
        for part in change.parts:
            patched = self._patch(path, part, moved_from, change.similarity)
            total += replace(patched, raw=_IN_BETWEEN + patched.raw) if total.raw and patched.raw else patched
        return FileDiff(
            path=path,
            status=change.status,
            text=total.raw.decode("utf-8", "surrogateescape"),
            insertions=total.insertions,
            deletions=total.deletions,
            binary=total.binary,
            by=change.parts[-1].by,
            moved_from=moved_from,
            unverified=change.unverified,
            applies=total.applies,
        )

    def _patch(self, path: str, part: Part, moved_from: str | None, similarity: int) -> Patch:
        if part.after is None:
            return Patch(b"", None, None)
        old, new = self._side(part.before), self._side(part.after)
        if old.content is None and new.content is None and _digest(part.before) == _digest(part.after) is not None:
            old, new = replace(old, content=b""), replace(new, content=b"")
        return patch(path, old, new, moved_from=moved_from, similarity=similarity)

    def _side(self, image: Image) -> Side:
        match image.state:
            case Absent() | Directory():
                return NO_FILE
            case Link():
                return Side(_LINK, self.contents.of(image))
            case Content(sha256, size, mode):
                content = self.contents.of(image)
                kept = "" if content is not None or size > MOST_BYTES else ", not kept"
                facts = f"{size} bytes, sha256 {sha256[:16]}{kept}" if sha256 else "lost"
                return Side(_FILE | mode, content, facts)
            case OverLimit(size, mode):
                return Side(_FILE | mode, None, f"{size} bytes, not captured")
            case Unreadable():
                return Side(None, None, "could not be read")
        assert_never(image.state)


def _digest(image: Image) -> str | None:
    return image.state.sha256 or None if isinstance(image.state, Content) else None
