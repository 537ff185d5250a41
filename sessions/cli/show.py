"""``sessions show``."""

from __future__ import annotations

import click

from sessions.cli import options, output


@click.command("show")
@options.reference
@click.option("--history", is_flag=True, help="Every visible message, also those a compaction replaced.")
@options.as_json
def command(reference: str, *, history: bool, as_json: bool) -> None:
    """Print the messages of a session: what the model sees of it."""
    store = options.store()
    with store.open(options.find(store, reference), read_only=True) as session:
        output.Findings().warn(session)
        messages = session.history() if history else session.messages
        if as_json:
            output.json_bytes(b'{"messages":[' + b",".join(line.strip() for line in messages.lines()) + b"]}")
            return
        from sessions.cli.messages import message_lines  # noqa: PLC0415 - JSON needs no pydantic models

        output.lines(line for message in messages for line in message_lines(message))
