"""How a plan, a report and a moment read: lines of styled text, the same in the picker, the command line and the demo.

Pure. Every text from outside passes through ``picker.text`` here, so what these functions return is safe to show.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sessions.picker.text import Fragment, Line, one_line, plain, visible, visible_path, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.rewind.plan import Action, FileVerdict, Gap, Plan, Report, Scope

_DONE: dict[Action, str] = {
    "restore": "restored",
    "recreate": "recreated",
    "delete": "deleted",
    "unchanged": "unchanged",
    "skip": "left alone",
}
_WILL: dict[Action, str] = {**{action: str(action) for action in _DONE}, "skip": "leave alone"}
_STYLES: dict[Action, str] = {
    "restore": "restore",
    "recreate": "add",
    "delete": "remove",
    "unchanged": "dim",
    "skip": "warn",
}
_PATH_CELLS = 32
_ACTION_CELLS = max(len(word) for word in (*_WILL.values(), *_DONE.values()))

_WHY_SKIPPED = {
    "conflict": "somebody else changed it",
    "lost": "cannot be restored: what it was is no longer stored",
    "outside": "cannot be restored: it lies outside the directories of this session",
    "over_limit": "cannot be restored: it was too big to be captured",
    "unreadable": "cannot be restored: it could not be read",
    "unverified": "nobody knows what the agent left here",
}
_WHY_CHANGED = {
    "conflict": "somebody else changed it; undo brings that back",
    "unverified": "nobody knows what the agent left here; undo brings back what is there now",
}
_WHY: dict[Action, str] = {
    "delete": "did not exist then",
    "recreate": "is missing now",
    "unchanged": "is as it was then",
}
_WHY_DONE: dict[Action, str] = {
    "delete": "did not exist then",
    "recreate": "was missing",
    "unchanged": "was so already",
}

_GAPS = {
    "shell": "shell commands",
    "outside": "edits outside the directories of this session",
    "over_limit": "edits of files too big to be captured",
    "unreadable": "edits of files that could not be read",
    "git": "edits inside .git",
    "store": "edits inside the session store",
    "background_task": "a background task nothing is known of, so it was not stopped",
}

_AGES = ((60, 1, "s"), (3600, 60, "m"), (86_400, 3600, "h"), (14 * 86_400, 86_400, "d"), (90 * 86_400, 7 * 86_400, "w"))


def count(number: int, noun: str) -> str:
    """Return ``1 file``, ``3 files``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def relative(moment: datetime | None, now: datetime) -> str:
    """Return how long ago ``moment`` was, in at most ten cells: ``now``, ``5m``, ``3h``, ``2d``, ``6w``, or a date.

    A moment in the future, from a clock that was wrong, is a date too; None is empty.
    """
    if moment is None:
        return ""
    age_s = int((now - moment).total_seconds())
    if -60 < age_s < 10:
        return "now"
    for limit_s, unit_s, unit in _AGES:
        if 0 <= age_s < limit_s:
            return f"{age_s // unit_s}{unit}"
    return exactly(moment)[:10]


def ago(moment: datetime | None, now: datetime) -> str:
    """Return :func:`relative` as a phrase: ``5m ago``."""
    age = relative(moment, now)
    return f"{age} ago" if age[-1:].isalpha() and age != "now" else age


def exactly(moment: datetime | None) -> str:
    """Return ``moment`` in full, in UTC, or a dash."""
    return "-" if moment is None else f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')}Z"


def changed_lines(insertions: int | None, deletions: int | None) -> Line:
    """Return ``+12 -4`` with a style each and without a zero side; empty when nothing changed or nobody knows."""
    parts: list[Fragment] = []
    if insertions:
        parts.append(("add", f"+{insertions}"))
    if deletions:
        parts += [("", " "), ("remove", f"-{deletions}")] if parts else [("remove", f"-{deletions}")]
    return tuple(parts)


def plan_lines(plan: Plan, *, undo: bool = False) -> list[Line]:
    """Return what ``plan`` would do: the conversation, each file with why, conflicts, gaps, tasks.

    ``undo`` says that the plan takes a rewind back.
    """
    return [
        _conversation_after_undo(plan) if undo else _conversation(plan.scope, plan.removed_messages),
        *_files(plan.files, _WILL, "files the agent touched" if plan.scope != "conversation" else ""),
        *_conflicts(plan),
        *_gaps(plan.gaps),
        *_tasks(plan.tasks, "will be stopped"),
    ]


