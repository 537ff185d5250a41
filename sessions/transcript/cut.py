"""What stays of the part of a transcript behind a cut. Pure."""

from __future__ import annotations

from collections.abc import Container

from sessions.transcript.entry import Entry, Kind


def stays(entry: Entry, notices: Container[str]) -> bool:
    """Tell whether a line behind a cut stays, unless it is there already.

    Titles and the header do: they belong to the session, not to a turn. So do ``notices``, by their ids: what they tell
    of was begun in front, and nobody tells it again.
    """
    if entry.kind is Kind.MESSAGE:
        return entry.id is not None and entry.id in notices
    return entry.kind is Kind.HEADER or entry.kind is Kind.TITLE
