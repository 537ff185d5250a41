"""The transaction: files and transcript move together, or not at all.

===  ========================================  =========================================================================
 #   step                                      what a crash after it leaves
===  ========================================  =========================================================================
 1   stage guards and both transcript tails    all old; a dead stage, swept; a fork nobody sees, likewise
 2   **write the intent: the commit point**    recovery does 3 to 6
 3   make each file what it must be            some files new; recovery goes on: a file already new is left, one still
                                               old is changed, one half-way between is finished, one that is nothing of
                                               this was edited meanwhile: left, reported
 4   move the sessions of subagents; rewrite   all new but the bookkeeping; recovery does the rest
     the transcript; or show the fork
 5   append to the timeline                    as 4
 6   rename the intent into the undo record    all new
===  ========================================  =========================================================================

An error in 3 to 5 (a full disk, a permission) writes an abort mark and puts everything back, in the opposite order; a
crash meanwhile follows the mark. Putting back and completing are idempotent. Ctrl-C waits from 2 to the end.

The caller holds the session's lock and the lock of the timeline.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, replace
from pathlib import Path

from sessions.errors import IncompleteError, StaleError
from sessions.interrupts import deferred
from sessions.rewind.applying import Applier
from sessions.rewind.journal import Journal, Record
from sessions.rewind.judge import Change
from sessions.rewind.log import CaptureLog
from sessions.rewind.offshoots import Offshoots
from sessions.rewind.payloads import Payloads
from sessions.rewind.relocating import Children
from sessions.rewind.splicing import Splice, Splicer
from sessions.rewind.states import Content, Image, Payload, same
from sessions.rewind.worktree import OutsideError, Worktree, read_content
from sessions.transcript.writer import Writer


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came true: the record, and the paths left alone because somebody edited them in between.

    Attributes:
        put_back: Whether it was taken back instead: an abort mark lay beside it.
    """

    record: Record
    left: tuple[str, ...] = ()
    put_back: bool = False


