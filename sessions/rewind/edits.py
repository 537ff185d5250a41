"""Recording what the agent does to files: the state before, durable before the edit; the state after, at its exit.

What a crash leaves: before ``begin_edit`` returns, at most a payload nobody refers to; after it, the old content, which
can be restored; between the edit and ``end_edit``, a touch without an *after*, which a plan shows as ``unverified``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field

from sessions import clock, files
from sessions.errors import ConflictError
from sessions.rewind.log import CaptureLog
from sessions.rewind.net import net
from sessions.rewind.payloads import Payloads
from sessions.rewind.states import Absent, Content, Directory, FileState, Image, Link, OverLimit, Unreadable, same
from sessions.rewind.timeline import MarkRecord, Timeline, Touch, TurnRecord
from sessions.rewind.worktree import Identity, OutsideError, ReadFailedError, Worktree

Record = dict[str, object]


@dataclass(slots=True, eq=False)
class OpenEdit:
    """An edit between its begin and its end.

    Attributes:
        paths: Identities whose state before is kept, as an ordered set.
        named: The paths the host named; what is below them at the end and was not there at the begin is new.
        gaps: ``(kind, path as given)`` of what could not be captured.
        overlaps: Paths another edit was open for at the same time.
        repositories: The ``.git`` of named directories: one that is gone at the end was not captured.
    """

    number: int
    by: str
    paths: dict[str, None] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)
    gaps: list[tuple[str, str]] = field(default_factory=list)
    overlaps: set[str] = field(default_factory=set)
    repositories: list[str] = field(default_factory=list)


class Recorder:
    """Records turns, edits and gaps of one session on its timeline.

    Args:
        limit_bytes: A larger file is a gap.
        shown: Spells an identity for people.
    """

    def __init__(self, log: CaptureLog, payloads: Payloads, worktree: Worktree, *, limit_bytes: int) -> None:
        self._log = log
        self._payloads = payloads
        self._worktree = worktree
        self._limit_bytes = limit_bytes
        self._edits: list[OpenEdit] = []
        self._numbers = 0
        self._last_number: int | None = None
        self._learned = False

    def begin_turn(self, message_id: str, run_id: str | None) -> TurnRecord:
        """Put a turn on the timeline; not durable before its first capture, without which nothing is missing."""
        with self._log.locked() as timeline:
            number = timeline.next_turn
            record: Record = {"kind": "turn", "turn": number, "message_id": message_id, "run_id": run_id}
            self._log.append([record], sync=False)
            return timeline.turns[number]

    def begin_edit(
        self, turn: TurnRecord, paths: Sequence[str | bytes | os.PathLike[str]], *, by: str = "agent"
    ) -> OpenEdit:
        """Keep what the paths are now; durable on return.

        Raises:
            ConflictError: The turn was removed by a rewind.
            RequestError: Something is not a path.
            OSError: A snapshot cannot be stored; nothing was recorded, the edit must not be made.
        """
        self._numbers += 1
        edit = OpenEdit(self._numbers, by)
        named = [self._worktree.identify(path) for path in paths]
        with self._log.locked() as timeline:
            refuse_removed(timeline, turn)
            self._last_number = None
            self._learn(timeline)
            records: list[Record] = []
            for path in named:
                self._name(timeline, turn, edit, path, records)
            if any(record.get("payload") for record in records):
                files.sync_directory(self._payloads.sidecar / "turns" / str(turn.turn) / "files")
            if records:
                self._log.append(records, sync=any(record["kind"] == "before" for record in records))
            self._note_overlaps(edit)
            self._edits.append(edit)
        return edit

    def end_edit(self, turn: TurnRecord, edit: OpenEdit) -> None:
        """Record what an edit left, after success and failure alike. Ending it twice changes nothing.

        Raises:
            ConflictError: The turn was removed by a rewind meanwhile; nothing was recorded.
            OSError: Not all could be recorded; the end of the turn tries again.
        """
        with self._log.locked() as timeline:
            if edit not in self._edits:
                return
            refuse_removed(timeline, turn)
            self._last_number = None
            records: list[Record] = []
            for path in edit.named:
                self._found_later(timeline, turn, edit, path, records)
            for path in edit.repositories:
                if not os.path.lexists(path):
                    self._refuse(turn, edit, "git", path, records)
            if records:
                self._log.append(records, sync=False)
            after = [self._after(timeline, turn, path, edit) for path in edit.paths]
            if after:
                self._log.append(after, sync=False)
            self._edits.remove(edit)  # what fails before is tried again at the end of the turn

    def gap(self, turn: TurnRecord, kind: str, paths: Iterable[str]) -> None:
        """Record that something was done that cannot be captured.

        Raises:
            ConflictError: The turn was removed by a rewind.
        """
        with self._log.locked() as timeline:
            refuse_removed(timeline, turn)
            self._log.append([{"kind": "gap", "turn": turn.turn, "gap": kind, "paths": list(paths)}], sync=False)

    def mark(self, turn: TurnRecord, name: str, *, offset: int, seam: str) -> MarkRecord:
        """Put a mark on the timeline, with the bytes of every file as the turn left it there; durable on return.

        What is being edited right now is in it as it is at this moment, and its edit goes on behind the mark.

        Args:
            offset: Where the transcript ends now.
            seam: What it ends with, see ``seam.seam_of``.

        Raises:
            ConflictError: The turn was removed by a rewind.
            OSError: Not all could be kept; there is no mark.
        """
        with self._log.locked() as timeline:
            refuse_removed(timeline, turn)
            self._last_number = None
            appeared: list[Record] = []
            for edit in self._edits:
                for path in edit.named:
                    self._found_later(timeline, turn, edit, path, appeared)
            if appeared:
                self._log.append(appeared, sync=False)
            going_on = [
                touch
                for touch in timeline.touches_of(turn.turn)
                if touch.after is None and timeline.touch_in(turn.turn, touch.path) is touch
            ]
            ends = [self._after(timeline, turn, touch.path, self._edit_of(touch.path)) for touch in going_on]
            if ends:
                self._log.append(ends, sync=False)
            self._sync_afters(timeline.touches_of(turn.turn))
            mark: Record = {"kind": "mark", "turn": turn.turn, "name": name, "at": clock.timestamp()}
            begins = [_goes_on(touch, end) for touch, end in zip(going_on, ends, strict=True)]
            self._log.append([mark | {"offset": offset, "seam": seam}, *begins])
            return timeline.marks[-1]

    def _edit_of(self, path: str) -> OpenEdit:
        return next((edit for edit in self._edits if path in edit.paths), OpenEdit(0, "agent"))

    def end_turn(self, turn: TurnRecord) -> None:
        """End the edits still open, make the end states durable, and record the turn's net effect.

        A turn that was removed meanwhile just ends.
        """
        with self._log.locked() as timeline:
            if turn.turn not in timeline.turns:
                self._edits.clear()
                return
            for edit in list(self._edits):
                self.end_edit(turn, edit)
            touches = timeline.touches_of(turn.turn)
            if touches:
                self._sync_afters(touches)
                last = [touch for touch in touches if timeline.last_touch(turn.turn, touch.path) is touch]
                settled = [record for touch in last if (record := self._settled(touch)) is not None]
                end = {"kind": "end", "turn": turn.turn} | net(touches, self._payloads).to_record()
                self._log.append([*settled, end])

    def _learn(self, timeline: Timeline) -> None:
        """Know the snapshots of earlier openings, so that equal content is kept once."""
        if not self._learned:
            self._learned = True
            for touch in timeline.touches:
                self._payloads.remember(touch.before)
                if touch.after is not None:
                    self._payloads.remember(touch.after)

    # -- before ----------------------------------------------------------------------------------------------------

    def _name(self, timeline: Timeline, turn: TurnRecord, edit: OpenEdit, path: str, records: list[Record]) -> None:
        reason = self._worktree.why_not(path)
        is_root = path in self._worktree.roots
        if is_root:
            reason = None
        if reason is not None:
            self._refuse(turn, edit, reason, path, records)
            return
        for parent in self._worktree.missing_parents(path):
            self._capture(timeline, turn, edit, parent, records)
        state = Directory(0) if is_root else self._capture(timeline, turn, edit, path, records)
        edit.named.append(path)
        match state:
            case Directory():
                self._name_all_below(timeline, turn, edit, path, records)
            case Link():
                target = os.path.realpath(path)
                if target != path:
                    self._name(timeline, turn, edit, target, records)
            case _:
                pass

    def _name_all_below(
        self, timeline: Timeline, turn: TurnRecord, edit: OpenEdit, directory: str, records: list[Record]
    ) -> None:
        closed: list[str] = []
        for below in self._worktree.descend(directory, closed=closed):
            reason = self._worktree.why_not(below)
            if reason is None:
                self._capture(timeline, turn, edit, below, records)
            elif reason == "git":
                edit.repositories.append(below)
        for below in closed:
            self._refuse(turn, edit, "unreadable", below, records)

    def _capture(
        self, timeline: Timeline, turn: TurnRecord, edit: OpenEdit, path: str, records: list[Record]
    ) -> FileState | None:
        if path in edit.paths:
            return None
        if (touch := timeline.touch_in(turn.turn, path)) is not None:
            if (kind := _gap_of(touch.before.state)) is not None:
                edit.gaps.append((kind, path))
            edit.paths[path] = None
            records.append({"kind": "again", "turn": turn.turn, "edit": edit.number, "path": path, "by": edit.by})
            return self._worktree.examine(path, limit_bytes=0)[0]
        image = Image(Absent())
        if not self._worktree.is_below_a_file(path):
            image = self._keep(turn, path, f"{self._new_number(turn):04d}.before", durable=True)
        if (kind := _gap_of(image.state)) is not None:
            self._refuse(turn, edit, kind, path, records)
        edit.paths[path] = None
        records.append(
            {"kind": "before", "turn": turn.turn, "edit": edit.number, "path": path, "by": edit.by, **image.to_record()}
        )
        return image.state

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

    def _refuse(self, turn: TurnRecord, edit: OpenEdit, kind: str, path: str, records: list[Record]) -> None:
        edit.gaps.append((kind, path))
        records.append({"kind": "gap", "turn": turn.turn, "gap": kind, "paths": [path]})

    def _new_number(self, turn: TurnRecord) -> int:
        """Return a payload number the turn has not used; the directory is asked once each time the log is locked."""
        if self._last_number is None:
            directory = self._payloads.sidecar / "turns" / str(turn.turn) / "files"
            try:
                taken = [name.split(".")[0] for name in os.listdir(directory)]
            except FileNotFoundError:
                taken = []
            self._last_number = max((int(name) for name in taken if name.isdigit()), default=0)
        self._last_number += 1
        return self._last_number

    def _note_overlaps(self, edit: OpenEdit) -> None:
        for other in self._edits:
            shared = other.paths.keys() & edit.paths.keys()
            other.overlaps |= shared
            edit.overlaps |= shared

    # -- after -----------------------------------------------------------------------------------------------------

    def _found_later(
        self, timeline: Timeline, turn: TurnRecord, edit: OpenEdit, named: str, records: list[Record]
    ) -> None:
        """Record what appeared below a named path, if that is a directory now: it was not there when the edit began."""
        for path in self._worktree.descend(named):
            if path in edit.paths or self._worktree.why_not(path) is not None:
                continue
            edit.paths[path] = None
            if timeline.touch_in(turn.turn, path) is None:
                absent = Image(Absent()).to_record()
                records.append(
                    {"kind": "before", "turn": turn.turn, "edit": edit.number, "path": path, "by": edit.by, **absent}
                )

    def _after(self, timeline: Timeline, turn: TurnRecord, path: str, edit: OpenEdit) -> Record:
        state, identity = self._worktree.examine(path)
        image = Image(state)
        if isinstance(state, Content) and state.size <= self._limit_bytes:
            image = self._keep_after(timeline, turn, path, image)
        return {
            "kind": "after",
            "turn": turn.turn,
            "edit": edit.number,
            "path": path,
            **image.to_record(),
            "identity": list(astuple(identity)) if identity else None,
            "overlap": path in edit.overlaps and not isinstance(image.state, Directory),
        }

    def _keep_after(self, timeline: Timeline, turn: TurnRecord, path: str, image: Image) -> Image:
        touch = timeline.touch_in(turn.turn, path)
        assert touch is not None
        for kept in (touch.before, touch.after, touch.earlier):
            if kept is not None and kept.payload is not None and same(kept.state, image.state):
                return Image(image.state, kept.payload)
        number = _own_number(touch) or f"{self._new_number(turn):04d}"
        try:
            return self._keep(turn, path, f"{number}.after", durable=False)
        except OSError:
            return image

    def _settled(self, touch: Touch) -> Record | None:
        """Record the end state once more when the file has settled since: from now on its identity speaks for it.

        The content is read again: a write in the same tick of the clock may have left no other trace.
        """
        recorded = identity_from(touch.identity)
        if touch.after is None or recorded is None or recorded.settled:
            return None
        state, now = self._worktree.examine(touch.path)
        if now is None or not now.settled or not same(state, touch.after.state):
            return None
        return {
            "kind": "after",
            "turn": touch.turn,
            "edit": 0,
            "path": touch.path,
            **touch.after.to_record(),
            "identity": list(astuple(now)),
            "overlap": touch.overlap,
        }

    def _sync_afters(self, touches: Sequence[Touch]) -> None:
        kept = {touch.after.payload for touch in touches if touch.after is not None and touch.after.payload is not None}
        for payload in sorted(kept, key=lambda payload: payload.file):
            if payload.file.endswith(".after"):
                self._payloads.sync(payload)
        if kept:
            files_of_turn = {self._payloads.locate(payload).parent for payload in kept}
            for directory in sorted(files_of_turn):
                files.sync_directory(directory)


def _gap_of(state: FileState) -> str | None:
    """Return why a state before an edit cannot be restored; None where it can."""
    match state:
        case OverLimit():
            return "over_limit"
        case Unreadable():
            return "unreadable"
        case _:
            return None


def identity_from(facts: tuple[int, ...] | None) -> Identity | None:
    """Return the identity recorded with an end state; None where none was."""
    if facts is None or len(facts) != 7 or not all(isinstance(fact, int) for fact in facts):
        return None
    return Identity(*facts)


def refuse_removed(timeline: Timeline, turn: TurnRecord) -> None:
    """Refuse a late capture.

    Raises:
        ConflictError: A rewind took the turn away.
    """
    live = timeline.turns.get(turn.turn)
    if live is None or live.message_id != turn.message_id:
        raise ConflictError(f"the turn of {turn.message_id} was removed by a rewind", turn=turn.message_id)


def _goes_on(touch: Touch, end: Record) -> Record:
    """Return the record that begins a touch behind a mark, with what the one in front of it left."""
    return {"kind": "before", "by": touch.by} | {key: end[key] for key in ("turn", "edit", "path", "state", "payload")}


def _own_number(touch: Touch) -> str | None:
    """Return the number of the payloads that no other touch refers to; None where it has none.

    Behind a mark the state before may be kept as what the touch in front of it left.
    """
    before, earlier = touch.before.payload, touch.earlier.payload if touch.earlier is not None else None
    for payload, suffix in ((before, ".before"), (earlier if earlier != before else None, ".after")):
        if payload is not None and payload.file.endswith(suffix):
            return os.path.basename(payload.file).removesuffix(suffix)
    return None
