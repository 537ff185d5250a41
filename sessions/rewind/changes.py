"""From touches to what changed in the end, path by path. Pure.

The touches of a path form a chain: each leads from its *before* to its *after*. Where the *before* of one is not the
*after* of the last, somebody else changed the file in between; that is not the agent's, so the chain falls into parts,
shown one after the other. Where nobody recorded an *after*, the state recorded next stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sessions.rewind.diff import DiffStatus
from sessions.rewind.recorded import Order, Touch
from sessions.rewind.states import Absent, Content, Directory, FileState, Image, OverLimit, Unreadable, same


@dataclass(frozen=True, slots=True)
class Part:
    """An uninterrupted stretch of the agent's edits of one path.

    Attributes:
        after: None where nobody knows how it ended.
        by: Who made the last of the edits.
        unverified: Whether some *after* in it is not what was recorded of the edit, but what was recorded next.
    """

    before: Image
    after: Image | None
    by: str
    unverified: bool = False


@dataclass(frozen=True, slots=True)
class NetChange:
    """What became of one path; of its directories nothing is said.

    Attributes:
        parts: At least one; several where somebody else changed the file in between.
        moved_from: The path of the *before*, where that is another one.
        similarity: How much of a moved file stayed, in percent.
    """

    path: str
    parts: tuple[Part, ...]
    moved_from: str | None = None
    similarity: int = 100

    @property
    def before(self) -> FileState:
        """The state before the first edit."""
        return self.parts[0].before.state

    @property
    def after(self) -> FileState | None:
        """The state after the last; None where nobody knows it."""
        last = self.parts[-1].after
        return None if last is None else last.state

    @property
    def unverified(self) -> bool:
        """Whether the end of some edit was not recorded."""
        return any(part.unverified for part in self.parts)

    @property
    def status(self) -> DiffStatus:
        """What the edits come to. A file whose end is unknown counts as being there."""
        if self.moved_from is not None:
            return "moved"
        if isinstance(self.before, Absent):
            return "created"
        return "deleted" if isinstance(self.after, Absent) else "modified"


def net_changes(
    touches: Sequence[Touch], chosen: Callable[[Touch], bool], *, guesses: Mapping[Order, Image]
) -> list[NetChange]:
    """Return what the chosen touches changed in the end, sorted by path; what ended as it began is left out.

    What a rewind wrote itself is no edit of the agent, but where it is chosen it is part of the chain: it takes back
    what it undid, back to the state it restored. Where that lies in front of the chosen touches, what it wrote is a
    change, made by the rewind.

    Args:
        touches: All live touches, in timeline order; also those not chosen say what was recorded next.
        guesses: For touches whose end nobody recorded, what it probably was; used only where no state follows.
    """
    chains: dict[str, list[Part]] = {}
    for touch, part in _with_ends(touches, guesses):
        if not chosen(touch):
            continue
        parts = chains.setdefault(touch.path, [])
        if not (touch.is_of_a_rewind and _took_back(parts, part.after)):
            parts.append(part)
    net = ((path, _net(parts)) for path, parts in sorted(chains.items()))
    return [NetChange(path, parts) for path, parts in net if parts]


def is_known(state: FileState) -> bool:
    """Tell whether it is known what a file was; not where it was too large, could not be read, or was lost."""
    return not isinstance(state, Unreadable | OverLimit) and not (isinstance(state, Content) and not state.sha256)


def _with_ends(touches: Sequence[Touch], guesses: Mapping[Order, Image]) -> Iterable[tuple[Touch, Part]]:
    """Return each touch with what it did; a directory counts as no file."""
    coming: dict[str, Image] = {}
    found: list[tuple[Touch, Part]] = []
    for touch in reversed(touches):
        after = touch.after
        if after is None:
            following = coming.get(touch.path, guesses.get(touch.order))
            after = following if following is not None and is_known(following.state) else None
        by = touch.by.split(" rw-")[0]
        ended = None if after is None else _file(after)
        found.append((touch, Part(_file(touch.before), ended, by, unverified=touch.after is None)))
        coming[touch.path] = touch.before
    return reversed(found)


def _file(image: Image) -> Image:
    return Image(Absent()) if isinstance(image.state, Directory) else image


def _took_back(parts: list[Part], restored: Image | None) -> bool:
    """Drop the parts at the end of a chain that a rewind undid; False where the chain was never in that state."""
    for place in range(len(parts) - 1 if restored is not None else -1, -1, -1):
        assert restored is not None
        if _continues(parts[place].after, restored):
            del parts[place + 1 :]
            return True
        if _continues(parts[place].before, restored):
            del parts[place:]
            return True
    return False


def _continues(end: Image | None, begin: Image) -> bool:
    return end is not None and same(end.state, begin.state)


def _net(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Join parts that follow one another; empty where the last ends as the first began."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and _joins(last, part):
            unverified = last.unverified or part.unverified
            joined[-1] = replace(last, after=part.after, by=part.by, unverified=unverified)
        elif not _is_nothing(part.before, part.after):
            joined.append(part)
    joined = [part for part in joined if not _is_nothing(part.before, part.after)]
    return () if not joined or _is_nothing(joined[0].before, joined[-1].after) else tuple(joined)


def _joins(last: Part, part: Part) -> bool:
    """Tell whether nothing shows that somebody else changed the file between two parts."""
    if last.after is None or not is_known(last.after.state) or not is_known(part.before.state):
        return True
    return same(last.after.state, part.before.state)


def _is_nothing(before: Image, after: Image | None) -> bool:
    return after is not None and same(before.state, after.state)
