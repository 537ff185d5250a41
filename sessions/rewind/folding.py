"""Folding the records of a log into its timeline, as the log grows. Pure.

What the records mean is said in `sessions.rewind.timeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, cast

from sessions.rewind.plan import Gap, History, Scope, Status, TouchedFile
from sessions.rewind.recorded import MarkRecord, Order, Step, Touch, TurnRecord, TurnSummary
from sessions.rewind.states import image_from
from sessions.rewind.timeline import VERSION, Stashed, Timeline
from sessions.subagents.record import child_from, ended_from, task_from

_BLIND = ("turn", "before")  # folding these looks at no touch


@dataclass(slots=True)
class Folding:
    """A timeline that grows with its log, and what only the next records need to know.

    Attributes:
        timeline: What is live now; always the same object.
    """

    timeline: Timeline = field(default_factory=Timeline)
    _in_order: bool = True

    def extend(self, records: Iterable[object]) -> None:
        """Fold more records in, in log order; one that makes no sense is counted in ``damaged`` and skipped.

        Touches that name their place are put in order once for as many as follow one another.
        """
        timeline = self.timeline
        for record in records:
            try:
                self._fold(cast("Mapping[str, object]", record))
            except (ValueError, TypeError, KeyError, AttributeError):
                timeline.damaged += 1
                if isinstance(record, Mapping):  # it is whole, so somebody was told of it
                    timeline.missing.append(timeline.next_seq - 1)
        self._put_in_order()

    def _fold(self, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        seq = record["seq"]
        if not isinstance(seq, int):
            raise ValueError("seq")
        if seq > timeline.next_seq or _int(record["v"]) > VERSION:
            timeline.missing.append(timeline.next_seq)
        timeline.next_seq = max(timeline.next_seq, seq + 1)
        if (fold := self._folds.get(record["kind"])) is not None:
            if record["kind"] not in _BLIND:
                self._put_in_order()
            fold(self, seq, record)

    def _begin_turn(self, seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        number = _int(record["turn"])
        run_id = record.get("run_id")
        run_id = run_id if isinstance(run_id, str) else None
        timeline.turns[number] = TurnRecord(seq, number, _str(record["message_id"]), run_id, _order(record, seq))
        timeline.next_turn = max(timeline.next_turn, number + 1)
        if "order" not in record:  # else its prompt was there already
            self._expire()

    def _touch(self, seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        turn, path = _int(record["turn"]), _str(record["path"])
        by = _str(record["by"])
        authors = record.get("authors")
        several = tuple(str(each) for each in authors) if isinstance(authors, list) else (by,)
        touch = Touch(_order(record, seq), turn, path, image_from(record), None, by, authors=several, begun=seq)
        timeline.summaries.pop(turn, None)  # what it says of the turn no longer holds
        timeline.latest[turn, path] = len(timeline.touches)
        self._add(touch)

    def _add(self, touch: Touch) -> None:
        touches = self.timeline.touches
        self._in_order = self._in_order and (not touches or touches[-1].order <= touch.order)
        touches.append(touch)

    def _put_in_order(self) -> None:
        if not self._in_order:
            self.timeline.touches.sort(key=lambda touch: touch.order)
            self._index()
            self._in_order = True

    def _reopen(self, seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        turn = _int(record["turn"])
        place = timeline.latest[turn, _str(record["path"])]
        timeline.summaries.pop(turn, None)
        touch = timeline.touches[place]
        by, earlier = _str(record["by"]), touch.after or touch.earlier
        authors = touch.authors if by in touch.authors else (*touch.authors, by)
        timeline.touches[place] = replace(
            touch, after=None, identity=None, by=by, earlier=earlier, authors=authors, begun=seq
        )

    def _close(self, seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        place = timeline.latest[_int(record["turn"]), _str(record["path"])]
        touch = timeline.touches[place]
        identity = record.get("identity")
        timeline.touches[place] = replace(
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
            self.timeline.gaps_of_tasks[task] = seq
        kind, of = _str(record["gap"]), self.timeline.turns[turn].message_id
        self.timeline.gaps.append((seq, turn, Gap(kind, shown, of, what if isinstance(what, str) else "")))

    def _mark(self, seq: int, record: Mapping[str, object]) -> None:
        turn = _int(record["turn"])
        name, at, seam = (_str(record[key]) for key in ("name", "at", "seam"))
        offset, last = _int(record["offset"]), _str(record.get("last_message", ""))
        of = self.timeline.turns[turn].message_id
        self.timeline.marks.append(MarkRecord(seq, turn, of, name, at, offset, seam, last))

    def _end(self, _seq: int, record: Mapping[str, object]) -> None:
        listed = record["files"]
        files = tuple(
            TouchedFile(_str(each["path"]), cast("Status", _str(each["status"])))
            for each in cast("list[dict[str, object]]", listed)
        )
        added, removed = record.get("insertions"), record.get("deletions")
        self.timeline.summaries[_int(record["turn"])] = TurnSummary(
            files, added if isinstance(added, int) else None, removed if isinstance(removed, int) else None
        )

    def _begin_task(self, seq: int, record: Mapping[str, object]) -> None:
        task = task_from(seq, record)
        self.timeline.tasks[task.id] = task

    def _end_task(self, _seq: int, record: Mapping[str, object]) -> None:
        task = self.timeline.tasks.get(_str(record["task"]))
        if task is not None and task.ended is None:
            self.timeline.tasks[task.id] = replace(task, ended=ended_from(record))

    def _withdraw_task(self, _seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        task = _str(record["task"])
        timeline.tasks.pop(task, None)
        gap = self.timeline.gaps_of_tasks.pop(task, None)
        timeline.gaps = [each for each in timeline.gaps if each[0] != gap]

    def _begin_child(self, seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        child = child_from(seq, record)
        timeline.children[child.id] = child
        captured = self.timeline.gaps_of_tasks.pop(child.task, None) if child.task is not None else None
        timeline.gaps = [gap for gap in timeline.gaps if gap[0] != captured]

    def _rewind(self, seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        name = _str(record["rewind"])
        start = _order({"order": record.get("from")}, seq) if record.get("from") is not None else None
        self._expire()
        scope, run = cast("Scope", _str(record["scope"])), record.get("run")
        run = run if isinstance(run, str) else None
        history = cast("History", _str(record.get("history", "rewrite")))
        to, at = _str(record["to"]), _str(record.get("at", ""))
        timeline.records[name] = name
        mark = record.get("mark")
        mark = mark if isinstance(mark, int) else None
        within = next((each.turn for each in timeline.marks if each.seq == mark), None)
        step = Step(name, name, scope, to, at, seq, "done", _left(record), run, history, mark)
        step = replace(step, start=start, within=within, end=seq)
        timeline.steps.append(step)
        self._remove(step)
        self._own_writes(seq, record)

    def _undo(self, seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        name = _str(record["rewind"])
        if "of" in record:  # only some files of that rewind: a step of its own, undone from the start
            timeline.records[name] = name
            to, at = _str(record["to"]), _str(record["at"])
            of = _str(record["of"])
            timeline.steps.append(Step(name, name, "code", to, at, seq, "undone", _left(record), of=of))
            self._own_writes(seq, record)
            return
        self._set_step(name, "undone", record)
        again = timeline.stash.pop(f"undone {name}", Stashed()).touches
        timeline.touches = sorted(
            [*timeline.touches, *(replace(touch, by=f"undo {record['record']}") for touch in again)],
            key=lambda touch: touch.order,
        )
        removed = timeline.stash.pop(name, None)
        parts = [step for step in timeline.steps if step.of == name]  # there is nothing to undo of them now
        split_off = {f"undo {step.record}" for step in parts}
        own = [touch for touch in timeline.touches if touch.by == f"rewind {name}" or touch.by in split_off]
        timeline.stash[f"own {name}"] = Stashed(touches=own)
        gone = {*map(id, own)}
        timeline.touches = [touch for touch in timeline.touches if id(touch) not in gone]
        if removed is not None:
            before = {(touch.order, touch.path): touch.before for touch in removed.rebased}
            timeline.touches = [
                replace(touch, before=before.get((touch.order, touch.path), touch.before)) for touch in timeline.touches
            ]
            timeline.touches = sorted([*timeline.touches, *removed.touches], key=lambda touch: touch.order)
            timeline.gaps = sorted([*timeline.gaps, *removed.gaps], key=lambda gap: gap[0])
            timeline.marks = sorted([*timeline.marks, *removed.marks], key=lambda mark: mark.seq)
            tasks, children = {**removed.tasks, **timeline.tasks}, {**removed.children, **timeline.children}
            timeline.tasks = dict(sorted(tasks.items(), key=lambda each: each[1].seq))
            timeline.children = dict(sorted(children.items(), key=lambda each: each[1].seq))
            timeline.summaries |= removed.summaries
            timeline.turns = dict(sorted({**timeline.turns, **removed.turns}.items()))
        self._own_writes(seq, record)
        self._index()

    def _redo(self, seq: int, record: Mapping[str, object]) -> None:
        timeline = self.timeline
        name = _str(record["rewind"])
        step = self._set_step(name, "done", record)
        undone = [touch for touch in timeline.touches if touch.by == f"undo {step.record}"]
        if step.of is not None:  # nobody records them anew when it is undone once more
            timeline.stash[f"undone {name}"] = Stashed(touches=undone)
        timeline.touches = [touch for touch in timeline.touches if touch.by != f"undo {step.record}"]
        own = timeline.stash.pop(f"own {name}", None)
        self._remove(step)
        if own is not None:
            timeline.touches = sorted([*timeline.touches, *own.touches], key=lambda touch: touch.order)
        self._own_writes(seq, record)
        self._index()

    def _prune(self, _seq: int, record: Mapping[str, object]) -> None:
        self.timeline.pruned_turns.update(_int(turn) for turn in cast("list[object]", record["turns"]))
        self.timeline.pruned_records.update(_str(name) for name in cast("list[object]", record["rewinds"]))

    def _remove(self, step: Step) -> None:
        """Take out of the timeline what a rewind removed: its turns with all they did, and what else lay behind."""
        timeline = self.timeline
        span = timeline.taken_by(step) if step.scope == "both" else None
        if span is None:
            return
        gone = Stashed(
            [touch for touch in timeline.touches if span.takes(touch)],
            [gap for gap in timeline.gaps if timeline.loses(span, gap)],
            {number: turn for number, turn in timeline.turns.items() if number in span.turns},
            [mark for mark in timeline.marks if mark.order != span.start and span.holds(mark.order, mark.turn)],
            {name: each for name, each in timeline.tasks.items() if span.ends(each)},
            {name: each for name, each in timeline.children.items() if span.ends(each)},
        )
        timeline.tasks = {name: each for name, each in timeline.tasks.items() if name not in gone.tasks}
        timeline.children = {name: each for name, each in timeline.children.items() if name not in gone.children}
        shortened = {*(touch.turn for touch in gone.touches), *(mark.turn for mark in gone.marks)} - span.turns
        gone.summaries = {turn: each for turn, each in timeline.summaries.items() if turn in shortened}
        removed = {*map(id, gone.touches), *map(id, gone.gaps), *map(id, gone.marks)}
        timeline.touches = [touch for touch in timeline.touches if id(touch) not in removed]
        timeline.gaps = [gap for gap in timeline.gaps if id(gap) not in removed]
        timeline.marks = [mark for mark in timeline.marks if id(mark) not in removed]
        timeline.summaries = {turn: each for turn, each in timeline.summaries.items() if turn not in gone.summaries}
        timeline.turns = {number: turn for number, turn in timeline.turns.items() if number not in gone.turns}
        self._rebase(gone)
        timeline.stash[step.rewind] = gone
        self._index()

    def _rebase(self, gone: Stashed) -> None:
        """Let what stays of a path begin where what was removed in front of it began: the state between is no more."""
        firsts: dict[str, Touch] = {}
        for touch in gone.touches:
            firsts.setdefault(touch.path, touch)
        for place, touch in enumerate(self.timeline.touches):
            first = firsts.get(touch.path)
            if first is not None and first.order < touch.order:
                del firsts[touch.path]
                gone.rebased.append(touch)
                self.timeline.touches[place] = replace(touch, before=first.before)

    def _own_writes(self, seq: int, record: Mapping[str, object]) -> None:
        listed = record.get("touches")
        for place, each in enumerate(
            cast("list[dict[str, dict[str, object]]]", listed) if isinstance(listed, list) else []
        ):
            before, after = image_from(each["before"]), image_from(each["after"])
            name = f"{record['kind']} {record.get('record', record['rewind'])}"
            facts: object = each.get("identity")
            identity = tuple(facts) if isinstance(facts, list) else None
            touch = Touch((seq, 0, 0, place), None, _str(each["path"]), before, after, name, identity)
            self._add(touch)

    def _wrote(self, seq: int, record: Mapping[str, object]) -> None:
        before, after = (image_from(cast("Mapping[str, object]", record[side])) for side in ("before", "after"))
        touch = Touch((seq, 0, 0, 0), None, _str(record["path"]), before, after, _str(record["by"]))
        self._add(touch)

    def _lost(self, seq: int, _record: Mapping[str, object]) -> None:
        self.timeline.missing.append(seq)

    def _expire(self) -> None:
        """Forget what could be redone: a turn or a rewind began."""
        self.timeline.expired.update(step.rewind for step in self.timeline.steps if step.state == "undone")

    def _set_step(self, name: str, state: Literal["done", "undone"], said: Mapping[str, object]) -> Step:
        timeline = self.timeline
        for place, step in enumerate(timeline.steps):
            if step.rewind == name:
                record, seq = _str(said["record"]), _int(said["seq"])
                timeline.records[record] = name
                timeline.steps[place] = replace(step, state=state, record=record, seq=seq, left=_left(said))
                return step
        raise ValueError(f"no rewind {name}")

    def _index(self) -> None:
        touches = enumerate(self.timeline.touches)
        self.timeline.latest = {(touch.turn, touch.path): place for place, touch in touches if touch.turn is not None}

    _folds: ClassVar[Mapping[object, Callable[[Folding, int, Mapping[str, object]], None]]] = {
        "turn": _begin_turn,
        "before": _touch,
        "again": _reopen,
        "after": _close,
        "gap": _gap,
        "mark": _mark,
        "end": _end,
        "task": _begin_task,
        "ended": _end_task,
        "child": _begin_child,
        "withdrawn": _withdraw_task,
        "rewind": _rewind,
        "undo": _undo,
        "redo": _redo,
        "wrote": _wrote,
        "lost": _lost,
        "prune": _prune,
    }


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
