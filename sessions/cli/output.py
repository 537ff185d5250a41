"""Writes to stdout and stderr: text, JSON, warnings, errors and questions."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from sessions.cli import options
from sessions.picker.text import Line, plain, visible
from sessions.transcript import codec

if TYPE_CHECKING:
    from sessions.rewind.plan import Gap
    from sessions.transcript.outline import Finding

_STYLES: dict[str, dict[str, object]] = {
    "title": {"bold": True},
    "strong": {"bold": True},
    "dim": {"fg": "bright_black"},
    "mark": {"fg": "magenta"},
    "add": {"fg": "green"},
    "remove": {"fg": "red"},
    "restore": {"fg": "cyan"},
    "warn": {"fg": "yellow", "bold": True},
}


def lines(texts: Iterable[Line], *, error_stream: bool = False) -> None:
    """Print lines, in colour where that is a terminal and NO_COLOR is not set."""
    stream = sys.stderr if error_stream else sys.stdout
    coloured = stream.isatty() and not os.environ.get("NO_COLOR")
    for line in texts:
        text = "".join(click.style(part, **_STYLES.get(style, {})) for style, part in line) if coloured else plain(line)  # type: ignore[arg-type]
        click.echo(text.rstrip() if not coloured else text, file=stream, color=coloured)


def text(said: str, *, error_stream: bool = False) -> None:
    """Print one line that is safe already."""
    lines([(("", said),)], error_stream=error_stream)


def json(value: object) -> None:
    """Print ``value`` as one line of JSON in UTF-8, whatever strings it holds."""
    json_bytes(codec.dumps(value))


def json_bytes(raw: bytes) -> None:
    """Print a line of JSON that is encoded already."""
    sys.stdout.flush()
    click.get_binary_stream("stdout").write(raw + b"\n")


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


def failure(
    code: int, word: str, message: str, details: Mapping[str, object] | None = None, *, as_json: bool
) -> int:
    """Print an error: one line on stderr and, for programs, an object on stdout. Return ``code``."""
    message = visible(" ".join(message.split("\n")), keep="")
    click.echo(f"sessions: {message}", err=True)
    if as_json:
        plain_details = {key: _plain(value) for key, value in (details or {}).items() if value is not None}
        json({"error": {"code": word, "message": message, **plain_details}})
    return code


def command(*words: str) -> str:
    """Return a command line that can be pasted, with the root this process was given."""
    given = options.given_root()
    root = ("--root", str(given)) if given is not None else ()
    return pasteable(("sessions", *words, *root))


def pasteable(words: Sequence[str]) -> str:
    """Return ``words`` quoted for a shell, on one line."""
    return visible(shlex.join(words), keep="")


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)
