"""What a task's process finds in its environment: which tasks it belongs to, where its parent is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sessions.errors import RequestError
from sessions.subagents.tagging import tagged
from sessions.transcript import codec

PARENT = "SESSIONS_SUBAGENT"


@dataclass(frozen=True, slots=True)
class Parent:
    """Where the session of a task's process has its parent.

    Attributes:
        root: The store's root.
        transcript: The transcript of the root session.
        task: The id of the task.
        add_dirs: The directories beside the workdir that may be changed.
    """

    root: str
    transcript: str
    task: str
    add_dirs: tuple[str, ...] = ()


def environment(given: Mapping[str, str], tag: str, parent: Parent) -> dict[str, str]:
    """Return an environment for the process of a task: ``given``, and what it is to know."""
    said = {"root": parent.root, "transcript": parent.transcript, "task": parent.task, "add_dirs": [*parent.add_dirs]}
    return {**tagged(given, tag), PARENT: codec.dumps(said).decode(errors="surrogateescape")}


def parent_in(env: Mapping[str, str]) -> Parent | None:
    """Return where the parent is; None in a process that no task started.

    Raises:
        RequestError: The variable says nothing of the kind.
    """
    if not (text := env.get(PARENT)):
        return None
    try:
        match codec.loads(text.encode(errors="surrogateescape")):
            case {"root": str(root), "transcript": str(transcript), "task": str(task), "add_dirs": [*dirs]}:
                return Parent(root, transcript, task, tuple(str(each) for each in dirs))
    except ValueError:
        pass
    raise RequestError(f"{PARENT} in the environment names no parent")
