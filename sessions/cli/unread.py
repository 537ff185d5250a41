"""What a list leaves out because the system does not let it be read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessions import paths
from sessions.cli import output
from sessions.picker.text import visible_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from sessions.store import SessionStore


def warn(store: SessionStore, *, everywhere: bool, named: Collection[str]) -> None:
    """Print a warning for each transcript, and each directory of transcripts, that cannot be read.

    Args:
        everywhere: Of all projects, not of this directory only.
        named: The ids of those that were read, or named, already.
    """
    for path, error in found(store, everywhere=everywhere, named=named):
        output.warn(f"cannot be read, so it is left out: {visible_path(str(path))}: {error.strerror}")


def found(store: SessionStore, *, everywhere: bool, named: Collection[str]) -> Iterator[tuple[Path, OSError]]:
    """Yield transcripts and directories that cannot be read, with why."""
    projects = store.root / "projects"
    if not everywhere:
        yield from _below(paths.project_directory(store.root, os.path.realpath(os.curdir)), named)
        return
    yield from _below(projects, named)
    try:
        directories = sorted(entry.path for entry in os.scandir(projects) if _is_project(entry))
    except OSError:
        return
    for directory in directories:
        yield from _below(projects / directory, named)


def _below(directory: Path, named: Collection[str]) -> Iterator[tuple[Path, OSError]]:
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    except OSError as error:
        yield directory, error
        return
    for name in names:
        if not name.endswith(".jsonl") or name.startswith((".", "subagent-")) or name.removesuffix(".jsonl") in named:
            continue
        path = directory / name
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            yield path, error


def _is_project(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and not entry.name.endswith(".ckpt")
