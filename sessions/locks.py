"""Kernel locks on files that are never replaced.

The lock is ``flock`` on its own small file, never on the data: a rename would swap the inode under the lock, and
``fcntl.lockf`` neither excludes a second descriptor of the same process nor survives the closing of any other
descriptor of that file. What stands *in* the file (pid, start, boot, host, command) is for the message only, never for
the decision.

A lock file is unlinked only by its holder, under the lock; whoever locks re-checks that the path still names the locked
inode and starts again if not. The descriptor is closed on exec and in forked children, so that no child keeps a lock
alive.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import socket
import sys
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.02


class HeldError(Exception):
    """Somebody else holds the lock; ``pid`` and ``command`` are what the holder wrote, None where unreadable."""

    def __init__(self, pid: int | None, command: str | None) -> None:
        super().__init__(pid, command)
        self.pid = pid
        self.command = command


class FileLock:
    """An exclusive lock named by a path. Not reentrant.

    Attributes:
        path: The lock file; made (0600) when first taken, its directory must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    @property
    def current(self) -> bool:
        """Whether this object holds the lock and the path still names its file."""
        return self._fd is not None and _names_inode(self.path, self._fd)

    def acquire(self, *, wait_s: float = 0) -> None:
        """Take the lock.

        Args:
            wait_s: How long to wait until it is free.

        Raises:
            HeldError: Somebody else holds it, and went on holding it.
            OSError: The file cannot be made or the file system knows no locks.
        """
        deadline = time.monotonic() + wait_s
        pause_s = _FIRST_PAUSE_S
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                current = _names_inode(self.path, fd)
            except BlockingIOError:
                gives_up = time.monotonic() >= deadline
                holder = _read_holder(fd) if gives_up else (None, None)
                os.close(fd)
                if gives_up:
                    raise HeldError(*holder) from None
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            except BaseException:
                os.close(fd)
                raise
            if current:
                self._fd = fd
                _held.add(self)
                return
            os.close(fd)

    def sign(self) -> None:
        """Write who holds the lock into the file, for the message others get."""
        if self._fd is not None:
            text = json.dumps({"pid": os.getpid(), "command": _command(), "host": socket.gethostname()}).encode()
            with contextlib.suppress(OSError):  # a full disk is no reason to keep anybody out
                os.pwrite(self._fd, text, 0)
                os.ftruncate(self._fd, len(text))

    def release(self, *, unlink: bool = False) -> None:
        """Give the lock back; with ``unlink`` remove its file first. Without the lock: nothing happens."""
        fd, self._fd = self._fd, None
        _held.discard(self)
        if fd is None:
            return
        if unlink:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        with contextlib.suppress(OSError):  # closing is not enough while a child just forked still has the descriptor
            fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)

    def abandon(self) -> None:
        """Close the descriptor without touching the file: for a forked child, whose parent keeps the lock."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> Self:
        self.acquire(wait_s=math.inf)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _abandon_all() -> None:
    for lock in list(_held):
        lock.abandon()
    _held.clear()


os.register_at_fork(after_in_child=_abandon_all)


def _names_inode(path: Path, fd: int) -> bool:
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    held = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


def _read_holder(fd: int) -> tuple[int | None, str | None]:
    try:
        said = json.loads(os.pread(fd, 4096, 0))
    except (OSError, ValueError):
        said = None
    if not isinstance(said, dict):
        return _pid_of_holder(fd), None
    pid, command = said.get("pid"), said.get("command")
    return (pid if isinstance(pid, int) else _pid_of_holder(fd)), (command if isinstance(command, str) else None)


def is_held(path: Path) -> bool:
    """Tell whether somebody, here or elsewhere, holds a lock. Makes nothing, and takes it for no longer than asking."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if _pid_of_holder(fd) is not None:
            return True
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # on some file systems the table says nothing of the file
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _pid_of_holder(fd: int) -> int | None:
    """Return who holds a lock nobody signed, where the system says it (Linux)."""
    status = os.fstat(fd)
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            fields = next((line.split() for line in locks if f" {inode} " in line and "FLOCK" in line), None)
        return int(fields[4]) if fields is not None else None
    except (OSError, ValueError, IndexError):
        return None


def _command() -> str:
    return " ".join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]])[:200]
