"""Reads transcripts: whole, in part, from the end. Never changes a byte, needs no lock, and no damage stops it.

Every function opens the file itself, or is given it open, and works on the file as it was opened; a rewrite meanwhile
changes nothing for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sessions.transcript import blocks, codec, collapse, cut, lines, scanning, turns
from sessions.transcript.entry import Entry, Kind
from sessions.transcript.outline import Finding, Header, Outline, Prompt, Tail
from sessions.transcript.summaries import SHORT_CHARACTERS, begins_session, head, summary

__all__ = [
    "begins_session",
    "check",
    "count_messages",
    "has_snapshots",
    "head",
    "place_of",
    "prompt_texts",
    "read_end",
    "read_entries",
    "read_history",
    "read_prompt",
    "read_told",
    "read_view",
    "scan",
    "stream_view",
    "summary",
    "survey_tail",
    "torn_at",
    "torn_tail",
]

_PROMPT_CHARACTERS, _SESSION_CHARACTERS = 8 << 10, 1 << 20

Rule = Callable[[list[scanning.Place]], list[scanning.Place]]


def scan(path: Path, *, deep: bool = True) -> Outline:
    """Return what one streaming pass finds.

    Memory is proportional to the number of prompts, plus the longest line; with a rollback event in the file (or,
    deep, an ``after``) to the number of messages. A canonical assistant line is not parsed, and damage inside one not
    noticed.

    Args:
        path: The transcript.
        deep: Whether to look into assistant messages for compactions and file snapshots.
    """
    return scanning.scan(Path(path), deep=deep)


def read_entries(path: Path, start: int = 0, end: int | None = None) -> Iterator[tuple[int, Entry]]:
    """Yield the lines that start in ``[start, end)``, each with its offset. ``start`` is the start of a line.

    A last line without a newline is yielded only if it is a complete object.
    """
    for offset, _, entry in scanning.every_line(Path(path), start, end):
        yield offset, entry


def read_prompt(path: Path, prompt: Prompt) -> str:
    """Return the whole text of a prompt that a scan of the same file found."""
    if not prompt.truncated:
        return prompt.preview
    with lines.opened(path) as (descriptor, _):
        return turns.prompt_text(scanning.entry_at(descriptor, prompt.offset, prompt.end))


def prompt_texts(path: Path) -> list[str]:
    """Return the text of every visible prompt, in order, as far as a search looks into it.

    That are the first 8 192 characters of each. Of a session with more than 1 048 576 in them, those behind get their
    first 200 characters. It costs what `scan` does, and reading the lines of long prompts once more.

    Raises:
        OSError: The file cannot be read.
    """
    texts: list[str] = []
    room = _SESSION_CHARACTERS
    prompts = scan(path, deep=False).prompts
    with lines.opened(path) as (descriptor, _):
        for prompt in prompts:
            text = prompt.preview
            if room <= 0:
                text = text[:SHORT_CHARACTERS]
            elif prompt.truncated:
                entry = scanning.entry_at(descriptor, prompt.offset, prompt.end)
                text = turns.prompt_text(entry)[:_PROMPT_CHARACTERS] if entry.id == prompt.id else text
            texts.append(text)
            room -= len(text)
    return texts


def read_view(path: Path) -> list[Entry]:
    """Return the messages the model sees; see `collapse.model_view`.

    Reads from the end and only as far back as the last compaction. Where a rollback event or an ``after`` comes into
    it, the whole file is read, and of it only the messages of the view are kept.
    """
    return read_end(path, sys.maxsize)


def read_end(path: Path, count: int) -> list[Entry]:
    """Return the last messages the model sees, at most ``count`` of them, in order.

    Reads backward until it has them, so that the size of the file does not matter. Where a rollback event or an
    ``after`` comes into it, the whole file is read once, and only those messages are kept. A message whose first place
    lies further back stands at the first place it has in what was read.
    """
    if count < 1:
        return []
    behind: list[Entry] = []
    found: set[object] = set()
    compact: Entry | None = None
    with lines.opened(path) as (descriptor, size):
        for _, raw in lines.backward(descriptor, size):
            entry = codec.decode(raw)
            if entry.kind is Kind.ROLLBACK or (entry.is_compact and entry.after is not None):
                places = collapse.model_view(list(scanning.places_in(scanning.every_line(descriptor))))
                return [scanning.entry_at(descriptor, place.offset, place.end) for place in places[-count:]]
            if entry.kind is not Kind.MESSAGE:
                continue
            if entry.is_compact:
                compact = entry if compact is None else collapse.newer(entry, compact)
            elif compact is not None or (len(found) >= count and entry.id not in found):
                break
            else:
                behind.append(entry)
                found.add(object() if entry.id is None else entry.id)
    behind.extend([] if compact is None else [compact])
    behind.reverse()
    return collapse.once(behind)[-count:]


def stream_view(path: Path) -> Iterator[Entry]:
    """Yield what `read_view` returns, each message as it is asked for: for views too long to hold.

    Takes a pass over the whole file, and memory proportional to the number of messages.
    """
    return _visible(path, collapse.model_view)


def read_history(path: Path) -> Iterator[Entry]:
    """Yield every visible message; see `collapse.history`.

    Reads the file once for what is visible, which takes memory proportional to the number of messages, not their
    size; then each message as it is asked for.
    """
    return _visible(path, collapse.history)


def read_told(path: Path) -> Iterator[Entry]:
    """Yield every visible message once; see `collapse.told`. The cost is that of ``read_history``."""
    return _visible(path, collapse.told)


def count_messages(path: Path, end: int | None = None) -> int:
    """Return how many messages `read_history` yields, of those that start in front of a byte, a visible line's start.

    Parses every line; takes memory proportional to their number.
    """
    with lines.opened(path) as (descriptor, size):
        return len(
            collapse.history(scanning.places_in(scanning.every_line(descriptor, 0, size if end is None else end)))
        )


def check(path: Path) -> Iterator[Finding]:
    """Yield what is damaged, each line once. Unlike a scan this parses every line."""
    for offset, _, entry in scanning.every_line(path):
        if entry.kind is Kind.OPAQUE and entry.raw.strip():
            yield scanning.opaque_finding(entry.raw, offset)
    if (torn := torn_tail(path)) is not None:
        yield scanning.torn_finding(torn[1], torn[0])


def torn_tail(path: Path) -> tuple[int, bytes] | None:
    """Return the incomplete last line and its offset; None if the last line is ended or a complete object."""
    with lines.opened(path) as (descriptor, size):
        return torn_at(descriptor, size)


def torn_at(descriptor: int, size: int) -> tuple[int, bytes] | None:
    """Return what `torn_tail` does, for an open file."""
    offset, raw = lines.unterminated(descriptor, size)
    if not raw or codec.decode(raw).kind is not Kind.OPAQUE:
        return None
    return offset, raw


def survey_tail(path: Path, place: int, *, header: Header | None, notices: Container[str] = ()) -> Tail:
    """Return what a cut in front of byte ``place``, the start of a line, would remove.

    Streams over what lies behind the cut, and looks in front of it only if a compaction lies behind, for the originals
    of what it said again.

    Args:
        header: The transcript's first header line, wherever it lies: the only one that stays.
        notices: The ids of the notices of tasks that stay: they stay too, each once.
    """
    found = _Behind(notices, has_header=header is not None and header.offset < place)
    size = place
    for _, size, entry in scanning.every_line(Path(path), place):  # noqa: B007 - the last end is the size
        found.take(entry)
    originals = found.copies.intersection(scanning.message_ids(path, place)) if found.copies else set()
    kept = {key: raw for key, raw in found.kept.items() if key not in originals}
    return Tail(
        removed_messages=len((found.removed | found.copies - originals) - kept.keys()),
        kept=b"".join(kept.values()),
        notices=b"".join(raw for key, raw in kept.items() if isinstance(key, str)),
        size=max(size, path.stat().st_size),  # a torn last line counts
        tasks_started=tuple(found.started),
        tasks_ended=frozenset(found.ended),
    )


@dataclass(slots=True)
class _Behind:
    """What was met behind a cut; a transcript keeps one header, the first."""

    notices: Container[str]
    has_header: bool
    kept: dict[str | int, bytes] = field(default_factory=dict)  # a notice by its id, other lines by their number
    removed: set[str] = field(default_factory=set)
    copies: set[str] = field(default_factory=set)  # said behind a compact message, not seen behind the cut before it
    compacted: bool = False
    started: dict[str, None] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def take(self, entry: Entry) -> None:
        if cut.stays(entry, self.notices) and not (entry.kind is Kind.HEADER and self.has_header):
            self.has_header = self.has_header or entry.kind is Kind.HEADER
            key = entry.id if entry.kind is Kind.MESSAGE else None
            self.kept.setdefault(len(self.kept) if key is None else key, entry.raw + b"\n")
        if entry.kind is Kind.MESSAGE and entry.id is not None:
            self.compacted = self.compacted or entry.is_compact
            if entry.id not in self.removed and self.compacted and not entry.is_compact:
                self.copies.add(entry.id)
            else:
                self.removed.add(entry.id)
                self.started.update(dict.fromkeys(blocks.tasks_started(entry)))
            self.ended.update(blocks.tasks_ended(entry))


def _visible(path: Path, rule: Rule) -> Iterator[Entry]:
    with lines.opened(path) as (descriptor, _):
        for place in rule(list(scanning.places_in(scanning.every_line(descriptor)))):
            entry = scanning.entry_at(descriptor, place.offset, place.end)
            if entry.kind is Kind.MESSAGE:  # else somebody wrote over it meanwhile
                yield entry


def has_snapshots(path: Path, start: int) -> bool:
    """Tell whether another agent's file snapshots may lie behind byte ``start``; reads bytes, parses nothing."""
    with lines.opened(path) as (descriptor, size):
        return lines.find(descriptor, b'"file_history"', start, size) is not None


def place_of(source: Path | int, message_id: str, start: int = 0, end: int | None = None) -> int | None:
    """Return where the first line of a message starts, of those in ``[start, end)``; None where there is none.

    Reads bytes and parses only lines that hold the id: one that quotes it is not the message.

    Args:
        source: The transcript, or a descriptor of it, which stays open.
        end: The start of a line; None: all lines count.
    """
    needle = message_id.encode(errors="surrogatepass")
    with lines.opened(source) as (descriptor, size):
        end = size if end is None else end
        while (found := lines.find(descriptor, needle, start, end)) is not None:
            line, raw = lines.line_around(descriptor, found, end)
            entry = codec.decode(raw)
            if entry.kind is Kind.MESSAGE and entry.id == message_id:
                return line
            start = line + len(raw) + 1
    return None


def is_of_a_turn(entry: Entry) -> bool:
    """Tell whether a line belongs to a turn: a message or a rollback event does.

    Title, header and unknown lines and notices of tasks belong to the session.
    """
    return entry.kind is Kind.ROLLBACK or (entry.kind is Kind.MESSAGE and not blocks.is_notice(entry))
