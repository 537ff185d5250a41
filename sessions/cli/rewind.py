"""``sessions rewind``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import click

from sessions.cli import options, output, reporting
from sessions.errors import NotFoundError

if TYPE_CHECKING:
    from sessions.rewind.plan import History, OnConflicts, OnRunning, Plan, Scope
    from sessions.session import Session

_NO_TARGET = (
    "there is no terminal to choose on: give --to CHECKPOINT, --last N or --run RUN ('sessions checkpoints ID' lists"
    " the checkpoints)"
)


class _Asked(TypedDict):
    history: History
    on_conflict: OnConflicts
    on_running: OnRunning
    paths: tuple[str, ...] | None


@click.command("rewind")
@options.reference
@click.option(
    "--to",
    metavar="CHECKPOINT",
    shell_complete=options.complete_checkpoints,
    help="Go back to before this prompt: its index, message id, or its beginning; or to a mark in a turn, TURN:MARK.",
)
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Go back to before the last N prompts.")
@click.option("--run", metavar="RUN", help="Take back what this run of the agent did to files, and nothing else.")
@click.option(
    "--scope",
    type=click.Choice(["both", "conversation", "code"]),
    help="What goes back.  [default: both; code with --run or --file]",
)
@click.option(
    "--history",
    type=click.Choice(["rewrite", "fork", "hide"]),
    default="rewrite",
    show_default=True,
    help="What becomes of the removed part of the conversation: hide keeps it in the file; fork leaves this session as"
    " it is and goes on in a new one.",
)
@options.files(only="Only this file; not the conversation")
@options.on_conflict(
    "overwrite", meaning="What becomes of a file somebody else changed; undo brings an overwritten one back."
)
@click.option(
    "--on-running",
    type=click.Choice(["cancel", "refuse"]),
    default="cancel",
    show_default=True,
    help="What becomes of background tasks of the removed turns.",
)
@options.add_dirs
@options.dry_run
@options.yes
@options.as_json
def command(  # noqa: PLR0917 - the options of a rewind
    reference: str,
    to: str | None,
    last: int | None,
    run: str | None,
    scope: Scope | None,
    history: History,
    files: tuple[str, ...],
    on_conflict: OnConflicts,
    on_running: OnRunning,
    add_dirs: tuple[str, ...],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Go back to a prompt: conversation and files together, as they were before it was typed.

    Without --to, --last or --run a picker opens. Only files the agent touched are changed. ``sessions undo ID`` takes
    it back.
    """
    if to is not None and last is not None:
        raise click.UsageError("give --to or --last, not both")
    code_only = next((name for name, given in (("--file", files), ("--run", run is not None)) if given), None)
    if code_only is not None and scope not in {None, "code"}:
        raise click.UsageError(f"{code_only} restores files only: leave --scope out, or give --scope code")
    wanted: Scope | None = "code" if code_only is not None else scope
    if wanted == "code" and history != "rewrite":
        raise click.UsageError("--history concerns the conversation, which stays as it is here")
    picking = to is None and last is None and run is None
    store, findings = options.store(), output.Findings()
    transcript = options.find(store, reference)
    if picking and not options.on_terminal():
        raise click.UsageError(_NO_TARGET)
    options.require_answer(yes=yes, dry_run=dry_run)
    with store.open(transcript, read_only=dry_run, add_dirs=add_dirs) as session:
        asked: _Asked = {
            "history": history,
            "on_conflict": options.policies_from_here(session, on_conflict),
            "on_running": on_running,
            "paths": options.from_here(session, files),
        }
        if picking:
            plan = _picked(session, wanted, asked, dry_run=dry_run)
            findings.warn(session)
        else:
            findings.warn(session)
            target = to if last is None else _last(session, last)
            plan = session.plan_rewind(target, run=run, scope=wanted or "both", **asked)
        if dry_run:
            reporting.show_plan(plan, as_json=as_json)
            return
        if not (yes or picking):
            reporting.confirm(plan, "Rewind?", as_json=as_json)
        with reporting.interruptible(session, "rewind", add_dirs=add_dirs):
            report = session.rewind(plan)
            reporting.close_fork(report, session)
        with output.after("the rewind was done"):
            reporting.show_report(
                report, plan, "rewound", as_json=as_json, asked=not (yes or picking), add_dirs=add_dirs
            )
            findings.warn(session)


def _picked(session: Session, scope: Scope | None, asked: _Asked, *, dry_run: bool) -> Plan:
    from sessions.picker.pick import SCOPES, pick_rewind  # noqa: PLC0415 - only where it opens

    plan = pick_rewind(session, scopes=(scope,) if scope else SCOPES, dry_run=dry_run, **asked)
    if plan is None:
        raise click.Abort
    return plan


def _last(session: Session, count: int) -> int:
    total = len(session.checkpoints())
    if count > total:
        raise NotFoundError("checkpoint", f"--last {count}", hint=f"the session has {total}")
    return total - count + 1
