"""Which folders of tasks nothing needs any more. Looks, changes nothing."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from pathlib import Path

from sessions import clock
from sessions.ids import TASK_PREFIX, is_safe
from sessions.subagents.cancelling import Quarry, found, quarry_of
from sessions.subagents.folder import TaskFolder
from sessions.subagents.identity import is_alive
from sessions.subagents.record import TaskRecord

_STARTING_S = 60.0
"""How long a folder may be there before its task is on record."""


def remains(directory: Path, *, needed: Container[str], removed: Mapping[str, TaskRecord]) -> tuple[str, ...]:
    """Return the tasks whose folders may go, by id, sorted.

    Never one of whose processes somebody may still live, nor one that somebody may be starting.

    Args:
        directory: Where the folders lie.
        needed: The tasks whose folders stay.
        removed: The tasks that were removed, as they were on record. A folder of no task on record was left by a crash.
    """
    unneeded = [task for task in _folders(directory) if task not in needed]
    settled = [task for task in unneeded if task in removed or _age_s(directory / task) > _STARTING_S]
    looked_for = [each for task in settled if (each := _quarry(task, directory, removed.get(task))) is not None]
    there = found(looked_for) if looked_for else {}
    watched = {each.task for each in looked_for if each.supervisor is not None and is_alive(each.supervisor)}
    return tuple(sorted(task for task in settled if not there.get(task) and task not in watched))


def _folders(directory: Path) -> list[str]:
    if directory.is_symlink() or not directory.is_dir():
        return []
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [name for name in names if name.startswith(TASK_PREFIX) and is_safe(name)]


def _age_s(folder: Path) -> float:
    try:
        return clock.now().timestamp() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _quarry(task: str, directory: Path, record: TaskRecord | None) -> Quarry | None:
    """Return what is to be looked for; None where it is known that nobody is there."""
    folder = TaskFolder(directory / task)
    ended = folder.exit()
    if (ended is not None and ended.gone) or (record is not None and record.how == "attach"):
        return None
    return quarry_of(task, folder.started(), record.tag if record is not None else "")
