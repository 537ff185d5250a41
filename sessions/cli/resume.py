"""``sessions resume``."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from sessions import hosts
from sessions.belonging import Where
from sessions.cli import options, output, shell, whereabouts
from sessions.errors import AmbiguousError, LockedError, NotFoundError
from sessions.ownership import owner_of
from sessions.picker.text import one_line, visible, visible_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.cli.whereabouts import Whereabouts
    from sessions.listing import SessionInfo
    from sessions.store import SessionStore

_CANCELLED = 130


_KEYS = """\b
In the picker:
  letters  filter by title, id, branch and prompts
  Ctrl+A   all projects               Ctrl+W   all worktrees of this repository
  Space    look at the last messages (Tab while a filter is typed)
  Ctrl+R   rename                     Ctrl+D   delete; twice
  Enter    resume                     Esc      clear the filter, leave
"""


@click.command("resume", epilog=_KEYS)
@click.argument("reference", metavar="[ID]", required=False, shell_complete=options.complete_sessions)
@click.option("--continue", "latest", is_flag=True, help="The session of this directory that was touched last.")
@click.option("--all", "everywhere", is_flag=True, help="Choose among the sessions of all projects.")
@click.option("--worktrees", is_flag=True, help="Choose among those of all worktrees of this repository.")
@click.option("--search", metavar="TEXT", help="Choose among those that mention TEXT.")
@options.as_json
def command(
    reference: str | None, search: str | None, *, latest: bool, everywhere: bool, worktrees: bool, as_json: bool
) -> None:
    """Go on with a session. Without ID a picker opens; without a terminal they are listed.

    A session of this project, or of another worktree of the same repository, goes on here: the program set as
    ``command`` under ``[resume]`` in settings.toml is started in its directory; without one the end of the
    conversation is printed. Of a session of another project the command is printed, and copied where the terminal
    allows it, that goes on with it there.
    """
    choosing = everywhere or worktrees or search is not None
    if (reference is not None) + latest + choosing > 1:
        raise click.UsageError("give one of ID, --continue, and what to choose among (--all, --worktrees, --search)")
    if reference is None and not latest and (as_json or not options.on_terminal()):
        from sessions.cli import list as listing  # noqa: PLC0415 - only where no picker can open

        scope = listing.scope_of(everywhere=everywhere, worktrees=worktrees)
        listing.show(scope, search, as_json=as_json)
        return
    store = options.store()
    program = None if as_json else _program(store)
    if latest:
        home = whereabouts.of_path(store, _latest(store).path)
    elif reference is not None:
        home = _named(store, reference, as_json=as_json)
    else:
        home = _chosen(store, everywhere=everywhere, worktrees=worktrees, search=search or "")
    if as_json:
        output.structured(_as_json(home))
    elif not home.here:
        _send_elsewhere(home)
        store.resuming(home.row)
    elif program is not None:
        _hand_over(store, program, home)
    else:
        from sessions.cli.standing import show  # noqa: PLC0415 - only where it is shown

        show(store, home)
        store.resuming(home.row)


def _program(store: SessionStore) -> tuple[str, ...] | None:
    try:
        return hosts.resume_command(store.root)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _latest(store: SessionStore) -> SessionInfo:
    row = store.latest(os.curdir)
    if row is None:
        raise NotFoundError("session of this directory", "--continue", hint="'sessions resume --all' shows all")
    return row


def _named(store: SessionStore, reference: str, *, as_json: bool) -> Whereabouts:
    try:
        return whereabouts.of_path(store, store.find(reference))
    except AmbiguousError as error:
        if as_json or not options.on_terminal():
            raise options.described(store, reference, error) from None
        candidates = error.details["candidates"]
    assert isinstance(candidates, list)
    return _chosen(store, candidates=frozenset(candidates))


def _chosen(
    store: SessionStore,
    *,
    everywhere: bool = False,
    worktrees: bool = False,
    search: str = "",
    candidates: frozenset[str] | None = None,
) -> Whereabouts:
    from sessions.cli.shelf import choose  # noqa: PLC0415 - only where the picker opens

    last = choose(store, everywhere=everywhere, worktrees=worktrees, search=search, candidates=candidates)
    if last.outcome is not None:
        return whereabouts.of_path(store, last.outcome.path)
    if not last.changed:
        raise click.Abort
    output.text("no session was chosen; what was renamed or deleted stays so", error_stream=True)
    raise click.exceptions.Exit(_CANCELLED)


def _as_json(home: Whereabouts) -> dict[str, object]:
    return {
        "session": home.row.to_json(),
        "workdir": home.directory,
        "here": home.here,
        "gone": home.where is Where.GONE,
        "command": home.command,
    }


def _send_elsewhere(home: Whereabouts) -> None:
    """Print, and copy where that is possible, the command that goes on with a session where it belongs."""
    title = one_line(home.row.title or home.row.id, 60)
    directory = visible_path(home.directory) if home.directory is not None else ""
    match home.where:
        case Where.UNKNOWN:
            said = f"'{title}' does not say which directory it is of; change to that one first, then:"
        case Where.GONE:
            assert home.directory is not None
            made = visible(f"mkdir -p {shell.quoted(home.directory)}", keep="")
            fork = output.command("fork", home.row.id, "--workdir", ".", root=options.moving_root())
            said = (
                f"'{title}' is of a directory that is gone: {directory}. Make it again:  {made}\n"
                f"or, where the project was moved, go on from its new place:  {fork}\nThen, or all the same:"
            )
        case _:
            said = f"'{title}' is of another directory: {directory}"
    from sessions.cli.clipboard import copy  # noqa: PLC0415 - only where there is something to copy

    output.text(said, error_stream=True)
    output.text(home.command)
    if copy(home.command):
        output.lines(
            [(("dim", "It is in the clipboard too, if this terminal lets programs copy."),)], error_stream=True
        )


def _hand_over(store: SessionStore, program: tuple[str, ...], home: Whereabouts) -> NoReturn:
    """Become the program that goes on with a session, in the session's directory."""
    assert home.directory is not None
    if (owner := owner_of(home.row.path)) is not None:
        raise LockedError(home.row.id, *owner)
    store.resuming(home.row)
    words = hosts.filled(program, id=home.row.id, path=os.fspath(home.row.path), workdir=home.directory)
    os.chdir(home.directory)
    sys.stdout.flush()
    try:
        with _deaf_to_nothing():
            os.execvpe(words[0], words, {**os.environ, "SESSIONS_HOME": os.fspath(store.root), "PWD": home.directory})  # noqa: S606 - what the user set
    except OSError as error:
        raise click.ClickException(f"[resume] command: {words[0]} cannot be started: {error.strerror}") from None


@contextlib.contextmanager
def _deaf_to_nothing() -> Iterator[None]:
    """Let the signals end a program that Python ignores for itself: one that is started would ignore them too."""
    ignored = [each for each in (signal.SIGPIPE, signal.SIGXFSZ) if signal.getsignal(each) is signal.SIG_IGN]
    for each in ignored:
        signal.signal(each, signal.SIG_DFL)
    try:
        yield
    finally:
        for each in ignored:
            signal.signal(each, signal.SIG_IGN)
