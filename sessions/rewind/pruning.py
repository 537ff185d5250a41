"""Keeping one session within its limits: bytes of old snapshots and undo records are removed, never their record.

The folder of a task goes with the last undo record that could bring the task back.

===  ==========================================  =======================================================================
 #   step                                        what a crash after it leaves
===  ==========================================  =======================================================================
 1   append ``prune`` to the timeline, durably   bytes that nothing needs; the next pruning removes them
 2   undo records: stage, then the directory     likewise
 3   turns: the directory, then the marker       less and less of them
 4   folders of tasks                            likewise
===  ==========================================  =======================================================================

Nothing is removed while a rewind is unfinished, nor where records of the timeline are missing: what is needed is not
known then. Directories the timeline does not know are left alone, but for those of turns that were never begun.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from sessions.errors import SessionsError
from sessions.rewind.journal import Journal
from sessions.rewind.log import CaptureLog
from sessions.rewind.numbers import turn_number
from sessions.rewind.retention import Eviction, evict, freed, holdings_of, tasks_needed, tasks_removed
from sessions.rewind.timeline import Timeline
from sessions.rewind.usage import Usage, measured, names_in
from sessions.settings import UNLIMITED, Limits
from sessions.subagents.remains import remains

KEPT_IN = ("turns", "undo", "tasks")
"""The directories of a sidecar that something may go from."""
_MARKER = "turn-"


@dataclass(frozen=True, slots=True)
class Pruning:
    """What goes, or went.

    Attributes:
        eviction: What goes because of the limits.
        dead_turns: Numbers of turns whose directories or markers a crash left.
        dead_records: Names of undo records likewise, and of rewinds that never came true.
        tasks: The tasks whose folders go, by id: nothing brings them back, and nobody of them lives.
        dead_bytes: What these three take.
    """

    eviction: Eviction = field(default_factory=Eviction)
    dead_turns: tuple[int, ...] = ()
    dead_records: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    dead_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing goes."""
        return not (self.eviction.going or self.dead_turns or self.dead_records or self.tasks)


