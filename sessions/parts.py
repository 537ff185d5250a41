"""What a session is made of, each part built from those below it.

Nothing is read or written, but for a reader that comes in the middle of an unfinished rewind.
"""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sessions import forks, paths
from sessions.ownership import Ownership
from sessions.place import Place
from sessions.rewind.anchors import Anchors, ChildAnchors, RootAnchors
from sessions.rewind.child_edits import ChildRecorder
from sessions.rewind.differ import Differ
from sessions.rewind.edits import Recorder
from sessions.rewind.engine import Engine
from sessions.rewind.filediffs import Contents
from sessions.rewind.files_planning import FilesPlanner
from sessions.rewind.foreign import ForeignHistory
from sessions.rewind.journal import Journal
from sessions.rewind.kept import Kept
from sessions.rewind.log import CaptureLog
from sessions.rewind.ongoing import Ongoing
from sessions.rewind.payloads import Payloads
from sessions.rewind.pruning import Pruner
from sessions.rewind.returning import ReturningLines
from sessions.rewind.rewind_planning import RewindPlanner
from sessions.rewind.rewinder import Rewinder
from sessions.rewind.undo_planning import UndoPlanner
from sessions.rewind.undoer import Undoer
from sessions.rewind.worktree import Worktree
from sessions.settings import Settings
from sessions.subagents.roster import Roster
from sessions.transcript.now import TranscriptNow
from sessions.transcript.writer import Writer

_TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one session.

    Attributes:
        source: The transcript to read from: for a reader of an unfinished rewind, a copy of the one before it.
        scratch: What holds that copy; to be cleaned up when the session is closed.
        shown: Spells an identity for people.
    """

    ownership: Ownership
    writer: Writer
    worktree: Worktree
    log: CaptureLog
    payloads: Payloads
    journal: Journal
    engine: Engine
    recorder: Recorder
    transcript: TranscriptNow
    rewind_planner: RewindPlanner
    rewinder: Rewinder
    undo_planner: UndoPlanner
    undoer: Undoer
    differ: Differ
    ongoing: Ongoing
    contents: Contents
    pruner: Pruner
    parent: forks.Parent
    anchors: Anchors
    captures: Captures
    source: Path
    scratch: tempfile.TemporaryDirectory[str] | None
    shown: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Captures:
    """Where edits and tasks are recorded: on the timeline of a root session, with the bytes beside it."""

    log: CaptureLog
    payloads: Payloads
    roster: Roster


def assemble(place: Place, settings: Settings, *, read_only: bool, root: Captures | None) -> Parts:
    """Build the parts of a session.

    Args:
        root: For a subagent's session whose root is open here: where that records. One thread may then hold both.
    """
    path, sidecar, name = place.transcript, paths.sidecar(place.transcript), place.session_id
    worktree = Worktree(place.touches, place.add_dirs, store=place.root)

    def shown(identity: str) -> str:
        return paths.shown(identity, worktree.workdir) if worktree.workdir else identity

    writer = Writer(path, sidecar=sidecar, session_id=name, header=place.new_header)
    log, payloads, journal = CaptureLog(sidecar), Payloads(sidecar, root=place.root), Journal(sidecar)
    engine = Engine(journal, worktree, payloads, log, writer)
    files_planner = FilesPlanner(worktree, payloads, Kept(log, journal, payloads), shown)
    foreign = ForeignHistory(place.root, worktree)
    source, scratch = _to_read_from(path, engine, journal) if read_only else (path, None)
    root_option = "" if place.root == paths.default_root() else f" --root {shlex.quote(str(place.root))}"
    captures = Captures(log, payloads, Roster(sidecar / _TASKS))
    if place.link is not None:
        captures = root or _captures_of(paths.sidecar(paths.beside(path, place.link.root)), place)
    transcript = TranscriptNow(source)
    ongoing = Ongoing(worktree, captures.roster, limit_bytes=settings.max_file_bytes)
    rewind_planner = RewindPlanner(
        name,
        transcript,
        worktree,
        log=log,
        files_planner=files_planner,
        foreign=foreign,
        looking=captures.roster,
        ongoing=ongoing,
        shown=shown,
    )
    contents = Contents(payloads, worktree)
    returning = ReturningLines(path, journal, payloads)
    undo_planner = UndoPlanner(
        name,
        worktree,
        log=log,
        journal=journal,
        files_planner=files_planner,
        returning=returning,
        looking=captures.roster,
        shown=shown,
        prompt_of=transcript.prompt_of,
    )
    return Parts(
        ownership=Ownership(sidecar),
        writer=writer,
        worktree=worktree,
        log=log,
        payloads=payloads,
        journal=journal,
        engine=engine,
        recorder=Recorder(log, payloads, worktree, limit_bytes=settings.max_file_bytes)
        if place.link is None
        else ChildRecorder(
            captures.log, captures.payloads, worktree, limit_bytes=settings.max_file_bytes, child=place.session_id
        ),
        transcript=transcript,
        rewind_planner=rewind_planner,
        rewinder=Rewinder(
            name, transcript, rewind_planner, log=log, foreign=foreign, root_option=root_option, shown=shown
        ),
        undo_planner=undo_planner,
        undoer=Undoer(path, undo_planner, returning, log, shown),
        differ=Differ(
            source,
            worktree,
            log=log,
            contents=contents,
            foreign=foreign,
            ongoing=ongoing,
            outline=transcript.outline,
            shown=shown,
        ),
        ongoing=ongoing,
        contents=contents,
        pruner=Pruner(log, journal, settings.limits),
        parent=forks.Parent(name, place.root, path, place.workdir, place.touches, engine.copy_of_unfinished),
        anchors=RootAnchors(path, log, lambda: transcript.outline(deep=False))
        if place.link is None
        else ChildAnchors(path, place.session_id, place.link, captures.log),
        captures=captures,
        source=source,
        scratch=scratch,
        shown=shown,
    )


def _captures_of(sidecar: Path, place: Place) -> Captures:
    return Captures(CaptureLog(sidecar, make=False), Payloads(sidecar, root=place.root), Roster(sidecar / _TASKS))


def _to_read_from(path: Path, engine: Engine, journal: Journal) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    if not journal.intent.exists():
        return path, None
    scratch = None
    with contextlib.suppress(OSError):  # no room for a copy: what is there is better than nothing
        scratch = tempfile.TemporaryDirectory(prefix="sessions-", ignore_cleanup_errors=True)
        copy = Path(scratch.name) / path.name
        if engine.copy_of_unfinished(copy):
            return copy, scratch
    if scratch is not None:
        scratch.cleanup()
    return path, None
