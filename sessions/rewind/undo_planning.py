"""Planning an undo or a redo: a finished transaction turned around. Changes nothing.

What each file was becomes what it must be; what the transaction left counts as what the agent left, so a file somebody
changed since is a conflict like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sessions.errors import DataError, NothingToUndoError, RequestError, StaleError
from sessions.rewind.background import (
    NOTHING_STOPPED,
    Background,
    Goes,
    Looking,
    Stopped,
    background,
    of_redo,
    of_turns,
    staying,
)
from sessions.rewind.basis import Basis, refuse_other_files, refuse_other_tasks
from sessions.rewind.files_plan import FilesPlan
from sessions.rewind.files_planning import FilesPlanner
from sessions.rewind.journal import Journal, Record
from sessions.rewind.log import CaptureLog
from sessions.rewind.needs import Need, is_within
from sessions.rewind.plan import OnConflicts, Plan, RewindRecord
from sessions.rewind.policy import incomplete, objection, policies
from sessions.rewind.recorded import Step
from sessions.rewind.returning import Came, ReturningLines
from sessions.rewind.reversal import Reversal
from sessions.rewind.stack import check_newest, described, why_nothing
from sessions.rewind.states import Image, same
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree


@dataclass(frozen=True, slots=True)
class UndoBasis(Basis):
    """What the plan of an undo or a redo was made from.

    Attributes:
        came: What was appended to the transcript since the transaction.
    """

    reversal: Reversal
    came: Came


def basis_of(plan: Plan) -> UndoBasis:
    """Return what a plan was made from that an ``UndoPlanner`` made."""
    assert isinstance(plan.basis, UndoBasis)
    return plan.basis


class UndoPlanner:
    """Plans the undos and redos of one session.

    Args:
        looking: Looks at background tasks.
        shown: Spells an identity for people.
        prompt_of: Reads the prompt with that message id; None where the conversation has it no more.
    """

    def __init__(
        self,
        session_id: str,
        worktree: Worktree,
        *,
        log: CaptureLog,
        journal: Journal,
        files_planner: FilesPlanner,
        returning: ReturningLines,
        looking: Looking,
        shown: Callable[[str], str],
        prompt_of: Callable[[str], str | None],
    ) -> None:
        self._session_id = session_id
        self._worktree = worktree
        self._log = log
        self._journal = journal
        self._files_planner = files_planner
        self._returning = returning
        self._looking = looking
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

    def plan(self, reversal: Reversal) -> Plan:
        """Say what an undo or redo would do; changes nothing."""
        timeline = self._log.read()
        seq = timeline.next_seq  # first of all: what is recorded while this looks at files is not planned for
        came = self._returning.came_since(reversal, timeline)
        goes = _goes(reversal, came, timeline)
        files = self._files(reversal, timeline, goes)
        going = self._background(reversal, timeline, goes)
        of = self._with_prompt(described(reversal.step, timeline), reversal.record)
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
            notes=tuple(_do_not_come_back(reversal)),
            exceptions=tuple((self._shown(path), each) for path, each in reversal.policies.by_path.items()),
            basis=UndoBasis(files, going, seq, reversal, came),
        )
        moved_on = came.inside or came.messages
        return replace(plan, refused=_objection(reversal, plan, files, moved_on=bool(moved_on)))

    def again(self, given: Plan, *, stopped: Stopped = NOTHING_STOPPED) -> Plan:
        """Plan the same once more, and compare.

        Args:
            stopped: What of the plan's work was stopped since; where anything was, messages may have come meanwhile.

        Raises:
            RequestError: It is no plan of an undo or redo of this session.
            StaleError: The plan no longer describes what is there.
        """
        fresh = self.plan(self._again(given))
        basis, finds = basis_of(given), basis_of(fresh)
        refuse_other_files(basis, finds, self._log.read(), self._shown, stopped=stopped)
        if stopped.is_empty:
            if not finds.came.is_only_told_more_than(basis.came):
                raise StaleError("messages came since")
            refuse_other_tasks(given, fresh)
        return fresh

    def work(self, plan: Plan) -> Background:
        """Return what of the background goes with a plan, as of now."""
        basis, timeline = basis_of(plan), self._log.read()
        return self._background(basis.reversal, timeline, _goes(basis.reversal, basis.came, timeline))

    def _again(self, plan: Plan) -> Reversal:
        """Find what a plan was made for."""
        if not isinstance(plan.basis, UndoBasis) or plan.session_id != self._session_id:
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

    def _background(self, reversal: Reversal, timeline: Timeline, goes: Goes | None) -> Background:
        leaves = reversal.record.cut is not None
        leaves = leaves and (reversal.kind == "undo" or reversal.step.history == "rewrite")
        return background(timeline, goes, self._looking, leaves=leaves)

    def _record_of(self, step: Step) -> Record | None:
        try:
            return self._journal.done(step.record)
        except (OSError, ValueError):  # pruned, or damaged, which an undo of it says
            return None

    def _with_prompt(self, rewind: RewindRecord, record: Record | None) -> RewindRecord:
        """Add the prompt: from the record, or from the transcript where that still has it."""
        returned = record.prompt if record is not None else ""
        return replace(rewind, prompt=returned or self._prompt_of(rewind.to) or "")

    def _files(self, reversal: Reversal, timeline: Timeline, goes: Goes | None) -> FilesPlan:
        needs = [
            Need(change.path, change.before, Image(change.after.state), "rewind", change.in_place)
            for change in sorted(reversal.record.changes, key=lambda change: change.path)
            if change.path not in reversal.step.left and not same(change.before.state, change.after.state)
        ]
        runs_on = staying(timeline, goes, self._looking) if needs else []
        written = {path for task in runs_on for path in task.edits}
        needs = [replace(need, unsteady=is_within(need.path, written)) for need in needs]
        return self._files_planner.plan(
            needs,
            reversal.policies,
            only=[self._worktree.identify(path) for path in reversal.paths] if reversal.paths is not None else None,
            otherwise=f"the {reversal.kind} does not concern it",
        )

    def _removed(self, reversal: Reversal, came: Came) -> int:
        """Return how many messages leave the conversation."""
        if reversal.record.cut is None:
            return 0
        again = reversal.record.removed_messages if reversal.kind == "redo" else 0
        return again + (came.messages + len(came.inside) if reversal.on_conflict != "keep" else 0)


def _goes(reversal: Reversal, came: Came, timeline: Timeline) -> Goes | None:
    taken_back = of_redo(reversal.step, timeline) if reversal.kind == "redo" else None
    removed = _removed_turns(reversal, came)
    if not removed:
        return taken_back
    with_them = of_turns(removed)
    return with_them if taken_back is None else lambda worker: taken_back(worker) or with_them(worker)


def _removed_turns(reversal: Reversal, came: Came) -> frozenset[int]:
    """Return the turns that came since and leave the conversation: where that stays as it is, none does."""
    leave = reversal.record.cut is not None and reversal.on_conflict == "overwrite"
    return came.turns if leave else frozenset()


def _objection(reversal: Reversal, plan: Plan, files: FilesPlan, *, moved_on: bool) -> str | None:
    what = "rewind" if reversal.kind == "undo" else "undo"
    refuses = reversal.on_conflict == "refuse"
    if refuses and reversal.paths is None and moved_on:
        return (
            f"messages came since the {what}; on conflict 'keep' leaves them there, behind the restored ones, and"
            " 'overwrite' removes them, which can be taken back too"
        )
    changed = objection(files.refusing, files.unverified, since=f"the {what}")
    return changed or (incomplete(plan) if refuses else None)


def _do_not_come_back(reversal: Reversal) -> Iterator[str]:
    if reversal.record.stopped:
        yield f"processes do not come back: {', '.join(reversal.record.stopped)}"
