"""The file half of a plan. Plain values, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sessions.rewind.judge import Change
from sessions.rewind.plan import Conflict, FileVerdict


@dataclass(slots=True)
class FilesPlan:
    """The file half of a plan.

    Attributes:
        verdicts: One for every path, sorted by path as shown.
        changes: What to do, in an order that works: removals deepest first, then the rest outermost first.
        refusing: The conflicts for which the policy is ``refuse``.
        unverified: The paths, as shown, for which it is and nobody knows what the agent left.
    """

    verdicts: list[FileVerdict] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    refusing: list[Conflict] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)

    def leave_out(self, paths: Iterable[str], note: str) -> None:
        """Say of paths, as shown, that they were asked for and there is nothing to do; the verdicts stay sorted."""
        self.verdicts += [FileVerdict(path, "unchanged", note=note) for path in paths]
        self.verdicts.sort(key=lambda verdict: verdict.path)
