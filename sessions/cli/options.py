"""Options that several commands take, and what they mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from sessions import clock, paths
from sessions.errors import AmbiguousError, RequestError
from sessions.picker.text import one_line
from sessions.picker.words import ago, away_text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sessions.rewind.plan import OnConflict, OnConflicts
    from sessions.session import Session
    from sessions.store import SessionStore

Command = TypeVar("Command", bound=Callable[..., object])

_ROOT = "sessions.root"
_POLICIES: dict[str, OnConflict] = {"overwrite": "overwrite", "keep": "keep", "refuse": "refuse"}
_FROM_HERE = "Inside the session's directory PATH is relative to where you are, elsewhere to that directory."
_TITLED = 8  # candidates an error names
_TITLE_CELLS = 40


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


def files(*, only: str) -> Callable[[Command], Command]:
    """Take ``--file PATH``, any number of times; ``only`` says what it restricts the command to."""
    return click.option("--file", "files", multiple=True, metavar="PATH", help=f"{only}. {_FROM_HERE}")


def from_here(session: Session, given: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return paths as the session takes them; None where none is given.

    Where the process is inside the session's directory they are relative to where it is, as in git.
    """
    return tuple(os.path.join(_here(session), path) for path in given) or None


def policies_from_here(session: Session, given: OnConflicts) -> OnConflicts:
    """Return what becomes of conflicts, with the paths as :func:`from_here` has them."""
    assert not isinstance(given, str)
    here = _here(session)
    return {path if path is None else os.path.join(here, path): policy for path, policy in given.items()}


def on_conflict(default: OnConflict, *, meaning: str) -> Callable[[Command], Command]:
    """Take ``--on-conflict POLICY``, and ``--on-conflict POLICY=PATH`` any number of times."""

    def parsed(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> OnConflicts:
        return _policies(given, default)

    return click.option(
        "--on-conflict",
        multiple=True,
        metavar="POLICY[=PATH]",
        callback=parsed,
        shell_complete=lambda _, __, incomplete: [each for each in _POLICIES if each.startswith(incomplete)],
        help=f"{meaning} POLICY is {', '.join(_POLICIES)}; with =PATH it holds for that path and what lies below."
        f" {_FROM_HERE}"
        f"  [default: {default}]",
    )


def reference(command: Command) -> Command:
    """Take the ``ID`` of a session."""
    return click.argument("reference", metavar="ID", shell_complete=complete_sessions)(command)


def complete_sessions(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer a shell the sessions there are."""
    from sessions.cli import completing  # noqa: PLC0415 - only a shell asks

    return completing.sessions_for(context, incomplete)


def complete_checkpoints(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer a shell the prompts one can go back to."""
    from sessions.cli import completing  # noqa: PLC0415 - likewise

    return completing.checkpoints_for(context, incomplete)


def complete_tasks(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer a shell the background tasks of a session."""
    from sessions.cli import completing  # noqa: PLC0415 - likewise

    return completing.tasks_for(context, incomplete)


def store() -> SessionStore:
    """Return the store under the root that was given, else the default one, which may not exist yet.

    Raises:
        RequestError: The root that was given, by ``--root`` or ``$SESSIONS_HOME``, is no directory.
        OSError: It is one that cannot be read.
    """
    from sessions.store import SessionStore  # noqa: PLC0415 - the help needs none

    store = SessionStore(given_root(), retention=False)  # a command does what it is told, and no more
    try:
        os.scandir(store.root).close()
    except FileNotFoundError:
        if given_root() is not None or os.environ.get("SESSIONS_HOME"):
            raise RequestError(f"there is no directory {store.root} to keep sessions in") from None
        return store
    except NotADirectoryError:
        raise RequestError(f"{store.root} is not a directory, so no sessions are kept there") from None
    with suppress(FileNotFoundError):
        os.scandir(store.root / "projects").close()
    return store


def find(store: SessionStore, reference: str) -> Path:
    """Return the transcript of the session a reference names.

    Raises:
        NotFoundError: There is none.
        AmbiguousError: There are several; the message names each with its title.
    """
    try:
        return store.find(reference)
    except AmbiguousError as error:
        raise described(store, reference, error) from None


def described(store: SessionStore, reference: str, error: AmbiguousError) -> AmbiguousError:
    """Return the error of a reference that names several sessions, so that it says what tells them apart."""
    candidates = error.details["candidates"]
    assert isinstance(candidates, list)
    named = [*(_described(store, each, reference) for each in candidates[:_TITLED]), *candidates[_TITLED:]]
    said = AmbiguousError("session", reference, named)
    said.details["candidates"] = candidates
    return said


def _described(store: SessionStore, session_id: str, reference: str) -> str:
    """Return an id with the title, unless that was asked for, the directory, unless it is this one, and the age."""
    from sessions import listing  # noqa: PLC0415 - for an error only

    row = listing.row_of(store.find(session_id))
    said = [
        one_line(row.title, _TITLE_CELLS) if row.title and row.title != reference else "",
        "" if row.workdir == paths.current() else away_text(row),
        ago(row.last_active_at, clock.now()),
    ]
    return f"{session_id} ({', '.join(filter(None, said))})"


def given_root() -> Path | None:
    """Return what ``--root`` said; None if nothing."""
    given = click.get_current_context().find_root().meta.get(_ROOT)
    return given if isinstance(given, Path) else None


def moving_root() -> Path | None:
    """Return the root a command has to name that is meant for another directory; None where it is found from there."""
    said = os.environ.get("SESSIONS_HOME", "")
    return given_root() or (Path(said) if said and not os.path.isabs(os.path.expanduser(said)) else None)


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


def _here(session: Session) -> str:
    """Return the current directory where it is inside the session's, else nothing: paths are relative to the latter."""
    try:
        workdir, here = session.workdir, os.path.realpath(os.curdir)
    except FileNotFoundError:  # it was removed under us
        return ""
    inside = workdir is not None and os.path.join(os.path.realpath(workdir), "")
    return here if inside and os.path.join(here, "").startswith(inside) else ""


def _policies(given: tuple[str, ...], default: OnConflict) -> OnConflicts:
    policies: dict[str | None, OnConflict] = {}
    for said in given:
        word, named, path = said.partition("=")
        policy = _POLICIES.get(word)
        if policy is None:
            raise click.BadParameter(f"{word!r} is not one of {', '.join(_POLICIES)}")
        if named and not path:
            raise click.BadParameter(f"{said!r} names no path")
        if (path or None) in policies:
            raise click.BadParameter(f"it is given twice for {path}" if path else "it is given twice")
        policies[path or None] = policy
    return {None: default, **policies}


def _keep_root(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        # A shell that asks for completions hands over the words as they were typed.
        context.find_root().meta[_ROOT] = value.expanduser() if context.resilient_parsing else value
