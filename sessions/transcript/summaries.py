"""What a list shows of a session, from the two ends of its file.

A list reads many files: of each end a few patterns are looked for, and only the lines they lie in are parsed.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sessions.transcript import blocks, codec, collapse, lines, scanning, titles, turns
from sessions.transcript.entry import Entry, Kind
from sessions.transcript.header import header_of
from sessions.transcript.outline import Header, Summary

SHORT_CHARACTERS = 200
HEAD_BYTES = 4 * 1024  # read at first of the start: most first prompts end there
END_BYTES = 8 * 1024  # and of the end of a long file: most last answers begin there
TOKENS_WINDOW_BYTES = 1 << 20  # how far back a message that reports its tokens is looked for
BLANK_BYTES = 1 << 20  # how far a prompt with a text is looked for behind one without
LONGEST_BYTES = 64 << 20  # a longer line at the start is not read whole, and so says nothing

_TITLE, _TOKENS, _ROLLBACK = b'"custom-title"', b'"total_tokens"', b'"rollback"'


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
    damaged: bool = False
    hidden: bool = False


def head(path: Path) -> Header | None:
    """Return the header, read from the start of the file up to its first message; None for a headerless file."""
    with lines.opened(path) as (descriptor, size):
        for offset, raw in lines.forward(descriptor, size, block=HEAD_BYTES, longest=LONGEST_BYTES):
            entry = codec.decode(raw)
            if entry.kind is Kind.HEADER:
                return header_of(entry, offset)
            if entry.kind is Kind.MESSAGE:
                break
    return None


def begins_session(path: Path) -> bool:
    """Tell whether a file begins as a session does: its first line is a message, or a header comes first of all.

    Lines that cannot be read may stand in front; a header says the session's directory, or when it began.

    Raises:
        OSError: The file cannot be read.
    """
    with lines.opened(path) as (descriptor, size):
        for offset, raw in lines.forward(descriptor, min(size, LONGEST_BYTES), block=HEAD_BYTES):
            entry = codec.decode(raw)
            if entry.kind is Kind.OPAQUE or entry.kind is Kind.TITLE:
                continue
            if entry.kind is Kind.HEADER:
                header = header_of(entry, offset)
                return header.workdir is not None or header.created_at is not None
            return entry.kind is Kind.MESSAGE
    return False


def summary(
    source: Path | int,
    *,
    status: os.stat_result | None = None,
    seeks_title: Callable[[], bool] = lambda: True,
    seeks_hidden: Callable[[], bool] = lambda: False,
    is_growing: Callable[[], bool] = lambda: False,
) -> Summary:
    """Return what a list shows of a session.

    Reads 4 KiB at the start and 8 KiB at the end, of a file of at most 64 KiB all, and more where what it needs is not
    there: up to the first prompt that has a text (1 MiB behind one that has none); back to a message that reports its
    tokens (1 MiB); back to a title (our writer keeps it in the last 64 KiB, others may not). Where a rollback
    event lies in what was read, or behind the message with the tokens, everything visible is looked at. Memory is
    bounded by the longest line that is needed.

    Args:
        source: The transcript, or a descriptor of it, which stays open.
        status: What the system says of it, where that is known.
        seeks_title: Asked, where no title lies in the last 8 KiB of a long file, whether one is to be searched.
        seeks_hidden: Asked whether a rollback event is to be searched in all of a long file.
        is_growing: Asked, where the last line is torn, whether somebody is appending it: then it is no damage.

    Raises:
        OSError: The file cannot be read. Damage inside it is no error.
    """
    if not isinstance(source, int):
        with lines.opened(source) as (descriptor, _):
            return summary(
                descriptor,
                status=status,
                seeks_title=seeks_title,
                seeks_hidden=seeks_hidden,
                is_growing=is_growing,
            )
    status, seen = os.fstat(source) if status is None else status, _Seen()
    _read_end(source, status.st_size, seen, seeks_title, seeks_hidden, is_growing=is_growing)
    start = _read_start(source, status.st_size, seen)
    if seen.hidden:
        start, seen.tokens = _visible_only(source, start)
    return Summary(
        header=start.header,
        created=(start.header and start.header.created_at) or start.timestamp,
        written=status.st_mtime,
        title=seen.title,
        first_prompt=start.first_prompt,
        first_summary=start.first_summary,
        total_tokens=seen.tokens,
        damaged=seen.damaged,
    )


def _read_end(
    descriptor: int,
    size: int,
    seen: _Seen,
    seeks_title: Callable[[], bool],
    seeks_hidden: Callable[[], bool],
    *,
    is_growing: Callable[[], bool],
) -> None:
    at, block, first = _end_of(descriptor, size, END_BYTES if size > titles.WINDOW_BYTES else size)
    last = _last_line(block, first)
    seen.title = last.title if last is not None else None
    seen.tokens = last.total_tokens if last is not None else None
    _look_in(block, first, seen)
    seeks = seen.title is None and bool(at) and seeks_title()
    if at and (seeks or seen.tokens is None):
        at, block, first = _end_of(descriptor, size, titles.WINDOW_BYTES)
        last = _last_line(block, first)
        _look_in(block, first, seen)
    if seeks and seen.title is None:
        found = scanning.last_title(descriptor, at + first)
        seen.title = None if found is None else found.text
    unseen = at + first  # what lies behind the message with the tokens and has not been looked at: up to the block
    if at and seen.tokens is None:
        unseen, seen.tokens = _tokens_before(descriptor, at + first)
    seen.hidden = block.rfind(_ROLLBACK) >= 0  # noticeably faster than from the front
    if at and not seen.hidden:
        seen.hidden = lines.find(descriptor, _ROLLBACK, 0 if seeks_hidden() else unseen, at + first) is not None
    if last is not None:
        unreadable = last.kind is Kind.OPAQUE and bool(last.raw.strip())
    else:
        unreadable = not block.rstrip().endswith(b"}") and bool(block.strip())
    seen.damaged = b"\0" in block or (unreadable and (block.endswith(b"\n") or not is_growing()))


def _end_of(descriptor: int, size: int, length: int) -> tuple[int, bytes, int]:
    """Return where the end of a file starts, its bytes, and where in these the first whole line does.

    The byte in front of it is read too: it tells whether a line starts with the end.
    """
    at = max(0, size - length - 1)
    block = lines.read(descriptor, at, size - at)
    return at, block, (block.find(b"\n") + 1 or len(block)) if at else 0


def _look_in(block: bytes, first: int, seen: _Seen) -> None:
    if seen.title is None:
        seen.title = _title_in(block, first)
    if seen.tokens is None:
        seen.tokens = _count_in(block, first)


def _last_line(block: bytes, first: int) -> Entry | None:
    """Return the last line, ended or not; None where it does not start in the block, or there is none."""
    start = block.rfind(b"\n", first, -1) + 1 or first
    return codec.peek(block[start:].removesuffix(b"\n")) if start < len(block) else None


def _title_in(block: bytes, first: int) -> str | None:
    for raw in _lines_with(_TITLE, block, first):
        if (title := codec.decode(raw).title) is not None:
            return title
    return None


def _lines_with(needle: bytes, block: bytes, first: int) -> Iterator[bytes]:
    """Yield the lines of a block, from the one at ``first`` on, that hold a pattern, the last first."""
    end = len(block)
    while (place := block.rfind(needle, first, end)) >= 0:
        start, behind = block.rfind(b"\n", first, place) + 1 or first, block.find(b"\n", place)
        yield block[start : behind if behind >= 0 else len(block)]
        end = start


def _count_in(block: bytes, first: int) -> int | None:
    """Return the last count of tokens that a line of a block reports."""
    for raw in _lines_with(_TOKENS, block, first):  # parsed again where the count may be a float: a huge integer
        if (count := codec.peek(raw).total_tokens) is not None or (count := codec.decode(raw).total_tokens) is not None:
            return count
    return None


def _tokens_before(descriptor: int, end: int) -> tuple[int, int | None]:
    """Return the last count of tokens in front of ``end``, and where its line starts; ``end`` where there is none."""
    at, least = end, max(0, end - TOKENS_WINDOW_BYTES)
    while (found := lines.find_last(descriptor, at, _TOKENS, least=least)) is not None:
        at, raw = found
        if (count := codec.decode(raw).total_tokens) is not None:
            return at, count
    return end, None


def _read_start(descriptor: int, size: int, seen: _Seen) -> _Head:
    start = _Head()
    for offset, raw in lines.forward(descriptor, size, block=HEAD_BYTES, longest=LONGEST_BYTES):
        entry = codec.peek(raw)
        kind = entry.kind
        if kind is Kind.MESSAGE:
            _take(entry, start)
            if start.first_prompt or (start.first_prompt is not None and offset > BLANK_BYTES):
                break
        elif kind is Kind.HEADER:
            start.header = start.header or header_of(entry, offset)
        elif kind is Kind.OPAQUE:
            is_last = offset + len(raw) == size  # and not ended: that is judged from the end
            seen.damaged = seen.damaged or (not is_last and bool(raw.strip()))
        elif kind is Kind.ROLLBACK:
            seen.hidden = True
    return start


def _take(entry: Entry, start: _Head) -> None:
    start.timestamp = start.timestamp or entry.timestamp
    if (text := turns.typed(entry)) is not None:
        start.first_prompt = text.lstrip()[:SHORT_CHARACTERS]  # of images alone, or blank: a later one stands for it
    elif entry.is_compact:
        start.first_summary = start.first_summary or blocks.summary_of(entry)[:SHORT_CHARACTERS]


def _visible_only(descriptor: int, start: _Head) -> tuple[_Head, int | None]:
    start = dataclasses.replace(start, first_prompt=None, first_summary=None)
    shown = collapse.messages(scanning.places_in(scanning.every_line(descriptor)))
    for place in shown:
        _take(scanning.entry_at(descriptor, place.offset, place.end), start)
        if start.first_prompt or (start.first_prompt is not None and place.offset > BLANK_BYTES):
            break
    tokens = (scanning.entry_at(descriptor, place.offset, place.end).total_tokens for place in shown[::-1])
    return start, next((count for count in tokens if count is not None), None)
