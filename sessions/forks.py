"""Forks: a new session that begins with another one's conversation and checkpoints, and needs it no more.

The parent is only read, and its lock is not taken: forking always works, also while another process writes it.

===  ================================================  ================================================================
 #   step                                              what a crash after it leaves
===  ================================================  ================================================================
 1   take the lock of the fork, mark its sidecar       a sidecar without a transcript: no session; ``check`` removes it
 2   carry timeline and snapshots, durably             as 1
 3   **rename the transcript in place: the commit**    the fork, whole; the mark means nothing beside a transcript
 4   remove the mark                                   the fork
===  ================================================  ================================================================
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sessions import clock, ids, leftovers, paths
from sessions.errors import ConflictError, DataError, NotFoundError, RequestError
from sessions.git import current_branch
from sessions.rewind import offshoots, seam
from sessions.rewind.carried import carried, rebase
from sessions.rewind.forking import carry, size_in
from sessions.rewind.journal import Journal
from sessions.rewind.log import CaptureLog
from sessions.rewind.needs import Places
from sessions.rewind.offshoots import Offshoot
from sessions.rewind.recorded import MarkRecord, Order, Span
from sessions.rewind.seam import SEAM_BYTES
from sessions.rewind.targets import Reference, Target, resolve
from sessions.rewind.timeline import Timeline
from sessions.rewind.told import notices_that_stay
from sessions.transcript import codec, fork, lines, reader, scanning, titles
from sessions.transcript.header import header_line, header_of
from sessions.transcript.outline import Header
from sessions.transcript.writer import Writer

_TRIES = 5  # a rewind by somebody else may come in between, hardly several


@dataclass(frozen=True, slots=True)
class Parent:
    """What a fork is made from.

    Attributes:
        workdir: What its header says; None for a headerless file.
        touches: The directory its edits are relative to; None where nobody knows.
        as_before: Writes the transcript from before an unfinished rewind to a file; False where there is no need.
    """

    session_id: str
    root: Path
    transcript: Path
    workdir: str | None
    touches: str | None
    as_before: Callable[[Path], bool]


@dataclass(frozen=True, slots=True)
class Source:
    """A parent at one moment, with no rewind half done; valid while ``reading`` is.

    Attributes:
        path: Its transcript, or a copy of the one from before an unfinished rewind.
        descriptor: That file, open.
        size: Its bytes.
        timeline: Nobody else's: it does not grow.
    """

    parent: Parent
    path: Path
    descriptor: int
    size: int
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class End:
    """Where a fork ends, in the parent.

    Attributes:
        offset: The start of a visible line, the first that stays behind; None: all lines come along.
        order: The same place on the timeline; None: all of it comes along.
        notices: Ids of messages that come along also where they lie behind it: they tell how tasks ended that were
            started in front of it.
    """

    offset: int | None = None
    order: Order | None = None
    notices: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Design:
    """A fork that is to be made.

    Attributes:
        header: Its header; None where nobody knows its directory.
        touches: The directory its edits are relative to.
    """

    session_id: str
    transcript: Path
    header: Header | None
    touches: str | None
    created_at: datetime
    title: str | None

    @property
    def workdir(self) -> str | None:
        """The directory its header names."""
        return self.header.workdir if self.header is not None else None


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """What a fork would be: its title, its directory, how many visible messages it would have."""

    title: str | None
    workdir: str | None
    messages: int


@contextlib.contextmanager
def reading(parent: Parent) -> Iterator[Source]:
    """Give a parent to fork from.

    Raises:
        RequestError: Nothing of it is written yet.
        ConflictError: It is being rewound again and again.
    """
    with contextlib.ExitStack() as stack:
        for _ in range(_TRIES):
            timeline = _timeline(parent)  # first: a turn is recorded when its prompt is written
            before = _moment(parent, timeline)
            try:
                path = stack.enter_context(_transcript(parent))
                descriptor, size = stack.enter_context(lines.opened(path))
            except FileNotFoundError:
                raise RequestError(f"nothing of session {parent.session_id} is written yet") from None
            if _moment(parent, _timeline(parent)) == before:
                yield Source(parent, path, descriptor, size, timeline)
                return
    raise ConflictError(f"session {parent.session_id} is being rewound; try again")


def after(source: Source, at: Reference | None) -> End:
    """Return the end of a fork that keeps the turns up to and including one; None: all of them.

    Raises:
        NotFoundError: There is no such checkpoint.
        AmbiguousError: There are several.
        ConflictError: The session was rewound just now.
    """
    if at is None:
        return End()
    outline = reader.scan(source.path, deep=False)
    if outline.inode != os.fstat(source.descriptor).st_ino:
        raise ConflictError(f"session {source.parent.session_id} was rewound meanwhile; try again")
    target = resolve(at, outline.prompts, source.timeline, "conversation")
    index = target.index
    assert index is not None
    if target.mark is not None:
        return _at_mark(source, target.mark)
    if index == len(outline.prompts):
        return End()
    order = Places(outline.prompts, source.timeline).of_prompt(index)
    return _end(source, outline.prompts[index].offset, order, source.timeline.span(order))


def before(source: Source, prompt: str, *, mark: int | None) -> End:
    """Return the end of a fork that a rewind to a prompt, or to a mark in its turn, goes on in.

    Args:
        mark: The ``seq`` of the mark.

    Raises:
        NotFoundError: They are no more.
    """
    for each in source.timeline.marks:
        if each.seq == mark:
            return _at_mark(source, each)
    outline = reader.scan(source.path, deep=False)
    return at_target(source, resolve(prompt, outline.prompts, source.timeline, "conversation"))


def at_target(source: Source, target: Target) -> End:
    """Return the end of a fork in front of a prompt or behind a mark whose place in the transcript is known."""
    return _end(source, target.cut, target.end, target.span(source.timeline))


def design(source: Source, *, title: str | None = None, workdir: str | os.PathLike[str] | None = None) -> Design:
    """Decide what a fork will be called and where it will lie; makes nothing.

    Args:
        title: Its title; None: its parent's, marked, where that has one.
        workdir: The directory it works in; None: its parent's, and it lies beside it.

    Raises:
        RequestError: The title is blank or too long, or the directory is none.
    """
    parent, session_id, now = source.parent, ids.new_session_id(), clock.now()
    if workdir is not None:
        directory = os.path.realpath(workdir)
        if not os.path.isdir(directory):
            raise RequestError(f"not a directory: {directory}")
        said: str | None = directory
        touches, transcript = said, paths.transcript_path(parent.root, directory, session_id)
    else:
        touches, transcript = parent.touches, paths.beside(parent.transcript, session_id)
        said = parent.workdir if parent.workdir is not None else touches
    if title is None:
        found = scanning.last_title(source.descriptor, source.size)
        title = fork.title_of(found.text if found is not None else None)
    else:
        titles.title_line(title, session_id)
    return Design(session_id, transcript, _header(said, parent, now), touches, now, title)


def count_messages(source: Source, end: End) -> int:
    """Return how many messages the history of a fork will have. Parses what is copied."""
    return reader.count_messages(source.path, _bytes(source, end)) + len(_notices(source, end))


def build(source: Source, end: End, made: Design, writer: Writer) -> None:
    """Make a fork; the caller holds its lock. On success it is durable; on an error nothing is left but the lock.

    Args:
        writer: Writes the fork's transcript.

    Raises:
        NotFoundError: The parent was deleted meanwhile.
        OSError: It could not be written.
    """
    sidecar = paths.sidecar(made.transcript)
    try:
        write = _prepare(source, end, made, sidecar)
        writer.rewrite(0, write)
    except BaseException:
        with contextlib.suppress(OSError):
            made.transcript.unlink(missing_ok=True)
            leftovers.remove(sidecar)
        raise
    leftovers.unmark(sidecar)


def stage(source: Source, end: End, made: Design) -> Offshoot:
    """Make a fork but for its last step, which the rewind it is part of takes; otherwise as ``build``."""
    sidecar = paths.sidecar(made.transcript)
    try:
        return offshoots.stage(sidecar, _prepare(source, end, made, sidecar))
    except BaseException:
        with contextlib.suppress(OSError):
            leftovers.remove(sidecar)
        raise


def _prepare(source: Source, end: End, made: Design, sidecar: Path) -> Callable[[int], None]:
    """Fill a fork's sidecar; return what fills a descriptor with its transcript."""
    leftovers.mark(sidecar)
    copied = fork.survey(source.descriptor, _bytes(source, end))
    header = made.header.raw if made.header is not None else None

    def moved(mark: MarkRecord) -> tuple[int, str]:
        cut = seam.find(source.path, mark.place)
        if cut is None:
            return 0, ""  # lost here, and so there
        before = fork.read_before(source.descriptor, copied, cut, SEAM_BYTES, header=header)
        return fork.place_of(copied, cut, header=header), hashlib.sha256(before).hexdigest()

    _carry(source, end, made, sidecar, moved)
    title = titles.title_line(made.title, made.session_id) if made.title is not None else None
    behind = b"".join(raw + b"\n" for raw in _notices(source, end))
    return lambda target: fork.write(source.descriptor, target, copied, header=header, behind=behind, title=title)


