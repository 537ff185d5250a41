"""What an edit names, found on disk and kept: the records of it, before and after.

Nothing is appended to the log here: whoever does it decides the moment and what must be durable then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property

from sessions.rewind.keeping import Keeper
from sessions.rewind.needs import is_within
from sessions.rewind.recorded import Touch, TurnRecord
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
        parts: The edits this one is, where several end together, see ``together``.
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
    parts: Sequence[OpenEdit] = ()

    def author_of(self, path: str) -> str:
        """Return who made something of a path: the first part that had it, or had a directory above it named."""
        made = (each.by for each in self.parts if path in each.paths or is_within(path, {*each.named}))
        return next(made, self.by)


def together(edits: Iterable[OpenEdit]) -> list[OpenEdit]:
    """Return one edit for as many as ended in one turn at the same moment: what one left is what they all left."""
    groups: dict[tuple[int, int | None], list[OpenEdit]] = {}
    for edit in edits:
        groups.setdefault((edit.turn.turn, edit.as_of_ns), []).append(edit)
    return [_joined(group) if len(group) > 1 else group[0] for group in groups.values()]


def _joined(parts: Sequence[OpenEdit]) -> OpenEdit:
    first = parts[0]
    paths = dict.fromkeys(path for part in parts for path in part.paths)
    named = list(dict.fromkeys(path for part in parts for path in part.named))
    return OpenEdit(first.turn, 0, first.by, paths, named, as_of_ns=first.as_of_ns, parts=parts)


class Capturing:
    """Finds and keeps what one edit is about.

    Args:
        timeline: As of now; the log is locked.

    Attributes:
        records: What is to be appended, in order.
    """

    def __init__(self, timeline: Timeline, edit: OpenEdit, worktree: Worktree, keeper: Keeper) -> None:
        self._timeline = timeline
        self._edit = edit
        self._worktree = worktree
        self._keeper = keeper
        self.records: list[Record] = []

    def name(self, path: str) -> None:
        """Keep what a path is that the host names, and what is needed to bring it back: parents, contents, targets.

        Raises:
            OSError: A snapshot cannot be stored.
        """
        reason = None if path in self._worktree.roots else self._worktree.why_not(path)
        if reason is not None:
            self._refuse(reason, path)
            return
        for parent in self._worktree.missing_parents(path):
            self._capture(parent)
        state = Directory(0) if path in self._worktree.roots else self._capture(path)
        self._edit.named.append(path)
        match state:
            case Directory():
                self._name_all_below(path)
            case Link():
                target = os.path.realpath(path)
                if target != path:
                    self.name(target)
            case _:
                pass

    def find_new(self) -> None:
        """Record what appeared below named paths that are directories now, unless it is as somebody else left it."""
        edit = self._edit
        for named in edit.named:
            for path in self._worktree.descend(named):
                if path in edit.paths or self._worktree.why_not(path) is not None or is_newer(path, edit.as_of_ns):
                    continue
                touch = self._timeline.touch_in(edit.turn.turn, path)
                if touch is None:
                    before = self._before_new(path)
                    if before is None:
                        continue
                    self.records.append(self._before(path, before))
                elif self._has_a_part_in(touch):
                    self.records.append(self._again(path) | {"by": edit.author_of(path)})
                edit.paths[path] = None

    def go_on(self) -> None:
        """Begin anew, behind it, what a mark ended: the edit goes on there. What a rewind took away is left out."""
        edit, number = self._edit, self._edit.turn.turn
        new = {record["path"] for record in self.records}
        for path in list(edit.paths):
            if self._timeline.touch_in(number, path) is not None or is_newer(path, edit.as_of_ns):
                continue
            last = self._timeline.last_touch(number, path)
            if last is not None:
                self.records.append(self._before(path, last.after or last.before))
            elif path not in new:
                del edit.paths[path]

    def note_lost_repositories(self) -> None:
        """Record as gaps the ``.git`` of named directories that are gone."""
        for path in self._edit.repositories:
            if not os.path.lexists(path):
                self._refuse("git", path)

    def after(self, path: str) -> Record:
        """Keep what the edit left of a path and return the record of it; its *before* is on the timeline already."""
        edit = self._edit
        image, identity = self._keeper.after(self._timeline, edit.turn, path)
        return {
            "kind": "after",
            **self._place(path),
            **image.to_record(),
            "identity": list(astuple(identity)) if identity else None,
            "overlap": path in edit.overlaps and not isinstance(image.state, Directory),
        }

    def _name_all_below(self, directory: str) -> None:
        closed: list[str] = []
        for below in self._worktree.descend(directory, closed=closed):
            reason = self._worktree.why_not(below)
            if reason is None:
                self._capture(below)
            elif reason == "git":
                self._edit.repositories.append(below)
        for below in closed:
            self._refuse("unreadable", below)

    def _capture(self, path: str) -> FileState | None:
        edit, turn = self._edit, self._edit.turn
        if path in edit.paths:
            return None
        touch = self._timeline.touch_in(turn.turn, path)
        if touch is not None and self._keeper.is_as_left(touch):  # else somebody changed it: a touch of its own
            if (kind := _gap_of(touch.before.state)) is not None:
                edit.gaps.append((kind, path))
            if touch.after is None and touch.by != edit.by:  # another writer has it open right now
                edit.overlaps.add(path)
            edit.paths[path] = None
            self.records.append(self._again(path))
            return self._worktree.examine(path, limit_bytes=0)[0]
        makers = self._makers(path) if os.path.lexists(path) else {}  # else none of them has made it so far
        with_us = makers.pop(turn.turn, None) if touch is None else None
        if makers:
            self.records += [
                self._before(path, Image(Absent()), by=task) | {"turn": number} for number, task in makers.items()
            ]
            edit.overlaps.add(path)
        if with_us is not None:
            self.records += [self._before(path, Image(Absent()), by=with_us), self._again(path)]
            edit.paths[path] = None
            edit.overlaps.add(path)
            return self._worktree.examine(path, limit_bytes=0)[0]
        image = self._keeper.before(turn, path)
        if (kind := _gap_of(image.state)) is not None:
            self._refuse(kind, path)
        edit.paths[path] = None
        self.records.append(self._before(path, image))
        return image.state

    def _makers(self, path: str) -> dict[int, str]:
        """Return by turn the first task that may have made a path.

        It lies in a directory captured around the task, and was not there; and nobody but tasks is on record as having
        touched it since.
        """
        found: dict[int, str] = {}
        for task in self._timeline.tasks.values():
            if task.ended is not None or task.id == self._edit.by or task.turn not in self._timeline.turns:
                continue
            if is_within(path, {*task.edits}) and self._is_new_to(task, path):
                found.setdefault(task.turn, task.id)
        return found

    def _before_new(self, path: str) -> Image | None:
        """Return what a path was that is new below a named one; None where others made it and it is as they left it."""
        task = self._timeline.tasks.get(self._edit.author_of(path))
        made = self._sure_touch_since(task, path) if task is not None else None
        if made is None:
            return Image(Absent())
        if made.after is None:  # it is being made
            return made.before
        return None if self._keeper.is_as_left(made) else made.after

    def _has_a_part_in(self, touch: Touch) -> bool:
        """Tell whether the edit of a task has a part in what others of its turn made of a path it did not know of.

        It wrote there since; or it may have been first, among tasks that a mark parts: of these one may go alone.
        """
        author = self._edit.author_of(touch.path)
        if author in touch.authors or author not in self._timeline.tasks or touch.after is None:
            return False
        if not touch.is_of_tasks:
            return not self._keeper.is_as_left(touch)
        began = [self._timeline.tasks[each].seq for each in (author, *touch.authors) if each in self._timeline.tasks]
        marks = (mark.seq for mark in self._timeline.marks if mark.turn == touch.turn)
        return any(min(began) < mark < max(began) for mark in marks)

    def _is_new_to(self, task: TaskRecord, path: str) -> bool:
        if path in task.edits or any(task.id in touch.authors for touch in self._by_path.get(path, ())):
            return False
        return self._sure_touch_since(task, path) is None

    def _sure_touch_since(self, task: TaskRecord, path: str) -> Touch | None:
        """Return the last touch of a path since a task began, but for those of tasks alone, and looks."""
        since = [touch for touch in self._by_path.get(path, ()) if touch.order[0] > task.seq]
        sure = [touch for touch in since if not touch.is_of_tasks and not touch.only_looked]
        return sure[-1] if sure else None

    @cached_property
    def _by_path(self) -> Mapping[str, list[Touch]]:
        """The touches so far, by path: they are looked through once, not for every path."""
        found: dict[str, list[Touch]] = {}
        for touch in self._timeline.touches:
            found.setdefault(touch.path, []).append(touch)
        return found

    def _before(self, path: str, image: Image, *, by: str | None = None) -> Record:
        by = by or self._edit.author_of(path)
        return {"kind": "before", **self._place(path), "by": by, **image.to_record()}

    def _again(self, path: str) -> Record:
        return {"kind": "again", **self._place(path), "by": self._edit.by}

    def _place(self, path: str) -> Record:
        return {"turn": self._edit.turn.turn, "edit": self._edit.number, "path": path}

    def _refuse(self, kind: str, path: str) -> None:
        self._edit.gaps.append((kind, path))
        self.records.append({"kind": "gap", "turn": self._edit.turn.turn, "gap": kind, "paths": [path]})


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