class Pruner:
    """Keeps one session within its limits.

    Args:
        limits: What may be kept.
    """

    def __init__(self, log: CaptureLog, journal: Journal, limits: Limits) -> None:
        self._log = log
        self._journal = journal
        self._sidecar = journal.sidecar
        self._tasks = journal.sidecar / "tasks"
        self._limits = limits
        self._usage: Usage | None = None

    def look(self, *, undo: bool = False) -> Pruning:
        """Say what would go; changes nothing. Walks the sidecar.

        Args:
            undo: Whether of the undo records only the newest stays, whatever the limits.
        """
        usage = Usage(self._sidecar)
        usage.update()
        return self._decide(self._log.read(), usage, replace(self._limits, retain_rewinds=1) if undo else self._limits)

    def prune(self, *, undo: bool = False) -> Pruning:
        """Remove what is beyond the limits, and what a crash left; the caller holds the session. Walks the sidecar.

        Raises:
            OSError: Not all could be removed; the next pruning goes on.
        """
        self._usage = None
        with self._log.locked():
            pruning = self.look(undo=undo)
            self._carry_out(pruning)
            return pruning

    def keep_within(self) -> None:
        """Remove what came to be beyond the limits; the caller holds the session. Never fails.

        The first call walks the sidecar; later ones look at what was added since.
        """
        if self._limits == UNLIMITED or not any(os.path.exists(self._sidecar / name) for name in KEPT_IN):
            return
        with contextlib.suppress(OSError, SessionsError):  # what is done is done; the next turn tries again
            self._keep_within()

    def _keep_within(self) -> None:
        usage, self._usage = self._usage, None  # an error leaves it unknown what is there
        with self._log.locked() as timeline:
            if usage is None:
                usage = Usage(self._sidecar)
                usage.update()
                self._carry_out(self._with_tasks(self._leftovers(timeline, usage), timeline))
            usage.update()
            if _may_exceed(self._limits, timeline, usage):
                decided = self._decide(timeline, usage, self._limits)
                self._carry_out(Pruning(decided.eviction, tasks=decided.tasks))
                usage.update()
        self._usage = usage

    # -- deciding --------------------------------------------------------------------------------------------------

    def _decide(self, timeline: Timeline, usage: Usage, limits: Limits) -> Pruning:
        if self._is_unsure(timeline):
            return Pruning()
        pruning = self._leftovers(timeline, usage)
        turns = {turn: held for turn, held in usage.turns.items() if turn not in pruning.dead_turns}
        records = {name: held for name, held in usage.records.items() if name not in pruning.dead_records}
        eviction = evict(*holdings_of(timeline, turns, records), limits)
        return self._with_tasks(replace(pruning, eviction=eviction), timeline)

    def _is_unsure(self, timeline: Timeline) -> bool:
        """Tell whether it is not known what is needed."""
        return not timeline.next_seq or bool(timeline.missing) or self._journal.intent.exists()

    def _leftovers(self, timeline: Timeline, usage: Usage) -> Pruning:
        """Return what a crash left and nothing needs."""
        if self._is_unsure(timeline):
            return Pruning()
        turns, records = self._dead_turns(timeline, usage), self._dead_records(timeline, usage)
        dead = [usage.turns[turn] for turn in turns if turn in usage.turns]
        dead += [usage.records[name] for name in records]
        return Pruning(dead_turns=turns, dead_records=records, dead_bytes=freed(dead))

    def _dead_turns(self, timeline: Timeline, usage: Usage) -> tuple[int, ...]:
        marked = {turn for name in names_in(self._sidecar) if (turn := _marked_by(name)) is not None}
        removed = {turn for step in timeline.steps for turn in timeline.removed_turns(step.rewind)}
        never_begun = usage.turns.keys() - marked - removed - timeline.turns.keys()
        return tuple(sorted(never_begun | ((usage.turns.keys() | marked) & timeline.pruned_turns)))

    def _dead_records(self, timeline: Timeline, usage: Usage) -> tuple[str, ...]:
        unfinished = (name for name in usage.records if not (self._journal.directory(name) / "record.json").exists())
        return tuple(sorted({*unfinished, *(usage.records.keys() & timeline.pruned_records)}))

    def _with_tasks(self, pruning: Pruning, timeline: Timeline) -> Pruning:
        """Add the tasks whose folders go with what goes."""
        if self._is_unsure(timeline):
            return pruning
        needed = tasks_needed(timeline, without=pruning.eviction.records)
        tasks = remains(self._tasks, needed=needed, removed=tasks_removed(timeline))
        dead_bytes = pruning.dead_bytes + freed(measured(self._tasks / task) for task in tasks)
        return replace(pruning, tasks=tasks, dead_bytes=dead_bytes)

    # -- removing --------------------------------------------------------------------------------------------------

    def _carry_out(self, pruning: Pruning) -> None:
        turns, records = pruning.eviction.turns, pruning.eviction.records
        if turns or records:
            self._log.append([{"kind": "prune", "turns": list(turns), "rewinds": list(records)}])
        for record in (*pruning.dead_records, *records):
            self._remove_record(record)
        for turn in (*pruning.dead_turns, *turns):
            self._remove_turn(turn)
        for task in pruning.tasks:
            with contextlib.suppress(FileNotFoundError):  # whoever broke off its start removes it, too
                shutil.rmtree(self._tasks / task)

    def _remove_record(self, record: str) -> None:
        directory = self._journal.directory(record)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(directory / "stage.bin")
        shutil.rmtree(directory)
        _remove_empty(directory.parent)

    def _remove_turn(self, turn: int) -> None:
        directory = self._sidecar / "turns" / str(turn)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(directory)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._sidecar / f"{_MARKER}{turn}.json")
        _remove_empty(directory.parent)


def _may_exceed(limits: Limits, timeline: Timeline, usage: Usage) -> bool:
    return (
        0 < limits.quota_bytes < usage.total_bytes
        or 0 < limits.retain_rewinds < len(usage.records)
        or 0 < limits.retain_turns < len(timeline.turns)
    )


def _marked_by(name: str) -> int | None:
    """Return the turn whose marker has this name."""
    turn = turn_number(name.removeprefix(_MARKER).removesuffix(".json"))
    return turn if name == f"{_MARKER}{turn}.json" else None


def _remove_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(directory)