class Engine:
    """Carries out transactions on one session.

    Args:
        writer: Rewrites the transcript.
    """

    def __init__(
        self, journal: Journal, worktree: Worktree, payloads: Payloads, log: CaptureLog, writer: Writer
    ) -> None:
        self._journal = journal
        self._worktree = worktree
        self._payloads = payloads
        self._applier = Applier(worktree, payloads)
        self._log = log
        self._splicer = Splicer(writer, payloads)
        self._offshoots = Offshoots(writer.path.parent)
        self._children = Children(writer.path)
        self._transcript = str(writer.path)

    def run(self, draft: Record, splice: Splice | None) -> Outcome:
        """Make a transaction true.

        Args:
            draft: Without payloads for the guards and without a cut: staging adds them. Its fork is staged already, and
                goes where the transaction does not come true.
            splice: What happens to the transcript; None leaves it alone.

        Raises:
            StaleError: A file changed since it was examined; nothing was changed.
            OSError: It could not be done; everything is as it was.
            IncompleteError: It could not be done and not be put back; ``sessions check`` finishes it.
        """
        try:
            record = self._stage(draft, splice)
        except BaseException:
            self._discard_fork(draft)
            raise
        with deferred():
            try:
                self._journal.commit(record)
            except BaseException:
                self._journal.discard(record.id)
                self._discard_fork(draft)
                raise
            try:
                left = self._complete(record)
                self._refuse_rewritten(left)
                return self._conclude(record, left)
            except Exception as error:
                self._put_back(record, error)
                if isinstance(error, OutsideError):
                    raise OSError(f"a directory was replaced meanwhile: {error}") from error
                raise

    def copy_of_unfinished(self, copy: Path) -> bool:
        """Write the transcript from before an unfinished rewind to ``copy``; False where there is no need.

        Files and transcript may be new already; until the timeline says so too, readers see the old transcript.
        """
        with contextlib.suppress(IncompleteError, OSError):
            record = self._journal.pending()
            if record is not None and record.cut is not None and not self._is_recorded(record):
                return self._splicer.copy_as_before(record.cut, copy)
        return False

    def _is_recorded(self, record: Record) -> bool:
        return any(step.record == record.id for step in self._log.read().steps)

    def recover(self) -> Outcome | None:
        """Finish, or put back, what a crash left; None where there is nothing.

        Raises:
            IncompleteError: That failed; the journal stays.
        """
        record = self._journal.pending()
        outcome = self._settle(record) if record is not None else None
        with contextlib.suppress(OSError):  # leftovers are no reason to keep anybody out
            self._journal.sweep()
        return outcome

    def _settle(self, record: Record) -> Outcome:
        if self._is_recorded(record):  # all was done but the last rename
            self._journal.finish(record)
            return Outcome(record)
        with deferred():
            if self._journal.is_aborted(record):
                return Outcome(record, self._put_back(record, None), put_back=True)
            try:
                return self._conclude(record, self._complete(record))
            except (OSError, OutsideError) as error:
                raise IncompleteError(f"an unfinished rewind cannot be completed: {error}", record=record.id) from error

    # -- 1: stage --------------------------------------------------------------------------------------------------

    def _stage(self, draft: Record, splice: Splice | None) -> Record:
        place = self._journal.stage_place(draft.id)
        for change in draft.changes:
            if not self._payloads.intact(change.after):
                raise OSError(f"the snapshot of {change.path} is damaged")
        with self._journal.staging(draft.id) as fd:
            changes = tuple(self._guard(change, fd, place) for change in draft.changes)
            cut = self._splicer.stage(splice, fd, place) if splice is not None else None
        return replace(draft, changes=changes, cut=cut)

    def _guard(self, change: Change, fd: int, place: str) -> Change:
        expected = change.before.state
        if not isinstance(expected, Content):
            return change
        offset = os.lseek(fd, 0, os.SEEK_CUR)
        try:
            with self._worktree.reading(change.path) as source:
                status = os.fstat(source)
                found = read_content(source, copy_to=fd)
        except (FileNotFoundError, OutsideError):
            raise StaleError(f"{change.path} changed meanwhile") from None
        moved = change.in_place is not None and change.in_place != (status.st_dev, status.st_ino)
        if moved or not (change.unsteady or same(found, expected)):
            raise StaleError(f"{change.path} changed meanwhile")
        return replace(change, before=Image(found, Payload(place, offset, found.size)))

    def _discard_fork(self, draft: Record) -> None:
        if draft.fork is not None:
            with contextlib.suppress(OSError):  # it is marked: the next check removes it
                self._offshoots.withdraw(draft.fork)

    # -- 3 to 6: complete ------------------------------------------------------------------------------------------

    def _complete(self, record: Record) -> tuple[str, ...]:
        """Make files and transcript new; return the paths that were neither image and were left alone."""
        left = self._applier.apply(record.id, record.changes)
        for move in record.children:
            self._children.carry_out(move)
        if record.fork is not None:
            self._offshoots.publish(record.fork)
        if record.cut is None or self._splicer.apply(record.cut):
            return left
        return (*left, self._transcript)

    def _refuse_rewritten(self, left: tuple[str, ...]) -> None:
        if self._transcript in left:
            raise OSError(errno.ESTALE, "another program rewrote the transcript meanwhile", self._transcript)

    def _conclude(self, record: Record, left: tuple[str, ...]) -> Outcome:
        if not self._is_recorded(record):
            self._log.append([*record.log[:-1], _entry(record, left)])
        with contextlib.suppress(OSError):  # all is new and recorded; what is left to do is done at the next opening
            self._journal.finish(record)
        return Outcome(record, left)

    # -- put back --------------------------------------------------------------------------------------------------

    def _put_back(self, record: Record, cause: Exception | None) -> tuple[str, ...]:
        """Make everything what it was; return the paths left alone because somebody edited them in between.

        Raises:
            IncompleteError: Something could not be put back; the journal stays.
        """
        try:
            with contextlib.suppress(OSError):  # without the mark a crash meanwhile completes, which is whole too
                self._journal.mark_aborted(record)
            rewritten = record.cut is not None and not self._splicer.take_back(record.cut)
            if record.fork is not None:
                self._offshoots.withdraw(record.fork)
            for move in reversed(record.children):
                self._children.carry_out(move.reversed())
            left = self._applier.apply(record.id, [change.reversed() for change in reversed(record.changes)])
            if cause is None or not left:
                self._journal.withdraw(record)
        except (OSError, OutsideError) as error:
            because = f" after {cause}" if cause is not None else ""
            raise IncompleteError(
                f"a rewind stopped half-way{because} and could not be put back: {error}", record=record.id
            ) from error
        if cause is not None and left:  # the guards stay; the next opening leaves these alone, and says so
            raise IncompleteError(
                f"a rewind stopped after {cause}; edited meanwhile, so not put back: {', '.join(left)}",
                record=record.id,
            ) from cause
        return (*left, self._transcript) if rewritten else left


def _entry(record: Record, left: tuple[str, ...]) -> dict[str, object]:
    """Return what the timeline learns: also which of the writes count as captures."""
    entry = {**record.log[-1], "left": list(left)}
    if captured := set(record.captures) - set(left):
        entry["touches"] = [
            {"path": change.path, "before": change.before.to_record(), "after": change.after.to_record()}
            | ({"identity": list(change.in_place)} if change.in_place else {})
            for change in record.changes
            if change.path in captured
        ]
    return entry
