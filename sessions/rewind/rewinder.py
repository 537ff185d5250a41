"""Rewinding one session: plan, compare, carry out, report.

``plan`` looks and changes nothing. ``rewind`` plans again under both locks, refuses where the result differs from the
plan it was given, and hands the transaction to the engine.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from sessions import clock, ids
from sessions.errors import DataError, RequestError, StaleError
from sessions.rewind.engine import Engine, Outcome
from sessions.rewind.foreign import ForeignHistory
from sessions.rewind.journal import Record
from sessions.rewind.log import CaptureLog
from sessions.rewind.needs import Need, Places, chosen, needs_after
from sessions.rewind.plan import Gap, History, OnConflict, OnRunning, Plan, Report, Scope
from sessions.rewind.planning import FilesPlan, Planner
from sessions.rewind.policy import objection, refuse, refuse_changed_files
from sessions.rewind.splicing import Splice
from sessions.rewind.targets import Reference, Target, resolve
from sessions.rewind.timeline import Timeline, Touch
from sessions.rewind.worktree import Worktree
from sessions.subagents.scope import unstopped
from sessions.transcript import reader, titles
from sessions.transcript.outline import Outline, Tail
from sessions.transcript.scanning import Follower


@dataclass(frozen=True, slots=True)
class Options:
    """How to rewind; the words of the public API."""

    scope: Scope = "both"
    history: History = "rewrite"
    on_conflict: OnConflict = "overwrite"
    on_running: OnRunning = "cancel"
    paths: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a plan was made from: the transcript's inode and size, and what would be done to every path."""

    transcript: tuple[int, int]
    files: FilesPlan
    target: Target
    tail: Tail | None


