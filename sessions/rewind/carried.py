"""What a fork carries of its parent's timeline, and under which names the bytes lie there. Pure.

All that is live in front of the fork's end comes along in its order: turns under their numbers, touches with what they
left, gaps, marks, net effects, where records are missing, and whose bytes the limits removed. The undo stack does not:
what rewinds of the code alone wrote becomes plain writes. Paths below the parent's directory become paths below the
fork's.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace

from sessions.rewind.numbers import snapshot_number, turn_in
from sessions.rewind.plan import Gap
from sessions.rewind.recorded import MarkRecord, Order, Touch, TurnRecord, TurnSummary
from sessions.rewind.states import Content, Image, Payload
from sessions.rewind.timeline import Timeline

Record = dict[str, object]
OWN_TURN = 0
"""The number of a turn that never is: its directory holds what no turn of the fork stored."""

_LOST: Record = {"kind": "lost"}
_Placed = tuple[Order, int, list[Record]]  # records, their place, and which of those with the same place come first


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that come along: ``source`` in the parent's sidecar becomes the file ``target`` in the fork's.

    Where ``source`` names no size it is the whole file, and a link does.
    """

    source: Payload
    target: str


@dataclass(frozen=True, slots=True)
class Carried:
    """What comes along: records for the fork's log, in order, and the bytes they speak of."""

    records: tuple[Record, ...]
    moved: tuple[Moved, ...]


def carried(
    timeline: Timeline,
    end: Order | None,
    *,
    rebased: Callable[[str], str],
    size_of: Callable[[str], int],
    moved: Callable[[MarkRecord], tuple[int, str]],
) -> Carried:
    """Choose what a fork carries.

    Args:
        timeline: The parent's.
        end: The place where the fork ends; None: all of it comes along.
        rebased: Turns a path of the parent into one of the fork.
        size_of: Says how many bytes a file of the parent's sidecar has; 0 where it is gone.
        moved: Says where a mark lies in the fork's transcript: ``offset`` and ``seam``.
    """
    turns = {number: turn for number, turn in timeline.turns.items() if _in_front(turn.order, end)}
    touches = [touch for touch in timeline.touches if _in_front(touch.order, end)]
    names = _Names(turns, touches, size_of)
    placed = [
        *((turn.order, 0, [_turn(turn)]) for turn in turns.values()),
        *((touch.order, 0, list(_touch(touch, rebased(touch.path), names))) for touch in touches),
        *(((seq, 0, 0, 0), 0, [_gap(gap, turn, rebased)]) for seq, turn, gap in timeline.gaps if turn in turns),
        *((mark.order, 0, [_mark(mark, moved)]) for mark in timeline.marks if mark.turn in turns),
        *(((seq, 0, 0, 0), 0, [_LOST]) for seq in timeline.missing),
        *_net_effects(timeline, turns, touches, rebased),
    ]
    placed.sort(key=lambda each: each[:2])
    records = (record for order, _, several in placed if _in_front(order, end) for record in several)
    pruned = sorted(timeline.pruned_turns & turns.keys())
    pruned += [OWN_TURN] if timeline.pruned_records else []  # what those had guarded would lie there
    gone: list[Record] = [{"kind": "prune", "turns": pruned, "rewinds": []}] if pruned else []
    return Carried((*records, *gone), tuple(names.moved))


def rebase(path: str, old: Iterable[str], new: str | None) -> str:
    """Return a path below one of the directories ``old`` as one below ``new``; any other as it is."""
    for directory in old if new is not None else ():
        within = directory.rstrip("/")
        if f"{path}/".startswith(f"{within}/"):
            return (str(new).rstrip("/") + path[len(within) :]) or "/"
    return path


def _in_front(order: Order, end: Order | None) -> bool:
    return end is None or order < end


def _turn(turn: TurnRecord) -> Record:
    return {"kind": "turn", "turn": turn.turn, "message_id": turn.message_id, "run_id": turn.run_id}


def _gap(gap: Gap, turn: int, rebased: Callable[[str], str]) -> Record:
    paths = [rebased(path) for path in gap.paths]
    return {"kind": "gap", "turn": turn, "gap": gap.kind, "paths": paths} | ({"what": gap.what} if gap.what else {})


def _mark(mark: MarkRecord, moved: Callable[[MarkRecord], tuple[int, str]]) -> Record:
    offset, seam = moved(mark)
    place = {"offset": offset, "seam": seam, "last_message": mark.last_message}
    return {"kind": "mark", "turn": mark.turn, "name": mark.name, "at": mark.at, **place}