def _carry(
    source: Source, end: End, made: Design, sidecar: Path, moved: Callable[[MarkRecord], tuple[int, str]]
) -> None:
    parent = source.parent
    old = parent.touches
    known_as = (os.path.normpath(old), os.path.realpath(old)) if old is not None else ()  # it may be a link by now
    moved_to = made.touches if made.touches != old else None
    given = paths.sidecar(parent.transcript)
    came = carried(
        source.timeline,
        end.order,
        rebased=lambda path: rebase(path, known_as, moved_to),
        size_of=lambda file: size_in(given, file),
        moved=moved,
    )
    carry(came, parent=given, fork=sidecar, root=parent.root)
    if not parent.transcript.exists():  # a deletion removes it before it removes snapshots
        raise NotFoundError("session", parent.session_id, hint="it was deleted meanwhile")
    now, then = _timeline(parent), source.timeline
    if (now.pruned_turns, now.pruned_records) != (then.pruned_turns, then.pruned_records):
        raise ConflictError(f"session {parent.session_id} is being pruned; try again")


def _at_mark(source: Source, mark: MarkRecord) -> End:
    """Return the end of a fork that keeps a turn up to a mark, and the mark."""
    cut = seam.find(source.path, mark.place)
    if cut is None:
        raise DataError("the lines in front of that mark are gone from the transcript, so its place is lost")
    return _end(source, cut, (mark.seq, 1, 0, 0), source.timeline.span(mark.order, within=mark.turn))


