"""``sessions check``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from sessions import catalog
from sessions.cli import options, output, render

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.store import SessionStore
    from sessions.upkeep import Checked

_FINDINGS_REMAIN = 4


@click.command("check")
@click.argument("reference", metavar="[ID]", required=False, shell_complete=options.complete_sessions)
@options.dry_run
@options.as_json
@click.pass_context
def command(context: click.Context, reference: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Look at every byte of a session, or of all; finish what a crash left half done.

    Damage is named and left as it is. Exits with 4 if something was found. What is wrong in settings.toml is a warning.
    """
    store = options.store()
    output.warn_settings(store.root)
    unread: list[OSError] = []
    chosen = options.find(store, reference) if reference is not None else None
    checked = _looked_at(store, chosen, unread) if dry_run else store.check(chosen, unread=unread)
    output.warn_unread(unread)
    recovered = any(each.recovered for each in checked)
    with output.after("what was half done was finished") if recovered else nullcontext():
        if as_json:
            output.structured([each.to_json() for each in checked])
        else:
            output.lines(render.check_lines(checked))
    if any(each.findings for each in checked):
        context.exit(_FINDINGS_REMAIN)


def _looked_at(store: SessionStore, given: Path | None, unread: list[OSError]) -> list[Checked]:
    from sessions.transcript.outline import Finding  # noqa: PLC0415 - as above
    from sessions.upkeep import Checked  # noqa: PLC0415 - the help needs none

    chosen = [given] if given is not None else catalog.transcripts(store.root, unread=unread)
    found = []
    for each in chosen:
        try:
            with store.open(each, read_only=True) as session:
                found.append(Checked(session.id, tuple(session.check())))
        except OSError as error:
            found.append(Checked(catalog.id_of(each), (Finding("not_checked", str(error), "left as it is"),)))
    return found
