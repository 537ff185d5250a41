"""The lines that come back with an undo or redo, and those that came to the transcript meanwhile.

The removed tail comes back byte for byte; titles appended since, and notices of tasks that stay, stay behind it.
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from sessions.errors import ConflictError, DataError
from sessions.rewind.journal import Cut, Journal
from sessions.rewind.payloads import Payloads
from sessions.rewind.reversal import Reversal
from sessions.rewind.seam import seam_of
from sessions.rewind.splicing import Part, Splice
from sessions.rewind.timeline import Timeline
from sessions.rewind.told import notices_of
from sessions.transcript import blocks, codec, reader, rollback
from sessions.transcript.entry import Entry, Kind

_COMPARED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """A line that came.

    Attributes:
        raw: The line with its newline.
        of_a_turn: Whether it belongs to a turn.
        is_notice: Whether it says that a task ended, which may come at any moment.
    """

    raw: bytes
    of_a_turn: bool
    is_notice: bool


@dataclass(frozen=True, slots=True)
class Came:
    """What was appended to the transcript since the transaction.

    Attributes:
        inside: Lines of turns that stand among what the transaction itself put there and not among what it removed: an
            undo that removed a new turn was redone.
        lines: The lines behind.
        turns: The turns begun since whose prompts are among these lines: where these go, they do, with all they
            started.
    """

    inside: tuple[bytes, ...] = ()
    lines: tuple[Line, ...] = ()
    turns: frozenset[int] = frozenset()

    @property
    def messages(self) -> int:
        """How many of the lines behind belong to turns."""
        return sum(line.of_a_turn for line in self.lines)

    def is_only_told_more_than(self, earlier: Came) -> bool:
        """Tell whether nothing came behind ``earlier`` but titles and notices of tasks."""
        known = len(earlier.lines)
        more = (line for line in self.lines[known:] if line.of_a_turn and not line.is_notice)
        return (self.inside, self.lines[:known]) == (earlier.inside, earlier.lines) and not any(more)


class ReturningLines:
    """The conversation's half of the undos and redos of one session."""

    def __init__(self, path: Path, journal: Journal, payloads: Payloads) -> None:
        self._path = path
        self._journal = journal
        self._payloads = payloads

    def came_since(self, reversal: Reversal, timeline: Timeline) -> Came:
        """Say what was appended since; the notice of a task is a line of the turn that started it, where that came too.

        Raises:
            ConflictError: The transcript is not what the transaction left.
        """
        cut = reversal.record.cut
        if reversal.paths is not None:
            return Came()
        if cut is None:
            return self._came(reversal, [], self._entries(reversal.record.length), timeline)
        if not self._is_as_left(cut):
            raise ConflictError("the transcript was rewritten by another program since; nothing was changed")
        appended = cut.keep + (cut.tail.size or 0)
        inside = self._inside(reversal, cut) if reversal.kind == "undo" else []
        return self._came(reversal, inside, self._entries(appended), timeline)

    def _came(self, reversal: Reversal, inside: Sequence[Entry], behind: Sequence[Entry], timeline: Timeline) -> Came:
        turns = self._new_turns(reversal, {entry.id for entry in (*inside, *behind)}, timeline)
        notices = notices_of(turns, timeline)
        lines = tuple(
            Line(entry.raw + b"\n", reader.is_of_a_turn(entry) or entry.id in notices, blocks.is_notice(entry))
            for entry in behind
        )
        return Came(tuple(entry.raw + b"\n" for entry in inside), lines, turns)

    def _new_turns(self, reversal: Reversal, ids: Container[str | None], timeline: Timeline) -> frozenset[int]:
        """Return the turns begun since the rewind whose prompts came, and are not among what comes back.

        A compaction says prompts once more; and a turn that an undo kept comes back with the undo of the redo.
        """
        turns = [turn for turn in timeline.turns.values() if turn.seq > reversal.step.end and turn.message_id in ids]
        if turns and reversal.record.cut is not None:
            back = self._coming_back(reversal.record.cut)
            prompts = [turn.message_id.encode(errors="surrogatepass") for turn in turns]
            told = {codec.decode(line).id for line in back if any(prompt in line for prompt in prompts)}
            turns = [turn for turn in turns if turn.message_id not in told]
        return frozenset(turn.turn for turn in turns)

    def _coming_back(self, cut: Cut) -> set[bytes]:
        """Return the lines that the transaction removed, each without its newline."""
        return set(b"".join(self._payloads.chunks(cut.tails[0])).split(b"\n"))

    def _entries(self, start: int, end: int | None = None) -> list[Entry]:
        return [entry for _, entry in reader.read_entries(self._path, start, end)]

    def _inside(self, reversal: Reversal, cut: Cut) -> list[Entry]:
        """Return what of turns the transaction put there and did not remove."""
        there = self._entries(cut.keep, cut.keep + (cut.tail.size or 0))
        inside = [entry for entry in there if entry.kind in (Kind.MESSAGE, Kind.ROLLBACK)]
        if reversal.step.history == "hide":
            inside = rollback.without_event(inside, reversal.step.to)
        back = self._coming_back(cut) if inside else set()
        inside = [entry for entry in inside if entry.raw not in back]
        return [entry for entry in inside if not self._is_said_once_more(entry, cut.keep)]

    def _is_said_once_more(self, entry: Entry, keep: int) -> bool:
        """Tell whether a line is a notice that stands in front already, hidden by the transaction."""
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
        keeps = reversal.on_conflict == "keep"
        since = b"".join(came.inside) if keeps else b""
        since += b"".join(line.raw for line in came.lines if keeps or not line.of_a_turn)
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
