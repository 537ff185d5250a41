"""What is kept of the sessions under one root: pruning what is beyond the limits, and letting retention take the rest.

`retiring` decides which sessions go as a whole, `upkeep` what goes from those that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path

from sessions import catalog, leftovers, retiring, settings, upkeep
from sessions.opening import Opening
from sessions.row_cache import RowCaches
from sessions.settings import Retention
from sessions.upkeep import Pruned


def prune(
    root: Path,
    opening: Opening,
    *,
    undo: bool,
    dry_run: bool,
    confirmed: Iterable[Pruned] | None,
    unread: list[OSError] | None,
) -> list[Pruned]:
    """Remove what is beyond the limits; see ``SessionStore.prune``.

    Args:
        opening: Opens the sessions that something goes from. Those that go as a whole are locked where it has them.
    """
    agreed = None if confirmed is None else {each.path: each for each in confirmed if each.skipped is None}
    whole = None if agreed is None else {path for path, each in agreed.items() if each.removed}
    retention = settings.load(root).retention
    retired = list(_retire(root, retention, dry_run=dry_run, confirmed=whole)) if retention.is_on else []
    gone = {each.path for each in retired if dry_run and each.removed}
    stay = {each.path for each in retired if each.skipped is not None}
    chosen = [
        path
        for path in catalog.transcripts(root, unread=unread)
        if path not in gone and (agreed is None or (path in agreed and not agreed[path].removed))
    ]
    if not dry_run:
        upkeep.tidy(root)
    pruned = upkeep.prune(root, chosen, opening, undo=undo, dry_run=dry_run, shown=agreed)
    return [*retired, *(each for each in pruned if each.skipped is None or each.path not in stay)]


def let_retire(root: Path, retention: Retention) -> None:
    """Begin the pass of this process over a root, unless it was begun; see `retiring.Pass`."""
    mine = retiring.pass_over(root)
    mine.begin(lambda: _pass(root, retention, mine.is_spared))


def _pass(root: Path, retention: Retention, spared: Callable[[Path], bool]) -> Iterator[Pruned]:
    """Make the pass of a host, and remove what is left of one that was broken off when its process ended."""
    yield from _retire(root, retention, spared=spared)
    leftovers.sweep_marked(root)


def _retire(
    root: Path,
    retention: Retention,
    *,
    dry_run: bool = False,
    spared: Callable[[Path], bool] = lambda _: False,
    confirmed: Container[Path] | None = None,
) -> Iterator[Pruned]:
    # One of its own: what the store has open is then locked, as for everybody else.
    remover = Opening(root, RowCaches(root).discard)
    return retiring.retire(root, retention, remover, dry_run=dry_run, spared=spared, confirmed=confirmed)
