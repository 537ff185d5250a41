"""Rows of lists that were read before, kept so that a file that did not change is not opened again.

One file a project's directory, ``<root>/cache/rows/<name>.json``: a line that says what the second one is, and a line
of JSON, a list of rows, each a list of its fields. It may be removed at any time. What it says of a transcript counts
only while the system says of the file what it said then: size, times and inode (device and path are the directory's). A
row of a file written less than two seconds before it was read is not kept: a further write might leave its times as
they are. What the sidecar told when the row was read (that nothing is hidden in the file, that it has no title) is not
asked again. A cache that is cut, damaged, of another version or that cannot be written changes nothing but the time a
list takes; it is replaced in one step, without waiting for the disk.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from sessions import clock
from sessions.catalog import Found, all_known
from sessions.listing import Facts
from sessions.transcript import codec, lines

_VERSION = 1
_BEGIN = codec.dumps({"version": _VERSION, "fields": Facts._fields})[:-1] + b',"of":'
_BITS = 63
_SETTLED_NS = 2_000_000_000
_ABANDONED_NS = 3600 * 1_000_000_000
_HELD_ROWS = 20_000  # in memory, of about 1 KiB each
_LARGEST_BYTES = 32 << 20  # of more sessions than that no cache is kept


class RowCaches:
    """The row caches of one store. They stay in memory from one list to the next, as long as that are few rows.

    Each is given to one list at a time; another that wants it meanwhile reads it from disk. No lock is needed, so none
    can be held when a process forks.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._idle: dict[tuple[str, bool], RowCache] = {}

    def take(self, directory: str, *, children: bool = False) -> RowCache:
        """Return the cache of a project's directory; see ``RowCache``."""
        cache = self._idle.pop((directory, children), None)
        return cache or RowCache(self._root, directory, children=children)

    def give_back(self, taken: Iterable[RowCache]) -> None:
        """Write what changed in caches that were taken."""
        rows = sum(len(cache.known) for cache in list(self._idle.values()))
        for cache in taken:
            cache.save()
            rows += len(cache.known)
            if rows <= _HELD_ROWS:
                self._idle[cache.key] = cache

    def discard(self, directory: str) -> None:
        """Remove what is kept of a project's directory; where that fails, the next list drops what is gone."""
        for children in (False, True):
            self._idle.pop((directory, children), None)
            with contextlib.suppress(OSError):
                os.unlink(_path(self._root, directory, children=children))


class RowCache:
    """The rows kept of one project's directory.

    Args:
        root: The store's.
        directory: The project's.
        children: Whether of the sessions of subagents, which are kept apart: there may be very many.

    Attributes:
        key: The last two.
        known: The fields of the facts kept of each transcript, by name.
    """

    def __init__(self, root: str, directory: str, *, children: bool = False) -> None:
        self.key = directory, children
        self._directory = directory
        self._path = _path(root, directory, children=children)
        self.known = _load(self._path, directory)
        self._changed = False

    def keep(self, facts: Facts) -> None:
        """Keep what was just read of a transcript, unless it was written a moment ago."""
        if clock.epoch_ns() - max(facts.mtime_ns, facts.ctime_ns) > _SETTLED_NS and _can_be_written(facts):
            self.known[facts.name] = list(facts)
            self._changed = True

    def forget_all_but(self, found: list[Found]) -> None:
        """Drop what is kept of transcripts that are gone."""
        if len(self.known) > len(found) or not all_known(found):
            for name in self.known.keys() - {name for _, name, *_ in found}:
                del self.known[name]
                self._changed = True

    def save(self) -> None:
        """Write what changed; where that is not possible, nothing happens."""
        if not self._changed:
            return
        from sessions import files  # noqa: PLC0415 - most lists find all in it

        there = _names(self._directory)  # what was removed since it was found leaves nothing here
        body = codec.dumps([row for name, row in self.known.items() if name in there])
        head = _head(self._directory, body)
        with contextlib.suppress(OSError):
            if len(body) + len(head) >= _LARGEST_BYTES:
                os.unlink(self._path)
                return
            place, name = os.path.split(self._path)
            files.make_directory(place)
            opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:  # by its name in the directory: a link there is replaced, never what it leads to
                write = partial(files.write_all, data=head + b"\n" + body)
                files.rewrite(name, write, dir_fd=opened, durable=False)
            finally:
                os.close(opened)
            self._changed = False


def _path(root: str, directory: str, *, children: bool) -> str:
    name = zlib.crc32(os.fsencode(directory.removeprefix(root)))  # two of one name: their rows are read anew
    return f"{root}/cache/{'subagents' if children else 'rows'}/{name:08x}.json"


def _load(path: str, directory: str) -> dict[str, Found]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return {}
    try:
        size = os.fstat(descriptor).st_size
        head, _, body = (lines.read(descriptor, 0, size) if size <= _LARGEST_BYTES else b"").partition(b"\n")
        if not head.startswith(_BEGIN) or head != _head(directory, body):
            return {}
        kept: Any = codec.glance(body)
        known = {row[1]: row for row in kept}
        return known if set(map(len, kept)) <= {len(Facts._fields)} else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    finally:
        os.close(descriptor)


def sweep(root: Path) -> None:
    """Remove the caches of projects that are gone, and what crashes left beside caches."""
    for place in (root / "cache" / "rows", root / "cache" / "subagents"):
        for name in _names(str(place)):
            with contextlib.suppress(OSError):
                if not _is_of_use(place / name):
                    os.unlink(place / name)


def _is_of_use(path: Path) -> bool:
    from sessions import files  # noqa: PLC0415 - as above

    if files.is_temporary(path.name):
        return clock.epoch_ns() - path.lstat().st_mtime_ns < _ABANDONED_NS
    try:
        with path.open("rb") as file:
            said = codec.glance(file.readline(1 << 16))
        return isinstance(said, dict) and os.path.isdir(said["of"][0])
    except (ValueError, LookupError, TypeError):
        return False


def _names(directory: str) -> set[str]:
    try:
        return set(os.listdir(directory))
    except OSError:
        return set()


def _head(directory: str, body: bytes) -> bytes:
    return _BEGIN + codec.dumps([directory, zlib.crc32(body)]) + b"}"


def _can_be_written(facts: Facts) -> bool:
    """Tell whether JSON can say it: not bytes that are no text, half a character, a number beyond 64 bits."""
    if (facts.total_tokens or 0).bit_length() > _BITS:
        return False
    try:
        "".join(each for each in facts if isinstance(each, str)).encode()
    except UnicodeEncodeError:
        return False
    return True
