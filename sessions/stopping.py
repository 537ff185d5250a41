"""Stopping background work for good: who is to be stopped, whether that is refused, and the record that it was.

===  ==========================================  =======================================================================
 #   step                                        what a crash after it leaves
===  ==========================================  =======================================================================
 1   say who is still there; refuse              nothing
 2   mark the tasks in their folders             tasks that run, marked: the next opening for writing stops them
 3   ask, freeze, kill, until nobody is found    the same; of those that are gone it records that they were cancelled
 4   record what they left, and that they        all of it, or as after 3
     are cancelled
===  ==========================================  =======================================================================

While a task is being stopped it is *held back*: nobody settles it, for what becomes of it is not clear. One that cannot
be stopped, or that runs on after Ctrl-C, is as if nothing had been asked. Ctrl-C comes only where something is waited
for, and once: what is to be said and taken back then is not broken off again. Nothing of this takes the session's lock:
it works from another process than the one that has it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Container, Iterable, Mapping, Sequence

from sessions import clock
from sessions.errors import ConflictError, UnstoppableError
from sessions.interrupts import Interrupts, deferred
from sessions.rewind.edits import Recorder
from sessions.rewind.log import CaptureLog
from sessions.rewind.plan import StoppedTask
from sessions.subagents.attached import Attached
from sessions.subagents.cancelling import LEAVING_S, Caught, quarry_of, stop
from sessions.subagents.family import with_nested, working_in
from sessions.subagents.identity import Identity, is_alive
from sessions.subagents.processes import own_line
from sessions.subagents.record import Ended, TaskRecord, ended_record
from sessions.subagents.roster import Roster
from sessions.subagents.watching import Watcher

_LEARNING_S = 1.0
"""How long a cancel waits until the owner of an adopted process knows how that ended."""
_SETTLING_S = 5.0
"""How much longer than a process work inside the host may take to end: it cannot be killed."""


class Stopping:
    """Stops background work of one session and of the subagents below it.

    Args:
        log: The timeline of the root.
        recorder: Records what tasks left.
        roster: Looks at them.
        watcher: Told to watch what was cancelled no more; of what is held back it tells again, until it is not.
        grace_s: How long a task has to end by itself.
    """

    def __init__(
        self, log: CaptureLog, recorder: Recorder, roster: Roster, watcher: Watcher, *, grace_s: float
    ) -> None:
        self._log = log
        self._recorder = recorder
        self._roster = roster
        self._watcher = watcher
        self._grace_s = grace_s
        self._held_back: dict[object, frozenset[str]] = {}  # by whom: tasks that are being cancelled, or just begun
        self._stopping_on: set[int] = set()
        self._lock = threading.RLock()  # a host's handler of a signal may cancel a task just here

    def going(self, tasks: Sequence[TaskRecord]) -> list[TaskRecord]:
        """Return what ``cancel`` would stop: what is still there of tasks, and of those their subagents started.

        Raises:
            ConflictError: ``cancel`` would refuse it.
        """
        tasks = with_nested(tasks, self._log.read())
        there = self._roster.processes(tasks)
        going = self._roster.to_stop(tasks, there)
        self._refuse_on_own_thread(going)
        self._refuse_elsewhere(going, there)
        self._refuse_inside(going, there)
        return going

    def _refuse_on_own_thread(self, tasks: Iterable[TaskRecord]) -> None:
        """Refuse to wait for work that waits for the calling thread.

        Raises:
            ConflictError: The calling thread runs one of the tasks, or its event loop.
        """
        for task in tasks:
            attached = self._roster.attached.get(task.id)
            if attached is not None and attached.on_own_thread():
                raise ConflictError(
                    f"{task.label!r} runs on this very thread and could never end meanwhile: call this on another one,"
                    " as asyncio.to_thread does"
                )

    def _refuse_elsewhere(self, tasks: Sequence[TaskRecord], there: Mapping[str, tuple[Identity, ...]]) -> None:
        """Refuse what runs inside another process, unless that process is stopped with it.

        Raises:
            ConflictError: The process is named.
        """
        ends = {process for task in tasks for process in there.get(task.id, ())}
        for task in tasks:
            if task.how != "attach" or task.id in self._roster.attached:
                continue
            started = self._roster.folder(task.id).started()
            if started is None or started.main not in ends:
                where = f"process {started.main.pid}" if started is not None else "another process"
                raise ConflictError(f"{task.label!r} ({task.id}) runs inside {where}, which alone can stop it")

    def _refuse_inside(self, tasks: Sequence[TaskRecord], there: Mapping[str, tuple[Identity, ...]]) -> None:
        """Refuse to stop what this very process, or this very call, is a part of.

        Raises:
            ConflictError: It is; the task is named.
        """
        if threading.get_ident() in self._stopping_on:
            raise ConflictError("this is called by what is being stopped")
        for task in tasks:
            if not own_line().isdisjoint(there.get(task.id, ())):
                raise ConflictError(f"this process runs inside {task.label!r} ({task.id}) and would be stopped too")

    def cancel(self, tasks: Sequence[TaskRecord], *, done: list[StoppedTask] | None = None) -> list[StoppedTask]:
        """Stop tasks for good, with what their processes started; waits until that is proven. Again changes nothing.

        Not to be called with the session locked: work inside the host may need it to end.

        Args:
            done: Gets those that were stopped as soon as that is proven, also where an error follows.

        Returns:
            Those that were stopped; not those of which nobody was there any more.

        Raises:
            ConflictError: Called on the thread a task runs on, or it runs inside another process; nothing was stopped.
            UnstoppableError: Not all could be stopped; the others were.
            OSError: They were stopped, and it could not be recorded; the next opening does.
            KeyboardInterrupt: Ctrl-C came; it says who ended and who did not: that runs on.
        """
        done = done if done is not None else []
        known = {task.id for task in with_nested(tasks, self._log.read())}  # before looking: what comes later is late
        going = self.going(tasks)
        while going:
            self._stop(going, done)
            late = [task for task in with_nested(tasks, self._log.read()) if task.id not in known]
            known.update(task.id for task in late)
            going = [task for task in late if task.ended is None]
        return done

    def finish(self, tasks: Iterable[TaskRecord], done: list[StoppedTask]) -> None:
        """Finish the cancel of tasks that a crash broke off; none is refused. Else it is as for ``cancel``."""
        self._stop(self._roster.to_stop(tasks), done)

    def stop_unrecorded(self, task: TaskRecord) -> None:
        """Stop what may run of a task whose start was broken off, and forget it."""
        self._watcher.unwatch(task.id)
        self._roster.forget(task.id)
        if task.tag:
            stop([quarry_of(task.id, None, task.tag)], grace_s=0)

    def hold_back(self, by: object, tasks: Iterable[TaskRecord]) -> None:
        """Settle none of the tasks until whoever asks lets them go: what becomes of them is not clear."""
        with self._lock:
            self._held_back[by] = frozenset(task.id for task in tasks)

    def is_held_back(self, task: str) -> bool:
        """Tell whether a task is held back."""
        return any(task in held for held in list(self._held_back.values()))

    def let_go(self, by: object) -> None:
        """Let tasks that were held back be settled; what is let go already stays so."""
        with self._lock:
            self._held_back.pop(by, None)

    def _stop(self, going: Sequence[TaskRecord], done: list[StoppedTask]) -> None:
        by = object()
        with deferred() as interrupts:  # but for where there is something to wait for
            over = {task.id for task in going if self._is_over(task)}
            try:
                self.hold_back(by, going)
                self._stop_and_record(going, done, over=over, by=by, interrupts=interrupts)
            finally:
                self.let_go(by)

    def _is_over(self, task: TaskRecord) -> bool:
        """Tell whether the program of a task ended by itself: what is still there it left behind."""
        if task.how == "attach":
            return False
        if self._roster.awaits_owner(task):
            return True
        ended = self._roster.state(task)
        return ended is not None and ended.state != "cancelled"

    def _stop_and_record(
        self,
        going: Sequence[TaskRecord],
        done: list[StoppedTask],
        *,
        over: Container[str],
        by: object,
        interrupts: Interrupts,
    ) -> None:
        marked = [task for task in going if task.ended is None and task.how != "attach" and task.id not in over]
        attached = self._roster.attached
        inside = {task.id: attached[task.id] for task in going if task.how == "attach" and task.id in attached}
        troubles: dict[str, str] = {}
        try:
            with interrupts.allowed():
                for task in marked:
                    self._roster.folder(task.id).mark_cancelled()
                stopped = self._stopped(going, inside, troubles)
                self._roster.wait_for_owners(going, _LEARNING_S)
        except KeyboardInterrupt as error:
            there = self._give_up(going, inside, by, interrupts)
            raise self._interrupted(going, there, done) from error
        except BaseException:
            self._give_up(going, inside, by, interrupts)
            raise
        proven = [task for task in going if not stopped[task.id].survivors]
        left = [task for task in going if task not in proven]
        self._take_back(left, inside, by)
        done += [StoppedTask(task.id, task.label, stopped[task.id].proof) for task in proven]
        self._conclude_stopped(proven, over=over)
        try:
            interrupts.deliver()
        except KeyboardInterrupt as error:
            raise self._interrupted(going, {task.id for task in left}, done) from error
        if left:
            unstoppable = UnstoppableError(_survivors(left, stopped, troubles))
            if done:
                gone = ", ".join(each.label for each in done)
                unstoppable.add(f"stopped: {gone}", cancelled=[each.to_json() for each in done])
            raise unstoppable

    def _stopped(
        self, going: Sequence[TaskRecord], inside: Mapping[str, Attached], troubles: dict[str, str]
    ) -> dict[str, Caught]:
        for name, attached in inside.items():
            self._stopping_on.add(threading.get_ident())
            try:
                attached.cancel()
            except Exception as error:  # noqa: BLE001 - the host's own function; whether the work ended is asked below
                troubles[name] = f" (to cancel it raised {error!r})"
            finally:
                self._stopping_on.discard(threading.get_ident())
        quarries = [quarry for task in going if (quarry := self._roster.quarry(task)) is not None]
        stopped = stop(quarries, grace_s=self._grace_s)
        deadline = time.monotonic() + self._grace_s + _SETTLING_S
        late = [name for name, work in inside.items() if not work.wait(max(0.0, deadline - time.monotonic()))]
        runs_on = {name for name in late if not inside[name].wait(0)}  # asked once more: others were waited for
        stopped |= {name: Caught((os.getpid(),) if name in runs_on else (), "") for name in inside}
        for task in going:  # work inside processes that were stopped
            started = self._roster.folder(task.id).started() if task.id not in stopped else None
            if task.id not in stopped:
                gone = started is None or not is_alive(started.main)
                stopped[task.id] = Caught(() if gone else (started.main.pid,) if started else (), "")
        return stopped

    def _give_up(
        self, going: Sequence[TaskRecord], inside: Mapping[str, Attached], by: object, interrupts: Interrupts
    ) -> set[str]:
        """Leave what is still there as if nothing had been asked, or the next opening would finish it; return it."""
        self._roster.wait_for_supervisors(going, LEAVING_S)
        there = {task.id for task in self._roster.to_stop([task for task in going if task.how != "attach"])}
        there |= {task.id for task in going if task.how == "attach" and not self._has_ended(task, interrupts)}
        self._take_back([task for task in going if task.id in there], inside, by)
        return there

    def _has_ended(self, task: TaskRecord, interrupts: Interrupts) -> bool:
        """Tell whether work inside a host has ended: its own function says so, which may raise, or be broken off."""
        try:
            with interrupts.allowed():
                return not self._roster.to_stop([task])
        except BaseException:  # noqa: BLE001 - somebody is giving up already; what is not known to have ended goes on
            return False

    def _take_back(self, tasks: Sequence[TaskRecord], inside: Mapping[str, Attached], by: object) -> None:
        """Make nothing of it that tasks were asked to end: when they do, they end by themselves."""
        with self._lock:  # of two who give up, the last one takes the mark back
            others = frozenset().union(*(held for owner, held in self._held_back.items() if owner is not by))
            for task in tasks:  # marked no more before anybody may settle it
                if task.id in others:
                    continue
                if task.id in inside:
                    inside[task.id].uncancel()
                elif task.how != "attach":
                    self._roster.folder(task.id).unmark_cancelled()
            self._held_back[by] = self._held_back.get(by, frozenset()).difference(task.id for task in tasks)

    def _interrupted(
        self, going: Sequence[TaskRecord], there: Container[str], done: Iterable[StoppedTask]
    ) -> KeyboardInterrupt:
        """Return what to raise after Ctrl-C: it says what became of the tasks, as far as that is to be seen now.

        Args:
            there: Which of them were there a moment ago.
            done: What was stopped by now, also before these.
        """
        runs = [task for task in going if task.id in there and task.how == "attach"]
        leaves: list[TaskRecord] = []
        for task in self._roster.to_stop([task for task in going if task.id in there and task not in runs]):
            (runs if self._roster.state(task) is None else leaves).append(task)
        ended = {task.id: task.label for task in done} | {task.id: task.label for task in going}
        for task in (*runs, *leaves):
            ended.pop(task.id, None)
        fates = {
            "running on": [task.label for task in runs],
            "ended, but left processes": [task.label for task in leaves],
            "ended": list(ended.values()),
        }
        said = (f"{fate}: {', '.join(labels)}" for fate, labels in fates.items() if labels)
        return KeyboardInterrupt("; ".join(["interrupted", *said]))

    def _conclude_stopped(self, tasks: Sequence[TaskRecord], *, over: Container[str]) -> None:
        """Record what tasks left, and that they are cancelled; of those that were over, settling records the end."""
        with self._log.locked() as timeline:
            self._recorder.end_work(tasks, working_in(tasks, timeline))
            cancelled = [task for task in tasks if task.id not in over]
            at = clock.timestamp()
            ends = {task.id: Ended("cancelled", self._roster.code(task), at) for task in cancelled}
            new = [task for task in cancelled if timeline.tasks.get(task.id, task).ended is None]
            if new:
                self._log.append([ended_record(task.id, ends[task.id]) for task in new])
            for task in cancelled:  # only now: till then, whatever comes, its end is told
                self._watcher.unwatch(task.id)
                self._roster.forget(task.id, ends[task.id])


def _survivors(
    left: Sequence[TaskRecord], stopped: Mapping[str, Caught], troubles: Mapping[str, str]
) -> dict[str, Sequence[int]]:
    inside = {
        f"{task.label!r} ({task.id}), which runs inside this process{troubles.get(task.id, '')}": ()
        for task in left
        if task.how == "attach"
    }
    return inside | {f"{task.label!r} ({task.id})": stopped[task.id].survivors for task in left if task.how != "attach"}
