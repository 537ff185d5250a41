"""Recording what a subagent does to files: on the timeline of its root, in the turn it belongs to."""

from __future__ import annotations

from sessions.errors import RequestError
from sessions.rewind.anchors import turn_of_child
from sessions.rewind.edits import Recorder
from sessions.rewind.log import CaptureLog
from sessions.rewind.payloads import Payloads
from sessions.rewind.recorded import MarkRecord, TurnRecord
from sessions.rewind.seam import Place
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree


class ChildRecorder(Recorder):
    """Records what a subagent does to files on the timeline of its root, in the turn it belongs to.

    Args:
        child: The id of the subagent's session.
    """

    def __init__(
        self, log: CaptureLog, payloads: Payloads, worktree: Worktree, *, limit_bytes: int, child: str
    ) -> None:
        super().__init__(log, payloads, worktree, limit_bytes=limit_bytes, author=child)

    def begin_turn(self, message_id: str, run_id: str | None) -> TurnRecord:  # noqa: ARG002 - they are the child's own
        """Return the root's turn that the subagent's edits belong to.

        Raises:
            ConflictError: A rewind took it away, or the root is gone.
        """
        turn = turn_of_child(self._author, self._log.read())
        self._ended.discard(turn.turn)
        return turn

    def mark(self, turn: TurnRecord, name: str, place: Place) -> MarkRecord:  # noqa: ARG002 - it refuses all
        """Refuse: a mark is a place in the root's conversation."""
        raise RequestError("a subagent makes no marks: they are places in the conversation of its root")

    def _refuse_late(self, timeline: Timeline, turn: TurnRecord) -> None:
        super()._refuse_late(timeline, turn)
        turn_of_child(self._author, timeline)