def _touch(touch: Touch, path: str, names: _Names) -> Iterator[Record]:
    before = names.of(touch.before, "before")
    after = names.of(touch.after, "after") if touch.after is not None else None
    if touch.turn is None:
        if after is not None:
            sides = {"before": before.to_record(), "after": after.to_record()}
            yield {"kind": "wrote", "path": path, "by": touch.by, **sides}
        return
    place: Record = {"turn": touch.turn, "edit": 0, "path": path}
    authors = {"authors": list(touch.authors)} if len(touch.authors) > 1 else {}
    yield {"kind": "before", **place, "by": touch.by, **authors, **before.to_record()}
    if after is not None:
        identity = list(touch.identity) if touch.identity is not None else None
        yield {"kind": "after", **place, **after.to_record(), "identity": identity, "overlap": touch.overlap}


def _net_effects(
    timeline: Timeline, turns: Iterable[int], touches: Iterable[Touch], rebased: Callable[[str], str]
) -> Iterator[_Placed]:
    """Yield the net effects of the turns that come along whole, each behind the turn's last touch."""
    last = {touch.turn: touch.order for touch in touches}
    whole = {touch.turn: touch.order for touch in timeline.touches}
    for turn in turns:
        summary = timeline.summaries.get(turn)
        if summary is not None and last.get(turn) == whole.get(turn):
            yield last.get(turn, timeline.turns[turn].order), 1, [_summary(turn, summary, rebased)]


def _summary(number: int, summary: TurnSummary, rebased: Callable[[str], str]) -> Record:
    files = [{"path": rebased(file.path), "status": file.status} for file in summary.files]
    counts = {"insertions": summary.insertions, "deletions": summary.deletions}
    return {"kind": "end", "turn": number, "files": files, **counts}


class _Names:
    """Says where the bytes of an image lie in the fork.

    A turn's snapshot keeps its name where the turn comes along. Any other bytes, such as a rewind guarded, lie in
    `OWN_TURN`, each content once: in a link to the whole file where most of it is needed, else on their own. Bytes of
    another agent stay where they are.
    """

    def __init__(self, turns: Container[int | None], touches: Iterable[Touch], size_of: Callable[[str], int]) -> None:
        self.moved: list[Moved] = []
        self._placed: dict[Payload, Payload] = {}
        self._by_content: dict[str, Payload] = {}
        self._linked: dict[str, str] = {}
        self._last_number = 0
        images = [image for touch in touches for image in (touch.before, touch.after) if image is not None]
        for image in images:
            turn = turn_in(image.payload.file) if image.payload is not None else None
            if image.payload is not None and (turn == OWN_TURN or turn in turns):
                self._link(image.payload.file, image.payload.file)
                self._learn(image, image.payload, image.payload)
                if turn == OWN_TURN:
                    self._last_number = max(self._last_number, _number_of(image.payload))
        self._whole = self._mostly_needed(images, size_of)

    def of(self, image: Image, side: str) -> Image:
        """Return the image as the fork knows it; ``side`` is ``before`` or ``after``."""
        if image.payload is None or not _moves(image):
            return image
        if (placed := self._known(image)) is None:
            placed = self._bring(image, image.payload, side)
        return replace(image, payload=placed)

    def _known(self, image: Image) -> Payload | None:
        placed = self._placed.get(image.payload) if image.payload is not None else None
        return placed or (self._by_content.get(image.state.sha256) if isinstance(image.state, Content) else None)

    def _mostly_needed(self, images: Iterable[Image], size_of: Callable[[str], int]) -> set[str]:
        needed: dict[str, set[Payload]] = {}
        for image in images:
            if image.payload is not None and _moves(image) and self._known(image) is None:
                needed.setdefault(image.payload.file, set()).add(image.payload)
        return {file for file, parts in needed.items() if 2 * sum(each.size or 0 for each in parts) >= size_of(file)}

    def _bring(self, image: Image, payload: Payload, side: str) -> Payload:
        if payload.file in self._whole:
            target = replace(payload, file=self._link(payload.file, self._linked.get(payload.file) or self._new(side)))
        else:
            target = Payload(self._new(side), 0, payload.size)
            self.moved.append(Moved(payload, target.file))
        self._learn(image, payload, target)
        return target

    def _link(self, source: str, target: str) -> str:
        if source not in self._linked:
            self._linked[source] = target
            self.moved.append(Moved(Payload(source), target))
        return target

    def _learn(self, image: Image, source: Payload, target: Payload) -> None:
        self._placed[source] = target
        if isinstance(image.state, Content):
            self._by_content.setdefault(image.state.sha256, target)

    def _new(self, side: str) -> str:
        self._last_number += 1
        return f"turns/{OWN_TURN}/files/{self._last_number:04d}.{side}"


def _moves(image: Image) -> bool:
    """Tell whether an image's bytes lie in the parent's sidecar."""
    return isinstance(image.state, Content) and image.payload is not None and not image.payload.file.startswith("/")


def _number_of(payload: Payload) -> int:
    return snapshot_number(payload.file.rpartition("/")[2]) or 0
