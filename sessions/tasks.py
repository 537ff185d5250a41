"""The background tasks of a session, as a host starts, sees and cancels them."""

from __future__ import annotations

import builtins
import contextlib
import os
import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sessions import clock, command, ids
from sessions.errors import AmbiguousError, ConflictError, NotFoundError
from sessions.rewind.anchors import Anchors
from sessions.rewind.edits import Recorder
from sessions.rewind.log import CaptureLog
from sessions.rewind.options import Paths, path_texts
from sessions.rewind.recorded import TurnRecord
from sessions.subagents.adopting import Owner, Process, started_by_host
from sessions.subagents.attached import attached_to
from sessions.subagents.environment import Parent, environment
from sessions.subagents.family import below
from sessions.subagents.folder import Started
from sessions.subagents.identity import identity_of
from sessions.subagents.launching import launch
from sessions.subagents.processes import command_of
from sessions.subagents.record import ChildRecord, How, TaskRecord
from sessions.subagents.roster import Roster
from sessions.task import Task, described
from sessions.work import Work

if TYPE_CHECKING:
    import asyncio
    import threading


_Recorded = tuple[TaskRecord, TurnRecord]


class Subagent(Protocol):
    """The session of a subagent."""

    @property
    def id(self) -> str:
        """Its id."""