def _end(source: Source, offset: int | None, order: Order, goes: Span) -> End:
    return End(offset, order, notices_that_stay(source.timeline, goes))


def _notices(source: Source, end: End) -> list[bytes]:
    """Return the lines from behind the end that come along."""
    if end.offset is None or not end.notices:
        return []
    return fork.notices_behind(source.descriptor, end.offset, source.size, end.notices)


def _bytes(source: Source, end: End) -> int:
    return source.size if end.offset is None else end.offset


def _header(workdir: str | None, parent: Parent, now: datetime) -> Header | None:
    if workdir is None:
        return None
    resolved = paths.resolved(workdir)
    branch = current_branch(resolved) if resolved is not None else None
    line = header_line(workdir, created_at=clock.timestamp(now), git_branch=branch, forked_from=parent.session_id)
    return header_of(codec.decode(line), 0)


@contextlib.contextmanager
def _transcript(parent: Parent) -> Iterator[Path]:
    """Give the transcript; while a rewind is unfinished, a copy of the one before it."""
    if not _intent(parent).exists():
        yield parent.transcript
        return
    with tempfile.TemporaryDirectory(prefix="sessions-", ignore_cleanup_errors=True) as scratch:
        copy = Path(scratch) / parent.transcript.name
        yield copy if parent.as_before(copy) else parent.transcript


def _timeline(parent: Parent) -> Timeline:
    return CaptureLog(paths.sidecar(parent.transcript)).read()


def _intent(parent: Parent) -> Path:
    return Journal(paths.sidecar(parent.transcript)).intent


def _moment(parent: Parent, timeline: Timeline) -> tuple[object, ...]:
    """Return what differs after a rewind, and while one is done."""
    try:
        inode = os.stat(parent.transcript).st_ino
    except FileNotFoundError:
        inode = None
    return inode, _intent(parent).exists(), [(step.record, step.state) for step in timeline.steps]
