"""What is on record of a task and of a subagent's session: plain values. Pure.

Both have their place on the timeline of the root session, in the turn whose message started them; what a task's
processes are and how they ended lies in the task's own folder (`sessions.subagents.folder`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from sessions.ids import CHILD_PREFIX, TASK_PREFIX, is_safe

How = Literal["spawn", "adopt", "attach"]
State = Literal["running", "completed", "failed", "cancelled", "lost"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a task ended, once that is settled.

    Attributes:
        state: Any but ``running``.
        code: The exit code of its program; negative where a signal ended it; None where nobody knows.
        at: When, as a transcript spells it; None where nobody knows.
        why: What work inside the host failed with; may be empty.
    """

    state: State
    code: int | None = None
    at: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as it was started.

    Attributes:
        id: ``task-`` and eight hexadecimal digits, never given to another one.
        seq: Its place on the timeline.
        turn: The number of the turn it belongs to.
        session: The id of the session that started it: the root, or a subagent's.
        spawned_by: The message that started it.
        label: What to call it; one line.
        how: ``spawn``: a program under a supervisor of ours; ``adopt``: a process the host started; ``attach``: work
            inside the host.
        argv: What was started; empty for work inside the host.
        edits: The identities of the files and directories captured around it.
        captured: Whether what it does to files is captured: by ``edits``, or because it uses this library itself.
        tag: What its processes carry in their environment; empty where they carry nothing.
        at: When it was started, as a transcript spells it.
        works_in: Of work inside the host: the subagent's session it works in; empty where nobody said.
        ended: How it ended; None while that is not settled.
    """

    id: str
    seq: int
    turn: int
    session: str
    spawned_by: str
    label: str
    how: How
    argv: tuple[str, ...]
    edits: tuple[str, ...]
    captured: bool
    tag: str
    at: str
    works_in: str = ""
    ended: Ended | None = None

    def to_record(self) -> dict[str, object]:
        """Return the record of its start, without its place."""
        return {
            "kind": "task",
            "task": self.id,
            "turn": self.turn,
            "session": self.session,
            "spawned_by": self.spawned_by,
            "label": self.label,
            "how": self.how,
            "argv": list(self.argv),
            "edits": list(self.edits),
            "captured": self.captured,
            "tag": self.tag,
            "at": self.at,
        } | ({"works_in": self.works_in} if self.works_in else {})


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """A subagent's session.

    Attributes:
        id: The id of its session.
        seq: Its place on the timeline of the root.
        turn: The number of the root's turn it belongs to: its edits are that turn's.
        parent: The session that started it: the root, or another subagent's.
        spawned_by: The message that started it.
        label: What to call it; may be empty.
        task: The task whose process works in it; None for work inside the host.
    """

    id: str
    seq: int
    turn: int
    parent: str
    spawned_by: str
    label: str = ""
    task: str | None = None

    def to_record(self) -> dict[str, object]:
        """Return the record of its start, without its place."""
        return {
            "kind": "child",
            "session": self.id,
            "turn": self.turn,
            "parent": self.parent,
            "spawned_by": self.spawned_by,
            "label": self.label,
            "task": self.task,
        }


def ended_record(task: str, ended: Ended) -> dict[str, object]:
    """Return the record that settles how a task ended."""
    record: dict[str, object] = {
        "kind": "ended",
        "task": task,
        "state": ended.state,
        "code": ended.code,
        "at": ended.at,
    }
    return record | ({"why": ended.why} if ended.why else {})


def task_from(seq: int, said: Mapping[str, object]) -> TaskRecord:
    """Return the task a record tells of.

    Raises:
        ValueError: It tells of none.
    """
    how = _text(said, "how")
    if how not in get_args(How):
        raise ValueError(f"no way to start a task: {how!r}")
    return TaskRecord(
        id=_id(said, "task", TASK_PREFIX),
        seq=seq,
        turn=_number(said, "turn"),
        session=_text(said, "session"),
        spawned_by=_text(said, "spawned_by"),
        label=_text(said, "label"),
        how=cast("How", how),
        argv=_texts(said, "argv"),
        edits=_texts(said, "edits"),
        captured=said.get("captured") is True,
        tag=_text(said, "tag"),
        at=_text(said, "at"),
        works_in=_id(said, "works_in", CHILD_PREFIX) if "works_in" in said else "",
    )


def child_from(seq: int, said: Mapping[str, object]) -> ChildRecord:
    """Return the subagent's session a record tells of.

    Raises:
        ValueError: It tells of none.
    """
    task = said.get("task")
    return ChildRecord(
        id=_id(said, "session", CHILD_PREFIX),
        seq=seq,
        turn=_number(said, "turn"),
        parent=_text(said, "parent"),
        spawned_by=_text(said, "spawned_by"),
        label=_text(said, "label"),
        task=task if isinstance(task, str) else None,
    )


def ended_from(said: Mapping[str, object]) -> Ended:
    """Return how a task ended.

    Raises:
        ValueError: The record does not say it.
    """
    state, code, at = _text(said, "state"), said.get("code"), said.get("at")
    if state not in get_args(State) or state == "running":
        raise ValueError(f"no end of a task: {state!r}")
    why = said.get("why")
    return Ended(
        cast("State", state),
        code if isinstance(code, int) else None,
        at if isinstance(at, str) else None,
        why if isinstance(why, str) else "",
    )


def _id(said: Mapping[str, object], key: str, prefix: str) -> str:
    """Return an id that names files: one of ours, and nothing else."""
    value = _text(said, key)
    if not (value.startswith(prefix) and is_safe(value)):
        raise ValueError(f"{key} is no id: {value!r}"[:200])
    return value


def _text(said: Mapping[str, object], key: str) -> str:
    value = said[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value


def _number(said: Mapping[str, object], key: str) -> int:
    value = said[key]
    if not isinstance(value, int):
        raise ValueError(f"{key} is no number")
    return value


def _texts(said: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = said[key]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{key} is no list of texts")
    return tuple(value)
