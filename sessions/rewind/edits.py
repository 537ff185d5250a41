"""Recording what the agent does to files: the state before, durable before the edit; the state after, at its exit.

What a crash leaves: before ``begin_edit`` returns, at most a payload nobody refers to; after it, the old content, which
can be restored; between the edit and ``end_edit``, a touch without an *after*, which a plan shows as ``unverified``.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple

from sessions import clock
from sessions.errors import ConflictError
from sessions.ids import TASK_PREFIX
from sessions.rewind.authors import AGENT
from sessions.rewind.capturing import Capturing, OpenEdit, Record, is_newer, together
from sessions.rewind.keeping import Keeper
from sessions.rewind.log import CaptureLog
from sessions.rewind.net import net
from sessions.rewind.payloads import Payloads
from sessions.rewind.recorded import MarkRecord, Touch, TurnRecord
from sessions.rewind.seam import Place
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree
from sessions.subagents.record import TaskRecord


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
            capturing = self._capturing(timeline, edit)
            for path in named:
                capturing.name(path)
            records = capturing.records
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

        What belongs to a turn that was removed is passed over. Doing it again changes nothing that matters. What is on
        record already is not written once more, so as many may share a directory as like to: it is looked through once
        for all that end together, and what one of them left is what they left.

        Args:
            children: The ids of the subagents' sessions that ended.
            as_of: By task, and by subagent's session, when it ended, as the system stamps files: what is newer somebody
                else did. Of one that is not in it, what is there now is what it left.

        Raises:
            OSError: Not all could be recorded.
        """
        with self._log.locked() as timeline:
            parts = [*_of_tasks(tasks, timeline, as_of or {}), *_left_open(children, timeline, as_of or {})]
            ended = {part.by for part in parts}
            self._edits = [each for each in self._edits if each.by not in ended]
            edits = together(parts)
            recorded = {edit.turn.turn for edit in edits if self._record_end(timeline, edit)}
            for turn in {edit.turn.turn: edit.turn for edit in edits}.values():
                if turn.turn in recorded or turn.turn not in timeline.summaries:
                    self._conclude(timeline, turn)

    def _capturing(self, timeline: Timeline, edit: OpenEdit) -> Capturing:
        return Capturing(timeline, edit, self._worktree, self._keeper)

    def _refuse_late(self, timeline: Timeline, turn: TurnRecord) -> None:
        """Refuse a late capture.

        Raises:
            ConflictError: A rewind took the turn away.
        """
        live = timeline.turns.get(turn.turn)
        if live is None or live.message_id != turn.message_id:
            raise ConflictError(f"the turn of {turn.message_id} was removed by a rewind", turn=turn.message_id)

    def _record_end(self, timeline: Timeline, edit: OpenEdit) -> bool:
        """Record what an edit left; tell whether anything was not on record yet."""
        self._keeper.begin(timeline)
        capturing = self._capturing(timeline, edit)
        capturing.find_new()
        capturing.go_on()
        capturing.note_lost_repositories()
        if capturing.records:
            self._log.append(capturing.records, sync=False)
        after = [capturing.after(path) for path in self._not_on_record(timeline, edit)]
        if after:
            self._log.append(after, sync=False)
        return bool(capturing.records or after)

    def _not_on_record(self, timeline: Timeline, edit: OpenEdit) -> Iterator[str]:
        """Yield the paths of which it is not on record what the edit left.

        It is where another writer that ended first left just this, and nobody touched the path since.
        """
        newest: dict[str, int] | None = None
        for path in edit.paths:
            if is_newer(path, edit.as_of_ns):
                continue
            touch = timeline.touch_in(edit.turn.turn, path)
            if touch is None or touch.after is None or path in edit.overlaps:
                yield path
                continue
            newest = _newest(timeline) if newest is None else newest
            if newest[path] != touch.closed or not self._keeper.still_holds(touch):
                yield path

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
            self._refuse_late(timeline, turn)
            self._keeper.begin(timeline)
            appeared: list[Record] = []
            for edit in self._edits_of(turn):
                capturing = self._capturing(timeline, edit)
                capturing.find_new()
                appeared += capturing.records
            if appeared:
                self._log.append(appeared, sync=False)
            going_on = _going_on(timeline, turn)
            ends = [self._capturing(timeline, self._edit_of(turn, path)).after(path) for path in going_on]
            if ends:
                self._log.append(ends, sync=False)
            self._keeper.sync_afters(timeline, timeline.touches_since_mark(turn.turn))
            others = [path for path in self._changed_by_others(timeline, turn) if path not in going_on]
            changed = [record for path in others for record in self._as_is(turn, path)]
            if any(record["payload"] for record in changed):
                self._keeper.sync_names(turn)
            mark: Record = {"kind": "mark", "turn": turn.turn, "name": name, "at": clock.timestamp()}
            mark |= {"offset": place.offset, "seam": place.seam, "last_message": place.message}
            begins = [_goes_on(end, by) for end, by in zip(ends, going_on.values(), strict=True)]
            self._log.append([mark, *begins, *changed])
            return timeline.marks[-1]

    def _changed_by_others(self, timeline: Timeline, turn: TurnRecord) -> list[str]:
        """Return what is not as the turn left it, of what its agent edited: the rest stays as it is anyway."""
        own = {touch.path for touch in timeline.touches_of(turn.turn) if self._author in touch.authors}
        last = {touch.path: touch for touch in timeline.touches_since_mark(turn.turn) if touch.path in own}
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
            self._keeper.sync_afters(timeline, timeline.touches_since_mark(turn.turn))
            last = [touch for touch in touches if timeline.last_touch(turn.turn, touch.path) is touch]
            settled = [record for touch in last if (record := self._settled(touch)) is not None]
            end = {"kind": "end", "turn": turn.turn} | net(touches, self._payloads.whole).to_record()
            self._log.append([*settled, end])

    def _note_overlaps(self, edit: OpenEdit) -> None:
        for other in self._edits:
            shared = other.paths.keys() & edit.paths.keys()
            other.overlaps |= shared
            edit.overlaps |= shared

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


