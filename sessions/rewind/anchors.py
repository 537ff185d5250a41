"""Which turn a message belongs to: what a task or a subagent that it starts belongs to as well."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sessions.errors import ConflictError, NotFoundError, RequestError
from sessions.rewind.log import CaptureLog
from sessions.rewind.placing import turns_for
from sessions.rewind.recorded import TurnRecord
from sessions.rewind.timeline import Timeline
from sessions.transcript import reader
from sessions.transcript.outline import Link, Outline


class Anchors(Protocol):
    """Finds the turn of the message that starts something."""

    def of(self, spawned_by: str | None, *, open_turn: str | None) -> tuple[str, TurnRecord]:
        """Return the id of the message that starts it, and its turn on the root's timeline.

        Args:
            spawned_by: The message; None: what is going on now starts it.
            open_turn: The message id of the prompt whose turn is open; None where none is.

        Raises:
            NotFoundError: There is no such message, and no open turn it may yet be written in.
            RequestError: No prompt was typed yet.
            ConflictError: A rewind took the turn away.
        """


class RootAnchors:
    """Those of the session the user talks to.

    Args:
        path: The transcript.
        outline: Returns its outline as of now.
    """

    def __init__(self, path: Path, log: CaptureLog, outline: Callable[[], Outline]) -> None:
        self._path = path
        self._log = log
        self._outline = outline

    def of(self, spawned_by: str | None, *, open_turn: str | None) -> tuple[str, TurnRecord]:
        """Return the message and the turn it is in; one that is not written yet is in the open turn."""
        prompt = self._prompt_of(spawned_by, open_turn)
        return spawned_by or prompt, self._turn_of(prompt)

    def _prompt_of(self, spawned_by: str | None, open_turn: str | None) -> str:
        prompts = self._outline().prompts if self._path.exists() else ()
        if not prompts:
            raise RequestError("no prompt was typed yet: a task or a subagent belongs to one")
        if spawned_by is None or spawned_by == open_turn:
            return open_turn or prompts[-1].id
        if any(prompt.id == spawned_by for prompt in prompts):
            return spawned_by
        offset = reader.place_of(self._path, spawned_by)
        if offset is None:
            if open_turn is None:
                raise NotFoundError("message", spawned_by)
            return open_turn
        place = bisect_right([prompt.offset for prompt in prompts], offset) - 1
        return prompts[max(place, 0)].id

    def _turn_of(self, prompt: str) -> TurnRecord:
        with self._log.locked() as timeline:
            turn = timeline.turn_of(prompt)
            if turn is None:  # it was appended without a turn of its own: it gets one, and all others like it
                self._log.append(turns_for(self._outline().prompts, timeline))
                turn = timeline.turn_of(prompt)
            assert turn is not None
            return turn


class ChildAnchors:
    """Those of a subagent's session: all it starts belongs to the turn it belongs to itself.

    Args:
        path: The subagent's own transcript.
        log: The root's timeline.
    """

    def __init__(self, path: Path, child: str, link: Link, log: CaptureLog) -> None:
        self._path = path
        self._child = child
        self._link = link
        self._log = log

    def of(self, spawned_by: str | None, *, open_turn: str | None) -> tuple[str, TurnRecord]:
        """Return the message and the turn of the root."""
        turn = turn_of_child(self._child, self._log.read())
        written = spawned_by is None or (self._path.exists() and reader.place_of(self._path, spawned_by) is not None)
        if not written and open_turn is None:
            raise NotFoundError("message", spawned_by)
        return spawned_by or open_turn or self._link.spawned_by, turn


def turn_of_child(child: str, timeline: Timeline) -> TurnRecord:
    """Return the root's turn that all belongs to which a subagent does.

    Raises:
        ConflictError: A rewind took it away, or the root is gone.
    """
    record = timeline.children.get(child)
    turn = timeline.turns.get(record.turn) if record is not None else None
    if turn is None:
        raise ConflictError(f"the work of {child} was removed by a rewind", session=child)
    return turn
