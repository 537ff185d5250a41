"""What to call who edited a file: the agent, a subagent, a task. Pure."""

from __future__ import annotations

from sessions.rewind.recorded import Touch
from sessions.rewind.timeline import Timeline

AGENT = "agent"
"""The author of edits that the agent of the session itself made."""


def named(touch: Touch, timeline: Timeline) -> str:
    """Return what to call the author of an edit that stays, as in "edited since by …"."""
    return _worker(touch.by, timeline) or "an earlier turn"


def named_in_run(touch: Touch, timeline: Timeline) -> str:
    """Return what to call the author of an edit that a run did not make."""
    turn = timeline.turns.get(touch.turn or 0)
    if turn is None:
        return "another agent"
    return _worker(touch.by, timeline) or (f"run {turn.run_id!r}" if turn.run_id else "another turn")


def _worker(author: str, timeline: Timeline) -> str | None:
    """Return a subagent or a task with its label; None where the author is neither."""
    task, child = timeline.tasks.get(author), timeline.children.get(author)
    label = task.label if task is not None else child.label if child is not None else None
    return f"{author} ({label})" if label else author if label is not None else None
