"""The one module that reads the clock. Time is only ever shown or written down, never used to order anything.

But for what is kept a while only (sessions, rows of lists, notes), which asks how long ago a file was written.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime | None = None) -> str:
    """Return ``moment`` (default: now) as the transcript spells it: ISO 8601, milliseconds, ``Z``."""
    moment = (moment or now()).astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def parse(text: str) -> datetime | None:
    """Return the moment a timestamp names, in UTC; None if it is none. A time without a zone counts as UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def from_epoch(seconds: float) -> datetime:
    """Return the moment ``seconds`` after the epoch, in UTC; one beyond what a date can be is the nearest that can."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime(9999 if seconds > 0 else 1, 1, 1, tzinfo=UTC)


def epoch_ns() -> int:
    """Return nanoseconds since the epoch, comparable with a file's ``st_mtime_ns``."""
    return time.time_ns()
