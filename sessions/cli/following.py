"""Prints a log as it grows."""

from __future__ import annotations

import codecs
import os
import select
import sys
import time
from typing import TYPE_CHECKING

from sessions.cli import output, render
from sessions.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import FileIO
    from pathlib import Path

_PART_BYTES = 1 << 16
_LOOK_MS = 100


def follow(log: Path, is_running: Callable[[], bool]) -> None:
    """Print a log from its start until whoever writes it has ended. A part of it is in memory at a time.

    Into a pipe or a file go its bytes as they are; on a terminal what would act on it is spelled out.

    Raises:
        RequestError: There is no such file any more.
        BrokenPipeError: Whoever reads the output has seen enough; noticed also while nothing is printed.
    """
    try:
        source = open(log, "rb", buffering=0)  # noqa: SIM115 - closed below; only the opening may find no file
    except FileNotFoundError:
        raise RequestError(f"the log is gone: {log}") from None
    printer = _Terminal() if sys.stdout.isatty() else _Bytes()
    with source:
        while True:
            goes_on = is_running()  # asked first: what was printed before the end is then read
            for part in _new_parts(source):
                printer.show(part)
            if not goes_on:
                break
            _wait()
    printer.end()


class _Bytes:
    """Prints bytes as they are."""

    def show(self, part: bytes) -> None:
        output.raw_bytes((part,))

    def end(self) -> None:
        """Leave the end as it is."""


class _Terminal:
    """Prints text, and everything else so that it can be seen."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._in_line = False

    def show(self, part: bytes) -> None:
        self._write(self._decoder.decode(part))

    def end(self) -> None:
        """End the last line."""
        self._write(self._decoder.decode(b"", final=True))
        if self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(render.task_log(text))
            sys.stdout.flush()
            self._in_line = not text.endswith("\n")


def _new_parts(source: FileIO) -> Iterator[bytes]:
    if os.fstat(source.fileno()).st_size < source.tell():  # somebody emptied it
        source.seek(0)
    while part := source.read(_PART_BYTES):
        yield part


def _wait() -> None:
    """Wait a moment, but not for a reader that has gone."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    events = sum(event for _, event in poller.poll(_LOOK_MS))
    if events & (select.POLLERR | select.POLLHUP):
        raise BrokenPipeError
    if events:  # it cannot be asked
        time.sleep(_LOOK_MS / 1000)
