"""How a plan and a report read: lines of styled text, the same in the picker, the command line and the demo.

Pure. Every text from outside passes through ``picker.text`` here, so what these functions return is safe to show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sessions.picker.text import Line, one_line, pad, plain, visible, visible_path, width, wrap
from sessions.picker.words import changed_lines, count, short_author

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sessions.rewind.plan import Action, Conflict, FileVerdict, Gap, Plan, Report, StoppedTask

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
_HANGING_CELLS = 24  # what a reason needs to hang in its own column

_WHY_SKIPPED = {
    "lost": "cannot be restored: what it was is no longer stored",
    "outside": "cannot be restored: it lies outside the directories of this session",
    "over_limit": "cannot be restored: it was too big to be captured",
    "unreadable": "cannot be restored: it could not be read",
}
_NOTE_SAYS_MORE = frozenset({"lost", "outside", "over_limit", "unreadable"})
_UNCOMPACTS = "a compaction goes with it: the model sees the messages in front of it again"
_PROMPT_RETURNS = "the prompt returns to the input box"
_NOBODY_KNOWS = "nobody recorded what the agent left"
_SINCE_BY = "edited since by "  # how a conflict begins that names an author
_LABEL_CELLS = 40
_LEAST_LABEL_CELLS = 12
_WHOLE_PROOF = "group, parentage and tag"

_GAPS = {
    "shell": "shell commands",
    "outside": "edits outside the directories of this session",
    "over_limit": "edits of files too big to be captured",
    "unreadable": "edits of files that could not be read",
    "git": "edits inside .git",
    "store": "edits inside the session store",
    "lost_records": "edits whose records are damaged",
    "task": "what a background task changed",
    "background_task": "a background task nothing is known of, so it was not stopped",
}
_GAPS_OF_SEVERAL = {
    "task": "what background tasks changed",
    "background_task": "background tasks nothing is known of, so they were not stopped",
}
"""The kinds there may be many of, each of its own name: all on one line."""
_MOST_NAMED = 3


def counted_files(files: Sequence[FileVerdict]) -> Line:
    """Return ``12 files: 4 conflicts, 1 cannot be restored``; without what there is none of."""
    if not files:
        return (("", "files stay as they are"),)
    kinds = [trouble(file) for file in files]
    conflicts, lost, unverified = (kinds.count(kind) for kind in ("conflict", "lost", "unverified"))
    said = [
        count(conflicts, "conflict") if conflicts else "",
        f"{lost} cannot be restored" if lost else "",
        f"{unverified} unverified" if unverified else "",
    ]
    named = ", ".join(filter(None, said))
    return (("", count(len(files), "file")), *((("", ": "), ("warn", named)) if named else ()))


def trouble(file: FileVerdict) -> Literal["conflict", "lost", "unverified", ""]:
    """Return what is to be known of a file before all others; empty for one that simply goes back or stays."""
    if file.reason in {"conflict", "unverified"}:
        return "conflict" if file.reason == "conflict" else "unverified"
    return "lost" if file.reason is not None else ""


def plan_lines(
    plan: Plan, *, undo: bool = False, counted: bool = True, uncompacts: bool = False, cells: int | None = None
) -> list[Line]:
    """Return what ``plan`` would do: what stands in its way first, the conversation, tasks, each file with why, gaps.

    Args:
        undo: The plan takes a rewind back.
        counted: With a first line that counts the files there is something to know of.
        uncompacts: A compaction goes with the conversation.
        cells: Lines are wrapped to this width; None wraps none.
    """
    tense = _Tense(_WILL, undo=undo)
    lines = [
        *(((("warn", "refused: "), ("", visible(plan.refused, keep=""))),) if plan.refused is not None else ()),
        *(_counts(plan.files) if counted else ()),
        _conversation_after_undo(plan) if undo else _conversation(plan),
        *(((("", _UNCOMPACTS),),) if uncompacts and plan.scope != "code" else ()),
    ]
    title = "files the agent touched" if plan.scope != "conversation" else ""
    return [
        *_wrapped([*lines, *_tasks(plan.tasks, "stop" if plan.on_running == "cancel" else "is running", cells)], cells),
        *_files(plan, tense, title, cells),
        *_wrapped([*_gaps(_unsaid(gaps_of(plan), plan.files)), *_notes(plan)], cells),
    ]


def report_lines(
    report: Report, did: str = "rewound", *, with_gaps: bool = True, cells: int | None = None
) -> list[Line]:
    """Return what was done: ``did`` (``rewound``, ``undone``, ``redone``), tasks, each file, gaps, notes."""
    history = report.history if did != "undone" else "rewrite"  # what came since goes, whatever the rewind did
    gone = {"rewrite": "removed", "hide": "hidden", "fork": "left out of the fork"}[history]
    messages = f": {count(report.removed_messages, 'message')} {gone}" if report.removed_messages else ""
    head: list[Line] = [(("strong", f"{did}{messages}{_partly(report)}"),), *_counts(report.files)]
    return [
        *_wrapped([*head, *_tasks(report.cancelled, "stopped", cells)], cells),
        *_files(report, _Tense(_DONE, undo=did == "undone"), "files", cells),
        *_wrapped(
            [
                *(_gaps(_unsaid(report.gaps, report.files)) if with_gaps else ()),
                *_notes(report),
            ],
            cells,
        ),
    ]


def gaps_of(plan: Plan) -> list[Gap]:
    """Return the gaps that concern what ``plan`` restores; of single files only those that name one."""
    if plan.paths is None:
        return [*plan.gaps]
    named = {file.path for file in plan.files}
    return [gap for gap in plan.gaps if named.intersection(gap.paths)]


def _distinct(gaps: Iterable[Gap]) -> list[Gap]:
    """Return ``gaps`` without those that read like an earlier one."""
    said: dict[str, Gap] = {}
    for gap in gaps:
        said.setdefault(_gap(gap), gap)
    return list(said.values())


def gap_lines(gaps: Iterable[Gap]) -> list[Line]:
    """Return what was not captured, indented by two, each once; background tasks are told of on one line for all."""
    said: dict[str, list[Gap]] = {}
    for gap in _distinct(gaps):
        said.setdefault(gap.kind if gap.kind in _GAPS_OF_SEVERAL else _gap(gap), []).append(gap)
    texts = [_gap(alike[0]) if len(alike) == 1 else _gaps_of_tasks(alike) for alike in said.values()]
    return [(("", f"  {text}"),) for text in texts]


def _gap(gap: Gap) -> str:
    named = ", ".join(filter(None, (_task_of(gap), *map(visible_path, gap.paths))))
    return (_GAPS.get(gap.kind) or visible(gap.kind, keep="")) + (f": {named}" if named else "")


def _gaps_of_tasks(alike: Sequence[Gap]) -> str:
    named, more = ", ".join(map(_task_of, alike[:_MOST_NAMED])), len(alike) - _MOST_NAMED
    if more > 0:
        named += f" and {more} more"
    return f"{_GAPS_OF_SEVERAL[alike[0].kind]}: {named}"


def _task_of(gap: Gap) -> str:
    """Return what names a gap; of a label that is long the beginning."""
    label, bracket, name = gap.what.rpartition(" (")
    if gap.kind == "task" and bracket:
        return f"{one_line(label, _LABEL_CELLS)} ({visible(name, keep='')}"
    return visible(gap.what, keep="")


def _partly(report: Report) -> str:
    kept = [file for file in report.files if _is_kept(file)]
    others = [file for file in report.files if file.action == "skip" and file.reason is not None and file not in kept]
    left = any("left alone" in note for note in report.notes)
    if report.partial and (others or left or not kept):
        return "; not everything could be put back"
    return f"; {count(len(kept), 'file')} kept as asked" if kept else ""


def _is_kept(file: FileVerdict) -> bool:
    """Tell whether the user chose that it stays."""
    return file.action == "skip" and file.reason == "conflict" and file.note.startswith("kept")


def _conversation(plan: Plan) -> Line:
    if plan.scope == "code":
        return (("strong", "conversation"), ("", " stays as it is"))
    if not plan.removed_messages:
        return (("strong", "conversation"), ("", " loses nothing"))
    messages = count(plan.removed_messages, "message")
    goes = {
        "rewrite": f" loses {messages}",
        "hide": f" hides {messages}, which stay in the file",
        "fork": f" goes on in a fork without its last {messages}",
    }[plan.history]
    stays = "the prompt and what came before the mark stay" if plan.mark is not None else _PROMPT_RETURNS
    return (("strong", "conversation"), ("", f"{goes}; {stays}"))


def _conversation_after_undo(plan: Plan) -> Line:
    stays = plan.scope == "code" or plan.paths is not None
    if stays:
        fork = "; the fork goes, unless it has gone on" if plan.history == "fork" and plan.paths is None else ""
        return (("strong", "conversation"), ("", f" stays as it is{fork}"))
    came = plan.removed_messages
    loses = f" loses {count(came, 'message')} that came since, and" if came else ""
    return (("strong", "conversation"), ("", f"{loses} gets back what the rewind removed"))


@dataclass(frozen=True, slots=True)
class _Tense:
    """Whether it is said before or after, and of a rewind or of its undo."""

    verbs: dict[Action, str]
    undo: bool

    @property
    def done(self) -> bool:
        return self.verbs is _DONE

    def why(self, action: Action) -> str:
        """Return why a file changes about which there is nothing else to know."""
        if self.undo:
            had = "had " if self.done else ""
            return {"delete": f"the rewind {had}recreated it", "recreate": f"the rewind {had}deleted it"}.get(
                action, self._unchanged(action)
            )
        missing = "was missing" if self.done else "is missing now"
        return {"delete": "did not exist then", "recreate": missing}.get(action, self._unchanged(action))

    def _unchanged(self, action: Action) -> str:
        if action != "unchanged":
            return ""
        if self.undo:
            return "was so already" if self.done else "is so already"
        return "was so already" if self.done else "is as it was then"


def _counts(files: Sequence[FileVerdict]) -> Iterator[Line]:
    if any(trouble(file) for file in files):
        yield counted_files(files)


def _files(said: Plan | Report, tense: _Tense, title: str, cells: int | None) -> Iterator[Line]:
    if not said.files:
        yield (("strong", title or "files"), ("", ": none concerned" if title else " stay as they are"))
        return
    yield (("strong", title or "files"),)
    conflicts = {conflict.path: conflict for conflict in said.conflicts}
    files = sorted(said.files, key=lambda file: (_rank(file), file.path))
    lines = {file: changed_lines(file.insertions, file.deletions) for file in files}
    paths = {file: visible_path(file.path) for file in files}
    path_cells = max((cells_ for path in paths.values() if (cells_ := width(path)) <= _PATH_CELLS), default=0)
    line_cells = max(width(plain(each)) for each in lines.values())
    for file in files:
        by = "" if file.reason == "conflict" or (file.action == "unchanged" and file.note) else _by(file.by)
        why = "; ".join(filter(None, (_why(file, conflicts.get(file.path), tense), by)))
        verb: Line = (("", "  "), (_STYLES[file.action], tense.verbs[file.action].ljust(_ACTION_CELLS)))
        gap = "  " if line_cells else ""
        right: Line = (
            ("", gap), *lines[file], ("dim", f"{' ' * (line_cells - width(plain(lines[file])))}  {why}" if why else ""),
        )  # fmt: skip
        yield from _row(verb, paths[file], path_cells, right, why_at=line_cells + len(gap) + 2, cells=cells)


def _row(verb: Line, path: str, path_cells: int, right: Line, *, why_at: int, cells: int | None) -> Iterator[Line]:
    """Yield a file's line; a path too long for its column has a line of its own, and a reason hangs in its column."""
    left = 2 + _ACTION_CELLS + 2 + path_cells
    indent = left + why_at
    if cells is not None and cells - indent < _HANGING_CELLS:
        indent = 4
    if width(path) > path_cells and plain(right).strip():
        yield from _wrapped([(*verb, ("", f"  {path}"))], cells, indent=4 + _ACTION_CELLS)
        line: Line = (("", " " * left), *right)
    else:
        line = (*verb, ("", f"  {path}{' ' * (path_cells - width(path))}"), *right)
    yield from _wrapped([line], cells, indent=indent)


