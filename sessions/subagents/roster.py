"""The tasks of a session as they are now: what runs, how what does not run ended. Looks, changes nothing.

The state of a task is computed from what its supervisor wrote, from the table of processes, and from the work this
process holds itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sessions import clock, paths
from sessions.locks import is_held_elsewhere
from sessions.ownership import LOCK
from sessions.subagents.adopting import Owner, runs_loop
from sessions.subagents.attached import Attached
from sessions.subagents.cancelling import Quarry, found, quarry_of
from sessions.subagents.folder import TaskFolder
from sessions.subagents.identity import Identity, is_alive
from sessions.subagents.processes import living_below, wait_for_end
from sessions.subagents.record import Ended, State, TaskRecord

_inside: dict[str, Attached] = {}  # of the process, not of a session: it may be closed and opened again
_owners: dict[str, Owner] = {}
_ends: dict[str, Ended] = {}  # of what was held here, for whoever read the timeline before these were on it
_inside_lock = threading.Lock()
_BETWEEN_S = 0.01  # between questions to an owner


def _begin_in_child() -> None:
    """Know of nothing in a forked child: the work is its parent's."""
    global _inside_lock  # noqa: PLW0603 - a thread of the parent may have held it
    _inside_lock = threading.Lock()
    _inside.clear()
    _owners.clear()
    _ends.clear()


os.register_at_fork(after_in_child=_begin_in_child)


