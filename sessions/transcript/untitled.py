"""A note in the sidecar that a transcript has no title, so that no list searches the whole of it for one.

``untitled`` holds ``[size, inode, mtime_ns, ctime_ns]`` of the transcript as its writer left it. Whoever changes the
file makes the note say nothing; a missing or damaged one says nothing either. Not synced: at worst a list reads more.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sessions.transcript import codec

NAME = "untitled"


def note(sidecar: Path, status: os.stat_result) -> None:
    """Note that the transcript in this state has no title. Where that is not possible, nothing happens."""
    from sessions import files  # noqa: PLC0415 - who reads the note writes none

    with contextlib.suppress(OSError):
        if not is_noted(sidecar, status):
            files.rewrite(sidecar / NAME, lambda fd: files.write_all(fd, _saying(status)), durable=False)


def is_noted(sidecar: str | Path, status: os.stat_result) -> bool:
    """Tell whether the transcript in this state is noted to have no title."""
    try:
        descriptor = os.open(f"{sidecar}/{NAME}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.read(descriptor, 1024) == _saying(status)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _saying(status: os.stat_result) -> bytes:
    return codec.dumps([status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns])