def _of_tasks(tasks: Sequence[TaskRecord], timeline: Timeline, as_of: Mapping[str, int]) -> Iterable[OpenEdit]:
    """Return the edits of tasks whose turns are there: what they named, and all that was captured around them."""
    edits = {
        task.id: OpenEdit(timeline.turns[task.turn], 0, task.id, named=[*task.edits], as_of_ns=as_of.get(task.id))
        for task in tasks
        if task.edits and task.turn in timeline.turns
    }
    for touch in timeline.touches:
        for author in touch.authors:
            if author in edits:
                edits[author].paths[touch.path] = None
    return edits.values()


def _left_open(children: Container[str], timeline: Timeline, as_of: Mapping[str, int]) -> Iterable[OpenEdit]:
    """Return the edits that subagents have open, one for each and turn."""
    edits: dict[tuple[int, str], OpenEdit] = {}
    for touch in timeline.touches:
        if touch.after is None and touch.by in children and touch.turn in timeline.turns:
            turn = timeline.turns[touch.turn]
            edit = OpenEdit(turn, 0, touch.by, as_of_ns=as_of.get(touch.by))
            edits.setdefault((turn.turn, touch.by), edit).paths[touch.path] = None
    return edits.values()


def _newest(timeline: Timeline) -> dict[str, int]:
    """Return by path the ``seq`` of the last record of what anybody did to it."""
    newest: dict[str, int] = {}
    for touch in timeline.touches:
        newest[touch.path] = max(newest.get(touch.path, 0), touch.order[0], touch.closed)
    return newest


def _going_on(timeline: Timeline, turn: TurnRecord) -> dict[str, list[str]]:
    """Return by path who goes on with what a turn touched since its last mark.

    That is who has it open, and the tasks that had a part in it and are not settled: these may write at any moment.
    """
    running = {task.id for task in timeline.tasks.values() if task.ended is None}
    tasks: dict[str, dict[str, None]] = {}
    opened: dict[str, list[str]] = {}
    for touch in timeline.touches_since_mark(turn.turn):
        tasks.setdefault(touch.path, {}).update((by, None) for by in touch.authors if by in running)
        opened[touch.path] = [touch.by] if touch.after is None else []
    found = {path: [*(by for by in tasks[path] if by not in opens), *opens] for path, opens in opened.items()}
    return {path: authors for path, authors in found.items() if authors}


def _goes_on(end: Record, by: Sequence[str]) -> Record:
    """Return the record that begins a touch behind a mark, with what the one in front of it left."""
    kept = {key: end[key] for key in ("turn", "edit", "path", "state", "payload")}
    return {"kind": "before", "by": by[-1], "authors": [*by]} | kept
