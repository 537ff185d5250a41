"""Prints the hits of a full-text search as they are found."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from sessions import clock
from sessions.cli import output, render
from sessions.picker.text import clip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.grepping import Hit
    from sessions.listing import SessionInfo
    from sessions.store import SessionStore

_PATIENCE_S, _PACE_S = 1.0, 0.1


def show(
    store: SessionStore, rows: Sequence[SessionInfo], text: str, *, limit: int | None, here: str | None, as_json: bool
) -> bool:
    """Search sessions one after another and print each hit when it is found. Tell whether there was one.

    Args:
        store: Where they are.
        rows: The sessions, in the order to search them.
        text: What is searched.
        limit: Print at most so many sessions.
        here: As `render.session_lines` takes it.
        as_json: Print an array of rows with their hits.

    Raises:
        KeyboardInterrupt: Ctrl-C; what was printed stays.
    """
    found = _search(store, rows, text, limit)
    return _show_json(found) if as_json else _show_lines(rows, found, here)


def _show_lines(rows: Sequence[SessionInfo], found: Iterator[tuple[SessionInfo, Hit]], here: str | None) -> bool:
    columns, wrapping = output.columns(), output.wrapping()
    drawn = zip(rows, render.session_lines(rows, clock.now(), columns, here=here, path_columns=wrapping), strict=True)
    last = None
    for row, hit in found:
        if row is not last:
            output.lines(next(lines for each, lines in drawn if each is row))
            last = row
        output.lines([render.hit_line(hit, wrapping)])
    return last is not None


def _show_json(found: Iterator[tuple[SessionInfo, Hit]]) -> bool:
    last = None
    for row, hit in found:
        if row is last:
            before = b","
        else:
            begun = output.encoded(row.to_json()).removesuffix(b"}") + b',"hits":['
            before = (b"[" if last is None else b"]},\n") + begun
        output.raw_bytes((before + output.encoded(hit.to_json()),))
        last = row
    output.raw_bytes((b"[]\n" if last is None else b"]}]\n",))
    return last is not None


def _search(
    store: SessionStore, rows: Sequence[SessionInfo], text: str, limit: int | None
) -> Iterator[tuple[SessionInfo, Hit]]:
    """Yield hits, each with its session. A session that cannot be read is warned of."""
    progress = _Progress(len(rows))
    unread: list[OSError] = []

    def looking(done: int) -> None:
        if unread:
            progress.erase()
            output.warn_unread(unread)
            unread.clear()
        progress.show(done)

    try:
        for row, hits in store.grep(text, limit=limit, rows=rows, looking=looking, unread=unread):
            for hit in hits:
                progress.erase()
                yield row, hit
    finally:
        progress.erase()
        output.warn_unread(unread)


class _Progress:
    """A line on stderr that says how far it is, where a terminal shows it and somebody has waited for a while."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._wanted = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next = time.monotonic() + _PATIENCE_S
        self._shown = False

    def show(self, done: int) -> None:
        """Write the line anew, if it is time to."""
        if not self._wanted or (now := time.monotonic()) < self._next:
            return
        self._next, self._shown = now + _PACE_S, True
        said = clip(f"searched {done} of {self._total} sessions", output.columns() - 1)
        sys.stderr.write(f"\r\x1b[K{said}")
        sys.stderr.flush()

    def erase(self) -> None:
        """Leave nothing of the line."""
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
