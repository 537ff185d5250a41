"""The numbers in the names of a sidecar: that of a turn, and that of a snapshot in it. Pure.

Names come from directories and records, so they may be anything: what is not written as we write it has no number.
"""

from __future__ import annotations

_MOST_DIGITS = 18


def turn_number(name: str) -> int | None:
    """Return the number of the turn whose directory has this name."""
    return int(name) if _is_number(name) and str(int(name)) == name else None


def turn_in(path: str) -> int | None:
    """Return the number of the turn whose snapshot lies at a path of the sidecar; None for a path of anything else."""
    match path.split("/"):
        case ["turns", turn, "files", _]:
            return turn_number(turn)
        case _:
            return None


def snapshot_number(name: str) -> int | None:
    """Return the number of a snapshot, ``NNNN.before`` or ``NNNN.after``."""
    number = name.partition(".")[0]
    return int(number) if _is_number(number) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
