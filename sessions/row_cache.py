"""Rows of lists that were read before, kept so that a file that did not change is not opened again.

One file a project's directory, ``<root>/cache/rows/<name>.json``: a line that says what the second one is, and a line
of JSON, ``{"<transcript's name>": [the fields of a row's facts]}``. It may be removed at any time. What it says of a
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
from pathlib import Path

from sessions import clock
from sessions.catalog import Found, Known
from sessions.listing import Facts
from sessions.transcript import codec, lines

_VERSION = 1
_SETTLED_NS = 2_000_000_000
_LARGEST_BYTES = 32 << 20  # of more sessions than that no cache is kept


class RowCache:
    """The rows kept of one project's directory.

    Args:
        root: The store's.
        directory: The project's.
        children: Whether of the sessions of subagents, which are kept apart: there may be very many.

    Attributes:
        known: The fields of the facts kept of each transcript, by name.
    """

    def __init__(self, root: Path, directory: str, *, children: bool = False) -> None:
        self._path = _path(root, directory, children=children)
        self.known = _load(self._path)
        self._changed = False

    def keep(self, name: str, facts: Facts) -> None:
        """Keep what was just read of a transcript, unless it was written a moment ago."""
        if clock.epoch_ns() - max(facts.mtime_ns, facts.ctime_ns) > _SETTLED_NS and _can_be_written(name, facts):
            self.known[name] = facts
            self._changed = True

    def forget_all_but(self, found: list[Found]) -> None:
        """Drop what is kept of transcripts that are gone."""
        if len(self.known) > sum(of is not None for _, _, _, of in found):
            for name in self.known.keys() - {name for _, name, _, _ in found}:
                del self.known[name]
                self._changed = True

    def save(self) -> None:
        """Write what changed; where that is not possible, nothing happens."""
        if not self._changed:
            return
        from sessions import files  # noqa: PLC0415 - most lists find all in it

        body = codec.dumps(self.known)
        head = codec.dumps(_said_of(body))
        with contextlib.suppress(OSError):
            if len(body) + len(head) >= _LARGEST_BYTES:
                self._path.unlink(missing_ok=True)
                return
            files.make_directory(self._path.parent)
            place = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:  # by its name in the directory: a link there is replaced, never what it leads to
                write = partial(files.write_all, data=head + b"\n" + body)
                files.rewrite(self._path.name, write, dir_fd=place, durable=False)
            finally:
                os.close(place)
            self._changed = False


def discard(root: Path, directory: str, *, children: bool) -> None:
    """Remove what is kept of a project's directory; where that is not possible, the next list drops what is gone."""
    with contextlib.suppress(OSError):
        _path(root, directory, children=children).unlink()


def _path(root: Path, directory: str, *, children: bool) -> Path:
    name = zlib.crc32(os.fsencode(directory.removeprefix(str(root))))  # two of one name: their rows are read anew
    return root / "cache" / ("subagents" if children else "rows") / f"{name:08x}.json"


def _load(path: Path) -> dict[str, Known]:
    try:
        with lines.opened(path) as (descriptor, size):
            head, _, body = (lines.read(descriptor, 0, size) if size <= _LARGEST_BYTES else b"").partition(b"\n")
        if codec.glance(head) != _said_of(body):
            return {}
        kept = codec.glance(body)
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _said_of(body: bytes) -> dict[str, object]:
    return {"version": _VERSION, "fields": list(Facts._fields), "crc32": zlib.crc32(body)}


def _can_be_written(name: str, facts: Facts) -> bool:
    """Tell whether JSON can say it: not what holds bytes that are no text, or half a character."""
    try:
        "".join([name, *(each for each in facts if isinstance(each, str))]).encode()
    except UnicodeEncodeError:
        return False
    return True
