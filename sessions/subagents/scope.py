"""Background work that only a transcript knows of: nobody here can stop it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sessions.transcript.outline import Tail


def unstopped(tail: Tail, known: Iterable[str] = ()) -> list[str]:
    """Return the tasks that the removed messages started and nothing says have ended, in order.

    These are tasks another program started: its transcript names them, but nobody recorded their processes, so they
    cannot be stopped and a plan says so.

    Args:
        tail: What is removed.
        known: The tasks that are on record here.
    """
    ended = {*tail.tasks_ended, *known}
    return [task for task in tail.tasks_started if task not in ended]
