"""The lines that come back with an undo or redo, and those that came to the transcript meanwhile.

The removed tail comes back byte for byte; titles appended since, and notices of tasks that stay, stay behind it.
"""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from sessions.errors import ConflictError, DataError
from sessions.rewind.journal import Cut, Journal
from sessions.rewind.payloads import Payloads
from sessions.rewind.reversal import Reversal
from sessions.rewind.seam import seam_of
from sessions.rewind.splicing import Part, Splice
from sessions.transcript import blocks, codec, reader, rollback

_COMPARED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Came:
    """What was appended to the transcript since the transaction.

    Attributes:
        inside: Lines of turns that stand among what the transaction itself put there and not among what it removed: an
            undo that removed a new turn was redone.
        lines: The lines behind, each with whether it belongs to a turn.
    """

    inside: tuple[bytes, ...] = ()
    lines: tuple[tuple[bytes, bool], ...] = ()

    @property
    def messages(self) -> int:
        """How many of the lines belong to turns."""
        return sum(of_a_turn for _, of_a_turn in self.lines)

    def is_only_told_more_than(self, earlier: Came) -> bool:
        """Tell whether nothing came behind ``earlier`` but titles and notices of tasks."""
        known = len(earlier.lines)
        more = self.lines[known:]
        return (self.inside, self.lines[:known]) == (earlier.inside, earlier.lines) and not any(of for _, of in more)


class ReturningLines:
    """The conversation's half of the undos and redos of one session."""

    def __init__(self, path: Path, journal: Journal, payloads: Payloads) -> None:
        self._path = path
        self._journal = journal
        self._payloads = payloads

    def came_since(self, reversal: Reversal, *, notices: Container[str]) -> Came:
        """Say what was appended since.

        Args:
            notices: The ids of the notices that belong to turns begun since.

        Raises:
            ConflictError: The transcript is not what the transaction left.
        """
        cut = reversal.record.cut
        if reversal.paths is not None:
            return Came()
        if cut is None:
            return Came(lines=tuple(reader.lines_since(self._path, reversal.record.length, of_turns=notices)))
        if not self._is_as_left(cut):
            raise ConflictError("the transcript was rewritten by another program since; nothing was changed")
        appended = cut.keep + (cut.tail.size or 0)
        inside: list[bytes] = []
        if reversal.kind == "undo":
            there = reader.lines_since(self._path, cut.keep, appended, of_turns=None)
            inside = [line for line, of_a_turn in there if of_a_turn]
            if reversal.step.history == "hide":
                inside = rollback.without_event(inside, reversal.step.to)
        if inside:
            comes_back = set(b"".join(self._payloads.chunks(cut.tails[0])).split(b"\n"))
            inside = [line for line in inside if line.removesuffix(b"\n") not in comes_back]
            inside = [line for line in inside if not self._is_said_once_more(line, cut.keep)]
        return Came(tuple(inside), tuple(reader.lines_since(self._path, appended, of_turns=notices)))

    def _is_said_once_more(self, line: bytes, keep: int) -> bool:
        """Tell whether a line is a notice that stands in front already, hidden by the transaction."""
        entry = codec.decode(line.removesuffix(b"\n"))
        if entry.id is None or not blocks.is_notice(entry):
            return False
        first = reader.place_of(self._path, entry.id)
        return first is not None and first < keep

    def splice(self, reversal: Reversal, came: Came) -> Splice | None:
        """Return what brings the lines back; None where none were removed.

        Raises:
            DataError: They are damaged or gone.
        """
        cut = reversal.record.cut
        if cut is None:
            return None
        if not self._payloads.intact(cut.tails[0]):
            raise DataError("what the rewind removed from the transcript is damaged or gone; nothing was changed")
        removed = cut.removed.size or 0
        stage = str(self._journal.sidecar / cut.removed.file)
        lines = [*((line, True) for line in came.inside), *came.lines]
        since = b"".join(line for line, of_a_turn in lines if not of_a_turn or reversal.on_conflict == "keep")
        parts: list[Part] = [(stage, cut.removed.offset, removed)]
        if since:
            parts.append(b"" if self._ends_line(stage, cut.removed.offset + removed, removed) else b"\n")
            parts.append(since)
        return Splice(cut.keep, tuple(parts))

    def _is_as_left(self, cut: Cut) -> bool:
        """Tell, from the bytes around it, whether the place where the transaction cut is still that place."""
        appended = cut.tail.size or 0
        compared = min(appended, _COMPARED_BYTES)
        try:
            with (
                open(self._path, "rb") as transcript,
                open(self._journal.sidecar / cut.tail.file, "rb") as staged,
            ):
                if os.fstat(transcript.fileno()).st_size < cut.keep + appended:
                    return False
                if seam_of(transcript, cut.keep) != cut.seam:
                    return False
                transcript.seek(cut.keep + appended - compared)
                staged.seek(cut.tail.offset + appended - compared)
                return transcript.read(compared) == staged.read(compared)
        except OSError as error:
            raise DataError(f"what the rewind removed cannot be read: {error}") from error

    def _ends_line(self, stage: str, end: int, size: int) -> bool:
        if not size:
            return True
        with open(stage, "rb") as staged:
            staged.seek(end - 1)
            return staged.read(1) == b"\n"
