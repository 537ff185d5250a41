"""Rewinding one session: plan, compare, carry out, report.

``plan`` looks and changes nothing. ``rewind`` plans again under both locks, refuses where the result differs from the
plan it was given, and hands the transaction to the engine.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sessions import clock, ids
from sessions.errors import DataError, NotFoundError, RequestError, StaleError
from sessions.rewind import seam
from sessions.rewind.adopting import adopted
from sessions.rewind.authors import named, named_in_run
from sessions.rewind.background import Background, Looking, Stopped, background, of_target
from sessions.rewind.children import Children, Move
from sessions.rewind.engine import Engine, Outcome
from sessions.rewind.files_plan import FilesPlan
from sessions.rewind.foreign import ForeignHistory
from sessions.rewind.journal import Record
from sessions.rewind.log import CaptureLog
from sessions.rewind.needs import Need, Places, is_within, needs_after, needs_at_mark, needs_of_run, unmatched
from sessions.rewind.offshoots import Offshoot
from sessions.rewind.options import Options, check
from sessions.rewind.plan import FileVerdict, Gap, Going, Plan, Report, Scope
from sessions.rewind.planning import Planner
from sessions.rewind.policy import Policies, objection, policies, refuse, refuse_changed_files, running, still_running
from sessions.rewind.recorded import Step, Touch
from sessions.rewind.splicing import Splice
from sessions.rewind.targets import Reference, Target, resolve, which_runs, written
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree
from sessions.subagents.scope import unstopped
from sessions.transcript import reader, rollback, titles
from sessions.transcript.outline import Outline, Prompt, Tail
from sessions.transcript.scanning import Follower

_UNCAPTURED = {
    "outside": "it lies outside the directories of this session",
    "git": "it lies inside a .git",
    "store": "it lies inside the session store",
}
"""The gaps whose paths are left alone, and why; of other gaps nobody knows what they changed."""
_UNTOUCHED = "the agent did not touch it since then"


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a plan was made from: the transcript's inode and size, and what would be done to every path."""

    transcript: tuple[int, int]
    files: FilesPlan
    target: Target
    tail: Tail | None
    asked: Reference | None
    options: Options
    background: Background
    seq: int


class Forks(Protocol):
    """What a rewind, its undo and its redo need of the forks of a session."""

    def off(self, target: Target) -> AbstractContextManager[tuple[Going, Offshoot]]:
        """Give a fork up to a place, for the transaction to publish; it is closed where that fails."""

    def again(self, step: Step) -> AbstractContextManager[tuple[Going, Offshoot]]:
        """Give the fork of a rewind once more, likewise."""

    def remove(self, fork: Offshoot) -> str | None:
        """Remove a fork in which nobody went on; say in a sentence that it went or why it stays; None: it was gone."""


