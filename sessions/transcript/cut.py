"""Where a rewind cuts a transcript, and what stays of the part behind. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from sessions.errors import NotFoundError
from sessions.transcript import collapse
from sessions.transcript.entry import Entry, Kind


@dataclass(frozen=True, slots=True)
class Cut:
    """A transcript in two: ``kept`` and ``dropped``, each in file order, together every line once."""

    kept: tuple[Entry, ...]
    dropped: tuple[Entry, ...]


def cut_before(entries: Sequence[Entry], target: str, *, notices: Container[str] = ()) -> Cut:
    """Split a transcript in front of the first visible message with id ``target``.

    Args:
        notices: The ids of the notices of tasks that stay.

    Returns:
        Everything in front of it is kept, whatever it is. Of what lies behind, the titles are kept, and the header if
        none is in front: they belong to the session, not to a turn. So are those notices, each once: what they tell of
        was begun in front, and nobody tells it again.

    Raises:
        NotFoundError: No visible message has that id.
    """
    first = next(
        (entry for entry in collapse.visible(entries) if entry.kind is Kind.MESSAGE and entry.id == target), None
    )
    if first is None:
        raise NotFoundError("message", target)
    place = next(i for i, entry in enumerate(entries) if entry is first)
    kept, dropped = list(entries[:place]), list[Entry]()
    for entry in entries[place:]:
        (kept if stays(entry, notices) and not _is_said(entry, kept) else dropped).append(entry)
    return Cut(tuple(kept), tuple(dropped))


def stays(entry: Entry, notices: Container[str]) -> bool:
    """Tell whether a line behind a cut stays, unless it is there already."""
    if entry.kind is Kind.MESSAGE:
        return entry.id is not None and entry.id in notices
    return entry.kind is Kind.HEADER or entry.kind is Kind.TITLE


def _is_said(entry: Entry, kept: Sequence[Entry]) -> bool:
    return entry.kind is not Kind.TITLE and any((other.kind, other.id) == (entry.kind, entry.id) for other in kept)
