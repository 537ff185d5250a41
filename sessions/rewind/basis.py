"""What a plan was made from, and whether it still describes what is there. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sessions.errors import StaleError
from sessions.rewind.background import Background, Stopped
from sessions.rewind.files_plan import FilesPlan
from sessions.rewind.needs import is_within
from sessions.rewind.plan import Plan
from sessions.rewind.policy import refuse_changed_files
from sessions.rewind.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Basis:
    """What the plan of a rewind, an undo or a redo was made from.

    Attributes:
        files: What would be done to every path.
        background: What of the background goes with it.
        seq: The number the timeline's next record had then.
    """

    files: FilesPlan
    background: Background
    seq: int

    def is_of_now(self, timeline: Timeline) -> bool:
        """Tell whether nothing was recorded since, and nothing may change files that is not recorded yet."""
        return self.background.is_empty and self.seq == timeline.next_seq


def planned_work(plan: Plan) -> Background:
    """Return what of the background goes with a plan, as it was planned."""
    assert isinstance(plan.basis, Basis)
    return plan.basis.background


def refuse_other_files(
    given: Basis, fresh: Basis, timeline: Timeline, shown: Callable[[str], str], *, stopped: Stopped
) -> None:
    """Refuse a plan where files are not as they were, but for what the work did that was stopped for it.

    Raises:
        StaleError: There is such a file.
    """
    background = given.background.with_stopped(stopped, timeline)
    changes = (*given.files.changes, *fresh.files.changes)
    appearing = {change.path for change in changes if is_within(change.path, background.where)}
    stopping = background.edited_by_it(timeline) | appearing
    refuse_changed_files(given.files, fresh.files, shown, stopping=stopping)


def refuse_other_tasks(given: Plan, fresh: Plan) -> None:
    """Refuse a plan that would stop others now; one that ended by itself is nothing to ask about.

    Raises:
        StaleError: Tasks started since.
    """
    if {task.id for task in fresh.tasks} - {task.id for task in given.tasks}:
        raise StaleError("background tasks started since")
