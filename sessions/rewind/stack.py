"""The undo stack: what is on it, and which of it an undo or a redo would take. Pure."""

from __future__ import annotations

from sessions import clock
from sessions.errors import ConflictError, NotFoundError, NothingToUndoError, RequestError
from sessions.rewind.plan import RewindRecord, RewindState
from sessions.rewind.recorded import Step
from sessions.rewind.targets import written
from sessions.rewind.timeline import Timeline


def described(step: Step, timeline: Timeline) -> RewindRecord:
    """Return a rewind as the public API has it, without its prompt."""
    mark = next((mark for mark in timeline.marks if mark.seq == step.mark), None)
    return RewindRecord(
        step.rewind,
        step.to,
        step.scope,
        clock.parse(step.at),
        _state_of(step, timeline),
        step.run,
        step.history,
        written(mark, timeline) if mark is not None else None,
        of=step.of,
    )


def _state_of(step: Step, timeline: Timeline) -> RewindState:
    return "pruned" if step.record in timeline.pruned_records else step.state


def why_nothing(timeline: Timeline, kind: str) -> str:
    """Say that there would be something, had the limits not removed it, or what came since not ended it."""
    state = "done" if kind == "undo" else "undone"
    steps = [step for step in timeline.steps if step.state == state]
    if any(step.record in timeline.pruned_records for step in steps):
        return "the undo data of earlier rewinds was removed by the limits"
    if not steps or kind == "undo":
        return ""
    if max(steps, key=lambda step: step.seq).rewind in timeline.expired:
        return "a turn or a rewind came since"
    return "a task, a subagent or an edit was begun since in what it takes back"


def check_newest(timeline: Timeline, rewind_id: str, step: Step | None, kind: str) -> None:
    """Refuse a rewind that is not ``step``, the one whose turn it is.

    Raises:
        NotFoundError: There is no such rewind.
        NothingToUndoError: The limits removed what it takes.
        RequestError: It is undone, or in place, already.
        ConflictError: Later ones come first.
    """
    if not any(each.rewind == rewind_id for each in timeline.steps):
        raise NotFoundError("rewind", rewind_id)
    if any(each.rewind == rewind_id and each.record in timeline.pruned_records for each in timeline.steps):
        raise NothingToUndoError(kind, f"the undo data of rewind {rewind_id} was removed by the limits")
    if step is None or step.rewind != rewind_id:
        state = next(each.state for each in timeline.steps if each.rewind == rewind_id)
        if (state == "undone") == (kind == "undo"):
            raise RequestError(f"rewind {rewind_id} is already {'undone' if kind == 'undo' else 'in place'}")
        if step is None:
            raise NothingToUndoError(kind, why_nothing(timeline, kind))
        raise ConflictError(f"rewind {rewind_id} is not the newest; {kind} the later ones first")
