"""What a list shows of a session, from the two ends of its file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sessions import clock
from sessions.transcript import blocks, codec, collapse, lines, scanning, titles, turns
from sessions.transcript.entry import Entry, Kind
from sessions.transcript.header import header_of
from sessions.transcript.outline import Header, Summary

SHORT_CHARACTERS = 200
TOKENS_WINDOW_BYTES = 1 << 20  # how far back a message that reports its tokens is looked for
TITLE_WINDOW_BYTES = 32 << 20  # how far back a title is searched that its writer did not keep near the end


@dataclass(slots=True)
class _Head:
    header: Header | None = None
    timestamp: str | None = None  # of the first message
    first_prompt: str | None = None
    first_summary: str | None = None


@dataclass(slots=True)
class _Seen:
    """What was met on the way."""

    title: str | None = None
    tokens: int | None = None
    messages: int = 0
    damaged: bool = False
    hidden: bool = False


def head(path: Path) -> Header | None:
    """Return the header, read from the start of the file up to its first message; None for a headerless file."""
    for offset, _, entry in scanning.every_line(path, buffer=lines.FIRST_BLOCK):
        if entry.kind is Kind.HEADER:
            return header_of(entry, offset)
        if entry.kind is Kind.MESSAGE:
            break
    return None


def summary(path: Path) -> Summary:
    """Return what a list shows of a session.

    Parses 64 KiB at the end, or more up to a message that reports its tokens (at most 1 MiB and one line), and what
    lies in front of the first prompt. Our writer keeps the title in the last 64 KiB; for others' files, and where
    there is none, 32 MiB are searched. Where a rollback event lies in what was read, everything visible is looked at.

    Raises:
        OSError: The file cannot be read. Damage inside it is no error.
    """
    seen = _Seen()
    with lines.opened(path) as (descriptor, size):
        written = os.fstat(descriptor).st_mtime
        _read_end(descriptor, size, seen)
        if seen.title is None:
            found = scanning.last_title(descriptor, size, reach=TITLE_WINDOW_BYTES)
            seen.title = None if found is None else found.text
    start = _read_start(path, seen)
    if seen.hidden:
        start, seen.tokens = _visible_only(path, start)
    created = (start.header and start.header.created_at) or start.timestamp
    return Summary(
        header=start.header,
        created_at=_moment(created, written),
        title=seen.title,
        first_prompt=start.first_prompt,
        first_summary=start.first_summary,
        total_tokens=seen.tokens,
        damaged=seen.damaged,
    )


def _read_end(descriptor: int, size: int, seen: _Seen) -> None:
    for offset, raw in lines.backward(descriptor, size):
        read = size - offset
        if raw:
            _look_at_end(codec.decode(raw), seen)
        if read >= titles.WINDOW_BYTES and (seen.tokens is not None or (seen.messages and read >= TOKENS_WINDOW_BYTES)):
            return


def _look_at_end(entry: Entry, seen: _Seen) -> None:
    if entry.kind is Kind.OPAQUE:
        seen.damaged = seen.damaged or bool(entry.raw.strip())
    elif entry.kind is Kind.ROLLBACK:
        seen.hidden = True
    elif entry.kind is Kind.TITLE and seen.title is None:
        seen.title = entry.title
    elif entry.kind is Kind.MESSAGE:
        seen.messages += 1
        if seen.tokens is None:
            seen.tokens = entry.total_tokens


def _read_start(path: Path, seen: _Seen) -> _Head:
    start = _Head()
    for offset, _, entry in scanning.every_line(path, buffer=lines.FIRST_BLOCK):
        if entry.kind is Kind.OPAQUE:
            seen.damaged = seen.damaged or bool(entry.raw.strip())
        elif entry.kind is Kind.ROLLBACK:
            seen.hidden = True
        elif entry.kind is Kind.HEADER:
            start.header = start.header or header_of(entry, offset)
        elif entry.kind is Kind.MESSAGE:
            _take(entry, start)
            if start.first_prompt is not None:
                break
    return start


def _take(entry: Entry, start: _Head) -> None:
    start.timestamp = start.timestamp or entry.timestamp
    if entry.is_compact:
        start.first_summary = start.first_summary or blocks.summary_of(entry)[:SHORT_CHARACTERS]
    elif turns.is_prompt(entry):
        start.first_prompt = turns.prompt_text(entry)[:SHORT_CHARACTERS]


def _visible_only(path: Path, start: _Head) -> tuple[_Head, int | None]:
    start = dataclasses.replace(start, first_prompt=None, first_summary=None)
    with lines.opened(path) as (descriptor, _):
        shown = collapse.messages(scanning.places_in(scanning.every_line(descriptor)))
        for entry in _read(descriptor, shown):
            _take(entry, start)
            if start.first_prompt is not None:
                break
        tokens = (entry.total_tokens for entry in _read(descriptor, shown[::-1]))
        return start, next((count for count in tokens if count is not None), None)


def _read(descriptor: int, places: list[scanning.Place]) -> Iterator[Entry]:
    for place in places:
        yield codec.decode(lines.read(descriptor, place.offset, place.end - place.offset).removesuffix(b"\n"))


def _moment(text: str | None, written: float) -> datetime:
    return clock.parse(text or "") or clock.from_epoch(written)
