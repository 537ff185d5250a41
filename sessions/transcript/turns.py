"""Prompts and API rounds: how a conversation falls into steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sessions.transcript import blocks
from sessions.transcript.entry import Entry, Kind


def is_prompt(entry: Entry) -> bool:
    """Tell whether a line is a prompt: a message the user typed, which one can go back to. It has an id."""
    return typed(entry) is not None


def typed(entry: Entry) -> str | None:
    """Return what the user typed, whole, where a line is a prompt: empty for images alone. None where it is none."""
    if entry.kind is not Kind.MESSAGE or entry.role != "user" or entry.id is None or entry.is_meta:
        return None
    return blocks.typed_text(entry)


def prompt_text(entry: Entry) -> str:
    """Return what the user typed, whole; empty for a prompt of images alone."""
    return blocks.text_of(entry)


def api_rounds(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Split messages into API rounds, in order, every message in exactly one.

    A user message opens a round, and the first assistant message stays in it; each further assistant id opens its
    own. A compact message is a round alone. Lines that are no messages are left out.
    """
    rounds: list[list[Entry]] = []
    answered_by: str | None = None
    answered = alone = True
    for entry in entries:
        if entry.kind is not Kind.MESSAGE:
            continue
        if entry.is_compact:
            rounds.append([entry])
            alone = answered = True
            answered_by = None
        elif entry.role == "user":
            rounds.append([entry])
            alone = answered = False
        elif alone or (answered and (entry.id is None or entry.id != answered_by)):
            rounds.append([entry])
            answered, answered_by, alone = True, entry.id, False
        else:
            rounds[-1].append(entry)
            answered, answered_by = True, entry.id
    return rounds