class Tasks:
    """The background tasks of one session: ``session.tasks``. Works from several threads.

    Args:
        holding: Gives the session, locked for writing, for what is told first of all: what is going to be done.
        open_turn: Returns the message id of the prompt whose turn is open.
        prompt_of: Reads the prompt with that message id.
        parent: Where a task's process finds this session.
    """

    def __init__(
        self,
        session_id: str,
        work: Work,
        roster: Roster,
        *,
        log: CaptureLog,
        recorder: Recorder,
        anchors: Anchors,
        holding: Callable[[str], contextlib.AbstractContextManager[None]],
        open_turn: Callable[[], str | None],
        prompt_of: Callable[[str], str | None],
        parent: Parent,
        workdir: str | None,
    ) -> None:
        self._session_id = session_id
        self._work = work
        self._roster = roster
        self._log = log
        self._recorder = recorder
        self._anchors = anchors
        self._holding = holding
        self._open_turn = open_turn
        self._prompt_of = prompt_of
        self._parent = parent
        self._workdir = workdir

    # -- starting --------------------------------------------------------------------------------------------------

    def spawn(
        self,
        argv: Sequence[str],
        spawned_by: str | None = None,
        *,
        label: str | None = None,
        edits: Paths = (),
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Task:
        """Start a program in the background. It survives this process, and the session's closing.

        It gets a process session of its own under a small supervisor, so that no signal meant for the terminal reaches
        it, its output goes to a log file, and it finds in its environment what `sessions.subagent_from_env` needs. Its
        record is durable before it runs.

        Args:
            argv: The program and its arguments; found by ``PATH``.
            spawned_by: The message that starts it; in an open turn it may still be about to be written. None: the open
                turn, else the last one.
            label: What to call it; default: the command.
            edits: The files and directories it may change: captured before it starts and after it ends. A program that
                has none and does not use this library is a gap.
            cwd: Where it starts; default: the session's directory.
            env: Its environment; default: this process's.

        Raises:
            OSError: It could not be started, or a snapshot not be stored; nothing runs, nothing is on record.
            RequestError: There is no such message, no prompt yet, or something is no program, label or path.
            ConflictError: The session is closed, read-only, or being rewound.
        """
        words, environ = command.argv(argv), command.environ(env)
        where = os.path.join(self._workdir or os.curdir, command.directory(cwd))
        name = command.label(label, shlex.join(words))

        def start(task: TaskRecord) -> None:
            env = environment(environ, task.tag, replace(self._parent, task=task.id))
            launch(words, self._roster.folder(task.id), cwd=where, env=env)

        def record() -> _Recorded:
            return self._record(name, "spawn", spawned_by, argv=words, tag=uuid.uuid4().hex)

        return self._begin("start a task", record, start, edits)

    def adopt(
        self,
        process: int | Process,
        spawned_by: str | None = None,
        *,
        label: str | None = None,
        edits: Paths = (),
    ) -> Task:
        """Take care of a process that the host started: it is listed, and stopped by a cancel or a rewind.

        The host goes on owning it: it alone waits for it and learns how it ended. Until it has, or some seconds after
        its end, the task counts as running, with no pid. Descendants that left both its group and its parentage are not
        found; ``spawn`` finds them.

        Args:
            process: Its pid; or the ``Popen`` or asyncio process, which also says how it ended.
            spawned_by: As for ``spawn``; ``label``, ``edits`` likewise. Edits it made before this are not captured.
            label: Default: its command line.

        Raises:
            NotFoundError: There is no such process.
            RequestError: It is this process, one above it, or what ``spawn`` refuses.
            ConflictError: A task that runs is this process already; or as for ``spawn``.
        """
        started = started_by_host(process)
        name = command.label(label, command_of(started.main.pid))

        def record() -> _Recorded:
            self._refuse_known(started)
            return self._record(name, "adopt", spawned_by)

        def start(task: TaskRecord) -> None:
            self._roster.folder(task.id).write_started(started)
            self._roster.adopt(task.id, Owner(process, started.main))

        return self._begin("adopt a task", record, start, edits)

    def attach(
        self,
        task: asyncio.Future[object] | threading.Thread | None = None,
        *,
        spawned_by: str | None = None,
        label: str | None = None,
        cancel: Callable[[], object] | None = None,
        wait: Callable[[float], bool] | None = None,
        subagent: Subagent | None = None,
    ) -> Task:
        """Take care of work inside this process: it is listed, and cancelled and waited for by a cancel or a rewind.

        A rewind that concerns it is to be called on another thread than the one it needs to end, such as with
        ``asyncio.to_thread``; on the thread of its event loop it is refused.

        Args:
            task: An asyncio task; or a thread, with ``cancel``; or None, with ``cancel`` and ``wait``.
            cancel: Asks the work to end.
            wait: Waits up to so many seconds; returns whether it ended. An event's ``wait`` does. What it raises says
                that the work ended, and failed with that. It is asked once at once.
            spawned_by: As for ``spawn``; of a subagent's work: the message that started the subagent.
            label: What to call it; default: what the subagent, or the asyncio task, is called.
            subagent: The session of the subagent that works. Say it where a turn has several: cancelling this task then
                ends the edits of that one alone, and stops what it started.

        Raises:
            NotFoundError: The subagent is none of this session.
            RequestError: It is none of the three; ``wait`` does not say whether the work ended; or what ``spawn``
                refuses.
            ConflictError: As for ``spawn``.
        """
        attached = attached_to(task, cancel, wait)
        worker = self._worker(subagent) if subagent is not None else None
        called = worker.label if worker is not None else ""
        name = command.label(label, called or getattr(task, "get_name", lambda: "")() or "work inside the host")

        def record() -> _Recorded:
            if worker is None or spawned_by is not None:
                task, turn = self._record(name, "attach", spawned_by)
            else:
                turn = self._turn_of(worker)
                task = self._at(worker.spawned_by, turn, name, "attach")
            return replace(task, captured=True, works_in=worker.id if worker is not None else ""), turn

        def start(task: TaskRecord) -> None:
            identity = identity_of(os.getpid())
            assert identity is not None
            self._roster.folder(task.id).write_started(Started(identity, 0, None))
            self._roster.attach(task.id, attached)

        return self._begin("attach a task", record, start, ())

    # -- seeing and stopping ---------------------------------------------------------------------------------------

    def list(self) -> builtins.list[Task]:
        """Return the tasks of this session and of the subagents below it, oldest first, as they are now."""
        timeline = self._work.timeline()
        mine = below(self._session_id, timeline)
        return self._described([task for task in timeline.tasks.values() if task.session in mine])

    def _find(self, reference: str | Task) -> TaskRecord:
        """Return a task as it is on record: the one with an id, or whose id begins so, or a ``Task``.

        Raises:
            NotFoundError: There is none.
            AmbiguousError: There are several.
        """
        tasks = self._work.timeline().tasks
        reference = reference.id if isinstance(reference, Task) else reference
        if reference in tasks:
            return tasks[reference]
        matching = [task for task in tasks if reference and task.startswith(reference)]
        if len(matching) > 1:
            raise AmbiguousError("task", reference, matching)
        if not matching:
            raise NotFoundError("task", reference, hint=f"the session has {_named(list(tasks))}")
        return tasks[matching[0]]

    def get(self, reference: str | Task) -> Task:
        """Return one task as it is now: the one with an id, or whose id begins so, or a ``Task``.

        Raises:
            NotFoundError: There is none; AmbiguousError: there are several.
        """
        return self._described([self._find(reference)])[0]

    def is_running(self, reference: str | Task) -> bool:
        """Tell whether a task runs; ``reference`` as for ``get``. Costs a look at it alone, not at all processes."""
        return self._roster.state(self._find(reference)) is None

    def plan_cancel(self, tasks: Sequence[str | Task]) -> builtins.list[Task]:
        """Say which tasks cancelling some would stop; stops none.

        Returns:
            Those of which something is still there, and with them what their subagents started, as they are now.

        Raises:
            NotFoundError: One of them is none; AmbiguousError: several are meant.
            ConflictError: One of them cannot be stopped from here, as for ``cancel``.
        """
        return self._described(self._work.stopping.going([self._find(task) for task in tasks]))

    def cancel(self, task: str | Task) -> Task:
        """Stop a task for good: its process, its descendants wherever they went, and the tasks its subagents started.

        Everybody gets SIGTERM and some time to end (``[tasks] grace_s``), then is frozen and killed until nobody is
        found any more. Cancelling a task that ended stops what it left behind. Doing it again changes nothing.

        This works from another process too, and read-only, while the session is open elsewhere: the processes are
        stopped, and whoever stops them records it beside the transcript, which is all that is written there.

        Raises:
            NotFoundError: There is no such task.
            UnstoppableError: Some process could not be stopped; it is named.
            ConflictError: It runs inside another process, or on the event loop of this very thread.
        """
        return self.cancel_all([task])[0]

    def cancel_all(self, tasks: Sequence[str | Task]) -> builtins.list[Task]:
        """Stop several tasks for good, as ``cancel`` does one; all at once, so that many take the time of one.

        Returns:
            They, as they are now, in their order; not what their subagents started.

        Raises:
            NotFoundError: One of them is none; AmbiguousError: several are meant. Nothing was stopped.
            ConflictError: One of them cannot be stopped from here, as ``plan_cancel`` says. Nothing was stopped.
            UnstoppableError: Some process could not be stopped; it is named. The other tasks were stopped, and are
                named too.
        """
        records = [self._find(task) for task in tasks]
        self._work.stopping.cancel(records)
        now = self._work.timeline().tasks
        return self._described([now.get(record.id, record) for record in records])

    # -- inside ----------------------------------------------------------------------------------------------------

    def _worker(self, subagent: Subagent) -> ChildRecord:
        children = self._work.timeline().children
        record = children.get(subagent.id)
        if record is None or record.parent != self._session_id:
            raise NotFoundError("subagent", subagent.id)
        return record

    def _described(self, tasks: Sequence[TaskRecord]) -> builtins.list[Task]:
        return described(tasks, self._work.timeline(), self._roster, self._prompt_of)

    def _record(
        self, label: str, how: How, spawned_by: str | None, *, argv: tuple[str, ...] = (), tag: str = ""
    ) -> _Recorded:
        message, turn = self._anchors.of(spawned_by, open_turn=self._open_turn())
        return self._at(message, turn, label, how, argv=argv, tag=tag), turn

    def _at(
        self, message: str, turn: TurnRecord, label: str, how: How, *, argv: tuple[str, ...] = (), tag: str = ""
    ) -> TaskRecord:
        name, at = ids.new_task_id(), clock.timestamp()
        return TaskRecord(name, -1, turn.turn, self._session_id, message, label, how, argv, (), False, tag, at)

    def _turn_of(self, worker: ChildRecord) -> TurnRecord:
        turn = self._work.timeline().turns.get(worker.turn)
        if turn is None:
            raise ConflictError(f"the turn of subagent {worker.id} was removed by a rewind")
        return turn

    def _begin(
        self, what: str, recorded: Callable[[], _Recorded], start: Callable[[TaskRecord], None], edits: Paths
    ) -> Task:
        """Put a task on record, durably, with what is captured before it, start it, and give it to the host.

        Wherever it fails before that, by Ctrl-C too, the task never was: nobody would know its id.
        """
        paths = path_texts(edits)
        record: TaskRecord | None = None
        try:
            with self._holding(what):
                record, turn = recorded()
                self._work.stopping.hold_back(record.id, [record])
                if paths:
                    captured = self._recorder.begin_edit(turn, paths, by=record.id)
                    record = replace(record, edits=tuple(captured.named))
                self._roster.folder(record.id).make()
                self._put_on_record(record)
                start(record)
                self._work.watch(record)
            [task] = self._described([record])
            self._work.stopping.let_go(record.id)
        except BaseException as error:
            if record is not None:
                self._take_back(record, error)
                self._work.stopping.let_go(record.id)
            raise
        return task

    def _put_on_record(self, task: TaskRecord) -> None:
        records = [task.to_record()]
        if not (task.edits or task.captured):
            what = f"{task.label} ({task.id})"
            records.append(
                {"kind": "gap", "turn": task.turn, "gap": "task", "paths": [], "what": what, "task": task.id}
            )
        with self._log.locked():
            self._log.append(records)

    def _take_back(self, task: TaskRecord, error: BaseException) -> None:
        """Forget a task that was not begun, and stop what runs of it."""
        folder = self._roster.folder(task.id)
        failed = isinstance(error, OSError) and folder.started() is None  # then nothing runs
        self._work.stopping.stop_unrecorded(replace(task, tag="") if failed else task)
        folder.remove()
        with contextlib.suppress(OSError, ConflictError), self._log.locked() as timeline:
            captured = [touch.path for touch in timeline.touches if task.id in touch.authors]
            self._recorder.end_work([replace(task, edits=task.edits or tuple(captured))])
            if task.id in timeline.tasks:
                self._log.append([{"kind": "withdrawn", "task": task.id}])

    def _refuse_known(self, process: Started) -> None:
        """Refuse a process that a running task is already: it would be told of twice.

        Raises:
            ConflictError: The task is named.
        """
        for task in self._work.timeline().tasks.values():
            if task.how == "attach" or self._roster.state(task) is not None:
                continue
            known = self._roster.folder(task.id).started()
            if known is not None and process.main in {known.main, known.supervisor}:
                raise ConflictError(
                    f"process {process.main.pid} belongs to {task.label!r} ({task.id}) already", task=task.id
                )


def _named(tasks: Sequence[str]) -> str:
    if not tasks:
        return "no task"
    return "the tasks " + ", ".join(tasks[:8]) + (f" and {len(tasks) - 8} more" if len(tasks) > 8 else "")
