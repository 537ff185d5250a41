"""Options that several commands take, and what they mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from sessions.store import SessionStore

Command = TypeVar("Command", bound=Callable[..., object])
Decorator = Callable[[Command], Command]

_ROOT = "sessions.root"


def root(command: Command) -> Command:
    """Take ``--root DIR``, before or behind the name of the command."""
    return click.option(
        "--root",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_keep_root,
        help="Where sessions are kept.  [default: $SESSIONS_HOME, else the user's data directory]",
    )(command)


def as_json(command: Command) -> Command:
    """Take ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON; an error too.")(root(command))


def dry_run(command: Command) -> Command:
    """Take ``--dry-run``."""
    return click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing and ask nothing.")(
        command
    )


def yes(command: Command) -> Command:
    """Take ``--yes``."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)


def add_dirs(command: Command) -> Command:
    """Take ``--add-dir DIR``, any number of times."""
    return click.option(
        "--add-dir",
        "add_dirs",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        help="A directory besides the session's own whose files may be changed too.",
    )(command)


def files(command: Command) -> Command:
    """Take ``--file PATH``, any number of times."""
    return click.option("--file", "files", multiple=True, metavar="PATH", help="Only this file; not the conversation.")(
        command
    )


def reference(command: Command) -> Command:
    """Take the ``ID`` of a session."""
    return click.argument("reference", metavar="ID")(command)


def store() -> SessionStore:
    """Return the store under the root that was given, else the default one."""
    from sessions.store import SessionStore  # noqa: PLC0415 - the help needs none

    return SessionStore(given_root())


def given_root() -> Path | None:
    """Return what ``--root`` said; None if nothing."""
    given = click.get_current_context().find_root().meta.get(_ROOT)
    return given if isinstance(given, Path) else None


def on_terminal() -> bool:
    """Tell whether a picker can open: standard input and output are a terminal that can move its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def require_answer(*, yes: bool, dry_run: bool) -> None:
    """Refuse a command that would have to ask where nobody can answer.

    Raises:
        click.UsageError: There is no terminal, and neither ``--yes`` nor ``--dry-run``.
    """
    if not (yes or dry_run or sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask on: give --yes, or look first with --dry-run")


def _keep_root(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.find_root().meta[_ROOT] = value
