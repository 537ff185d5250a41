"""The files of the workdir, reached so that nothing outside it can be read or written.

Every path is opened one component at a time from an allowed root, without following links: a directory that was swapped
for a link at the last moment leads nowhere. Paths here are *identities*: the resolved parent plus the name, absolute,
as ``str`` with undecodable bytes as surrogates (``os.fsdecode``); ``a.txt``, ``./a.txt`` and ``link/a.txt`` are one.

Writing a file is whole or not at all (``files.rewrite``); directories are synced by the caller, once each.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import assert_never

from sessions import clock, files
from sessions.errors import RequestError
from sessions.rewind.states import Absent, Content, Directory, FileState, Link, OverLimit, Unreadable

CHUNK_BYTES = 1 << 20
NEW_DIRECTORY_MODE = 0o700
"""What a new directory has until it gets its own mode."""
_SETTLED_NS = 1_000_000_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
        return astuple(self)[:6] == astuple(other)[:6]


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


class RootMissingError(OSError):
    """A directory the session may touch is not there: nothing can be said of what is in it."""

    def __init__(self, number: int | None, text: str, path: str) -> None:
        super().__init__(errno.EIO, f"{text}: {path}", path)
        self.missing = number


class ChangedError(Exception):
    """Somebody changed a path in the last moment."""


class OutsideError(Exception):
    """A path lies outside what may be touched, or a link stands where a directory was."""


class ReadFailedError(OSError):
    """A file could be opened and not be read: the trouble is with it, not with what is made of it."""


class Worktree:
    """The directories a session may touch.

    Args:
        workdir: The session's directory; relative paths start here. None: nobody knows it; only ``add_dirs`` are
        touched.
        add_dirs: More directories, given by the host, never by a session file.
        store: Our own root, never captured.
    """

    def __init__(self, workdir: str | None, add_dirs: Sequence[str | os.PathLike[str]] = (), *, store: Path) -> None:
        self.workdir = os.path.realpath(workdir) if workdir is not None else None
        self._named = os.path.normpath(workdir) if workdir is not None else None
        named = [os.path.realpath(os.fspath(each)) for each in add_dirs]
        self._roots = tuple(named if self.workdir is None else [self.workdir, *named])
        self._store = os.path.realpath(store)

    def identify(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> str:
        """Return the identity of a path given by a host: relative to the workdir, parent resolved, name kept.

        Raises:
            RequestError: The path is empty, holds a NUL, or cannot be spelled by the system.
        """
        text = os.fsdecode(path)
        if not text or "\0" in text:
            raise RequestError(f"not a path: {text!r}")
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise RequestError(f"not a path this system can spell: {text!r}") from None
        absolute = os.path.join(self.workdir or os.path.realpath(os.curdir), text)
        if ".." not in text:
            absolute = os.path.normpath(absolute)
        parent, name = os.path.split(absolute.rstrip("/") or "/")
        if name in {"", ".", ".."}:
            return os.path.realpath(absolute)
        return os.path.join(os.path.realpath(parent), name)

    def why_not(self, path: str) -> str | None:
        """Say why an identity must not be touched: ``outside``, ``git``, ``store``; None where it may."""
        root = self._root_of(path)
        if root is None or not os.path.isdir(root):
            return "outside"
        if path == self._store or path.startswith(self._store + "/"):
            return "store"
        return "git" if ".git" in path.split("/") else None

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that may be touched, resolved."""
        return self._roots

    def missing(self, paths: Iterable[str]) -> str | None:
        """Say that the workdir is not where ``paths`` were recorded; None where it is."""
        if self.workdir is None:
            return "the session does not say which directory it belongs to"
        if not os.path.isdir(self.workdir):
            return f"the session's directory {self.workdir} is missing"
        if self.workdir != self._named and any(path.startswith(f"{self._named}/") for path in paths):
            return f"the session's directory {self._named} is now a link to {self.workdir}"
        return None

    def _root_of(self, path: str) -> str | None:
        if not path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")[1:]):
            return None  # no identity, whatever a record says
        for root in self._roots:
            if path.startswith(root.rstrip("/") + "/"):
                return root
        return None

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[int]:
        """Open the directory a path lies in, one component at a time, following no link.

        Raises:
            OutsideError: The path is outside, or a component is a link or no directory.
            RootMissingError: The allowed directory itself is missing.
            FileNotFoundError: A component below it is missing.
        """
        root = self._root_of(path)
        if root is None:
            raise OutsideError(path)
        *components, _name = path[len(root.rstrip("/")) + 1 :].split("/")
        try:
            fd = os.open(root, _WALK)
        except FileNotFoundError as error:
            raise RootMissingError(error.errno, "the session's directory is missing", root) from None
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:  # swapped for a link since it was resolved
                raise OutsideError(path) from error
            raise
        try:
            for component in components:
                try:
                    below = os.open(component, _WALK, dir_fd=fd)
                except OSError as error:
                    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                        raise OutsideError(path) from error
                    raise
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    # -- looking ---------------------------------------------------------------------------------------------------

    def examine(
        self, path: str, *, known: tuple[Content, Identity] | None = None, limit_bytes: int | None = None
    ) -> tuple[FileState, Identity | None]:
        """Say what a path is now.

        Args:
            path: An identity.
            known: A content and the identity recorded with it: where the file still has it, nothing is read.
            limit_bytes: A larger file is ``OverLimit`` instead of read.

        Returns:
            The state, and the identity of a regular file. Trouble is a value: ``Unreadable`` says what it was.
        """
        try:
            return self._look(path, known, limit_bytes)
        except OSError as error:
            return Unreadable(error.strerror or str(error)), None

    def look(self, path: str) -> tuple[FileState, Identity | None]:
        """Say what a path is now, in the middle of a change: trouble is an error, for what is not known is not decided.

        Raises:
            OSError: It cannot be read.
        """
        return self._look(path, None, None)

    def _look(
        self, path: str, known: tuple[Content, Identity] | None, limit_bytes: int | None
    ) -> tuple[FileState, Identity | None]:
        try:
            with self.parent(path) as directory:
                return _examine(directory, os.path.basename(path), known, limit_bytes)
        except FileNotFoundError:
            return Absent(), None
        except OutsideError:
            return Unreadable("a link or file stands where its directory was"), None

    def names_of(self, path: str) -> int:
        """Return how many hard links a regular file has; 0 where there is none or it cannot be asked."""
        try:
            with self.parent(path) as directory:
                status = os.stat(os.path.basename(path), dir_fd=directory, follow_symlinks=False)
        except (OSError, OutsideError):
            return 0
        return status.st_nlink if stat.S_ISREG(status.st_mode) else 0

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """Open a regular file for reading; never blocks on a pipe, never follows a link."""
        with self.parent(path) as directory:
            fd = os.open(os.path.basename(path), _READ, dir_fd=directory)
            try:
                yield fd
            finally:
                os.close(fd)

    def children(self, path: str) -> list[str]:
        """Return the identities directly below a directory, sorted; empty where it is none or cannot be read."""
        try:
            return self._children(path)
        except (OSError, OutsideError):
            return []

    def descend(self, path: str, *, closed: list[str] | None = None) -> Iterator[str]:
        """Yield every identity below a directory, parents first; a ``.git`` too, but nothing below it, nor below links.

        Args:
            closed: Takes the directories that cannot be read.
        """
        rest = [path]
        while rest:
            above = rest.pop()
            if above != path:
                yield above
            if os.path.basename(above) == ".git":
                continue
            try:
                rest.extend(self._children(above)[::-1])
            except (NotADirectoryError, FileNotFoundError, OutsideError):
                continue
            except OSError:
                if closed is not None:
                    closed.append(above)

    def _children(self, path: str) -> list[str]:
        with contextlib.ExitStack() as stack:
            if path in self.roots:
                fd = os.open(path, _WALK)
            else:
                fd = os.open(os.path.basename(path), _WALK, dir_fd=stack.enter_context(self.parent(path)))
            stack.callback(os.close, fd)
            return sorted(os.path.join(path, name) for name in os.listdir(fd))

    def missing_parents(self, path: str) -> list[str]:
        """Return the directories above a path that do not exist, outermost first."""
        missing: list[str] = []
        above = os.path.dirname(path)
        while self._root_of(above) is not None and not os.path.lexists(above):
            missing.append(above)
            above = os.path.dirname(above)
        return missing[::-1]

    def is_below_a_file(self, path: str) -> bool:
        """Tell whether a regular file stands where a directory above a path was, so that the path cannot exist."""
        above = os.path.dirname(path)
        while self._root_of(above) is not None:
            try:
                return stat.S_ISREG(os.lstat(above).st_mode)
            except OSError:
                above = os.path.dirname(above)
        return False

    # -- changing --------------------------------------------------------------------------------------------------

    def put(
        self,
        path: str,
        state: FileState,
        *,
        instead_of: tuple[FileState, Identity | None],
        write: Callable[[int], None] | None,
        temp_name: str,
    ) -> None:
        """Make a path be ``state``.

        Args:
            instead_of: What ``look`` found there; looked at once more in the last moment.
            write: Fills the descriptor with the content; needed for ``Content``.
            temp_name: The name of the temporary beside it, so that recovery can sweep it.

        Raises:
            ChangedError: It is no longer that; it was left as it is.
            OutsideError: The way there left the allowed directories.
            OSError: The system refused; the path is as it was, except that a link or an empty directory that stood
                in the way may be gone.
        """
        with self.parent(path) as directory:
            name = os.path.basename(path)
            _check_unchanged(directory, name, instead_of)
            match state:
                case Absent():
                    _remove(directory, name)
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
                case Directory(mode):
                    _clear_file(directory, name)
                    _make_directory(directory, name, mode)
                case Link(target):
                    _clear_directory(directory, name)
                    files.replace_link(name, target, dir_fd=directory, temp_name=temp_name)
                case Unreadable() | OverLimit():
                    raise ValueError(f"cannot make a path be {state}")
                case _:
                    assert_never(state)

    def sweep(self, path: str, temp_name: str) -> None:
        """Remove the temporary a crash may have left beside a path."""
        with contextlib.suppress(OSError, OutsideError), self.parent(path) as directory:
            os.unlink(temp_name, dir_fd=directory)

    def sync_parent(self, path: str) -> None:
        """Make the names in a path's directory durable; a directory that is gone needs none."""
        with contextlib.suppress(FileNotFoundError, OutsideError), self.parent(path) as directory:
            files.sync_directory(directory)


def _examine(
    directory: int, name: str, known: tuple[Content, Identity] | None, limit_bytes: int | None
) -> tuple[FileState, Identity | None]:
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
    fd = os.open(name, _READ, dir_fd=directory)
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
    while chunk := _read(fd):
        digest.update(chunk)
        size += len(chunk)
        if copy_to is not None:
            files.write_all(copy_to, chunk)
    return Content(digest.hexdigest(), size, stat.S_IMODE(os.fstat(fd).st_mode))


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK_BYTES)
    except OSError as error:
        raise ReadFailedError(error.errno, error.strerror) from error


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


def _make_directory(directory: int, name: str, mode: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, NEW_DIRECTORY_MODE, dir_fd=directory)
    fd = os.open(name, _WALK, dir_fd=directory)
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _clear_file(directory: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
        os.unlink(name, dir_fd=directory)
