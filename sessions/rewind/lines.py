"""How many lines a change adds and removes. Pure, exact, and bounded: what would take too long is unknown."""

from __future__ import annotations

from collections import Counter

_PROBE_BYTES = 8000
_MOST_EDITS = 300
_MOST_STEPS = 2_000_000  # edits times lines: what the algorithm may have to do


def is_binary(content: bytes) -> bool:
    """Tell whether a content is not text: a NUL among its first 8,000 bytes."""
    return b"\0" in content[:_PROBE_BYTES]


def count_changes(before: bytes, after: bytes) -> tuple[int, int] | None:
    """Count the lines a change inserts and deletes, as few as possible.

    Returns:
        ``(insertions, deletions)``; None for binary content, or where too many lines (300; in large files fewer) were
        moved about.
    """
    if is_binary(before) or is_binary(after):
        return None
    old, new = _trim(_lines(before), _lines(after))
    common_old, common_new = _shared(old, new), _shared(new, old)
    edits = _distance(common_old, common_new)
    if edits is None:
        return None
    kept = (len(common_old) + len(common_new) - edits) // 2
    return len(new) - kept, len(old) - kept


def _lines(content: bytes) -> list[bytes]:
    """Split at newlines; a last line without one is another line than the same with one."""
    *lines, unended = content.split(b"\n")
    return [*lines, unended + b"\n"] if unended else lines


def _trim(old: list[bytes], new: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Drop the lines both begin and end with."""
    head = 0
    shorter = min(len(old), len(new))
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return old[head : len(old) - tail], new[head : len(new) - tail]


def _shared(lines: list[bytes], other: list[bytes]) -> list[bytes]:
    there = Counter(other)
    return [line for line in lines if line in there]


def _distance(old: list[bytes], new: list[bytes]) -> int | None:
    """Return the least number of insertions and deletions (Myers' greedy algorithm); None beyond the bound."""
    lines = len(old) + len(new)
    furthest = {1: 0}
    for edits in range(min(lines, _MOST_EDITS, _MOST_STEPS // (lines + 1)) + 1):
        for diagonal in range(-edits, edits + 1, 2):
            if diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1]):
                x = furthest[diagonal + 1]
            else:
                x = furthest[diagonal - 1] + 1
            y = x - diagonal
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            if x >= len(old) and y >= len(new):
                return edits
    return None
