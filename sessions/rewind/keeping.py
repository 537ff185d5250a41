"""Keeping what a path is: its state before an edit, durably, and the one after, with the bytes of both."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from sessions import files
from sessions.rewind.examining import identity_from
from sessions.rewind.numbers import snapshot_number
from sessions.rewind.payloads import Payloads
from sessions.rewind.recorded import Touch, TurnRecord
from sessions.rewind.retention import is_pruned
from sessions.rewind.states import Absent, Content, Image, OverLimit, Unreadable, same
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Identity, OutsideError, ReadFailedError, Worktree


class Keeper:
    """Keeps states of paths as payloads of a session. The caller holds the lock of the timeline.

    Args:
        limit_bytes: The bytes of a larger file are not kept.
    """

    def __init__(self, payloads: Payloads, worktree: Worktree, *, limit_bytes: int) -> None:
        self._payloads = payloads
        self._worktree = worktree
        self._limit_bytes = limit_bytes
        self._taken: dict[int, int] = {}  # by turn: numbers up to here are given out
        self._learned = False

    def begin(self, timeline: Timeline) -> None:
        """Learn of the snapshots of earlier openings, so that equal content is kept once."""
        if not self._learned:
            self._learned = True
            for touch in timeline.touches:
                self._payloads.remember(touch.before)
                if touch.after is not None:
                    self._payloads.remember(touch.after)

    def before(self, turn: TurnRecord, path: str) -> Image:
        """Keep what a path is in front of an edit; the bytes are durable on return, their names by ``sync_names``.

        Raises:
            OSError: They cannot be stored.
        """
        if self._worktree.is_below_a_file(path):
            return Image(Absent())
        return self._keep(turn, path, f"{self._new_number(turn):04d}.before", durable=True)

    def is_as_left(self, touch: Touch) -> bool:
        """Tell whether a path is what an edit left, as far as anybody can tell; also while another edit is open.

        Reads the file only where the system says that it changed.
        """
        if touch.after is None:
            return True
        recorded = identity_from(touch.identity)
        now = self._worktree.examine(touch.path, limit_bytes=0)[1] if recorded is not None else None
        if recorded is not None and now is not None and recorded.equals(now):
            return True
        return same(self._worktree.examine(touch.path)[0], touch.after.state)

    def still_holds(self, touch: Touch) -> bool:
        """Tell whether a path surely is what is on record of the end of an edit, and what there is to keep is kept.

        Reads the file where the system cannot vouch for it.
        """
        if touch.after is None:
            return False
        recorded, state = identity_from(touch.identity), touch.after.state
        if isinstance(state, Content) and touch.after.payload is None and state.size <= self._limit_bytes:
            return False
        known = (state, recorded) if isinstance(state, Content) and recorded is not None else None
        return same(self._worktree.examine(touch.path, known=known)[0], state)

    def sync_names(self, turn: TurnRecord) -> None:
        """Make the names of a turn's payloads durable."""
        files.sync_directory(self._payloads.sidecar / "turns" / str(turn.turn) / "files")

    def after(self, timeline: Timeline, turn: TurnRecord, path: str) -> tuple[Image, Identity | None]:
        """Keep what a path is behind an edit, without bytes where they cannot be stored; durable by ``sync_afters``.

        Of a turn whose snapshots the limits removed no bytes are kept any more: nothing goes back to them.
        A file of another size than before is read once, digested while it is copied; else it is read first to see
        whether there is anything to copy.
        """
        pruned = turn.turn in timeline.pruned_turns
        changed = self._keep_changed(timeline, turn, path) if not pruned else None
        if changed is not None:
            return changed
        state, identity = self._worktree.examine(path)
        if isinstance(state, Unreadable) and self._worktree.is_below_a_file(path):
            state = Absent()
        image = Image(state)
        if isinstance(state, Content) and state.size <= self._limit_bytes and not pruned:
            image = self._keep_after(timeline, turn, path, image)
        return image, identity

    def settled(self, touch: Touch) -> Identity | None:
        """Return what the system says of a file that has settled since its edit: from now on that speaks for it.

        None where there is nothing new to say. The content is read again: a write in the same tick of the clock may
        have left no other trace.
        """
        recorded = identity_from(touch.identity)
        if touch.after is None or recorded is None or recorded.settled:
            return None
        state, now = self._worktree.examine(touch.path)
        return now if now is not None and now.settled and same(state, touch.after.state) else None

    def sync_afters(self, timeline: Timeline, touches: Sequence[Touch]) -> None:
        """Make what edits left durable, but for what the limits removed meanwhile.

        Raises:
            OSError: Something is not there, or cannot be made durable.
        """
        payloads = {touch.after.payload for touch in touches if touch.after is not None}
        kept = {each for each in payloads if each is not None and not is_pruned(timeline, each)}
        for payload in sorted(kept, key=lambda payload: payload.file):
            if payload.file.endswith(".after"):
                self._payloads.sync(payload)
        if kept:
            files_of_turn = {self._payloads.locate(payload).parent for payload in kept}
            for directory in sorted(files_of_turn):
                files.sync_directory(directory)

    def _keep(self, turn: TurnRecord, path: str, name: str, *, durable: bool) -> Image:
        state, _identity = self._worktree.examine(path, limit_bytes=-1)
        if not isinstance(state, OverLimit) or state.size > self._limit_bytes:
            return Image(state)
        self._payloads.open_turn(turn.turn, {"message_id": turn.message_id, "run_id": turn.run_id})
        with contextlib.ExitStack() as stack:
            try:
                fd = stack.enter_context(self._worktree.reading(path))
            except FileNotFoundError:
                return Image(Absent())
            except OutsideError:
                return Image(Unreadable("a link or file stands where its directory was"))
            except OSError as error:
                return Image(Unreadable(error.strerror or str(error)))
            try:
                return self._payloads.store(turn.turn, name, fd, durable=durable)
            except ReadFailedError as error:
                return Image(Unreadable(error.strerror or str(error)))

    def _keep_changed(self, timeline: Timeline, turn: TurnRecord, path: str) -> tuple[Image, Identity] | None:
        """Keep a file whose size says that its content is none the turn kept of it; None where it does not say so.

        The identity is of the moment before it is read: it speaks for nothing that was written meanwhile.
        """
        touch = timeline.touch_in(turn.turn, path)
        found, identity = self._worktree.examine(path, limit_bytes=-1)
        if touch is None or identity is None or not isinstance(found, OverLimit) or found.size > self._limit_bytes:
            return None
        kept = [image.state for image in (touch.before, touch.after, touch.earlier) if image is not None]
        if any(isinstance(state, Content) and state.size == found.size for state in kept):
            return None
        try:
            image = self._keep_new(touch, turn, path)
        except OSError:
            return None
        return (image, identity) if isinstance(image.state, Content) else None

    def _keep_after(self, timeline: Timeline, turn: TurnRecord, path: str, image: Image) -> Image:
        touch = timeline.touch_in(turn.turn, path)
        assert touch is not None
        for kept in (touch.before, touch.after, touch.earlier):
            if kept is not None and kept.payload is not None and same(kept.state, image.state):
                return Image(image.state, kept.payload)
        try:
            return self._keep_new(touch, turn, path)
        except OSError:
            return image

    def _keep_new(self, touch: Touch, turn: TurnRecord, path: str) -> Image:
        number = _own_number(touch) or f"{self._new_number(turn):04d}"
        return self._keep(turn, path, f"{number}.after", durable=False)

    def _new_number(self, turn: TurnRecord) -> int:
        """Return a payload number the turn has not used.

        The directory is listed once for a turn. After that only the numbers behind the last known to be taken are
        looked up, for other writers take some too; each is once.
        """
        directory = self._payloads.sidecar / "turns" / str(turn.turn) / "files"
        taken = self._taken.get(turn.turn)
        number = 1 + (_highest_number(directory) if taken is None else taken)
        while any(os.path.lexists(directory / f"{number:04d}.{side}") for side in ("before", "after")):
            number += 1
        self._taken[turn.turn] = number - 1
        return number


def _highest_number(directory: Path) -> int:
    try:
        return max((snapshot_number(name) or 0 for name in os.listdir(directory)), default=0)
    except FileNotFoundError:
        return 0


def _own_number(touch: Touch) -> str | None:
    """Return the number of the payloads that no other touch refers to; None where it has none.

    Behind a mark the state before may be kept as what the touch in front of it left.
    """
    before, earlier = touch.before.payload, touch.earlier.payload if touch.earlier is not None else None
    for payload, suffix in ((before, ".before"), (earlier if earlier != before else None, ".after")):
        if payload is not None and payload.file.endswith(suffix):
            return os.path.basename(payload.file).removesuffix(suffix)
    return None