def _wrapped(lines: Iterable[Line], cells: int | None, *, indent: int = 4) -> Iterator[Line]:
    for line in lines:
        if cells is None:
            yield line
        else:
            yield from wrap(line, max(cells, 1), indent=indent)


def _rank(file: FileVerdict) -> int:
    """Return where a file stands: what went wrong first, what stays as it is last."""
    if kind := trouble(file):
        return ("conflict", "lost", "unverified").index(kind)
    return 4 if file.action == "unchanged" else 3


def _why(file: FileVerdict, conflict: Conflict | None, tense: _Tense) -> str:
    note = visible(file.note, keep="")
    if file.reason is None and file.action == "unchanged" and note:
        return note
    if file.reason is None:
        return "; ".join(filter(None, (tense.why(file.action), note)))
    if file.reason == "conflict":
        return _conflict(file, note, conflict, tense)
    if file.reason == "unverified":
        back = "undo brings back what was there" if tense.done else "undo brings back what is there now"
        return _NOBODY_KNOWS if file.action == "skip" else f"{_NOBODY_KNOWS}; {back}"
    if file.reason in _NOTE_SAYS_MORE and note:
        return f"cannot be restored: {note}"
    return _WHY_SKIPPED.get(file.reason, str(file.reason))


def _conflict(file: FileVerdict, note: str, conflict: Conflict | None, tense: _Tense) -> str:
    """Say what is there instead of what the agent left, and what becomes of it."""
    found = visible(conflict.found, keep="") if conflict is not None else note.removeprefix("kept: ")
    if found.startswith(_SINCE_BY):
        found = short_author(found)
    if found.endswith(" since"):
        author = (conflict.by if conflict is not None else None) or file.by
        found += {None: " the agent's edit", "agent": " the agent's edit", "rewind": " the rewind"}.get(
            author, f" the edit{'s' if ', ' in (author or '') else ''} by {_authors(author or '')}"
        )
    found = found or "changed since the agent's edit"
    if file.action != "skip":
        return f"{found}; undo brings that back"
    if _is_kept(file) or not note:
        return f"{found}; {'kept' if tense.done else 'it is kept'}"
    return note if conflict is None or note.startswith(("edited while", found)) else f"{found}; {note}"


