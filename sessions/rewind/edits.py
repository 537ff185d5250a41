"""Recording what the agent does to files: the state before, durable before the edit; the state after, at its exit.

What a crash leaves: before ``begin_edit`` returns, at most a payload nobody refers to; after it, the old content, which
can be restored; between the edit and ``end_edit``, a touch without an *after*, which a plan shows as ``unverified``.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field

from sessions import clock
from sessions.errors import ConflictError
from sessions.ids import TASK_PREFIX
from sessions.rewind.authors import AGENT
from sessions.rewind.keeping import Keeper
from sessions.rewind.log import CaptureLog
from sessions.rewind.needs import is_within
from sessions.rewind.net import net
from sessions.rewind.payloads import Payloads
from sessions.rewind.recorded import MarkRecord, Touch, TurnRecord
from sessions.rewind.seam import Place
from sessions.rewind.states import Absent, Directory, FileState, Image, Link, OverLimit, Unreadable
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree
from sessions.subagents.record import TaskRecord

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
        done: Whether it was ended; one that outlives its turn is not yet.
        as_of_ns: When it ended, as the system stamps files; None: now.
    """

    turn: TurnRecord
    number: int
    by: str
    paths: dict[str, None] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)
    gaps: list[tuple[str, str]] = field(default_factory=list)
    overlaps: set[str] = field(default_factory=set)
    repositories: list[str] = field(default_factory=list)
    done: bool = False
    as_of_ns: int | None = None


