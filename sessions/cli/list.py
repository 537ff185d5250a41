"""``sessions list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sessions import clock, paths
from sessions.cli import options, output, render

if TYPE_CHECKING:
    from sessions.overview import ListScope


@click.command("list")
@click.option("--all", "everywhere", is_flag=True, help="The sessions of all projects, not of this directory only.")
@click.option("--worktrees", is_flag=True, help="Those of all worktrees of this repository; --all wins.")
@click.option(
    "--search",
    metavar="TEXT",
    help="Only those with each word of TEXT in title, id, branch or any prompt (its first 8192 characters), the best"
    " first. Slips of the fingers are forgiven.",
)
@click.option(
    "--grep",
    "text",
    metavar="TEXT",
    help="Only those with TEXT anywhere in their messages, also those a rewind hides or a compaction replaced, and the"
    " lines it stands in, as they are found. In any case, unless TEXT has a capital letter. Not in what images hold.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N.")
@click.option("--children", is_flag=True, help="Also the sessions of subagents, below the one they belong to.")
@options.as_json
def command(
    search: str | None,
    text: str | None,
    limit: int | None,
    *,
    everywhere: bool,
    worktrees: bool,
    children: bool,
    as_json: bool,
) -> None:
    """List the sessions of this project, the one touched last first.

    A line is: the beginning of the id, when it was last active, the git branch, the size of the model's context in
    tokens, and the title, else the beginning of the first prompt. In a narrow terminal branch, tokens and time make
    place for the title. Below it stands the directory of a session of another project.
    """
    if text == "":
        raise click.BadParameter("an empty text stands everywhere", param_hint="--grep")
    show(scope_of(everywhere=everywhere, worktrees=worktrees), search, text, limit, children=children, as_json=as_json)


def scope_of(*, everywhere: bool, worktrees: bool) -> ListScope:
    """Return what two options mean together: all projects win."""
    return "all" if everywhere else "worktrees" if worktrees else "project"


def show(
    scope: ListScope,
    search: str | None,
    text: str | None = None,
    limit: int | None = None,
    *,
    children: bool = False,
    as_json: bool,
) -> None:
    """Print the sessions of a scope.

    Args:
        search: Only those with each word of it in title, id, branch or prompts, the best first.
        text: Only those that hold it, and where it stands in them.
        limit: At most so many.
        children: Also the sessions of subagents.
        as_json: Whether as JSON.
    """
    store = options.store()
    unread: list[OSError] = []
    rows = store.list(
        scope=scope, search=search, limit=limit if text is None else None, children=children, unread=unread
    )
    output.warn_unread(unread)
    here = None if scope == "project" else paths.current() or ""  # removed under us: every session is elsewhere
    if text is not None:
        from sessions.cli import hits  # noqa: PLC0415 - most lists show none

        found = hits.show(store, rows, text, limit=limit, here=here, as_json=as_json)
    elif as_json:
        output.structured([row.to_json() for row in rows])
        found = bool(rows)
    else:
        width = output.columns()
        output.lines(render.session_table(rows, clock.now(), width, here=here, path_columns=output.wrapping()))
        found = bool(rows)
    if not found and not as_json:
        _say_nothing(begun=store.root.exists(), searched=bool(search or text), scope=scope)


def _say_nothing(*, begun: bool, searched: bool, scope: ListScope) -> None:
    hint = {
        "project": "; --worktrees shows those of this repository, --all those of other directories",
        "worktrees": "; --all shows those of other directories",
        "all": "",
    }[scope]
    said = f"no session mentions that{hint}" if searched else f"no sessions here{hint}" if begun else "no sessions yet"
    output.text(said, error_stream=True)
