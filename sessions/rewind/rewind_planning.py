"""Planning a rewind: what it would do to the conversation, the files and the background work. Changes nothing.

A plan carries what it was made from, so that it can be made once more and compared before anything is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sessions.errors import DataError, NotFoundError, RequestError, StaleError
from sessions.rewind import seam
from sessions.rewind.authors import named, named_in_run
from sessions.rewind.background import (
    NOTHING_STOPPED,
    Background,
    Goes,
    Looking,
    Stopped,
    background,
    of_target,
    staying,
)
from sessions.rewind.basis import Basis, refuse_other_files, refuse_other_tasks
from sessions.rewind.files_plan import FilesPlan
from sessions.rewind.files_planning import FilesPlanner
from sessions.rewind.foreign import ForeignHistory
from sessions.rewind.log import CaptureLog
from sessions.rewind.needs import Need, Places, is_within, needs_after, needs_at_mark, needs_of_run
from sessions.rewind.ongoing import Ongoing, appeared
from sessions.rewind.options import Options, check
from sessions.rewind.plan import Gap, Plan
from sessions.rewind.policy import Policies, objection, policies, running
from sessions.rewind.recorded import Touch
from sessions.rewind.states import Absent, Image
from sessions.rewind.targets import Reference, Target, resolve, which_runs, written
from sessions.rewind.timeline import Timeline
from sessions.rewind.told import notices_that_stay
from sessions.rewind.worktree import Worktree
from sessions.subagents.record import TaskRecord
from sessions.subagents.scope import unstopped
from sessions.transcript import reader
from sessions.transcript.now import TranscriptNow
from sessions.transcript.outline import Prompt, Tail

_UNCAPTURED = {
    "outside": "it lies outside the directories of this session",
    "git": "it lies inside a .git",
    "store": "it lies inside the session store",
}
"""The gaps whose paths are left alone, and why; of other gaps nobody knows what they changed."""
_UNTOUCHED = "the agent did not touch it since then"


@dataclass(frozen=True, slots=True)
class RewindBasis(Basis):
    """What the plan of a rewind was made from.

    Attributes:
        transcript: Its inode and size.
        tail: What leaves the transcript; None for a rewind of the code alone.
        asked: Where to, as it was asked for.
    """

    transcript: tuple[int, int]
    target: Target
    tail: Tail | None
    asked: Reference | None
    options: Options


def basis_of(plan: Plan) -> RewindBasis:
    """Return what a plan was made from that a ``RewindPlanner`` made."""
    assert isinstance(plan.basis, RewindBasis)
    return plan.basis


class RewindPlanner:
    """Plans the rewinds of one session.

    Args:
        looking: Looks at background tasks.
        ongoing: Looks at what they edit, or left.
        shown: Spells an identity for people.
    """

    def __init__(
        self,
        session_id: str,
        transcript: TranscriptNow,
        worktree: Worktree,
        *,
        log: CaptureLog,
        files_planner: FilesPlanner,
        foreign: ForeignHistory,
        looking: Looking,
        ongoing: Ongoing,
        shown: Callable[[str], str],
    ) -> None:
        self._session_id = session_id
        self._transcript = transcript
        self._path = transcript.path
        self._worktree = worktree
        self._log = log
        self._files_planner = files_planner
        self._foreign = foreign
        self._looking = looking
        self._ongoing = ongoing
        self._shown = shown

    def plan(self, to: Reference | None, options: Options) -> Plan:
        """Say what a rewind would do.

        Args:
            to: Where to; None for all that ``options.run`` did.

        Raises:
            RequestError: There is no such checkpoint, mark or run, or the options contradict each other.
            DataError: What is asked for cannot be done exactly, because records are damaged.
        """
        check(options)
        timeline, outline = self._log.read(), self._transcript.outline(deep=False)
        seq = timeline.next_seq  # first of all: what is recorded while this looks at files is not planned for
        target = _target(to, options, outline.prompts, timeline)
        wanted = policies(options.on_conflict, identify=self._worktree.identify, default="overwrite")
        tail = None
        if options.scope != "code":
            target = self._placed(target)
            notices = notices_that_stay(timeline, target.span(timeline))
            tail = reader.survey_tail(self._path, target.cut or 0, header=outline.header, notices=notices)
        leaves = options.scope != "code" and options.history == "rewrite"
        goes = of_target(target, options, timeline)
        going = background(timeline, goes, self._looking, leaves=leaves)
        transcript, files, gaps = (outline.inode, outline.size), FilesPlan(), tuple[Gap, ...]()
        if options.scope != "conversation":
            gaps = self._gaps(timeline, target, options)
            needs = self._with_work(self._needs(timeline, target, options, going), timeline, going, goes)
            files = self._files(needs, options, gaps=gaps, wanted=wanted)
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
            basis=RewindBasis(files, going, seq, transcript, target, tail, to, options),
        )
        refused = running(going.tasks) if options.on_running == "refuse" else None
        refused = refused or objection(files.refusing, files.unverified, since="the agent's last edit")
        return replace(plan, refused=refused)

    def again(self, given: Plan, *, stopped: Stopped = NOTHING_STOPPED) -> Plan:
        """Plan the same once more, and compare.

        Args:
            stopped: What of the plan's work was stopped since; where anything was, messages may have come meanwhile.

        Raises:
            RequestError: It is no plan of a rewind of this session.
            StaleError: The plan no longer describes what is there.
        """
        if not isinstance(given.basis, RewindBasis):
            raise RequestError("this plan was not made by plan_rewind")
        if given.session_id != self._session_id:
            raise RequestError(f"this plan is for session {given.session_id}")
        outline = self._transcript.outline(deep=False)
        inode, size = given.basis.transcript
        if inode != outline.inode or outline.size < size or (stopped.is_empty and self._went_on(size, outline.size)):
            raise StaleError("the transcript changed since")
        fresh = self.plan(given.basis.asked, given.basis.options)
        if stopped.is_empty:
            refuse_other_tasks(given, fresh)
        refuse_other_files(given.basis, basis_of(fresh), self._log.read(), self._shown, stopped=stopped)
        return fresh

    def _went_on(self, size: int, now: int) -> bool:
        """Tell whether a turn came behind the first ``size`` bytes: a title or the notice of a task is none."""
        return now > size and any(reader.is_of_a_turn(entry) for _, entry in reader.read_entries(self._path, size))

    def work(self, plan: Plan) -> Background:
        """Return what of the background goes with a plan, as of now."""
        basis, timeline = basis_of(plan), self._log.read()
        goes = of_target(basis.target, basis.options, timeline)
        return background(timeline, goes, self._looking, leaves=bool(basis.background.leaving))

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

    # -- files -----------------------------------------------------------------------------------------------------

    def _files(self, needs: Sequence[Need], options: Options, *, gaps: Sequence[Gap], wanted: Policies) -> FilesPlan:
        if needs and (why := self._worktree.missing(need.path for need in needs)) is not None:
            raise RequestError(f"{why}; nothing was changed (scope 'conversation' goes back without files)")
        known = {need.path for need in needs}
        uncaptured = {path: _UNCAPTURED[gap.kind] for gap in gaps if gap.kind in _UNCAPTURED for path in gap.paths}
        return self._files_planner.plan(
            needs,
            wanted,
            only=[self._worktree.identify(path) for path in options.paths] if options.paths is not None else None,
            otherwise=_UNTOUCHED,
            left_alone={path: why for path, why in uncaptured.items() if path not in known},
        )

    def _with_work(self, needs: list[Need], timeline: Timeline, going: Background, goes: Goes | None) -> list[Need]:
        """Say of needs, and of what appeared beside them, which work has to do with it: that goes, or that stays."""
        stopping = going.still_edited(timeline)
        needs = [replace(need, stopping=True) if need.path in stopping else need for need in needs]
        needs = self._with_what_appeared(needs, going, timeline)
        return self._contested_by_work_that_stays(needs, timeline, goes)

    def _contested_by_work_that_stays(self, needs: list[Need], timeline: Timeline, goes: Goes | None) -> list[Need]:
        """Mark what a task that goes on running may be editing right now."""
        tasks = staying(timeline, goes, self._looking) if needs else []
        return [
            next(
                (
                    replace(need, contested=f"{task.id} ({task.label}) may be editing it", unsteady=True)
                    for task in tasks
                    if is_within(need.path, set(task.edits))
                ),
                need,
            )
            for need in needs
        ]

    def _with_what_appeared(self, needs: list[Need], going: Background, timeline: Timeline) -> list[Need]:
        """Add what appeared where work that goes may change files: it is on record once that has ended."""
        known = {need.path for need in needs}
        made_by_others = {touch.path: touch.order[0] for touch in timeline.touches if not touch.is_of_tasks}

        def is_known(task: TaskRecord, path: str) -> bool:
            if path in known or timeline.touch_in(task.turn, path) is not None:
                return True
            return made_by_others.get(path, -1) > task.seq

        found = appeared(self._worktree, going.tasks, is_known)
        new = [Need(path, Image(Absent()), None, task.id, stopping=True) for task, path in found]
        return sorted([*needs, *new], key=lambda need: need.path)

    def _needs(self, timeline: Timeline, target: Target, options: Options, going: Background) -> list[Need]:
        touches: Sequence[Touch] = timeline.touches
        if unsettled := [task for task in going.ended if task.ended is None]:
            touches = self._ongoing.as_left(touches, timeline, unsettled)
        if reader.has_snapshots(self._path, target.prompt.offset if target.prompt is not None else 0):
            outline = self._transcript.outline(deep=True)
            places = Places(outline.prompts, timeline)
            others = self._foreign.touches(outline.snapshots, places, since=target.order)
            touches = sorted([*touches, *(touch for _, touch in others)], key=lambda touch: touch.order)
        if _is_unsure(timeline, target, options):
            raise DataError(
                "records of edits after that prompt are damaged, so its files cannot be brought back exactly; nothing"
                " was changed (scope 'conversation' still goes back without files)"
            )
        if options.run is not None:
            turns = timeline.turns_of_run(options.run)
            return needs_of_run(touches, turns, target.order, lambda touch: named_in_run(touch, timeline))
        span = target.span(timeline)
        if target.mark is not None:
            return needs_at_mark(touches, target.mark, span, lambda touch: named(touch, timeline))
        return needs_after(touches, span, lambda touch: named(touch, timeline))

    def _gaps(self, timeline: Timeline, target: Target, options: Options) -> tuple[Gap, ...]:
        of_run = timeline.turns_of_run(options.run) if options.run is not None else None
        span = target.span(timeline)
        return tuple(
            each[2] for each in timeline.gaps if timeline.loses(span, each) and (of_run is None or each[1] in of_run)
        )


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
