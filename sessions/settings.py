"""``<root>/settings.toml``: limits a user may set. A missing file means the defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MAX_FILE_BYTES = 32 * 1024 * 1024
RETAIN_TURNS = 100
RETAIN_REWINDS = 20
QUOTA_BYTES = 1024 * 1024 * 1024

GRACE_S = 2.0

DAY_S = 24 * 60 * 60

_LONGEST_S = 3600
_LONGEST_DAYS = 1_000_000
_ALIKE = 0.8  # of names that are meant for one another; "extensions" and "retention" are not
_FILE = "settings.toml"
_NAMES = {
    "checkpoints": ("max_file_bytes", "retain_turns", "retain_rewinds", "quota_bytes"),
    "tasks": ("grace_s",),
    "retention": ("cleanup_period_days", "max_count", "min_retention"),
}
_TABLES = (*_NAMES, "resume")  # what stands in the last is checked by `sessions.hosts`
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([smhdw])", re.ASCII)
_UNITS_S = {"s": 1, "m": 60, "h": 60 * 60, "d": DAY_S, "w": 7 * DAY_S}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one session may keep beside its transcript. A limit of 0 is none: nothing is ever pruned for it.

    Attributes:
        retain_turns: Snapshots of the last so many turns are kept (``[checkpoints] retain_turns``).
        retain_rewinds: So many rewinds can be taken back (``retain_rewinds``).
        quota_bytes: What snapshots and undo records may take on disk together (``quota_bytes``).
    """

    retain_turns: int = RETAIN_TURNS
    retain_rewinds: int = RETAIN_REWINDS
    quota_bytes: int = QUOTA_BYTES


