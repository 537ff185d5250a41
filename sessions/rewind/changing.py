"""Making a name in an open directory be something else: only instead of what was found there a moment ago."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable
from typing import assert_never

from sessions import files
from sessions.rewind.examining import OPEN_TO_READ, Identity, identity_of
from sessions.rewind.midway import NEW_DIRECTORY_MODE, opened
from sessions.rewind.reaching import OPEN_DIRECTORY
from sessions.rewind.states import Absent, Content, Directory, FileState, Link, OverLimit, Unreadable


class ChangedError(Exception):
    """Somebody changed a path in the last moment."""


def change(
    directory: int,
    name: str,
    state: FileState,
    *,
    instead_of: tuple[FileState, Identity | None],
    write: Callable[[int], None] | None,
    temp_name: str,
    in_place: bool = False,
) -> None:
    """Make a name be ``state``; a directory gets its mode later, from ``set_mode``.

    Args:
        directory: The descriptor of the directory the name is in.
        instead_of: What was found there; looked at once more in the last moment.
        write: Fills the descriptor with the content; needed for ``Content``.
        temp_name: The name of the temporary beside it, so that recovery can sweep it.
        in_place: Write over the file that was found instead of replacing it. A crash, or an error, leaves it half
            written: what ``half_written`` recognises.

    Raises:
        ChangedError: It is no longer that; it was left as it is.
        OSError: The system refused; the name is as it was, except that a link or an empty directory that stood in the
            way may be gone.
    """
    _check_unchanged(directory, name, instead_of)
    match state:
        case Absent():
            _remove(directory, name)
        case Content(_, _, mode) if in_place:
            assert write is not None
            _overwrite(directory, name, mode, write, instead_of[1])
        case Content(_, _, mode):
            assert write is not None
            _clear_directory(directory, name)
            found = (Absent(), None) if isinstance(instead_of[0], Directory) else instead_of
            files.rewrite(
                name,
                write,
                dir_fd=directory,
                temp_name=temp_name,
                mode=mode,
                sync_directory=False,
                before_rename=lambda: _check_unchanged(directory, name, found),
            )
        case Directory():
            _clear_file(directory, name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, NEW_DIRECTORY_MODE, dir_fd=directory)
        case Link(target):
            _clear_directory(directory, name)
            files.replace_link(name, target, dir_fd=directory, temp_name=temp_name)
        case Unreadable() | OverLimit():
            raise ValueError(f"cannot make a path be {state}")
        case _:
            assert_never(state)


def set_mode(directory: int, name: str, mode: int, *, instead_of: int) -> None:
    """Give a directory another mode, durably.

    Raises:
        ChangedError: It has not the mode it had; it was left as it is.
        OSError: It could not be done.
    """
    try:
        fd = os.open(name, OPEN_DIRECTORY, dir_fd=directory)
    except PermissionError:
        _let_owner_in(directory, name, instead_of)
        fd, instead_of = os.open(name, OPEN_DIRECTORY, dir_fd=directory), opened(instead_of)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) != instead_of:
            raise ChangedError(name)
        os.fchmod(fd, mode)
        files.sync_directory(fd)
    finally:
        os.close(fd)


def _let_owner_in(directory: int, name: str, mode: int) -> None:
    """Open a directory its owner may not even read: through a descriptor that needs no permission."""
    if sys.platform != "linux":
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
            raise ChangedError(name)
        os.chmod(f"/proc/self/fd/{fd}", opened(mode))
    finally:
        os.close(fd)


def _check_unchanged(directory: int, name: str, found: tuple[FileState, Identity | None]) -> None:
    """Compare what the system says of a name, without reading it, with what was found there a moment ago.

    Raises:
        ChangedError: It is something else now.
    """
    state, identity = found
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        unchanged = isinstance(state, Absent)
    else:
        match state:
            case Content():
                unchanged = identity is not None and identity.equals(identity_of(status))
            case Link(target):
                unchanged = stat.S_ISLNK(status.st_mode) and os.readlink(name, dir_fd=directory) == target
            case Directory():
                unchanged = stat.S_ISDIR(status.st_mode)
            case _:
                unchanged = False
    if not unchanged:
        raise ChangedError(name)


def _overwrite(directory: int, name: str, mode: int, write: Callable[[int], None], found: Identity | None) -> None:
    with contextlib.ExitStack() as stack:
        there = os.open(name, OPEN_TO_READ, dir_fd=directory)
        stack.callback(os.close, there)
        if found is None or not found.equals(identity_of(os.fstat(there))):
            raise ChangedError(name)
        fd = _open_to_write(directory, name, there)
        stack.callback(os.close, fd)
        if not os.path.samestat(os.fstat(there), os.fstat(fd)):
            raise ChangedError(name)
        write(fd)
        os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))
        os.fchmod(fd, mode)
        os.fsync(fd)


def _open_to_write(directory: int, name: str, there: int) -> int:
    """Open a file that is open for reading already; its owner may write to it from here on, if need be."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=directory)
    except PermissionError:
        os.fchmod(there, stat.S_IMODE(os.fstat(there).st_mode) | stat.S_IWUSR)
        return os.open(name, flags, dir_fd=directory)


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in {errno.EISDIR, errno.EPERM}:
            raise
        os.rmdir(name, dir_fd=directory)


def _clear_directory(directory: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.rmdir(name, dir_fd=directory)


def _clear_file(directory: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
        os.unlink(name, dir_fd=directory)
