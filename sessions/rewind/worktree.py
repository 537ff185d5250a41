"""The files of the directories a session may touch: looked at and changed, each reached so that nothing outside is.

Writing a file is whole or not at all (``files.rewrite``); directories are synced by the caller, once each.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sessions import files
from sessions.rewind.changing import ChangedError, change, set_mode
from sessions.rewind.examining import (
    CHUNK_BYTES,
    OPEN_TO_READ,
    Identity,
    ReadFailedError,
    chunks_of,
    examine,
    identity_of,
    read_content,
)
from sessions.rewind.reaching import OPEN_DIRECTORY, OutsideError, Reach, RootMissingError
from sessions.rewind.states import Absent, Content, FileState, Unreadable

__all__ = [
    "CHUNK_BYTES",
    "ChangedError",
    "Identity",
    "OutsideError",
    "ReadFailedError",
    "RootMissingError",
    "Worktree",
    "chunks_of",
    "identity_of",
    "read_content",
]


@dataclass(frozen=True, slots=True)
class Names:
    """A regular file behind its names.

    Attributes:
        count: How many hard links it has.
        inode: Its device and inode.
        writable: Whether it can be written in place.
    """

    count: int
    inode: tuple[int, int]
    writable: bool


class Worktree(Reach):
    """Looks at paths and changes them; everything is reached through `Reach.parent`."""

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
                return examine(directory, os.path.basename(path), known, limit_bytes)
        except FileNotFoundError:
            return Absent(), None
        except OutsideError:
            return Unreadable("a link or file stands where its directory was"), None

    def names_of(self, path: str) -> Names | None:
        """Say under how many names a regular file is known; None where there is none or it cannot be asked."""
        name = os.path.basename(path)
        try:
            with self.parent(path) as directory:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                ours = status.st_uid == os.geteuid() or os.access(name, os.W_OK, dir_fd=directory, effective_ids=True)
        except (OSError, OutsideError):
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return Names(status.st_nlink, (status.st_dev, status.st_ino), ours)

    def closed_mode(self, path: str) -> int | None:
        """Return the mode of a directory of ours in which nothing can be changed; None where there is none."""
        name = os.path.basename(path)
        try:
            with self.parent(path) as directory:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                usable = os.access(name, os.R_OK | os.W_OK | os.X_OK, dir_fd=directory, effective_ids=True)
        except (OSError, OutsideError):
            return None
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        return stat.S_IMODE(status.st_mode) if ours and not usable else None

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """Open a regular file for reading; never blocks on a pipe, never follows a link."""
        with self.parent(path) as directory:
            fd = os.open(os.path.basename(path), OPEN_TO_READ, dir_fd=directory)
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
                fd = os.open(path, OPEN_DIRECTORY)
            else:
                fd = os.open(os.path.basename(path), OPEN_DIRECTORY, dir_fd=stack.enter_context(self.parent(path)))
            stack.callback(os.close, fd)
            return sorted(os.path.join(path, name) for name in os.listdir(fd))

    # -- changing --------------------------------------------------------------------------------------------------

    def put(
        self,
        path: str,
        state: FileState,
        *,
        instead_of: tuple[FileState, Identity | None],
        write: Callable[[int], None] | None,
        temp_name: str,
        in_place: bool = False,
    ) -> None:
        """Make a path be ``state``; the arguments and errors are those of ``changing.change``.

        Raises:
            OutsideError: The way there left the allowed directories.
        """
        with self.parent(path) as directory:
            change(
                directory,
                os.path.basename(path),
                state,
                instead_of=instead_of,
                write=write,
                temp_name=temp_name,
                in_place=in_place,
            )

    def set_mode(self, path: str, mode: int, *, instead_of: int) -> None:
        """Give a directory another mode, as ``changing.set_mode`` does."""
        with self.parent(path) as directory:
            set_mode(directory, os.path.basename(path), mode, instead_of=instead_of)

    def sweep(self, path: str, temp_name: str) -> None:
        """Remove the temporary a crash may have left beside a path."""
        with contextlib.suppress(OSError, OutsideError), self.parent(path) as directory:
            os.unlink(temp_name, dir_fd=directory)

    def sync(self, path: str) -> None:
        """Make bytes and mode of a file, or the mode of a directory, durable; one that cannot be read is not ours."""
        with contextlib.suppress(PermissionError), self.reading(path) as fd:
            files.sync_directory(fd)

    def sync_parent(self, path: str) -> None:
        """Make the names in a path's directory durable; a directory that is gone needs none."""
        with contextlib.suppress(FileNotFoundError, OutsideError), self.parent(path) as directory:
            files.sync_directory(directory)
