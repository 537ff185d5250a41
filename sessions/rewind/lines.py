"""Which lines two texts share: one matching, to count by and to show, so that both always agree. Pure.

The lines both begin and end with match. In between a shortest script of edits is looked for (Myers), within a bound;
beyond it the text is split at the lines that each side has once (patience), and each piece is matched for itself;
where there is no such line, the script is kept as far as it came, and what is left is a piece again. When all that has
cost a fixed multiple of the number of lines, the rest counts as replaced. So the result is always right, it is the
shortest where few lines changed, and no text makes it take long.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

_PROBE_BYTES = 8000
_MOST_EDITS = 400
_STEPS = 2_000_000  # what matching may cost: so many looks at a line, whatever the texts are
_STEPS_A_LINE = 16  # and so many more for each line


class Match(NamedTuple):
    """``size`` lines that are equal, from index ``old`` of one text and from index ``new`` of the other."""

    old: int
    new: int
    size: int


_Run = tuple[int, int, int]
"""What a ``Match`` says, while there may be one for each line."""


class _Piece(NamedTuple):
    """A part of both texts, as ranges of line indexes; nothing outside matches into it."""

    old: int
    old_end: int
    new: int
    new_end: int

    @property
    def size(self) -> int:
        return self.old_end - self.old + self.new_end - self.new


def is_binary(content: bytes) -> bool:
    """Tell whether a content is not text: a NUL among its first 8,000 bytes."""
    return b"\0" in content[:_PROBE_BYTES]


def split_lines(content: bytes) -> list[bytes]:
    r"""Split behind each ``\n`` and nowhere else; joined, the lines are ``content``."""
    *ended, unended = content.split(b"\n")
    lines = [line + b"\n" for line in ended]
    return [*lines, unended] if unended else lines


@dataclass(slots=True)
class Allowance:
    """What all who share it may still spend on matching: ``steps``, looks at a line; 0 once it did not suffice."""

    steps: int


def count_changes(before: bytes, after: bytes, *, allowance: Allowance | None = None) -> tuple[int, int] | None:
    """Count the lines a change inserts and deletes.

    Returns:
        ``(insertions, deletions)``, the same whatever is allowed; None for binary content, and where the allowance does
        not suffice.
    """
    if is_binary(before) or is_binary(after):
        return None
    if allowance is not None and not _afford_lines(allowance, before, after):
        return None
    old, new = split_lines(before), split_lines(after)
    found = _matcher(old, new).run(allowance)
    if found is None:
        return None
    kept = sum(match.size for match in found)
    return len(new) - kept, len(old) - kept


def _afford_lines(allowance: Allowance, *texts: bytes) -> bool:
    """Take what splitting the texts and comparing their lines once costs."""
    allowance.steps = max(allowance.steps - sum(text.count(b"\n") + 1 for text in texts), 0)
    return allowance.steps > 0


def matches(old: Sequence[bytes], new: Sequence[bytes]) -> list[Match]:
    """Return which lines of two texts stay, in the order of both; every other line is deleted, or inserted.

    Matches do not touch: between one and the next, lines were deleted or inserted.
    """
    found = _matcher(old, new).run()
    assert found is not None
    return found


def _matcher(old: Sequence[bytes], new: Sequence[bytes]) -> _Matcher:
    numbers = {line: number for number, line in enumerate(dict.fromkeys(chain(old, new)))}
    return _Matcher(*(list(map(numbers.__getitem__, side)) for side in (old, new)))


class _Matcher:
    """Matches two texts whose lines are numbers: equal lines have the same."""

    def __init__(self, old: list[int], new: list[int]) -> None:
        self._old = old
        self._new = new
        self._left = _STEPS + _STEPS_A_LINE * (len(old) + len(new))
        self._floor = 0

    def run(self, allowance: Allowance | None = None) -> list[Match] | None:
        """Return the matches; None where they cost more than is allowed."""
        begun = self._left
        self._floor = max(begun - allowance.steps, 0) if allowance is not None else 0
        found = self._run()
        if allowance is not None:
            allowance.steps = max(allowance.steps - (begun - self._left), 0)
        return found if self._left >= self._floor or not self._floor else None

    def _run(self) -> list[Match]:
        found: list[_Run] = []
        todo = [_Piece(0, len(self._old), 0, len(self._new))]
        while todo:
            piece = self._trim(todo.pop(), found)
            self._left -= piece.size
            if piece.old == piece.old_end or piece.new == piece.new_end or self._left < self._floor:
                continue
            pairs, rest = self._shortest(piece)
            if rest is not None and (anchors := self._anchors(piece)):
                pairs = anchors
                todo.extend(_around(anchors, piece))
            elif rest is not None:
                todo.append(rest)
            found.extend((old, new, 1) for old, new in pairs)
        return list(_joined(sorted(found)))

    def _trim(self, piece: _Piece, found: list[_Run]) -> _Piece:
        """Match what both sides of a piece begin and end with; return what is in between."""
        old, new = self._old, self._new
        start, end, new_start, new_end = piece
        while start < end and new_start < new_end and old[start] == new[new_start]:
            start, new_start = start + 1, new_start + 1
        while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
            end, new_end = end - 1, new_end - 1
        both = (piece.old, piece.new, start - piece.old), (end, new_end, piece.old_end - end)
        found.extend(run for run in both if run[2])
        return _Piece(start, end, new_start, new_end)

    def _shortest(self, piece: _Piece) -> tuple[list[tuple[int, int]], _Piece | None]:
        """Return which lines of a piece stay if as few as possible change, and what of it was left out as too much."""
        olds, news = self._old[piece.old : piece.old_end], self._new[piece.new : piece.new_end]
        in_both = {*olds} & {*news}
        old_places = [place for place, line in enumerate(olds, piece.old) if line in in_both]
        new_places = [place for place, line in enumerate(news, piece.new) if line in in_both]
        old, new = [self._old[place] for place in old_places], [self._new[place] for place in new_places]
        pairs, x, y = self._edits(old, new)
        found = [(old_places[left], new_places[right]) for left, right in pairs]
        if x == len(old) and y == len(new):
            return found, None
        start = old_places[x - 1] + 1 if x else piece.old
        return found, _Piece(start, piece.old_end, new_places[y - 1] + 1 if y else piece.new, piece.new_end)

    def _edits(self, old: list[int], new: list[int]) -> tuple[list[tuple[int, int]], int, int]:
        """Return the pairs a shortest script of edits leaves (Myers' greedy algorithm), and how far it came."""
        furthest = {1: 0}
        rounds: list[dict[int, int]] = []
        least = max(self._left // 2, self._floor)
        for edits in range(min(len(old) + len(new), _MOST_EDITS) + 1):
            rounds.append(furthest.copy())
            for diagonal in range(-edits, edits + 1, 2):
                came_from = _came_from(furthest, diagonal, edits)
                x = begun = furthest[came_from] + (came_from < diagonal)
                y = x - diagonal
                while x < len(old) and y < len(new) and old[x] == new[y]:
                    x, y = x + 1, y + 1
                furthest[diagonal] = x
                self._left -= x - begun + 1
                if x >= len(old) and y >= len(new):
                    return _walk_back(rounds, len(old), len(new)), len(old), len(new)
            if self._left < least:
                break
        last = range(1 - len(rounds), len(rounds), 2)
        inside = [(furthest[each], furthest[each] - each) for each in last]
        x, y = max((each for each in inside if each[0] <= len(old) and each[1] <= len(new)), key=sum)
        return _walk_back(rounds, x, y), x, y

    def _anchors(self, piece: _Piece) -> list[tuple[int, int]]:
        """Return pairs of lines each side of a piece has once, as many as are in the same order on both sides."""
        olds, news = self._old[piece.old : piece.old_end], self._new[piece.new : piece.new_end]
        old_counts, new_counts = Counter(olds), Counter(news)
        places = {line: place for place, line in enumerate(news, piece.new) if new_counts[line] == 1}
        pairs = [
            (place, places[line])
            for place, line in enumerate(olds, piece.old)
            if line in places and old_counts[line] == 1
        ]
        return _longest_rising(pairs)


def _came_from(furthest: dict[int, int], diagonal: int, edits: int) -> int:
    """Return the neighbouring diagonal from which the ``edits``-th edit reaches furthest."""
    if diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1]):
        return diagonal + 1
    return diagonal - 1


