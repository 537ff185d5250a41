"""``sessions diff``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sessions.cli import options, output, pager, patches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.picker.text import Line
    from sessions.rewind.diff import Diff


@click.command("diff")
@options.reference
@click.option("--turn", metavar="CHECKPOINT", shell_complete=options.complete_checkpoints,
              help="Only what this prompt led to: its index, message id, or beginning.")  # fmt: skip
@click.option("--run", metavar="RUN", help="Only what this run of the agent did.")
@click.option("--since", metavar="CHECKPOINT", shell_complete=options.complete_checkpoints,
              help="All since this prompt was typed, or since a mark, TURN:MARK.")  # fmt: skip
@options.files(only="Only this file, or what lies below this directory")
@click.option("--stat", is_flag=True, help="How many lines changed in which file.")
@click.option("--no-pager", is_flag=True, help="Print long output, too, as it is.")
@options.as_json
def command(
    reference: str,
    turn: str | None,
    run: str | None,
    since: str | None,
    files: tuple[str, ...],
    *,
    stat: bool,
    no_pager: bool,
    as_json: bool,
) -> None:
    """Show what the agent did to files, net, from its first edit to its last; all of it, or that of a turn or run.

    What others did is not shown, nor what the files are now. Printed into a pipe it is a patch. 'git apply' takes it
    where all files are text; where one is binary, too large or no longer kept it refuses the whole, and a warning says
    so.
    """
    if sum(each is not None for each in (turn, run, since)) > 1:
        raise click.UsageError("give one of --turn, --run and --since")
    store = options.store()
    with store.open(options.find(store, reference), read_only=True) as session:
        diff = session.diff(turn=turn, run=run, since=since, paths=options.from_here(session, files))
        output.Findings().warn(session)
        if as_json:
            output.warn_gaps(diff.gaps, so=patches.UNSHOWN)
            output.array(file.to_json() for file in diff.files)
        elif sys.stdout.isatty():
            pager.page(lambda: _lines(diff, stat=stat), wanted=not no_pager)
        else:
            output.warn_gaps(diff.gaps, so=patches.UNSHOWN)
            _print(diff, stat=stat)


def _lines(diff: Diff, *, stat: bool) -> Iterator[Line]:
    yield from patches.gap_lines(diff.gaps)
    yield from patches.stat_lines(diff.files, output.columns()) if stat else patches.patch_lines(diff.files)


def _print(diff: Diff, *, stat: bool) -> None:
    """Print for another program: the bytes of the patch, and on stderr what is no part of it."""
    if stat:
        output.lines(patches.stat_lines(diff.files, output.columns()))
        return
    refused = 0
    for file in diff.files:
        if file.unverified:
            output.warn(f"unverified: {patches.doubt(file)}")
        output.raw_bytes((file.text.encode("utf-8", "surrogateescape"),))
        refused += not file.applies
    if refused:
        output.warn(patches.refusal(refused))
