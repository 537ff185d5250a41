"""What is turned around by an undo or a redo. Plain values."""

from __future__ import annotations

from dataclasses import dataclass

from sessions.rewind.journal import Record
from sessions.rewind.plan import OnConflict
from sessions.rewind.policy import Policies
from sessions.rewind.recorded import Step


@dataclass(frozen=True, slots=True)
class Reversal:
    """What to turn around and how.

    Attributes:
        kind: ``undo`` or ``redo``.
        record: The transaction that is turned around.
        paths: Only these files, and not the conversation; None for all.
    """

    kind: str
    step: Step
    record: Record
    policies: Policies
    paths: tuple[str, ...] | None

    @property
    def on_conflict(self) -> OnConflict:
        """What becomes of messages that came since, and of the files nothing else is said of."""
        return self.policies.default
