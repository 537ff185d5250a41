"""What goes when a session keeps more than it may. Pure.

Undo records go first, then snapshots, in each case the oldest first. Only bytes go: the timeline goes on knowing every
turn and every rewind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sessions.rewind.numbers import turn_in
from sessions.rewind.recorded import Step
from sessions.rewind.states import Payload
from sessions.rewind.timeline import Timeline
from sessions.settings import Limits
from sessions.subagents.record import TaskRecord

Inode = tuple[int, int]
"""The device and the number of a file: what names of the same bytes share."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of bytes: what it takes on disk, how many names it has in one directory, and how many anywhere."""

    size_bytes: int
    names_here: int
    names: int


Directory = Mapping[Inode, Stored]
"""The files of one directory of the sidecar; names of the same bytes count once."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What stays or goes as a whole: the snapshots of a turn, or an undo record with those of the turns it removed.

    Attributes:
        turns: Numbers of turns whose snapshots these are.
        record: The name of the undo record; None for a turn.
        newer: How many newer ones of its kind there are.
        needed: It never goes.
        directories: What it takes.
    """

    turns: tuple[int, ...] = ()
    record: str | None = None
    newer: int = 0
    needed: bool = False
    directories: tuple[Directory, ...] = ()


@dataclass(frozen=True, slots=True)
class Eviction:
    """What goes, in that order.

    Attributes:
        freed_bytes: What the disk gets back: bytes that also have a name elsewhere, in a fork, stay.
    """

    going: tuple[Holding, ...] = ()
    freed_bytes: int = 0

    @property
    def turns(self) -> tuple[int, ...]:
        """The turns whose snapshots go, in order."""
        return tuple(sorted({turn for each in self.going for turn in each.turns}))

    @property
    def records(self) -> tuple[str, ...]:
        """The undo records that go, oldest first."""
        return tuple(each.record for each in self.going if each.record is not None)


@dataclass(slots=True)
class Tally:
    """Bytes on disk while directories come and go, those of one inode counted once; kept in step at the cost of each.

    Attributes:
        total_bytes: What all of them take.
    """

    total_bytes: int = 0
    _names: Counter[Inode] = field(default_factory=Counter)

    def add(self, directory: Directory) -> None:
        """Count a directory."""
        for inode, stored in directory.items():
            self.total_bytes += 0 if self._names[inode] else stored.size_bytes
            self._names[inode] += stored.names_here

    def remove(self, directory: Directory) -> None:
        """Count a directory no more."""
        for inode, stored in directory.items():
            self._names[inode] -= stored.names_here
            if not self._names[inode]:
                del self._names[inode]
                self.total_bytes -= stored.size_bytes


def evict(undo: Sequence[Holding], turns: Sequence[Holding], limits: Limits) -> Eviction:
    """Decide what goes: what is beyond a number, and then, one after the other, what makes the rest fit the quota.

    Args:
        undo: The undo records, in the order in which they go.
        turns: Likewise the turns.
    """
    tally = Tally()
    in_order = [*undo, *turns]
    for directory in _directories(in_order):
        tally.add(directory)
    beyond = {
        id(holding)
        for listed, retained in ((undo, limits.retain_rewinds), (turns, limits.retain_turns))
        for holding in listed
        if retained and holding.newer >= retained and not holding.needed
    }
    for directory in _directories(each for each in in_order if id(each) in beyond):
        tally.remove(directory)
    going = []
    for holding in in_order:
        if id(holding) not in beyond:
            if holding.needed or not 0 < limits.quota_bytes < tally.total_bytes:
                continue
            for directory in holding.directories:
                tally.remove(directory)
        going.append(holding)
    return Eviction(tuple(going), freed(_directories(going)))


def freed(directories: Iterable[Directory]) -> int:
    """Return the bytes that have no name any more when these directories go."""
    gone: Counter[Inode] = Counter()
    known: dict[Inode, Stored] = {}
    for directory in directories:
        for inode, stored in directory.items():
            gone[inode] += stored.names_here
            known[inode] = stored
    return sum(stored.size_bytes for inode, stored in known.items() if gone[inode] >= stored.names)