def _walk_back(rounds: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Follow the edits back from the end of both texts; ``rounds`` are the furthest points in front of each edit."""
    pairs: list[tuple[int, int]] = []
    for edits in reversed(range(len(rounds))):
        diagonal = x - y
        came_from = _came_from(rounds[edits], diagonal, edits)
        from_x = rounds[edits][came_from]
        while x > from_x + (came_from < diagonal):
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = from_x, from_x - came_from
    return pairs[::-1]


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest part of ``pairs``, which rise on the left, that rises on the right too."""
    ends: list[int] = []  # the least right side a rising part of each length can end with
    last: list[int] = []  # and the pair it ends with
    before: list[int] = []
    for place, (_, new) in enumerate(pairs):
        length = bisect_left(ends, new)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [new]
        last[length : length + 1] = [place]
    rising: list[tuple[int, int]] = []
    place = last[-1] if last else -1
    while place >= 0:
        rising.append(pairs[place])
        place = before[place]
    return rising[::-1]


def _around(anchors: Sequence[tuple[int, int]], piece: _Piece) -> Iterator[_Piece]:
    """Yield what is left of a piece between its anchors; nothing where there is none."""
    if anchors:
        ends = chain([(piece.old - 1, piece.new - 1)], anchors, [(piece.old_end, piece.new_end)])
        for (old, new), (old_end, new_end) in pairwise(ends):
            if old + 1 < old_end and new + 1 < new_end:
                yield _Piece(old + 1, old_end, new + 1, new_end)


def _joined(found: Iterable[_Run]) -> Iterator[Match]:
    """Yield runs of lines, in order, with those that touch made one."""
    start = new_start = end = new_end = 0
    for old, new, size in found:
        if old != end or new != new_end:
            if end > start:
                yield Match(start, new_start, end - start)
            start, new_start = old, new
        end, new_end = old + size, new + size
    if end > start:
        yield Match(start, new_start, end - start)