class Recorder:
    """Records turns, edits and gaps of one session on its timeline.

    Args:
        limit_bytes: A larger file is a gap.
        author: Who makes the edits.
    """

    def __init__(
        self, log: CaptureLog, payloads: Payloads, worktree: Worktree, *, limit_bytes: int, author: str = AGENT
    ) -> None:
        self._log = log
        self._payloads = payloads
        self._worktree = worktree
        self._keeper = Keeper(payloads, worktree, limit_bytes=limit_bytes)
        self._edits: list[OpenEdit] = []
        self._numbers = 0
        self._ended: set[int] = set()
        self._author = author

    def begin_turn(self, message_id: str, run_id: str | None) -> TurnRecord:
        """Put a turn on the timeline; not durable before its first capture, without which nothing is missing."""
        with self._log.locked() as timeline:
            number = timeline.next_turn
            record: Record = {"kind": "turn", "turn": number, "message_id": message_id, "run_id": run_id}
            self._log.append([record], sync=False)
            return timeline.turns[number]

    def begin_edit(
        self, turn: TurnRecord, paths: Sequence[str | bytes | os.PathLike[str]], *, by: str | None = None
    ) -> OpenEdit:
        """Keep what the paths are now; durable on return.

        Args:
            by: Who makes the edit: a task; None: the author this records for.

        Raises:
            ConflictError: The turn was removed by a rewind.
            RequestError: Something is not a path.
            OSError: A snapshot cannot be stored; nothing was recorded, the edit must not be made.
        """
        self._numbers += 1
        edit = OpenEdit(turn, self._numbers, by or self._author)
        named = [self._worktree.identify(path) for path in paths]
        with self._log.locked() as timeline:
            self._refuse_late(timeline, turn)
            self._keeper.begin(timeline)
            records: list[Record] = []
            for path in named:
                self._name(timeline, turn, edit, path, records)
            if any(record.get("payload") for record in records):
                self._keeper.sync_names(turn)
            if records:
                self._log.append(records, sync=any(record["kind"] == "before" for record in records))
            self._note_overlaps(edit)
            self._edits.append(edit)
        return edit

    def end_edit(self, edit: OpenEdit) -> None:
        """Record what an edit left, after success and failure alike. Ending it twice changes nothing.

        One that is ended behind its turn still belongs to it.

        Raises:
            ConflictError: The turn was removed by a rewind meanwhile; nothing was recorded.
            OSError: Not all could be recorded; the end of the turn tries again.
        """
        with self._log.locked() as timeline:
            if edit.done:
                return
            self._refuse_late(timeline, edit.turn)
            self._record_end(timeline, edit)
            edit.done = True
            if edit in self._edits:
                self._edits.remove(edit)
            if edit.turn.turn in self._ended:
                self._conclude(timeline, edit.turn)

    def end_work(
        self, tasks: Sequence[TaskRecord], children: Container[str] = (), *, as_of: Mapping[str, int] | None = None
    ) -> None:
        """Record what tasks left in the files captured around them, and subagents in those they had open: they ended.

        What belongs to a turn that was removed is passed over. Doing it again changes nothing that matters.

        Args:
            children: The ids of the subagents' sessions that ended.
            as_of: By task, when it ended, as the system stamps files: what is newer somebody else did. Of a task that
                is not in it, what is there now is what it left.

        Raises:
            OSError: Not all could be recorded.
        """
        with self._log.locked() as timeline:
            edits: list[OpenEdit] = []
            for task in tasks:
                if task.edits and task.turn in timeline.turns:
                    edit = OpenEdit(timeline.turns[task.turn], 0, task.id, named=[*task.edits])
                    edit.as_of_ns = (as_of or {}).get(task.id)
                    edit.paths = {touch.path: None for touch in timeline.touches if task.id in touch.authors}
                    edits.append(edit)
            opened: dict[tuple[int, str], OpenEdit] = {}
            for touch in timeline.touches:
                if touch.after is None and touch.by in children and touch.turn in timeline.turns:
                    turn = timeline.turns[touch.turn]
                    opened.setdefault((turn.turn, touch.by), OpenEdit(turn, 0, touch.by)).paths[touch.path] = None
            edits += opened.values()
            ended = {edit.by for edit in edits}
            self._edits = [each for each in self._edits if each.by not in ended]
            for edit in edits:
                self._record_end(timeline, edit)
            for turn in {edit.turn.turn: edit.turn for edit in edits}.values():
                self._conclude(timeline, turn)

    def _refuse_late(self, timeline: Timeline, turn: TurnRecord) -> None:
        refuse_removed(timeline, turn)

    def _record_end(self, timeline: Timeline, edit: OpenEdit) -> None:
        self._keeper.begin(timeline)
        records: list[Record] = []
        for path in edit.named:
            self._found_later(timeline, edit.turn, edit, path, records)
        for path in edit.repositories:
            if not os.path.lexists(path):
                self._refuse(edit.turn, edit, "git", path, records)
        if records:
            self._log.append(records, sync=False)
        after = [
            self._after(timeline, edit.turn, path, edit) for path in edit.paths if not is_newer(path, edit.as_of_ns)
        ]
        if after:
            self._log.append(after, sync=False)

    def gap(self, turn: TurnRecord, kind: str, paths: Iterable[str]) -> None:
        """Record that something was done that cannot be captured.

        Raises:
            ConflictError: The turn was removed by a rewind.
        """
        with self._log.locked() as timeline:
            self._refuse_late(timeline, turn)
            self._log.append([{"kind": "gap", "turn": turn.turn, "gap": kind, "paths": list(paths)}], sync=False)

    def mark(self, turn: TurnRecord, name: str, place: Place) -> MarkRecord:
        """Put a mark on the timeline, with the bytes of every file as the turn left it there; durable on return.

        What is being edited right now is in it as it is at this moment, and its edit goes on behind the mark.

        Args:
            place: Where the transcript ends now.

        Raises:
            ConflictError: The turn was removed by a rewind.
            OSError: Not all could be kept; there is no mark.
        """
        with self._log.locked() as timeline:
            refuse_removed(timeline, turn)
            self._keeper.begin(timeline)
            appeared: list[Record] = []
            for edit in self._edits_of(turn):
                for path in edit.named:
                    self._found_later(timeline, turn, edit, path, appeared)
            if appeared:
                self._log.append(appeared, sync=False)
            going_on = [touch for touch in timeline.touches_since_mark(turn.turn) if touch.after is None]
            ends = [self._after(timeline, turn, touch.path, self._edit_of(turn, touch.path)) for touch in going_on]
            if ends:
                self._log.append(ends, sync=False)
            self._keeper.sync_afters(timeline.touches_since_mark(turn.turn))
            changed = [record for path in self._changed_by_others(timeline, turn) for record in self._as_is(turn, path)]
            if any(record["payload"] for record in changed):
                self._keeper.sync_names(turn)
            mark: Record = {"kind": "mark", "turn": turn.turn, "name": name, "at": clock.timestamp()}
            mark |= {"offset": place.offset, "seam": place.seam, "last_message": place.message}
            begins = [_goes_on(touch, end) for touch, end in zip(going_on, ends, strict=True)]
            self._log.append([mark, *begins, *changed])
            return timeline.marks[-1]

    def _changed_by_others(self, timeline: Timeline, turn: TurnRecord) -> list[str]:
        last = {touch.path: touch for touch in timeline.touches_since_mark(turn.turn)}
        return [path for path, touch in last.items() if touch.after is not None and not self._keeper.is_as_left(touch)]

    def _as_is(self, turn: TurnRecord, path: str) -> list[Record]:
        """Return records of what a path is that somebody else changed: a touch that only looked."""
        place: Record = {"turn": turn.turn, "edit": 0, "path": path, "by": self._author}
        image = self._keeper.before(turn, path).to_record()
        return [{"kind": "before", **place, **image}, {"kind": "after", **place, **image}]

    def _edits_of(self, turn: TurnRecord) -> list[OpenEdit]:
        return [edit for edit in self._edits if edit.turn.turn == turn.turn]

    def _edit_of(self, turn: TurnRecord, path: str) -> OpenEdit:
        return next((edit for edit in self._edits_of(turn) if path in edit.paths), OpenEdit(turn, 0, self._author))

    def end_turn(self, turn: TurnRecord) -> None:
        """Record what the edits still open left so far, make it durable, and record the turn's net effect.

        A turn that was removed meanwhile just ends.
        """
        with self._log.locked() as timeline:
            for edit in self._edits_of(turn):
                if edit.by.startswith(TASK_PREFIX):
                    continue  # it is open until the task is settled
                if turn.turn in timeline.turns:
                    self._record_end(timeline, edit)
                self._edits.remove(edit)
            if turn.turn in timeline.turns:
                self._conclude(timeline, turn)
                self._ended.add(turn.turn)

    def _conclude(self, timeline: Timeline, turn: TurnRecord) -> None:
        touches = timeline.touches_of(turn.turn)
        if touches:
            self._keeper.sync_afters(timeline.touches_since_mark(turn.turn))
            last = [touch for touch in touches if timeline.last_touch(turn.turn, touch.path) is touch]
            settled = [record for touch in last if (record := self._settled(touch)) is not None]
            end = {"kind": "end", "turn": turn.turn} | net(touches, self._payloads).to_record()
            self._log.append([*settled, end])

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
        touch = timeline.touch_in(turn.turn, path)
        if touch is not None and self._keeper.is_as_left(touch):  # else somebody changed it: a touch of its own
            if (kind := _gap_of(touch.before.state)) is not None:
                edit.gaps.append((kind, path))
            if touch.after is None and touch.by != edit.by:  # another writer has it open right now
                edit.overlaps.add(path)
            edit.paths[path] = None
            records.append({"kind": "again", "turn": turn.turn, "edit": edit.number, "path": path, "by": edit.by})
            return self._worktree.examine(path, limit_bytes=0)[0]
        if touch is None and (task := _making(timeline, turn, path)) is not None and task != edit.by:
            place = {"turn": turn.turn, "edit": edit.number, "path": path}
            records.append({"kind": "before", **place, "by": task, **Image(Absent()).to_record()})
            records.append({"kind": "again", **place, "by": edit.by})
            edit.paths[path] = None
            edit.overlaps.add(path)
            return self._worktree.examine(path, limit_bytes=0)[0]
        image = self._keeper.before(turn, path)
        if (kind := _gap_of(image.state)) is not None:
            self._refuse(turn, edit, kind, path, records)
        edit.paths[path] = None
        records.append(
            {"kind": "before", "turn": turn.turn, "edit": edit.number, "path": path, "by": edit.by, **image.to_record()}
        )
        return image.state

    def _refuse(self, turn: TurnRecord, edit: OpenEdit, kind: str, path: str, records: list[Record]) -> None:
        edit.gaps.append((kind, path))
        records.append({"kind": "gap", "turn": turn.turn, "gap": kind, "paths": [path]})

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
            if path in edit.paths or self._worktree.why_not(path) is not None or is_newer(path, edit.as_of_ns):
                continue
            edit.paths[path] = None
            if timeline.touch_in(turn.turn, path) is None:
                absent = Image(Absent()).to_record()
                records.append(
                    {"kind": "before", "turn": turn.turn, "edit": edit.number, "path": path, "by": edit.by, **absent}
                )

    def _after(self, timeline: Timeline, turn: TurnRecord, path: str, edit: OpenEdit) -> Record:
        image, identity = self._keeper.after(timeline, turn, path)
        return {
            "kind": "after",
            "turn": turn.turn,
            "edit": edit.number,
            "path": path,
            **image.to_record(),
            "identity": list(astuple(identity)) if identity else None,
            "overlap": path in edit.overlaps and not isinstance(image.state, Directory),
        }

    def _settled(self, touch: Touch) -> Record | None:
        """Return the end state once more, with what the system says of the file now that it has settled."""
        identity = self._keeper.settled(touch)
        if touch.after is None or identity is None:
            return None
        return {
            "kind": "after",
            "turn": touch.turn,
            "edit": 0,
            "path": touch.path,
            **touch.after.to_record(),
            "identity": list(astuple(identity)),
            "overlap": touch.overlap,
            "settled": True,
        }


def _making(timeline: Timeline, turn: TurnRecord, path: str) -> str | None:
    """Return the task that may have made a path: it lies in a directory captured around it, and was not there."""
    for task in timeline.tasks.values():
        if task.turn == turn.turn and task.ended is None and path not in task.edits and is_within(path, {*task.edits}):
            return task.id
    return None


def _gap_of(state: FileState) -> str | None:
    """Return why a state before an edit cannot be restored; None where it can."""
    match state:
        case OverLimit():
            return "over_limit"
        case Unreadable():
            return "unreadable"
        case _:
            return None


def is_newer(path: str, moment_ns: int | None) -> bool:
    """Tell whether a path may have been changed after a moment; of a directory that is there, only its making."""
    if moment_ns is None:
        return False
    try:
        return os.lstat(path).st_ctime_ns > moment_ns
    except OSError:
        parent = os.path.dirname(path)
        while not os.path.isdir(parent) and len(parent) > 1:
            parent = os.path.dirname(parent)
        return os.stat(parent).st_mtime_ns > moment_ns


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