def is_pruned(timeline: Timeline, payload: Payload | None) -> bool:
    """Tell whether a payload went because of the limits."""
    match payload.file.split("/") if payload is not None else []:
        case ["undo", record, *_]:
            return record in timeline.pruned_records
        case ["turns", *_] if payload is not None:
            return turn_in(payload.file) in timeline.pruned_turns
        case _:
            return False


def tasks_needed(timeline: Timeline, *, without: Container[str] = ()) -> frozenset[str]:
    """Return the tasks that are on the timeline, or that an undo would bring back.

    Args:
        without: Names of undo records that are going.
    """
    usable = [step for step in timeline.steps if timeline.is_usable(step) and step.record not in without]
    stashed = (timeline.stash[step.rewind].tasks for step in usable if step.rewind in timeline.stash)
    return frozenset(timeline.tasks).union(*stashed)


def tasks_removed(timeline: Timeline) -> dict[str, TaskRecord]:
    """Return the tasks that rewinds removed, as they were then, by id."""
    return {name: task for stashed in timeline.stash.values() for name, task in stashed.tasks.items()}


def holdings_of(
    timeline: Timeline, turns: Mapping[int, Directory], records: Mapping[str, Directory]
) -> tuple[list[Holding], list[Holding]]:
    """Return the undo records and the turns whose bytes are there, each in the order in which they go.

    Records that no undo and no redo uses any more go before those that one may use. The turns a rewind removed go with
    its record; where that never goes they are turns like the others, but do not count as such. Never to go: the newest
    turn, and the records of the newest rewind and of the newest undo.

    Args:
        turns: What each turn's directory holds.
        records: What each undo record's directory holds.
    """
    newest = {step.record: step for step in (timeline.newest_done(), timeline.newest_undone()) if step is not None}
    removed = [turn for step in newest.values() for turn in _removed_by(timeline, step)]
    return (
        _undo_holdings(timeline, turns, records, newest),
        sorted(
            [
                *_live_turns(timeline, turns),
                *(Holding((turn,), directories=(turns[turn],)) for turn in removed if turn in turns),
            ],
            key=lambda holding: holding.turns,
        ),
    )


def _live_turns(timeline: Timeline, turns: Mapping[int, Directory]) -> Iterator[Holding]:
    in_order = sorted(timeline.turns.values(), key=lambda turn: (turn.order, turn.turn))
    for newer, turn in enumerate(reversed(in_order)):
        if (held := turns.get(turn.turn)) is not None:
            yield Holding((turn.turn,), None, newer, not newer or turn.turn == timeline.next_turn - 1, (held,))


def _undo_holdings(
    timeline: Timeline, turns: Mapping[int, Directory], records: Mapping[str, Directory], newest: Container[str]
) -> list[Holding]:
    usable = {step.record: step for step in timeline.steps if timeline.is_usable(step)}
    known = [name for name in timeline.records if name in records]
    in_order = sorted(known, key=lambda name: (name in newest, _rank(usable.get(name))))  # the oldest of equals first
    holdings = []
    for place, name in enumerate(in_order):
        removed = _removed_by(timeline, usable[name]) if name in usable and name not in newest else ()
        held = [turns[turn] for turn in removed if turn in turns]
        newer = len(in_order) - 1 - place
        holdings.append(Holding(removed, name, newer, name in newest, (records[name], *held)))
    return holdings


def _rank(step: Step | None) -> int:
    """Return how late a record goes: what nothing uses first, then undos of single files, rewinds last."""
    if step is None:
        return 0
    return 1 if step.of is not None else 2


def _removed_by(timeline: Timeline, step: Step) -> tuple[int, ...]:
    """Return the turns that come back when a rewind is undone, and only then."""
    return timeline.removed_turns(step.rewind) if step.state == "done" else ()


def _directories(holdings: Iterable[Holding]) -> Iterable[Directory]:
    return (directory for holding in holdings for directory in holding.directories)
