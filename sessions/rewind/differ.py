"""Makes a diff: which edits are meant, and what they come to. Reads the log and the transcript, writes nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Protocol

from sessions.errors import NotFoundError, RequestError
from sessions.rewind.changes import NetChange, net_changes
from sessions.rewind.diff import Diff
from sessions.rewind.filediffs import Contents, FileDiffs
from sessions.rewind.foreign import ForeignHistory
from sessions.rewind.log import CaptureLog
from sessions.rewind.needs import Places, is_within, unmatched
from sessions.rewind.ongoing import Ongoing
from sessions.rewind.plan import Gap
from sessions.rewind.recorded import Order, Touch
from sessions.rewind.states import Absent, Image
from sessions.rewind.targets import Reference, resolve, which_runs
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree
from sessions.transcript import reader
from sessions.transcript.outline import Outline, Prompt

_START: Order = (-1, 0, 0, 0)
_LOST = "lost_records"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which edits a diff is of: a turn's, a run's, or all since a prompt was typed; all there are where all is None.

    Attributes:
        paths: Only edits of these files, and of what lies below them; None for all.
    """

    turn: Reference | None = None
    run: str | None = None
    since: Reference | None = None
    paths: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a selection comes to.

    Attributes:
        prompts: The message ids of the turns meant; None: all from ``since`` on.
        since: The place on the timeline in front of all that is meant.
        offset: Likewise in the transcript.
    """

    prompts: frozenset[str] | None = None
    since: Order = _START
    offset: int = 0


@dataclass(slots=True)
class _Foreign:
    """Another agent's touches: their places in the turns that are meant, and what probably became of deleted files."""

    touches: list[Touch] = field(default_factory=list)
    chosen: set[Order] = field(default_factory=set)
    guesses: dict[Order, Image] = field(default_factory=dict)


class _Outlines(Protocol):
    """What the differ asks of the transcript's reader."""

    def __call__(self, *, deep: bool) -> Outline: ...


