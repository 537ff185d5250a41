"""Whether a file is one that a crash stopped while it was written in place, from one content to another. Pure.

Writing in place goes from the first byte to the last and cuts the file to its new length at the end, so a crash leaves
the beginning of the new content and the rest of the old one, in whole blocks but for the one it stopped in. Putting
back may stop as well, and what a power loss kept of it is up to the disk, block by block. Anything else was edited
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from sessions.rewind.states import Content

BLOCK_BYTES = 512
_RUNS = 3
"""Pieces a block may consist of: writing stopped in it, and putting back did once more."""
_OWNER_WRITES = 0o200
_CLEARED = 0o6000


def could_be_half_written(found: Content, one: Content, other: Content) -> bool:
    """Tell, from size and mode alone, whether a file can be half-way between two contents.

    While it is written its owner may write to it, and the system clears the set-id bits of a file that is written to.
    """
    sizes = sorted((one.size, other.size))
    return sizes[0] <= found.size <= sizes[1] and _while_written(found.mode) in {
        _while_written(one.mode),
        _while_written(other.mode),
    }


def is_mixture(found: Iterable[bytes], one: Iterable[bytes], other: Iterable[bytes]) -> bool:
    """Tell whether every block of a file is that of one of two contents at its place, or was being written.

    Args:
        found: The file, in chunks. All three are cut at the same places, multiples of a block, but for their last
            chunk; behind the end of the shorter content stand zeros, as in a file that was made longer.
    """
    for here, first, second in zip_longest(found, one, other, fillvalue=b""):
        if here not in {first, second} and not all(_blocks_match(here, first, second)):
            return False
    return True


def _blocks_match(here: bytes, first: bytes, second: bytes) -> Iterator[bool]:
    first, second = first.ljust(len(here), b"\0"), second.ljust(len(here), b"\0")
    for start in range(0, len(here), BLOCK_BYTES):
        block, *either = (each[start : min(start + BLOCK_BYTES, len(here))] for each in (here, first, second))
        yield block in either or _is_of_runs(block, *either)


def _is_of_runs(block: bytes, first: bytes, second: bytes) -> bool:
    """Tell whether a block is made of a few pieces, each from one of two others at the same place."""
    done = 0
    for _ in range(_RUNS):
        done += max(_shared(block[done:], first[done:]), _shared(block[done:], second[done:]))
        if done == len(block):
            return True
    return False


def _shared(one: bytes, other: bytes) -> int:
    """Return how many bytes two of equal length have in common at their beginning."""
    return next((place for place, (here, there) in enumerate(zip(one, other, strict=True)) if here != there), len(one))


def _while_written(mode: int) -> int:
    return (mode | _OWNER_WRITES) & ~_CLEARED
