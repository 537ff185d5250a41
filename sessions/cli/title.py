"""``sessions title``."""

from __future__ import annotations

import click

from sessions.cli import options, output
from sessions.picker.text import visible


@click.command("title")
@options.reference
@click.argument("text", required=False)
@options.dry_run
@options.as_json
def command(reference: str, text: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Print the title of a session; with TEXT, change it."""
    reading = text is None or dry_run
    with options.store().open(reference, read_only=reading) as session:
        if text is not None and not dry_run:
            session.set_title(text)
        title = text if text is not None else session.title
        session_id = session.id
    if as_json:
        said: dict[str, object] = {"session": session_id, "title": title}
        output.structured({**said, "dry_run": True} if dry_run else said)
    elif title is not None:
        would = "would be called " if dry_run and text is not None else ""
        output.text(would + visible(title, keep=""))
    else:
        output.text("this session has no title", error_stream=True)
