"""``sessions list``."""

from __future__ import annotations

import click

from sessions import clock
from sessions.cli import options, output, render


@click.command("list")
@click.option("--all", "everywhere", is_flag=True, help="The sessions of all projects, not of this directory only.")
@click.option("--search", metavar="TEXT", help="Only those with TEXT in title, first prompt, branch or id.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N.")
@options.as_json
def command(search: str | None, limit: int | None, *, everywhere: bool, as_json: bool) -> None:
    """List the sessions of this project, the one touched last first.

    A line is: the beginning of the id, when it was last active, the git branch, the size of the model's context in
    tokens, and the title, else the beginning of the first prompt.
    """
    store = options.store()
    unread: list[OSError] = []
    rows = store.list(scope="all" if everywhere else "project", search=search, limit=limit, unread=unread)
    output.warn_unread(unread)
    if as_json:
        output.structured([row.to_json() for row in rows])
        return
    if not rows and not store.root.exists():
        output.text("no sessions yet", error_stream=True)
    elif not rows:
        hint = "" if everywhere else "; --all shows those of other directories"
        output.text(f"no sessions here{hint}" if not search else f"no session mentions that{hint}", error_stream=True)
    output.lines(render.session_table(rows, clock.now(), output.columns(), with_workdir=everywhere))
