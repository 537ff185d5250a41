"""One session: the facade over transcript, timeline and rewind. It has no logic of its own, only order.

A session open for writing holds the kernel lock of its sidecar, and works from several threads: `sessions.hold`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sessions import catalog, forks, leftovers
from sessions.compaction import Compaction, compact
from sessions.errors import RequestError
from sessions.going_back import GoingBack, refuse_running
from sessions.hold import Hold
from sessions.notifying import Notices
from sessions.offspring import Offspring
from sessions.ownership import LOCK, is_owned
from sessions.parts import Captures, assemble
from sessions.place import Place
from sessions.relatives import Relatives
from sessions.rewind import seam
from sessions.rewind.audit import audit, damage
from sessions.rewind.background import Background, background, of_session
from sessions.rewind.checkpoints import checkpoints
from sessions.rewind.diff import Diff
from sessions.rewind.differ import Selection
from sessions.rewind.engine import Outcome
from sessions.rewind.options import Options, Paths, path_texts
from sessions.rewind.plan import (
    Checkpoint,
    History,
    OnConflicts,
    OnRunning,
    Plan,
    Report,
    RewindRecord,
    Scope,
    StoppedTask,
)
from sessions.rewind.pruning import Pruning
from sessions.rewind.relocating import Children
from sessions.rewind.targets import Reference
from sessions.settings import Settings
from sessions.subagent_sessions import begun, transcript_of_root
from sessions.subagents.environment import Parent
from sessions.tasks import Tasks
from sessions.transcript import reader, titles
from sessions.transcript.entry import Entry
from sessions.transcript.outline import Finding, Link
from sessions.turn import Turn, check_label, check_prompt
from sessions.unfinished import Unfinished
from sessions.work import Work

if TYPE_CHECKING:
    from sessions.transcript.entry import Entry
    from sessions.transcript.messages import Message, Messages


class Session:
    """A session. Open it with ``SessionStore``; close it, or use it as a context manager.

    Attributes:
        id: Its name, unique in the store.
        path: Its transcript.
        workdir: The directory the agent works in; None for a headerless file.
        created_at: When it began.
        git_branch: The branch it began on; None where there was none.
        forked_from: The id of the session it is a fork of; None for no fork.
        read_only: Whether it may change anything.
        tasks: Its background tasks.
        hold: What the store knows of its life: who has it open, who changes it.
        root_id: Of a subagent's session: the session the user talks to, which keeps its edits and goes back; None for
            that one itself.
        parent_id: Likewise the session that started it.
        spawned_by: Likewise the message that did.
    """

    def __init__(
        self,
        place: Place,
        settings: Settings,
        *,
        read_only: bool = False,
        on_close: Callable[[Session], None],
        begin: Callable[[Place], Session],
        drop: Callable[[Path, Callable[[], None]], object],
        opened: Callable[[Path], Session | None],
    ) -> None:
        self.id = place.session_id
        self.path = place.transcript
        self.workdir = place.workdir
        self.created_at = place.created_at
        self.git_branch = place.header.git_branch if place.header is not None else None
        self.forked_from = place.header.forked_from if place.header is not None else None
        self.root_id = place.link.root if place.link is not None else None
        self.parent_id = place.link.parent if place.link is not None else None
        self.spawned_by = place.link.spawned_by if place.link is not None else None
        self.read_only = read_only
        self._on_close = on_close
        self._place = place
        self._pending: list[bytes] = []
        self._pending_title: str | None = None
        self._unfinished = Unfinished(lambda: self.read_only and self.is_owned)
        self._turn: Turn | None = None
        self._notes: list[Finding] = []
        self._notes += [Finding("settings", what, so) for what, so in settings.troubles()]
        self._relatives = Relatives(self.path, self.root_id, opened)
        root = self._relatives.root
        shared = root._captures if root is not None else None  # noqa: SLF001 - its own class
        parts = assemble(place, settings, read_only=read_only, root=shared)
        self._captures: Captures = parts.captures
        self._writer = parts.writer
        self._worktree = parts.worktree
        self._log = parts.log
        self._payloads = parts.payloads
        self._journal = parts.journal
        self._engine = parts.engine
        self._recorder = parts.recorder
        self._transcript = parts.transcript
        self._rewind_planner = parts.rewind_planner
        self._undo_planner = parts.undo_planner
        self._differ = parts.differ
        self._ongoing = parts.ongoing
        self._contents = parts.contents
        self._pruner = parts.pruner
        self._source = parts.source
        self._scratch = parts.scratch
        self._shown = parts.shown
        self._anchors = parts.anchors
        self._begin = begin
        self.hold = Hold(
            self.id,
            parts.ownership,
            read_only=read_only,
            has_turn=lambda: self._turn is not None,
            is_unfinished=parts.journal.intent.exists,
            recover=self._recover,
        )
        notices = Notices(
            self.path,
            parts.captures.roster,
            outline=lambda: parts.transcript.outline(deep=False),
            append=self.append,
        )
        self._offspring = Offspring(parts.parent, place, begin=begin, drop=drop)
        self._work = Work(
            self.id,
            parts.captures.log,
            parts.recorder,
            parts.captures.roster,
            grace_s=settings.grace_s,
            settled=notices.tell,
            holding=self.hold.writing,
            is_left=self._relatives.is_left,
        )
        self._going_back = GoingBack(
            self.hold,
            parts.engine,
            parts.rewinder,
            parts.undoer,
            self._work,
            session=self,
            forks=self._offspring,
            children=Children(self.path),
            dismiss=self._relatives.dismiss,
            after=self._pruner.keep_within,
        )
        self.tasks = Tasks(
            self.id,
            self._work,
            parts.captures.roster,
            log=parts.captures.log,
            recorder=parts.recorder,
            anchors=parts.anchors,
            holding=self._starting,
            open_turn=self._open_turn,
            prompt_of=parts.transcript.prompt_of,
            parent=Parent(
                os.fspath(place.root),
                os.fspath(transcript_of_root(place.transcript, place.link)),
                "",
                tuple(os.path.abspath(each) for each in place.add_dirs),
            ),
            workdir=place.touches,
        )

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str | None:
        """The last title given; None if none was."""
        with self.hold.guard:
            return self._writer.title or self._pending_title

    @property
    def is_owned(self) -> bool:
        """Whether somebody, here or in another process, has it open for writing."""
        return is_owned(self.path)

    @property
    def has_records(self) -> bool:
        """Whether anything is kept beside its transcript: snapshots, undo records, tasks."""
        return self._journal.sidecar.is_dir()

    @property
    def messages(self) -> Messages:
        """What the model sees: from the last compaction on. Reads only that part of the file.

        A tool call that nobody will end any more, as it was in the file before this session was opened and no process
        has it open now, is shown as one that failed, so that no host ever sends half a pair. The file keeps what it
        says until the host itself writes.
        """
        return self._view(reader.read_view)

    def recent(self, count: int) -> Messages:
        """Return the last messages the model sees, at most so many, as ``messages`` shows them.

        Reads no more than the end of the file, unless something in it is hidden.
        """
        return self._view(lambda path: reader.read_end(path, count))

    def _view(self, read: Callable[[Path], list[Entry]]) -> Messages:
        from sessions.transcript.messages import Messages  # noqa: PLC0415 - pydantic is paid for by who needs it

        look = self._unfinished.look()
        entries = read(self._source) if self._source.exists() else []
        return Messages(entries, seen_as=look.settled())

    def history(self) -> Messages:
        """Return every visible message in file order, also those a compaction replaced, each as the file has it."""
        from sessions.transcript.messages import Messages  # noqa: PLC0415

        return Messages(list(reader.read_history(self._source)) if self._source.exists() else [])

    def lines(self, *, history: bool) -> Iterator[Entry]:
        """Yield the lines of a conversation, one in memory at a time, for long ones.

        Args:
            history: Every visible message once, at its first place with its last content, as the file has it; else what
                `messages` returns.
        """
        if not self._source.exists():
            return iter(())
        if history:
            return reader.read_told(self._source)
        return map(self._unfinished.look().shown, reader.stream_view(self._source))

    def checkpoints(self) -> list[Checkpoint]:
        """Return the turns one can go back to, oldest first."""
        with self.hold.guard:
            outline = self._transcript.outline(deep=True)
            timeline = self._log.read()
            now = self._ongoing.as_of_now(timeline.touches, timeline, is_open=self._relatives.is_open)
            return checkpoints(
                outline, timeline, now, self._contents, identify=self._worktree.identify, shown=self._shown
            )

    def diff(
        self,
        *,
        turn: Reference | None = None,
        run: str | None = None,
        since: Reference | None = None,
        paths: Paths | None = None,
    ) -> Diff:
        """Say what the agent did to files, net: from the state before its first edit to the one its last edit left.

        A file that ended as it began is not in it, nor is what somebody else did. The end is what was recorded, never
        what the file is now, but in a turn that is open, and of what a task or a subagent is editing right now.
        Nothing is written; a read-only session can do it.

        Args:
            turn: Only the edits of this prompt's turn: what ``plan_rewind`` takes, also the id of a removed prompt.
            run: Only those of the turns begun with this ``run_id``.
            since: All since this prompt was typed, or this mark was made; what a rewind of the code took back since is
                not among them. This is the default, from the first prompt on.
            paths: Only these files, and what lies below a directory. A move is one where both its paths are among
                them, else a creation or a deletion.

        Raises:
            RequestError: More than one of them is given, or a mark as ``turn``.
            NotFoundError: There is no such prompt, or no such run (the message says which there are), or the agent
                touched none of ``paths``.
        """
        self._refuse_in_subagent("has no diff of its own: session {} has it")
        with self.hold.guard:
            open_turn = self._turn.message_id if self._turn is not None else None
            chosen = path_texts(paths) if paths is not None else None
            selection = Selection(turn, run, since, chosen)
            return self._differ.diff(selection, open_turn=open_turn, is_open=self._relatives.is_open)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found damaged, set aside or recovered so far; `SessionStore.check` looks at everything."""
        with self.hold.guard:
            return tuple(self._found())

    def _found(self) -> Iterator[Finding]:
        yield from [*self._notes, *self._writer.findings]
        if self.path.exists():
            yield from self._transcript.outline(deep=False).findings
        yield from damage(self._log.read())
        if self.read_only and self._journal.intent.exists():
            where = str(self._journal.intent)
            yield Finding("unfinished_rewind", where, "finished at the next opening for writing")

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, message: Message | Mapping[str, object]) -> str:
        """Append a message; durable on return. Until the first one that is not meta, nothing is written to disk.

        Returns:
            The message's id.

        Raises:
            RequestError: It is not a message; nothing was written.
            OSError: It could not be written; the file is as before.
        """
        from sessions.transcript.messages import message_of  # noqa: PLC0415

        checked = message_of(message)
        line = checked.to_line()
        with self.hold.writing():
            assert checked.id is not None
            with self._unfinished.writing(checked.id, line):
                if checked.is_meta and not self.path.exists():
                    self._pending.append(line)
                else:
                    self._append([line])
        return checked.id

    def begin_turn(self, prompt: str | Message, run_id: str | None = None) -> Turn:
        """Append the user's prompt and open its checkpoint.

        Args:
            prompt: The text, or a whole message of the user.
            run_id: The execution of the agent the turn belongs to.

        Raises:
            ConflictError: A turn is open already.
            RequestError: It is empty, no prompt of the user, or has the id of an earlier one; nothing was written.
            OSError: It could not be written.
        """
        from sessions.transcript.messages import message_of, user_message  # noqa: PLC0415

        with self.hold.writing():
            self.hold.refuse_turn("begin another")
            self.hold.refuse_moving("begin a turn")
            self._work.settle_left()
            if run_id is not None:
                check_label(run_id, "a run's id")
            message = message_of(user_message(prompt) if isinstance(prompt, str) else prompt)
            known = self._transcript.outline(deep=False).prompts
            check_prompt(message, known)
            assert message.id is not None
            self.append(message)
            self._turn = Turn(
                self._recorder,
                message.id,
                run_id,
                len(known) + 1,
                on_end=self._forget_turn,
                is_open=lambda: not self.hold.closed,
                end_of_transcript=self._end_of_transcript,
            )
            return self._turn

    def subagent(self, spawned_by: str | None = None, *, label: str = "") -> Session:
        """Begin the session of a subagent, beside this one; close it, or use it as a context manager.

        It has a transcript of its own, and its edits belong to the turn of the message that starts it: going back past
        that takes them back, and its transcript with them. It may start tasks and subagents of its own. It does not go
        back itself. Nothing of it is written before its first message.

        Work inside this process is to be attached (`Tasks.attach`): else a rewind past it only closes its session, and
        what it goes on writing is nobody's.

        Args:
            spawned_by: The message that starts it; in an open turn it may still be about to be written. None: the open
                turn, else the last one.
            label: What to call it.

        Raises:
            NotFoundError: There is no such message.
            RequestError: No prompt was typed yet; or the label is no text on one line.
            ConflictError: The session is closed, read-only, being rewound, or was removed by a rewind itself.
        """
        if label:
            check_label(label, "a label for a subagent")
        with self._starting("start a subagent"):
            message, turn = self._anchors.of(spawned_by, open_turn=self._open_turn())
            link = Link(self.root_id or self.id, self.id, message)
            log = self._captures.log
            return self._begin(begun(self._place, link, turn=turn.turn, label=label, task=None, log=log))

    def _open_turn(self) -> str | None:
        turn = self._turn
        return turn.message_id if turn is not None else None

    def _end_of_transcript(self) -> seam.Place:
        with self.hold.guard:
            return seam.end_of(self.path)

    def set_title(self, title: str) -> None:
        """Give the session a title: at most 1 000 characters, the last one wins.

        Raises:
            RequestError: It is blank or too long.
        """
        with self.hold.writing():
            if self.path.exists():
                self._append([titles.title_line(title, self.id)])
            else:
                self._pending.append(titles.title_line(title, self.id))
                self._pending_title = title

    def compact(
        self, summary: str | None = None, *, summarizer: Callable[[Messages], str] | None = None, keep_rounds: int = 2
    ) -> Compaction:
        """Let a summary stand for the conversation so far, in the model's view; the file keeps everything.

        Args:
            summary: The summary.
            summarizer: Makes it from what the model sees; called with the session locked, before anything is written.
            keep_rounds: How many of the last API rounds stay verbatim.

        Raises:
            RequestError: The summary is blank, or neither or both of ``summary`` and ``summarizer`` are given.
            BusyError: A turn is open.
            OSError: It could not be written. In every case of an error the file is as before, as when ``summarizer``
            raises.
        """
        if (summary is None) == (summarizer is None):
            raise RequestError("give either a summary or a summarizer")
        if keep_rounds < 0:
            raise RequestError(f"cannot keep {keep_rounds} rounds")
        with self.hold.writing():
            self.hold.refuse_turn("compact")
            self.hold.refuse_moving("compact")
            seen = self.messages
            if summary is None and summarizer is not None and len(seen):
                summary = summarizer(seen)
                seen = self.messages  # it may have appended
            return compact(seen.entries, summary or "", keep_rounds=keep_rounds, append=self._append)

    # -- going back ------------------------------------------------------------------------------------------------

    def plan_rewind(
        self,
        to: Reference | None = None,
        *,
        run: str | None = None,
        scope: Scope | None = None,
        history: History = "rewrite",
        on_conflict: OnConflicts = "overwrite",
        on_running: OnRunning = "cancel",
        paths: Paths | None = None,
    ) -> Plan:
        """Say what a rewind would do; changes nothing.

        Args:
            to: The prompt to go back to: a checkpoint, a message id or the beginning of one, an index from 1. Or a mark
                inside a turn, also as ``TURN:MARK``: the turn's lines up to it stay.
            run: Only the files this run of the agent touched, to what they were before it (with ``to``: before what it
                did from there on). Files that others edited since are conflicts. The conversation stays.
            scope: ``both`` (the default), ``conversation`` or ``code`` (the default with ``run``).
            history: What becomes of the removed part: ``rewrite`` takes it out of the file, ``hide`` leaves it there
                and appends an event that hides it in every view, ``fork`` leaves this session as it is and goes on in a
                new one, without it: the report's ``session``.
            on_conflict: What happens to files somebody else changed: ``overwrite`` (kept for the undo), ``keep`` them,
                or ``refuse`` the rewind. A mapping says it for single paths and what lies below them, and under
                ``None`` for all others.
            on_running: What happens to background tasks of the removed turns.
            paths: Only these files, for scope ``code``.

        Raises:
            RequestError: There is no such checkpoint, mark or run, or the options contradict each other.
            DataError: Records needed to do it exactly are damaged.
        """
        options = _options(scope, history, on_conflict, on_running, paths, run)
        self._refuse_in_subagent()
        with self.hold.guard:
            return self._rewind_planner.plan(to, options)

    def rewind(
        self,
        to: Plan | Reference | None = None,
        *,
        run: str | None = None,
        scope: Scope | None = None,
        history: History = "rewrite",
        on_conflict: OnConflicts = "overwrite",
        on_running: OnRunning = "cancel",
        paths: Paths | None = None,
    ) -> Report:
        """Go back: carry out a plan, or plan and carry out. A plan's own options count.

        On success conversation and files are those of the target, and ``undo_rewind`` takes it back. What was started
        in the background from there on is stopped first, until nobody of it is left. On an error conversation and
        files are as they were; it says which tasks are gone all the same. A crash before the commit point leaves them
        as they were, one after it is finished at the next opening for writing.

        Raises:
            StaleError: The plan no longer describes what is there.
            ConflictError: ``refuse``, and a file was changed by somebody else, or a task runs; or a turn is open; or
                this thread runs the event loop of a task that would be waited for.
            LockedError: Another process has a subagent's session open that would be removed.
            UnstoppableError: Some process could not be stopped; it is named.
            OSError: The system refused; everything was put back.
            IncompleteError: It could not be put back; ``sessions check`` finishes it.
        """
        options = _options(scope, history, on_conflict, on_running, paths, run)
        self._refuse_in_subagent()
        return self._going_back.rewind(to, options)

    def undo_rewind(
        self,
        rewind_id: str | Plan | None = None,
        *,
        paths: Paths | None = None,
        on_conflict: OnConflicts = "refuse",
    ) -> Report:
        """Take back the newest rewind not yet taken back.

        Args:
            rewind_id: The rewind that is expected to be the newest; or a plan made by ``plan_undo``, which is refused
                where it no longer describes what is there, and whose own options count.
            paths: Only these files; the conversation stays, and so does the rewind.
            on_conflict: What to do where a turn came since or a file changed: ``refuse``; ``overwrite`` (new messages
                are removed too; a redo brings them back); ``keep`` (new messages stay, behind the restored ones). A
                mapping says it for single paths, as for ``plan_rewind``.

        Raises:
            NothingToUndoError: Nothing is left to take back.
            ConflictError: Something changed since and ``on_conflict`` is ``refuse``; nothing was changed.
        """
        return self._reverse("undo", rewind_id, paths, on_conflict)

    def redo_rewind(self, plan: Plan | None = None, *, on_conflict: OnConflicts = "refuse") -> Report:
        """Repeat the rewind taken back last. What was begun since in turns that stay is left alone, and runs on.

        A new turn or rewind ends the redo, and so does a task, a subagent or an edit begun since in what it takes back.

        Args:
            plan: Made by ``plan_undo(redo=True)``.
            on_conflict: As for ``undo_rewind``.

        Raises:
            NothingToUndoError: There is none.
            ConflictError: As for ``undo_rewind``.
        """
        return self._reverse("redo", plan, None, on_conflict)

    def plan_undo(
        self,
        rewind_id: str | None = None,
        *,
        redo: bool = False,
        paths: Paths | None = None,
        on_conflict: OnConflicts = "refuse",
    ) -> Plan:
        """Say what an undo, or a redo, would do; changes nothing."""
        self._refuse_in_subagent()
        with self.hold.guard:
            given = path_texts(paths) if paths is not None else None
            kind = "redo" if redo else "undo"
            return self._undo_planner.plan(
                self._undo_planner.find(kind, rewind_id, on_conflict=on_conflict, paths=given)
            )

    def rewinds(self, *, prompts: bool = False) -> list[RewindRecord]:
        """Return the undo stack, oldest first.

        Args:
            prompts: With what the prompts gone back to say, where that is still known: a file is read for each rewind.
        """
        return self._undo_planner.rewinds(prompts=prompts)

    def _reverse(self, kind: str, what: str | Plan | None, paths: Paths | None, on_conflict: OnConflicts) -> Report:
        self._refuse_in_subagent()
        given = path_texts(paths) if paths is not None and not isinstance(what, Plan) else None
        return self._going_back.reverse(kind, what, given, on_conflict)

    # -- forking ---------------------------------------------------------------------------------------------------

    def fork(
        self,
        at: Reference | None = None,
        *,
        title: str | None = None,
        workdir: str | os.PathLike[str] | None = None,
    ) -> Session:
        """Begin a new session with the conversation and the checkpoints of this one; return it, open for writing.

        It has the visible lines, byte for byte, the snapshots (linked, so they cost nothing) and an empty undo stack,
        and needs this session no more. This one is only read: that works read-only, while another process writes it,
        and in an open turn, of which comes along what is written and captured so far. No file and no task is touched.

        Args:
            at: The last turn that comes along; None: all do.
            title: Its title; None: this one's with `` (fork)`` behind it, where this one has one.
            workdir: The directory it works in, such as another worktree of the project; None: this one's. Captured
                files below the old directory are then those below the new one.

        Raises:
            NotFoundError: There is no such checkpoint, or the session was deleted meanwhile.
            RequestError: Nothing is written yet; the title is blank or too long; the directory is none.
            ConflictError: The session is being rewound.
            OSError: It could not be written. In every case of an error no fork is there. A crash leaves none, or a
                whole one.
        """
        self._refuse_in_subagent("is not forked by itself: fork session {}")
        return self._offspring.fork(at, title=title, workdir=workdir)

    def plan_fork(
        self,
        at: Reference | None = None,
        *,
        title: str | None = None,
        workdir: str | os.PathLike[str] | None = None,
    ) -> forks.ForkPlan:
        """Say what ``fork`` would make; makes nothing. Its arguments and errors are those of ``fork``."""
        self._refuse_in_subagent("is not forked by itself: fork session {}")
        return self._offspring.plan(at, title=title, workdir=workdir)

    # -- life ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Settle what of its background work ended, and watch the rest. Called by the store, which holds nothing."""
        for task in self._work.settle():
            self._notes.append(Finding("unfinished_cancel", f"task {task.label} ({task.id})", "stopped now"))

    def close(self) -> None:
        """End an open turn and give the lock back; background tasks go on. Closing a closed session changes nothing.

        A session that its store handed out several times closes with the last of them.
        """
        if not self.hold.let_go():
            return
        try:
            with self.hold.guard:
                if not self.hold.closed:
                    self._end()
        finally:
            self._work.close()
            root = self._relatives.root
            if root is not None:
                root._work.take_over(self.id)  # noqa: SLF001 - its own class

    def _end(self) -> None:
        try:
            if self._turn is not None:
                self._turn.end()
        finally:
            if self._scratch is not None:
                self._scratch.cleanup()
                self._source = self.path
            if self.hold.held:
                self._writer.note_untitled()
            self.hold.end()  # first: whoever opens it when the store has forgotten it finds no lock
            self._on_close(self)

    @contextlib.contextmanager
    def deleting(
        self, refuse: Callable[[], object], stopped: list[StoppedTask] | None = None, *, stops: bool = True
    ) -> Iterator[None]:
        """Hold the session while the store removes its files; it is closed afterwards. Called by the store.

        Args:
            refuse: Raises where the session is to stay; asked with its lock held, also before anything is stopped.
            stopped: Gets the tasks that were stopped for it.
            stops: Whether tasks are stopped; else one that runs is a reason to stay.

        Raises:
            BusyError: A turn is open.
            ConflictError: A task runs that is not to be stopped.
            LockedError: Another process has the session of one of its subagents open.
            UnstoppableError: A task of it cannot be stopped.
        """
        try:
            with self._going_back.leaving(
                "delete a session", self._background, refuse=refuse, done=stopped, stops=stops
            ):
                try:
                    yield
                finally:
                    self.hold.end(removed=True)
                    self._on_close(self)
        finally:
            if self.hold.closed:
                self._work.close()

    def refuse_running(self) -> None:
        """Refuse to do without what background work needs. Called by the store.

        Raises:
            ConflictError: Some of it is still there.
        """
        refuse_running(self._background())

    def _background(self) -> Background:
        timeline, roster = self._captures.log.read(), self._captures.roster
        return background(timeline, of_session(self.id, timeline), roster, leaves=True)

    def prune(self, *, undo: bool = False, dry_run: bool = False) -> Pruning:
        """Remove snapshots and undo records beyond the limits, as is done at the end of a turn and of a rewind.

        Args:
            undo: Whether of the undo records only the newest stays, whatever the limits.
            dry_run: Only say what would go.

        Raises:
            OSError: Not all could be removed; the next pruning goes on.
        """
        if dry_run:
            return self._pruner.look(undo=undo)
        with self.hold.writing():
            self.hold.take()
            return self._pruner.prune(undo=undo)

    def subagents(self) -> list[str]:
        """Return the ids of its subagents' sessions, wherever in the tree below it, sorted; reads their headers."""
        return [catalog.id_of(child) for child in leftovers.children_of(self.path)]

    def check(self, *, families: leftovers.Families | None = None) -> list[Finding]:
        """Look at every line of the transcript and of its subagents', and every record beside it; changes nothing.

        Args:
            families: Spares reading all subagents' headers again where several sessions are checked.

        Returns:
            What is damaged, missing or left over; a rewind that was finished at opening is not among it.
        """
        found = list(reader.check(self.path)) if self.path.exists() else []
        for child in (families or leftovers.Families()).of(self.path):
            found += [replace(finding, where=f"{child.name}: {finding.where}") for finding in reader.check(child)]
        return [*found, *audit(self._log.read(), self._payloads, self._journal)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self.id}{' read-only' if self.read_only else ''}>"

    @contextlib.contextmanager
    def _starting(self, what: str) -> Iterator[None]:
        with self.hold.writing():
            self.hold.refuse_moving(what)
            if self.path.exists() or self._pending or self.root_id is not None:  # the root asks for that lock
                self.hold.take()
            yield

    def _append(self, lines: Sequence[bytes]) -> None:
        self.hold.take()
        self._writer.append([*self._pending, *lines])
        self._pending.clear()
        self._pending_title = None

    def _recover(self) -> None:
        """Finish or take back what a crash, or an error that could not be mended at once, left; sweep temporaries."""
        if set(os.listdir(self._journal.sidecar)) - {LOCK}:
            with self._log.locked():
                outcome = self._engine.recover()
                with contextlib.suppress(OSError):  # leftovers are no reason to keep anybody out
                    self._payloads.sweep()
            if outcome is not None:
                self._notes.append(Finding("unfinished_rewind", f"rewind {outcome.record.rewind}", _recovered(outcome)))
        self._writer.sweep()

    def _refuse_in_subagent(self, so: str = "does not go back by itself: session {} does") -> None:
        if self.root_id is not None:
            raise RequestError(f"a subagent's session {so.format(self.root_id)}")

    def _forget_turn(self, turn: Turn) -> None:
        with self.hold.guard:
            if self._turn is turn:
                self._turn = None
                self._pruner.keep_within()


def _options(  # noqa: PLR0917 - the options of a rewind
    scope: Scope | None,
    history: History,
    on_conflict: OnConflicts,
    on_running: OnRunning,
    paths: Paths | None,
    run: str | None,
) -> Options:
    scope = scope if scope is not None else "both" if run is None else "code"
    return Options(scope, history, on_conflict, on_running, path_texts(paths) if paths is not None else None, run)


def _recovered(outcome: Outcome) -> str:
    done = "taken back" if outcome.put_back else "finished"
    return f"{done}, but edited meanwhile and left alone: {', '.join(outcome.left)}" if outcome.left else done
