"""The one module that changes files: replace atomically, append, copy in the kernel, make what was done durable.

The assumptions behind every promise here: ``rename`` within a directory is atomic, ``fsync`` that returns has written,
and one process at a time writes a given file (the caller's lock sees to that). Every call that matters goes through
``os.``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from atomicwrites import AtomicWriter

from sessions.copying import copy_range, write_all

if sys.platform == "darwin":
    import fcntl

__all__ = [
    "TEMP_PREFIX",
    "TEMP_SUFFIX",
    "AtomicFile",
    "DurabilityUnknownError",
    "append",
    "copy_range",
    "is_temporary",
    "make_directory",
    "replace_link",
    "rewrite",
    "sweep_temporaries",
    "sync_directory",
    "truncate",
    "write_all",
]

TEMP_PREFIX = ".sessions-"
TEMP_SUFFIX = ".tmp"

_CANNOT_SYNC_DIRECTORY = frozenset({errno.EINVAL, errno.ENOTSUP})


class DurabilityUnknownError(OSError):
    """The new file is live, but its directory could not be synced: a power loss may still bring the old one back."""


class AtomicFile(AtomicWriter):  # type: ignore[misc]  # atomicwrites ships no types
    """A file replaced in one step, with the edges of ``atomicwrites`` 1.4.1 mended.

    The directory is opened first and everything happens relative to it, so a later ``chdir`` or a renamed parent
    changes nothing. The temporary is made with ``O_EXCL``, keeps its one descriptor, and gets owner, extended
    attributes and mode of the replaced file through it before the sync.

    On success the new file is live and durable. On an error the old file is whole and no temporary is left. After a
    crash the path holds the old or the new file, whole, and a temporary (``.sessions-….tmp``) may be left beside it.

    Args:
        path: What to replace. Without ``dir_fd`` a symlink is resolved here, once, and survives.
        dir_fd: A directory descriptor; ``path`` is then a bare name in it, and a symlink at that name is itself
            replaced.
        temp_name: The temporary's name, for callers that write it down beforehand.
        mode: Permission bits; None keeps those of the replaced file, 0600 for a new one.
        sync_directory: Whether the rename itself is made durable.
        durable: Whether anything is: else a power loss may leave the old file, or an empty or damaged one.
        before_rename: Called when the new file is complete and durable; what it raises leaves the old one in place.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dir_fd: int | None = None,
        temp_name: str | None = None,
        mode: int | None = None,
        sync_directory: bool = True,
        durable: bool = True,
        before_rename: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(os.fsdecode(path), mode="wb", overwrite=True)
        self._given_dir_fd = dir_fd
        self._temp = temp_name or f"{TEMP_PREFIX}{secrets.token_hex(8)}{TEMP_SUFFIX}"
        self._permissions = mode
        self._sync_directory = sync_directory and durable
        self._durable = durable
        self._before_rename = before_rename
        self._directory = -1
        self._name = ""
        self._renamed = False

    def get_fileobject(self, **_: object) -> FileIO:
        """Open the directory, then the temporary in it; on an error neither stays."""
        if self._given_dir_fd is None:
            parent, self._name = os.path.split(os.path.realpath(self._path))
            self._directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            self._name = self._path
            self._directory = os.dup(self._given_dir_fd)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._temp, flags, 0o600, dir_fd=self._directory)
        except BaseException:
            self._close()
            raise
        return FileIO(descriptor, "r+b")

    def sync(self, f: FileIO) -> None:
        """Give the temporary the attributes of what it replaces, then make its content durable."""
        self._dress(f.fileno())
        if self._durable:
            _sync(f.fileno())

    def commit(self, f: FileIO) -> None:  # noqa: ARG002 - the signature is atomicwrites'
        """Rename: the one step that makes it true.

        Raises:
            DurabilityUnknownError: The rename is done, syncing the directory failed.
        """
        if self._before_rename is not None:
            self._before_rename()
        os.rename(self._temp, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._renamed = True
        try:
            if self._sync_directory:
                sync_directory(self._directory)
        except OSError as error:
            raise DurabilityUnknownError(error.errno, f"{error.strerror} (the new file is live)", self._name) from error
        finally:
            self._close()

    def rollback(self, f: FileIO | None) -> None:  # noqa: ARG002 - the signature is atomicwrites'
        """Remove the temporary, unless it already became the file."""
        if self._directory < 0:
            return
        try:
            if not self._renamed:
                os.unlink(self._temp, dir_fd=self._directory)
        finally:
            self._close()

    def _close(self) -> None:
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def _dress(self, descriptor: int) -> None:
        replaced = self._replaced()
        if replaced is not None:
            _keep_owner(descriptor, replaced)
            _keep_attributes(descriptor, self._directory, self._name)
        mode = self._permissions
        if mode is None:
            mode = 0o600 if replaced is None else stat.S_IMODE(replaced.st_mode)
        os.fchmod(descriptor, mode)

    def _replaced(self) -> os.stat_result | None:
        try:
            found = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None


def rewrite(
    path: str | os.PathLike[str],
    write: Callable[[int], None],
    *,
    dir_fd: int | None = None,
    temp_name: str | None = None,
    mode: int | None = None,
    sync_directory: bool = True,
    durable: bool = True,
    before_rename: Callable[[], None] | None = None,
) -> None:
    """Replace the file at ``path`` by what ``write(descriptor)`` writes, in one step.

    The promises are those of `AtomicFile`, which also explains the arguments. What ``write`` raises passes through.
    """
    file = AtomicFile(
        path,
        dir_fd=dir_fd,
        temp_name=temp_name,
        mode=mode,
        sync_directory=sync_directory,
        durable=durable,
        before_rename=before_rename,
    )
    with file.open() as stream:
        write(stream.fileno())


def append(path: str | os.PathLike[str], data: bytes, *, create: bool = False, sync: bool = True) -> int:
    """Append ``data`` to a file in one ``write``.

    Args:
        create: Make the file (0600) if it is missing, its name durable too; else a missing file is an error.
        sync: Return only when the data is durable.

    Returns:
        The offset where ``data`` starts.

    Raises:
        OSError: Nothing was appended: the file was cut back to where it ended. (Where even that fails, the note on the
            error says so and a fragment stays; a crash leaves a fragment too. A reader sees a torn last line.)
    """
    if create and not os.path.exists(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        sync_directory(os.path.dirname(path))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        start = os.fstat(descriptor).st_size
        try:
            _write_once(descriptor, data, path)
            if sync:
                _sync(descriptor)
        except BaseException as error:
            _cut_back(descriptor, start, error)
            raise
        return start
    finally:
        os.close(descriptor)


def replace_link(name: str, target: str, *, dir_fd: int, temp_name: str) -> None:
    """Make ``name`` in a directory a symbolic link to ``target``, in one step; the caller syncs the directory.

    On an error the name is as it was and no temporary is left; a crash may leave the temporary.
    """
    os.symlink(target, temp_name, dir_fd=dir_fd)
    try:
        os.rename(temp_name, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        os.unlink(temp_name, dir_fd=dir_fd)
        raise


def truncate(path: str | os.PathLike[str], size: int) -> None:
    """Cut the file to ``size`` bytes, durably. After a crash it has the old or the new size."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        _sync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: str | os.PathLike[str] | int) -> None:
    """Make a directory's entries durable; file systems that cannot (EINVAL, ENOTSUP) are taken at their word."""
    if isinstance(directory, int):
        _sync_directory(directory)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync_directory(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: str | os.PathLike[str]) -> None:
    """Make a directory and the parents it lacks, each 0700 and each made durable; one that exists is left as it is.

    Raises:
        FileExistsError: Something that is not a directory is in the way.
    """
    missing = []
    current = Path(path)
    while not current.is_dir():
        missing.append(current)
        if current.parent == current:
            break
        current = current.parent
    for directory in reversed(missing):
        try:
            directory.mkdir(0o700)
        except FileExistsError:
            if not directory.is_dir():
                raise
        sync_directory(directory.parent)


def is_temporary(name: str) -> bool:
    """Tell whether a file name is one of our temporaries."""
    return name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX)


def sweep_temporaries(
    directory: str | os.PathLike[str] | int, *, among: Callable[[str], bool] = is_temporary
) -> list[str]:
    """Unlink the temporaries a crash left in ``directory``. The caller holds the lock of whoever makes them.

    Args:
        directory: A path, or a descriptor of an open directory. A missing one has none.
        among: Which of the temporaries; never asked about any other name.

    Returns:
        The names removed, sorted.
    """
    try:
        names = sorted(filter(among, filter(is_temporary, os.listdir(directory))))
    except FileNotFoundError:
        return []
    removed = []
    for name in names:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            _unlink(name, directory)
            removed.append(name)
    return removed


def _unlink(name: str, directory: str | os.PathLike[str] | int) -> None:
    if isinstance(directory, int):
        os.unlink(name, dir_fd=directory)
    else:
        Path(directory, name).unlink()


def _write_once(descriptor: int, data: bytes, path: str | os.PathLike[str]) -> None:
    written = os.write(descriptor, data)
    if written != len(data):  # the disk is full, or the record is beyond what one call takes
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be appended", os.fspath(path))


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        # fsync there only reaches the drive's cache
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _sync_directory(descriptor: int) -> None:
    try:
        _sync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_DIRECTORY:
            raise


def _cut_back(descriptor: int, size: int, error: BaseException) -> None:
    try:
        os.ftruncate(descriptor, size)
        # The cut must outlive a crash, or the failed record comes back; a second sync after a failed one proves
        # nothing.
        if not (isinstance(error, OSError) and error.errno == errno.EIO):
            _sync(descriptor)
    except OSError as second:
        error.add_note(f"cutting the file back to {size} bytes failed as well: {second}")


def _keep_owner(descriptor: int, replaced: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) == (replaced.st_uid, replaced.st_gid):
        return
    try:
        os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
    except PermissionError:
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, -1, replaced.st_gid)


def _keep_attributes(descriptor: int, directory: int, name: str) -> None:
    if sys.platform != "linux":
        return
    # By path through the directory's descriptor: the replaced file may not be readable, so it is not opened.
    source = f"/proc/self/fd/{directory}/{name}"
    with contextlib.suppress(OSError):
        for attribute in os.listxattr(source, follow_symlinks=False):
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, attribute, os.getxattr(source, attribute, follow_symlinks=False))
