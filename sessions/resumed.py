"""Notes that somebody goes on with a session, for the time until its host has it open: no retention takes it meanwhile.

A note is an empty file, ``<root>/cache/resumed/<checksum of the transcript's place>``: nothing of the session itself
changes by looking at it. It counts for a day.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path

from sessions import clock

_COUNTS_NS = 24 * 3600 * 1_000_000_000


def note(root: Path, transcript: Path) -> None:
    """Note that somebody goes on with a session. Where that is not possible, nothing happens."""
    from sessions import files  # noqa: PLC0415 - who looks for a note writes none

    place = _note_of(root, transcript)
    with contextlib.suppress(OSError):
        files.make_directory(place.parent)
        place.touch(mode=0o600)


def is_noted(root: Path, transcript: Path) -> bool:
    """Tell whether somebody went on with a session within a day."""
    try:
        return _is_young(_note_of(root, transcript))
    except OSError:
        return False


def sweep(root: Path) -> None:
    """Remove the notes that count no more."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(root / "cache" / "resumed")):
            if not _is_young(Path(entry.path)):
                os.unlink(entry.path)


def _note_of(root: Path, transcript: Path) -> Path:
    place = os.path.relpath(os.path.realpath(transcript), os.path.realpath(root))
    return root / "cache" / "resumed" / f"{zlib.crc32(os.fsencode(place)):08x}"


def _is_young(note: Path) -> bool:
    return clock.epoch_ns() - note.lstat().st_mtime_ns < _COUNTS_NS
