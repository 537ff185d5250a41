"""Bytes from one descriptor to another, in the kernel where it can. Part of `files`, which hands it on."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

_CHUNK = 1 << 20
_COPY = 1 << 30  # below the kernel's limit for one call
_CANNOT_COPY = frozenset(
    {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF, errno.ETXTBSY, errno.EPERM}
)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of ``data``, in as many calls as it takes. For files nobody reads before they are complete."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def copy_range(source_fd: int, target_fd: int, offset: int, size: int) -> None:
    """Copy ``size`` bytes from ``offset`` of the source to the target's position, in the kernel where it can.

    Raises:
        OSError: Not all of it could be copied; EIO where the source ends early. The target holds a part.
    """
    end = offset + size
    for copy in (_copy_file_range, _send_file):
        offset = _copy_with(copy, source_fd, target_fd, offset, end)
    while offset < end:
        data = os.pread(source_fd, min(_CHUNK, end - offset), offset)
        if not data:
            raise OSError(errno.EIO, "the file ended early while it was copied")
        write_all(target_fd, data)
        offset += len(data)


_Copy = Callable[[int, int, int, int], int]


def _copy_with(copy: _Copy, source_fd: int, target_fd: int, offset: int, end: int) -> int:
    while offset < end:
        try:
            copied = copy(source_fd, target_fd, offset, min(_COPY, end - offset))
        except OSError as error:
            if error.errno in _CANNOT_COPY:
                break
            raise
        if copied == 0:
            break  # some file systems say so although there is more; a read tells
        offset += copied
    return offset


def _copy_file_range(source_fd: int, target_fd: int, offset: int, count: int) -> int:
    if sys.platform != "linux":
        return 0
    return os.copy_file_range(source_fd, target_fd, count, offset)


def _send_file(source_fd: int, target_fd: int, offset: int, count: int) -> int:
    if sys.platform != "linux":
        return 0
    return os.sendfile(target_fd, source_fd, offset, count)
