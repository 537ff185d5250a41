"""The code timeline: the records of a session's log, and what they come to: what is true now. Pure.

The log (``timeline.jsonl`` in the sidecar) holds one JSON object a line, only ever appended:

=============  =========================================================================================================
``kind``       beside ``v`` (schema version) and ``seq`` (grows by one, never reused)
=============  =========================================================================================================
``turn``       ``turn`` (number, never reused), ``message_id`` of its prompt, ``run_id``
``before``     ``turn``, ``edit``, ``path``, ``state``, ``payload``, ``by``: what a path was before its first edit in
               the turn
``again``      ``turn``, ``edit``, ``path``, ``by``: the path is being edited once more; its end state is open again
``after``      ``turn``, ``edit``, ``path``, ``state``, ``payload``, ``identity``, ``overlap``: what the edit left; with
               ``settled``, only that the system has something surer to say of it
``gap``        ``turn``, ``gap`` (a word), ``paths``, ``what``: something that was not captured. With ``task``, what a
               task did: until it turns out to use this library, in a ``child`` of its own
``mark``       ``turn``, ``name``, ``at``, ``offset``, ``seam``, ``last_message``: a named point. It ends the touches so
               far: what is edited behind it begins touches of its own
``end``        ``turn``, ``files``, ``insertions``, ``deletions``: the turn's net effect, for lists
``task``       ``task`` (an id, never reused), ``turn``, ``session``, ``spawned_by``, …: background work was started
``ended``      ``task``, ``state``, ``code``, ``at``: it is settled how that ended; the first such record counts
``withdrawn``  ``task``: it could not be started after all
``child``      ``session``, ``turn``, ``parent``, ``spawned_by``, ``task``, ``label``: a subagent has a session
``rewind``     ``rewind``, ``scope``, ``to``, ``run``, ``from``, ``at``, ``touches``: a rewind came true
``undo``       ``rewind``, ``record``, ``at``: it was taken back · ``redo`` likewise: it came true once more. An undo
               with ``of`` took back some files of that rewind; ``redo`` of its own name repeats the rewind for these
``wrote``      ``path``, ``before``, ``after``, ``by``: in a fork, what a rewind of the code alone wrote in the parent
``lost``       in a fork: here stood a record of the parent that cannot be read
``prune``      ``turns`` (numbers), ``rewinds`` (undo records): their bytes are removed, because of the limits
=============  =========================================================================================================

Order is the log's, never a clock's; only what was recorded after the fact names its place in ``order``. Rewinding code
to a position gives every path touched after it the *before* of its first touch after it. A rewind of both code and
conversation takes the turns from the place ``from`` on out of the timeline with all they did, and an undo brings them
back; what an earlier turn still did behind that place, by an edit or a task that outlived it, stays, and so does, with
a redo, what came since the rewind. A rewind of the conversation alone leaves all, *detached* from any prompt; a rewind
of code alone adds its own writes as ``touches``.
Nothing is ever deleted from the log, so a late capture for a removed turn is recognised and refused.

Unknown kinds are skipped, so a log written by a later version is still read.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, fields, replace

from sessions.rewind.plan import Gap
from sessions.rewind.recorded import MarkRecord, Order, Span, Step, Touch, TurnRecord, TurnSummary
from sessions.rewind.states import Image
from sessions.subagents.family import below
from sessions.subagents.record import ChildRecord, TaskRecord

VERSION = 1


@dataclass(slots=True)
class Timeline:
    """What is live at one time. Only `sessions.rewind.folding` changes it; everybody else reads.

    ``CaptureLog.read`` gives one that never changes again: any thread may iterate it, whatever is recorded meanwhile,
    and all its parts are of the same moment. ``CaptureLog.locked`` gives the one that grows: it changes only by what
    the holder of the lock appends, and nobody else may keep it.

    Attributes:
        missing: The numbers of records that cannot be read.
        records: The undo records, oldest first, each with the rewind it belongs to.
        expired: The rewinds that cannot be repeated any more: a turn or a rewind came since they were undone.
        stash: What rewinds took out, by rewind; and the touches of undos and redos that may come back.
        gaps_of_tasks: By task the ``seq`` of its gap, where it has one.
        latest: By turn and path the place in ``touches`` of the last one.
    """

    turns: dict[int, TurnRecord] = field(default_factory=dict)
    touches: list[Touch] = field(default_factory=list)
    gaps: list[tuple[int, int, Gap]] = field(default_factory=list)
    marks: list[MarkRecord] = field(default_factory=list)
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    children: dict[str, ChildRecord] = field(default_factory=dict)
    summaries: dict[int, TurnSummary] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    next_seq: int = 0
    next_turn: int = 1
    damaged: int = 0
    missing: list[int] = field(default_factory=list)
    records: dict[str, str] = field(default_factory=dict)
    pruned_turns: set[int] = field(default_factory=set)
    pruned_records: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    stash: dict[str, Stashed] = field(default_factory=dict)
    gaps_of_tasks: dict[str, int] = field(default_factory=dict)
    latest: dict[tuple[int, str], int] = field(default_factory=dict)

    def snapshot(self) -> Timeline:
        """Return what it is now, which stays so. Costs a copy of every list and table, but not of what is in them."""
        return replace(self, **{each.name: copy(getattr(self, each.name)) for each in fields(self)})

    def turn_of(self, message_id: str) -> TurnRecord | None:
        """Return the live turn whose prompt has that id, also a detached one."""
        return self.first_turns().get(message_id)

    def first_turns(self) -> dict[str, TurnRecord]:
        """Return the live turns by the message id of their prompt; of several with one id the first."""
        return {turn.message_id: turn for turn in reversed(self.turns.values())}

    def turns_of_run(self, run: str) -> frozenset[int]:
        """Return the live turns with that label."""
        return frozenset(number for number, turn in self.turns.items() if turn.run_id == run)

    def touch_in(self, turn: int, path: str) -> Touch | None:
        """Return what a turn did to a path since its last mark."""
        touch = self.last_touch(turn, path)
        return None if touch is None or self._is_marked(touch) else touch

    def last_touch(self, turn: int, path: str) -> Touch | None:
        """Return the last thing a turn did to a path, in front of a mark too."""
        place = self.latest.get((turn, path))
        return None if place is None else self.touches[place]

    def touches_of(self, turn: int) -> list[Touch]:
        """Return what a turn touched, in order."""
        return [touch for touch in self.touches if touch.turn == turn]

    def touches_since_mark(self, turn: int) -> list[Touch]:
        """Return what a turn touched since its last mark, in order."""
        return [touch for touch in self.touches_of(turn) if not self._is_marked(touch)]

    def span(self, start: Order, *, within: int | None = None) -> Span:
        """Return what goes when one goes back to a place; ``within``: the turn it is inside of, for a mark."""
        staying = frozenset(turn.turn for turn in self.turns.values() if turn.order < start) - {within}
        return Span(start, staying, self._started_in(within, start) if within is not None else frozenset())

    def taken_by(self, step: Step) -> Span | None:
        """Return what a rewind takes back, and stops, when it comes true and when it is repeated: nothing begun since.

        None where nothing of this session goes with it: for a fork of the conversation alone, and for single files.
        """
        if step.start is None or (step.history == "fork" and step.scope == "conversation"):
            return None
        turns = frozenset(
            number
            for number, turn in self.turns.items()
            if step.start <= turn.order and turn.seq < step.end and (step.run is None or turn.run_id == step.run)
        )
        staying = frozenset(self.turns) - turns - {step.within}
        workers = self._started_in(step.within, step.start) if step.within is not None else frozenset()
        if step.scope != "both":  # its turns stayed, and went on until it was undone
            workers |= {each.id for each in self._workers() if each.turn in turns and step.end < each.seq < step.seq}
        return Span(step.start, staying, workers, end=step.end, turns=turns)

    def _workers(self) -> list[TaskRecord | ChildRecord]:
        return [*self.tasks.values(), *self.children.values()]

    def _started_in(self, turn: int, end: Order) -> frozenset[str]:
        """Return the tasks and subagents that a turn started in front of a place, and those that these started.

        Not the session of a subagent in which work that it started behind the place works: what that did there is its.
        """
        found: set[str] = set()
        for each in sorted((each for each in self._workers() if each.turn == turn), key=lambda each: each.seq):
            by = {each.session} if isinstance(each, TaskRecord) else {each.parent, each.task}
            if each.seq < end[0] or not found.isdisjoint(by):
                found.add(each.id)
            elif isinstance(each, TaskRecord) and each.works_in:
                found -= below(each.works_in, self)
        return frozenset(found)

    def loses(self, span: Span, gap: tuple[int, int, Gap]) -> bool:
        """Tell whether a gap goes with a span; not that of a task which stays."""
        seq, turn, _ = gap
        return span.holds((seq, 0, 0, 0), turn) and all(self.gaps_of_tasks.get(each) != seq for each in span.workers)

    def newest_done(self) -> Step | None:
        """Return the rewind an undo would take back; none where the bytes for it are removed."""
        step = max((step for step in self.steps if step.state == "done"), key=lambda step: step.seq, default=None)
        return step if step is not None and self.is_usable(step) else None

    def newest_undone(self) -> Step | None:
        """Return the rewind a redo would repeat: the last one undone, where that can be repeated.

        A new turn or rewind ends the redo, and so does a task, a subagent or an edit begun since in what it takes back.
        """
        undone = [step for step in self.steps if step.state == "undone" and step.rewind not in self.expired]
        step = max(undone, key=lambda step: step.seq, default=None)
        return step if step is not None and self.is_usable(step) else None

    def is_usable(self, step: Step) -> bool:
        """Tell whether a rewind can still be undone or redone, the later ones first."""
        expired = step.state == "undone" and (step.rewind in self.expired or self._is_built_upon(step))
        return not expired and step.record not in self.pruned_records

    def _is_built_upon(self, step: Step) -> bool:
        """Tell whether, since a rewind was undone, something was begun in what it takes back.

        A redo would have to remove or to stop that, and to put back files that it knows nothing of.
        """
        span = self.taken_by(step)
        if span is None:
            return False
        goes, since = replace(span, end=None), step.seq
        return any(each.seq > since and goes.ends(each) for each in self._workers()) or any(
            touch.turn is not None and touch.begun > since and goes.takes(touch) for touch in self.touches
        )

    def removed_turns(self, rewind: str) -> tuple[int, ...]:
        """Return the numbers of the turns that an undo of this rewind would bring back."""
        removed = self.stash.get(rewind)
        return tuple(removed.turns) if removed is not None else ()

    def images(self) -> Iterator[Image]:
        """Yield every image on record, also those of turns that a rewind removed; the newest last."""
        stashed = (touch for removed in self.stash.values() for touch in removed.touches)
        for touch in [*stashed, *self.touches]:
            yield touch.before
            if touch.after is not None:
                yield touch.after

    def _is_marked(self, touch: Touch) -> bool:
        for mark in reversed(self.marks):
            if mark.order < touch.order:
                return False
            if mark.turn == touch.turn:
                return True
        return False


@dataclass(slots=True)
class Stashed:
    """What is out of a timeline and may come back.

    Attributes:
        rebased: Touches that stay and begin elsewhere without the others, as they were.
    """

    touches: list[Touch] = field(default_factory=list)
    gaps: list[tuple[int, int, Gap]] = field(default_factory=list)
    turns: dict[int, TurnRecord] = field(default_factory=dict)
    marks: list[MarkRecord] = field(default_factory=list)
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    children: dict[str, ChildRecord] = field(default_factory=dict)
    summaries: dict[int, TurnSummary] = field(default_factory=dict)
    rebased: list[Touch] = field(default_factory=list)
