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
import io
import json
import os
import socket
import sys
import time
import weakref
from functools import partial
from pathlib import Path

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.02
_ASKING_S = 0.01
"""How long a lock is waited for at least: somebody may only be asking whether it is held."""


class HeldError(Exception):
    """Somebody else holds the lock; ``pid`` and ``command`` are what the holder wrote, None where unreadable."""

    def __init__(self, pid: int | None, command: str | None) -> None:
        super().__init__(pid, command)
        self.pid = pid
        self.command = command


def taken(path: Path, *, wait_s: float = 0) -> io.FileIO:
    """Take the lock named by a path.

    Args:
        path: The lock file; made (0600) when first taken, its directory must exist.
        wait_s: How long to wait until it is free.

    Returns:
        The lock: it is held until this is closed. Nothing but the file object ever knows the descriptor, so wherever an
        exception comes, also one of a signal, it is closed when nobody holds the object any more. Its ``with`` is left
        in one step that no signal can come into.

    Raises:
        HeldError: Somebody else holds it, and went on holding it.
        OSError: The file cannot be made or the file system knows no locks.
    """
    deadline = time.monotonic() + max(wait_s, _ASKING_S)
    pause_s = _FIRST_PAUSE_S
    while True:
        file = _opened(path)
        try:
            _open.add(file)
            if _locks(file):
                if _names_inode(path, file):
                    return file
                file.close()
                continue
            holder = _read_holder(file) if time.monotonic() >= deadline else None
            file.close()
        except BaseException:
            file.close()
            raise
        if holder is not None:
            raise HeldError(*holder)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class FileLock:
    """An exclusive lock named by a path, held from one call to another. Not reentrant. Forgotten, it is given back.

    Attributes:
        path: The lock file; made (0600) when first taken, its directory must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: io.FileIO | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._file is not None and not self._file.closed

    @property
    def current(self) -> bool:
        """Whether this object holds the lock and the path still names its file."""
        return self._file is not None and not self._file.closed and _names_inode(self.path, self._file)

    def acquire(self, *, wait_s: float = 0) -> None:
        """Take the lock; see ``taken``."""
        self._file = taken(self.path, wait_s=wait_s)

    def sign(self) -> None:
        """Write who holds the lock into the file, for the message others get."""
        if self._file is not None:
            text = json.dumps({"pid": os.getpid(), "command": _command(), "host": socket.gethostname()}).encode()
            with contextlib.suppress(OSError):  # a full disk is no reason to keep anybody out
                self._file.truncate(0)
                self._file.write(text)

    def release(self, *, unlink: bool = False) -> None:
        """Give the lock back; with ``unlink`` remove its file first. Without the lock: nothing happens."""
        file, self._file = self._file, None
        if file is None or file.closed:
            return
        try:
            if unlink:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
            with contextlib.suppress(OSError):  # closing is not enough while a child just forked has the descriptor too
                fcntl.flock(file, fcntl.LOCK_UN)
        finally:
            file.close()


_open: weakref.WeakSet[io.FileIO] = weakref.WeakSet()


def _abandon_all() -> None:
    """Close the descriptors of the locks in a forked child, whose parent keeps them."""
    for file in list(_open):
        file.close()
    _open.clear()


os.register_at_fork(after_in_child=_abandon_all)


def _opened(path: Path) -> io.FileIO:
    """Open the file of a lock, or make it. All of it is one call, so no descriptor is without its object."""
    return open(path, "a+b", buffering=0, opener=partial(os.open, mode=0o600))


def _locks(file: io.FileIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _names_inode(path: Path, file: io.FileIO) -> bool:
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    held = os.fstat(file.fileno())
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


def _read_holder(file: io.FileIO) -> tuple[int | None, str | None]:
    try:
        said = json.loads(os.pread(file.fileno(), 4096, 0))
    except (OSError, ValueError):
        said = None
    if not isinstance(said, dict):
        return _pid_of_holder(file), None
    pid, command = said.get("pid"), said.get("command")
    return (pid if isinstance(pid, int) else _pid_of_holder(file)), (command if isinstance(command, str) else None)


def is_held(path: Path) -> bool:
    """Tell whether somebody, here or elsewhere, holds a lock. Makes nothing, and takes it for no longer than asking."""
    try:
        with io.FileIO(path) as file:
            if _pid_of_holder(file) is not None:
                return True
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # on some file systems the table says nothing of the file
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def holder(path: Path) -> tuple[int | None, str | None] | None:
    """Return who holds a lock, pid and command, as far as the system or the file says; None: nobody. Likewise."""
    if not is_held(path):
        return None
    try:
        with io.FileIO(path) as file:
            return _read_holder(file)
    except OSError:  # given back meanwhile, or not to be read
        return None, None


def is_held_elsewhere(path: Path) -> bool:
    """Tell whether another process holds a lock; likewise."""
    return is_held(path) and not any(not file.closed and _names_inode(path, file) for file in _opened_here())


def _opened_here() -> list[io.FileIO]:
    while True:
        try:
            return list(_open)
        except RuntimeError:  # another thread opened one meanwhile
            continue


def _pid_of_holder(file: io.FileIO) -> int | None:
    """Return who holds a lock nobody signed, where the system says it (Linux)."""
    status = os.fstat(file.fileno())
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            held = (line.split() for line in locks if f" {inode} " in line and "FLOCK" in line and " WRITE " in line)
            fields = next((fields for fields in held if "->" not in fields), None)
        return int(fields[4]) if fields is not None else None
    except (OSError, ValueError, IndexError):
        return None


def _command() -> str:
    return " ".join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]])[:200]
