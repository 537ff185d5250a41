"""From what paths need to be, to verdicts and an ordered list of changes. Looks at the disk, changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sessions.rewind.counting import MOST_FILES, LineCounter
from sessions.rewind.examining import identity_from
from sessions.rewind.files_plan import FilesPlan
from sessions.rewind.judge import Change, Judgement, contested, judge
from sessions.rewind.kept import Kept
from sessions.rewind.mounts import mount_points
from sessions.rewind.needs import Need, above_and_itself, is_within, known_content, unmatched
from sessions.rewind.payloads import Payloads
from sessions.rewind.plan import FileVerdict, Reason
from sessions.rewind.policy import Policies
from sessions.rewind.several_names import settle_names
from sessions.rewind.states import Absent, Content, Directory, FileState, Image, Unreadable, same
from sessions.rewind.worktree import OutsideError, Worktree

_NEW_DIRECTORY_MODE = 0o755


class FilesPlanner:
    """Plans file changes.

    Args:
        shown: Spells an identity for people.
    """

    def __init__(self, worktree: Worktree, payloads: Payloads, kept: Kept, shown: Callable[[str], str]) -> None:
        self._worktree = worktree
        self._payloads = payloads
        self._kept = kept
        self._shown = shown

    def plan(
        self,
        needs: Sequence[Need],
        policies: Policies,
        *,
        only: Sequence[str] | None = None,
        otherwise: str = "",
        left_alone: Mapping[str, str] | None = None,
    ) -> FilesPlan:
        """Judge every need and order the changes.

        Args:
            needs: Sorted by path.
            only: The identities this is restricted to, with all below them; None: all.
            otherwise: What to say of those among them that nothing is needed of.
            left_alone: The paths that something was done to and that stay as they are, with why.

        Raises:
            NotFoundError: Nothing is needed of a path with a policy of its own, or of none that this is restricted to.
        """
        left_alone = left_alone or {}
        concerned = [*(need.path for need in needs), *left_alone]
        policies.refuse_unknown(concerned, self._shown)
        chosen = set(only or ())
        other = unmatched(concerned, only, self._shown) if only is not None else []
        if only is not None:
            needs = [need for need in needs if is_within(need.path, chosen)]
            left_alone = {path: why for path, why in left_alone.items() if is_within(path, chosen)}
        plan = self._planned(needs, policies)
        plan.verdicts += [
            FileVerdict(self._shown(path), "skip", "outside", "agent", note=why) for path, why in left_alone.items()
        ]
        plan.leave_out((self._shown(path) for path in other), otherwise)
        return plan

    def _planned(self, needs: Sequence[Need], policies: Policies) -> FilesPlan:
        self._kept.look_again()
        judged: dict[str, Judgement] = {}
        becoming_directories: set[str] = set()
        for need in needs:
            judgement = self._judge(need, policies, becoming_directories)
            judged[need.path] = judgement
            if judgement.change is not None and _becomes_directory(judgement.change):
                becoming_directories.add(need.path)
        plan = FilesPlan()
        mounts = mount_points() if any(each.change for each in judged.values()) else frozenset()
        settle_names(judged, {need.path: need for need in needs}, self._worktree, mounts)
        removed = self._settle_directories(judged, plan, mounts, policies)
        counter = LineCounter() if len(judged) <= MOST_FILES else None
        for path, judgement in judged.items():
            plan.verdicts.append(self._count(judgement, counter) if counter is not None else judgement.verdict)
            _note_trouble(judgement, plan, refuse=policies.of(path) == "refuse")
            if judgement.change is not None and path not in removed:
                plan.changes.append(judgement.change)
        plan.changes.extend(self._missing_parents(plan.changes))
        plan.changes.extend(self._closed_parents(plan.changes))
        plan.changes = _in_order(plan.changes)
        plan.verdicts.sort(key=lambda verdict: verdict.path)
        return plan

    def _judge(self, need: Need, policies: Policies, becoming_directories: set[str]) -> Judgement:
        content, identity = known_content(need), identity_from(need.identity)
        known = (content, identity) if content is not None and identity is not None else None
        forbidden = self._worktree.why_not(need.path) is not None
        current: FileState = Absent()
        if not forbidden and not _below(need.path, becoming_directories):
            current, _ = self._worktree.examine(need.path, known=known)
            if isinstance(current, Unreadable) and isinstance(need.target.state, Absent):
                current = Absent() if self._worktree.is_below_a_file(need.path) else current
        target = need.target if same(current, need.target.state) else self._kept.find(need.target)
        judged = judge(
            replace(need, target=target or need.target),
            current,
            shown=self._shown(need.path),
            on_conflict=policies.of(need.path),
            forbidden=forbidden,
            kept=target is not None,
            named=policies.names(need.path),
        )
        if judged.verdict.reason == "lost" and self._kept.was_pruned(need.target):
            return replace(judged, verdict=replace(judged.verdict, note="its snapshot was removed by the limits"))
        return judged

    # -- directories -----------------------------------------------------------------------------------------------

    def _settle_directories(
        self, judged: dict[str, Judgement], plan: FilesPlan, mounts: frozenset[str], policies: Policies
    ) -> set[str]:
        """Decide about directories that are in the way or must go; return the paths whose change is withdrawn."""
        going = {path for path, each in judged.items() if each.change and isinstance(each.change.after.state, Absent)}
        needed = {above for path, each in judged.items() if _is_made(each) for above in above_and_itself(path)}
        withdrawn: set[str] = set()
        for path in sorted(judged, reverse=True):
            change = judged[path].change
            if change is None or not _goes(change):
                continue
            empties = set(self._worktree.children(path)) <= going
            if not empties and not isinstance(change.after.state, Absent) and judged[path].conflict is None:
                judged[path] = contested(judged[path], "something was put into it since", policies.of(path))
                if judged[path].change is None:  # it is kept
                    withdrawn.add(path)
                    continue
            if judged[path].conflict is not None:
                emptied = self._guard_whole(path, judged, mounts)
                note = "a directory stands in its way and cannot be kept whole"
            else:
                stays = path in needed and isinstance(change.after.state, Absent)
                emptied = [] if not stays and empties else None
                note = "not empty: it stays"
            if emptied is None:
                reason: Reason | None = "conflict" if judged[path].conflict is not None else None
                verdict = replace(judged[path].verdict, action="skip", reason=reason, note=note)
                judged[path] = replace(judged[path], verdict=verdict)
                withdrawn.add(path)
                going.discard(path)
            else:
                plan.changes.extend(emptied)
                why = f"in the directory that stands in the way of {self._shown(path)}; undo brings it back"
                plan.verdicts.extend(FileVerdict(self._shown(each.path), "delete", note=why) for each in emptied)
        return withdrawn

    def _guard_whole(self, path: str, judged: dict[str, Judgement], mounts: frozenset[str]) -> list[Change] | None:
        """Return the removals that empty a directory; None where something in it cannot be kept."""
        removals: list[Change] = []
        closed: list[str] = []
        for below in self._worktree.descend(path, closed=closed):
            state, _ = self._worktree.examine(below)
            if isinstance(state, Unreadable) or below in mounts or self._worktree.why_not(below) is not None:
                return None
            if below not in judged:
                removals.append(Change(below, Image(state), Image(Absent())))
        if closed:
            return None
        listed = {change.path for change in removals} | judged.keys()
        whole = all(child in listed for change in removals for child in self._worktree.children(change.path))
        return removals if whole and set(self._worktree.children(path)) <= listed else None

    def _missing_parents(self, changes: Iterable[Change]) -> list[Change]:
        made = {change.path for change in changes}
        parents: list[Change] = []
        for change in changes:
            if isinstance(change.after.state, Absent):
                continue
            for parent in self._worktree.missing_parents(change.path):
                if parent not in made:
                    made.add(parent)
                    parents.append(Change(parent, Image(Absent()), Image(Directory(_NEW_DIRECTORY_MODE))))
        return parents

    def _closed_parents(self, changes: Iterable[Change]) -> list[Change]:
        """Return the directories their owner may not change anything in: they are opened and closed again."""
        known = {change.path for change in changes}
        parents = {os.path.dirname(change.path) for change in changes} - known
        modes = {parent: self._worktree.closed_mode(parent) for parent in sorted(parents)}
        images = {path: Image(Directory(mode)) for path, mode in modes.items() if mode is not None}
        return [Change(path, image, image) for path, image in images.items()]

    # -- lines -----------------------------------------------------------------------------------------------------

    def _count(self, judgement: Judgement, counter: LineCounter) -> FileVerdict:
        change = judgement.change
        if change is None:
            return judgement.verdict
        before, after = change.before, change.after
        counts = counter.count(
            before.state, after.state, lambda: self._text_on_disk(change), lambda: self._payloads.whole(after)
        )
        if counts is None or counts.binary:
            return judgement.verdict
        return replace(judgement.verdict, insertions=counts.insertions, deletions=counts.deletions)

    def _text_on_disk(self, change: Change) -> bytes | None:
        size = change.before.state.size if isinstance(change.before.state, Content) else 0
        try:
            with self._worktree.reading(change.path) as fd:
                return os.read(fd, size)
        except (OSError, OutsideError):
            return None


def _note_trouble(judgement: Judgement, plan: FilesPlan, *, refuse: bool) -> None:
    if judgement.conflict is not None:
        plan.conflicts.append(judgement.conflict)
        if refuse:
            plan.refusing.append(judgement.conflict)
    elif refuse and judgement.verdict.reason == "unverified":
        plan.unverified.append(judgement.verdict.path)


def _becomes_directory(change: Change) -> bool:
    return isinstance(change.after.state, Directory) and not isinstance(change.before.state, Directory)


def _is_made(judgement: Judgement) -> bool:
    return judgement.change is not None and not isinstance(judgement.change.after.state, Absent)


def _goes(change: Change) -> bool:
    return isinstance(change.before.state, Directory) and not isinstance(change.after.state, Directory)


def _below(path: str, directories: set[str]) -> bool:
    parent = os.path.dirname(path)
    while len(parent) > 1:
        if parent in directories:
            return True
        parent = os.path.dirname(parent)
    return False


def _in_order(changes: Iterable[Change]) -> list[Change]:
    listed = list(changes)
    removals = [change for change in listed if isinstance(change.after.state, Absent)]
    others = [change for change in listed if not isinstance(change.after.state, Absent)]
    return sorted(removals, key=lambda change: change.path, reverse=True) + sorted(
        others, key=lambda change: change.path
    )
