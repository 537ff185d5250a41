"""A fork's sidecar: the timeline it carries, and the bytes, linked to its parent's or copied where that cannot be.

The parent is only read, without a lock. Bytes it lost are lost in the fork too; that is no error.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from sessions import files
from sessions.rewind.carried import OWN_TURN, Carried, Moved
from sessions.rewind.log import CaptureLog
from sessions.rewind.numbers import turn_in
from sessions.rewind.payloads import Payloads

_CANNOT_LINK = frozenset({errno.EMLINK, errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.ENOSYS})


def carry(came: Carried, *, parent: Path, fork: Path, root: Path) -> None:
    """Put what comes along into a fork's sidecar; durable on return.

    Args:
        parent: The parent's sidecar.
        fork: The fork's, which exists and holds no timeline yet.
        root: The store's root.

    Raises:
        OSError: Not all could be written; a part lies there.
    """
    turns = sorted({turn for each in came.moved if (turn := turn_in(each.target)) is not None})
    turns = [turn for turn in turns if turn == OWN_TURN or (parent / f"turn-{turn}.json").exists()]  # else pruned
    for turn in turns:
        _open_turn(turn, parent, fork, root)
    for each in came.moved:
        _bring(each, parent, fork)
    _sync(fork, turns)
    if came.records:
        log = CaptureLog(fork)
        with log.locked():
            log.append(came.records)


def size_in(sidecar: Path, file: str) -> int:
    """Return how many bytes a file of a sidecar has; 0 where it is gone."""
    try:
        return os.stat(sidecar / file).st_size
    except OSError:
        return 0


def _open_turn(turn: int, parent: Path, fork: Path, root: Path) -> None:
    if turn == OWN_TURN:
        Payloads(fork, root=root).open_turn(turn, {})
        return
    os.makedirs(fork / "turns" / str(turn) / "files", 0o700, exist_ok=True)
    for name in (f"turn-{turn}.json", f"turns/{turn}/meta.json"):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            _link(parent / name, fork / name)


def _bring(moved: Moved, parent: Path, fork: Path) -> None:
    source, target = parent / moved.source.file, fork / moved.target
    with contextlib.suppress(FileNotFoundError, FileExistsError):
        if moved.source.size is None:
            _link(source, target)
        else:
            _copy(source, target, moved.source.offset, moved.source.size)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        _copy(source, target, 0, None)


def _copy(source: Path, target: Path, offset: int, size: int | None) -> None:
    """Copy a range of a file, as much of it as is there; durable on return."""
    with open(source, "rb") as given:
        there = max(os.fstat(given.fileno()).st_size - offset, 0)
        taken = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            files.copy_range(given.fileno(), taken, offset, there if size is None else min(size, there))
            os.fsync(taken)
        finally:
            os.close(taken)


def _sync(fork: Path, turns: Sequence[int]) -> None:
    """Make the names durable, after all are there: the first sync does most of the work of the others."""
    for turn in turns:
        files.sync_directory(fork / "turns" / str(turn) / "files")
        files.sync_directory(fork / "turns" / str(turn))
    if turns:
        files.sync_directory(fork / "turns")
    files.sync_directory(fork)
