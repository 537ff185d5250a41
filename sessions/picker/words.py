"""Small phrases: how a count, a moment, a duration, an author read. The same in the picker and on the command line.

Pure. Every text from outside passes through ``picker.text`` here, so what these functions return is safe to show.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sessions.picker.text import Fragment, Line, visible, visible_path

if TYPE_CHECKING:
    from sessions.listing import SessionInfo

UNTITLED = "(untitled)"
"""What stands for the title of a session that has none, and no prompt or summary that could be one."""

_CHILD_ID = re.compile(r"(?<=subagent-)([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AGES = ((60, 1, "s"), (3600, 60, "m"), (86_400, 3600, "h"), (14 * 86_400, 86_400, "d"), (90 * 86_400, 7 * 86_400, "w"))


def count(number: int, noun: str) -> str:
    """Return ``1 file``, ``3 files``, ``3 processes``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{ending}"


def tokens(number: int | None) -> str:
    """Return ``812``, ``12.3k`` or ``1.2M``; a dash where nobody knows."""
    if number is None:
        return "-"
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"


def size(number: int) -> str:
    """Return how many bytes: ``1 byte``, ``812 bytes``, ``12.3 KiB``, ``1.0 GiB``."""
    if number < 1024:
        return count(number, "byte")
    scaled, unit = number / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if scaled < 1023.95:  # what is more would read 1024.0
            break
        scaled, unit = scaled / 1024, larger
    return f"{scaled:.1f} {unit}"


def relative(moment: datetime | None, now: datetime) -> str:
    """Return how long ago ``moment`` was, in at most ten cells: ``now``, ``5m``, ``3h``, ``2d``, ``6w``, or a date.

    A moment in the future, from a clock that was wrong, is a date too; None is empty.
    """
    if moment is None:
        return ""
    age_s = int((now - moment).total_seconds())
    if -60 < age_s < 10:
        return "now"
    for limit_s, unit_s, unit in _AGES:
        if 0 <= age_s < limit_s:
            return f"{age_s // unit_s}{unit}"
    return exactly(moment)[:10]


def lasted(seconds: float | None) -> str:
    """Return how long something took, in at most seven cells below 100 days: ``0.4s``, ``42s``, ``5m 07s``, ``2h 30m``.

    None, where nobody knows, is a dash.
    """
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{int(seconds * 10) / 10}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600:02}h"


def short_author(author: str) -> str:
    """Return the id of a session or a task as it is shown, which is enough to name it; anything else as it is."""
    return visible(_CHILD_ID.sub(r"\1", author), keep="")


def run_label(run: str) -> str:
    """Return how a run is named in front of its turns."""
    return f"▸ run {visible(run, keep='')}"


def ago(moment: datetime | None, now: datetime) -> str:
    """Return :func:`relative` as a phrase: ``5m ago``."""
    age = relative(moment, now)
    return f"{age} ago" if age[-1:].isalpha() and age != "now" else age


def exactly(moment: datetime | None) -> str:
    """Return ``moment`` in full, in UTC, or a dash."""
    return "-" if moment is None else f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')}Z"


def changed_lines(insertions: int | None, deletions: int | None) -> Line:
    """Return ``+12 -4`` with a style each and without a zero side; empty when nothing changed or nobody knows."""
    parts: list[Fragment] = []
    if insertions:
        parts.append(("add", f"+{insertions}"))
    if deletions:
        parts += [("", " "), ("remove", f"-{deletions}")] if parts else [("remove", f"-{deletions}")]
    return tuple(parts)


def away_text(row: SessionInfo) -> str:
    """Return how the directory of a session is shown; of one whose file does not say it: what its project is called."""
    return visible_path(row.workdir) if row.workdir is not None else f"{visible_path(row.project)} (no directory)"
