"""``sessions undo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sessions import clock
from sessions.cli import options, output, reporting
from sessions.picker import rewinds

if TYPE_CHECKING:
    from sessions.rewind.plan import OnConflicts
    from sessions.session import Session


@click.command("undo")
@options.reference
@click.option("--redo", is_flag=True, help="Repeat the rewind that was undone last.")
@click.option("--list", "listed", is_flag=True, help="List the rewinds, newest first; take none back.")
@options.on_conflict("refuse", meaning="What to do where a turn came or a file changed since the rewind.")
@options.files(only="Only this file; not the conversation")
@options.add_dirs
@options.dry_run
@options.yes
@options.as_json
def command(
    reference: str,
    on_conflict: OnConflicts,
    files: tuple[str, ...],
    add_dirs: tuple[str, ...],
    *,
    redo: bool,
    listed: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Take back the last rewind; again, the one before. Conversation and files come back byte for byte."""
    if redo and files:
        raise click.UsageError("--redo repeats the whole rewind: leave --file out")
    if listed and (redo or files):
        raise click.UsageError("--list takes nothing back: leave --redo and --file out")
    store, findings = options.store(), output.Findings()
    transcript = options.find(store, reference)
    if listed:
        with store.open(transcript, read_only=True) as session:
            findings.warn(session)
            _list(session, as_json=as_json)
        return
    options.require_answer(yes=yes, dry_run=dry_run)
    with store.open(transcript, read_only=dry_run, add_dirs=add_dirs) as session:
        findings.warn(session)
        plan = session.plan_undo(
            redo=redo,
            paths=options.from_here(session, files),
            on_conflict=options.policies_from_here(session, on_conflict),
        )
        if dry_run:
            reporting.show_plan(plan, as_json=as_json, undo=not redo)
            return
        if not yes:
            assert plan.of is not None
            question = f"{'Redo' if redo else 'Undo'} {rewinds.named(plan.of, clock.now())}?"
            reporting.confirm(plan, question, as_json=as_json, undo=not redo)
        with reporting.interruptible(session, "redo" if redo else "undo", add_dirs=add_dirs):
            report = session.redo_rewind(plan) if redo else session.undo_rewind(plan)
            reporting.close_fork(report, session)
        with output.after(f"the {'redo' if redo else 'undo'} was done"):
            did = "redone" if redo else "undone"
            reporting.show_report(report, plan, did, as_json=as_json, asked=not yes, add_dirs=add_dirs)
            findings.warn(session)


def _list(session: Session, *, as_json: bool) -> None:
    newest_first = session.rewinds(prompts=True)[::-1]
    if as_json:
        output.structured([each.to_json() for each in newest_first])
        return
    if not newest_first:
        output.text("this session was never rewound", error_stream=True)
    output.lines(rewinds.stack_lines(newest_first, clock.now()))
