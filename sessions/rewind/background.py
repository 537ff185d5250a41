"""Which background work goes with a rewind: tasks that are stopped first, subagents whose sessions leave. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from sessions.rewind.needs import is_within
from sessions.rewind.options import Options
from sessions.rewind.plan import StoppedTask
from sessions.rewind.recorded import Step, Worker
from sessions.rewind.targets import Target
from sessions.rewind.timeline import Timeline
from sessions.subagents.family import below, working_in
from sessions.subagents.record import TaskRecord

Goes = Callable[[Worker], bool]
"""Tells whether a task, or the session of a subagent, goes."""


class Looking(Protocol):
    """Looks at tasks."""

    def to_stop(self, tasks: Iterable[TaskRecord]) -> list[TaskRecord]:
        """Return those of the tasks of which something is still there."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What was stopped for a plan.

    Attributes:
        tasks: The tasks.
        children: The ids of the subagents' sessions that were open in this process and were ended.
        settled: The ids of the tasks that had ended by themselves, and whose end was recorded only now.
    """

    tasks: tuple[StoppedTask, ...] = ()
    children: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was."""
        return not (self.tasks or self.children or self.settled)


NOTHING_STOPPED = Stopped()


@dataclass(frozen=True, slots=True)
class Background:
    """What of the background goes.

    Attributes:
        tasks: The tasks of which something is still there: they are stopped first.
        children: The ids of the subagents' sessions that end with it.
        ended: The other tasks that go: they end by themselves, and maybe nobody recorded it.
        leaving: Those whose transcripts leave too.
        authors: Whose edits are not over before the tasks are stopped, or not on record yet.
    """

    tasks: tuple[TaskRecord, ...] = ()
    children: tuple[str, ...] = ()
    ended: tuple[TaskRecord, ...] = ()
    leaving: tuple[str, ...] = ()
    authors: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to stop, to end or to settle."""
        return not (self.tasks or self.children or any(task.ended is None for task in self.ended))

    @property
    def to_be_stopped(self) -> tuple[StoppedTask, ...]:
        """The tasks, as a plan has them."""
        return tuple(StoppedTask(task.id, task.label) for task in self.tasks)

    def with_stopped(self, stopped: Stopped, timeline: Timeline) -> Background:
        """Return it with the edits of all that turned out to belong to it when it was stopped."""
        ids = [*(task.id for task in stopped.tasks), *stopped.settled]
        tasks = [timeline.tasks[task] for task in ids if task in timeline.tasks]
        late = [*(task.id for task in tasks), *working_in(tasks, timeline)]
        return replace(self, authors=self.authors.union(late, stopped.children))

    @property
    def where(self) -> frozenset[str]:
        """The files and directories that the tasks may change, as they were declared."""
        return frozenset(path for task in (*self.tasks, *self.ended) if task.ended is None for path in task.edits)

    def edited_by_it(self, timeline: Timeline) -> frozenset[str]:
        """Return the paths that the tasks, and the subagents they may be, edited; and what lies where they edit."""
        return _edited(self.authors, self.where, timeline)

    def still_edited(self, timeline: Timeline) -> frozenset[str]:
        """Return those of them that are edited until the tasks are stopped."""
        authors = frozenset([*(task.id for task in self.tasks), *working_in(self.tasks, timeline)])
        where = frozenset(path for task in self.tasks if task.ended is None for path in task.edits)
        return _edited(authors, where, timeline)


def _edited(authors: frozenset[str], where: frozenset[str], timeline: Timeline) -> frozenset[str]:
    return frozenset(
        touch.path
        for touch in timeline.touches
        if not authors.isdisjoint(touch.authors) or is_within(touch.path, where)
    )


def background(timeline: Timeline, goes: Goes | None, looking: Looking, *, leaves: bool) -> Background:
    """Return what of the background goes.

    Args:
        goes: Says what does; None: nothing.
        leaves: Whether the conversation it belongs to is removed from the transcript.
    """
    if goes is None:
        return Background()
    going = [task for task in timeline.tasks.values() if goes(task)]
    tasks = looking.to_stop(going)
    ended = tuple(task for task in going if task not in tasks)
    children = tuple(child.id for child in timeline.children.values() if goes(child))
    unsettled = [*tasks, *(task for task in ended if task.ended is None)]
    authors = frozenset([*(task.id for task in unsettled), *working_in(unsettled, timeline)])
    return Background(tuple(tasks), children, ended, children if leaves else (), authors)


def staying(timeline: Timeline, goes: Goes | None, looking: Looking) -> list[TaskRecord]:
    """Return the tasks that run on and may change files meanwhile."""
    tasks = [task for task in timeline.tasks.values() if task.edits and task.ended is None]
    stays = [task for task in tasks if goes is None or not goes(task)]
    return looking.to_stop(stays) if stays else []


def of_target(target: Target, options: Options, timeline: Timeline) -> Goes | None:
    """Return what goes with a rewind to a place: all that was started from there on, whatever its scope.

    Only a fork of the conversation alone leaves it: it leaves this session as it is.
    """
    if options.history == "fork" and options.scope == "conversation":
        return None
    if options.run is not None:
        turns = timeline.turns_of_run(options.run)
        return lambda worker: worker.turn in turns and (worker.seq, 0, 0, 0) >= target.order
    return target.span(timeline).ends


def of_turns(turns: Container[int]) -> Goes:
    """Return what goes with turns that leave: all they started."""
    return lambda worker: worker.turn in turns


def of_session(session: str, timeline: Timeline) -> Goes:
    """Return what goes with a session: all that it, and the subagents' sessions below it, started."""
    sessions = below(session, timeline)
    started_there = {task.id for task in timeline.tasks.values() if task.session in sessions}
    ids = started_there | (sessions - {session})
    return lambda worker: worker.id in ids


def of_redo(step: Step, timeline: Timeline) -> Goes | None:
    """Return what goes when a rewind is repeated: what it took back, and nothing that was begun since."""
    span = timeline.taken_by(step)
    return span.ends if span is not None else None
