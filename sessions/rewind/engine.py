"""The transaction: files and transcript move together, or not at all.

===  ========================================  =========================================================================
 #   step                                      what a crash after it leaves
===  ========================================  =========================================================================
 1   stage guards and both transcript tails    all old; a dead stage, swept
 2   **write the intent: the commit point**    recovery does 3 to 6
 3   make each file what it must be            some files new; recovery goes on: a file already new is left, one still
                                               old is changed, one that is neither was edited meanwhile: left, reported
 4   rewrite the transcript                    all new but the bookkeeping; recovery does the rest
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
import signal
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import FrameType

from sessions import files
from sessions.errors import IncompleteError, StaleError
from sessions.rewind.journal import Cut, Journal, Record, seam_of
from sessions.rewind.judge import Change
from sessions.rewind.log import CaptureLog
from sessions.rewind.payloads import Payloads
from sessions.rewind.states import Absent, Content, Image, Payload, same
from sessions.rewind.worktree import CHUNK_BYTES, OutsideError, Worktree, read_content
from sessions.transcript.writer import Writer

Part = bytes | tuple[str, int, int]
"""Bytes, or ``(file, offset, size)`` of a file that holds them."""


@dataclass(frozen=True, slots=True)
class Splice:
    """What is to happen to the transcript: keep the first ``keep`` bytes, then come the parts of the new tail."""

    keep: int
    tail: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came true: the record, the paths left alone because somebody edited them in between, and why."""

    record: Record
    left: tuple[str, ...] = ()


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
        self._log = log
        self._writer = writer

    def run(self, draft: Record, splice: Splice | None) -> Outcome:
        """Make a transaction true.

        Args:
            draft: Without payloads for the guards and without a cut: staging adds them.
            splice: What happens to the transcript; None leaves it alone.

        Raises:
            StaleError: A file changed since it was examined; nothing was changed.
            OSError: It could not be done; everything is as it was.
            IncompleteError: It could not be done and not be put back; ``sessions check`` finishes it.
        """
        record = self._stage(draft, splice)
        with _uninterrupted():
            try:
                self._journal.commit(record)
            except BaseException:
                self._journal.discard(record.id)
                raise
            try:
                return self._complete(record)
            except (OSError, OutsideError) as error:
                self._put_back(record, error)
                if isinstance(error, OSError):
                    raise
                raise OSError(f"a directory was replaced meanwhile: {error}") from error

    def recover(self) -> Outcome | None:
        """Finish, or put back, what a crash left; None where there is nothing.

        Raises:
            IncompleteError: That failed; the journal stays.
        """
        record = self._journal.pending()
        if record is None:
            self._journal.sweep()
            return None
        with _uninterrupted():
            if self._journal.is_aborted(record):
                self._put_back(record, None)
                return Outcome(record)
            try:
                return self._complete(record)
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
            cut = self._stage_tails(splice, fd, place) if splice is not None else None
        return replace(draft, changes=changes, cut=cut)

    def _guard(self, change: Change, fd: int, place: str) -> Change:
        expected = change.before.state
        if not isinstance(expected, Content):
            return change
        offset = os.lseek(fd, 0, os.SEEK_CUR)
        try:
            with self._worktree.reading(change.path) as source:
                found = read_content(source, copy_to=fd)
        except (FileNotFoundError, OutsideError):
            raise StaleError(f"{change.path} changed meanwhile") from None
        if not same(found, expected):
            raise StaleError(f"{change.path} changed meanwhile")
        return replace(change, before=Image(found, Payload(place, offset, found.size)))

    def _stage_tails(self, splice: Splice, fd: int, place: str) -> Cut:
        with open(self._writer.path, "rb") as transcript:
            status, seam = os.fstat(transcript.fileno()), seam_of(transcript, splice.keep)
            start = os.lseek(fd, 0, os.SEEK_CUR)
            files.copy_range(transcript.fileno(), fd, splice.keep, status.st_size - splice.keep)
        middle = os.lseek(fd, 0, os.SEEK_CUR)
        for part in splice.tail:
            if isinstance(part, bytes):
                files.write_all(fd, part)
            else:
                with open(part[0], "rb") as source:
                    files.copy_range(source.fileno(), fd, part[1], part[2])
        end = os.lseek(fd, 0, os.SEEK_CUR)
        removed, tail = Payload(place, start, middle - start), Payload(place, middle, end - middle)
        return Cut(splice.keep, status.st_size, status.st_ino, removed, tail, seam)

    # -- 3 to 6: complete ------------------------------------------------------------------------------------------

    def _complete(self, record: Record) -> Outcome:
        left = self._apply(record, record.changes)
        if record.cut is not None:
            self._rewrite(record.cut)
        if not any(step.record == record.id for step in self._log.read().steps):
            self._log.append([*record.log[:-1], _entry(record, left)])
        with contextlib.suppress(OSError):  # all is new and recorded; what is left to do is done at the next opening
            self._journal.finish(record)
        return Outcome(record, left)

    def _apply(self, record: Record, changes: Sequence[Change]) -> tuple[str, ...]:
        """Make each path be its ``after``; return the paths that were neither image and were left alone."""
        left: list[str] = []
        for change in changes:
            temp_name = _temp_name(record, change.path)
            self._worktree.sweep(change.path, temp_name)
            current, _ = self._worktree.examine(change.path)
            if same(current, change.after.state):
                continue
            if not same(current, change.before.state):
                left.append(change.path)
                continue
            self._put(change, temp_name)
        for path in sorted({os.path.dirname(change.path): change.path for change in changes}.values()):
            self._worktree.sync_parent(path)
        return tuple(left)

    def _put(self, change: Change, temp_name: str) -> None:
        write = self._payloads.writer(change.after) if isinstance(change.after.state, Content) else None
        try:
            self._worktree.put(change.path, change.after.state, write=write, temp_name=temp_name)
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST} and isinstance(change.after.state, Absent):
                return  # a directory in which somebody made a file meanwhile: it stays
            raise

    def _rewrite(self, cut: Cut) -> None:
        """Put the new tail behind the kept bytes; lines another program appended since the crash stay behind it."""
        status = os.stat(self._writer.path)
        if status.st_ino == cut.inode:
            self._splice(cut.keep, cut.tail, cut.size, status.st_size)

    # -- put back --------------------------------------------------------------------------------------------------

    def _put_back(self, record: Record, cause: Exception | None) -> None:
        """Make everything what it was.

        Raises:
            IncompleteError: Something could not be put back; the journal stays.
        """
        try:
            with contextlib.suppress(
                OSError
            ):  # without the mark a crash during the rest would complete, which is whole too
                self._journal.mark_aborted(record)
            if record.cut is not None:
                self._unrewrite(record.cut)
            self._apply(record, [Change(each.path, each.after, each.before) for each in reversed(record.changes)])
            self._journal.withdraw(record)
        except (OSError, OutsideError) as error:
            because = f" after {cause}" if cause is not None else ""
            raise IncompleteError(
                f"a rewind stopped half-way{because} and could not be put back: {error}", record=record.id
            ) from error

    def _unrewrite(self, cut: Cut) -> None:
        status = os.stat(self._writer.path)
        if status.st_ino != cut.inode and not self._holds(cut.keep, cut.removed, status.st_size):
            self._splice(cut.keep, cut.removed, cut.keep + (cut.tail.size or 0), status.st_size)

    def _splice(self, keep: int, tail: Payload, known_size: int, size: int) -> None:
        """Rewrite the transcript as its first ``keep`` bytes, ``tail``, and what lies behind ``known_size``."""

        def write(fd: int) -> None:
            with open(self._payloads.locate(tail), "rb") as stage:
                files.copy_range(stage.fileno(), fd, tail.offset, tail.size or 0)
            if size > known_size:
                with open(self._writer.path, "rb") as transcript:
                    files.copy_range(transcript.fileno(), fd, known_size, size - known_size)

        self._writer.rewrite(keep, write)

    def _holds(self, keep: int, tail: Payload, size: int) -> bool:
        """Tell whether the transcript is its kept bytes and exactly that tail."""
        if size != keep + (tail.size or 0):
            return False
        with open(self._writer.path, "rb") as transcript, open(self._payloads.locate(tail), "rb") as stage:
            transcript.seek(keep)
            stage.seek(tail.offset)
            while chunk := transcript.read(CHUNK_BYTES):
                if stage.read(len(chunk)) != chunk:
                    return False
        return True


def _entry(record: Record, left: tuple[str, ...]) -> dict[str, object]:
    """Return what the timeline learns: of a rewind of the code alone also its own writes, as captures."""
    entry = {**record.log[-1], "left": list(left)}
    if record.kind == "rewind" and record.scope == "code":
        entry["touches"] = [
            {"path": change.path, "before": change.before.to_record(), "after": change.after.to_record()}
            for change in record.changes
            if change.path not in left
        ]
    return entry


def _temp_name(record: Record, path: str) -> str:
    """Return the name a record's temporary beside a path has: recovery derives it again."""
    return f"{files.TEMP_PREFIX}{record.id}-{zlib.crc32(os.fsencode(path)):08x}{files.TEMP_SUFFIX}"


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block is left; then it is delivered."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        pending.append(number)

    previous = signal.getsignal(signal.SIGINT)
    if previous is None:  # installed by something that is not Python: it cannot be put back
        yield
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if pending:
            signal.raise_signal(signal.SIGINT)
