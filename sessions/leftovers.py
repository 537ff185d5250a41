"""Sidecars without a transcript: what a crash left of a session that was being made, or deleted.

Such a session is not there: no list shows it. A **mark** in the sidecar says that its transcript is not to be missed: a
deletion writes it before it removes the transcript, a fork removes it when its transcript is in place. Until then the
sidecar is nobody's, unless somebody holds its lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from sessions import files, paths
from sessions.errors import ConflictError
from sessions.ids import CHILD_PREFIX
from sessions.ownership import CAPTURES_LOCK, LOCK, Ownership
from sessions.transcript import reader, untitled
from sessions.transcript.writer import Writer

_MARK = "deleted"
_TRIES = 20
_SUFFIX = ".ckpt"
_TRANSCRIPT = ".jsonl"


def mark(sidecar: Path) -> None:
    """Say, durably, that the sidecar goes unless a transcript lies beside it."""
    files.rewrite(sidecar / _MARK, lambda _fd: None)


def unmark(sidecar: Path) -> None:
    """Take that back; a mark that stays beside a transcript means nothing."""
    with contextlib.suppress(OSError):
        os.unlink(sidecar / _MARK)


class Families:
    """Which transcripts of subagents belong to which session: each is read once, however many sessions are asked about.

    A directory is listed each time it is asked about, so one that came meanwhile is seen.
    """

    def __init__(self) -> None:
        self._read: dict[Path, set[str]] = {}  # names, by directory
        self._theirs: dict[Path, set[str]] = {}  # names, by the root's transcript

    def of(self, transcript: Path) -> list[Path]:
        """Return the transcripts of the subagents of a session, wherever in the tree below it, sorted.

        Those that are returned were read just now: their headers name the session.
        """
        directory, root = transcript.parent, session_of(paths.sidecar(transcript))
        read = self._read.setdefault(directory, set())
        try:
            names = {name for name in os.listdir(directory) if name not in read and _is_child(name)}
        except OSError:
            return []
        for name in names:  # of those whose header cannot be read yet it is tried again
            found = _root_of(directory / name)
            if found is not None:
                read.add(name)
                self._theirs.setdefault(directory / f"{found}{_TRANSCRIPT}", set()).add(name)
        theirs = (directory / name for name in sorted(self._theirs.get(transcript, ())))
        return [path for path in theirs if path.name in names or _root_of(path) == root]


def remove(sidecar: Path, families: Families | None = None) -> None:
    """Remove a marked sidecar with the sessions of its subagents, the mark and the lock last.

    A crash meanwhile leaves what ``sweep`` removes. Somebody who just then asks for the lock may make it anew: it is
    removed once more.

    Args:
        families: Spares reading all subagents' transcripts again where several sessions of a directory go.

    Raises:
        ConflictError: The sidecar is a link; see ``refuse_link``.
        OSError: Not all could be removed.
    """
    refuse_link(sidecar)
    for child in (families or Families()).of(transcript_of(sidecar)):
        os.unlink(child)
        if not paths.sidecar(child).is_symlink():  # what a link leads to is not ours
            shutil.rmtree(paths.sidecar(child), ignore_errors=True)
    for entry in list(os.scandir(sidecar)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name not in {_MARK, LOCK}:
            os.unlink(entry.path)
    for _ in range(_TRIES):
        for name in (_MARK, LOCK):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(sidecar / name)
        with contextlib.suppress(OSError):
            os.rmdir(sidecar)
            return
    os.rmdir(sidecar)


def refuse_link(sidecar: Path) -> None:
    """Refuse to remove a sidecar that is a link: what it leads to may be anything.

    Raises:
        ConflictError: It is one.
    """
    if sidecar.is_symlink():
        raise ConflictError(f"{sidecar} is a symbolic link, and what it leads to is left alone: remove the link first")


def children_of(transcript: Path) -> list[Path]:
    """Return the transcripts of the subagents of a session, wherever in the tree below it, sorted."""
    return Families().of(transcript)


def _is_child(name: str) -> bool:
    return name.startswith(CHILD_PREFIX) and name.endswith(_TRANSCRIPT)


def _root_of(child: Path) -> str | None:
    try:
        header = reader.head(child)
    except OSError:
        return None
    return header.link.root if header is not None and header.link is not None else None


def nobodys(root: Path) -> Iterator[Path]:
    """Yield every sidecar that is nobody's, below the root of a store, sorted."""
    projects = root / "projects"
    for sidecar in sorted([*projects.glob(f"*{_SUFFIX}"), *projects.glob(f"*/*{_SUFFIX}")]):
        if _is_nobodys(sidecar, transcript_of(sidecar)):
            yield sidecar


def session_of(sidecar: Path) -> str:
    """Return the id of the session a sidecar belongs to."""
    return sidecar.name.removesuffix(_SUFFIX)


def sweep(sidecar: Path, families: Families | None = None) -> bool:
    """Remove a sidecar if nobody holds its lock and it still is nobody's; tell whether it held anything.

    Args:
        families: As for ``remove``.

    Raises:
        OSError: Not all could be removed.
    """
    transcript = transcript_of(sidecar)
    owner = Ownership(sidecar)
    session_id = session_of(sidecar)
    if not sidecar.is_dir():  # taking the lock would make it again
        return False
    try:
        owner.take(session_id, then=lambda: None)
    except ConflictError:
        return False
    try:
        if not _is_nobodys(sidecar, transcript):
            return False
        Writer(transcript, sidecar=sidecar, session_id=session_id, header=None).sweep()
        held = (sidecar / _MARK).exists()
        remove(sidecar, families)
        return held
    finally:
        owner.give_back()


def sweep_marked(root: Path) -> None:
    """Remove what is left of deleted sessions, as far as that goes. Others being made just now are not disturbed."""
    families = Families()
    for sidecar in nobodys(root):
        if (sidecar / _MARK).exists():
            with contextlib.suppress(OSError):
                sweep(sidecar, families)


def transcript_of(sidecar: Path) -> Path:
    """Return where the transcript lies, or lay, that a sidecar belongs to."""
    return sidecar.with_name(f"{session_of(sidecar)}{_TRANSCRIPT}")


def _is_nobodys(sidecar: Path, transcript: Path) -> bool:
    try:
        if transcript.exists() or sidecar.is_symlink() or not sidecar.is_dir():
            return False
        names = os.listdir(sidecar)
    except OSError:
        return False
    if not names:  # a project's directory may be called like a sidecar
        return sidecar.parent.name != "projects"
    if _MARK in names and any(sidecar.parent.glob(f"*{_SUFFIX}/intent.json")):
        return False  # it may be the fork of a rewind that is not finished
    return _MARK in names or all(
        name in {LOCK, CAPTURES_LOCK, untitled.NAME} or files.is_temporary(name) for name in names
    )
