"""How a place in a transcript is known again: by the bytes in front of it, else by the message there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sessions.transcript import codec, lines, scanning
from sessions.transcript.entry import Kind

SEAM_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """A place between two lines.

    Attributes:
        offset: Where it was when it was noted, in bytes.
        seam: The seam in front of it.
        message: The id of the last message in front of it; empty where none has one.
    """

    offset: int
    seam: str
    message: str


def seam_of(transcript: BinaryIO, keep: int) -> str:
    """Return the SHA-256 of the last bytes in front of byte ``keep``; of nothing where the file ends before it."""
    start = max(keep - SEAM_BYTES, 0)
    transcript.seek(start)
    return hashlib.sha256(transcript.read(keep - start)).hexdigest()


def end_of(path: Path) -> Place:
    """Return where a transcript ends now. Reads from the end, as far as the last message."""
    with lines.opened(path) as (descriptor, size), open(descriptor, "rb", closefd=False) as transcript:
        entries = (codec.decode(raw) for _, raw in lines.backward(descriptor, size) if raw)
        message = next((entry.id for entry in entries if entry.kind is Kind.MESSAGE and entry.id), "")
        return Place(size, seam_of(transcript, size), message)


def find(path: Path, place: Place) -> int | None:
    """Return the byte where a place is now; None where it is lost.

    Where lines in front of it came or went, the place is behind the first line of its message. The whole file is read
    then.
    """
    with open(path, "rb") as transcript:
        if seam_of(transcript, place.offset) == place.seam:
            return place.offset
    for _, end, entry in scanning.every_line(path):
        if place.message and entry.kind is Kind.MESSAGE and entry.id == place.message:
            return end
    return None