class Differ:
    """Makes the diffs of one session.

    Args:
        path: The transcript; it may not be there yet.
        outline: Gives its outline as of now.
        shown: Spells an identity for people.
    """

    def __init__(
        self,
        path: Path,
        worktree: Worktree,
        *,
        log: CaptureLog,
        contents: Contents,
        foreign: ForeignHistory,
        ongoing: Ongoing,
        outline: _Outlines,
        shown: Callable[[str], str],
    ) -> None:
        self._path = path
        self._worktree = worktree
        self._log = log
        self._contents = contents
        self._foreign = foreign
        self._ongoing = ongoing
        self._outline = outline
        self._shown = shown

    def diff(self, selection: Selection, *, open_turn: str | None, is_open: Callable[[str], bool]) -> Diff:
        """Return what the selected edits come to; the contents are read when its files are gone through.

        Args:
            open_turn: The message id of the turn the host has open: what it edited is shown as it is now, like what
                tasks and subagents are editing.
            is_open: Tells whether the session of a subagent is open in this process.

        Raises:
            RequestError: More than one thing is selected, or the turn of a mark.
            NotFoundError: There is no such prompt or run, or the agent touched none of the files that are asked for.
        """
        timeline = self._log.read()
        chosen = self._choose(selection, timeline)
        foreign = self._foreign_touches(timeline, chosen)
        touches: Sequence[Touch] = sorted([*timeline.touches, *foreign.touches], key=lambda touch: touch.order)
        opened = timeline.turn_of(open_turn) if open_turn is not None else None
        now = self._ongoing.as_of_now(
            touches, timeline, is_open=is_open, turn=opened.turn if opened is not None else None
        )
        touches, contents = now.touches, replace(self._contents, live=now.live)
        turns = _turns(timeline, chosen)

        def is_meant(touch: Touch) -> bool:
            if turns is None:
                return touch.order >= chosen.since
            return touch.turn in turns or touch.order in foreign.chosen

        changes = net_changes(touches, is_meant, guesses=foreign.guesses)
        gaps = _gaps(timeline, chosen, turns)
        if selection.paths is not None:
            touched = [touch.path for touch in touches if is_meant(touch)]
            changes, gaps = self._only(selection.paths, changes, gaps, touched)
        return Diff(FileDiffs(changes, contents, self._shown), tuple(map(self._readable, gaps)))

    def _choose(self, selection: Selection, timeline: Timeline) -> _Chosen:
        given = [each for each in (selection.turn, selection.run, selection.since) if each is not None]
        if len(given) > 1:
            raise RequestError("a diff is of one turn, of one run, or since a checkpoint: give one of them")
        if selection.run is not None:
            found = frozenset(turn.message_id for turn in timeline.turns.values() if turn.run_id == selection.run)
            if not found:
                raise NotFoundError("run", selection.run, hint=which_runs(timeline))
            return _Chosen(found)
        if not given:
            return _Chosen()
        target = resolve(given[0], self._prompts(), timeline, "code")
        if target.mark is not None and selection.turn is not None:
            raise RequestError("a mark has no turn of its own: ask for its turn, or for all since the mark")
        offset = target.prompt.offset if target.prompt is not None else 0
        return _Chosen(frozenset({target.id}) if selection.turn is not None else None, target.order, offset)

    def _prompts(self) -> Sequence[Prompt]:
        return self._outline(deep=False).prompts if self._path.exists() else ()

    def _foreign_touches(self, timeline: Timeline, chosen: _Chosen) -> _Foreign:
        found = _Foreign()
        if not self._path.exists() or not reader.has_snapshots(self._path, chosen.offset):
            return found
        outline = self._outline(deep=True)
        offsets = [prompt.offset for prompt in outline.prompts]
        places = Places(outline.prompts, timeline)
        for snapshot, touch in self._foreign.touches(outline.snapshots, places, since=chosen.since):
            found.touches.append(touch)
            if snapshot.operation == "delete":
                found.guesses[touch.order] = Image(Absent())
            prompt = bisect_right(offsets, snapshot.offset) - 1
            if chosen.prompts is not None and prompt >= 0 and outline.prompts[prompt].id in chosen.prompts:
                found.chosen.add(touch.order)
        return found

    def _only(
        self, paths: Sequence[str], changes: Sequence[NetChange], gaps: Sequence[Gap], touched: Sequence[str]
    ) -> tuple[list[NetChange], list[Gap]]:
        """Return what concerns some paths; a gap does that names one of them.

        Raises:
            NotFoundError: None is touched, nor named by a gap.
        """
        wanted = {self._worktree.identify(path): None for path in paths}
        named = [[self._place(path) for path in gap.paths] for gap in gaps]
        unmatched(chain(touched, *named), list(wanted), self._shown)
        return (
            [change for change in changes if is_within(change.path, wanted.keys())],
            [
                gap
                for gap, at in zip(gaps, named, strict=True)
                if gap.kind == _LOST or any(is_within(path, wanted.keys()) for path in at)
            ],
        )

    def _place(self, path: str) -> str:
        """Return the identity of a path a gap names; a host may say anything."""
        try:
            return self._worktree.identify(path)
        except RequestError:
            return path

    def _readable(self, gap: Gap) -> Gap:
        return replace(gap, paths=tuple(map(self._shown, gap.paths)))


def _gaps(timeline: Timeline, chosen: _Chosen, turns: frozenset[int] | None) -> list[Gap]:
    meant = [gap for seq, turn, gap in timeline.gaps if (seq >= chosen.since[0] if turns is None else turn in turns)]
    lost = bool(timeline.missing) if turns is not None else any(seq >= chosen.since[0] for seq in timeline.missing)
    return [*meant, Gap(_LOST, (), "")] if lost else meant


def _turns(timeline: Timeline, chosen: _Chosen) -> frozenset[int] | None:
    """Return the numbers of the turns that are meant; None where a place says it."""
    if chosen.prompts is None:
        return None
    return frozenset(number for number, turn in timeline.turns.items() if turn.message_id in chosen.prompts)