def report_lines(report: Report, did: str = "rewound", *, with_gaps: bool = True) -> list[Line]:
    """Return what was done: ``did`` (``rewound``, ``undone``, ``redone``), each file, conflicts, gaps, tasks, notes."""
    messages = f": {count(report.removed_messages, 'message')} removed" if report.removed_messages else ""
    return [
        (("strong", f"{did}{messages}{_partly(report)}"),),
        *_files(report.files, _DONE, "files"),
        *_conflicts(report),
        *(_gaps(report.gaps) if with_gaps else ()),
        *_tasks(report.cancelled, "was stopped"),
        *((("", visible(note, keep="")),) for note in report.notes),
    ]


def gap_line(gap: Gap) -> Line:
    """Return what was not captured, indented by two."""
    named = ", ".join(filter(None, (visible(gap.what, keep=""), *map(visible_path, gap.paths))))
    return (("", f"  {_GAPS.get(gap.kind) or visible(gap.kind, keep='')}" + (f": {named}" if named else "")),)


def nothing_to_do(plan: Plan) -> bool:
    """Tell whether executing ``plan`` would change neither conversation nor files nor tasks."""
    return not (plan.removed_messages or plan.changes_files or plan.tasks)


def _partly(report: Report) -> str:
    return "; not everything could be put back" if report.partial else ""


def _conversation(scope: Scope, removed: int) -> Line:
    if scope == "code":
        return (("strong", "conversation"), ("", " stays as it is"))
    if not removed:
        return (("strong", "conversation"), ("", " loses nothing"))
    messages = count(removed, "message")
    return (("strong", "conversation"), ("", f" loses {messages}; the prompt returns to the input box"))


def _conversation_after_undo(plan: Plan) -> Line:
    stays = plan.scope == "code" or plan.paths is not None
    return (("strong", "conversation"), ("", " stays as it is" if stays else " gets back what the rewind removed"))


def _files(files: Sequence[FileVerdict], verbs: dict[Action, str], title: str) -> Iterator[Line]:
    if not files:
        if title:
            yield (("strong", title), ("", ": none concerned"))
        else:
            yield (("strong", "files"), ("", " stay as they are"))
        return
    yield (("strong", title or "files"),)
    shown = [(visible_path(file.path), changed_lines(file.insertions, file.deletions)) for file in files]
    path_cells = min(max(width(path) for path, _ in shown), _PATH_CELLS)
    line_cells = max(width(plain(lines)) for _, lines in shown)
    rows = sorted(zip(files, shown, strict=True), key=lambda row: (row[0].action == "unchanged", row[0].path))
    for file, (path, lines) in rows:
        why = "; ".join(filter(None, (_why(file, verbs), visible(file.note, keep=""), _by(file.by))))
        yield (
            ("", "  "),
            (_STYLES[file.action], verbs[file.action].ljust(_ACTION_CELLS)),
            ("", "  " + path + " " * (path_cells - width(path))),
            ("", "  " if line_cells else ""),
            *lines,
            ("dim", f"{' ' * (line_cells - width(plain(lines)))}  {why}" if why else ""),
        )


def _why(file: FileVerdict, verbs: dict[Action, str]) -> str:
    if file.reason is None:
        return (_WHY if verbs is _WILL else _WHY_DONE).get(file.action, "")
    return (_WHY_SKIPPED if file.action == "skip" else _WHY_CHANGED).get(file.reason, str(file.reason))


def _by(author: str | None) -> str:
    return f"last edit by {visible(author, keep='')}" if author not in {None, "agent", "rewind"} else ""


def _conflicts(said: Plan | Report) -> Iterator[Line]:
    if said.conflicts:
        yield (("warn", "conflicts"), ("", ": not what the agent left"))
    for conflict in said.conflicts:
        by = f", by {visible(conflict.by, keep='')}" if conflict.by else ""
        yield (("", f"  {visible_path(conflict.path)}: {visible(conflict.found, keep='')}{by}"),)


def _gaps(gaps: Sequence[Gap]) -> Iterator[Line]:
    if gaps:
        yield (("warn", "not captured"), ("", ", so it stays as it is"))
    yield from map(gap_line, gaps)


def _tasks(tasks: Sequence[str], what: str) -> Iterator[Line]:
    for task in tasks:
        yield (("warn", "task"), ("", f" {one_line(task, 60)} {what}"))