UNLIMITED = Limits(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long sessions are kept. Off until set: then no session ever goes by itself.

    Attributes:
        cleanup_period_s: One that was not written for longer goes (``[retention] cleanup_period_days``); 0: none does.
        max_count: So many stay of a project, those written last (``max_count``); 0: all do. Of a project, not of the
            store: a busy project would push out the only session of a quiet one.
        min_retention_s: One written within this time never goes, whatever the others say (``min_retention``).
        conflict: What in the table contradicts itself or means nothing, and what follows; then nothing goes: of two
            orders that cannot both be meant, neither is one to remove anything.
    """

    cleanup_period_s: float = 0
    max_count: int = 0
    min_retention_s: float = DAY_S
    conflict: tuple[str, str] | None = None

    @property
    def is_on(self) -> bool:
        """Whether a session may go."""
        return self.conflict is None and (self.cleanup_period_s > 0 or self.max_count > 0)


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be set, with the defaults.

    Attributes:
        max_file_bytes: A larger file is not captured (``[checkpoints] max_file_bytes``).
        limits: What is kept.
        grace_s: How many seconds a task that is cancelled has to end by itself (``[tasks] grace_s``).
        retention: How long sessions are kept (``[retention]``).
        damage: Why the file could not be used; None when it was fine or missing. Otherwise ``max_file_bytes`` has its
            default, nothing is limited and no session goes: a file nobody can read is no order to remove anything.
        unknown: Names that mean nothing here, each with its table; all others count.
        astray: Names outside every table, and of tables there are not, each with what is said of it.
    """

    max_file_bytes: int = MAX_FILE_BYTES
    limits: Limits = Limits()
    grace_s: float = GRACE_S
    retention: Retention = Retention()
    damage: str | None = None
    unknown: tuple[tuple[str, str], ...] = ()
    astray: tuple[tuple[str, str], ...] = ()

    def troubles(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the file, and what follows from that, as phrases for people."""
        if self.damage is not None:
            largest = self.max_file_bytes // 1024**2
            yield self.damage, f"until it is mended nothing is limited, but files over {largest} MiB are not captured"
        if self.retention.conflict is not None:
            yield self.retention.conflict
        yield from (each for each in self.astray if each != self.retention.conflict)
        for table, name in self.unknown:
            yield _unknown(table, name, "ignored")


def load(root: Path) -> Settings:
    """Read the settings of a store.

    Returns:
        The settings; a file that cannot be read, parsed or believed, be it in one number, says so in ``damage``: a
        damaged setting never makes anything shorter or smaller.
    """
    try:
        said = read(root)
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError) as error:
        return _damaged(str(error))
    tables = {name: said.get(name, {}) for name in _NAMES}
    for name, table in tables.items():
        if not isinstance(table, dict):
            return _damaged(f"[{name}] is not a table")
    checkpoints = tables["checkpoints"]
    astray = {name: _astray(name, value) for name, value in said.items() if name not in _TABLES}
    try:
        return Settings(
            _number(checkpoints, "max_file_bytes", MAX_FILE_BYTES, "bytes"),
            Limits(
                _number(checkpoints, "retain_turns", RETAIN_TURNS, "turns"),
                _number(checkpoints, "retain_rewinds", RETAIN_REWINDS, "rewinds"),
                _number(checkpoints, "quota_bytes", QUOTA_BYTES, "bytes"),
            ),
            _seconds(tables["tasks"], "grace_s", GRACE_S),
            _retention(
                tables["retention"], next((astray[name] for name in astray if _meant(name) == "retention"), None)
            ),
            unknown=tuple(
                (table, name)
                for table in tables
                for name in tables[table]
                if name not in _NAMES[table] and table != "retention"
            ),
            astray=tuple(astray.values()),
        )
    except ValueError as error:
        return _damaged(str(error))


def read(root: Path) -> dict[str, Any]:
    """Return what the file says, all tables, unchecked.

    Raises:
        FileNotFoundError: There is none.
        OSError, ValueError: It cannot be read or parsed; the message says why.
    """
    text = _text(root / _FILE)
    import tomllib  # noqa: PLC0415 - most stores have no such file

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _number(table: dict[str, object], name: str, default: int, unit: str) -> int:
    number = table.get(name, default)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{name} is {number!r}, not a number of {unit}")
    return number


def _seconds(table: dict[str, object], name: str, default: float) -> float:
    number = table.get(name, default)
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= _LONGEST_S:
        raise ValueError(f"{name} is {number!r}, not a number of seconds")
    return float(number)


def _retention(table: dict[str, object], astray: tuple[str, str] | None) -> Retention:
    longest, shortest = _days(table, "cleanup_period_days", 0), _span(table, "min_retention", DAY_S)
    kept = Retention(longest, _number(table, "max_count", 0, "sessions"), shortest)
    if astray is not None:  # it may hold what was to keep more
        return replace(kept, conflict=astray)
    for name in table:
        if name not in _NAMES["retention"]:  # it may be the one that was to keep more
            return replace(kept, conflict=_unknown("retention", name, "no session is removed until it is mended"))
    if 0 < longest < shortest:
        given, floor = table["cleanup_period_days"], table.get("min_retention", "1d, the default")
        said = f"{_FILE}: [retention] cleanup_period_days is {given}, shorter than min_retention ({floor})"
        return replace(kept, conflict=(said, "no session is removed until one of them is changed"))
    return kept


def _days(table: dict[str, object], name: str, default_s: float) -> float:
    number = table.get(name, default_s / DAY_S)
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= _LONGEST_DAYS:
        raise ValueError(f"{name} is {number!r}, not a number of days")
    return float(number * DAY_S)


def _span(table: dict[str, object], name: str, default_s: float) -> float:
    said = table.get(name)
    if not isinstance(said, str):
        return _days(table, name, default_s)
    match = _SPAN.fullmatch(said)
    seconds = float(match[1]) * _UNITS_S[match[2]] if match is not None else math.inf
    if seconds > _LONGEST_DAYS * DAY_S:
        raise ValueError(f"{name} is {said!r}, not a time such as '12h', '7d' or a number of days")
    return seconds


def _unknown(table: str, name: str, so: str) -> tuple[str, str]:
    """Say that there is no such setting, and what follows."""
    import difflib  # noqa: PLC0415 - nobody pays for it who makes no mistake

    meant = difflib.get_close_matches(name, _NAMES[table], 1)
    return f"{_FILE}: [{table}] has no setting {name!r}", f"{so}{f'; is {meant[0]} meant?' if meant else ''}"


def _astray(name: str, value: object) -> tuple[str, str]:
    """Say that a table means nothing here, or that a name stands in none, and what follows."""
    is_table = isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))
    what = f"there is no table [{name}]" if is_table else f"{name!r} stands in no table"
    meant = _meant(name)
    so = "no session is removed until it is mended" if meant == "retention" else "ignored"
    return f"{_FILE}: {what}", f"{so}{f'; is [{meant}] meant?' if meant else ''}"


def _meant(name: str) -> str | None:
    """Return the table that is probably meant by a name that is none: it is like it, or like a setting in it."""
    import difflib  # noqa: PLC0415 - nobody pays for it who makes no mistake

    homes = {table: table for table in _TABLES}
    homes |= {setting: table for table, settings in _NAMES.items() for setting in settings}
    like = difflib.get_close_matches(name.casefold(), homes, 1, _ALIKE)
    return homes[like[0]] if like else None


def _damaged(why: str) -> Settings:
    return Settings(limits=UNLIMITED, damage=f"{_FILE}: {why}")


def _text(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise OSError("it is not a file")  # a pipe would block
    return path.read_text(encoding="utf-8")
