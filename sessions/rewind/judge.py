"""What happens to one file, decided from what it is, what it must become and what the agent left. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from sessions.rewind.needs import Need
from sessions.rewind.plan import Action, Conflict, FileVerdict, OnConflict, Reason
from sessions.rewind.states import Absent, Content, Directory, FileState, Image, Link, OverLimit, Unreadable, same

_STOPPING = "a task that will be stopped still edits it"
_MAY_EDIT = "a task that will be stopped may edit it"


@dataclass(frozen=True, slots=True)
class Change:
    """One path made from ``before`` into ``after``.

    Attributes:
        in_place: Device and inode of the file whose content is written over, so that its other names, or the place it
            is mounted from, go with it; None where it is replaced.
        unsteady: Whether work that goes on may write it at any moment: what is there when it is staged is kept.
    """

    path: str
    before: Image
    after: Image
    in_place: tuple[int, int] | None = None
    unsteady: bool = False

    def reversed(self) -> Change:
        """Return its undo."""
        return Change(self.path, self.after, self.before, self.in_place)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and what to do (None where nothing is to be done)."""

    verdict: FileVerdict
    change: Change | None = None
    conflict: Conflict | None = None


def judge(
    need: Need,
    current: FileState,
    *,
    shown: str,
    on_conflict: OnConflict,
    forbidden: bool,
    kept: bool,
    named: bool = False,
) -> Judgement:
    """Decide about one path.

    Args:
        current: What the path is now.
        shown: The path as people see it.
        on_conflict: ``keep`` leaves a conflicting file alone; the others plan to overwrite it (``refuse`` is the
            caller's: it needs to see all conflicts first).
        forbidden: The path lies where nothing may be touched.
        kept: The bytes of the target are there.
        named: ``on_conflict`` was said of this path, not of all: ``keep`` then keeps it also where nobody knows what
            the agent left.
    """
    if forbidden:
        return _skip(need, shown, "outside", "it lies outside the directories of this session")
    if same(current, need.target.state):
        note = _MAY_EDIT if need.stopping else ""
        return Judgement(FileVerdict(shown, "unchanged", None, need.by, 0, 0, note))
    if (impossible := _impossible(need, shown, kept=kept)) is not None:
        return impossible
    if isinstance(current, Unreadable):
        verdict = FileVerdict(shown, "skip", "unreadable", need.by, note=current.why)
        return Judgement(verdict, None, Conflict(shown, current.why, need.by))
    return _change(need, current, shown, on_conflict, named=named)


def _impossible(need: Need, shown: str, *, kept: bool) -> Judgement | None:
    """Judge a target nobody can bring back; None where it can be."""
    match need.target.state:
        case OverLimit(size):
            return _skip(need, shown, "over_limit", f"it was {size} bytes, too large to be captured")
        case Unreadable(why):
            return _skip(need, shown, "unreadable", f"it could not be read before the edit: {why}")
        case Content() if not kept:
            return _skip(need, shown, "lost", "its snapshot is gone")
        case _:
            return None


def _change(need: Need, current: FileState, shown: str, on_conflict: OnConflict, *, named: bool) -> Judgement:
    change = Change(need.path, Image(current), need.target, unsteady=need.unsteady)
    action = _action(current, need.target.state)
    if need.contested:
        found = need.contested
    elif need.stopping:
        return Judgement(FileVerdict(shown, action, None, need.by, note=_STOPPING), change)
    elif need.left is None:
        unknown = "nobody recorded what the agent left"
        if named and on_conflict == "keep":
            return _skip(need, shown, "unverified", f"kept: {unknown}")
        return Judgement(FileVerdict(shown, action, "unverified", need.by, note=unknown), change)
    elif _is_as_left(current, need.left.state, need.target.state):
        note = "; ".join(filter(None, [_mode_alone(current, need.target.state), need.note]))
        return Judgement(FileVerdict(shown, action, None, need.by, note=note), change)
    else:
        found = describe(current, need.left.state)
    return contested(Judgement(FileVerdict(shown, action, by=need.by), change), found, on_conflict)


def _mode_alone(current: FileState, target: FileState) -> str:
    """Say which mode a path gets, where it gets nothing else; empty where its content changes."""
    match current, target:
        case (Content(sha256, _, mode), Content(wanted, _, becomes)) if sha256 == wanted:
            return f"mode {mode:04o} becomes {becomes:04o}"
        case (Directory(mode), Directory(becomes)):
            return f"mode {mode:04o} becomes {becomes:04o}"
        case _:
            return ""


def contested(judgement: Judgement, found: str, on_conflict: OnConflict) -> Judgement:
    """Return a judgement as it is where the path turns out to be a conflict: ``found`` says why."""
    verdict = judgement.verdict
    conflict = Conflict(verdict.path, found, verdict.by)
    if on_conflict == "keep":
        kept = FileVerdict(verdict.path, "skip", "conflict", verdict.by, note=f"kept: {found}")
        return Judgement(kept, None, conflict)
    return Judgement(replace(verdict, reason="conflict", note=found), judgement.change, conflict)


def _is_as_left(current: FileState, left: FileState, target: FileState) -> bool:
    """Tell whether a path is what the agent left. A directory that must go is one in any mode."""
    if isinstance(current, Directory) and not isinstance(target, Directory):
        return isinstance(left, Directory)
    return same(current, left)


def _skip(need: Need, shown: str, reason: Reason, note: str) -> Judgement:
    return Judgement(FileVerdict(shown, "skip", reason, need.by, note=note))


def _action(current: FileState, target: FileState) -> Action:
    if isinstance(target, Absent):
        return "delete"
    return "recreate" if isinstance(current, Absent) else "restore"


def describe(current: FileState, left: FileState) -> str:
    """Say in a phrase how ``current`` differs from what the agent ``left``."""
    match current:
        case Absent():
            phrase = "deleted since"
        case Directory(mode) if isinstance(left, Directory):
            phrase = f"mode changed to {mode:04o} since"
        case Directory():
            phrase = "replaced by a directory since"
        case Link(target):
            phrase = f"replaced by a link to {target} since"
        case Content(sha256, _, mode) if isinstance(left, Content) and left.sha256 == sha256:
            phrase = f"mode changed to {mode:04o} since"
        case Content():
            phrase = "created again since" if isinstance(left, Absent) else "changed since"
        case Unreadable(why):
            phrase = f"unreadable: {why}"
        case OverLimit(size):
            phrase = f"grown to {size} bytes since"
        case _:
            assert_never(current)
    return phrase
