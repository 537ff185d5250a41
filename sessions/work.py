"""The background work of one session: what state it is in, and settling how it ended.

On the timeline of the root stands what was started, in which turn, and once it is settled how it ended. What runs, and
how a program ended, lies in the task's folder, ``<root's sidecar>/tasks/<task>``, written by its supervisor; so the
state of a task is computed when somebody asks, and no manager needs to have been there. Settling is done by the session
that started the task, while it is open for writing: what the task left in the files captured around it is recorded,
the notice is appended, and then the end put on the timeline. A crash in between repeats what is missing; what a crash
left of a cancel (`sessions.stopping`) is finished first of all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from sessions.errors import SessionsError
from sessions.rewind.edits import Recorder
from sessions.rewind.log import CaptureLog
from sessions.rewind.plan import StoppedTask
from sessions.rewind.recorded import TurnRecord
from sessions.rewind.timeline import Timeline
from sessions.stopping import Stopping
from sessions.subagents.family import below, working_in
from sessions.subagents.record import Ended, TaskRecord, ended_record
from sessions.subagents.roster import Roster
from sessions.subagents.watching import Watcher

_STARTING_S = 5.0
"""How long a supervisor may take to begin its task."""
_LOOKS = 3
"""How often a task that never began has to be found gone."""


class Work:
    """The background work of one session and of the subagents below it.

    Args:
        session_id: Whose tasks are settled here.
        log: The timeline of the root.
        recorder: Records what tasks left.
        roster: Looks at them.
        grace_s: How long a task that is cancelled has to end by itself.
        settled: Called, with the session locked, when a task of this session ended by itself and before that is on
            record; not for a cancelled one. With its turn, where that is there. On the thread that found out.
        holding: Gives the session, locked for writing; raises where it is closed.
        is_left: Tells of a subagent's session below this one whether nobody works in it any more.

    Attributes:
        stopping: Stops it.
    """

    def __init__(
        self,
        session_id: str,
        log: CaptureLog,
        recorder: Recorder,
        roster: Roster,
        *,
        grace_s: float,
        settled: Callable[[TaskRecord, Ended, TurnRecord | None], None],
        holding: Callable[[], contextlib.AbstractContextManager[None]],
        is_left: Callable[[str], bool],
    ) -> None:
        self._session_id = session_id
        self._log = log
        self._recorder = recorder
        self._roster = roster
        self._settled = settled
        self._holding = holding
        self._is_left = is_left
        self._watcher = Watcher(self._changed)
        self.stopping = Stopping(log, recorder, roster, self._watcher, grace_s=grace_s)
        self._watched: set[str] = set()
        self._ended_unseen: set[str] = set()  # while the session was closed: when, nobody knows

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
        own = [task for task in tasks if task.ended is None and not self.stopping.is_held_back(task.id)]
        with contextlib.suppress(SessionsError, OSError):
            half = [task for task in own if task.how != "attach" and self._roster.folder(task.id).is_cancelled()]
            if half:
                self.stopping.finish(half, stopped)
        for task in own:
            for _ in range(2):  # its supervisor may take back its start right now
                if self._roster.gone_ns(task) is not None and task.session == self._session_id:
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

    def _changed(self, task_id: str) -> bool:
        """Settle a task that ended; called on the watcher's thread. What it left is recorded before its owner is heard.

        Else another edit could come in between, and be taken for what it left.

        Returns:
            Whether that could not be done yet: the task is held back.
        """
        if self.stopping.is_held_back(task_id):
            return True
        task = self.timeline().tasks.get(task_id)
        if task is None:
            return False
        if self._roster.awaits_owner(task):
            self._record_leavings(task)
        elif task.ended is None:
            self._settle(task, live=True)
            for child in working_in([task], self.timeline()):
                self.take_over(child)
        elif self._roster.is_all_gone(task):
            self._record_leavings(task)
        return False

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
            children, as_of = working_in([task], timeline), self._as_of(task, live=live)
            as_of |= {child: ended for child in children for ended in as_of.values()}
            self._recorder.end_work([task], children, as_of=as_of)
            if ended.state != "cancelled" and self._is_ours(task):
                self._settled(task, ended, timeline.turns.get(task.turn))
            self._log.append([ended_record(task.id, ended)])
            self._roster.forget(task.id, ended)

    def _as_of(self, task: TaskRecord, *, live: bool) -> dict[str, int]:
        """Return when a task ended, as the system stamps files; where nobody wrote it down, all is newer."""
        if task.id in self._ended_unseen:
            return {task.id: 0}
        ended_ns = self._roster.ended_ns(task)
        return {} if live and not ended_ns else {task.id: ended_ns}
