"""The code timeline: one log per session, folded into what is true now. Pure.

The log (``timeline.jsonl`` in the sidecar) holds one JSON object a line, only ever appended:

==========  =======================================================================================================
``kind``    beside ``v`` (schema version) and ``seq`` (grows by one, never reused)
==========  =======================================================================================================
``turn``    ``turn`` (number, never reused), ``message_id`` of its prompt, ``run_id``
``before``  ``turn``, ``edit``, ``path``, ``state``, ``payload``, ``by``: what a path was before its first edit in the
turn
``again``   ``turn``, ``edit``, ``path``, ``by``: the path is being edited once more; its end state is open again
``after``   ``turn``, ``edit``, ``path``, ``state``, ``payload``, ``identity``, ``overlap``: what the edit left; with
            ``settled``, only that the system has something surer to say of it
``gap``     ``turn``, ``gap`` (a word), ``paths``, ``what``: something that was not captured. With ``task``, what a task
            did: until it turns out to use this library, in a ``child`` of its own
``mark``    ``turn``, ``name``, ``at``, ``offset``, ``seam``, ``last_message``: a named point. It ends the touches so
            far: what is edited behind it begins touches of its own
``end``     ``turn``, ``files``, ``insertions``, ``deletions``: the turn's net effect, for lists
``task``    ``task`` (an id, never reused), ``turn``, ``session``, ``spawned_by``, …: background work was started
``ended``   ``task``, ``state``, ``code``, ``at``: it is settled how that ended; the first such record counts
``withdrawn`` ``task``: it could not be started after all
``child``   ``session``, ``turn``, ``parent``, ``spawned_by``, ``task``, ``label``: a subagent has a session
``rewind``  ``rewind``, ``scope``, ``to``, ``run``, ``from``, ``at``, ``touches``: a rewind came true
``undo``    ``rewind``, ``record``, ``at``: it was taken back · ``redo`` likewise: it came true once more. An undo with
            ``of`` took back some files of that rewind; ``redo`` of its own name repeats the rewind for these
``wrote``   ``path``, ``before``, ``after``, ``by``: in a fork, what a rewind of the code alone wrote in the parent
``lost``    in a fork: here stood a record of the parent that cannot be read
``prune``   ``turns`` (numbers), ``rewinds`` (undo records): their bytes are removed, because of the limits
==========  =======================================================================================================

Order is the log's, never a clock's; only what was recorded after the fact names its place in ``order``. Rewinding code
to a position gives every path touched after it the *before* of its first touch after it. A rewind of both code and
conversation takes the turns from the place ``from`` on out of the timeline with all they did, and an undo brings them
back; what an earlier turn still did behind that place, by an edit or a task that outlived it, stays. A rewind of the
conversation alone leaves all, *detached* from any prompt; a rewind of code alone adds its own writes as ``touches``.
Nothing is ever deleted from the log, so a late capture for a removed turn is recognised and refused.

Unknown kinds are skipped, so a log written by a later version is still read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from sessions.rewind.plan import Gap, History, Scope, Status, TouchedFile
from sessions.rewind.recorded import MarkRecord, Order, Span, Step, Touch, TurnRecord, TurnSummary
from sessions.rewind.states import Image, image_from
from sessions.subagents.record import ChildRecord, TaskRecord, child_from, ended_from, task_from

VERSION = 1
_BLIND = ("turn", "before")  # folding these looks at no touch


@dataclass(slots=True)
class Timeline:
    """The fold of a log: what is live now. Made by ``fold``, extended by ``extend``; otherwise read only."""

    turns: dict[int, TurnRecord] = field(default_factory=dict)
    touches: list[Touch] = field(default_factory=list)
    gaps: list[tuple[int, int, Gap]] = field(default_factory=list)
    marks: list[MarkRecord] = field(default_factory=list)
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    children: dict[str, ChildRecord] = field(default_factory=dict)
    summaries: dict[int, TurnSummary] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    next_seq: int = 0
    next_turn: int = 1
    damaged: int = 0
    missing: list[int] = field(default_factory=list)
    records: dict[str, str] = field(default_factory=dict)  # of transactions, oldest first: the rewind each belongs to
    pruned_turns: set[int] = field(default_factory=set)
    pruned_records: set[str] = field(default_factory=set)
    _gaps_of_tasks: dict[str, int] = field(default_factory=dict)
    _expired: set[str] = field(default_factory=set)
    _stash: dict[str, _Removed] = field(default_factory=dict)
    _spans: dict[str, tuple[Order, int, int | None]] = field(default_factory=dict)
    _latest: dict[tuple[int, str], int] = field(default_factory=dict)
    _in_order: bool = True

    def extend(self, records: Iterable[object]) -> None:
        """Fold more records in, in log order; one that makes no sense is counted in ``damaged`` and skipped.

        Touches that name their place are put in order once for as many as follow one another.
        """
        for record in records:
            try:
                self._fold(cast("Mapping[str, object]", record))
            except (ValueError, TypeError, KeyError, AttributeError):
                self.damaged += 1
                if isinstance(record, Mapping):  # it is whole, so somebody was told of it
                    self.missing.append(self.next_seq - 1)
        self._put_in_order()

    def turn_of(self, message_id: str) -> TurnRecord | None:
        """Return the live turn whose prompt has that id, also a detached one."""
        return self.first_turns().get(message_id)

    def first_turns(self) -> dict[str, TurnRecord]:
        """Return the live turns by the message id of their prompt; of several with one id the first."""
        return {turn.message_id: turn for turn in reversed(self.turns.values())}

    def touch_in(self, turn: int, path: str) -> Touch | None:
        """Return what a turn did to a path since its last mark."""
        touch = self.last_touch(turn, path)
        return None if touch is None or self._is_marked(touch) else touch

    def last_touch(self, turn: int, path: str) -> Touch | None:
        """Return the last thing a turn did to a path, in front of a mark too."""
        place = self._latest.get((turn, path))
        return None if place is None else self.touches[place]

    def touches_of(self, turn: int) -> list[Touch]:
        """Return what a turn touched, in order."""
        return [touch for touch in self.touches if touch.turn == turn]

    def touches_since_mark(self, turn: int) -> list[Touch]:
        """Return what a turn touched since its last mark, in order."""
        return [touch for touch in self.touches_of(turn) if not self._is_marked(touch)]

    def span(self, start: Order, *, within: int | None = None) -> Span:
        """Return what goes when one goes back to a place; ``within``: the turn it is inside of, for a mark."""
        return Span(start, frozenset(turn.turn for turn in self.turns.values() if turn.order < start) - {within})

    def newest_done(self) -> Step | None:
        """Return the rewind an undo would take back; none where the bytes for it are removed."""
        step = max((step for step in self.steps if step.state == "done"), key=lambda step: step.seq, default=None)
        return step if step is not None and self.is_usable(step) else None

    def newest_undone(self) -> Step | None:
        """Return the rewind a redo would repeat: the last one undone, if no turn and no rewind came since."""
        undone = [step for step in self.steps if step.state == "undone" and step.rewind not in self._expired]
        step = max(undone, key=lambda step: step.seq, default=None)
        return step if step is not None and self.is_usable(step) else None

    def is_usable(self, step: Step) -> bool:
        """Tell whether a rewind can still be undone or redone, the later ones first."""
        expired = step.state == "undone" and step.rewind in self._expired
        return not expired and step.record not in self.pruned_records

    def removed_turns(self, rewind: str) -> tuple[int, ...]:
        """Return the numbers of the turns that an undo of this rewind would bring back."""
        removed = self._stash.get(rewind)
        return tuple(removed.turns) if removed is not None else ()

    def images(self) -> Iterator[Image]:
        """Yield every image on record, also those of turns that a rewind removed; the newest last."""
        stashed = (touch for removed in self._stash.values() for touch in removed.touches)
        for touch in [*stashed, *self.touches]:
            yield touch.before
            if touch.after is not None:
                yield touch.after

    def _fold(self, record: Mapping[str, object]) -> None:
        seq = record["seq"]
        if not isinstance(seq, int):
            raise ValueError("seq")
        if seq > self.next_seq or _int(record["v"]) > VERSION:
            self.missing.append(self.next_seq)
        self.next_seq = max(self.next_seq, seq + 1)
        folds: dict[object, Callable[[int, Mapping[str, object]], None]] = {
            "turn": self._begin_turn,
            "before": self._touch,
            "again": self._reopen,
            "after": self._close,
            "gap": self._gap,
            "mark": self._mark,
            "end": self._end,
            "task": self._begin_task,
            "ended": self._end_task,
            "child": self._begin_child,
            "withdrawn": self._withdraw_task,
            "rewind": self._rewind,
            "undo": self._undo,
            "redo": self._redo,
            "wrote": self._wrote,
            "lost": self._lost,
            "prune": self._prune,
        }
        if (fold := folds.get(record["kind"])) is not None:
            if record["kind"] not in _BLIND:
                self._put_in_order()
            fold(seq, record)

    def _begin_turn(self, seq: int, record: Mapping[str, object]) -> None:
        number = _int(record["turn"])
        run_id = record.get("run_id")
        run_id = run_id if isinstance(run_id, str) else None
        self.turns[number] = TurnRecord(seq, number, _str(record["message_id"]), run_id, _order(record, seq))
        self.next_turn = max(self.next_turn, number + 1)
        self._expire()

    def _touch(self, seq: int, record: Mapping[str, object]) -> None:
        turn, path = _int(record["turn"]), _str(record["path"])
        by = _str(record["by"])
        authors = record.get("authors")
        several = tuple(str(each) for each in authors) if isinstance(authors, list) else (by,)
        touch = Touch(_order(record, seq), turn, path, image_from(record), None, by, authors=several)
        self.summaries.pop(turn, None)  # what it says of the turn no longer holds
        self._latest[turn, path] = len(self.touches)
        self.touches.append(touch)
        self._in_order = self._in_order and "order" not in record

    def _put_in_order(self) -> None:
        if not self._in_order:
            self.touches.sort(key=lambda touch: touch.order)
            self._index()
            self._in_order = True

    def _reopen(self, _seq: int, record: Mapping[str, object]) -> None:
        turn = _int(record["turn"])
        place = self._latest[turn, _str(record["path"])]
        self.summaries.pop(turn, None)
        touch = self.touches[place]
        by, earlier = _str(record["by"]), touch.after or touch.earlier
        authors = touch.authors if by in touch.authors else (*touch.authors, by)
        self.touches[place] = replace(touch, after=None, identity=None, by=by, earlier=earlier, authors=authors)

    def _close(self, seq: int, record: Mapping[str, object]) -> None:
        place = self._latest[_int(record["turn"]), _str(record["path"])]
        touch = self.touches[place]
        identity = record.get("identity")
        self.touches[place] = replace(
            touch,
            after=image_from(record),
            identity=tuple(identity) if isinstance(identity, list) else None,
            closed=touch.closed if record.get("settled") is True else seq,
            overlap=touch.overlap or record.get("overlap") is True,
            earlier=None,
        )

    def _gap(self, seq: int, record: Mapping[str, object]) -> None:
        turn = _int(record["turn"])
        paths = record.get("paths")
        shown = tuple(str(path) for path in paths) if isinstance(paths, list) else ()
        what, task = record.get("what"), record.get("task")
        if isinstance(task, str):
            self._gaps_of_tasks[task] = seq
        gap = Gap(_str(record["gap"]), shown, self.turns[turn].message_id, what if isinstance(what, str) else "")
        self.gaps.append((seq, turn, gap))

    def _mark(self, seq: int, record: Mapping[str, object]) -> None:
        turn = _int(record["turn"])
        name, at, seam = (_str(record[key]) for key in ("name", "at", "seam"))
        offset, last = _int(record["offset"]), _str(record.get("last_message", ""))
        self.marks.append(MarkRecord(seq, turn, self.turns[turn].message_id, name, at, offset, seam, last))

    def _is_marked(self, touch: Touch) -> bool:
        for mark in reversed(self.marks):
            if mark.order < touch.order:
                return False
            if mark.turn == touch.turn:
                return True
        return False

    def _end(self, _seq: int, record: Mapping[str, object]) -> None:
        listed = record["files"]
        files = tuple(
            TouchedFile(_str(each["path"]), cast("Status", _str(each["status"])))
            for each in cast("list[dict[str, object]]", listed)
        )
        added, removed = record.get("insertions"), record.get("deletions")
        self.summaries[_int(record["turn"])] = TurnSummary(
            files, added if isinstance(added, int) else None, removed if isinstance(removed, int) else None
        )

    def _begin_task(self, seq: int, record: Mapping[str, object]) -> None:
        task = task_from(seq, record)
        self.tasks[task.id] = task

    def _end_task(self, _seq: int, record: Mapping[str, object]) -> None:
        task = self.tasks.get(_str(record["task"]))
        if task is not None and task.ended is None:
            self.tasks[task.id] = replace(task, ended=ended_from(record))

    def _withdraw_task(self, _seq: int, record: Mapping[str, object]) -> None:
        task = _str(record["task"])
        self.tasks.pop(task, None)
        gap = self._gaps_of_tasks.pop(task, None)
        self.gaps = [each for each in self.gaps if each[0] != gap]

    def _begin_child(self, seq: int, record: Mapping[str, object]) -> None:
        child = child_from(seq, record)
        self.children[child.id] = child
        captured = self._gaps_of_tasks.pop(child.task, None) if child.task is not None else None
        self.gaps = [gap for gap in self.gaps if gap[0] != captured]

    def _rewind(self, seq: int, record: Mapping[str, object]) -> None:
        name = _str(record["rewind"])
        start = _order({"order": record.get("from")}, seq) if record.get("from") is not None else None
        self._expire()
        scope, run = cast("Scope", _str(record["scope"])), record.get("run")
        run = run if isinstance(run, str) else None
        history = cast("History", _str(record.get("history", "rewrite")))
        to, at = _str(record["to"]), _str(record.get("at", ""))
        self.records[name] = name
        mark = record.get("mark")
        mark = mark if isinstance(mark, int) else None
        self.steps.append(Step(name, name, scope, to, at, seq, "done", _left(record), run, history, mark))
        if scope == "both" and start is not None:
            self._spans[name] = start, seq, next((each.turn for each in self.marks if each.seq == mark), None)
            self._remove(name)
        self._own_writes(seq, record)

    def _undo(self, seq: int, record: Mapping[str, object]) -> None:
        name = _str(record["rewind"])
        if "of" in record:  # only some files of that rewind: a step of its own, undone from the start
            self.records[name] = name
            to, at = _str(record["to"]), _str(record["at"])
            of = _str(record["of"])
            self.steps.append(Step(name, name, "code", to, at, seq, "undone", _left(record), of=of))
            self._own_writes(seq, record)
            return
        self._set_step(name, "undone", record)
        again = self._stash.pop(f"undone {name}", _Removed()).touches
        self.touches = sorted(
            [*self.touches, *(replace(touch, by=f"undo {record['record']}") for touch in again)],
            key=lambda touch: touch.order,
        )
        removed = self._stash.pop(name, None)
        split_off = {f"undo {step.record}" for step in self.steps if step.of == name}  # there is nothing to undo now
        own = [touch for touch in self.touches if touch.by == f"rewind {name}" or touch.by in split_off]
        self._stash[f"own {name}"] = _Removed(touches=own)
        gone = {*map(id, own)}
        self.touches = [touch for touch in self.touches if id(touch) not in gone]
        if removed is not None:
            before = {(touch.order, touch.path): touch.before for touch in removed.rebased}
            self.touches = [
                replace(touch, before=before.get((touch.order, touch.path), touch.before)) for touch in self.touches
            ]
            self.touches = sorted([*self.touches, *removed.touches], key=lambda touch: touch.order)
            self.gaps = sorted([*self.gaps, *removed.gaps], key=lambda gap: gap[0])
            self.marks = sorted([*self.marks, *removed.marks], key=lambda mark: mark.seq)
            tasks, children = {**removed.tasks, **self.tasks}, {**removed.children, **self.children}
            self.tasks = dict(sorted(tasks.items(), key=lambda each: each[1].seq))
            self.children = dict(sorted(children.items(), key=lambda each: each[1].seq))
            self.summaries |= removed.summaries
            self.turns = dict(sorted({**self.turns, **removed.turns}.items()))
        self._own_writes(seq, record)
        self._index()

    def _redo(self, seq: int, record: Mapping[str, object]) -> None:
        name = _str(record["rewind"])
        step = self._set_step(name, "done", record)
        undone = [touch for touch in self.touches if touch.by == f"undo {step.record}"]
        if step.of is not None:  # nobody records them anew when it is undone once more
            self._stash[f"undone {name}"] = _Removed(touches=undone)
        self.touches = [touch for touch in self.touches if touch.by != f"undo {step.record}"]
        own = self._stash.pop(f"own {name}", None)
        if name in self._spans:
            self._remove(name)
        if own is not None:
            self.touches = sorted([*self.touches, *own.touches], key=lambda touch: touch.order)
        self._own_writes(seq, record)
        self._index()

    def _prune(self, _seq: int, record: Mapping[str, object]) -> None:
        self.pruned_turns.update(_int(turn) for turn in cast("list[object]", record["turns"]))
        self.pruned_records.update(_str(name) for name in cast("list[object]", record["rewinds"]))

    def _remove(self, name: str) -> None:
        """Take out of the timeline what a rewind removed: its turns with all they did, and what else lay behind."""
        start, end, within = self._spans[name]
        span = self.span(start, within=within)
        turns = {number: turn for number, turn in self.turns.items() if start <= turn.order and turn.seq < end}

        def goes(order: Order, turn: int | None) -> bool:
            return turn in turns or (order[0] < end and span.holds(order, turn))

        gone = _Removed(
            [touch for touch in self.touches if goes(touch.order, touch.turn)],
            [gap for gap in self.gaps if goes((gap[0], 0, 0, 0), gap[1])],
            turns,
            [mark for mark in self.marks if mark.order != start and goes(mark.order, mark.turn)],
            {name: each for name, each in self.tasks.items() if goes((each.seq, 0, 0, 0), each.turn)},
            {name: each for name, each in self.children.items() if goes((each.seq, 0, 0, 0), each.turn)},
        )
        self.tasks = {name: each for name, each in self.tasks.items() if name not in gone.tasks}
        self.children = {name: each for name, each in self.children.items() if name not in gone.children}
        shortened = {*(touch.turn for touch in gone.touches), *(mark.turn for mark in gone.marks)} - turns.keys()
        gone.summaries = {turn: each for turn, each in self.summaries.items() if turn in shortened}
        removed = {*map(id, gone.touches), *map(id, gone.gaps), *map(id, gone.marks)}
        self.touches = [touch for touch in self.touches if id(touch) not in removed]
        self.gaps = [gap for gap in self.gaps if id(gap) not in removed]
        self.marks = [mark for mark in self.marks if id(mark) not in removed]
        self.summaries = {turn: each for turn, each in self.summaries.items() if turn not in gone.summaries}
        self.turns = {number: turn for number, turn in self.turns.items() if number not in gone.turns}
        self._rebase(gone)
        self._stash[name] = gone
        self._index()

    def _rebase(self, gone: _Removed) -> None:
        """Let what stays of a path begin where what was removed in front of it began: the state between is no more."""
        firsts: dict[str, Touch] = {}
        for touch in gone.touches:
            firsts.setdefault(touch.path, touch)
        for place, touch in enumerate(self.touches):
            first = firsts.get(touch.path)
            if first is not None and first.order < touch.order:
                del firsts[touch.path]
                gone.rebased.append(touch)
                self.touches[place] = replace(touch, before=first.before)

    def _own_writes(self, seq: int, record: Mapping[str, object]) -> None:
        listed = record.get("touches")
        for place, each in enumerate(
            cast("list[dict[str, dict[str, object]]]", listed) if isinstance(listed, list) else []
        ):
            before, after = image_from(each["before"]), image_from(each["after"])
            name = f"{record['kind']} {record.get('record', record['rewind'])}"
            facts: object = each.get("identity")
            identity = tuple(facts) if isinstance(facts, list) else None
            self.touches.append(Touch((seq, 0, 0, place), None, _str(each["path"]), before, after, name, identity))

    def _wrote(self, seq: int, record: Mapping[str, object]) -> None:
        before, after = (image_from(cast("Mapping[str, object]", record[side])) for side in ("before", "after"))
        self.touches.append(Touch((seq, 0, 0, 0), None, _str(record["path"]), before, after, _str(record["by"])))

    def _lost(self, seq: int, _record: Mapping[str, object]) -> None:
        self.missing.append(seq)

    def _expire(self) -> None:
        """Forget what could be redone: something new happened."""
        self._expired.update(step.rewind for step in self.steps if step.state == "undone")

    def _set_step(self, name: str, state: Literal["done", "undone"], said: Mapping[str, object]) -> Step:
        for place, step in enumerate(self.steps):
            if step.rewind == name:
                record, seq = _str(said["record"]), _int(said["seq"])
                self.records[record] = name
                self.steps[place] = replace(step, state=state, record=record, seq=seq, left=_left(said))
                return step
        raise ValueError(f"no rewind {name}")

    def _index(self) -> None:
        self._latest = {
            (touch.turn, touch.path): place for place, touch in enumerate(self.touches) if touch.turn is not None
        }


@dataclass(slots=True)
class _Removed:
    touches: list[Touch] = field(default_factory=list)
    gaps: list[tuple[int, int, Gap]] = field(default_factory=list)
    turns: dict[int, TurnRecord] = field(default_factory=dict)
    marks: list[MarkRecord] = field(default_factory=list)
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    children: dict[str, ChildRecord] = field(default_factory=dict)
    summaries: dict[int, TurnSummary] = field(default_factory=dict)
    rebased: list[Touch] = field(default_factory=list)  # as they were


def _order(record: Mapping[str, object], seq: int) -> Order:
    """Return the place a record names, else that of the record itself."""
    match record.get("order"):
        case [int(log), int(side), int(place), int(number)]:
            return (log, side, place, number)
        case _:
            return (seq, 0, 0, 0)


def _left(record: Mapping[str, object]) -> tuple[str, ...]:
    left = record.get("left")
    return tuple(str(path) for path in left) if isinstance(left, list) else ()


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"not a number: {value!r}")
    return value


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not text: {value!r}")
    return value
