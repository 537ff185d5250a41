"""Who started whom: the sessions below a session, the tasks below a task. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from sessions.subagents.record import ChildRecord, TaskRecord


class OnRecord(Protocol):
    """What is on record of tasks and of the sessions of subagents, by id, each after who started it."""

    @property
    def tasks(self) -> Mapping[str, TaskRecord]:
        """The tasks."""

    @property
    def children(self) -> Mapping[str, ChildRecord]:
        """The subagents' sessions."""


def below(session: str, on_record: OnRecord) -> set[str]:
    """Return a session and the sessions of subagents below it."""
    found = {session}
    for child in on_record.children.values():
        if child.parent in found:
            found.add(child.id)
    return found


def working_in(tasks: Iterable[TaskRecord], on_record: OnRecord) -> list[str]:
    """Return the subagents' sessions that are worked in by tasks, or below one that is.

    Where the host did not say which session attached work works in, it is all inside the host of that turn of which
    nobody said who works in them.
    """
    tasks = list(tasks)
    ids, named = {task.id for task in tasks}, {task.works_in for task in tasks}
    taken = {task.works_in for task in on_record.tasks.values()}
    inside = {task.turn for task in tasks if task.how == "attach" and not task.works_in}
    found: dict[str, None] = {}
    for child in on_record.children.values():
        unsaid = child.task is None and child.id not in taken
        if child.task in ids or child.id in named or child.parent in found or (unsaid and child.turn in inside):
            found[child.id] = None
    return list(found)


def with_nested(tasks: Iterable[TaskRecord], on_record: OnRecord) -> list[TaskRecord]:
    """Return tasks and all that the subagents in their processes, and those of these, started in turn; each once."""
    found = {task.id: task for task in tasks}
    named, sessions = {task.works_in for task in found.values()}, set[str]()
    for name in sorted(on_record.children, key=lambda name: on_record.children[name].seq):
        child = on_record.children[name]
        if child.task in found or child.id in named or child.parent in sessions:
            sessions.add(name)
            nested = {task.id: task for task in on_record.tasks.values() if task.session == name}
            named |= {task.works_in for task in nested.values()}
            found |= nested
    return list(found.values())
