"""Lines of a file on disk, from either end. A line ends with the newline byte and nothing else."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

FIRST_BLOCK = 64 * 1024
BLOCK = 1 << 20


@contextlib.contextmanager
def opened(source: Path | int) -> Iterator[tuple[int, int]]:
    """Open a file for reading; yield its descriptor and its size at that moment.

    Args:
        source: The file, or a descriptor of it, which stays open.
    """
    if isinstance(source, int):
        yield source, os.fstat(source).st_size
        return
    descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor, os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def read(descriptor: int, offset: int, size: int) -> bytes:
    """Return ``size`` bytes from ``offset``; fewer only where the file ends."""
    data = os.pread(descriptor, size, offset)
    if len(data) == size or not data:
        return data
    return data + read(descriptor, offset + len(data), size - len(data))


def backward(descriptor: int, end: int, *, block: int = FIRST_BLOCK) -> Iterator[tuple[int, bytes]]:
    """Yield the lines in front of ``end``, the last first, each with its offset and without its newline.

    The first one yielded is what follows the last newline: empty if a line ends at ``end``. Reads grow from ``block``
    to 1 MiB; memory is bounded by the longest line.
    """
    pieces: list[bytes] = []  # of the line whose start is not read yet, the last first
    while end > 0:
        start = max(0, end - block)
        parts = read(descriptor, start, end - start).split(b"\n")
        pieces.append(parts.pop())
        if parts:
            line = b"".join(reversed(pieces))
            at = start + sum(map(len, parts)) + len(parts)
            yield at, line
            while len(parts) > 1:
                line = parts.pop()
                at -= len(line) + 1
                yield at, line
            pieces = parts
        end, block = start, min(2 * block, BLOCK)
    yield 0, b"".join(reversed(pieces))


def forward(
    descriptor: int, end: int, *, block: int = FIRST_BLOCK, longest: int = sys.maxsize
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines in front of ``end``, each with its offset and without its newline.

    What follows the last newline is yielded only if it is not empty. Reads grow from ``block`` to 1 MiB; memory is
    bounded by the longest line, and by ``longest``: of a longer line only about so many bytes are yielded.
    """
    at = read_to = held = 0
    pieces: list[bytes] = []  # of the line whose end is not read yet
    while read_to < end:
        data = read(descriptor, read_to, min(block, end - read_to))
        if not data:
            break
        parts = data.split(b"\n")
        rest, behind = parts.pop(), read_to
        for line in parts:
            behind += len(line) + 1
            if pieces:
                line, pieces, held = b"".join((*pieces, line)), [], 0  # noqa: PLW2901 - the line, whole
            yield at, line
            at = behind
        if held < longest:
            pieces.append(rest)
            held += len(rest)
        read_to, block = read_to + len(data), min(2 * block, BLOCK)
    if rest := b"".join(pieces):
        yield at, rest


def runs(descriptor: int, end: int, *, block: int = BLOCK) -> Iterator[tuple[int, bytes]]:
    """Yield what lies in front of ``end`` as runs of whole lines, each with its offset, for a search in many at once.

    Every line is in one run, with its newline; only the last may have none. Memory is bounded by ``block`` and the
    longest line.
    """
    at = read_to = 0
    pieces: list[bytes] = []  # of the line whose end is not read yet
    while read_to < end and (data := read(descriptor, read_to, min(block, end - read_to))):
        read_to += len(data)
        if behind := data.rfind(b"\n") + 1:
            run = b"".join((*pieces, data[:behind]))
            yield at, run
            at, pieces = at + len(run), [data[behind:]]
        else:
            pieces.append(data)
    if rest := b"".join(pieces):
        yield at, rest


def unterminated(descriptor: int, size: int) -> tuple[int, bytes]:
    """Return what follows the last newline and where it starts; empty if every line is ended."""
    return next(backward(descriptor, size))


def find(descriptor: int, needle: bytes, start: int, end: int) -> int | None:
    """Return where ``needle`` first lies in ``[start, end)``; None where it does not."""
    while start < end:
        block = read(descriptor, start, min(BLOCK, end - start))
        if (place := block.find(needle)) >= 0:
            return start + place
        start += max(len(block) - len(needle) + 1, 1) if len(block) == BLOCK else BLOCK
    return None


def find_last(
    descriptor: int, end: int, needle: bytes, *, least: int = 0, block: int = FIRST_BLOCK
) -> tuple[int, bytes] | None:
    """Return the last line in front of ``end`` that holds ``needle``, with its offset and without its newline.

    The search gives up at byte ``least``.

    Far cheaper than splitting: lines without it are never copied.
    """
    overlap = len(needle) - 1
    stop = end
    while stop > least:
        start = max(0, stop - block)
        place = read(descriptor, start, min(stop + overlap, end) - start).rfind(needle)
        if place >= 0:
            return line_around(descriptor, start + place, end)
        stop, block = start, min(2 * block, BLOCK)
    return None


def line_around(descriptor: int, place: int, end: int) -> tuple[int, bytes]:
    """Return the line that byte ``place`` is in, with its offset and without its newline."""
    start, before = unterminated(descriptor, place)
    behind: list[bytes] = []
    while place < end:
        data = read(descriptor, place, min(FIRST_BLOCK, end - place))
        head, newline, _ = data.partition(b"\n")
        behind.append(head)
        if newline or not data:
            break
        place += len(data)
    return start, before + b"".join(behind)
