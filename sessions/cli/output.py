"""Writes to stdout and stderr: text, JSON, warnings, errors and questions."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from sessions.cli import options
from sessions.picker.text import Line, plain, visible
from sessions.transcript import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sessions.rewind.plan import Gap
    from sessions.transcript.outline import Finding

_COLOURS = {
    "dim": "bright_black",
    "mark": "magenta",
    "add": "green",
    "remove": "red",
    "restore": "cyan",
    "warn": "yellow",
}
_BOLD = frozenset({"title", "strong", "warn"})


def lines(texts: Iterable[Line], *, error_stream: bool = False) -> None:
    """Print lines, in colour where that is a terminal and NO_COLOR is not set."""
    stream = sys.stderr if error_stream else sys.stdout
    coloured = stream.isatty() and not os.environ.get("NO_COLOR")
    for line in texts:
        shown = "".join(_styled(style, part) for style, part in line) if coloured else plain(line).rstrip()
        click.echo(shown, file=stream, color=coloured)


def text(said: str, *, error_stream: bool = False) -> None:
    """Print one line that is safe already."""
    lines([(("", said),)], error_stream=error_stream)


def structured(value: object) -> None:
    """Print ``value`` as one line of JSON in UTF-8, whatever strings it holds."""
    json_bytes(codec.dumps(value))


def json_bytes(raw: bytes) -> None:
    """Print a line of JSON that is encoded already."""
    sys.stdout.flush()
    sys.stdout.buffer.write(raw + b"\n")


def columns() -> int:
    """Return how wide a table may be: the terminal, else ``$COLUMNS``, else 100."""
    return max(shutil.get_terminal_size((100, 24)).columns, 20)


def warn(said: str) -> None:
    """Print a warning on stderr, on one line."""
    lines([(("warn", "warning: "), ("", visible(said, keep="")))], error_stream=True)


def warn_findings(findings: Sequence[Finding]) -> None:
    """Print what a session's findings say."""
    for finding in findings:
        warn(f"{finding.kind.replace('_', ' ')}: {finding.where}: {finding.action}")


def warn_gaps(gaps: Sequence[Gap]) -> None:
    """Print what was not captured."""
    from sessions.picker import words  # noqa: PLC0415 - most sessions have none

    for gap in gaps:
        warn(f"not captured, so it stays as it is: {plain(words.gap_line(gap)).strip()}")


def ask(question: str, *, error_stream: bool = False) -> None:
    """Ask for a yes.

    Raises:
        click.Abort: The answer was another one, or none.
    """
    click.confirm(question, default=False, abort=True, err=error_stream)


class TooLateError(Exception):
    """Ctrl-C arrived when the step was done already; the message says what was done."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong: the exit code, a word for programs, a message for people, and plain details."""

    exit_code: int
    word: str
    message: str
    details: Mapping[str, object] = field(default_factory=dict)


def failure(said: Failure, *, as_json: bool) -> int:
    """Print an error: one line on stderr and, for programs, an object on stdout. Return its exit code."""
    message = visible(said.message.replace("\n", " "), keep="")
    click.echo(f"sessions: {message}", err=True)
    if as_json:
        details = {key: _plain(value) for key, value in said.details.items() if value is not None}
        structured({"error": {**details, "code": said.word, "message": message}})
    return said.exit_code


def command(*words: str, root: Path | None = None) -> str:
    """Return a command line that can be pasted here, with the root this process was given or another one."""
    root = root or options.given_root()
    store = ("--root", str(root)) if root is not None else ()
    return visible(shlex.join((*_program(), *words, *store)), keep="")


def _styled(style: str, part: str) -> str:
    return click.style(part, fg=_COLOURS.get(style), bold=style in _BOLD or None) if style else part


def _program() -> tuple[str, ...]:
    if shutil.which("sessions") is not None:
        return ("sessions",)
    started_as = sys.argv[0]
    if os.path.basename(started_as) == "sessions" and os.access(started_as, os.X_OK):
        return (started_as,)
    return (sys.executable, "-m", "sessions")


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)
