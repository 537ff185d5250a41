"""Reaching a path from an allowed directory, so that nothing outside can be read or written.

Every path is opened one component at a time from an allowed root, without following links: a directory that was swapped
for a link at the last moment leads nowhere. Paths here are *identities*: the resolved parent plus the name, absolute,
as ``str`` with undecodable bytes as surrogates (``os.fsdecode``); ``a.txt``, ``./a.txt`` and ``link/a.txt`` are one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sessions.errors import RequestError

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RootMissingError(OSError):
    """A directory the session may touch is not there: nothing can be said of what is in it."""

    def __init__(self, number: int | None, text: str, path: str) -> None:
        super().__init__(errno.EIO, f"{text}: {path}", path)
        self.missing = number


class OutsideError(Exception):
    """A path lies outside what may be touched, or a link stands where a directory was."""


class Reach:
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
            fd = os.open(root, OPEN_DIRECTORY)
        except FileNotFoundError as error:
            raise RootMissingError(error.errno, "the session's directory is missing", root) from None
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:  # swapped for a link since it was resolved
                raise OutsideError(path) from error
            raise
        try:
            for component in components:
                try:
                    below = os.open(component, OPEN_DIRECTORY, dir_fd=fd)
                except OSError as error:
                    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                        raise OutsideError(path) from error
                    raise
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def missing_parents(self, path: str) -> list[str]:
        """Return the directories above a path that do not exist, outermost first."""
        missing: list[str] = []
        above = os.path.dirname(path)
        while self._root_of(above) is not None and not os.path.lexists(above):
            missing.append(above)
            above = os.path.dirname(above)
        return missing[::-1]

    def is_below_a_file(self, path: str) -> bool:
        """Tell whether something else stands where a directory above a path was, so that the path cannot exist.

        A link is such a thing: what lies behind it has another identity.
        """
        above = os.path.dirname(path)
        while self._root_of(above) is not None:
            try:
                return not stat.S_ISDIR(os.lstat(above).st_mode)
            except OSError:
                above = os.path.dirname(above)
        return False
