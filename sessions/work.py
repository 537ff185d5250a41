"""The background work of one session: what state it is in, stopping it for good, settling how it ended.

On the timeline of the root stands what was started, in which turn, and once it is settled how it ended. What runs, and
how a program ended, lies in the task's folder, ``<root's sidecar>/tasks/<task>``, written by its supervisor; so the
state of a task is computed when somebody asks, and no manager needs to have been there. Settling is done by the session
that started the task, while it is open for writing: what the task left in the files captured around it is recorded,
the notice is appended, and then the end put on the timeline. A crash in between repeats what is missing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from sessions import clock
from sessions.errors import ConflictError, SessionsError, UnstoppableError
from sessions.rewind.edits import Recorder
from sessions.rewind.log import CaptureLog
from sessions.rewind.plan import StoppedTask
from sessions.rewind.timeline import Timeline
from sessions.subagents.attached import Attached
from sessions.subagents.cancelling import Caught, quarry_of, stop
from sessions.subagents.family import below, with_nested, working_in
from sessions.subagents.identity import Identity, is_alive
from sessions.subagents.processes import own_line
from sessions.subagents.record import Ended, TaskRecord, ended_record
from sessions.subagents.roster import Roster
from sessions.subagents.watching import Watcher

_STARTING_S = 5.0
"""How long a supervisor may take to begin its task."""
_LOOKS = 3
"""How often a task that never began has to be found gone."""
_LEARNING_S = 1.0
"""How long a cancel waits until the owner of an adopted process knows how that ended."""
_SETTLING_S = 5.0
"""How much longer than a process work inside the host may take to end: it cannot be killed."""


class Work:
    """The background work of one session and of the subagents below it.

    Args:
        session_id: Whose tasks are settled here.
        log: The timeline of the root.
        recorder: Records what tasks left.
        roster: Looks at them.
        grace_s: How long a task that is cancelled has to end by itself.
        settled: Called, with the session locked, when a task of this session ended by itself and before that is on
            record; not for a cancelled one. On the thread that found out.
        holding: Gives the session, locked for writing; raises where it is closed.
        is_left: Tells of a subagent's session below this one whether nobody works in it any more.
    """

    def __init__(
        self,
        session_id: str,
        log: CaptureLog,
        recorder: Recorder,
        roster: Roster,
        *,
        grace_s: float,
        settled: Callable[[TaskRecord, Ended], None],
        holding: Callable[[], contextlib.AbstractContextManager[None]],
        is_left: Callable[[str], bool],
    ) -> None:
        self._session_id = session_id
        self._log = log
        self._recorder = recorder
        self._roster = roster
        self._grace_s = grace_s
        self._settled = settled
        self._holding = holding
        self._is_left = is_left
        self._watcher = Watcher(self._changed)
        self._cancelling: Counter[str] = Counter()  # by how many: who is being cancelled, or just begun
        self._stopping_on: set[int] = set()
        self._watched: set[str] = set()
        self._ended_unseen: set[str] = set()  # while the session was closed: when, nobody knows
        self._lock = threading.Lock()

    # -- watching --------------------------------------------------------------------------------------------------

    def timeline(self) -> Timeline:
        """Return the timeline of the root as of now."""
        return self._log.read()

    def watch(self, task: TaskRecord) -> bool:
        """Find out when a task ends, which is then settled here; False where there is nobody to watch."""
        self._watched.add(task.id)
        attached = self._roster.attached.get(task.id)
        if attached is not None:
            attached.when_done(lambda: self._watcher.tell(task.id))
            return True
        started = self._roster.folder(task.id).started()
        if started is not None and task.how != "attach":
            self._watcher.watch(task.id, started, lambda: not self._roster.awaits_owner(task))
        return started is not None

    # -- stopping --------------------------------------------------------------------------------------------------

    def going(self, tasks: Sequence[TaskRecord]) -> list[TaskRecord]:
        """Return what ``cancel`` would stop: what is still there of tasks, and of those their subagents started.

        Raises:
            ConflictError: ``cancel`` would refuse it.
        """
        tasks = with_nested(tasks, self.timeline())
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
            KeyboardInterrupt: Ctrl-C came; it says who was asked to end. What did not end by then runs on.
        """
        done = done if done is not None else []
        going = self.going(tasks)
        known = {task.id for task in with_nested(tasks, self.timeline())}
        if going:
            self._stop(going, done)
        late = [task for task in with_nested(tasks, self.timeline()) if task.id not in known and task.ended is None]
        if late:
            self._stop(late, done)
        return done

    def stop_unrecorded(self, task: TaskRecord) -> None:
        """Stop what may run of a task whose start was broken off, and forget it."""
        self._watcher.unwatch(task.id)
        self._roster.forget(task.id)
        if task.tag:
            stop([quarry_of(task.id, None, task.tag)], grace_s=0)

    def hold_back(self, tasks: Iterable[TaskRecord]) -> None:
        """Settle none of the tasks until ``let_go``, so often as this was called: what becomes of them is not clear."""
        with self._lock:
            self._cancelling.update(task.id for task in tasks)

    def let_go(self, task: TaskRecord) -> None:
        """Settle a task that was held back, if it ended meanwhile."""
        with self._lock:
            self._cancelling -= Counter([task.id])
        self._watcher.tell(task.id)

    def _stop(self, going: Sequence[TaskRecord], done: list[StoppedTask]) -> None:
        over = {task.id for task in going if self._is_over(task)}
        self.hold_back(going)
        try:
            self._stop_and_record(going, done, over=over)
        finally:
            with self._lock:
                self._cancelling -= Counter(task.id for task in going)
            recorded = {each.id for each in done} - over
            for task in going:
                if task.id not in recorded:  # nobody was told of its end meanwhile
                    self._watcher.tell(task.id)

    def _is_over(self, task: TaskRecord) -> bool:
        """Tell whether the program of a task ended by itself: what is still there it left behind."""
        if task.how == "attach":
            return False
        if self._roster.awaits_owner(task):
            return True
        ended = self._roster.state(task)
        return ended is not None and ended.state != "cancelled"

    def _stop_and_record(self, going: Sequence[TaskRecord], done: list[StoppedTask], *, over: Container[str]) -> None:
        marked = [task for task in going if task.ended is None and task.how != "attach" and task.id not in over]
        attached = self._roster.attached
        inside = {task.id: attached[task.id] for task in going if task.how == "attach" and task.id in attached}
        troubles: dict[str, str] = {}
        try:
            for task in marked:
                self._roster.folder(task.id).mark_cancelled()
            stopped = self._stopped(going, inside, troubles)
            self._roster.wait_for_owners(going, _LEARNING_S)
        except BaseException as error:
            there = self._give_up(going, inside)
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(_interrupted(going, there)) from error
            raise
        proven = [task for task in going if not stopped[task.id].survivors]
        left = [task for task in going if task not in proven]
        self._take_back(left, inside)
        done += [StoppedTask(task.id, task.label, stopped[task.id].proof) for task in proven]
        self._conclude_stopped(proven, over=over)
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

    def _give_up(self, going: Sequence[TaskRecord], inside: Mapping[str, Attached]) -> list[TaskRecord]:
        """Leave what is still there as if nothing had been asked, or the next opening would finish it; return it."""
        there = self._roster.to_stop(going)
        self._take_back(there, inside)
        return there

    def _take_back(self, tasks: Iterable[TaskRecord], inside: Mapping[str, Attached]) -> None:
        """Make nothing of it that tasks were asked to end: when they do, they end by themselves."""
        for task in tasks:
            if task.id in inside:
                inside[task.id].uncancel()
            elif task.how != "attach" and self._cancelling[task.id] == 1:  # else somebody else still cancels it
                self._roster.folder(task.id).unmark_cancelled()

    def _conclude_stopped(self, tasks: Sequence[TaskRecord], *, over: Container[str]) -> None:
        """Record what tasks left, and that they are cancelled; of those that were over, settling records the end."""
        with self._log.locked() as timeline:
            self._recorder.end_work(tasks, working_in(tasks, timeline))
            cancelled = [task for task in tasks if task.id not in over]
            for task in cancelled:
                self._watcher.unwatch(task.id)
            at = clock.timestamp()
            ends = {task.id: Ended("cancelled", self._roster.code(task), at) for task in cancelled}
            new = [task for task in cancelled if timeline.tasks.get(task.id, task).ended is None]
            if new:
                self._log.append([ended_record(task.id, ends[task.id]) for task in new])
            for task in cancelled:
                self._roster.forget(task.id, ends[task.id])

    # -- settling --------------------------------------------------------------------------------------------------

    def settle(self) -> list[StoppedTask]:
        """Settle what ended while nobody was there, finish what a crash left of a cancel, watch what runs.

        The session is open for writing. Never fails: what cannot be settled now is settled at the next opening.

        Returns:
            The tasks of which a crash had broken off the cancel, and that were stopped now.
        """
        if not self._roster.directory.is_dir():
            return []
        return self._settle_all([task for task in self.timeline().tasks.values() if self._is_ours(task)])

    def settle_left(self) -> None:
        """Settle and watch the tasks of subagents whose session was closed meanwhile, in whatever process; likewise."""
        new = [task for task in self.timeline().tasks.values() if task.ended is None and task.id not in self._watched]
        self._settle_all([task for task in new if task.session != self._session_id and self._is_ours(task)])

    def take_over(self, session: str) -> None:
        """Go on with the tasks of a subagent's session that was closed, and of those below it; likewise."""
        timeline = self.timeline()
        closed = below(session, timeline)
        self._settle_all([task for task in timeline.tasks.values() if task.session in closed and self._is_ours(task)])

    def _settle_all(self, tasks: Iterable[TaskRecord]) -> list[StoppedTask]:
        stopped: list[StoppedTask] = []
        own = [task for task in tasks if task.ended is None and task.id not in self._cancelling]
        with contextlib.suppress(SessionsError, OSError):
            half = [task for task in own if task.how != "attach" and self._roster.folder(task.id).is_cancelled()]
            if half:
                self._stop(self._roster.to_stop(half), stopped)
        for task in own:
            for _ in range(2):  # its supervisor may take back its start right now
                if self._roster.gone_ns(task) is not None:
                    self._ended_unseen.add(task.id)
                if not self._has_begun(task):
                    self._settle(task, live=False)
                elif not self.watch(task):
                    continue
                break
        return stopped

    def _has_begun(self, task: TaskRecord) -> bool:
        """Tell whether a task runs; where its host died when it was starting it, wait until it has begun or is gone."""
        folder, deadline = self._roster.folder(task.id), time.monotonic() + _STARTING_S
        gone = 0
        while gone < _LOOKS:  # a process is not seen while it changes its program
            if task.how != "spawn" or folder.started() is not None or time.monotonic() > deadline:
                return self._roster.state(task) is None
            gone = 0 if self._roster.state(task) is None else gone + 1
            time.sleep(0.01)
        return False

    def settle_gone(self, tasks: Iterable[TaskRecord]) -> list[str]:
        """Settle those of the tasks that ended and nobody settled yet, whoever started them; return their ids.

        Not to be called with the session locked: this waits for the owners of adopted processes. Of one whose owner
        needs this very thread, what it left is recorded, and its end when that is known.
        """
        unsettled = [task for task in tasks if task.ended is None]
        self._roster.wait_for_owners(unsettled)
        open_ended = [task for task in unsettled if self._roster.awaits_owner(task)]
        for task in open_ended:
            self._record_leavings(task)
        gone = [task for task in unsettled if task not in open_ended and self._roster.state(task) is not None]
        for task in gone:
            self._settle(task, live=False)
        return [task.id for task in unsettled if task in gone or task in open_ended]

    def _is_ours(self, task: TaskRecord) -> bool:
        """Tell whether this session settles a task: its own; the root also those of subagents that nobody works in."""
        return task.session == self._session_id or self._is_left(task.session)

    def close(self) -> None:
        """Stop watching; the tasks go on."""
        self._watcher.close()

    def _changed(self, task_id: str) -> None:
        """Settle a task that ended; called on the watcher's thread. What it left is recorded before its owner is heard.

        Else another edit could come in between, and be taken for what it left.
        """
        task = self.timeline().tasks.get(task_id)
        if task is None or task_id in self._cancelling:
            return
        if self._roster.awaits_owner(task):
            self._record_leavings(task)
        elif task.ended is None:
            self._settle(task, live=True)
            for child in working_in([task], self.timeline()):
                self.take_over(child)
        elif self._roster.is_all_gone(task):
            self._record_leavings(task)

    def _record_leavings(self, task: TaskRecord) -> None:
        with contextlib.suppress(SessionsError, OSError):
            self._recorder.end_work([task], as_of=self._as_of(task, live=True))

    def _settle(self, task: TaskRecord, *, live: bool) -> None:
        """Record what a task left, tell of its end, and put that on the timeline: once, whoever else tries it."""
        with contextlib.suppress(SessionsError, OSError), self._holding(), self._log.locked() as timeline:
            current = timeline.tasks.get(task.id)
            ended = self._roster.state(task)
            cancelled = task.how != "attach" and self._roster.folder(task.id).is_cancelled()
            if current is None or current.ended is not None or ended is None:
                return
            if cancelled and ended.state != "cancelled":  # who cancels it records it
                return
            self._recorder.end_work([task], working_in([task], timeline), as_of=self._as_of(task, live=live))
            if ended.state != "cancelled" and self._is_ours(task):
                self._settled(task, ended)
            self._log.append([ended_record(task.id, ended)])
            self._roster.forget(task.id, ended)

    def _as_of(self, task: TaskRecord, *, live: bool) -> dict[str, int]:
        """Return when a task ended, as the system stamps files; where nobody wrote it down, all is newer."""
        if task.id in self._ended_unseen:
            return {task.id: 0}
        ended_ns = self._roster.folder(task.id).ended_ns() or self._roster.gone_ns(task)
        return {} if ended_ns is None and live else {task.id: ended_ns or 0}


def _survivors(
    left: Sequence[TaskRecord], stopped: Mapping[str, Caught], troubles: Mapping[str, str]
) -> dict[str, Sequence[int]]:
    inside = {
        f"{task.label!r} ({task.id}), which runs inside this process{troubles.get(task.id, '')}": ()
        for task in left
        if task.how == "attach"
    }
    return inside | {f"{task.label!r} ({task.id})": stopped[task.id].survivors for task in left if task.how != "attach"}


def _interrupted(going: Sequence[TaskRecord], there: Sequence[TaskRecord]) -> str:
    runs, ended = ([task.label for task in going if (task in there) is still] for still in (True, False))
    said = [f"asked to end, but running on: {', '.join(runs)}"] if runs else []
    said += [f"ended: {', '.join(ended)}"] if ended else []
    return "; ".join(["interrupted", *said])