class Rewinder:
    """Rewinds one session.

    Args:
        looking: Looks at background tasks.
        shown: Spells an identity for people.
        root_option: What a command needs to find the session, for notes that name one; empty for the default root.
    """

    def __init__(
        self,
        session_id: str,
        path: Path,
        worktree: Worktree,
        *,
        root_option: str,
        log: CaptureLog,
        planner: Planner,
        foreign: ForeignHistory,
        looking: Looking,
        shown: Callable[[str], str],
    ) -> None:
        self._session_id = session_id
        self._path = path
        self._looking = looking
        self._children = Children(path)
        self._worktree = worktree
        self._log = log
        self._planner = planner
        self._foreign = foreign
        self._shown = shown
        self._root_option = root_option
        self._guard = threading.RLock()
        self._followers = Follower(path, deep=False), Follower(path, deep=True)

    # -- looking ---------------------------------------------------------------------------------------------------

    def outline(self, *, deep: bool) -> Outline:
        """Return the transcript's outline as of now, reading only what was appended since the last time."""
        light, full = self._followers
        with self._guard:
            return full.outline() if deep or full.started else light.outline()

    def plan(self, to: Reference | None, options: Options) -> Plan:
        """Say what a rewind would do.

        Args:
            to: Where to; None for all that ``options.run`` did.

        Raises:
            RequestError: There is no such checkpoint, mark or run, or the options contradict each other.
            DataError: What is asked for cannot be done exactly, because records are damaged.
        """
        check(options)
        timeline, outline = self._log.read(), self.outline(deep=False)
        target = _target(to, options, outline.prompts, timeline)
        wanted = policies(options.on_conflict, identify=self._worktree.identify, default="overwrite")
        tail = None
        if options.scope != "code":
            target = self._placed(target)
            tail = reader.survey_tail(self._path, target.cut or 0, header=outline.header)
        leaves = options.scope != "code" and options.history == "rewrite"
        going = background(timeline, of_target(target, options, timeline), self._looking, leaves=leaves)
        files, gaps = FilesPlan(), tuple[Gap, ...]()
        if options.scope != "conversation":
            gaps = self._gaps(timeline, target, options)
            stopping = going.edited_by_it(timeline)
            files = self._files(timeline, target, options, gaps=gaps, wanted=wanted, stopping=stopping)
        plan = Plan(
            session_id=self._session_id,
            to=target.id,
            index=target.index,
            scope=options.scope,
            history=options.history,
            on_conflict=wanted.default,
            on_running=options.on_running,
            prompt=self._prompt_back(target) if tail is not None else "",
            removed_messages=tail.removed_messages if tail is not None else 0,
            files=tuple(files.verdicts),
            conflicts=tuple(files.conflicts),
            gaps=(
                *(replace(gap, paths=tuple(self._shown(path) for path in gap.paths)) for gap in gaps),
                *(
                    Gap("background_task", (), target.id, task)
                    for task in (unstopped(tail, timeline.tasks) if tail else ())
                ),
                *_lost_records(timeline, target, options),
            ),
            tasks=going.to_be_stopped,
            paths=options.paths,
            mark=written(target.mark, timeline) if target.mark is not None else None,
            run=options.run,
            exceptions=tuple((self._shown(path), policy) for path, policy in wanted.by_path.items()),
            basis=_Basis((outline.inode, outline.size), files, target, tail, to, options, going, timeline.next_seq),
        )
        refused = running(going.tasks) if options.on_running == "refuse" else None
        refused = refused or objection(files.refusing, files.unverified, since="the agent's last edit")
        return replace(plan, refused=refused)

    def _placed(self, target: Target) -> Target:
        if target.mark is None:
            return target
        cut = seam.find(self._path, target.mark.place)
        if cut is None:
            raise DataError(
                "the lines in front of that mark are gone from the transcript, so its place is lost; nothing was"
                " changed (scope 'code' still goes back to it)"
            )
        return replace(target, cut=cut)

    def _prompt_back(self, target: Target) -> str:
        """Return what returns to the input box; nothing for a mark, whose prompt stays."""
        return "" if target.prompt is None or target.mark is not None else reader.read_prompt(self._path, target.prompt)

    def prompt_of(self, message_id: str) -> str | None:
        """Return the prompt with that message id; None where the conversation has it no more."""
        found = next((each for each in self.outline(deep=False).prompts if each.id == message_id), None)
        return reader.read_prompt(self._path, found) if found is not None else None

    # -- files -----------------------------------------------------------------------------------------------------

    def _files(
        self,
        timeline: Timeline,
        target: Target,
        options: Options,
        *,
        gaps: Sequence[Gap],
        wanted: Policies,
        stopping: Container[str],
    ) -> FilesPlan:
        needs = [
            replace(need, stopping=True) if need.path in stopping else need
            for need in self._needs(timeline, target, options)
        ]
        needs = self._contested_by_work_that_stays(needs, timeline, target, options)
        if needs and (why := self._worktree.missing(need.path for need in needs)) is not None:
            raise RequestError(f"{why}; nothing was changed (scope 'conversation' goes back without files)")
        uncaptured = {path: gap.kind for gap in gaps if gap.kind in _UNCAPTURED for path in gap.paths}
        for need in needs:
            uncaptured.pop(need.path, None)
        wanted.refuse_unknown([*(need.path for need in needs), *uncaptured], self._shown)
        untouched: list[str] = []
        if options.paths is not None:
            chosen = {self._worktree.identify(path): None for path in options.paths}
            untouched = unmatched([*(need.path for need in needs), *uncaptured], list(chosen), self._shown)
            needs = [need for need in needs if is_within(need.path, chosen.keys())]
            uncaptured = {path: kind for path, kind in uncaptured.items() if is_within(path, chosen.keys())}
        files = self._planner.plan(needs, wanted)
        files.verdicts += [
            FileVerdict(self._shown(path), "skip", "outside", "agent", note=_UNCAPTURED[kind])
            for path, kind in uncaptured.items()
        ]
        files.leave_out((self._shown(path) for path in untouched), _UNTOUCHED)
        return files

    def _contested_by_work_that_stays(
        self, needs: list[Need], timeline: Timeline, target: Target, options: Options
    ) -> list[Need]:
        """Mark what a task that goes on running may be editing right now."""
        goes = of_target(target, options, timeline)
        staying = [
            task
            for task in timeline.tasks.values()
            if task.edits and task.ended is None and not (goes is not None and goes((task.seq, 0, 0, 0), task.turn))
        ]
        if not (needs and staying):
            return needs
        running_now = self._looking.to_stop(staying)
        return [
            next(
                (
                    replace(need, contested=f"{task.id} ({task.label}) may be editing it")
                    for task in running_now
                    if is_within(need.path, set(task.edits))
                ),
                need,
            )
            for need in needs
        ]

    def _needs(self, timeline: Timeline, target: Target, options: Options) -> list[Need]:
        touches: Sequence[Touch] = timeline.touches
        if reader.has_snapshots(self._path, target.prompt.offset if target.prompt is not None else 0):
            outline = self.outline(deep=True)
            places = Places(outline.prompts, timeline)
            others = self._foreign.touches(outline.snapshots, places, since=target.order)
            touches = sorted([*touches, *(touch for _, touch in others)], key=lambda touch: touch.order)
        if _is_unsure(timeline, target, options):
            raise DataError(
                "records of edits after that prompt are damaged, so its files cannot be brought back exactly; nothing"
                " was changed (scope 'conversation' still goes back without files)"
            )
        if options.run is not None:
            turns = _turns_of(options.run, timeline)
            return needs_of_run(touches, turns, target.order, lambda touch: named_in_run(touch, timeline))
        span = target.span(timeline)
        if target.mark is not None:
            return needs_at_mark(touches, target.mark, span, lambda touch: named(touch, timeline))
        return needs_after(touches, span, lambda touch: named(touch, timeline))

    def _gaps(self, timeline: Timeline, target: Target, options: Options) -> tuple[Gap, ...]:
        of_run = _turns_of(options.run, timeline) if options.run is not None else None
        span = target.span(timeline)
        return tuple(
            gap
            for seq, turn, gap in timeline.gaps
            if span.holds((seq, 0, 0, 0), turn) and (of_run is None or turn in of_run)
        )

    # -- changing --------------------------------------------------------------------------------------------------

    def prepare(self, to: Plan | Reference | None, options: Options) -> Plan:
        """Return the plan to carry out, before any work is stopped for it.

        Args:
            to: A plan (its own options count then), or what to plan for.

        Raises:
            StaleError: The plan no longer describes what is there.
            ConflictError: It is refused as it stands.
        """
        plan = self._again(to) if isinstance(to, Plan) else self.plan(to, options)
        refuse(plan.refused)
        assert isinstance(plan.basis, _Basis)
        going = plan.basis.background
        with self._children.claimed((each for each in going.children if each not in going.authors), but_own=True):
            return plan

    def planned_work(self, plan: Plan) -> Background:
        """Return what of the background goes with a plan, as it was planned."""
        assert isinstance(plan.basis, _Basis)
        return plan.basis.background

    def work(self, plan: Plan) -> Background:
        """Return what of the background goes with a plan, as of now."""
        assert isinstance(plan.basis, _Basis)
        basis, timeline = plan.basis, self._log.read()
        goes = of_target(basis.target, basis.options, timeline)
        return background(timeline, goes, self._looking, leaves=bool(basis.background.leaving))

    def rewind(self, engine: Engine, plan: Plan, session: Going, *, stopped: Stopped, forks: Forks) -> Report:
        """Carry out a prepared rewind whose work is stopped; the caller holds the session's lock.

        Files are examined once more. What the stopped work did to them meanwhile is the agent's, as all it did before.

        Args:
            session: What the report gives to go on with, but for ``history="fork"``.
            stopped: What was stopped for it.
            forks: Makes the fork that is to go on instead.

        Raises:
            StaleError: The plan no longer describes what is there; nothing was changed.
            ConflictError: ``on_conflict`` is ``refuse`` and there is a conflict; or work that goes is still there;
                nothing was changed.
            OSError: It failed; everything is as it was.
            IncompleteError: It failed and could not be put back.
        """
        with self._log.locked() as timeline, contextlib.ExitStack() as stack:
            assert isinstance(plan.basis, _Basis)
            if not plan.basis.background.is_empty or plan.basis.seq != timeline.next_seq:
                plan = self._again(plan, stopped=stopped)
                refuse(plan.refused)
            assert isinstance(plan.basis, _Basis)
            going = plan.basis.background
            refuse(still_running(going.tasks))
            stack.enter_context(self._children.claimed(going.children))
            draft, splice = self._draft(plan)
            draft = replace(draft, stopped=tuple(task.label for task in stopped.tasks))
            if leaving := self._children.there(going.leaving):
                draft = replace(draft, children=(Move(leaving, draft.id, away=True),))
            if plan.history == "fork":
                session, fork = stack.enter_context(forks.off(plan.basis.target))
                draft = replace(draft, fork=fork)
            outcome = engine.run(draft, splice)
        return replace(self._report(plan, outcome, session), cancelled=stopped.tasks)

    def _again(self, given: Plan, *, stopped: Stopped | None = None) -> Plan:
        """Plan the same once more, and compare.

        Args:
            stopped: What of the plan's work was stopped since; messages may have come meanwhile.
        """
        if not isinstance(given.basis, _Basis):
            raise RequestError("this plan was not made by plan_rewind")
        if given.session_id != self._session_id:
            raise RequestError(f"this plan is for session {given.session_id}")
        outline = self.outline(deep=False)
        inode, size = given.basis.transcript
        if inode != outline.inode or (outline.size < size if stopped is not None else outline.size != size):
            raise StaleError("the transcript changed since")
        fresh = self.plan(given.basis.asked, given.basis.options)
        assert isinstance(fresh.basis, _Basis)
        if stopped is None and {task.id for task in given.tasks} != {task.id for task in fresh.tasks}:
            raise StaleError("background tasks started or ended since")
        timeline = self._log.read()
        stopping = given.basis.background.with_stopped(stopped or Stopped(), timeline).edited_by_it(timeline)
        refuse_changed_files(given.basis.files, fresh.basis.files, self._shown, stopping=stopping)
        return fresh

    def _draft(self, plan: Plan) -> tuple[Record, Splice | None]:
        assert isinstance(plan.basis, _Basis)
        target, tail, name, at = plan.basis.target, plan.basis.tail, ids.new_rewind_id(), clock.timestamp()
        outline = self.outline(deep=False)
        stays = plan.history == "fork"  # here the conversation does; what is left of the rewind is that of the code
        scope: Scope = "code" if stays and plan.scope == "both" else plan.scope
        entry: dict[str, object] = {
            "kind": "rewind",
            "rewind": name,
            "scope": scope,
            "to": plan.to,
            "from": list(target.order) if scope == "both" else None,
            "at": at,
        }
        entry |= {"run": plan.run} if plan.run is not None else {}
        entry |= {"history": plan.history} if plan.history != "rewrite" else {}
        entry |= {"mark": target.mark.seq} if target.mark is not None else {}
        changes = tuple(plan.basis.files.changes)
        staying = _edited_by_what_stays(self._log.read(), target)
        draft = Record(
            id=name,
            kind="rewind",
            rewind=name,
            scope=scope,
            to=plan.to,
            at=at,
            changes=changes,
            cut=None,
            log=(
                *adopted(
                    target,
                    "code" if stays else scope,
                    outline.prompts,
                    self._log.read(),
                    foreign=self._foreign,
                    deep=lambda: self.outline(deep=True),
                ),
                entry,
            ),
            removed_messages=plan.removed_messages,
            prompt=plan.prompt,
            length=outline.size,
            captures=tuple(change.path for change in changes if scope == "code" or change.path in staying),
        )
        return draft, self._splice(plan, target, tail, outline) if tail is not None and not stays else None

    def _splice(self, plan: Plan, target: Target, tail: Tail, outline: Outline) -> Splice:
        assert target.cut is not None
        if plan.history == "hide":
            assert target.index is not None
            keep, end = rollback.hiding(
                self._path, rollback.rollback_line(target.id, index=target.index), outline.title
            )
            return Splice(keep, (end,))
        return Splice(target.cut, (titles.restated(tail.kept, outline.title, target.cut),))

    def _report(self, plan: Plan, outcome: Outcome, session: Going) -> Report:
        left = {self._shown(path) for path in outcome.left}
        files = tuple(
            replace(file, action="skip", reason="conflict", note="edited while the rewind ran: left alone")
            if file.path in left and file.action != "unchanged"
            else file
            for file in plan.files
        )
        notes = []
        if plan.history == "fork":
            notes.append(f"the conversation goes on in the fork {session.id}; this session keeps all of its own")
        if plan.scope == "conversation":
            to = shlex.quote(plan.to if plan.mark is None else f"{plan.to}:{plan.mark}")
            command = f"sessions rewind {self._session_id} --scope code --to {to}{self._root_option}"
            notes.append(f"files stay as they are; to take them back: {command}")
        return Report(
            rewind_id=outcome.record.rewind,
            session=session,
            session_id=session.id,
            prompt=plan.prompt,
            removed_messages=plan.removed_messages,
            files=files,
            conflicts=plan.conflicts,
            gaps=plan.gaps,
            partial=any(file.action == "skip" and file.reason is not None for file in files),
            notes=tuple(notes),
            history=plan.history,
            scope=plan.scope,
            run=plan.run,
            mark=plan.mark,
        )


