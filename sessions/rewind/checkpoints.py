"""The turns one can go back to, with what each did to files."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from sessions import clock
from sessions.errors import RequestError
from sessions.rewind.counting import LineCounter
from sessions.rewind.filediffs import Contents
from sessions.rewind.net import net
from sessions.rewind.ongoing import AsOfNow
from sessions.rewind.plan import Checkpoint, Gap, Mark, Status, TouchedFile
from sessions.rewind.recorded import Touch, TurnSummary
from sessions.rewind.targets import mark_from
from sessions.rewind.timeline import Timeline
from sessions.transcript import reader
from sessions.transcript.outline import ForeignSnapshot, Outline

Shown = Callable[[str], str]


def checkpoints(
    outline: Outline,
    timeline: Timeline,
    now: AsOfNow,
    contents: Contents,
    *,
    identify: Callable[[str], str],
    shown: Shown,
) -> list[Checkpoint]:
    """Return the checkpoints, oldest first. Opens the transcript only for prompts too long for the outline.

    Args:
        outline: A deep one.
        now: The timeline's touches, with what is being edited as it is now.
        contents: Asked where a turn was never ended (it is open, or a crash or a rewind to a mark left a part of it),
            or something of it is being edited.
        identify: Turns a path another agent wrote into an identity.
        shown: Spells an identity for people.
    """
    turns = {turn.message_id: turn for turn in timeline.turns.values()}
    gaps: dict[int, list[Gap]] = {}
    for _seq, number, gap in timeline.gaps:
        gaps.setdefault(number, []).append(replace(gap, paths=tuple(shown(path) for path in gap.paths)))
    marks: dict[int, list[Mark]] = {}
    for mark in timeline.marks:
        marks.setdefault(mark.turn, []).append(mark_from(mark))
    unsummarised: dict[int, list[Touch]] = {}
    for touch in now.touches:
        if touch.turn is not None and (touch.turn not in timeline.summaries or touch.turn in now.turns):
            unsummarised.setdefault(touch.turn, []).append(touch)
    snapshots = [snapshot.offset for snapshot in outline.snapshots]
    counter, contents = LineCounter(), replace(contents, live=now.live)
    listed: list[Checkpoint] = []
    for place, prompt in enumerate(outline.prompts):
        last = place + 1 == len(outline.prompts)
        end = outline.size if last else outline.prompts[place + 1].offset
        turn = turns.get(prompt.id)
        checkpoint = Checkpoint(
            id=prompt.id,
            index=place + 1,
            prompt=reader.read_prompt(outline.path, prompt),
            timestamp=clock.parse(prompt.timestamp) if prompt.timestamp else None,
            before_compaction=bool(outline.compactions) and prompt.id not in outline.in_view,
            compacted=_any_in(outline.compactions, prompt.offset, end),
            gaps=tuple(gaps.get(turn.turn, ())) if turn else (),
            marks=tuple(marks.get(turn.turn, ())) if turn else (),
            run_id=turn.run_id if turn else None,
        )
        if turn is not None:
            summary = timeline.summaries.get(turn.turn)
            if turn.turn in unsummarised:
                summary = net(unsummarised[turn.turn], contents.of, counter)
            checkpoint = _with_files(checkpoint, summary, shown) if summary is not None else checkpoint
        foreign = outline.snapshots[bisect_left(snapshots, prompt.offset) : bisect_left(snapshots, end)]
        listed.append(_with_foreign(checkpoint, foreign, identify, shown))
    return listed


def _with_files(checkpoint: Checkpoint, summary: TurnSummary, shown: Shown) -> Checkpoint:
    files = tuple(sorted((TouchedFile(shown(each.path), each.status) for each in summary.files), key=_path))
    return replace(checkpoint, files=files, insertions=summary.insertions, deletions=summary.deletions)


def _with_foreign(
    checkpoint: Checkpoint, snapshots: Sequence[ForeignSnapshot], identify: Callable[[str], str], shown: Shown
) -> Checkpoint:
    if not snapshots:
        return checkpoint
    known: dict[str, Status] = {each.path: each.status for each in checkpoint.files}
    for snapshot in snapshots:
        status: Status = {"create": "created", "delete": "deleted"}.get(snapshot.operation, "modified")  # type: ignore[assignment]
        try:
            path = shown(identify(snapshot.path))
        except RequestError:  # no file of this system
            path = snapshot.path
        known.setdefault(path, status)
    files = tuple(TouchedFile(path, status) for path, status in sorted(known.items()))
    return replace(checkpoint, files=files, insertions=None, deletions=None)


def _any_in(offsets: Sequence[int], start: int, end: int) -> bool:
    return bisect_left(offsets, start) < bisect_left(offsets, end)


def _path(file: TouchedFile) -> str:
    return file.path
