"""Lists of sessions: of a project, of the worktrees of a repository, of all. Reads what it must and changes no session.

What is looked for in one list: the names in the directories, what the system says of each file, and, where the row is
not known from before, the two ends of the file.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Literal

from sessions import catalog, listing, paths
from sessions.catalog import Found
from sessions.listing import Facts, SessionInfo
from sessions.row_cache import RowCache, RowCaches
from sessions.worktrees import Worktrees

ListScope = Literal["project", "worktrees", "all"]

Belongs = Callable[[SessionInfo], bool]

_FEW = 20
"""So many rows are read faster than the cache."""


class Overview:
    """Lists of the sessions under one root.

    Args:
        caches: Keep rows from one list to the next; None: none are kept.
        unread: Gets why a transcript, or a directory of them, cannot be read and is left out.
    """

    def __init__(self, root: Path, *, caches: RowCaches | None = None, unread: list[OSError] | None = None) -> None:
        self._root = root
        self._caches = caches
        self._unread = unread

    def rows(self, directory: str, scope: ListScope, *, limit: int | None = None) -> list[SessionInfo]:
        """Return rows, that of the session touched last first; of two sessions of one id only that.

        Args:
            directory: Whose sessions they are, resolved.
            limit: At most so many.
        """
        belongs, places = self._places(directory, scope)
        found, caches = self._found(places, cached=limit is None or limit > _FEW)
        rows = self._rows(found, caches)
        chosen = rows if belongs is None else filter(belongs, rows)
        return list(itertools.islice(_latest(chosen, among=found), limit))

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
        below = defaultdict[tuple[str, str], list[SessionInfo]](list)
        for row in self._rows(*self._found([place], children=True)):
            if row.root_id is not None and row.parent_id is not None:
                below[row.root_id, row.parent_id].append(row)
        return below

    def _places(self, directory: str, scope: ListScope) -> tuple[Belongs | None, list[str]]:
        """Return which sessions belong, None for all, and the directories in which they can lie."""
        projects = self._root / "projects"
        if scope == "all":
            return None, catalog.directories(self._root, self._unread)
        resolved = functools.cache(paths.resolved)
        if scope == "project":
            place = str(paths.project_directory(self._root, directory))
            return (lambda row: (workdir := row.workdir) is None or resolved(workdir) == directory), [place]
        worktrees = Worktrees(directory)
        own = {str(paths.project_directory(self._root, each)) for each in worktrees.roots}
        holds = functools.cache(lambda workdir: (real := resolved(workdir)) is not None and worktrees.hold(real))
        names = worktrees.projects(projects)
        return (
            lambda row: holds(workdir) if (workdir := row.workdir) is not None else str(row.path.parent) in own,
            sorted(str(projects / name) for name in names),
        )

    def _found(
        self, places: Iterable[str], *, cached: bool = True, children: bool = False
    ) -> tuple[list[Found], dict[str, RowCache]]:
        """Return the transcripts in some directories, in list order, and the caches of these directories."""
        caches: dict[str, RowCache] = {}
        found: list[Found] = []
        for place in places:
            if cached and self._caches is not None:
                cache = caches[place] = self._caches.take(place, children=children)
                here = catalog.found_in(place, children=children, known=cache.known, unread=self._unread)
                cache.forget_all_but(here)
            else:
                here = catalog.found_in(place, children=children, unread=self._unread)
            found += here
        catalog.sort(found)
        return found, caches

    def _rows(self, found: list[Found], caches: dict[str, RowCache]) -> Iterator[SessionInfo]:
        """Return the row of each transcript that can be read, in the order given; those read anew are kept."""
        if catalog.all_known(found):
            self._give_back(caches)
            return map(SessionInfo, found)
        return self._read_rows(found, caches)

    def _read_rows(self, found: list[Found], caches: dict[str, RowCache]) -> Iterator[SessionInfo]:
        try:
            for each in found:
                if catalog.is_known(each):
                    yield SessionInfo(each)
                elif (facts := self._read(each)) is not None:
                    if facts.directory in caches:
                        caches[facts.directory].keep(facts)
                    yield SessionInfo(facts)
        finally:
            self._give_back(caches)

    def _give_back(self, taken: dict[str, RowCache]) -> None:
        if self._caches is not None:
            self._caches.give_back(taken.values())

    def _read(self, found: Found) -> Facts | None:
        _, name, directory = found
        try:
            return listing.read(directory, name)
        except FileNotFoundError:
            return None
        except OSError as error:
            if self._unread is not None:
                self._unread.append(error)
            return None


def _latest(rows: Iterator[SessionInfo], *, among: list[Found]) -> Iterator[SessionInfo]:
    """Return rows without those of an id that came before."""
    return rows if len(set(map(itemgetter(1), among))) == len(among) else _first_of_each(rows)


def _first_of_each(rows: Iterator[SessionInfo]) -> Iterator[SessionInfo]:
    seen = set[str]()
    for row in rows:
        if row.id not in seen:
            seen.add(row.id)
            yield row


def _tree(below: dict[tuple[str, str], list[SessionInfo]], root: str) -> Iterator[SessionInfo]:
    waiting = below.pop((root, root), [])[::-1]
    while waiting:
        row = waiting.pop()
        yield row
        waiting += below.pop((root, row.id), [])[::-1]  # taken out: records that name each other are no endless tree
