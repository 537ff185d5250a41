"""What a name in an open directory is: looked at without following a link, and read no more than is needed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from sessions import clock, files
from sessions.rewind.states import Content, Directory, FileState, Link, OverLimit, Unreadable

CHUNK_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 18
OPEN_TO_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SETTLED_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Identity:
    """What the system says of a file without reading it, and when it was asked (``recorded_ns``, epoch).

    Two equal identities mean equal content only when the first was recorded more than a second after the last change:
    within one tick of the clock a second write leaves no trace.
    """

    device: int
    inode: int
    size: int
    mode: int
    mtime_ns: int
    ctime_ns: int
    recorded_ns: int

    @property
    def settled(self) -> bool:
        """Whether it was recorded long enough after the change to stand for the content."""
        return self.recorded_ns - max(self.mtime_ns, self.ctime_ns) > _SETTLED_NS

    def matches(self, now: Identity) -> bool:
        """Tell whether a file with identity ``now`` surely has the content this identity was recorded for."""
        return self.settled and self.equals(now)

    def equals(self, other: Identity) -> bool:
        """Tell whether the system says the same of both, whenever it was asked."""
        return self._facts == other._facts

    @property
    def _facts(self) -> tuple[int, ...]:
        return self.device, self.inode, self.size, self.mode, self.mtime_ns, self.ctime_ns


def identity_from(facts: tuple[int, ...] | None) -> Identity | None:
    """Return the identity recorded with an end state; None where none was."""
    if facts is None or len(facts) != 7 or not all(isinstance(fact, int) for fact in facts):
        return None
    return Identity(*facts)


def identity_of(status: os.stat_result) -> Identity:
    """Return the identity the system's answer describes."""
    return Identity(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mode,
        status.st_mtime_ns,
        status.st_ctime_ns,
        clock.epoch_ns(),
    )


class ReadFailedError(OSError):
    """A file could be opened and not be read: the trouble is with it, not with what is made of it."""


def examine(
    directory: int, name: str, known: tuple[Content, Identity] | None, limit_bytes: int | None
) -> tuple[FileState, Identity | None]:
    """Say what a name is.

    Args:
        directory: The descriptor of the directory it is in.
        known: A content and the identity recorded with it: where the file still has it, nothing is read.
        limit_bytes: A larger file is ``OverLimit`` instead of read.

    Returns:
        The state, and the identity of a regular file.

    Raises:
        FileNotFoundError: Nothing has that name.
        OSError: It cannot be read.
    """
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return Link(os.readlink(name, dir_fd=directory)), None
    if stat.S_ISDIR(status.st_mode):
        return Directory(stat.S_IMODE(status.st_mode)), None
    if not stat.S_ISREG(status.st_mode):
        return Unreadable("neither a file, a directory nor a link"), None
    identity = identity_of(status)
    if known is not None and known[1].matches(identity):
        return known[0], identity
    if limit_bytes is not None and status.st_size > limit_bytes:
        return OverLimit(status.st_size, stat.S_IMODE(status.st_mode)), identity
    fd = os.open(name, OPEN_TO_READ, dir_fd=directory)
    try:
        return read_content(fd), identity_of(os.fstat(fd))
    finally:
        os.close(fd)


def read_content(fd: int, copy_to: int | None = None) -> Content:
    """Read an open regular file to its end, in bounded memory, and copy what was read to ``copy_to``.

    The digest and the size are of the very bytes copied, also while somebody writes to the file.

    Raises:
        ReadFailedError: It cannot be read.
        OSError: It cannot be copied.
    """
    digest, size = hashlib.sha256(), 0
    buffer = memoryview(bytearray(min(_BUFFER_BYTES, os.fstat(fd).st_size + 1)))  # one, and small: new pages cost time
    while count := _read_into(fd, buffer):
        chunk = buffer[:count]
        digest.update(chunk)
        size += count
        if copy_to is not None:
            files.write_all(copy_to, chunk)
    return Content(digest.hexdigest(), size, stat.S_IMODE(os.fstat(fd).st_mode))


def chunks_of(fd: int) -> Iterator[bytes]:
    """Yield what an open file holds, each chunk of ``CHUNK_BYTES`` but the last.

    Raises:
        ReadFailedError: It cannot be read.
    """
    chunk = b""
    while more := _read(fd):
        chunk += more
        if len(chunk) >= CHUNK_BYTES:
            yield chunk[:CHUNK_BYTES]
            chunk = chunk[CHUNK_BYTES:]
    if chunk:
        yield chunk


def _read_into(fd: int, buffer: memoryview) -> int:
    try:
        return os.readv(fd, [buffer])
    except OSError as error:
        raise ReadFailedError(error.errno, error.strerror) from error


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK_BYTES)
    except OSError as error:
        raise ReadFailedError(error.errno, error.strerror) from error
