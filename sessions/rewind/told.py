"""Which notices stay when the messages around them go. Pure."""

from __future__ import annotations

from collections.abc import Container

from sessions.ids import notice_id
from sessions.rewind.recorded import Span
from sessions.rewind.timeline import Timeline


def notices_that_stay(timeline: Timeline, span: Span) -> frozenset[str]:
    """Return the message ids that the notices of tasks have which do not go with ``span``, told or not.

    A notice stands where its task ended, which may be turns behind the one that started it. It is written once, so with
    the turn it stands in it must not go: the turn that started the task would wait for it for ever.
    """
    return frozenset(notice_id(task.id) for task in timeline.tasks.values() if not span.ends(task))


def notices_of(turns: Container[int], timeline: Timeline) -> frozenset[str]:
    """Return the message ids that the notices of the tasks of ``turns`` have, told or not."""
    return frozenset(notice_id(task.id) for task in timeline.tasks.values() if task.turn in turns)
