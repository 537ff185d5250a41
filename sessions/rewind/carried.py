"""What a fork carries of its parent's timeline, and under which names the bytes lie there. Pure.

All that is live in front of the fork's end comes along in its order: turns under their numbers, touches with what they
left, gaps, net effects, and where records are missing. The undo stack does not: what rewinds of the code alone wrote
becomes plain writes. Paths below the parent's directory become paths below the fork's.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace

from sessions.rewind.plan import Gap
from sessions.rewind.states import Content, Image, Payload
from sessions.rewind.timeline import Order, Timeline, Touch, TurnRecord, TurnSummary

Record = dict[str, object]
OWN_TURN = 0
"""The number of a turn that never is: its directory holds what no turn of the fork stored."""

_LOST: Record = {"kind": "lost"}
_Placed = tuple[Order, int, list[Record]]  # records, their place, and which of those with the same place come first


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that come along: ``source`` of the parent's sidecar is to lie whole in ``target`` of the fork's."""

    source: Payload
    target: Payload
    whole: bool


@dataclass(frozen=True, slots=True)
class Carried:
    """What comes along: records for the fork's log, in order, and the bytes they speak of."""

    records: tuple[Record, ...]
    moved: tuple[Moved, ...]


def carried(timeline: Timeline, end: Order | None, *, rebased: Callable[[str], str]) -> Carried:
    """Choose what a fork carries.

    Args:
        timeline: The parent's.
        end: The place where the fork ends; None: all of it comes along.
        rebased: Turns a path of the parent into one of the fork.
    """
    turns = {number: turn for number, turn in timeline.turns.items() if _in_front(turn.order, end)}
    touches = [touch for touch in timeline.touches if _in_front(touch.order, end)]
    names = _Names(turns, touches)
    placed = [
        *((turn.order, 0, [_turn(turn)]) for turn in turns.values()),
        *((touch.order, 0, list(_touch(touch, rebased(touch.path), names))) for touch in touches),
        *(((seq, 0, 0, 0), 0, [_gap(gap, turn, rebased)]) for seq, turn, gap in timeline.gaps if turn in turns),
        *(((seq, 0, 0, 0), 0, [_LOST]) for seq in timeline.missing),
        *_net_effects(timeline, turns, touches, rebased),
    ]
    placed.sort(key=lambda each: each[:2])
    records = (record for order, _, several in placed if _in_front(order, end) for record in several)
    return Carried(tuple(records), tuple(names.moved))


def rebase(path: str, old: str | None, new: str | None) -> str:
    """Return a path below ``old`` as one below ``new``; any other as it is."""
    if old is None or new is None or not f"{path}/".startswith(f"{old.rstrip('/')}/"):
        return path
    return (new.rstrip("/") + path[len(old.rstrip("/")) :]) or "/"


def _in_front(order: Order, end: Order | None) -> bool:
    return end is None or order < end


def _turn(turn: TurnRecord) -> Record:
    return {"kind": "turn", "turn": turn.turn, "message_id": turn.message_id, "run_id": turn.run_id}


def _gap(gap: Gap, turn: int, rebased: Callable[[str], str]) -> Record:
    return {"kind": "gap", "turn": turn, "gap": gap.kind, "paths": [rebased(path) for path in gap.paths]}


def _touch(touch: Touch, path: str, names: _Names) -> Iterator[Record]:
    before = names.of(touch.before, "before")
    after = names.of(touch.after, "after") if touch.after is not None else None
    if touch.turn is None:
        if after is not None:
            sides = {"before": before.to_record(), "after": after.to_record()}
            yield {"kind": "wrote", "path": path, "by": touch.by, **sides}
        return
    place: Record = {"turn": touch.turn, "edit": 0, "path": path}
    yield {"kind": "before", **place, "by": touch.by, **before.to_record()}
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

    A turn's snapshot keeps its name where the turn comes along. Any other, and what a rewind had guarded, gets a new
    one in `OWN_TURN`, once for each content. Bytes of another agent stay where they are.
    """

    def __init__(self, turns: Container[int], touches: Iterable[Touch]) -> None:
        self.moved: list[Moved] = []
        self._placed: dict[Payload, Payload] = {}
        self._by_content: dict[str, Payload] = {}
        self._last_number = 0
        images = [image for touch in touches for image in (touch.before, touch.after) if image is not None]
        for image in images:
            turn = _turn_of(image.payload) if image.payload is not None else None
            if image.payload is not None and turn is not None and (turn == OWN_TURN or turn in turns):
                self._place(image, image.payload, image.payload, whole=True)
                if turn == OWN_TURN:
                    self._last_number = max(self._last_number, _number_of(image.payload))

    def of(self, image: Image, side: str) -> Image:
        """Return the image as the fork knows it; ``side`` is ``before`` or ``after``."""
        payload, state = image.payload, image.state
        if payload is None or payload.file.startswith("/") or not isinstance(state, Content):
            return image
        placed = self._placed.get(payload) or self._by_content.get(state.sha256)
        if placed is None:
            self._last_number += 1
            target = Payload(f"turns/{OWN_TURN}/files/{self._last_number:04d}.{side}", 0, state.size)
            placed = self._place(image, payload, target, whole=_turn_of(payload) is not None)
        return replace(image, payload=placed)

    def _place(self, image: Image, source: Payload, target: Payload, *, whole: bool) -> Payload:
        if source not in self._placed:
            self._placed[source] = target
            self.moved.append(Moved(source, target, whole))
            if isinstance(image.state, Content):
                self._by_content.setdefault(image.state.sha256, target)
        return target


def _turn_of(payload: Payload) -> int | None:
    """Return the turn whose snapshot a payload is; None for any other bytes."""
    match payload.file.split("/"):
        case ["turns", turn, "files", _] if _is_number(turn) and not payload.offset:
            return int(turn)
        case _:
            return None


def _number_of(payload: Payload) -> int:
    number = payload.file.rpartition("/")[2].split(".")[0]
    return int(number) if _is_number(number) else 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
