"""Hiding the end of a transcript without removing it: a rollback event is appended, and nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sessions.transcript import codec, lines, titles
from sessions.transcript.entry import Entry, Kind
from sessions.transcript.outline import Title


def rollback_line(message_id: str, *, index: int) -> bytes:
    """Return the event that hides everything from the first visible line of a prompt on, without a newline.

    Args:
        message_id: The prompt's.
        index: Its checkpoint index, from 1.
    """
    return codec.dumps({"type": "rollback", "throughTurnId": index, "reason": "rewind", "messageId": message_id})


def hiding(path: Path, event: bytes, title: Title | None, *, shown: bytes = b"") -> tuple[int, bytes]:
    """Return what ends a transcript with ``event``, ``shown`` and its title: how much stays, and what follows.

    A last line without a newline is ended; one that is torn makes place, like one that a writer sets aside.

    Args:
        shown: The lines that are to be seen in spite of the event, each with its newline: they are said once more.
    """
    with lines.opened(path) as (descriptor, size):
        keep, unended = lines.unterminated(descriptor, size)
    tail = event + b"\n"
    if unended and codec.decode(unended).kind is not Kind.OPAQUE:
        tail = unended + b"\n" + tail
    tail += shown
    if title is not None and titles.falls_out(title, keep + len(tail)):
        tail += title.raw + b"\n"
    return keep, tail


def without_event(entries: Sequence[Entry], message_id: str) -> list[Entry]:
    """Return lines without the first event that hides what begins with that id."""
    place = next((place for place, entry in enumerate(entries) if entry.hides_from == message_id), len(entries))
    return [*entries[:place], *entries[place + 1 :]]
