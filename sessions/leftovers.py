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
_SUFFIX = ".ckpt"
_TRANSCRIPT = ".jsonl"


def mark(sidecar: Path) -> None:
    """Say, durably, that the sidecar goes unless a transcript lies beside it."""
    files.rewrite(sidecar / _MARK, lambda _fd: None)


def unmark(sidecar: Path) -> None:
    """Take that back; a mark that stays beside a transcript means nothing."""
    with contextlib.suppress(OSError):
        os.unlink(sidecar / _MARK)


def remove(sidecar: Path) -> None:
    """Remove a marked sidecar with the sessions of its subagents, the mark and the lock last.

    A crash meanwhile leaves what ``sweep`` removes.

    Raises:
        OSError: Not all could be removed.
    """
    for child in children_of(_transcript_of(sidecar)):
        os.unlink(child)
        shutil.rmtree(paths.sidecar(child), ignore_errors=True)
    for entry in list(os.scandir(sidecar)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name not in {_MARK, LOCK}:
            os.unlink(entry.path)
    for name in (_MARK, LOCK):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(sidecar / name)
    os.rmdir(sidecar)


def children_of(transcript: Path) -> list[Path]:
    """Return the transcripts of the subagents of a session, wherever in the tree below it, sorted."""
    root = transcript.name.removesuffix(_TRANSCRIPT)
    return [path for path in sorted(transcript.parent.glob(f"{CHILD_PREFIX}*{_TRANSCRIPT}")) if _root_of(path) == root]


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
        if _is_nobodys(sidecar, _transcript_of(sidecar)):
            yield sidecar


def session_of(sidecar: Path) -> str:
    """Return the id of the session a sidecar belongs to."""
    return sidecar.name.removesuffix(_SUFFIX)


def sweep(sidecar: Path) -> bool:
    """Remove a sidecar if nobody holds its lock and it still is nobody's; tell whether it held anything.

    Raises:
        OSError: Not all could be removed.
    """
    transcript = _transcript_of(sidecar)
    owner = Ownership(sidecar)
    session_id = session_of(sidecar)
    try:
        owner.take(session_id, then=lambda: None)
    except ConflictError:
        return False
    try:
        if not _is_nobodys(sidecar, transcript):
            return False
        Writer(transcript, sidecar=sidecar, session_id=session_id, header=None).sweep()
        held = (sidecar / _MARK).exists()
        remove(sidecar)
        return held
    finally:
        owner.give_back()


def _transcript_of(sidecar: Path) -> Path:
    return sidecar.with_name(f"{session_of(sidecar)}{_TRANSCRIPT}")


def _is_nobodys(sidecar: Path, transcript: Path) -> bool:
    try:
        if transcript.exists() or not sidecar.is_dir():
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
