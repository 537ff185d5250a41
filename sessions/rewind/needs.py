"""What must be restored to go back to a place on the timeline. Pure.

A prompt of the transcript has a place on the timeline even where no turn was recorded for it (a host that only appends,
another agent that resumed the session): in front of the next prompt that has one. Touches another agent recorded inside
its messages are merged in at the places of their prompts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sessions.errors import NotFoundError
from sessions.rewind.states import Content, Image, same
from sessions.rewind.timeline import Order, Timeline, Touch
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
        turns = timeline.first_turns()
        last = {touch.turn: touch.order[0] for touch in timeline.touches}
        next_seq = timeline.next_seq
        for place in range(len(prompts) - 1, -1, -1):
            own = turns.get(prompts[place].id)
            if own is not None:
                next_seq = own.order[0]
                self._orders[place] = own.order
                self._last_seq[place] = max(last.get(own.turn, 0), own.order[0])
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
        return (self._last_seq[place], 1, place, number)


@dataclass(frozen=True, slots=True)
class Need:
    """What a path must become, and what is known of it.

    Attributes:
        target: Its state at the position gone back to.
        left: What the agent left there; None when nobody recorded it.
        by: Who edited it last.
        identity: What the system said of the file with ``left``: device and inode, maybe more.
        overlap: Whether edits of it ran at the same time.
    """

    path: str
    target: Image
    left: Image | None
    by: str
    identity: tuple[int, ...] | None = None
    overlap: bool = False


def needs_after(touches: Iterable[Touch], position: Order) -> list[Need]:
    """Return what every path changed after ``position`` needs to be as it was there, by path.

    A touch that changed nothing (an edit that only looked) tells what a path was, never what the agent left; a path
    that has only such touches needs nothing, whatever somebody else did to it since.

    Args:
        touches: Live touches in timeline order.
        position: A place on the timeline; a touch exactly there counts as after it.
    """
    targets: dict[str, Image] = {}
    needs: dict[str, Need] = {}
    for touch in touches:
        if touch.order < position:
            continue
        target = targets.setdefault(touch.path, touch.before)
        if touch.after is not None and same(touch.before.state, touch.after.state):
            continue
        earlier = needs.get(touch.path)
        overlap = touch.overlap or (earlier is not None and earlier.overlap)
        needs[touch.path] = Need(touch.path, target, touch.after, touch.by.split(" rw-")[0], touch.identity, overlap)
    return [needs[path] for path in sorted(needs)]


def known_content(need: Need) -> Content | None:
    """Return the content the agent left, where it left a file."""
    return need.left.state if need.left is not None and isinstance(need.left.state, Content) else None


def chosen(needs: Sequence[Need], wanted: Sequence[str], shown: Callable[[str], str]) -> list[Need]:
    """Return the needs of some paths, and of everything below those that are directories.

    Raises:
        NotFoundError: A path needs nothing, and nothing below it does.
    """
    found: list[Need] = []
    for path in wanted:
        below = [need for need in needs if need.path == path or need.path.startswith(path + "/")]
        if not below:
            raise NotFoundError("file the agent touched since then", shown(path))
        found.extend(below)
    return sorted({need.path: need for need in found}.values(), key=lambda need: need.path)
