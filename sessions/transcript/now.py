"""One transcript as it is now, for all who look at it while it grows."""

from __future__ import annotations

import threading
from pathlib import Path

from sessions.transcript import reader
from sessions.transcript.outline import Outline
from sessions.transcript.scanning import Follower


class TranscriptNow:
    """What one transcript says now; only what was appended since the last look is read. Works from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.RLock()
        self._followers = Follower(path, deep=False), Follower(path, deep=True)

    def outline(self, *, deep: bool) -> Outline:
        """Return the transcript's outline as of now.

        Args:
            deep: Also with compactions and file snapshots; once asked for, they are in all that follow.
        """
        light, full = self._followers
        with self._guard:
            return full.outline() if deep or full.started else light.outline()

    def prompt_of(self, message_id: str) -> str | None:
        """Return the prompt with that message id; None where the conversation has it no more."""
        found = next((each for each in self.outline(deep=False).prompts if each.id == message_id), None)
        return reader.read_prompt(self.path, found) if found is not None else None
