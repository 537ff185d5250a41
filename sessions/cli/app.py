"""The command group, and the one place where errors become a line on stderr and an exit code.

====  =========================================================================
exit  meaning
====  =========================================================================
0     done, also with warnings and with files skipped by policy
1     a bug
2     the command was not given what it needs
3     no such thing, ambiguous, nothing to undo
4     damaged so that the command cannot do its job; ``check`` leaves findings
5     conflict, locked, busy, stale
6     stopped half-way; ``sessions check`` finishes it
7     the operating system refused; nothing was changed unless it says so
130   cancelled
====  =========================================================================
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, TextIO, cast

import click

from sessions.cli import options, output
from sessions.errors import SessionsError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "list": "List the sessions of this project, the one touched last first.",
    "resume": "Go on with a session; without an ID choose one.",
    "show": "Print the messages of a session.",
    "export": "Write a conversation as Markdown, HTML or JSON.",
    "checkpoints": "List the prompts one can go back to.",
    "diff": "Show what the agent did to files.",
    "tasks": "List background tasks, stop them, or follow what they print.",
    "rewind": "Go back to a prompt: conversation and files together.",
    "undo": "Take back the last rewind.",
    "compact": "Let a summary stand for the conversation so far.",
    "fork": "Begin a new session with the conversation of this one.",
    "title": "Print or change the title of a session.",
    "delete": "Delete a session and all that belongs to it.",
    "prune": "Remove what is beyond the limits: snapshots, undo records, old sessions.",
    "check": "Look for damage; finish what a crash left half done.",
    "completion": "Print what makes a shell complete these commands.",
    "demo": "Make a small project with a session, and rewind it.",
}
BUG, USAGE, SYSTEM, CANCELLED = 1, 2, 7, 130
_COMPLETE = "_SESSIONS_COMPLETE"  # set by the scripts that ``sessions completion`` prints


class _LateCommands(click.Group):
    """Loads the module of a command when it is run; the help of the group loads none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"sessions.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LateCommands, invoke_without_command=True)
@options.root
@click.version_option(package_name="sessions")
@click.pass_context
def group(context: click.Context) -> None:
    """Keep the sessions of coding agents, and go back: conversation and files together.

    ID is the id of a session, the beginning of one, or its exact title.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code. Never raises, and prints a traceback only when SESSIONS_DEBUG is set."""
    _open_streams()
    if (asked := os.environ.get(_COMPLETE)) is not None:
        return _complete(asked)
    try:
        return _finish(_run(list(arguments)))
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def _run(arguments: list[str]) -> int:
    try:
        with group.make_context("sessions", arguments) as context:
            group.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort has to take everything
        return output.failure(_said(error), as_json="--json" in arguments)
    return 0


def _complete(asked: str) -> int:
    """Answer a shell that asks what may come next, instead of running a command."""
    from sessions.cli import completing  # noqa: PLC0415 - only a shell asks

    said = completing.answer(group, asked)
    if said:
        click.echo(said.encode(errors="backslashreplace"))
    return 0 if said is not None else BUG


def _said(error: BaseException) -> output.Failure:
    match error:
        case click.Abort():
            return output.Failure(CANCELLED, "cancelled", "cancelled; nothing was changed")
        case KeyboardInterrupt() | output.TooLateError():
            return output.Failure(CANCELLED, "cancelled", str(error) or "interrupted")
        case click.ClickException():
            return output.Failure(USAGE, "usage", _usage(error))
        case SessionsError():
            return output.Failure(error.exit_code, error.code, error.message, error.details)
        case OSError():
            return output.Failure(SYSTEM, "os_error", _system(error), {"errno": errno.errorcode.get(error.errno or 0)})
    if os.environ.get("SESSIONS_DEBUG"):
        import traceback  # noqa: PLC0415 - nobody else pays for it

        traceback.print_exception(error)
    return output.Failure(BUG, "bug", f"this is a bug: {type(error).__name__}: {error}; SESSIONS_DEBUG=1 shows where")


def _finish(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:  # was reported already, or is the second error
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return code or SYSTEM
    return code


def _open_streams() -> None:
    """Make the standard streams usable: one that was closed is nothing, and any character can be written."""
    sys.stdin = sys.stdin or _nothing("r")
    sys.stdout = sys.stdout or _nothing("w")
    sys.stderr = sys.stderr or _nothing("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")


def _nothing(mode: str) -> TextIO:
    # The lowest free descriptor is the one that was closed: no file of ours can become standard output.
    return cast("TextIO", open(os.devnull, mode, encoding="utf-8"))


def _usage(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return error.format_message()
    said = error.format_message().rstrip(".")
    return f"{said}; see '{context.command_path} --help'"


def _system(error: OSError) -> str:
    what = error.strerror or str(error)
    named = error.filename if error.filename is not None else error.filename2
    return what if named is None else f"{what}: {os.fsdecode(named) if not isinstance(named, int) else named}"
