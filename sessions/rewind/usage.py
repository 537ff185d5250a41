"""What snapshots and undo records take on disk. Looks, changes nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Hashable
from pathlib import Path
from typing import TypeVar

from sessions.rewind.numbers import turn_number
from sessions.rewind.retention import Directory, Inode, Stored, Tally

Name = TypeVar("Name", bound=Hashable)

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system


class Usage:
    """What each directory of a sidecar takes.

    Args:
        sidecar: The session's ``.ckpt`` directory.

    Attributes:
        turns: By number; every directory below ``turns`` that is named like a turn.
        records: By name; every directory below ``undo``.
    """

    def __init__(self, sidecar: Path) -> None:
        self._turns = sidecar / "turns"
        self._undo = sidecar / "undo"
        self._tally = Tally()
        self.turns: dict[int, Directory] = {}
        self.records: dict[str, Directory] = {}

    @property
    def total_bytes(self) -> int:
        """What all of it takes; bytes with several names count once."""
        return self._tally.total_bytes

    def update(self) -> None:
        """Learn what came and went. Walks what is new and the newest turn; the rest was written once and for all."""
        named = ((turn_number(name), self._turns / name) for name in _directories_in(self._turns))
        turns = {turn: path for turn, path in named if turn is not None}
        if turns:
            self._forget(self.turns, max(turns))
        self._follow(self.turns, turns)
        self._follow(self.records, {name: self._undo / name for name in _directories_in(self._undo)})

    def _follow(self, known: dict[Name, Directory], there: dict[Name, Path]) -> None:
        for name in known.keys() - there.keys():
            self._forget(known, name)
        for name, path in there.items():
            if name not in known:
                known[name] = measured(path)
                self._tally.add(known[name])

    def _forget(self, known: dict[Name, Directory], name: Name) -> None:
        if (directory := known.pop(name, None)) is not None:
            self._tally.remove(directory)


def measured(directory: Path) -> Directory:
    """Return what the files below a directory take; links are not followed, and what cannot be seen takes nothing."""
    found: dict[Inode, Stored] = {}
    waiting = [os.fspath(directory)]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
                continue
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                inode = status.st_dev, status.st_ino
                here = found[inode].names_here if inode in found else 0
                found[inode] = Stored(status.st_blocks * _BLOCK_BYTES, here + 1, status.st_nlink)
    return found


def _directories_in(directory: Path) -> list[str]:
    """Return the names of the directories in one; a link is none, and nothing is in it: what it names is not ours."""
    if directory.is_symlink():
        return []
    return [entry.name for entry in _entries(os.fspath(directory)) if entry.is_dir(follow_symlinks=False)]


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory; none where there is no directory."""
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
