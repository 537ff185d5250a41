"""What is printed of a session that is resumed where no program is set to go on with it. Nothing is changed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from sessions import clock
from sessions.belonging import Where
from sessions.cli import output
from sessions.picker import words
from sessions.picker.text import Line, one_line, visible, visible_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.cli.whereabouts import Whereabouts
    from sessions.store import SessionStore

_MESSAGES = 20  # of which as many are shown as fit
_AROUND = 10  # lines around them on a screen
_TITLE_CELLS = 200


def show(store: SessionStore, home: Whereabouts) -> None:
    """Print the end of the conversation, what of it is unfinished, and how one goes on."""
    from sessions.cli.excerpt import last_lines  # noqa: PLC0415 - only who reads messages pays for pydantic

    with store.open(home.row, read_only=True) as session:
        output.Findings().warn(session)
        messages = session.recent(_MESSAGES)
        room = max(shutil.get_terminal_size((100, 40)).lines - _AROUND, 12)
        output.lines([_head(home), (), *last_lines(messages, room)])
        output.lines(_unfinished(messages.repaired, is_owned=session.is_owned))
    output.lines(_how_on(home))


def _head(home: Whereabouts) -> Line:
    row = home.row
    said = [visible(row.id, keep=""), words.ago(row.last_active_at, clock.now())]
    said += [one_line(row.git_branch, 40)] if row.git_branch else []
    said += [f"fork of {visible(row.forked_from[:8], keep='')}"] if row.forked_from is not None else []
    if home.where is Where.WORKTREE and home.directory is not None:
        said.append(visible_path(home.directory))
    title = one_line(row.title or words.UNTITLED, _TITLE_CELLS)
    return ("title", title), ("dim", f" · {' · '.join(said)}")


def _unfinished(repaired: int, *, is_owned: bool) -> Iterator[Line]:
    if repaired:
        these = "a tool call" if repaired == 1 else f"tool calls in {repaired} messages"
        yield ("warn", "unfinished: "), ("", f"{these} never returned; the model sees that it failed")
    if is_owned:
        yield ("warn", "in use: "), ("", "a process has this session open")


def _how_on(home: Whereabouts) -> Iterator[Line]:
    yield (("dim", f'An agent goes on with it by  store.open("{visible(home.row.id, keep="")}")'),)
    yield (("dim", "To start yours from here, put two lines into settings.toml:"),)
    yield (("dim", "  [resume]"),)
    yield (("dim", '  command = ["my-agent", "{id}"]'),)
