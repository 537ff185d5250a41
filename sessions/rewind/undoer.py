"""Undo and redo: carry out what was planned, and report.

The transcript's removed tail comes back byte for byte, and the files as they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sessions import clock, ids
from sessions.errors import NothingToUndoError
from sessions.rewind.background import Background, Stopped
from sessions.rewind.basis import planned_work
from sessions.rewind.engine import Engine
from sessions.rewind.files_plan import FilesPlan
from sessions.rewind.journal import Record
from sessions.rewind.log import CaptureLog
from sessions.rewind.offshoots import Forks
from sessions.rewind.plan import Going, OnConflicts, Plan, Report, Scope
from sessions.rewind.policy import refuse
from sessions.rewind.relocating import Children, Move
from sessions.rewind.returning import ReturningLines
from sessions.rewind.reversal import Reversal
from sessions.rewind.states import Absent, same
from sessions.rewind.undo_planning import UndoPlanner, basis_of


class Undoer:
    """Takes back the rewinds of one session, and repeats them.

    Args:
        shown: Spells an identity for people.
    """

    def __init__(
        self, path: Path, planner: UndoPlanner, returning: ReturningLines, log: CaptureLog, shown: Callable[[str], str]
    ) -> None:
        self._path = path
        self._planner = planner
        self._returning = returning
        self._log = log
        self._children = Children(path)
        self._shown = shown

    def prepare(
        self, kind: str, what: Plan | str | None, *, on_conflict: OnConflicts, paths: Sequence[str] | None
    ) -> Plan:
        """Return the plan to carry out, before any work is stopped for it.

        Args:
            what: A plan (its own options count then), or the id of the rewind it is about; None: the newest.

        Raises:
            NothingToUndoError: Nothing is left, or the bytes for it were removed.
            NotFoundError: No rewind has that id.
            StaleError: The given plan no longer describes what is there.
            ConflictError: It is refused as it stands, or later ones come first.
            DataError: Its record is damaged or gone.
        """
        if isinstance(what, Plan):
            plan = self._planner.again(what)
        else:
            plan = self._planner.plan(self._planner.find(kind, what, on_conflict=on_conflict, paths=paths))
        refuse(plan)
        return plan

    def work(self, plan: Plan) -> Background:
        """Return what of the background goes with a plan, as of now."""
        return self._planner.work(plan)

    def carry_out(self, engine: Engine, plan: Plan, session: Going, *, stopped: Stopped, forks: Forks) -> Report:
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
            if not basis_of(plan).is_of_now(timeline):
                plan = self._planner.again(plan, stopped=stopped)
            basis, going = basis_of(plan), planned_work(plan)
            reversal = basis.reversal
            refuse(plan, left=going.tasks, stopped=bool(stopped.tasks))
            stack.enter_context(self._children.claimed(going.children))
            if reversal.paths is not None and not plan.changes_files:
                raise NothingToUndoError(reversal.kind, "those files are as they were before the rewind")
            splice = self._returning.splice(reversal, basis.came) if reversal.paths is None else None
            draft = self._draft(reversal, basis.files, going, stopped)
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
                *plan.notes,
            ),
            cancelled=stopped.tasks,
            history=plan.history,
            scope=plan.scope,
            run=plan.run,
            mark=plan.mark,
        )

    def _moves(self, reversal: Reversal, going: Background, name: str) -> tuple[Move, ...]:
        """Return what becomes of the sessions of subagents: those that left come back, and those of what goes leave.

        Not all that came back with the transaction leave again: a turn may stay now that went then.
        """
        if reversal.paths is not None:
            return ()
        moves = [move.reversed() for move in reversed(reversal.record.children) if move.away]
        if leaving := self._children.there(going.leaving):
            moves.append(Move(leaving, name, away=True))
        return tuple(moves)

    def _draft(self, reversal: Reversal, files: FilesPlan, going: Background, stopped: Stopped) -> Record:
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
            stopped=tuple(task.label for task in stopped.tasks),
            children=self._moves(reversal, going, name),
        )
