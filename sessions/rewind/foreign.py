"""File snapshots that another agent (Wave) recorded inside its messages, as touches on our timeline.

A ``file_history`` block lists snapshots ``{messageId, filePath, timestamp, operation, snapshotPath}``. ``operation`` is
``create`` with an empty ``snapshotPath`` where the file did not exist; any other snapshot that is empty, missing or
unreadable is lost, and the file is left alone. Bytes are read only from below ``<root>/file-history``, whatever a
transcript says. Nobody recorded what that agent left, nor the file's mode: the mode on disk is kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from sessions.errors import RequestError
from sessions.rewind.needs import Places
from sessions.rewind.recorded import Order, Touch
from sessions.rewind.states import Absent, Content, Image, Payload
from sessions.rewind.worktree import OutsideError, Worktree, read_content
from sessions.transcript.outline import ForeignSnapshot

_LOST = Image(Content("", 0, 0o644))


class ForeignHistory:
    """The snapshot files of another agent.

    Args:
        root: Our root, which is then that agent's too; its snapshots lie in ``file-history`` below.
    """

    def __init__(self, root: Path, worktree: Worktree) -> None:
        self._directory = os.path.realpath(root / "file-history")
        self._worktree = worktree

    def touches(
        self, snapshots: Sequence[ForeignSnapshot], places: Places, *, since: Order
    ) -> list[tuple[ForeignSnapshot, Touch]]:
        """Return a touch for each snapshot of a file from a place on, in transcript order.

        Reads the snapshot files of these, where they are there.
        """
        found: list[tuple[ForeignSnapshot, Touch]] = []
        for number, snapshot in enumerate(snapshots):
            try:
                path = self._worktree.identify(snapshot.path)
            except RequestError:
                continue
            order = places.of_snapshot(snapshot, number)
            if order < since:
                continue
            found.append((snapshot, Touch(order, None, path, self._image(snapshot, path), None, "agent")))
        return found

    def _image(self, snapshot: ForeignSnapshot, path: str) -> Image:
        if snapshot.operation == "create" and not snapshot.snapshot_path:
            return Image(Absent())
        try:
            kept = os.path.realpath(os.path.join(self._directory, snapshot.snapshot_path or ""))
            content = _content_of(kept) if kept.startswith(self._directory + "/") else None
        except (OSError, ValueError):  # a NUL, or what the system cannot spell
            content = None
        if content is None:
            return _LOST
        return Image(Content(content.sha256, content.size, self._mode(path)), Payload(kept, 0, content.size))

    def _mode(self, path: str) -> int:
        try:
            with self._worktree.reading(path) as fd:
                return stat.S_IMODE(os.fstat(fd).st_mode)
        except (OSError, OutsideError):
            return 0o644


def _content_of(kept: str) -> Content | None:
    source = os.open(kept, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return read_content(source) if stat.S_ISREG(os.fstat(source).st_mode) else None
    finally:
        os.close(source)
