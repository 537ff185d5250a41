"""The fork in which a rewind lets the conversation go on: made where nobody sees it, published with the rewind.

Until then it is a marked sidecar that holds its own transcript (see `sessions.leftovers`): no session. The rewind's
transaction moves the transcript to its place, in one rename; where the rewind is put back, the fork is removed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sessions import files, leftovers, paths
from sessions.ids import is_safe
from sessions.rewind.plan import Going
from sessions.rewind.recorded import Step
from sessions.rewind.seam import seam_of
from sessions.rewind.targets import Target

_STAGED = "transcript"


@dataclass(frozen=True, slots=True)
class Offshoot:
    """A fork as it was made: the id of its session, the bytes of its transcript and the seam at their end."""

    id: str
    size: int
    seam: str

    def to_record(self) -> dict[str, object]:
        """Return plain data; ``offshoot_from(o.to_record()) == o``."""
        return {"id": self.id, "size": self.size, "seam": self.seam}


class Forks(Protocol):
    """What a rewind, its undo and its redo need of the forks of a session."""

    def off(self, target: Target) -> AbstractContextManager[tuple[Going, Offshoot]]:
        """Give a fork up to a place, for the transaction to publish; it is closed where that fails."""

    def again(self, step: Step) -> AbstractContextManager[tuple[Going, Offshoot]]:
        """Give the fork of a rewind once more, likewise."""

    def remove(self, fork: Offshoot) -> str | None:
        """Remove a fork in which nobody went on; say in a sentence that it went or why it stays; None: it was gone."""


def offshoot_from(data: object) -> Offshoot | None:
    """Return the fork a record names, None where it names none.

    Raises:
        ValueError: It names something else.
    """
    match data:
        case None:
            return None
        case {"id": str(name), "size": int(size), "seam": str(seam)} if is_safe(name):
            return Offshoot(name, size, seam)
        case _:
            raise ValueError("not a fork")


def stage(sidecar: Path, write: Callable[[int], None]) -> Offshoot:
    """Write a fork's transcript into its own sidecar, durably."""
    files.rewrite(sidecar / _STAGED, write, mode=0o600)
    return _described(sidecar / _STAGED, leftovers.session_of(sidecar))


class Offshoots:
    """The forks beside one transcript.

    Args:
        directory: Where they lie.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def transcript(self, fork: Offshoot) -> Path:
        """Return where its transcript lies when it is published."""
        return self._directory / f"{fork.id}.jsonl"

    def publish(self, fork: Offshoot) -> None:
        """Make it a session; doing it again changes nothing, and one that was removed meanwhile stays so."""
        transcript = self.transcript(fork)
        sidecar = paths.sidecar(transcript)
        with contextlib.suppress(FileNotFoundError):
            os.rename(sidecar / _STAGED, transcript)
            files.sync_directory(self._directory)
        leftovers.unmark(sidecar)

    def withdraw(self, fork: Offshoot) -> None:
        """Remove it, published or not, unless somebody went on in it.

        Raises:
            OSError: It could not be removed.
        """
        transcript = self.transcript(fork)
        sidecar = paths.sidecar(transcript)
        if transcript.exists():
            if not self.is_as_made(fork):
                return
            leftovers.mark(sidecar)
            os.unlink(transcript)
            files.sync_directory(self._directory)
        if sidecar.is_dir():
            leftovers.remove(sidecar)

    def is_as_made(self, fork: Offshoot) -> bool:
        """Tell whether it is there and nothing was added to it, nor taken away, and no background work begun in it."""
        transcript = self.transcript(fork)
        if (paths.sidecar(transcript) / "tasks").exists() or leftovers.children_of(transcript):
            return False
        try:
            return _described(transcript, fork.id) == fork
        except OSError:
            return False


def _described(transcript: Path, name: str) -> Offshoot:
    with open(transcript, "rb") as made:
        size = os.fstat(made.fileno()).st_size
        return Offshoot(name, size, seam_of(made, size))
