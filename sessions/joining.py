"""What a process that a task started finds of its session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessions.subagents.environment import parent_in

if TYPE_CHECKING:
    from sessions.session import Session


def subagent_from_env() -> Session | None:
    """Begin the session of a subagent in a process that ``session.tasks.spawn`` started; None in any other process.

    Its edits belong to the turn that started the task; a rewind past that stops this process first. Each call begins
    another session: call it once, and close it. See ``Session.subagent``.

    Raises:
        ConflictError: The task was cancelled, removed by a rewind, or its session is gone: there is nothing to work
            for any more.
        RequestError: The environment was tampered with.
    """
    parent = parent_in(os.environ)
    if parent is None:
        return None
    from sessions.store import SessionStore  # noqa: PLC0415 - paid for by who needs it

    return SessionStore(parent.root).subagent(parent.transcript, parent.task, parent.add_dirs)
