"""``sessions fork``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sessions.cli import options, output
from sessions.cli.title import refuse_as_title
from sessions.picker.text import one_line, visible_path
from sessions.picker.words import count

if TYPE_CHECKING:
    from sessions.forks import ForkPlan
    from sessions.session import Session

_TITLE_CELLS = 80


@click.command("fork")
@options.reference
@click.option("--at", metavar="CHECKPOINT", shell_complete=options.complete_checkpoints,
              help="The last turn that comes along.  [default: all do]")  # fmt: skip
@click.option("--title", metavar="TEXT", help="The title of the new session.  [default: the old one, marked]")
@click.option("--workdir", metavar="DIR", type=click.Path(exists=True, file_okay=False),
              help="The directory it works in, such as another worktree.  [default: the same]")  # fmt: skip
@options.dry_run
@options.as_json
def command(
    reference: str, at: str | None, title: str | None, workdir: str | None, *, dry_run: bool, as_json: bool
) -> None:
    """Begin a new session with the conversation and the checkpoints of this one, which stays as it is.

    Files of the project are not touched.
    """
    if title is not None:
        refuse_as_title(title)
    store, findings = options.store(), output.Findings()
    with store.open(options.find(store, reference), read_only=True) as session:
        findings.warn(session)
        if dry_run:
            _announce(session.plan_fork(at, title=title, workdir=workdir), as_json=as_json)
            return
        with session.fork(at, title=title, workdir=workdir) as fork, output.after(f"the fork {fork.id} was made"):
            _say(fork, as_json=as_json)


def _announce(plan: ForkPlan, *, as_json: bool) -> None:
    if as_json:
        said = {"id": None, "path": None, "title": plan.title, "messages": plan.messages}
        output.structured({**said, "workdir": plan.workdir, "dry_run": True})
        return
    where = f" in {visible_path(plan.workdir)}" if plan.workdir is not None else ""
    called = f", called {one_line(plan.title, _TITLE_CELLS)}" if plan.title is not None else ""
    output.text(f"would begin a session with {count(plan.messages, 'message')}{where}{called}")


def _say(fork: Session, *, as_json: bool) -> None:
    from sessions.transcript import reader  # noqa: PLC0415 - the help needs none

    messages, title = reader.count_messages(fork.path), fork.title
    if as_json:
        output.structured({"id": fork.id, "path": str(fork.path), "title": title, "messages": messages})
        return
    named = f" · {one_line(title, _TITLE_CELLS)}" if title is not None else ""
    output.lines([(("strong", fork.id), ("", named)), (("dim", f"  begins with {count(messages, 'message')}"),)])
