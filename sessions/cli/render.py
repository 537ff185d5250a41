"""What the commands print, as lines and as plain values for JSON. Pure; of plans and reports: ``picker.verdicts``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sessions import clock
from sessions.ids import CHILD_PREFIX
from sessions.picker import words
from sessions.picker.text import (
    Fragment,
    Line,
    clip,
    clip_start,
    fit,
    flat,
    one_line,
    pad,
    pad_start,
    plain,
    visible,
    visible_path,
    width,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from sessions.grepping import Hit
    from sessions.listing import SessionInfo
    from sessions.rewind.plan import Checkpoint, StoppedTask
    from sessions.subagents.record import State
    from sessions.task import Task
    from sessions.upkeep import Checked

_SHORT_ID = 8
_SHORT_MESSAGE_ID = 12
_LABEL_CELLS = 16
_NAME_CELLS = 60
_BRANCH_CELLS, _TITLE_CELLS = 20, 20  # a branch at most, a title at least where a column can go for it
_PART_CELLS, _WIDE_CELLS = 10, 60  # who says a hit, and from which width on that is said
_GAP = _INDENT = 2
_SESSION_COLUMNS = (("id", "strong", pad), ("when", "dim", pad), ("branch", "mark", pad), ("tokens", "dim", pad_start))
_TASK_STYLES: dict[State, str] = {
    "running": "add",
    "completed": "",
    "failed": "remove",
    "cancelled": "dim",
    "lost": "warn",
}


def session_table(
    rows: Sequence[SessionInfo],
    now: datetime,
    columns: int,
    *,
    here: str | None = None,
    path_columns: int | None = None,
) -> Iterator[Line]:
    """Yield the lines of all sessions; see :func:`session_lines`."""
    for lines in session_lines(rows, now, columns, here=here, path_columns=path_columns):
        yield from lines


def session_lines(
    rows: Sequence[SessionInfo],
    now: datetime,
    columns: int,
    *,
    here: str | None = None,
    path_columns: int | None = None,
) -> Iterator[tuple[Line, ...]]:
    """Yield for each session its line: short id, when, branch, tokens, marks, title; below it where it works.

    The short ids are unique among ``rows``. No line but a path's is wider than ``columns``. Where the title would get
    too little of them, what says least of which session it is goes first: the branch, which many share, then the
    tokens, then when.

    Args:
        rows: A child behind its parent, below which it is indented.
        here: The directory of whoever reads this: where a session works is said of those elsewhere. None: of none.
        path_columns: How wide the line of a path may be; of a longer one the end is shown. None: as long as it is.
    """
    depths = _depths(rows)
    tables: dict[int, list[SessionInfo]] = {}
    for row, depth in zip(rows, depths, strict=True):
        tables.setdefault(depth, []).append(row)
    drawn = {depth: _drawn(table, now, columns - _INDENT * depth) for depth, table in tables.items()}
    workdirs = {row.id: row.workdir for row in rows}
    for row, depth in zip(rows, depths, strict=True):
        indent: Line = (("", " " * _INDENT * depth),) if depth else ()
        line: Line = (*indent, *next(drawn[depth]))
        if here is None or row.workdir == (workdirs[row.parent_id or ""] if depth else here):
            yield (line,)
        else:
            room = None if path_columns is None else path_columns - _INDENT * (depth + 1)
            yield line, (*indent, ("", " " * _INDENT), ("dim", _workdir(row, room)))


def _drawn(rows: Sequence[SessionInfo], now: datetime, columns: int) -> Iterator[Line]:
    """Yield the lines of a table: columns as wide as what stands in them, and only those there is room for."""
    least = _SHORT_ID + (len(CHILD_PREFIX) if all(row.id.startswith(CHILD_PREFIX) for row in rows) else 0)
    cells = {
        "id": short_ids([row.id for row in rows], least),
        "when": [words.ago(row.last_active_at, now) for row in rows],
        "branch": [one_line(row.git_branch or "", _BRANCH_CELLS) for row in rows],
        "tokens": [tokens(row.total_tokens) for row in rows],
    }
    widths = {name: max(map(width, column)) for name, column in cells.items()}
    for name in ("branch", "tokens", "when"):
        if columns - sum(each + _GAP for each in widths.values() if each) < _TITLE_CELLS:
            widths[name] = 0
    for at, row in enumerate(rows):
        left = tuple(
            fragment
            for name, style, fill in _SESSION_COLUMNS
            if widths[name]
            for fragment in ((style, fill(cells[name][at], widths[name])), ("", " " * _GAP))
        )
        named = _named(row, columns - width(plain(left)))
        yield next(wrap((*left, *named), columns))  # where even an id does not fit, nothing is wider all the same


def _named(row: SessionInfo, room: int) -> Line:
    """Return the marks and the title of a session; what it is a fork of only where that leaves the title enough."""
    damaged = "damaged " if row.damaged else ""
    origin = f"  fork of {short_ids([row.forked_from])[0]}" if row.forked_from is not None else ""
    fork = "fork " if origin and room - width(damaged + origin) < _TITLE_CELLS else ""
    origin = "" if fork else origin
    title = one_line(row.title or "", max(room - width(damaged + fork + origin), 0))
    said: Line = (("", title),) if row.title else (("dim", words.UNTITLED),)
    return ("warn", damaged), ("mark", fork), *said, ("mark", origin)


def _depths(rows: Sequence[SessionInfo]) -> list[int]:
    found: dict[str, int] = {}
    for row in rows:
        found[row.id] = found[row.parent_id] + 1 if row.parent_id in found else 0
    return [found[row.id] for row in rows]


def _workdir(row: SessionInfo, cells: int | None) -> str:
    path = words.away_text(row)
    return path if cells is None else clip_start(path, cells)


def hit_line(hit: Hit, columns: int | None) -> Line:
    """Return the line of a hit: the turn, who or what says it, and the line it stands in, with the places marked.

    Args:
        columns: How wide it may be: of a longer line what is around the first place is shown. None: as it comes.
    """
    turn = "hidden" if hit.hidden else "-" if hit.turn is None else str(hit.turn)
    said_by = hit.role if hit.part == "text" else one_line(hit.part, _PART_CELLS)
    head = f"  {pad_start(turn, 6)}  " + (
        f"{pad(said_by, _PART_CELLS)}  " if columns is None or columns >= _WIDE_CELLS else ""
    )
    first = hit.spans[0][0]
    before, parts = flat(hit.line[:first]).lstrip(" "), list(_parts(hit))
    if columns is None:
        return ("dim", head), ("", before), *parts
    room = columns - width(head)
    rest = sum(width(text) for _, text in parts)
    before = clip_start(before, max(room // 3, room - rest))
    return ("dim", clip(head, columns)), *fit((("", before), *parts), room)


def _parts(hit: Hit) -> Iterator[Fragment]:
    """Yield what follows the first place where the text stands, with it."""
    for (start, end), (following, _) in pairwise((*hit.spans, (len(hit.line), 0))):
        yield "warn", flat(hit.line[start:end])
        yield "", flat(hit.line[end:following])


def short_ids(ids: Sequence[str], at_least: int = _SHORT_ID) -> list[str]:
    """Return the shortest beginnings, of at least so many characters, that differ from one another."""
    in_order = sorted(set(ids))
    needed = dict.fromkeys(in_order, at_least)
    for one, other in pairwise(in_order):
        common = next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
        )
        needed[one], needed[other] = max(needed[one], common + 1), max(needed[other], common + 1)
    return [visible(each[: needed[each]], keep="") for each in ids]


tokens = words.tokens


def checkpoint_table(checkpoints: Sequence[Checkpoint], now: datetime, columns: int) -> Iterator[Line]:
    """Yield a line a checkpoint: index, short id, when, prompt, files and lines.

    Below it a line a mark, as ``rewind --to`` takes it, and one where a compaction lies; above the first turn in a row
    of one run a line that names the run.
    """
    digits = len(str(len(checkpoints)))
    ids = short_ids([each.id for each in checkpoints], _SHORT_MESSAGE_ID)
    id_cells = max(map(width, ids), default=0)
    runs = [None, *(each.run_id for each in checkpoints)]
    for each, short, before in zip(checkpoints, ids, runs, strict=False):
        if each.run_id and each.run_id != before:
            yield (("dim", " " * (digits + 2) + one_line(words.run_label(each.run_id), columns - digits - 2)),)
        lines = words.changed_lines(each.insertions, each.deletions)
        files = words.count(len(each.files), "file") if each.files else ""
        right: Line = (
            ("dim", f"  {pad_start(files, 8)}"),
            ("", " " * (12 - width(plain(lines)))),
            *lines,
            ("warn", "  !" if each.gaps else "   "),
        )
        left: Line = (
            ("strong", pad_start(str(each.index), digits)),
            ("dim", f"  {pad(short, id_cells)}"),
            ("dim", f"  {pad(words.ago(each.timestamp, now), 10)}  "),
        )
        room = max(columns - width(plain(left)) - width(plain(right)), 10)
        yield (*left, ("dim" if each.before_compaction else "", pad(one_line(each.prompt, room), room)), *right)
        for mark in each.mark_names:
            yield ("dim", " " * (digits + 2)), ("mark", f"• {one_line(f'{each.index}:{mark}', columns - digits - 4)}")
        if each.compacted:
            yield (("mark", " " * (digits + 2) + "⊟ compacted here: the model sees a summary of the above"),)


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, object]:
    """Return the shape ``sessions checkpoints --json`` prints."""
    return {
        "index": checkpoint.index,
        "id": checkpoint.id,
        "prompt": checkpoint.prompt,
        "timestamp": clock.timestamp(checkpoint.timestamp) if checkpoint.timestamp else None,
        "files": [{"path": file.path, "status": file.status} for file in checkpoint.files],
        "insertions": checkpoint.insertions,
        "deletions": checkpoint.deletions,
        "before_compaction": checkpoint.before_compaction,
        "gaps": [gap.to_json() for gap in checkpoint.gaps],
        "marks": list(checkpoint.mark_names),
        "run_id": checkpoint.run_id,
    }


def task_table(tasks: Sequence[Task], columns: int, *, session: str) -> Iterator[Line]:
    """Yield for each task a line with id, state, how long it took, and label; below it who runs, the prompt, the log.

    The label has a line of its own where little of it would fit. A path is never shortened: it is there to be copied.

    Args:
        session: The session they are shown for; a task that a subagent started names that one.
    """
    ids = [visible(task.id, keep="") for task in tasks]
    states = [task_state(task) for task in tasks]
    times = [words.lasted(task.runtime_s) for task in tasks]
    id_cells, state_cells, time_cells = (max(map(width, each), default=0) for each in (ids, states, times))
    for task, name, state, lasted in zip(tasks, ids, states, times, strict=True):
        left: Line = (
            ("strong", pad(name, id_cells)),
            (_TASK_STYLES[task.state], f"  {pad(state, state_cells)}"),
            ("dim", f"  {pad_start(lasted, time_cells)}"),
        )
        room = columns - width(plain(left)) - 2
        indent = id_cells + 2 if room >= _LABEL_CELLS else 2
        yield (*left, ("", f"  {one_line(task.label, room)}")) if room >= _LABEL_CELLS else left
        if room < _LABEL_CELLS:
            yield (("", "  " + one_line(task.label, columns - 2)),)
        who = _running(task, session)
        prompt = one_line(task.prompt, max(columns - indent - width(who), 10)) if task.prompt is not None else ""
        if who or prompt:
            yield ("", " " * indent), ("", who if prompt else who.removesuffix(" · ")), ("dim", prompt)
        if task.log is not None:
            yield (("dim", " " * indent + visible_path(str(task.log))),)


def task_state(task: Task) -> str:
    """Return the state of a task, and where it failed with what."""
    if task.state != "failed" or task.exit_code is None:
        return task.state
    return f"failed (signal {-task.exit_code})" if task.exit_code < 0 else f"failed (exit {task.exit_code})"


def task_name(task: Task | StoppedTask) -> str:
    """Return how a task is named in a sentence: its label and its id."""
    return f"{one_line(task.label, _NAME_CELLS)} ({visible(task.id, keep='')})"


def task_processes(task: Task) -> str:
    """Return who runs: ``pid 4711, 3 processes``; empty where nobody does."""
    if task.pid is None:
        return f"{words.count(task.processes, 'process')} left" if task.processes else ""
    inside = task.log is None and not task.processes  # work inside the host has no process of its own
    return f"inside process {task.pid}" if inside else f"pid {task.pid}, {words.count(task.processes, 'process')}"


def _running(task: Task, session: str) -> str:
    by = f"started by {words.short_author(task.session)}" if task.session != session else ""
    return "".join(f"{each} · " for each in (task_processes(task), by) if each)


def check_lines(checked: Sequence[Checked]) -> Iterator[Line]:
    """Yield what ``check`` found and finished, and a last line that counts."""
    for each in checked:
        if each.findings or each.recovered:
            yield (("strong", visible(each.session, keep="")),)
        for done in each.recovered:
            yield ("add", "  recovered  "), ("", visible(done, keep=""))
        for finding in each.findings:
            yield (
                ("warn", f"  {finding.kind.replace('_', ' ')}  "),
                ("", f"{visible(finding.where, keep='')}: {visible(finding.action, keep='')}"),
            )
    findings = sum(len(each.findings) for each in checked)
    said = words.count(findings, "finding") if findings else "nothing is damaged"
    yield (("", f"{words.count(len(checked), 'session')} checked, {said}"),)
