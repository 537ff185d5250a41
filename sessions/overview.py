"""Lists of sessions: of a project, of the worktrees of a repository, of all. Reads what it must and changes no session.

What is looked for in one list: the names in the directories, what the system says of each file, and, where the row is
not known from before, the two ends of the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from sessions import catalog, listing, paths
from sessions.catalog import Found
from sessions.listing import Facts, SessionInfo
from sessions.row_cache import RowCache
from sessions.worktrees import Worktrees

ListScope = Literal["project", "worktrees", "all"]

_FEW = 20
"""So many rows are read faster than the cache."""


class Overview:
    """Lists of the sessions under one root.

    Args:
        cached: Whether rows are kept from one list to the next.
        unread: Gets why a transcript, or a directory of them, cannot be read and is left out.
    """

    def __init__(self, root: Path, *, cached: bool = True, unread: list[OSError] | None = None) -> None:
        self._root = root
        self._cached = cached
        self._unread = unread

    def rows(self, directory: str, scope: ListScope, *, limit: int | None = None) -> list[SessionInfo]:
        """Return rows, that of the session touched last first; of two sessions of one id only that.

        Args:
            directory: Whose sessions they are, resolved.
            limit: At most so many.
        """
        belongs, places = self._places(directory, scope)
        found = [each for place in places for each in catalog.found_in(place, unread=self._unread)]
        found.sort(key=catalog.BY_ACTIVITY, reverse=True)
        rows: list[SessionInfo] = []
        ids = set[str]()
        for each, facts in self._read(found, cached=limit is None or limit > _FEW):
            if belongs(each.directory, facts.workdir):
                row = SessionInfo(each.directory, each.name, facts)
                if row.id not in ids:
                    ids.add(row.id)
                    rows.append(row)
                    if limit is not None and len(rows) >= limit:
                        break
        return rows

    def with_children(self, rows: Iterable[SessionInfo]) -> Iterator[SessionInfo]:
        """Yield rows, each followed by those of its subagents' sessions, in a tree, the one touched last first."""
        below: dict[str, dict[tuple[str, str], list[SessionInfo]]] = {}
        for row in rows:
            place = str(row.path.parent)
            if place not in below:
                below[place] = self._children_in(place)
            yield row
            yield from _tree(below[place], row.id)

    def _children_in(self, place: str) -> dict[tuple[str, str], list[SessionInfo]]:
        found = sorted(
            catalog.found_in(place, children=True, unread=self._unread), key=catalog.BY_ACTIVITY, reverse=True
        )
        below = defaultdict[tuple[str, str], list[SessionInfo]](list)
        for each, facts in self._read(found, cached=True, children=True):
            if facts.root is not None and facts.parent is not None:
                below[facts.root, facts.parent].append(SessionInfo(each.directory, each.name, facts))
        return below

    def _places(self, directory: str, scope: ListScope) -> tuple[Callable[[str, str | None], bool], list[str]]:
        """Return which sessions belong, by the directory of their file and their own, and where they can lie."""
        projects = self._root / "projects"
        if scope == "all":
            return (lambda _place, _workdir: True), catalog.directories(self._root, self._unread)
        resolved = _Resolved()
        if scope == "project":
            place = str(paths.project_directory(self._root, directory))
            return (lambda _place, workdir: workdir is None or resolved(workdir) == directory), [place]
        worktrees = Worktrees(directory)
        own = {str(paths.project_directory(self._root, each)) for each in worktrees.roots}
        holds = _Held(worktrees, resolved)
        names = worktrees.projects(projects)
        return (lambda place, workdir: place in own if workdir is None else holds(workdir)), sorted(
            str(projects / name) for name in names
        )

    def _read(self, found: list[Found], *, cached: bool, children: bool = False) -> Iterator[tuple[Found, Facts]]:
        """Yield what is known of each transcript, in the order given, but for those that cannot be read."""
        if not (self._cached and cached):
            for each in found:
                if (facts := self._facts(each)) is not None:
                    yield each, facts
            return
        caches = {place: RowCache(self._root, place, children=children) for place in {each.directory for each in found}}
        try:
            for each in found:
                cache = caches[each.directory]
                facts = cache.facts(each)
                if facts is None:
                    facts = self._facts(each)
                    if facts is None:
                        continue
                    cache.keep(each.name, facts)
                yield each, facts
        finally:
            names = defaultdict[str, set[str]](set)
            for each in found:
                names[each.directory].add(each.name)
            for place, cache in caches.items():
                cache.forget_all_but(names[place])
                cache.save()

    def _facts(self, found: Found) -> Facts | None:
        try:
            return listing.read(found)
        except FileNotFoundError:
            return None
        except OSError as error:
            if self._unread is not None:
                self._unread.append(error)
            return None


class _Resolved(dict[str, "str | None"]):
    """The real paths of directories that headers name, each asked for once."""

    def __missing__(self, workdir: str) -> str | None:
        self[workdir] = resolved = paths.resolved(workdir)
        return resolved

    def __call__(self, workdir: str) -> str | None:
        return self[workdir]


class _Held(dict[str, bool]):
    """Which directories that headers name lie in one of the worktrees."""

    def __init__(self, worktrees: Worktrees, resolved: _Resolved) -> None:
        super().__init__()
        self._worktrees = worktrees
        self._resolved = resolved

    def __missing__(self, workdir: str) -> bool:
        resolved = self._resolved[workdir]
        self[workdir] = held = resolved is not None and self._worktrees.hold(resolved)
        return held

    def __call__(self, workdir: str) -> bool:
        return self[workdir]


def _tree(below: dict[tuple[str, str], list[SessionInfo]], root: str) -> Iterator[SessionInfo]:
    waiting = below.pop((root, root), [])[::-1]
    while waiting:
        row = waiting.pop()
        yield row
        waiting += below.pop((root, row.id), [])[::-1]  # taken out: records that name each other are no endless tree
