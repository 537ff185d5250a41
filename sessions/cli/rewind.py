"""``sessions rewind``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import click

from sessions.cli import options, output, reporting
from sessions.errors import NotFoundError

if TYPE_CHECKING:
    from sessions.rewind.plan import OnConflict, OnRunning, Plan, Scope
    from sessions.session import Session

_NO_TARGET = (
    "there is no terminal to choose on: give --to CHECKPOINT or --last N ('sessions checkpoints ID' lists them)"
)


class _Asked(TypedDict):
    on_conflict: OnConflict
    on_running: OnRunning
    paths: tuple[str, ...] | None


@click.command("rewind")
@options.reference
@click.option(
    "--to", metavar="CHECKPOINT", help="Go back to before this prompt: its index, message id, or its beginning."
)
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Go back to before the last N prompts.")
@click.option("--scope", type=click.Choice(["both", "conversation", "code"]), help="What goes back.  [default: both]")
@options.files
@click.option(
    "--on-conflict",
    type=click.Choice(["overwrite", "keep", "refuse"]),
    default="overwrite",
    show_default=True,
    help="What becomes of a file somebody else changed; undo brings an overwritten one back.",
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
    scope: Scope | None,
    files: tuple[str, ...],
    on_conflict: OnConflict,
    on_running: OnRunning,
    add_dirs: tuple[str, ...],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Go back to a prompt: conversation and files together, as they were before it was typed.

    Without --to or --last a picker opens. Only files the agent touched are changed. ``sessions undo ID`` takes it back.
    """
    if to is not None and last is not None:
        raise click.UsageError("give --to or --last, not both")
    if files and scope not in {None, "code"}:
        raise click.UsageError("--file restores files only: leave --scope out, or give --scope code")
    picking = to is None and last is None
    wanted: Scope | None = "code" if files else scope
    store, findings = options.store(), output.Findings()
    session_id = options.find(store, reference)
    if picking and not options.on_terminal():
        raise click.UsageError(_NO_TARGET)
    options.require_answer(yes=yes, dry_run=dry_run)
    with store.open(session_id, read_only=dry_run, add_dirs=add_dirs) as session:
        asked: _Asked = {"on_conflict": on_conflict, "on_running": on_running, "paths": files or None}
        if picking:
            plan = _picked(session, wanted, asked, dry_run=dry_run)
            findings.warn(session)
        else:
            findings.warn(session)
            target = to if to is not None else _last(session, last or 1)
            plan = session.plan_rewind(target, scope=wanted or "both", **asked)
        if dry_run:
            reporting.show_plan(plan, as_json=as_json)
            return
        if not (yes or picking):
            reporting.confirm(plan, "Rewind?", as_json=as_json)
        with reporting.interruptible(session, "rewind", add_dirs=add_dirs):
            report = session.rewind(plan)
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
