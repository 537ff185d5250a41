"""Which transcripts lie under a root, and which of them a reference names. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from sessions import ids, paths
from sessions.errors import AmbiguousError, NotFoundError, RequestError
from sessions.rewind.log import TIMELINE
from sessions.transcript import reader


def find(root: Path, reference: str) -> Path:
    """Return the transcript a reference names.

    Args:
        reference: The id of a session, the beginning of its id, or its title; tried in this order. Of two projects with
            a session of that id, the one touched last.

    Raises:
        RequestError: It is empty.
        NotFoundError: There is no such session.
        AmbiguousError: There are several.
    """
    if not reference:
        raise RequestError("an empty session reference was given")
    if reference.startswith(ids.CHILD_PREFIX):
        children = [path for path in transcripts(root, children=True) if id_of(path).startswith(reference)]
        if len(children) == 1 or (children := [path for path in children if id_of(path) == reference]):
            return children[0]
    listed = by_activity(transcripts(root))
    exact = [path for path in listed if id_of(path) == reference]
    if exact:
        return exact[0]
    begins = [path for path in listed if id_of(path).startswith(reference)]
    if len(begins) == 1:
        return begins[0]
    titled = [path for path in listed if _title_of(path) == reference]
    if len(titled) == 1:
        return titled[0]
    if candidates := titled or begins:
        raise AmbiguousError("session", reference, [id_of(path) for path in candidates])
    raise NotFoundError("session", reference, hint="'sessions list --all' shows them")


def transcripts(root: Path, *, children: bool = False) -> Iterator[Path]:
    """Yield the transcripts of all projects: those of subagents, or all others."""
    projects = root / "projects"
    yield from transcripts_in(projects, children=children)
    try:
        entries = sorted(os.scandir(projects), key=lambda entry: entry.name)
    except OSError:
        return
    sidecars = {
        paths.sidecar(path).name for which in (False, True) for path in transcripts_in(projects, children=which)
    }
    for entry in entries:
        if entry.is_dir() and entry.name not in sidecars:
            yield from transcripts_in(Path(entry.path), children=children)


def transcripts_in(directory: Path, *, children: bool = False) -> Iterator[Path]:
    """Yield the transcripts in a project's directory: those of subagents, or all others."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        if not name.endswith(".jsonl") or name.startswith(".") or name == TIMELINE:
            continue
        path = directory / name
        if name.startswith(ids.CHILD_PREFIX) == children and path.is_file():
            yield path


def by_activity(found: Iterable[Path]) -> list[Path]:
    """Return transcripts in the order of lists: the one written last first."""
    return sorted(found, key=_written, reverse=True)


def id_of(path: Path) -> str:
    """Return the id of the session whose transcript this is."""
    return path.name.removesuffix(".jsonl")


def _title_of(path: Path) -> str | None:
    try:
        return reader.summary(path).title
    except OSError:
        return None


def _written(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:
        return 0, path.name
