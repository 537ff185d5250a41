"""Which transcripts lie under a root, by their names and what the system says of a file; none is looked into."""

from __future__ import annotations

import operator
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sessions import ids
from sessions.rewind.log import TIMELINE

BY_ACTIVITY = operator.attrgetter("mtime_ns", "name")
"""What lists are ordered by, the greatest first: when a file was written last, then its name."""

_SUFFIX = ".jsonl"
_SIDECAR = ".ckpt"


class Found(NamedTuple):
    """A transcript in a project's directory.

    Attributes:
        directory: The project's.
        name: Of the file in it.
        size: As the system says, like what follows; of a link, that of the file it leads to.
    """

    directory: str
    name: str
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{self.directory}/{self.name}"


def found_in(directory: str, *, children: bool = False, unread: list[OSError] | None = None) -> Iterator[Found]:
    """Yield the transcripts in a project's directory, in no order: those of subagents, or all others.

    Args:
        unread: Gets why the directory, or a file in it, cannot be looked at; a missing one has none.
    """
    for entry in _entries(directory, unread):
        if not is_transcript(entry.name, children=children):
            continue
        try:
            said = entry.stat()
        except OSError as error:
            if entry.is_symlink() or not isinstance(error, FileNotFoundError):  # else it was just removed
                _note(error, unread)
            continue
        if stat.S_ISREG(said.st_mode):
            yield Found(directory, entry.name, said.st_size, said.st_mtime_ns, said.st_ino, said.st_ctime_ns)


def directories(root: Path, unread: list[OSError] | None = None) -> list[str]:
    """Return the directories that transcripts lie in, sorted, ``projects`` itself first: that of sessions in ``/``."""
    projects = str(root / "projects")
    entries = list(_entries(projects, unread))
    names = {entry.name for entry in entries}
    own = {name for name in names if name.endswith(_SIDECAR) and name.removesuffix(_SIDECAR) + _SUFFIX in names}
    return [projects, *sorted(entry.path for entry in entries if entry.name not in own and entry.is_dir())]


def transcripts(root: Path, *, children: bool = False, unread: list[OSError] | None = None) -> list[Path]:
    """Return the transcripts of all projects, the one written last first: those of subagents, or all others.

    Args:
        unread: As for ``found_in``.
    """
    places = directories(root, unread)
    found = [each for place in places for each in found_in(place, children=children, unread=unread)]
    return [Path(each.path) for each in sorted(found, key=BY_ACTIVITY, reverse=True)]


def named(root: Path, session_id: str) -> list[Path]:
    """Return the transcripts of sessions with an id, in all projects, the one written last first."""
    if not ids.is_safe(session_id):
        return [path for path in transcripts(root) if id_of(path) == session_id]
    name = session_id + _SUFFIX
    if not is_transcript(name, children=name.startswith(ids.CHILD_PREFIX)):
        return []
    places = (os.path.join(directory, name) for directory in directories(root))
    return sorted((Path(path) for path in places if os.path.isfile(path)), key=_written, reverse=True)


def is_transcript(name: str, *, children: bool) -> bool:
    """Tell whether a file of that name in a project's directory is a transcript: a subagent's, or another."""
    return (
        name.endswith(_SUFFIX)
        and name.startswith(ids.CHILD_PREFIX) == children
        and not name.startswith(".")
        and name != TIMELINE
    )


def id_of(path: Path) -> str:
    """Return the id of the session whose transcript this is."""
    return path.name.removesuffix(_SUFFIX)


def _entries(directory: str, unread: list[OSError] | None) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except FileNotFoundError:
        return
    except OSError as error:
        _note(error, unread)


def _note(error: OSError, unread: list[OSError] | None) -> None:
    if unread is not None:
        unread.append(error)


def _written(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:
        return 0, path.name
