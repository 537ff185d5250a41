"""``sessions delete``."""

from __future__ import annotations

import click

from sessions.cli import options, output
from sessions.picker.text import one_line, visible_path


@click.command("delete")
@options.reference
@options.dry_run
@options.yes
@options.as_json
def command(reference: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete a session: its transcript, its snapshots and its undo records. This cannot be undone.

    Files of the project are not touched.
    """
    options.require_answer(yes=yes, dry_run=dry_run)
    store = options.store()
    path = store.find(reference)
    with store.open(reference, read_only=True) as session:
        session_id, title = session.id, session.title
    if not as_json or not (yes or dry_run):
        named = f" · {one_line(title, 80)}" if title else ""
        verb = "deletes" if not dry_run else "would delete"
        said = f"{verb} {session_id}{named}"
        output.lines(
            [(("strong", said),), (("", f"  {visible_path(str(path))} with its snapshots and undo records"),)],
            error_stream=as_json,
        )
    if not (yes or dry_run):
        output.ask("Delete it for good?", error_stream=as_json)
    if not dry_run:
        store.delete(session_id)
    if as_json:
        output.structured({"session": session_id, "path": str(path), "deleted": not dry_run, "dry_run": dry_run})
    elif not dry_run:
        output.text("deleted")
