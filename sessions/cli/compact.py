"""``sessions compact``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sessions.cli import options, output
from sessions.picker.words import count

if TYPE_CHECKING:
    from sessions.compaction import Compaction


@click.command("compact")
@options.reference
@click.option(
    "--summary", required=True, metavar="TEXT", help="What stands for the conversation so far; - reads stdin."
)
@click.option("--keep-rounds", type=click.IntRange(min=0), default=2, show_default=True, metavar="N",
              help="How many of the last rounds with the model stay word by word.")  # fmt: skip
@options.dry_run
@options.as_json
def command(reference: str, summary: str, keep_rounds: int, *, dry_run: bool, as_json: bool) -> None:
    """Let a summary stand for the conversation so far in what the model sees.

    The transcript keeps everything, and every earlier prompt can still be gone back to.
    """
    if summary == "-":
        summary = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").strip()
    if not summary.strip():
        raise click.UsageError("the summary is empty")
    store, findings = options.store(), output.Findings()
    with store.open(options.find(store, reference), read_only=dry_run) as session:
        findings.warn(session)
        if dry_run:
            from sessions.compaction import compact  # noqa: PLC0415 - the same code, without the writing

            _say(
                compact(session.messages.entries, summary, keep_rounds=keep_rounds, append=lambda _: None),
                dry_run=True,
                as_json=as_json,
            )
            return
        done = session.compact(summary=summary, keep_rounds=keep_rounds)
        with output.after("the conversation was compacted" if done.compacted else "nothing was compacted"):
            _say(done, dry_run=False, as_json=as_json)
            findings.warn(session)


def _say(done: Compaction, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.structured({**done.to_json(), "dry_run": True} if dry_run else done.to_json())
    elif not done.compacted:
        output.text("nothing to compact: the summary would not make it shorter")
    else:
        kept, verb = count(done.kept_messages, "message"), "would be compacted" if dry_run else "compacted"
        output.text(
            f"{verb}: {kept} kept word by word; about {done.tokens_before} tokens before, {done.tokens_after} after"
        )