def _by(author: str | None) -> str:
    return f"edited by {_authors(author)}" if author is not None and author not in {"agent", "rewind"} else ""


def _authors(joined: str) -> str:
    """Return ``the agent and task-1a2b3c4d`` for who edited a file, joined by commas."""
    names = ["the agent" if name == "agent" else short_author(name) for name in joined.split(", ")]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _gaps(gaps: Sequence[Gap]) -> Iterator[Line]:
    if gaps:
        yield (("warn", "not captured"), ("", ", so it stays as it is"))
    yield from gap_lines(gaps)


def _notes(said: Plan | Report) -> Iterator[Line]:
    for note in said.notes:
        yield (("", visible(note, keep="")),)


def _unsaid(gaps: Iterable[Gap], files: Sequence[FileVerdict]) -> list[Gap]:
    """Return the gaps that name something no verdict says: that a file is left alone says enough."""
    said = {file.path for file in files if file.action == "skip"}
    return [gap for gap in gaps if not gap.paths or not said.issuperset(gap.paths)]


def _tasks(tasks: Sequence[StoppedTask], verb: str, cells: int | None) -> Iterator[Line]:
    """Yield a line for each task; a label is shortened where that makes it fit and leaves enough of it."""
    if tasks:
        yield (("strong", "background tasks"),)
    names = [short_author(task.id) for task in tasks]
    room = _LABEL_CELLS if cells is None else cells - _ACTION_CELLS - max(map(width, names), default=0) - 6
    labels = [one_line(task.label, min(max(room, _LEAST_LABEL_CELLS), _LABEL_CELLS)) for task in tasks]
    label_cells = max(map(width, labels), default=0)
    for task, name, label in zip(tasks, names, labels, strict=True):
        why = f"  looked for by {visible(task.proof, keep='')} only" if task.proof not in {"", _WHOLE_PROOF} else ""
        yield (
            ("", "  "),
            ("warn", verb.ljust(_ACTION_CELLS)),
            ("", f"  {pad(label, label_cells)}"),
            ("dim", f"  {name}{why}"),
        )
