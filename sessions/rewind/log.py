"""The timeline's log on disk: one writer at a time, readers any time, and after a crash complete lines.

``timeline.jsonl`` in the sidecar is only appended to, under ``captures.lock``: a short lock apart from the session's
own, so that writers in other processes can record edits while the session is open elsewhere. A fragment that a crash
left is never glued to the next record: it is ended by a newline, becomes a line nobody can read, and is counted as
damage.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from sessions import files, locks, paths
from sessions.errors import ConflictError
from sessions.locks import HeldError
from sessions.rewind.folding import Folding
from sessions.rewind.timeline import VERSION, Timeline
from sessions.transcript.codec import dumps, loads

_PATIENCE_S = 30.0


class CaptureLog:
    """The log of one session. Objects work from several threads.

    Args:
        sidecar: The session's ``.ckpt`` directory.
        make: Whether it is made when the first record is appended; else it must be there: the session is another one.
    """

    def __init__(self, sidecar: Path, *, make: bool = True) -> None:
        self.sidecar = sidecar
        self._make = make
        self.path = sidecar / paths.TIMELINE
        self._lock_path = sidecar / "captures.lock"
        self._writing = threading.RLock()  # held while the lock is, and while it is waited for
        self._reading = threading.RLock()
        self._held = False
        self._inode: int | None = None
        self._offset = 0
        self._behind = False
        self._folding = Folding()
        self._snapshot: Timeline | None = None  # what readers have; none where records came since

    def read(self) -> Timeline:
        """Return the timeline as of now, reading only what was appended since the last call. It never changes again."""
        with self._reading:
            live = self._follow()
            if self._snapshot is None:
                self._snapshot = live.snapshot()
            return self._snapshot

    def _follow(self) -> Timeline:
        """Return the timeline that grows, with all that is in the log."""
        with self._reading:
            try:
                with open(self.path, "rb") as log:
                    self._catch_up(log.fileno())
                self._behind = False
            except FileNotFoundError:
                self._start_anew()
                self._inode = None
            return self._folding.timeline

    @contextlib.contextmanager
    def locked(self) -> Iterator[Timeline]:
        """Hold the log's lock and give the timeline, which grows with what the holder appends.

        May be entered again by the thread that holds it.

        An exception, also that of a signal, leaves no lock behind: it is given back with the exception at the latest.

        Raises:
            ConflictError: Somebody else holds it and does not go on; or the session is gone.
        """
        with self._writing:
            if self._held:
                yield self._follow()
                return
            with self._taken() as lock:  # no call of Python in what ends it: a signal could come between
                try:
                    self._held = True
                    yield self._follow()
                finally:
                    self._held = False
                    if not lock.closed:  # as it is in a forked child
                        fcntl.flock(lock, fcntl.LOCK_UN)

    def _taken(self) -> io.FileIO:
        try:
            if self._make:
                files.make_directory(self.sidecar)
            return locks.taken(self._lock_path, wait_s=_PATIENCE_S)
        except HeldError as held:
            who = "another process" if held.pid is None else f"process {held.pid}"
            raise ConflictError(
                f"{who} holds {self._lock_path} for more than {_PATIENCE_S:.0f} s: it may be stopped", pid=held.pid
            ) from None
        except FileNotFoundError:
            raise ConflictError(f"the session of {self.sidecar} is gone") from None

    def append(self, records: Sequence[dict[str, object]], *, sync: bool = True) -> None:
        """Append records, numbered, in one write. The caller holds the lock.

        Args:
            records: Without ``v`` and ``seq``.
            sync: Return only when they are durable.

        Raises:
            OSError: Nothing was appended.
        """
        if self._behind:
            self._follow()
        first = self._folding.timeline.next_seq
        numbered = [{"v": VERSION, "seq": first + place, **record} for place, record in enumerate(records)]
        data = b"".join(dumps(record) + b"\n" for record in numbered)
        if self._has_fragment():
            data = b"\n" + data
        self._behind = True
        files.append(self.path, data, create=True, sync=sync)
        with contextlib.suppress(OSError):  # they are appended, whether or not they can be read back now
            self._follow()

    def _has_fragment(self) -> bool:
        try:
            return os.stat(self.path).st_size > self._offset
        except FileNotFoundError:
            return False

    def _catch_up(self, fd: int) -> None:
        status = os.fstat(fd)
        if self._inode is not None and (status.st_ino != self._inode or status.st_size < self._offset):
            self._start_anew()
        self._inode = status.st_ino
        data = os.pread(fd, status.st_size - self._offset, self._offset)
        complete = data.rfind(b"\n") + 1
        if not complete:
            return
        self._snapshot = None
        try:
            self._folding.extend(_parse(line) for line in data[:complete].split(b"\n") if line)
            self._offset += complete
        except BaseException:  # Ctrl-C, with some of them in it: the next call reads all anew
            self._start_anew()
            raise

    def _start_anew(self) -> None:
        self._folding, self._offset, self._snapshot = Folding(), 0, None


def _parse(line: bytes) -> object:
    try:
        return loads(line)
    except ValueError:
        return None
