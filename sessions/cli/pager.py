"""Long output goes through a pager: ``$PAGER``, else ``less``; without one it is just printed."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING

from sessions.cli import output
from sessions.picker.text import Line, plain, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_DEFAULT = "less -FRX"


def page(make_lines: Callable[[], Iterable[Line]], *, wanted: bool = True) -> None:
    """Print lines: as they come, through a pager where there are more than the screen holds.

    Args:
        make_lines: Called again where the pager turns out not to work.
        wanted: Whether a pager may be used.
    """
    lines = iter(make_lines())
    command = _command() if wanted and sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else []
    head: list[Line] = []
    if command and _overflows(lines, head):
        sys.stdout.flush()
        if _fed(command, chain(head, lines)):
            return
        head, lines = [], iter(make_lines())
    output.lines(chain(head, lines))


def _command() -> list[str]:
    given = os.environ.get("PAGER", _DEFAULT)
    try:
        words = shlex.split(given)
    except ValueError:
        return []
    return [] if words == ["cat"] else words


def _overflows(lines: Iterator[Line], head: list[Line]) -> bool:
    """Tell whether lines do not fit on the screen; moves those that were looked at to ``head``."""
    screen = shutil.get_terminal_size()
    rows = 0
    for line in lines:
        head.append(line)
        rows += max(-(-width(plain(line)) // screen.columns), 1)
        if rows >= screen.lines:
            return True
    return False


def _fed(command: list[str], lines: Iterable[Line]) -> bool:
    """Feed a pager until it ends or has all; False where it does not work."""
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ})
    except OSError:
        return False
    assert pager.stdin is not None
    with _interrupts_for_the_pager():
        try:
            for line in lines:
                pager.stdin.write(output.as_text(line, coloured=True).encode() + b"\n")
            pager.stdin.flush()
        except BrokenPipeError:  # its reader has seen enough, or it failed: its exit code tells
            pass
        finally:
            with suppress(BrokenPipeError):
                pager.stdin.close()
            code = pager.wait()
    return code <= 0


@contextmanager
def _interrupts_for_the_pager() -> Iterator[None]:
    """Leave Ctrl-C to the pager: it goes on reading keys, and so must not lose us."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
