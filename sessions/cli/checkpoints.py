"""``sessions checkpoints``."""

from __future__ import annotations

import click

from sessions import clock
from sessions.cli import options, output, render


@click.command("checkpoints")
@options.reference
@options.as_json
def command(reference: str, *, as_json: bool) -> None:
    """List the prompts one can go back to, oldest first.

    A line is: the index, the beginning of the prompt's message id, when, the prompt, and what the turn did to files;
    ! marks a turn that did something which was not captured, • a mark in it, ▸ where a run of the agent begins.
    ``sessions rewind ID --to`` takes index, id or mark.
    """
    store = options.store()
    with store.open(options.find(store, reference), read_only=True) as session:
        found = session.checkpoints()
        output.Findings().warn(session)  # now: what was read for the checkpoints is not read again
    if as_json:
        output.structured([render.checkpoint_json(each) for each in found])
        return
    if not found:
        output.text("this session has no prompts to go back to", error_stream=True)
    output.lines(render.checkpoint_table(found, clock.now(), output.columns()))