class Rewinder:
    """Rewinds one session.

    Args:
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
        shown: Callable[[str], str],
    ) -> None:
        self._session_id = session_id
        self._path = path
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

    def plan(self, to: Reference, options: Options) -> Plan:
        """Say what a rewind would do.

        Raises:
            RequestError: There is no such checkpoint, or the options contradict each other.
        """
        _check(options)
        timeline, outline = self._log.read(), self.outline(deep=False)
        target = resolve(to, outline.prompts, timeline, options.scope)
        tail = None
        if options.scope != "code":
            assert target.prompt is not None
            tail = reader.survey_tail(self._path, target.prompt.offset, header=outline.header)
        files = FilesPlan()
        if options.scope != "conversation":
            files = self._planner.plan(self._needs(timeline, target, options), options.on_conflict)
        plan = Plan(
            session_id=self._session_id,
            to=target.id,
            index=target.index,
            scope=options.scope,
            history=options.history,
            on_conflict=options.on_conflict,
            on_running=options.on_running,
            prompt=reader.read_prompt(self._path, target.prompt) if target.prompt and tail else "",
            removed_messages=tail.removed_messages if tail else 0,
            files=tuple(files.verdicts),
            conflicts=tuple(files.conflicts),
            gaps=(
                *(self._gaps(timeline, target) if options.scope != "conversation" else ()),
                *(Gap("background_task", (), target.id, task) for task in (unstopped(tail) if tail else ())),
            ),
            paths=options.paths,
            basis=_Basis((outline.inode, outline.size), files, target, tail),
        )
        return replace(plan, refused=objection(plan, since="the agent's last edit"))

    def _needs(self, timeline: Timeline, target: Target, options: Options) -> list[Need]:
        touches: Sequence[Touch] = timeline.touches
        if reader.has_snapshots(self._path, target.prompt.offset if target.prompt is not None else 0):
            outline = self.outline(deep=True)
            places = Places(outline.prompts, timeline)
            others = self._foreign.touches(outline.snapshots, places, since=target.order)
            touches = sorted([*touches, *(touch for _, touch in others)], key=lambda touch: touch.order)
        if any(seq >= target.order[0] for seq in timeline.missing):
            raise DataError(
                "records of edits after that prompt are damaged, so its files cannot be brought back exactly; nothing"
                " was changed (scope 'conversation' still goes back without files)"
            )
        needs = needs_after(touches, target.order)
        if needs and (why := self._worktree.missing(need.path for need in needs)) is not None:
            raise RequestError(f"{why}; nothing was changed (scope 'conversation' goes back without files)")
        if options.paths is None:
            return needs
        return chosen(needs, [self._worktree.identify(path) for path in options.paths], self._shown)

    def _gaps(self, timeline: Timeline, target: Target) -> tuple[Gap, ...]:
        return tuple(
            replace(gap, paths=tuple(self._shown(path) for path in gap.paths))
            for gap in timeline.gaps_from(target.order[0])
        )

    # -- changing --------------------------------------------------------------------------------------------------

    def rewind(self, engine: Engine, to: Plan | Reference, options: Options, session: object) -> Report:
        """Carry out a rewind; the caller holds the session's lock.

        Args:
            to: A plan (its own options count then), or what to plan for.
            session: What the report gives to go on with.

        Raises:
            StaleError: The plan no longer describes what is there; nothing was changed.
            ConflictError: ``on_conflict`` is ``refuse`` and there is a conflict; nothing was changed.
            OSError: It failed; everything is as it was.
            IncompleteError: It failed and could not be put back.
        """
        if isinstance(to, Plan):
            options = Options(to.scope, to.history, to.on_conflict, to.on_running, to.paths)
        with self._log.locked():
            plan = self.plan(to.to if isinstance(to, Plan) else to, options)
            if isinstance(to, Plan):
                _compare(to, plan)
            refuse(plan.refused)
            draft, splice = self._draft(plan)
            outcome = engine.run(draft, splice)
        return self._report(plan, outcome, session)

    def _draft(self, plan: Plan) -> tuple[Record, Splice | None]:
        assert isinstance(plan.basis, _Basis)
        target, tail, name, at = plan.basis.target, plan.basis.tail, ids.new_rewind_id(), clock.timestamp()
        splice = None
        if tail is not None and target.prompt is not None:
            title = self.outline(deep=False).title
            splice = Splice(target.prompt.offset, (titles.restated(tail.kept, title, target.prompt.offset),))
        entry: dict[str, object] = {
            "kind": "rewind",
            "rewind": name,
            "scope": plan.scope,
            "to": plan.to,
            "from": list(target.order) if plan.scope == "both" else None,
            "at": at,
        }
        adopted = self._adopted(target, plan.scope)
        changes = tuple(plan.basis.files.changes)
        draft = Record(
            id=name,
            kind="rewind",
            rewind=name,
            scope=plan.scope,
            to=plan.to,
            at=at,
            changes=changes,
            cut=None,
            log=(*adopted, entry),
            removed_messages=plan.removed_messages,
            prompt=plan.prompt,
            length=self.outline(deep=False).size,
            captures=tuple(change.path for change in changes) if plan.scope == "code" else (),
        )
        return draft, splice

    def _adopted(self, target: Target, scope: Scope) -> tuple[dict[str, object], ...]:
        """Return records that give every visible prompt without a turn of its own its place on the timeline, for good.

        Else that place, in front of the next recorded prompt, would move when that prompt leaves, or when a rewind of
        the code alone adds its writes. With the conversation the snapshots in another agent's messages leave too: they
        are recorded for a later rewind of the code alone.
        """
        prompts, timeline = self.outline(deep=False).prompts, self._log.read()
        recorded = timeline.first_turns()
        if all(prompt.id in recorded for prompt in prompts):
            return ()
        places = Places(prompts, timeline)
        touched = self._leaving(target, places) if scope == "conversation" else {}
        records: list[dict[str, object]] = []
        number = timeline.next_turn
        for place, prompt in enumerate(prompts):
            if prompt.id in recorded:
                continue
            order = list(places.of_prompt(place))
            records.append({"kind": "turn", "turn": number, "message_id": prompt.id, "run_id": None, "order": order})
            records.extend(
                {"kind": "before", "turn": number, "edit": 0, "path": touch.path, "by": touch.by}
                | {"order": list(touch.order)}
                | touch.before.to_record()
                for touch in touched.get(prompt.id, {}).values()
            )
            number += 1
        return tuple(records)

    def _leaving(self, target: Target, places: Places) -> dict[str, dict[str, Touch]]:
        """Return by prompt and path the first touch another agent recorded in each turn from the target on."""
        assert target.prompt is not None
        outline = self.outline(deep=True)
        offsets = [prompt.offset for prompt in outline.prompts]
        behind = [each for each in outline.snapshots if each.offset >= target.prompt.offset]
        touched: dict[str, dict[str, Touch]] = {}
        for snapshot, touch in self._foreign.touches(behind, places, since=target.order):
            prompt = outline.prompts[bisect_right(offsets, snapshot.offset) - 1]
            touched.setdefault(prompt.id, {}).setdefault(touch.path, touch)
        return touched

    def _report(self, plan: Plan, outcome: Outcome, session: object) -> Report:
        left = {self._shown(path) for path in outcome.left}
        files = tuple(
            replace(file, action="skip", reason="conflict", note="edited while the rewind ran: left alone")
            if file.path in left and file.action != "unchanged"
            else file
            for file in plan.files
        )
        notes = []
        if plan.scope == "conversation":
            command = f"sessions rewind {self._session_id} --scope code --to {plan.to}{self._root_option}"
            notes.append(f"files stay as they are; to take them back: {command}")
        return Report(
            rewind_id=outcome.record.rewind,
            session=session,
            session_id=self._session_id,
            prompt=plan.prompt,
            removed_messages=plan.removed_messages,
            files=files,
            conflicts=plan.conflicts,
            gaps=plan.gaps,
            partial=any(file.action == "skip" and file.reason is not None for file in files),
            notes=tuple(notes),
        )


def _check(options: Options) -> None:
    for name, value, known in (
        ("scope", options.scope, get_args(Scope)),
        ("history", options.history, get_args(History)),
        ("on_conflict", options.on_conflict, get_args(OnConflict)),
        ("on_running", options.on_running, get_args(OnRunning)),
    ):
        if value not in known:
            raise RequestError(f"{name} is {value!r}, not one of {', '.join(known)}")
    if options.history != "rewrite":
        raise RequestError(f"history={options.history!r} is not available yet; only 'rewrite' is")
    if options.paths is not None and options.scope != "code":
        raise RequestError("single files can only be chosen for scope 'code'")


def _compare(given: Plan, fresh: Plan) -> None:
    assert isinstance(fresh.basis, _Basis)
    if not isinstance(given.basis, _Basis):
        raise RequestError("this plan was not made by plan_rewind")
    if given.session_id != fresh.session_id:
        raise RequestError(f"this plan is for session {given.session_id}")
    if given.basis.transcript != fresh.basis.transcript:
        raise StaleError("the transcript changed since")
    refuse_changed_files(given, fresh)
