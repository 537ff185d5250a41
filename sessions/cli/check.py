"""``sessions check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sessions.cli import options, output, render

if TYPE_CHECKING:
    from sessions.store import Checked, SessionStore

_FINDINGS_REMAIN = 4


@click.command("check")
@click.argument("reference", metavar="[ID]", required=False)
@options.dry_run
@options.as_json
@click.pass_context
def command(context: click.Context, reference: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Look at every byte of a session, or of all; finish what a crash left half done.

    Damage is named and left as it is. Exits with 4 if something was found.
    """
    store = options.store()
    checked = _looked_at(store, reference) if dry_run else store.check(reference)
    if as_json:
        output.structured([each.to_json() for each in checked])
    else:
        output.lines(render.check_lines(checked))
    if any(each.findings for each in checked):
        context.exit(_FINDINGS_REMAIN)


def _looked_at(store: SessionStore, reference: str | None) -> list[Checked]:
    from sessions.store import Checked  # noqa: PLC0415 - the help needs none

    chosen = [reference] if reference is not None else [row.id for row in store.list(scope="all")]
    found = []
    for each in chosen:
        with store.open(each, read_only=True) as session:
            found.append(Checked(session.id, tuple(session.check())))
    return found
