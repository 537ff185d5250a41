"""The words of a diff. Plain values, no I/O: whoever makes a diff puts into ``files`` what streams it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from sessions.rewind.plan import Gap

DiffStatus = Literal["created", "modified", "deleted", "moved"]


@dataclass(frozen=True, slots=True)
class FileDiff:
    r"""What the agent did to one file, net.

    Attributes:
        path: As shown to people: relative to the workdir where it lies inside, else absolute.
        status: ``created``, ``modified`` (its mode alone, too), ``deleted``, or ``moved`` and perhaps changed.
        text: The patch. Bytes that are not UTF-8 are surrogate escapes: ``text.encode("utf-8", "surrogateescape")``
            are its bytes. Where somebody else changed the file between two edits it is two patches, with a line between
            them that says so. Empty where nobody knows how the file ended up.
        insertions: Lines added, as many as ``text`` shows; None where they are unknown (too large, lost, not captured).
        deletions: Lines removed, likewise. Binary files have no lines.
        binary: Whether it is not text; ``text`` then has sizes and hashes.
        by: Who made the last edit of it: ``agent``, a subagent, or ``rewind``, ``undo``, ``redo``.
        moved_from: Where a moved file was; None for others.
        unverified: Whether nobody recorded what an edit left: the state recorded next, if there is one, stands in.
        applies: Whether ``git apply`` takes the patch. It refuses one of a file that is binary, too large to be shown
            line by line, or no longer kept, and with it all that is piped along.
    """

    path: str
    status: DiffStatus
    text: str
    insertions: int | None
    deletions: int | None
    binary: bool
    by: str
    moved_from: str | None = None
    unverified: bool = False
    applies: bool = True

    def to_json(self) -> dict[str, object]:
        """Return ``{"path", "moved_from", "status", "diff", "insertions", "deletions", "binary", "by", …}``."""
        return {
            "path": self.path,
            "moved_from": self.moved_from,
            "status": self.status,
            "diff": self.text,
            "insertions": self.insertions,
            "deletions": self.deletions,
            "binary": self.binary,
            "by": self.by,
            "unverified": self.unverified,
        }


@dataclass(frozen=True, slots=True)
class Diff:
    """What the agent did to files, net, and what of its doings is not in it.

    Attributes:
        files: Sorted by path. Each pass over it reads the snapshots again, one file at a time, and keeps none.
        gaps: What was not captured, so that ``files`` cannot show it.
    """

    files: Iterable[FileDiff] = field(repr=False)
    gaps: tuple[Gap, ...] = ()
