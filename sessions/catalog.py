"""Which transcripts lie under a root, by their names and what the system says of a file; none is looked into."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from sessions import ids, paths

_SUFFIX = ".jsonl"
_SIDECAR = ".ckpt"


STATE = ("mtime_ns", "name", "directory", "size", "inode", "ctime_ns")
"""The fields that say which file it is, and in which state: what is kept of a transcript begins with them."""

Found = list[Any]
"""A transcript: when it was written last, its name and the project's directory, the first three fields of ``STATE``.

Where it was known before and the system still says the same of the file, all that was kept of it follows. The greatest
is the first of a list. A plain list: there may be a hundred thousand.
"""

_MTIME, _NAME, _DIRECTORY, _SIZE, _INODE, _CTIME = range(len(STATE))
_PLACE = 3  # so many fields say where it lies
_WRITTEN = itemgetter(_MTIME)


def is_known(found: Found) -> bool:
    """Tell whether a transcript was known before and is as it was."""
    return len(found) > _PLACE


def all_known(found: list[Found]) -> bool:
    """Tell whether all of them were."""
    return min(map(len, found), default=_PLACE + 1) > _PLACE


def sort(found: list[Found]) -> None:
    """Put transcripts in list order: the one written last first; of one moment, by their names backwards."""
    found.sort(key=_WRITTEN, reverse=True)
    if len(set(map(_WRITTEN, found))) < len(found):  # seldom, so that comparing one number does for most lists
        found.sort(key=itemgetter(_MTIME, _NAME, _DIRECTORY), reverse=True)


def path_of(found: Sequence[Any]) -> str:
    """Return where a transcript lies."""
    return f"{found[_DIRECTORY]}/{found[_NAME]}"


def found_in(
    directory: str,
    *,
    children: bool = False,
    known: Mapping[str, Found] | None = None,
    unread: list[OSError] | None = None,
) -> list[Found]:
    """Return the transcripts in a project's directory, in no order: those of subagents, or all others.

    Args:
        known: What was kept of them, by name.
        unread: Gets why the directory, or a file in it, cannot be looked at; a missing one has none.
    """
    found: list[Found] = []
    kept = ({} if known is None else known).get
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    except OSError as error:
        _note(error, unread)
        return []
    try:  # by its descriptor: the system then finds each file by its name alone
        with os.scandir(opened) as entries:
            for entry in entries:
                name = entry.name
                of = kept(name)
                if of is None and (name.startswith(ids.CHILD_PREFIX) != children or not is_transcript(name)):
                    continue
                try:
                    now = entry.stat()
                except OSError as error:
                    if entry.is_symlink() or not isinstance(error, FileNotFoundError):  # else it was just removed
                        _note(OSError(error.errno, error.strerror, f"{directory}/{name}"), unread)
                    continue
                if (
                    of is not None
                    and of[_MTIME] == now.st_mtime_ns
                    and of[_SIZE] == now.st_size
                    and of[_INODE] == now.st_ino
                    and of[_CTIME] == now.st_ctime_ns
                ):
                    found.append(of)
                elif stat.S_ISREG(now.st_mode):
                    found.append([now.st_mtime_ns, name, directory])
    except OSError as error:
        _note(OSError(error.errno, error.strerror, directory), unread)
    finally:
        os.close(opened)
    return found


def directories(root: Path, unread: list[OSError] | None = None) -> list[str]:
    """Return the directories that transcripts lie in, sorted, ``projects`` itself first: that of sessions in ``/``."""
    projects = str(root / "projects")
    entries = list(_entries(projects, unread))
    names = {entry.name for entry in entries}
    own = {name for name in names if name.endswith(_SIDECAR) and name.removesuffix(_SIDECAR) + _SUFFIX in names}
    return [
        projects,
        *sorted(entry.path for entry in entries if entry.name not in own and _is_directory(entry, unread)),
    ]


def transcripts(root: Path, *, children: bool = False, unread: list[OSError] | None = None) -> list[Path]:
    """Return the transcripts of all projects, the one written last first: those of subagents, or all others.

    Args:
        unread: As for ``found_in``.
    """
    places = directories(root, unread)
    found = [each for place in places for each in found_in(place, children=children, unread=unread)]
    sort(found)
    return [Path(path_of(each)) for each in found]


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


def _is_directory(entry: os.DirEntry[str], unread: list[OSError] | None) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:  # a link that leads in a circle
        _note(error, unread)
        return False


def _note(error: OSError, unread: list[OSError] | None) -> None:
    if unread is not None:
        unread.append(error)


def _written(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:
        return 0, path.name
