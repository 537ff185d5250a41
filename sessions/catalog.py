"""Which transcripts lie under a root, by their names and what the system says of a file; none is looked into."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sessions import ids, paths

_SUFFIX = ".jsonl"
_SIDECAR = ".ckpt"


Known = Sequence[Any]
"""What was kept of a transcript. It begins with the state it was read in: mtime_ns, size, inode, ctime_ns."""

Found = tuple[int, str, str, Known | None]
"""A transcript: when it was written last (mtime_ns), its name, the project's directory, what is known of it.

The greatest is the first of a list. What is known is None unless the system still says the same state of the file. A
plain tuple: there may be a hundred thousand.
"""


def found_in(
    directory: str,
    *,
    children: bool = False,
    known: Mapping[str, Known] | None = None,
    unread: list[OSError] | None = None,
) -> list[Found]:
    """Return the transcripts in a project's directory, in no order: those of subagents, or all others.

    Args:
        known: What was kept of them, by name.
        unread: Gets why the directory, or a file in it, cannot be looked at; a missing one has none.
    """
    found: list[Found] = []
    kept = {} if known is None else known
    for entry in _entries(directory, unread):
        name = entry.name
        of = kept.get(name)
        if of is None and (name.startswith(ids.CHILD_PREFIX) != children or not is_transcript(name)):
            continue
        try:
            now = entry.stat()
        except OSError as error:
            if entry.is_symlink() or not isinstance(error, FileNotFoundError):  # else it was just removed
                _note(error, unread)
            continue
        written = now.st_mtime_ns
        if (
            of is not None
            and of[0] == written
            and of[1] == now.st_size
            and of[2] == now.st_ino
            and of[3] == now.st_ctime_ns
        ):
            found.append((written, name, directory, of))
        elif stat.S_ISREG(now.st_mode):
            found.append((written, name, directory, None))
    return found


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
    found.sort(reverse=True)
    return [Path(directory, name) for _, name, directory, _ in found]


def named(root: Path, session_id: str) -> list[Path]:
    """Return the transcripts of sessions with an id, in all projects, the one written last first."""
    if not ids.is_safe(session_id):
        return [path for path in transcripts(root) if id_of(path) == session_id]
    name = session_id + _SUFFIX
    if not is_transcript(name):
        return []
    places = (os.path.join(directory, name) for directory in directories(root))
    return sorted((Path(path) for path in places if os.path.isfile(path)), key=_written, reverse=True)


def is_transcript(name: str) -> bool:
    """Tell whether a file of that name in a project's directory is a transcript."""
    return name.endswith(_SUFFIX) and name[0] != "." and name != paths.TIMELINE


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
