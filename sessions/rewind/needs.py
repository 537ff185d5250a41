"""What must be restored to go back to a place on the timeline. Pure.

A prompt of the transcript has a place on the timeline even where no turn was recorded for it (a host that only appends,
another agent that resumed the session): in front of the next prompt that has one. Touches another agent recorded inside
its messages are merged in at the places of their prompts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from sessions.errors import NotFoundError
from sessions.rewind.recorded import REWINDS, MarkRecord, Order, Span, Touch
from sessions.rewind.states import Absent, Content, Image, same
from sessions.rewind.timeline import Timeline
from sessions.transcript.outline import ForeignSnapshot, Prompt

_BETWEEN = -1
"""Of a place that no record of its own gave, in front of the record with that ``seq``."""


class Places:
    """Where the prompts of a transcript stand on its timeline.

    Args:
        prompts: The visible prompts in file order.
        timeline: The live timeline.
    """

    def __init__(self, prompts: Sequence[Prompt], timeline: Timeline) -> None:
        self._offsets = [prompt.offset for prompt in prompts]
        self._orders: list[Order] = [(0, 0, 0, 0)] * len(prompts)
        self._last_seq: dict[int, int] = {}
        self._marks: dict[int, list[MarkRecord]] = {}
        marks: dict[str, list[MarkRecord]] = {}
        for mark in timeline.marks:
            marks.setdefault(mark.message_id, []).append(mark)
        turns = timeline.first_turns()
        last = {touch.turn: touch.order[0] for touch in timeline.touches}
        next_seq = timeline.next_seq
        for place in range(len(prompts) - 1, -1, -1):
            own = turns.get(prompts[place].id)
            if own is not None:
                next_seq = own.order[0]
                self._orders[place] = own.order
                of_turn = self._marks[place] = marks.get(own.message_id, [])
                self._last_seq[place] = max(last.get(own.turn, 0), own.order[0], *(mark.seq for mark in of_turn))
            else:
                self._orders[place] = (next_seq, _BETWEEN, place, -1)

    def of_prompt(self, place: int) -> Order:
        """Return the place in front of all that the prompt at list position ``place`` (from 0) led to."""
        return self._orders[place]

    def of_snapshot(self, snapshot: ForeignSnapshot, number: int) -> Order:
        """Return the place of another agent's touch, the ``number``-th of the transcript."""
        place = max(bisect_right(self._offsets, snapshot.offset) - 1, 0)
        if not self._orders:
            return (0, _BETWEEN, 0, number)
        seq, fine, among, _ = self._orders[place]
        if fine == _BETWEEN:
            return (seq, _BETWEEN, among, number)
        for mark in self._marks[place]:
            if snapshot.offset < mark.offset:
                return (mark.seq, _BETWEEN, place, number)
        return (self._last_seq[place], 1, place, number)


@dataclass(frozen=True, slots=True)
class Need:
    """What a path must become, and what is known of it.

    Attributes:
        target: Its state at the position gone back to.
        left: What the agent left there; None when nobody recorded it.
        by: Who edited it, in the order of their first edits, joined by ``, ``.
        identity: What the system said of the file with ``left``: device and inode, maybe more.
        contested: Why it is a conflict whatever is there now, in a phrase: edits of it ran at the same time, or others
            edited it since. Empty where neither is so.
        note: What else there is to know, in a phrase; may be empty.
        stopping: Whether background work edits it that is stopped first: what is there now is not the end of it.
        unsteady: Whether background work that goes on may write it at any moment.
    """

    path: str
    target: Image
    left: Image | None
    by: str
    identity: tuple[int, ...] | None = None
    contested: str = ""
    note: str = ""
    stopping: bool = False
    unsteady: bool = False


_NEVER = math.inf
_BETWEEN_EDITS = "somebody else changed it between the agent's edits"
_OVERLAP = "edited by two at the same time"


Called = Callable[[Touch], str]
"""Says whose an edit is, as in "edited since by …"."""


def needs_after(touches: Iterable[Touch], span: Span, called: Called) -> list[Need]:
    """Return what every path that was changed by what goes needs to be as it was before, by path.

    A touch that changed nothing (an edit that only looked) tells what a path was, never what the agent left; a path
    that has only such touches needs nothing, whatever somebody else did to it since. What work that stays edited since
    is contested.

    Args:
        touches: Live touches in timeline order.
        span: What goes.
        called: Names the authors of edits that stay.
    """
    return _Needs(span.takes, called, looks_count=True).of(touches)


def needs_at_mark(touches: Iterable[Touch], mark: MarkRecord, span: Span, called: Called) -> list[Need]:
    """Return what is needed to go back to a mark: as ``needs_after``, and what its turn edited in front of it stays so.

    What only tasks and subagents edited that the turn started before the mark goes on: it is theirs, as it is now.

    Args:
        touches: As for ``needs_after``.
        span: What goes, from the mark on.
        called: As for ``needs_after``.
    """
    touches = list(touches)
    left: dict[str, Touch] = {}
    there: dict[str, Image] = {}
    since: dict[str, str] = {}  # what work that stays had a part in behind the mark
    for touch in touches:
        if touch.order >= mark.order:
            there.setdefault(touch.path, touch.before)
        if touch.only_looked:
            continue
        if touch.turn == mark.turn and touch.order < mark.order:
            if touch.path in left or not span.is_of_workers(touch):
                left[touch.path] = touch
        elif touch.order >= mark.order and (workers := [by for by in touch.authors if by in span.workers]):
            since[touch.path] = f"edited since by {called(replace(touch, by=workers[-1]))}"
    needs = {
        path: Need(
            path,
            there.get(path, touch.after),
            touch.after,
            _joined(_authors(touch)),
            touch.identity,
            contested=since.get(path, ""),
        )
        for path, touch in left.items()
        if touch.after is not None
    }
    needs |= {
        need.path: replace(need, contested=need.contested or since.get(need.path, ""))
        for need in needs_after(touches, span, called)
    }
    return [needs[path] for path in sorted(needs)]


