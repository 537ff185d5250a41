"""Rewinding one session: carry out what was planned, and report.

A plan is made again under both locks and refused where the result differs from the one that was given; then the engine
gets the transaction.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable
from dataclasses import replace

from sessions import clock, ids
from sessions.rewind.background import Background, Stopped
from sessions.rewind.basis import planned_work
from sessions.rewind.engine import Engine, Outcome
from sessions.rewind.foreign import ForeignHistory
from sessions.rewind.journal import Record
from sessions.rewind.log import CaptureLog
from sessions.rewind.offshoots import Forks
from sessions.rewind.options import Options
from sessions.rewind.placing import placed
from sessions.rewind.plan import Going, Plan, Report, Scope
from sessions.rewind.policy import refuse
from sessions.rewind.relocating import Children, Move
from sessions.rewind.rewind_planning import RewindPlanner, basis_of
from sessions.rewind.splicing import Splice
from sessions.rewind.targets import Reference, Target
from sessions.rewind.timeline import Timeline
from sessions.transcript import rollback, titles
from sessions.transcript.now import TranscriptNow
from sessions.transcript.outline import Outline, Tail


class Rewinder:
    """Carries out the rewinds of one session.

    Args:
        shown: Spells an identity for people.
        root_option: What a command needs to find the session, for notes that name one; empty for the default root.
    """

    def __init__(
        self,
        session_id: str,
        transcript: TranscriptNow,
        planner: RewindPlanner,
        *,
        log: CaptureLog,
        foreign: ForeignHistory,
        root_option: str,
        shown: Callable[[str], str],
    ) -> None:
        self._session_id = session_id
        self._transcript = transcript
        self._planner = planner
        self._children = Children(transcript.path)
        self._log = log
        self._foreign = foreign
        self._root_option = root_option
        self._shown = shown

    def prepare(self, to: Plan | Reference | None, options: Options) -> Plan:
        """Return the plan to carry out, before any work is stopped for it.

        Args:
            to: A plan (its own options count then), or what to plan for.

        Raises:
            StaleError: The plan no longer describes what is there.
            ConflictError: It is refused as it stands.
        """
        plan = self._planner.again(to) if isinstance(to, Plan) else self._planner.plan(to, options)
        refuse(plan)
        return plan

    def work(self, plan: Plan) -> Background:
        """Return what of the background goes with a plan, as of now."""
        return self._planner.work(plan)

    def carry_out(self, engine: Engine, plan: Plan, session: Going, *, stopped: Stopped, forks: Forks) -> Report:
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
            if not basis_of(plan).is_of_now(timeline):
                plan = self._planner.again(plan, stopped=stopped)
            going = planned_work(plan)
            refuse(plan, left=going.tasks, stopped=bool(stopped.tasks))
            stack.enter_context(self._children.claimed(going.children))
            draft, splice = self._draft(plan, stopped, timeline)
            if plan.history == "fork":
                session, fork = stack.enter_context(forks.off(basis_of(plan).target))
                draft = replace(draft, fork=fork)
            outcome = engine.run(draft, splice)
        return replace(self._report(plan, outcome, session), cancelled=stopped.tasks)

    def _draft(self, plan: Plan, stopped: Stopped, timeline: Timeline) -> tuple[Record, Splice | None]:
        basis, name, at = basis_of(plan), ids.new_rewind_id(), clock.timestamp()
        target, tail = basis.target, basis.tail
        outline = self._transcript.outline(deep=False)
        stays = plan.history == "fork"  # here the conversation does; what is left of the rewind is that of the code
        scope: Scope = "code" if stays and plan.scope == "both" else plan.scope
        entry: dict[str, object] = {
            "kind": "rewind",
            "rewind": name,
            "scope": scope,
            "to": plan.to,
            "from": list(target.order),
            "at": at,
        }
        entry |= {"run": plan.run} if plan.run is not None else {}
        entry |= {"history": plan.history} if plan.history != "rewrite" else {}
        entry |= {"mark": target.mark.seq} if target.mark is not None else {}
        changes = tuple(basis.files.changes)
        staying = _edited_by_what_stays(timeline, target)
        leaving = self._children.there(planned_work(plan).leaving)
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
                *placed(
                    target,
                    "code" if stays else scope,
                    outline.prompts,
                    timeline,
                    foreign=self._foreign,
                    deep=lambda: self._transcript.outline(deep=True),
                ),
                entry,
            ),
            removed_messages=plan.removed_messages,
            prompt=plan.prompt,
            length=outline.size,
            captures=tuple(change.path for change in changes if scope == "code" or change.path in staying),
            stopped=tuple(task.label for task in stopped.tasks),
            children=(Move(leaving, name, away=True),) if leaving else (),
        )
        return draft, self._splice(plan, target, tail, outline) if tail is not None and not stays else None

    def _splice(self, plan: Plan, target: Target, tail: Tail, outline: Outline) -> Splice:
        assert target.cut is not None
        if plan.history == "hide":
            assert target.index is not None
            keep, end = rollback.hiding(
                self._transcript.path,
                rollback.rollback_line(target.id, index=target.index),
                outline.title,
                shown=tail.notices,
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
    """Return the paths that what began in front of a place edited behind it: their captures stay and go on here."""
    span = target.span(timeline)
    return {
        touch.path
        for touch in timeline.touches
        if (touch.turn in span.staying or span.is_of_workers(touch))
        and max(touch.order[0], touch.closed) > span.start[0]
    }
