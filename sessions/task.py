"""A background task as it is now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sessions import clock
from sessions.rewind.timeline import Timeline
from sessions.subagents.identity import is_alive
from sessions.subagents.record import State, TaskRecord
from sessions.subagents.roster import Roster


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it is now.

    Attributes:
        id: ``task-`` and eight hexadecimal digits, never given to another one.
        label: What it is called.
        state: ``running``, ``completed``, ``failed``, ``cancelled``, or ``lost`` (nobody knows how it ended).
        pid: The process of its program, or of the host it runs inside; None where it is gone.
        processes: How many processes of it live, its own descendants included; also of one that ended and left some.
        spawned_by: The message that started it.
        prompt: What its turn's prompt says; None where the conversation has it no more.
        started_at: When it was started.
        ended_at: When it ended; None while it runs, and where nobody knows.
        runtime_s: How long it ran, or has been running, in seconds; None where nobody knows.
        log: Where its output lies; None where it is not ours.
        exit_code: What its program exited with, negative where a signal ended it; None where nobody knows.
        session: The id of the session that started it: this one, or a subagent's.
    """

    id: str
    label: str
    state: State
    pid: int | None
    processes: int
    spawned_by: str
    prompt: str | None
    started_at: datetime | None
    ended_at: datetime | None
    runtime_s: float | None
    log: Path | None
    exit_code: int | None
    session: str

    def to_json(self) -> dict[str, object]:
        """Return the attributes as JSON has them: times as text, ``log`` as a path."""
        return {
            "id": self.id,
            "label": self.label,
            "state": self.state,
            "pid": self.pid,
            "processes": self.processes,
            "spawned_by": self.spawned_by,
            "prompt": self.prompt,
            "started_at": clock.timestamp(self.started_at) if self.started_at is not None else None,
            "ended_at": clock.timestamp(self.ended_at) if self.ended_at is not None else None,
            "runtime_s": self.runtime_s,
            "log": str(self.log) if self.log is not None else None,
            "exit_code": self.exit_code,
            "session": self.session,
        }


def described(
    tasks: Sequence[TaskRecord], timeline: Timeline, roster: Roster, prompt_of: Callable[[str], str | None]
) -> list[Task]:
    """Look at tasks on record: the table of processes is read once, each prompt too.

    Args:
        prompt_of: Reads the prompt with a message id; None where the conversation has it no more.
    """
    there = roster.processes(tasks)
    now = clock.now()
    begun = {task.turn: timeline.turns.get(task.turn) for task in tasks}
    prompts = {number: prompt_of(turn.message_id) for number, turn in begun.items() if turn is not None}
    return [_described(task, roster, len(there.get(task.id, ())), prompts.get(task.turn), now) for task in tasks]


def _described(task: TaskRecord, roster: Roster, processes: int, prompt: str | None, now: datetime) -> Task:
    ended = roster.state(task)
    folder = roster.folder(task.id)
    started = folder.started()
    started_at = clock.parse(task.at)
    ended_at = clock.parse(ended.at) if ended is not None and ended.at else None
    until = now if ended is None else ended_at
    runtime = (until - started_at).total_seconds() if until is not None and started_at is not None else None
    return Task(
        id=task.id,
        label=task.label,
        state="running" if ended is None else ended.state,
        pid=started.main.pid if ended is None and started is not None and is_alive(started.main) else None,
        processes=processes,
        spawned_by=task.spawned_by,
        prompt=prompt,
        started_at=started_at,
        ended_at=ended_at,
        runtime_s=max(runtime, 0.0) if runtime is not None else None,
        log=folder.log if task.how == "spawn" else None,
        exit_code=ended.code if ended is not None else None,
        session=task.session,
    )
