"""Which sessions retention removes. Pure.

A session is judged by when its transcript was last written, and by nothing else. Where the clock jumped back nothing
extra goes: what was written in the future, as the clock has it now, stays and is no reason for another one to go. That
the clock jumped ahead nobody can tell.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sessions.settings import Retention

Reason = Literal["age", "count"]
"""Why a session goes: nobody wrote it for longer than it is kept, or so many of its project were written since."""

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A session there is.

    Attributes:
        path: Its transcript; those of one project lie in one directory.
        written_ns: When that was last written, in nanoseconds since the epoch.
        project: The directory it works in; None where nobody knows: then it is of every project that lies there.
    """

    path: Path
    written_ns: int
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Expired:
    """A session that goes, and why."""

    path: Path
    written_ns: int
    reason: Reason


def expired(rows: Iterable[Kept], policy: Retention, now_ns: int) -> list[Expired]:
    """Return the sessions that go, the one written longest ago first.

    Of those beyond both limits the reason is their age. Two written at the same time are ordered as in a list.

    Args:
        now_ns: The time, in nanoseconds since the epoch.
    """
    if not policy.is_on:
        return []
    past = [row for row in rows if row.written_ns <= now_ns]
    surplus = {row.path for row in _surplus(past, policy.max_count)} if policy.max_count else frozenset()
    going = []
    for row in sorted(past, key=_order):
        age_ns = now_ns - row.written_ns
        if age_ns <= policy.min_retention_s * _NS:
            continue
        if policy.cleanup_period_s and age_ns > policy.cleanup_period_s * _NS:
            going.append(Expired(row.path, row.written_ns, "age"))
        elif row.path in surplus:
            going.append(Expired(row.path, row.written_ns, "count"))
    return going


def _surplus(rows: Iterable[Kept], count: int) -> Iterator[Kept]:
    """Yield those in front of which ``count`` of the same project were written."""
    directories: defaultdict[Path, list[Kept]] = defaultdict(list)
    for row in rows:
        directories[row.path.parent].append(row)
    for there in directories.values():
        yield from _surplus_in(sorted(there, key=_order, reverse=True), count)


def _surplus_in(rows: Sequence[Kept], count: int) -> Iterator[Kept]:
    projects = {row.project for row in rows} - {None} or {None}
    newer: Counter[str | None] = Counter()
    for row in rows:
        members = projects if row.project is None else {row.project}
        if all(newer[each] >= count for each in members):
            yield row
        newer.update(members)


def _order(row: Kept) -> tuple[int, str]:
    return row.written_ns, row.path.name