def _edited_by_what_stays(timeline: Timeline, target: Target) -> set[str]:
    """Return the paths that turns in front of a place edited behind it: their captures stay and go on from here."""
    span = target.span(timeline)
    return {
        touch.path
        for touch in timeline.touches
        if touch.turn in span.staying and max(touch.order[0], touch.closed) > span.start[0]
    }


def _is_unsure(timeline: Timeline, target: Target, options: Options) -> bool:
    """Tell whether a record that is missing may concern what is asked for.

    It may be the record of the target's turn itself, which then has no place of its own; and any turn may be of a run.
    """
    if not timeline.missing:
        return False
    placed = target.id in timeline.first_turns()
    return options.run is not None or not placed or any(seq >= target.order[0] for seq in timeline.missing)


def _lost_records(timeline: Timeline, target: Target, options: Options) -> Iterator[Gap]:
    """Yield that work may have been started there that nobody knows of, so it is not stopped."""
    if options.scope == "conversation" and _is_unsure(timeline, target, options):
        yield Gap("lost_records", (), target.id)


def _target(to: Reference | None, options: Options, prompts: Sequence[Prompt], timeline: Timeline) -> Target:
    if options.run is None:
        if to is None:
            raise RequestError("nothing says where to go back to: give a checkpoint, a mark or a run")
        target = resolve(to, prompts, timeline, options.scope)
        if target.mark is not None and options.history == "hide":
            raise RequestError("only whole turns can be hidden: go back to a mark with history 'rewrite' or 'fork'")
        return target
    turns = [turn for turn in timeline.turns.values() if turn.run_id == options.run]
    if not turns or not options.run:
        raise NotFoundError("run", options.run, hint=which_runs(timeline))
    order = resolve(to, prompts, timeline, "code").order if to is not None else turns[0].order
    index = next((place + 1 for place, prompt in enumerate(prompts) if prompt.id == turns[0].message_id), None)
    return Target(turns[0].message_id, None, index, max(order, turns[0].order))


def _turns_of(run: str, timeline: Timeline) -> frozenset[int]:
    return frozenset(number for number, turn in timeline.turns.items() if turn.run_id == run)
