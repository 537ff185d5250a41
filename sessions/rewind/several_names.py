"""Files with several names, and mount points: which are written in place, which are replaced, which must stay.

Only the very file the agent left is written in place: all its names, wherever they are, go back with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sessions.rewind.judge import Change, Judgement
from sessions.rewind.needs import Need
from sessions.rewind.plan import Conflict
from sessions.rewind.states import Absent, Content, Directory, FileState
from sessions.rewind.worktree import Names, Worktree

_IN_PLACE = "written in place: its other hard links and mounts go with it"
_REPLACED = "its other hard links keep what is there now"
_MOUNTED = "something is mounted there, which cannot be replaced"


def settle_names(
    judged: dict[str, Judgement], needs: Mapping[str, Need], worktree: Worktree, mounts: frozenset[str]
) -> None:
    """Decide about files with several names, and about mount points.

    Args:
        mounts: Where something is mounted.
    """
    several = {
        path: names
        for path, judgement in judged.items()
        if judgement.change is not None
        and isinstance(judgement.change.before.state, Content)
        and (names := worktree.names_of(path)) is not None
        and (names.count > 1 or path in mounts)
    }
    fates = _fates(judged, worktree) if several else {}
    for path, judgement in judged.items():
        change, names = judgement.change, several.get(path)
        if change is None:
            continue
        if names is not None and _may_be_written(change, needs[path], names) and len(fates[names.inode]) == 1:
            judged[path] = _noted(replace(judgement, change=replace(change, in_place=names.inode)), _IN_PLACE)
        elif path in mounts and not isinstance(change.after.state, Directory):
            judged[path] = _immovable(judgement)
        elif names is not None:
            judged[path] = _noted(judgement, _REPLACED)


def _fates(judged: Mapping[str, Judgement], worktree: Worktree) -> dict[tuple[int, int], set[FileState | None]]:
    """Return, by inode, what becomes of the names the plan knows; a name that goes has no say, one that stays has."""
    fates: dict[tuple[int, int], set[FileState | None]] = {}
    for path, judgement in judged.items():
        becomes = judgement.change.after.state if judgement.change is not None else None
        if not isinstance(becomes, Absent) and (names := worktree.names_of(path)) is not None:
            fates.setdefault(names.inode, set()).add(becomes)
    return fates


def _may_be_written(change: Change, need: Need, names: Names) -> bool:
    recorded = need.identity[:2] if need.identity is not None else None
    return isinstance(change.after.state, Content) and names.inode == recorded and names.writable


def _immovable(judgement: Judgement) -> Judgement:
    verdict = replace(judgement.verdict, action="skip", reason="conflict", note=_MOUNTED)
    return Judgement(verdict, None, judgement.conflict or Conflict(verdict.path, _MOUNTED, verdict.by))


def _noted(judgement: Judgement, note: str) -> Judgement:
    said = "; ".join(filter(None, [judgement.verdict.note, note]))
    return replace(judgement, verdict=replace(judgement.verdict, note=said))
