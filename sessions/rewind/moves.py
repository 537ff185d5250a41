"""Which deleted file a created one was: moves, whole and with changes. Pure.

Files of equal content are paired first, whatever their modes; then text files that share at least half their lines,
the most alike first. Looking for the latter compares every deleted file with every created one, so it is left out where
there are too many.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace

from sessions.rewind.changes import NetChange, Part
from sessions.rewind.lines import is_binary, split_lines
from sessions.rewind.states import Absent, Content, FileState, Image, Link

LEAST_SIMILARITY = 50
_MOST_PAIRS = 2_500
_MOST_BYTES = 8 << 20

_Pair = tuple[NetChange, NetChange, int]


def with_moves(changes: Sequence[NetChange], content_of: Callable[[Image], bytes | None]) -> list[NetChange]:
    """Return the changes, sorted by path, with a deletion and a creation that are one move made one.

    Args:
        changes: Sorted by path.
        content_of: Gives the bytes of an image, None where they are not to be had. Asked only where there are both
            deleted and created files left that are not equal, and few of them.
    """
    deleted = [change for change in changes if _is_whole(change) and _filled(change.before)]
    created = [change for change in changes if _is_whole(change) and _filled(change.after)]
    pairs = list(_equal(deleted, created))
    gone = {change.path for pair in pairs for change in pair[:2]}
    left = [[change for change in side if change.path not in gone] for side in (deleted, created)]
    pairs.extend(_alike(left[0], left[1], content_of))
    moved = [_moved(*pair) for pair in pairs]
    gone = {change.path for pair in pairs for change in pair[:2]}
    return sorted([*(change for change in changes if change.path not in gone), *moved], key=lambda each: each.path)


def _is_whole(change: NetChange) -> bool:
    return len(change.parts) == 1 and (isinstance(change.before, Absent) != isinstance(change.after, Absent))


def _filled(state: FileState | None) -> bool:
    return isinstance(state, Link) or (isinstance(state, Content) and state.size > 0)


def _moved(old: NetChange, new: NetChange, similarity: int) -> NetChange:
    unverified = old.unverified or new.unverified
    part = Part(old.parts[0].before, new.parts[0].after, new.parts[0].by, unverified)
    return replace(new, parts=(part,), moved_from=old.path, similarity=similarity)


def _equal(deleted: Iterable[NetChange], created: Iterable[NetChange]) -> Iterator[_Pair]:
    """Yield the pairs of equal content; of several the one that kept its name."""
    equal: defaultdict[tuple[str | None, ...], deque[NetChange]] = defaultdict(deque)
    for change in deleted:
        content = _content(change.before)
        equal[content, _name(change)].append(change)
        equal[content,].append(change)
    taken: set[str] = set()
    for new in created:
        content = _content(new.after)
        old = _first_left(equal[content, _name(new)], taken) or _first_left(equal[content,], taken)
        if old is not None:
            taken.add(old.path)
            yield old, new, 100


def _first_left(waiting: deque[NetChange], taken: Container[str]) -> NetChange | None:
    while waiting and waiting[0].path in taken:
        waiting.popleft()
    return waiting[0] if waiting else None


def _content(state: FileState | None) -> str | None:
    match state:
        case Content(sha256=sha256):
            return sha256
        case Link(target):
            return f"-> {target}"
        case _:
            return None


def _alike(
    deleted: Sequence[NetChange], created: Sequence[NetChange], content_of: Callable[[Image], bytes | None]
) -> Iterator[_Pair]:
    if not deleted or not created or len(deleted) * len(created) > _MOST_PAIRS:
        return
    images = [change.parts[0].before for change in deleted], [change.parts[0].after for change in created]
    if sum(_size(image) for side in images for image in side) > _MOST_BYTES:
        return
    olds, news = ([_lines(image, content_of) for image in side] for side in images)
    scored = [
        (_similarity(old, new), _name(deleted[place]) == _name(created[other]), -place, -other)
        for place, old in enumerate(olds)
        for other, new in enumerate(news)
    ]
    taken: set[tuple[str, int]] = set()
    for score, _, place, other in sorted(scored, reverse=True):
        if score >= LEAST_SIMILARITY and taken.isdisjoint({("old", place), ("new", other)}):
            taken |= {("old", place), ("new", other)}
            yield deleted[-place], created[-other], score


def _size(image: Image | None) -> int:
    return image.state.size if image is not None and isinstance(image.state, Content) else 0


def _lines(image: Image | None, content_of: Callable[[Image], bytes | None]) -> Counter[bytes]:
    if image is None or not isinstance(image.state, Content):
        return Counter()
    content = content_of(image)
    return Counter() if content is None or is_binary(content) else Counter(split_lines(content))


def _similarity(old: Counter[bytes], new: Counter[bytes]) -> int:
    """Return how many lines of the longer file the other has too, in percent; below 100, as they are not equal."""
    longer = max(old.total(), new.total())
    if not longer or 2 * min(old.total(), new.total()) < longer:
        return 0
    return min(100 * (old & new).total() // longer, 99)


def _name(change: NetChange) -> str:
    return change.path.rpartition("/")[2]
