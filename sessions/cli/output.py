"""Writes to stdout and stderr: text, JSON, warnings, errors and questions."""

from __future__ import annotations

import os
import re
import sys
import termios
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from sessions import paths
from sessions.cli import options
from sessions.picker.text import Line, plain, visible, visible_path
from sessions.transcript import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sessions.rewind.plan import Gap
    from sessions.session import Session
    from sessions.transcript.outline import Finding

_COLOURS = {
    "dim": "bright_black",
    "mark": "magenta",
    "add": "green",
    "remove": "red",
    "restore": "cyan",
    "warn": "yellow",
}
# Every escape of a JSON text, so that the "u" behind an escaped backslash is none: a pair, a lone half, any other.
_LONE_OR_NOT = (  # compiled at its first use
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
_DIGITS = 6  # nothing is so wide
_BOLD = frozenset({"title", "strong", "warn"})


def lines(texts: Iterable[Line], *, error_stream: bool = False) -> None:
    """Print lines, in colour where that is a terminal and NO_COLOR is not set."""
    stream = sys.stderr if error_stream else sys.stdout
    for line in texts:
        stream.write(as_text(line, coloured=stream.isatty()) + "\n")
    stream.flush()


def as_text(line: Line, *, coloured: bool) -> str:
    """Return a line as it is printed; in colour only where NO_COLOR is not set."""
    if coloured and not os.environ.get("NO_COLOR"):
        return "".join(_styled(style, part) for style, part in line)
    return plain(line).rstrip()


def text(said: str, *, error_stream: bool = False) -> None:
    """Print one line that is safe already."""
    lines([(("", said),)], error_stream=error_stream)


def structured(value: object) -> None:
    """Print ``value`` as one line of JSON in UTF-8, whatever strings it holds; see :func:`json_bytes`."""
    json_bytes(codec.dumps(value))


def json_bytes(raw: bytes) -> None:
    """Print a line of JSON that is encoded already.

    A lone surrogate is printed as U+FFFD: an escape for one is legal JSON, but jq and others reject the whole document.
    The transcript keeps what it holds; a file name that is not UTF-8 is in JSON as near as it can be.
    """
    raw_bytes((legal(raw), b"\n"))


def array(values: Iterable[object]) -> None:
    """Print a JSON array element by element, one a line, as they come; nothing before the first is there."""
    elements = (encoded(value) for value in values)
    first = next(elements, None)
    raw_bytes((b"[", first or b""))
    raw_bytes(b",\n" + each for each in elements)
    raw_bytes((b"]\n",))


def encoded(value: object) -> bytes:
    """Return ``value`` as JSON, for those who print it in parts; see :func:`json_bytes`."""
    return legal(codec.dumps(value))


def raw_bytes(chunks: Iterable[bytes]) -> None:
    """Print bytes as they are, as they come."""
    sys.stdout.flush()
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.flush()


def columns() -> int:
    """Return how wide a table may be: the terminal, else ``$COLUMNS``, else 100."""
    try:
        shown = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        shown = 0
    # The terminal goes first: $COLUMNS may be that of another one, and what is wider than this one wraps.
    said = os.environ.get("COLUMNS", "")
    return max(shown or (int(said) if said.isdecimal() and len(said) < _DIGITS else 0) or 100, 20)


def wrapping() -> int | None:
    """Return the width to wrap lines to: the terminal's; None where no terminal reads along."""
    return columns() if sys.stdout.isatty() else None


def warn(said: str) -> None:
    """Print a warning on stderr, on one line."""
    lines([(("warn", "warning: "), ("", visible(said, keep="")))], error_stream=True)


class Findings:
    """Prints what a session's findings say as warnings, each once, however often it is asked to."""

    def __init__(self) -> None:
        self._said: set[Finding] = set()

    def warn(self, session: Session, *, but: str = "") -> None:
        """Print those that were not printed yet, without those of the kind ``but``."""
        for finding in session.findings:
            if finding not in self._said and finding.kind != but:
                self._said.add(finding)
                warn(f"{finding.kind.replace('_', ' ')}: {finding.where}: {finding.action}")


def warn_unread(errors: Iterable[OSError]) -> None:
    """Print which transcripts, and directories of them, are left out because they cannot be read."""
    for error in errors:
        warn(f"cannot be read, so it is left out: {visible_path(str(error.filename))}: {error.strerror}")


def warn_settings(root: Path) -> None:
    """Print what is wrong with the settings of a store, and what follows from that."""
    from sessions import settings  # noqa: PLC0415 - most commands open a session, which says it

    for what, so in settings.load(root).troubles():
        warn(f"settings: {what}: {so}")


def warn_gaps(gaps: Iterable[Gap], *, so: str = "it stays as it is") -> None:
    """Print what was not captured, and what follows from that."""
    from sessions.picker import verdicts  # noqa: PLC0415 - most sessions have none

    for line in verdicts.gap_lines(gaps):
        warn(f"not captured, so {so}: {plain(line).strip()}")


def ask(question: str, *, error_stream: bool = False) -> None:
    """Ask for a yes; what was typed before the question stood there is no answer to it.

    Raises:
        click.Abort: The answer was another one, or none.
    """
    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    click.confirm(question, default=False, abort=True, err=error_stream)


class TooLateError(Exception):
    """Ctrl-C arrived when the step was done already; the message says what was done."""


class UnsaidError(OSError):
    """Something was done, but what was done could not be printed; the message says both."""


@contextmanager
def after(deed: str) -> Iterator[None]:
    """Print in this what was done; ``deed`` is a sentence that says so, should printing fail.

    Raises:
        UnsaidError: It cannot be printed.
        TooLateError: Ctrl-C came meanwhile.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnsaidError(f"{deed}, but that could not be printed: {error.strerror or error}") from error
    except KeyboardInterrupt:
        raise TooLateError(f"{deed} before Ctrl-C could stop it") from None


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong: the exit code, a word for programs, a message for people, and plain details."""

    exit_code: int
    word: str
    message: str
    details: Mapping[str, object] = field(default_factory=dict)


def failure(said: Failure, *, as_json: bool) -> int:
    """Print an error: one line on stderr and, for programs, an object on stdout. Return its exit code.

    Where one of the two cannot be written, the other is; the exit code says the rest.
    """
    message = visible(said.message.replace("\n", " "), keep="")
    with suppress(OSError):
        click.echo(f"sessions: {message}", err=True)
    if as_json:
        details = {key: _plain(value) for key, value in said.details.items() if value is not None}
        with suppress(OSError):
            structured({"error": {**details, "code": said.word, "message": message}})
    return said.exit_code


def command(
    name: str, session: str, *more: str, root: Path | None = None, directory: str | os.PathLike[str] | None = None
) -> str:
    """Return a command line about a session that can be pasted, with the root this process was given or another one.

    Args:
        name: The command.
        session: What names the session.
        more: Further options.
        root: Where it is kept, if not where a command that is pasted here finds it.
        directory: Where the command is to run; None: where it is pasted.
    """
    from sessions.cli import shell  # noqa: PLC0415 - few commands name another

    kept = root or (options.given_root() if directory is None else options.moving_root())
    options_ = (*more, *(("--root", str(paths.absolute(kept))) if kept is not None else ()))
    named = (*options_, "--", session) if session.startswith("-") else (session, *options_)
    return shell.in_directory(None if directory is None else os.fspath(directory), (*program(), name, *named))


def add_dir_words(add_dirs: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command that is to touch the same directories, wherever it is pasted."""
    return tuple(word for each in add_dirs for word in ("--add-dir", str(paths.absolute(each))))


def legal(raw: bytes) -> bytes:
    """Return JSON without escapes of lone surrogates, each of which becomes U+FFFD; see :func:`json_bytes`."""
    return re.sub(_LONE_OR_NOT, _replaced, raw) if b"\\ud" in raw.lower() else raw


def _replaced(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape["lone"] else escape[0]


def _styled(style: str, part: str) -> str:
    return click.style(part, fg=_COLOURS.get(style), bold=style in _BOLD or None) if style else part


def program() -> tuple[str, ...]:
    """Return the words that start this command line, as it can be started from anywhere."""
    import shutil  # noqa: PLC0415 - likewise

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
