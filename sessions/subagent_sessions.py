"""The sessions of subagents: how one begins, in the host or in a process that a task started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sessions import clock, ids, paths
from sessions.errors import ConflictError
from sessions.place import Place
from sessions.rewind.log import CaptureLog
from sessions.subagents.record import ChildRecord, TaskRecord
from sessions.transcript.header import header_line
from sessions.transcript.outline import Header, Link


def begun(place: Place, link: Link, *, turn: int, label: str, task: str | None, log: CaptureLog) -> Place:
    """Put a new session of a subagent on the root's timeline; return where it will lie. Nothing else is written.

    Args:
        place: The root's place, or that of another subagent.
        link: What it hangs on.
        turn: The number of the root's turn it belongs to.
        task: The task whose process works in it; None for work inside the host.
        log: The root's timeline.

    Raises:
        ConflictError: A rewind took the turn, or the task, away.
    """
    name, now = ids.new_child_id(), clock.now()
    branch = place.header.git_branch if place.header is not None else None
    line = header_line(place.workdir, created_at=clock.timestamp(now), git_branch=branch, link=link)
    with log.locked() as timeline:
        live = timeline.tasks.get(task) if task is not None else None
        if turn not in timeline.turns or (task is not None and (live is None or live.ended is not None)):
            raise ConflictError("what would start this subagent was removed by a rewind, or has ended")
        record = ChildRecord(name, -1, turn, link.parent, link.spawned_by, label, task)
        log.append([record.to_record()], sync=False)
    return replace(
        place,
        session_id=name,
        transcript=paths.beside(place.transcript, name),
        header=Header(line, 0, place.workdir, clock.timestamp(now), branch, link=link),
        new_header=line,
        created_at=now,
    )


def task_of(log: CaptureLog, task: str) -> TaskRecord:
    """Return a task that a process says it belongs to.

    Raises:
        ConflictError: A rewind took it away, or the session is gone.
    """
    record = log.read().tasks.get(task)
    if record is None:
        raise ConflictError(f"{task} was removed by a rewind, or its session is gone")
    return record


def transcript_of_root(transcript: Path, link: Link | None) -> Path:
    """Return the transcript of the root of a session; its own where it is one."""
    return transcript if link is None else paths.beside(transcript, link.root)
