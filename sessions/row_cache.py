"""Rows of lists that were read before, kept so that a file that did not change is not opened again.

One file a project's directory, ``<root>/cache/rows/<name>.json``: a line that says what the second one is, and a line
of JSON, a list of rows, each a list of its fields. It may be removed at any time. What it says of a
transcript counts only while the system says of the file what it said then: size, times and inode (device and path are
the directory's). A row of a file written less than two seconds before it was read is not kept: a further write might
leave its times as they are. A cache that is cut, damaged, of another version or that cannot be written changes nothing
but the time a list takes; it is replaced in one step, without waiting for the disk.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from functools import partial
from typing import Any

from sessions import clock
from sessions.catalog import Found, all_known
from sessions.listing import Facts
from sessions.transcript import codec, lines

_VERSION = 1
_BEGIN = codec.dumps({"version": _VERSION, "fields": Facts._fields})[:-1] + b',"of":'
_SETTLED_NS = 2_000_000_000
_LARGEST_BYTES = 32 << 20  # of more sessions than that no cache is kept


class RowCache:
    """The rows kept of one project's directory.

    Args:
        root: The store's.
        directory: The project's.
        children: Whether of the sessions of subagents, which are kept apart: there may be very many.

    Attributes:
        known: The fields of the row kept of each transcript, by its name.
    """

    def __init__(self, root: str, directory: str, *, children: bool = False) -> None:
        self._directory = directory
        self._path = _path(root, directory, children=children)
        self.known: dict[str, Any] = _load(self._path, directory)
        self._changed = False

    def keep(self, facts: Facts) -> None:
        """Keep what was just read of a transcript, unless it was written a moment ago."""
        if clock.epoch_ns() - max(facts.mtime_ns, facts.ctime_ns) > _SETTLED_NS and _can_be_written(facts):
            self.known[facts.name] = facts
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

        body = codec.dumps(list(self.known.values()))
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


def discard(root: str, directory: str, *, children: bool) -> None:
    """Remove what is kept of a project's directory; where that is not possible, the next list drops what is gone."""
    with contextlib.suppress(OSError):
        os.unlink(_path(root, directory, children=children))


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
        kept = codec.glance(body)
    except (OSError, ValueError):
        return {}
    finally:
        os.close(descriptor)
    return {each[1]: each for each in kept} if isinstance(kept, list) else {}


def _head(directory: str, body: bytes) -> bytes:
    return _BEGIN + codec.dumps([directory, zlib.crc32(body)]) + b"}"


def _can_be_written(facts: Facts) -> bool:
    """Tell whether JSON can say it: not what holds bytes that are no text, or half a character."""
    try:
        "".join(each for each in facts if isinstance(each, str)).encode()
    except UnicodeEncodeError:
        return False
    return True
