"""Telling the conversation that a background task ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from sessions import clock
from sessions.ids import notice_id
from sessions.rewind.recorded import TurnRecord
from sessions.subagents.notices import notice
from sessions.subagents.record import Ended, TaskRecord
from sessions.subagents.roster import Roster
from sessions.transcript import reader
from sessions.transcript.outline import Outline


class Notices:
    """The notices in one transcript.

    Args:
        outline: Returns the transcript's outline as of now.
        append: Appends a message.
    """

    def __init__(
        self,
        transcript: Path,
        roster: Roster,
        *,
        outline: Callable[[], Outline],
        append: Callable[[Mapping[str, object]], object],
    ) -> None:
        self._transcript = transcript
        self._roster = roster
        self._outline = outline
        self._append = append

    def tell(self, task: TaskRecord, ended: Ended, turn: TurnRecord | None) -> None:
        """Append the notice that a task ended, once: its id comes from the task's, so a crash repeats nothing.

        Args:
            turn: The turn it belongs to; None where that is gone.
        """
        log = self._roster.folder(task.id).log if task.how == "spawn" else None
        said = notice(task, ended, timestamp=clock.timestamp(), log=os.fspath(log) if log is not None else None)
        start = self._start_of(turn)
        if not self._transcript.exists() or reader.place_of(self._transcript, notice_id(task.id), start) is None:
            self._append(said)

    def _start_of(self, turn: TurnRecord | None) -> int:
        """Return where a turn starts in the transcript; 0 where that is not known."""
        if turn is None:
            return 0
        return next((each.offset for each in self._outline().prompts if each.id == turn.message_id), 0)