class Roster:
    """Looks at tasks.

    Args:
        directory: Where their folders lie.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def attached(self) -> Mapping[str, Attached]:
        """The work inside this process, by task."""
        with _inside_lock:
            return dict(_inside)

    def attach(self, task: str, attached: Attached) -> None:
        """Keep hold of work inside this process."""
        with _inside_lock:
            _inside[task] = attached

    def forget(self, task: str, ended: Ended | None = None) -> None:
        """Let go of what was kept of a task whose end is on record, but for that; or of one that never was: None."""
        with _inside_lock:
            if ended is not None and (task in _inside or task in _owners):
                _ends[task] = ended
            _inside.pop(task, None)
            _owners.pop(task, None)

    def adopt(self, task: str, owner: Owner) -> None:
        """Keep hold of who learns how an adopted process ended."""
        with _inside_lock:
            _owners[task] = owner

    def folder(self, task: str) -> TaskFolder:
        """Return where the files of a task lie."""
        return TaskFolder(self.directory / task)

    def processes(self, tasks: Sequence[TaskRecord]) -> dict[str, tuple[Identity, ...]]:
        """Return the living processes of tasks; work inside a host has none of its own."""
        there: dict[str, tuple[Identity, ...]] = {}
        searched: list[Quarry] = []
        for task in tasks:
            quarry = self.quarry(task) if task.ended is None or not self.is_all_gone(task) else None
            supervisor = quarry.supervisor if quarry is not None else None
            below = living_below(supervisor) if supervisor is not None and is_alive(supervisor) else None
            if quarry is not None and below is None:
                searched.append(quarry)
            there[task.id] = tuple(below or ())
        return there | (found(searched) if searched else {})

    def state(self, task: TaskRecord) -> Ended | None:
        """Return how a task ended; None while it runs."""
        if task.ended is not None:
            return task.ended
        if task.how == "attach":
            return self._state_attached(task)
        folder = self.folder(task.id)
        cancelled = folder.is_cancelled()
        started = folder.started()
        supervised = self._is_supervised(task)  # it writes how the program ended: till then that runs
        alive = started is not None and is_alive(started.main)
        ended = folder.exit()  # read behind that: it is written before the program can be gone
        if ended is None and supervised:
            return None
        if ended is not None:
            code = ended.code if ended.signal is None else -ended.signal
            state: State = "cancelled" if cancelled else "completed" if code == 0 else "failed"
            return None if cancelled and self._is_there(task) else Ended(state, code, ended.at)
        return None if alive else self._state_without_exit(task, cancelled=cancelled)

    def awaits_owner(self, task: TaskRecord) -> bool:
        """Tell of an adopted process whether it ended by itself, and its owner may still learn how: it is not settled.

        In another process than the owner's that is so while somebody there has the session open that adopted it.
        """
        if not self._is_adopted_and_gone(task) or self.folder(task.id).is_cancelled():
            return False
        owner = _owners.get(task.id)
        if owner is not None:
            return owner.is_learning()
        adopter = paths.sidecar(paths.beside(self.directory.parent, task.session))
        return is_held_elsewhere(adopter / LOCK)

    def wait_for_owners(self, tasks: Sequence[TaskRecord], timeout_s: float | None = None) -> None:
        """Wait until the owners in this process of adopted processes that are gone know how these ended.

        Where the calling thread runs an event loop this returns at once: an owner may need that loop.

        Args:
            timeout_s: Give up then; None: when they may not learn it any more.
        """
        owners = [owner for task in tasks if self._is_adopted_and_gone(task) and (owner := _owners.get(task.id))]
        deadline = time.monotonic() + timeout_s if timeout_s is not None else None
        while any(owner.is_learning() for owner in owners) and not runs_loop():
            if deadline is not None and time.monotonic() > deadline:
                return
            time.sleep(_BETWEEN_S)

    def wait_for_supervisors(self, tasks: Iterable[TaskRecord], timeout_s: float) -> None:
        """Wait until the supervisors that have nobody left have left too: what they supervised is over only then."""
        deadline = time.monotonic() + timeout_s
        waiting = [supervisor for task in tasks if (supervisor := self._supervisor(task)) is not None]
        while waiting and time.monotonic() < deadline:
            waiting = [supervisor for supervisor in waiting if is_alive(supervisor)]
            if not (leaving := [supervisor for supervisor in waiting if living_below(supervisor) == []]):
                return
            wait_for_end(leaving[0], _BETWEEN_S)

    def gone_ns(self, task: TaskRecord) -> int | None:
        """Return when an adopted process of this one's was seen to be gone, as the system stamps files; None: never."""
        owner = _owners.get(task.id) if self._is_adopted_and_gone(task) else None
        return owner.gone_ns() if owner is not None else None

    def to_stop(
        self, tasks: Iterable[TaskRecord], there: Mapping[str, tuple[Identity, ...]] | None = None
    ) -> list[TaskRecord]:
        """Return those of the tasks of which something is still there: they run, or left processes behind.

        Args:
            there: Their ``processes``, where somebody has looked right now.
        """
        candidates = [task for task in tasks if task.ended is None or not self.is_all_gone(task)]
        known = {task.id for task in candidates if self._is_supervised(task) or self._is_inside(task)}
        if there is None:
            there = self.processes([task for task in candidates if task.id not in known])
        return [task for task in candidates if task.id in known or there.get(task.id)]

    def ended_ns(self, task: TaskRecord) -> int:
        """Return when a task ended, as the system stamps files; 0 where nobody wrote it down."""
        return self.folder(task.id).ended_ns() or self.gone_ns(task) or 0

    def _is_inside(self, task: TaskRecord) -> bool:
        """Tell whether it is work inside a host that runs."""
        return task.how == "attach" and self.state(task) is None

    # -- one task --------------------------------------------------------------------------------------------------

    def quarry(self, task: TaskRecord) -> Quarry | None:
        """Return what is to be found and stopped of a task; None for work inside a host."""
        return None if task.how == "attach" else quarry_of(task.id, self.folder(task.id).started(), task.tag)

    def _is_there(self, task: TaskRecord) -> bool:
        return bool(self.processes([task]).get(task.id))

    def is_all_gone(self, task: TaskRecord) -> bool:
        """Tell whether it is known that nobody of an ended task is left; an adopted one's leftovers are its owner's."""
        if task.how != "spawn":
            return True
        ended = self.folder(task.id).exit()
        return ended is not None and ended.gone

    def _is_adopted_and_gone(self, task: TaskRecord) -> bool:
        started = self.folder(task.id).started() if task.how == "adopt" and task.ended is None else None
        return started is not None and not is_alive(started.main)

    def _is_supervised(self, task: TaskRecord) -> bool:
        """Tell whether its supervisor lives: it leaves when nobody of the task is left, and no look misses that."""
        supervisor = self._supervisor(task)
        return supervisor is not None and is_alive(supervisor)

    def _supervisor(self, task: TaskRecord) -> Identity | None:
        started = self.folder(task.id).started() if task.how == "spawn" else None
        return started.supervisor if started is not None else None

    def _state_attached(self, task: TaskRecord) -> Ended | None:
        attached = _inside.get(task.id)
        if attached is not None:
            outcome = attached.outcome()
            return None if outcome is None else Ended(outcome, None, clock.timestamp(), attached.failure())
        if task.id in _ends:
            return _ends[task.id]
        started = self.folder(task.id).started()
        elsewhere = started is not None and started.main.pid != os.getpid()
        return None if elsewhere and started is not None and is_alive(started.main) else Ended("lost")

    def _state_without_exit(self, task: TaskRecord, *, cancelled: bool) -> Ended | None:
        if (cancelled or self.folder(task.id).started() is None) and self._is_there(task):
            return None  # it is being stopped, or just started
        if self.awaits_owner(task):
            return None
        owner = _owners.get(task.id)
        if owner is None and task.id in _ends:
            return _ends[task.id]
        code = owner.code() if owner is not None else None
        at = owner.gone_at() if owner is not None and code is not None else None
        if cancelled:
            return Ended("cancelled", code, at)
        return Ended("completed" if code == 0 else "failed", code, at) if code is not None else Ended("lost")

    def code(self, task: TaskRecord) -> int | None:
        """Return what a program exited with, negative where a signal ended it; None where nobody knows, or not yet."""
        if (ended := self.folder(task.id).exit()) is not None:
            return ended.code if ended.signal is None else -ended.signal
        owner = _owners.get(task.id)
        return owner.code() if owner is not None else None