def needs_of_run(touches: Iterable[Touch], turns: Container[int], position: Order, called: Called) -> list[Need]:
    """Return what every path a run changed needs to be as it was before the run's first edit of it, by path.

    What others edited since then is contested. What a rewind wrote since is what must be there now.

    Args:
        touches: As for ``needs_after``.
        turns: The turns of the run.
        position: Only what the run did from this place on.
        called: Names the authors of other edits.
    """

    def ours(touch: Touch) -> bool:
        return touch.turn is not None and touch.turn in turns and touch.order >= position

    return _Needs(ours, called, looks_count=False).of(touches)


class _Needs:
    """Collects what paths need.

    Args:
        ours: Whether a touch is to be taken back.
        called: Names the authors of others.
        looks_count: Whether an edit that only looked tells what a path was.
    """

    def __init__(self, ours: Callable[[Touch], bool], called: Called, *, looks_count: bool) -> None:
        self._ours = ours
        self._called = called
        self._looks_count = looks_count

    def of(self, touches: Iterable[Touch]) -> list[Need]:
        targets: dict[str, Image] = {}
        needs: dict[str, Need] = {}
        contested: dict[str, str] = {}
        authors: dict[str, dict[str, None]] = {}
        closed: dict[str, float] = {}
        outlasting: dict[str, Touch] = {}  # edits of others that began before ours, and maybe ended later
        between = _Between()
        for touch in touches:
            ours = self._ours(touch)
            if not ours and touch.path not in targets:
                outlasting[touch.path] = touch
                continue
            if ours and (self._looks_count or not touch.only_looked) and touch.path not in targets:
                targets[touch.path] = touch.before
                other = outlasting.get(touch.path)
                if other is not None and (_outlasts(other, touch) or _made_it_too(other, touch)):
                    contested[touch.path] = f"edited since by {self._called(other)}"
            between.note(touch)
            if touch.only_looked:
                continue
            if touch.overlap:
                contested[touch.path] = _OVERLAP
            elif not ours and not touch.is_of_a_rewind:
                contested[touch.path] = f"edited since by {self._called(touch)}"
            if ours:
                authors.setdefault(touch.path, {}).update(dict.fromkeys(_authors(touch)))
            ended = closed.get(touch.path, 0)  # the last to end counts, not the last to begin
            if touch.after is None or not touch.closed or touch.closed >= ended:
                closed[touch.path] = max(touch.closed, ended) if touch.after is not None else _NEVER
                needs[touch.path] = Need(touch.path, targets[touch.path], touch.after, "", touch.identity)
        return [
            replace(
                needs[path],
                by=_joined(authors.get(path, ())),
                contested=contested.get(path, ""),
                note=between.notes.get(path, ""),
            )
            for path in sorted(needs)
        ]


def _outlasts(other: Touch, touch: Touch) -> bool:
    """Tell whether an edit that began before another one ended after that began."""
    return other.closed > touch.order[0] or (other.after is None and other.is_of_work)


def _made_it_too(other: Touch, touch: Touch) -> bool:
    """Tell whether a file that one task is said to have made was there already when another one had ended.

    What a task made is on record only when it ends: both ran at the same time, and one of them made it.
    """
    if not (other.is_of_tasks and touch.is_of_tasks and isinstance(touch.before.state, Absent)):
        return False
    return other.after is not None and not isinstance(other.after.state, Absent)


class _Between:
    """Notes which paths somebody else changed between two edits. Give it the touches that count, in order."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self._ends: dict[str, Image] = {}

    def note(self, touch: Touch) -> None:
        end = self._ends.get(touch.path)
        if end is not None and not same(end.state, touch.before.state):
            self.notes[touch.path] = _BETWEEN_EDITS
        if touch.after is not None:
            self._ends[touch.path] = touch.after
        else:
            self._ends.pop(touch.path, None)


def _authors(touch: Touch) -> Iterator[str]:
    for by in touch.authors or (touch.by,):
        yield by.split(" rw-")[0]


def _joined(authors: Iterable[str]) -> str:
    """Return authors as people read them; a rewind is one only where nobody else is."""
    edited = [by for by in authors if by not in REWINDS]
    return ", ".join(edited or dict.fromkeys(authors))


def known_content(need: Need) -> Content | None:
    """Return the content the agent left, where it left a file."""
    return need.left.state if need.left is not None and isinstance(need.left.state, Content) else None


def is_within(path: str, wanted: AbstractSet[str]) -> bool:
    """Tell whether a path is one of those wanted, or lies below one."""
    return not wanted.isdisjoint(above_and_itself(path))


def unmatched(found: Iterable[str], wanted: Sequence[str], shown: Callable[[str], str]) -> list[str]:
    """Return the wanted paths that are none of those found, nor above one: the agent did not touch them.

    Raises:
        NotFoundError: All are so: nothing is left to do.
    """
    known = {above for path in found for above in above_and_itself(path)}
    missing = [path for path in dict.fromkeys(wanted) if path not in known]
    if missing and len(missing) == len(set(wanted)):
        raise NotFoundError("file the agent touched since then", ", ".join(shown(path) for path in missing))
    return missing


def above_and_itself(path: str) -> Iterator[str]:
    """Yield a path and the directories it lies in."""
    while len(path) > 1:
        yield path
        path = path.rpartition("/")[0]
