"""Undo and redo: a finished transaction turned around.

What each file was becomes what it must be; what the transaction left counts as what the agent left, so a file somebody
changed since is a conflict like any other. The transcript's removed tail comes back byte for byte; titles and notices
appended since stay behind it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sessions import clock, ids
from sessions.errors import ConflictError, DataError, NothingToUndoError, RequestError, StaleError
from sessions.rewind.background import Background, Looking, Stopped, background, of_new_turns, of_redo
from sessions.rewind.children import Children, Move
from sessions.rewind.engine import Engine
from sessions.rewind.files_plan import FilesPlan
from sessions.rewind.journal import Cut, Journal, Record
from sessions.rewind.log import CaptureLog
from sessions.rewind.needs import Need, is_within, unmatched
from sessions.rewind.payloads import Payloads
from sessions.rewind.plan import Going, OnConflicts, Plan, Report, RewindRecord, Scope
from sessions.rewind.planning import Planner
from sessions.rewind.policy import incomplete, objection, policies, refuse, refuse_changed_files, still_running
from sessions.rewind.recorded import Step
from sessions.rewind.reversal import Reversal
from sessions.rewind.rewinder import Forks
from sessions.rewind.seam import seam_of
from sessions.rewind.splicing import Part, Splice
from sessions.rewind.stack import check_newest, described, why_nothing
from sessions.rewind.states import Absent, Image, same
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree
from sessions.transcript import reader, rollback

_COMPARED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Came:
    """What was appended to the transcript since the transaction.

    Attributes:
        inside: Lines of turns that stand among what the transaction itself put there and not among what it removed: an
            undo that removed a new turn was redone.
        lines: The lines behind, each with whether it belongs to a turn.
    """

    inside: tuple[bytes, ...] = ()
    lines: tuple[tuple[bytes, bool], ...] = ()

    @property
    def messages(self) -> int:
        """How many of the lines belong to turns."""
        return sum(of_a_turn for _, of_a_turn in self.lines)


@dataclass(frozen=True, slots=True)
class _Basis:
    reversal: Reversal
    files: FilesPlan
    came: _Came
    background: Background
    seq: int


class Undoer:
    """Takes back the rewinds of one session, and repeats them.

    Args:
        looking: Looks at background tasks.
        shown: Spells an identity for people.
        prompt_of: Reads the prompt with that message id; None where the conversation has it no more.
    """

    def __init__(
        self,
        session_id: str,
        path: Path,
        worktree: Worktree,
        *,
        log: CaptureLog,
        journal: Journal,
        payloads: Payloads,
        planner: Planner,
        looking: Looking,
        shown: Callable[[str], str],
        prompt_of: Callable[[str], str | None],
    ) -> None:
        self._session_id = session_id
        self._path = path
        self._worktree = worktree
        self._log = log
        self._journal = journal
        self._payloads = payloads
        self._planner = planner
        self._looking = looking
        self._children = Children(path)
        self._shown = shown
        self._prompt_of = prompt_of

    def rewinds(self, *, prompts: bool) -> list[RewindRecord]:
        """Return the undo stack, oldest first; with ``prompts`` each record of a transaction is read."""
        timeline = self._log.read()
        stack = [described(step, timeline) for step in timeline.steps]
        if not prompts:
            return stack
        records = [self._record_of(step) for step in timeline.steps]
        return [self._with_prompt(each, record) for each, record in zip(stack, records, strict=True)]

    def find(
        self, kind: str, rewind_id: str | None, *, on_conflict: OnConflicts, paths: Sequence[str] | None
    ) -> Reversal:
        """Find what is to be undone or redone.

        Raises:
            NothingToUndoError: Nothing is left, or the bytes for it were removed.
            NotFoundError: No rewind has that id.
            ConflictError: It is not the newest: the later ones come first.
            DataError: Its record is damaged or gone.
        """
        wanted = policies(on_conflict, identify=self._worktree.identify, default="refuse")
        timeline = self._log.read()
        step = timeline.newest_done() if kind == "undo" else timeline.newest_undone()
        if rewind_id is not None:
            check_newest(timeline, rewind_id, step, kind)
        if step is None:
            raise NothingToUndoError(kind, why_nothing(timeline, kind))
        record = self._read(step)
        if paths is not None and kind == "undo":
            step, record = self._concerned(timeline, step, record, paths)
        return Reversal(kind, step, record, wanted, tuple(paths) if paths is not None else None)

    def _concerned(self, timeline: Timeline, step: Step, record: Record, paths: Sequence[str]) -> tuple[Step, Record]:
        """Return the newest step that concerns some of the paths: single files undone before are passed over."""
        chosen = {self._worktree.identify(path) for path in paths}
        done = sorted((each for each in timeline.steps if each.state == "done"), key=lambda each: -each.seq)
        for each in done:
            found = self._read(each)
            if any(is_within(change.path, chosen) for change in found.changes):
                return each, found
            if each.of is None:
                break
        return step, record

    def _read(self, step: Step) -> Record:
        try:
            return self._journal.done(step.record)
        except (OSError, ValueError) as error:
            raise DataError(f"the record of rewind {step.rewind} cannot be read: {error}") from error

    def again(self, plan: Plan) -> Reversal:
        """Find what a plan was made for.

        Raises:
            RequestError: It is no plan of an undo or redo of this session.
            StaleError: Another rewind, undo or redo came since.
        """
        if not isinstance(plan.basis, _Basis) or plan.session_id != self._session_id:
            raise RequestError("this plan was not made by plan_undo for this session")
        planned = plan.basis.reversal
        try:
            found = self.find(planned.kind, None, on_conflict=planned.on_conflict, paths=planned.paths)
            found = replace(found, policies=planned.policies)
        except NothingToUndoError:
            raise StaleError("it was taken back since") from None
        if found.step != planned.step:
            raise StaleError("another rewind, undo or redo came since")
        return found

    def plan(self, reversal: Reversal) -> Plan:
        """Say what an undo or redo would do; changes nothing."""
        files = self._files(reversal)
        came = self._came_since(reversal)
        going = self._background(reversal, came)
        of = self._with_prompt(described(reversal.step, self._log.read()), reversal.record)
        plan = Plan(
            session_id=self._session_id,
            to=reversal.step.to,
            index=None,
            scope=reversal.step.scope if reversal.paths is None else "code",
            history=reversal.step.history,
            on_conflict=reversal.on_conflict,
            on_running="cancel",
            prompt=reversal.record.prompt if reversal.kind == "redo" and reversal.step.of is None else "",
            removed_messages=self._removed(reversal, came),
            files=tuple(files.verdicts),
            conflicts=tuple(files.conflicts),
            gaps=(),
            tasks=going.to_be_stopped,
            paths=reversal.paths,
            mark=of.mark,
            run=of.run,
            of=of,
            exceptions=tuple((self._shown(path), each) for path, each in reversal.policies.by_path.items()),
            basis=_Basis(reversal, files, came, going, self._log.read().next_seq),
        )
        return replace(plan, refused=self._objection(reversal, plan, files, came))

    def prepare(self, reversal: Reversal, given: Plan | None) -> Plan:
        """Return the plan to carry out, before any work is stopped for it.

        Raises:
            StaleError: The given plan no longer describes what is there.
            ConflictError: It is refused as it stands.
        """
        plan = self.plan(reversal)
        if given is not None:
            self._compare(given, plan, stopped=Stopped())
        refuse(plan.refused)
        return plan

    def planned_work(self, plan: Plan) -> Background:
        """Return what of the background goes with a plan, as it was planned."""
        assert isinstance(plan.basis, _Basis)
        return plan.basis.background

    def work(self, plan: Plan) -> Background:
        """Return what of the background goes with a plan, as of now."""
        assert isinstance(plan.basis, _Basis)
        return self._background(plan.basis.reversal, plan.basis.came)

    def _background(self, reversal: Reversal, came: _Came) -> Background:
        timeline, leaves = self._log.read(), reversal.record.cut is not None
        if reversal.kind == "redo":
            leaves = leaves and reversal.step.history == "rewrite"
            return background(timeline, of_redo(reversal.step, timeline), self._looking, leaves=leaves)
        removes = reversal.paths is None and reversal.on_conflict == "overwrite" and (came.messages or came.inside)
        goes = of_new_turns(reversal.step, timeline) if removes else None
        return background(timeline, goes, self._looking, leaves=leaves)

    def _compare(self, given: Plan, fresh: Plan, *, stopped: Stopped) -> None:
        assert isinstance(given.basis, _Basis)
        assert isinstance(fresh.basis, _Basis)
        timeline = self._log.read()
        stopping = given.basis.background.with_stopped(stopped, timeline).edited_by_it(timeline)
        refuse_changed_files(given.basis.files, fresh.basis.files, self._shown, stopping=stopping)
        if stopped.is_empty and given.basis.came != fresh.basis.came:
            raise StaleError("messages came since")
        if stopped.is_empty and {task.id for task in given.tasks} != {task.id for task in fresh.tasks}:
            raise StaleError("background tasks started or ended since")

    def run(self, engine: Engine, given: Plan, session: Going, *, stopped: Stopped, forks: Forks) -> Report:
        """Carry out a prepared undo or redo whose work is stopped; the caller holds the session's lock.

        Args:
            forks: Of a rewind that let the conversation go on in a fork: what an undo removes and a redo makes again.
            stopped: What was stopped for it.

        Raises:
            StaleError: The given plan no longer describes what is there.
            ConflictError: A turn came since, or a file changed, and nothing says what to do then; nothing was changed.
            OSError: It failed; everything is as it was.
            IncompleteError: It failed and could not be put back.
        """
        with self._log.locked() as timeline, contextlib.ExitStack() as stack:
            plan = given
            assert isinstance(plan.basis, _Basis)
            if not plan.basis.background.is_empty or plan.basis.seq != timeline.next_seq:
                plan = self.plan(self.again(given))
                self._compare(given, plan, stopped=stopped)
                refuse(plan.refused)
            assert isinstance(plan.basis, _Basis)
            reversal = plan.basis.reversal
            going = plan.basis.background
            refuse(still_running(going.tasks))
            stack.enter_context(self._children.claimed(going.children))
            if reversal.paths is not None and not plan.changes_files:
                raise NothingToUndoError(reversal.kind, "those files are as they were before the rewind")
            splice = self._splice(reversal, plan.basis.came) if reversal.paths is None else None
            draft = self._draft(reversal, plan.basis.files)
            draft = replace(draft, stopped=tuple(task.label for task in stopped.tasks))
            draft = replace(draft, children=self._moves(reversal, going, draft.id))
            self._children.refuse_taken(draft.children)
            goes_on, forked = session, reversal.paths is None and reversal.step.history == "fork"
            if forked and reversal.kind == "redo":
                goes_on, fork = stack.enter_context(forks.again(reversal.step))
                draft = replace(draft, fork=fork)
            outcome = engine.run(draft, splice)
        became = forks.remove(reversal.record.fork) if forked and reversal.record.fork is not None else None
        left = {self._shown(path) for path in outcome.left}
        return Report(
            rewind_id=outcome.record.rewind,
            session=goes_on,
            session_id=goes_on.id,
            prompt=plan.prompt,
            removed_messages=plan.removed_messages,
            files=plan.files,
            conflicts=plan.conflicts,
            gaps=(),
            partial=plan.partial or bool(left),
            notes=(
                *(f"{path} was edited meanwhile and left alone" for path in sorted(left)),
                *((became,) if became is not None else ()),
                *(_do_not_come_back(reversal.record.stopped) if reversal.kind == "undo" else ()),
            ),
            cancelled=stopped.tasks,
            history=plan.history,
            scope=plan.scope,
            run=plan.run,
            mark=plan.mark,
        )

    def _moves(self, reversal: Reversal, going: Background, name: str) -> tuple[Move, ...]:
        """Return what becomes of the sessions of subagents: the opposite of before; those of new turns leave too."""
        if reversal.paths is not None:
            return ()
        moves = [move.reversed() for move in reversed(reversal.record.children)]
        moves = [replace(move, record=name) if move.away else move for move in moves]
        moved = {each for move in moves for each in move.ids}
        if leaving := self._children.there(each for each in going.leaving if each not in moved):
            moves.append(Move(leaving, name, away=True))
        return tuple(moves)

    def _record_of(self, step: Step) -> Record | None:
        try:
            return self._journal.done(step.record)
        except (OSError, ValueError):  # pruned, or damaged, which an undo of it says
            return None

    def _with_prompt(self, rewind: RewindRecord, record: Record | None) -> RewindRecord:
        """Add the prompt: from the record, or from the transcript where that still has it."""
        returned = record.prompt if record is not None else ""
        return replace(rewind, prompt=returned or self._prompt_of(rewind.to) or "")

    def _files(self, reversal: Reversal) -> FilesPlan:
        needs = [
            Need(change.path, change.before, Image(change.after.state), "rewind", change.in_place)
            for change in sorted(reversal.record.changes, key=lambda change: change.path)
            if change.path not in reversal.step.left and not same(change.before.state, change.after.state)
        ]
        reversal.policies.refuse_unknown([need.path for need in needs], self._shown)
        untouched: list[str] = []
        if reversal.paths is not None:
            chosen = {self._worktree.identify(path): None for path in reversal.paths}
            untouched = unmatched([need.path for need in needs], list(chosen), self._shown)
            needs = [need for need in needs if is_within(need.path, chosen.keys())]
        files = self._planner.plan(needs, reversal.policies)
        files.leave_out((self._shown(path) for path in untouched), f"the {reversal.kind} does not concern it")
        return files

    def _draft(self, reversal: Reversal, files: FilesPlan) -> Record:
        name, at = ids.new_rewind_id(), clock.timestamp()
        left = {change.path: change.after.state for change in reversal.record.changes}
        if reversal.paths is None:
            kind, rewind = reversal.kind, reversal.step.rewind
            entry: dict[str, object] = {"kind": kind, "rewind": rewind, "record": name, "at": at}
            scope: Scope = reversal.step.scope
        else:
            kind, rewind, scope = "undo", name, "code"
            entry = {"kind": kind, "rewind": name, "record": name, "of": reversal.step.rewind}
            entry |= {"to": reversal.step.to, "at": at}
        return Record(
            id=name,
            kind=kind,
            rewind=rewind,
            scope=scope,
            to=reversal.step.to,
            at=at,
            changes=tuple(files.changes),
            cut=None,
            log=(entry,),
            removed_messages=reversal.record.removed_messages,
            prompt=reversal.record.prompt,
            length=self._path.stat().st_size,
            captures=tuple(
                change.path
                for change in files.changes
                if reversal.paths is not None or not same(change.before.state, left.get(change.path, Absent()))
            ),
        )

    def _came_since(self, reversal: Reversal) -> _Came:
        """Say what was appended since.

        Raises:
            ConflictError: The transcript is not what the transaction left, and something.
        """
        cut = reversal.record.cut
        if reversal.paths is not None:
            return _Came()
        if cut is None:
            return _Came(lines=tuple(reader.lines_since(self._path, reversal.record.length)))
        if not self._is_as_left(cut):
            raise ConflictError("the transcript was rewritten by another program since; nothing was changed")
        appended = cut.keep + (cut.tail.size or 0)
        inside: list[bytes] = []
        if reversal.kind == "undo":
            inside = [line for line, of_a_turn in reader.lines_since(self._path, cut.keep, appended) if of_a_turn]
            if reversal.step.history == "hide":
                inside = rollback.without_event(inside, reversal.step.to)
        if inside:
            comes_back = set(b"".join(self._payloads.chunks(cut.tails[0])).split(b"\n"))
            inside = [line for line in inside if line.removesuffix(b"\n") not in comes_back]
        return _Came(tuple(inside), tuple(reader.lines_since(self._path, appended)))

    def _removed(self, reversal: Reversal, came: _Came) -> int:
        """Return how many messages leave the conversation."""
        if reversal.record.cut is None:
            return 0
        again = reversal.record.removed_messages if reversal.kind == "redo" else 0
        return again + (came.messages + len(came.inside) if reversal.on_conflict != "keep" else 0)

    def _objection(self, reversal: Reversal, plan: Plan, files: FilesPlan, came: _Came) -> str | None:
        what = "rewind" if reversal.kind == "undo" else "undo"
        moved_on = came.inside or came.messages or self._turns_since(reversal.step.seq)
        refuses = reversal.on_conflict == "refuse"
        if refuses and reversal.paths is None and moved_on:
            return (
                f"messages came since the {what}; on conflict 'keep' leaves them there, behind the restored ones, and"
                " 'overwrite' removes them, which can be taken back too"
            )
        changed = objection(files.refusing, files.unverified, since=f"the {what}")
        return changed or (incomplete(plan) if refuses else None)

    def _splice(self, reversal: Reversal, came: _Came) -> Splice | None:
        cut = reversal.record.cut
        if cut is None:
            return None
        if not self._payloads.intact(cut.tails[0]):
            raise DataError("what the rewind removed from the transcript is damaged or gone; nothing was changed")
        removed = cut.removed.size or 0
        stage = str(self._journal.sidecar / cut.removed.file)
        lines = [*((line, True) for line in came.inside), *came.lines]
        since = b"".join(line for line, of_a_turn in lines if not of_a_turn or reversal.on_conflict == "keep")
        parts: list[Part] = [(stage, cut.removed.offset, removed)]
        if since:
            parts.append(b"" if self._ends_line(stage, cut.removed.offset + removed, removed) else b"\n")
            parts.append(since)
        return Splice(cut.keep, tuple(parts))

    def _turns_since(self, seq: int) -> bool:
        return any(turn.seq > seq for turn in self._log.read().turns.values())

    def _is_as_left(self, cut: Cut) -> bool:
        """Tell, from the bytes around it, whether the place where the transaction cut is still that place."""
        appended = cut.tail.size or 0
        compared = min(appended, _COMPARED_BYTES)
        try:
            with (
                open(self._path, "rb") as transcript,
                open(self._journal.sidecar / cut.tail.file, "rb") as staged,
            ):
                if os.fstat(transcript.fileno()).st_size < cut.keep + appended:
                    return False
                if seam_of(transcript, cut.keep) != cut.seam:
                    return False
                transcript.seek(cut.keep + appended - compared)
                staged.seek(cut.tail.offset + appended - compared)
                return transcript.read(compared) == staged.read(compared)
        except OSError as error:
            raise DataError(f"what the rewind removed cannot be read: {error}") from error

    def _ends_line(self, stage: str, end: int, size: int) -> bool:
        if not size:
            return True
        with open(stage, "rb") as staged:
            staged.seek(end - 1)
            return staged.read(1) == b"\n"


def _do_not_come_back(stopped: Sequence[str]) -> Iterator[str]:
    if stopped:
        yield f"processes do not come back: {', '.join(stopped)}"
