"""Prints a log as it grows."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import time
from typing import TYPE_CHECKING

from sessions.cli import output
from sessions.errors import RequestError
from sessions.picker.text import visible_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import FileIO
    from pathlib import Path

_PART_BYTES = 1 << 16
_LOOK_MS = 100
_IN_LINE = re.compile(r"([\n\t\r]|\x1b\[[0-9;:]{0,64}[mGK])")  # colours; to a column; erase in the line
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")


def follow(log: Path, is_running: Callable[[], bool]) -> None:
    """Print a log from its start until whoever writes it has ended. A part of it is in memory at a time.

    Into a pipe or a file go its bytes as they are. On a terminal colours stay, and what a progress bar needs to write
    its line anew; all else that would act on it is spelled out.

    Raises:
        RequestError: There is no such file any more.
        BrokenPipeError: Whoever reads the output has seen enough; noticed also while nothing is printed.
    """
    try:
        source = open(log, "rb", buffering=0)  # noqa: SIM115 - closed below; only the opening may find no file
    except FileNotFoundError:
        raise RequestError(f"the log is gone: {log}") from None
    printer = _Terminal() if sys.stdout.isatty() else _Bytes()
    try:
        with source:
            while True:
                goes_on = is_running()  # asked first: what was printed before the end is then read
                for part in _new_parts(source):
                    printer.show(part)
                if not goes_on:
                    break
                wait()
    finally:
        printer.end()


class _Bytes:
    """Prints bytes as they are."""

    def show(self, part: bytes) -> None:
        output.raw_bytes((part,))

    def end(self) -> None:
        """Leave the end as it is."""


class _Terminal:
    """Prints text, with its colours, and everything else so that it can be seen."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._begun = ""  # a sequence of which more is to come
        self._in_line = False
        self._styled = False

    def show(self, part: bytes) -> None:
        text = self._begun + self._decoder.decode(part)
        begun = _BEGUN.search(text)
        self._begun = begun.group() if begun is not None else ""
        self._write(text.removesuffix(self._begun))

    def end(self) -> None:
        """End the last line, and what it was styled with."""
        self._write(self._begun + self._decoder.decode(b"", final=True))
        self._begun = ""
        sys.stdout.write(("\x1b[0m" if self._styled else "") + ("\n" if self._in_line else ""))
        sys.stdout.flush()

    def _write(self, text: str) -> None:
        if text:
            text = _COLOUR.sub("", text) if os.environ.get("NO_COLOR") else text
            parts = _IN_LINE.split(text)  # between two of which is one that stays
            sys.stdout.write("".join(part if odd % 2 else visible_path(part) for odd, part in enumerate(parts)))
            sys.stdout.flush()
            self._in_line = not text.endswith("\n")
            self._styled = self._styled or "\x1b[" in text


def _new_parts(source: FileIO) -> Iterator[bytes]:
    if os.fstat(source.fileno()).st_size < source.tell():  # somebody emptied it
        source.seek(0)
    while part := source.read(_PART_BYTES):
        yield part


def wait() -> None:
    """Wait a tenth of a second between two looks at what grows, but not for a reader that has gone.

    Raises:
        BrokenPipeError: Whoever reads the output has seen enough.
    """
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    events = sum(event for _, event in poller.poll(_LOOK_MS))
    if events & (select.POLLERR | select.POLLHUP):
        raise BrokenPipeError
    if events:  # it cannot be asked
        time.sleep(_LOOK_MS / 1000)
