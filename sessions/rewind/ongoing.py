"""What is being edited right now, as it is now: nobody has recorded yet what the edit will leave.

Only a writer that still works has such an edit: the turn the host has open, a task, a subagent. Where none has, nothing
is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sessions.rewind.background import Looking
from sessions.rewind.capturing import is_newer
from sessions.rewind.changes import is_known
from sessions.rewind.examining import Identity, identity_from
from sessions.rewind.recorded import Touch
from sessions.rewind.states import Absent, Content, Image, Unreadable, same
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree
from sessions.subagents.family import working_in
from sessions.subagents.record import TaskRecord


class LookingBack(Looking, Protocol):
    """Looks at tasks, also at those that ended."""

    def ended_ns(self, task: TaskRecord) -> int:
        """Return when a task ended, as the system stamps files; 0 where nobody wrote it down."""


@dataclass(frozen=True, slots=True)
class AsOfNow:
    """Touches, with what was being edited as it is now.

    Attributes:
        touches: In timeline order; those of the timeline, and what appeared where a task may make files.
        live: Where in the worktree contents are that nobody kept, by their SHA-256.
        turns: The turns of which that says more than is on record.
    """

    touches: Sequence[Touch]
    live: Mapping[str, str] = field(default_factory=dict)
    turns: frozenset[int | None] = frozenset()


class Ongoing:
    """Looks at what is being edited.

    Args:
        limit_bytes: A larger file is not read.
    """

    def __init__(self, worktree: Worktree, looking: LookingBack, *, limit_bytes: int) -> None:
        self._worktree = worktree
        self._looking = looking
        self._limit_bytes = limit_bytes

    def as_of_now(
        self, touches: Sequence[Touch], timeline: Timeline, *, is_open: Callable[[str], bool], turn: int | None = None
    ) -> AsOfNow:
        """Return touches with what work edits as it is now; also what work left that nobody settled yet.

        Args:
            touches: All live ones, in timeline order.
            is_open: Tells whether the session of a subagent is open in this process.
            turn: The turn the host has open: what it edited is as it is now.
        """
        found = self._of_work(touches, timeline, is_open)
        return found if turn is None else self._of_turn(found, turn)

    def as_left(self, touches: Sequence[Touch], timeline: Timeline, tasks: Sequence[TaskRecord]) -> Sequence[Touch]:
        """Return touches with what ended tasks, and the subagents in them, left, as settling them will record it.

        Args:
            tasks: Those that ended and are not settled.
        """
        ends = {task: self._looking.ended_ns(task) or None for task in tasks}
        by = {author: end for task, end in ends.items() for author in (task.id, *working_in([task], timeline))}
        last = {touch.path: place for place, touch in enumerate(touches)}
        now = list(touches)
        for place in last.values():
            if touches[place].after is None and touches[place].by in by:
                now[place] = self._touch_now(touches[place], by[touches[place].by])
        now += self._appeared({task: end for task, end in ends.items() if task.edits}, timeline, last.keys())
        return now

    def _of_work(self, touches: Sequence[Touch], timeline: Timeline, is_open: Callable[[str], bool]) -> AsOfNow:
        last = {touch.path: place for place, touch in enumerate(touches)}  # what follows says what an earlier one left
        opened = [place for place in last.values() if touches[place].after is None and touches[place].is_of_work]
        making = [task for task in timeline.tasks.values() if task.edits and task.ended is None]
        if not opened and not making:
            return AsOfNow(touches)
        unsettled = [task for task in timeline.tasks.values() if task.ended is None]
        there = self._looking.to_stop(unsettled)
        ends = {task.id: self._looking.ended_ns(task) for task in unsettled if task not in there}
        working = {*(task.id for task in there), *working_in(there, timeline)}
        now = list(touches)
        for place in opened:
            by = touches[place].by
            known_until = None if by in working or is_open(by) else ends.get(by, 0)
            now[place] = self._touch_now(touches[place], known_until)
        now += self._appeared({task: ends.get(task.id) for task in making}, timeline, last.keys())
        changed = [*(now[place] for place in opened if now[place].after is not None), *now[len(touches) :]]
        return AsOfNow(now, _live(changed), frozenset(touch.turn for touch in changed))

    def _touch_now(self, touch: Touch, known_until: int | None) -> Touch:
        """Return a touch with what its writer left.

        Args:
            known_until: When that ended: what is newer somebody else did; None: it still works.
        """
        if not is_known(touch.before.state):
            return touch
        state, _ = self._worktree.examine(touch.path, limit_bytes=self._limit_bytes)
        as_before = same(state, touch.before.state)
        if isinstance(state, Unreadable) or not (as_before or not is_newer(touch.path, known_until)):
            return touch
        return replace(touch, after=touch.before if as_before else Image(state))

    def _appeared(
        self, tasks: Mapping[TaskRecord, int | None], timeline: Timeline, known: Iterable[str]
    ) -> Iterator[Touch]:
        """Yield what is there now where tasks may make files, and was not when they began; with when they ended."""
        seen = set(known)
        for place, (task, path) in enumerate(appeared(self._worktree, tasks, lambda _, path: path in seen)):
            if is_newer(path, tasks[task]):
                continue
            state, _ = self._worktree.examine(path, limit_bytes=self._limit_bytes)
            order = (timeline.next_seq, 0, 0, place)
            yield Touch(order, task.turn, path, Image(Absent()), Image(state), task.id, authors=(task.id,))

    def _of_turn(self, found: AsOfNow, turn: int) -> AsOfNow:
        last = {touch.path: place for place, touch in enumerate(found.touches) if touch.turn == turn}
        now = list(found.touches)
        changed: list[Touch] = []
        for path, place in last.items():
            state, _ = self._worktree.examine(path, known=_known(now[place]))
            recorded = now[place].after
            if isinstance(state, Unreadable) or (recorded is not None and same(state, recorded.state)):
                continue
            now[place] = replace(now[place], after=Image(state))
            changed.append(now[place])
        return AsOfNow(now, {**found.live, **_live(changed)}, found.turns | {touch.turn for touch in changed})


def appeared(
    worktree: Worktree, tasks: Iterable[TaskRecord], is_known: Callable[[TaskRecord, str], bool]
) -> Iterator[tuple[TaskRecord, str]]:
    """Yield what lies where tasks may make files and is not on record, each path once, with the first such task.

    A directory is looked through once, however many tasks share it.

    Args:
        is_known: Tells whether a path is on record, for a task.
    """
    seen: set[str] = set()
    below: dict[str, list[str]] = {}
    for task in tasks:
        for named in task.edits:
            if named not in below:
                below[named] = list(worktree.descend(named))
        for path in (path for named in task.edits for path in below[named]):
            if path not in seen and not is_known(task, path) and worktree.why_not(path) is None:
                seen.add(path)
                yield task, path


def _live(touches: Iterable[Touch]) -> dict[str, str]:
    return {
        touch.after.state.sha256: touch.path
        for touch in touches
        if touch.after is not None and touch.after.payload is None and isinstance(touch.after.state, Content)
    }


def _known(touch: Touch) -> tuple[Content, Identity] | None:
    identity = identity_from(touch.identity)
    if touch.after is None or not isinstance(touch.after.state, Content) or identity is None:
        return None
    return touch.after.state, identity
