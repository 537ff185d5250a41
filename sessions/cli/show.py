"""``sessions show``."""

from __future__ import annotations

import click

from sessions.cli import options, output

_LAST_FOLLOWED = 10  # as tail does it


@click.command("show")
@options.reference
@click.option("--history", is_flag=True, help="Every visible message, also those a compaction replaced.")
@click.option("--last", type=click.IntRange(min=0), metavar="N",
              help=f"Only the last N messages.  [default: all; with --follow {_LAST_FOLLOWED}]")  # fmt: skip
@click.option("--follow", "-f", is_flag=True,
              help="Go on printing what is appended, by whoever, until Ctrl-C; with --json, a line each.")  # fmt: skip
@options.as_json
def command(reference: str, *, history: bool, last: int | None, follow: bool, as_json: bool) -> None:
    """Print the messages of a session: what the model sees of it."""
    store = options.store()
    with store.open(options.find(store, reference), read_only=True) as session:
        output.Findings().warn(session, but="torn_tail" if follow else "")  # its end may be being written right now
        if not follow:
            messages = session.history() if history else session.messages
            messages = messages if last is None else messages[max(len(messages) - last, 0) :]
            if as_json:
                output.json_bytes(b'{"messages":[' + b",".join(line.strip() for line in messages.lines()) + b"]}")
                return
            from sessions.cli.messages import message_lines  # noqa: PLC0415 - JSON needs no pydantic models

            output.lines(line for message in messages for line in message_lines(message))
            return
    from sessions.cli.show_follow import follow as follow_messages  # noqa: PLC0415 - most do not

    follow_messages(session.path, _LAST_FOLLOWED if last is None else last, history=history, as_json=as_json)
