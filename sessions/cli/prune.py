"""``sessions prune``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from sessions import clock
from sessions.cli import options, output
from sessions.picker import words
from sessions.picker.text import Line, one_line, visible, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.upkeep import Pruned

_LEAST_CELLS = 10


@click.command("prune")
@click.option("--undo", is_flag=True, help="Of the undo records keep only the newest of each session.")
@options.dry_run
@options.yes
@options.as_json
def command(*, undo: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove snapshots and undo records that are beyond the limits, in every session. This cannot be undone.

    The limits are those of settings.toml. Files of the project are not touched; a file whose snapshot is removed is
    left alone by a rewind that would need it. Where [retention] is set, whole sessions go that were not written for
    longer, or are too many in their project: each with its subagents, snapshots and undo records. Otherwise no
    transcript is touched. What was not shown before the question does not go. Sessions that are open for
    writing elsewhere are skipped.
    """
    store = options.store()
    options.require_answer(yes=yes, dry_run=dry_run)
    output.warn_settings(store.root)
    unread: list[OSError] = []
    pruned = [] if yes and not dry_run else store.prune(undo=undo, dry_run=True, unread=unread)
    asks = not (yes or dry_run) and any(each.skipped is None for each in pruned)
    if asks:
        output.lines(_lines(pruned, "would be freed"), error_stream=as_json)
        output.ask("Remove it for good?", error_stream=as_json)
    if not dry_run:  # what becomes due while somebody reads the question was not agreed to
        unread.clear()
        done = store.prune(undo=undo, confirmed=None if yes else pruned, unread=unread)
        pruned = [*done, *(each for each in pruned if each.skipped is not None)]
    output.warn_unread(unread)
    removed = not dry_run and any(each.skipped is None for each in pruned)
    with output.after("what is beyond the limits was removed") if removed else nullcontext():
        for each in pruned:
            if each.skipped is not None:
                output.warn(f"session {each.session} was skipped: {each.skipped}")
        if as_json:
            output.structured([each.to_json() for each in pruned])
        else:
            said = list(_lines(pruned, "would be freed" if dry_run else "freed"))
            output.lines(said[-1:] if asks else said)


def _lines(pruned: Sequence[Pruned], done: str) -> Iterator[Line]:
    going = [each for each in pruned if each.skipped is None]
    if not going:
        yield (("", "nothing to prune"),)
        return
    for each in going:
        name = visible(each.session, keep="")
        room = output.columns() - width(name) - 3
        title = f" · {one_line(each.title, room)}" if each.title and room >= _LEAST_CELLS else ""
        yield (("strong", name), ("", title))
        what = _why(each) if each.removed else ", ".join(_what(each))
        yield (("", f"  {what}  "), ("dim", words.size(each.freed_bytes)))
    if any(each.rewinds for each in going):
        yield (("warn", "  with an undo record goes what that rewind removed from the conversation"),)
    total = words.size(sum(each.freed_bytes for each in going))
    yield (("", f"{words.count(len(going), 'session')}, {total} {done}"),)


def _why(pruned: Pruned) -> str:
    past = "cleanup_period_days" if pruned.reason == "age" else "max_count of its project"
    return f"the whole session, last active {words.ago(pruned.last_active_at, clock.now())}: beyond {past}"


def _what(pruned: Pruned) -> Iterator[str]:
    if pruned.turns:
        yield f"the snapshots of {words.count(len(pruned.turns), 'turn')}"
    if pruned.rewinds:
        yield words.count(len(pruned.rewinds), "undo record")
    if pruned.tasks:
        yield f"the logs of {words.count(len(pruned.tasks), 'removed task')}"
    if pruned.leftovers:
        yield f"what was left of {words.count(pruned.leftovers, 'unfinished step')}"
