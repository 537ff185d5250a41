"""``sessions delete``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from sessions import catalog
from sessions.cli import options, output, render
from sessions.picker import words
from sessions.picker.text import one_line, visible_path
from sessions.rewind.plan import StoppedTask

if TYPE_CHECKING:
    from sessions.session import Session


@click.command("delete")
@options.reference
@options.dry_run
@options.yes
@options.as_json
def command(reference: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete a session: its transcript, its snapshots and its undo records. This cannot be undone.

    The sessions of its subagents go with it, and its background tasks are stopped first. Files of the project are not
    touched.
    """
    store = options.store()
    transcript = options.find(store, reference)
    session_id = catalog.id_of(transcript)
    store.refuse_twins(session_id)
    options.require_answer(yes=yes, dry_run=dry_run)
    with store.open(transcript, read_only=dry_run) as session:
        subagents = session.subagents()
        if not as_json or not (yes or dry_run):
            _announce(session, len(subagents), dry_run=dry_run, error_stream=as_json)
        if not (yes or dry_run):
            output.ask("Delete it for good?", error_stream=as_json)
        stopped = _there(session) if dry_run else []
        if not dry_run:
            store.delete(transcript, stopped=stopped)
    with output.after(f"session {session_id} was deleted") if not dry_run else nullcontext():
        if as_json:
            output.structured(
                {
                    "session": session_id,
                    "path": str(transcript),
                    "subagents": subagents,
                    "deleted": not dry_run,
                    "cancelled": [task.to_json() for task in stopped],
                    "dry_run": dry_run,
                }
            )
        elif not dry_run:
            output.text("deleted")


def _announce(session: Session, subagents: int, *, dry_run: bool, error_stream: bool) -> None:
    title = session.title
    named = f" · {one_line(title, 80)}" if title else ""
    said = f"{'would delete' if dry_run else 'deletes'} {session.id}{named}"
    theirs = f", and the {words.count(subagents, 'session')} of its subagents" if subagents else ""
    goes = f"  {visible_path(str(session.path))} with its snapshots and undo records{theirs}"
    output.lines([(("strong", said),), (("", goes),)], error_stream=error_stream)
    stops = "would stop" if dry_run else "stops"
    output.lines(
        ((("warn", f"  {stops}"), ("", f" {render.task_name(task)}")) for task in _there(session)),
        error_stream=error_stream,
    )


def _there(session: Session) -> list[StoppedTask]:
    """Return the tasks that are stopped with a session."""
    there = (task for task in session.tasks.list() if task.state == "running" or task.processes)
    return [StoppedTask(task.id, task.label) for task in there]
