"""What the timeline holds: plain values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from sessions.ids import CHILD_PREFIX, TASK_PREFIX
from sessions.rewind.plan import History, Scope, TouchedFile
from sessions.rewind.seam import Place
from sessions.rewind.states import Image, same

REWINDS = frozenset({"rewind", "undo", "redo"})
"""What an author is called that is no agent."""

Order = tuple[int, int, int, int]
"""A place on the timeline: the log's ``seq``, then finer places for touches that another agent recorded elsewhere."""


@dataclass(frozen=True, slots=True)
class Touch:
    """One path edited in one turn (between two marks): what it was before the first edit and after the last so far.

    Attributes:
        order: Its place on the timeline.
        turn: The turn's number; None for a rewind's own writes and for another agent's captures.
        after: None when nobody recorded what the edit left (it is running, or it crashed).
        identity: What the system said of the file with ``after``: six integers and when, see ``worktree.Identity``; of
            one that a rewind wrote in place, device and inode alone.
        by: Who edited it last: ``agent``, the id of a subagent's session or of a task, or ``rewind``.
        overlap: Whether two edits of the path ran at the same time.
        earlier: While it is open again: what it left before.
        authors: Who edited it, in the order of their first edits.
        closed: The ``seq`` of the record that says what the last edit left; 0 where none does.
        begun: The ``seq`` of the record that began the last edit; 0 for what is on record elsewhere.
    """

    order: Order
    turn: int | None
    path: str
    before: Image
    after: Image | None
    by: str
    identity: tuple[int, ...] | None = None
    overlap: bool = False
    earlier: Image | None = None
    authors: tuple[str, ...] = ()
    closed: int = 0
    begun: int = 0

    @property
    def is_of_work(self) -> bool:
        """Whether a subagent or a task edited it last: while it has no end, they still do, or were not settled."""
        return self.by.startswith((CHILD_PREFIX, TASK_PREFIX))

    @property
    def only_looked(self) -> bool:
        """Whether it changed nothing: that tells what the path was, never what its author left."""
        return self.after is not None and same(self.before.state, self.after.state)

    @property
    def is_of_tasks(self) -> bool:
        """Whether nobody but tasks edited it: what they may have made, maybe others did that run at the same time."""
        return bool(self.authors) and all(by.startswith(TASK_PREFIX) for by in self.authors)

    @property
    def is_of_a_rewind(self) -> bool:
        """Whether a rewind, an undo or a redo wrote it, not an agent."""
        return self.turn is None and self.by.split(" ")[0] in REWINDS


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn on the timeline; it stays there, detached, when its prompt leaves the conversation alone.

    ``order`` is its place: that of its record, but for a turn that was recorded only when its prompt was removed.
    """

    seq: int
    turn: int
    message_id: str
    run_id: str | None
    order: Order


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """A named point inside a turn.

    Attributes:
        seq: Its place on the timeline.
        offset: Where the transcript ended when it was made, in bytes.
        seam: The SHA-256 of the last bytes in front of that: the offset holds while it does, see ``seam``.
        last_message: The id of the last message in front of it; empty where none has one.
    """

    seq: int
    turn: int
    message_id: str
    name: str
    at: str
    offset: int
    seam: str
    last_message: str = ""

    @property
    def place(self) -> Place:
        """Its place in the transcript."""
        return Place(self.offset, self.seam, self.last_message)

    @property
    def order(self) -> Order:
        """Its place on the timeline."""
        return (self.seq, 0, 0, 0)


class Worker(Protocol):
    """A task, or the session of a subagent."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def seq(self) -> int:
        """Its place on the timeline."""

    @property
    def turn(self) -> int:
        """The turn it belongs to."""


@dataclass(frozen=True, slots=True)
class Span:
    """What lies behind a place on the timeline and goes when one goes back there.

    Attributes:
        start: The place.
        staying: The turns in front of it: what they, and the tasks they started, do later stays.
        workers: The tasks and the subagents' sessions that the turn it lies inside of started in front of it, and those
            that these started since: likewise. But not a session in which work that was started behind it works.
        end: The ``seq`` from which on nothing goes but what ``turns`` did; None where there is no end.
        turns: The turns that lie in front of that end: all they did goes, also behind it.
    """

    start: Order
    staying: frozenset[int] = frozenset()
    workers: frozenset[str] = frozenset()
    end: int | None = None
    turns: frozenset[int] = frozenset()

    def holds(self, order: Order, turn: int | None) -> bool:
        """Tell whether something recorded at ``order`` for ``turn`` goes, whoever did it."""
        if turn in self.turns:
            return True
        return self.start <= order and (self.end is None or order[0] < self.end) and turn not in self.staying

    def takes(self, touch: Touch) -> bool:
        """Tell whether an edit goes: not one that only work which stays had a part in."""
        return self.holds(touch.order, touch.turn) and not self.is_of_workers(touch)

    def is_of_workers(self, touch: Touch) -> bool:
        """Tell whether all who edited it are ``workers``."""
        return bool(touch.authors) and self.workers.issuperset(touch.authors)

    def ends(self, worker: Worker) -> bool:
        """Tell whether background work goes."""
        return self.holds((worker.seq, 0, 0, 0), worker.turn) and worker.id not in self.workers


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """A turn's net effect, recorded when it ended; counts are None when unknown."""

    files: tuple[TouchedFile, ...]
    insertions: int | None
    deletions: int | None

    def to_record(self) -> dict[str, object]:
        """Return plain data: ``files`` (``path``, ``status``), ``insertions``, ``deletions``."""
        files = [{"path": each.path, "status": each.status} for each in self.files]
        return {"files": files, "insertions": self.insertions, "deletions": self.deletions}


@dataclass(frozen=True, slots=True)
class Step:
    """A rewind on the undo stack.

    Attributes:
        record: The transaction that last changed its ``state``.
        seq: Where on the timeline that was.
        left: Paths that transaction found changed in between and left alone.
        run: The run it took back; None where it went to a place.
        history: What became of the removed part of the conversation.
        mark: The ``seq`` of the mark it went to; None for a prompt.
        of: Where it is a rewind of some files only, split off by their undo: the rewind they were undone of.
        start: The place on the timeline it went back to; None where nobody recorded it, and for single files.
        within: The turn that place is inside of, for a mark.
        end: The ``seq`` of the rewind itself: what was recorded behind that came since.
    """

    rewind: str
    record: str
    scope: Scope
    to: str
    at: str
    seq: int
    state: Literal["done", "undone"]
    left: tuple[str, ...] = ()
    run: str | None = None
    history: History = "rewrite"
    mark: int | None = None
    of: str | None = None
    start: Order | None = None
    within: int | None = None
    end: int = 0
