"""``<root>/settings.toml``: limits a user may set. A missing file means the defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 32 * 1024 * 1024
RETAIN_TURNS = 100
RETAIN_REWINDS = 20
QUOTA_BYTES = 1024 * 1024 * 1024

GRACE_S = 2.0

_LONGEST_S = 3600
_FILE = "settings.toml"
_NAMES = {
    "checkpoints": ("max_file_bytes", "retain_turns", "retain_rewinds", "quota_bytes"),
    "tasks": ("grace_s",),
}


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
class Settings:
    """What may be set, with the defaults.

    Attributes:
        max_file_bytes: A larger file is not captured (``[checkpoints] max_file_bytes``).
        limits: What is kept.
        grace_s: How many seconds a task that is cancelled has to end by itself (``[tasks] grace_s``).
        damage: Why the file could not be used; None when it was fine or missing. Otherwise ``max_file_bytes`` has its
            default and nothing is limited: a file nobody can read is no order to remove anything.
        unknown: Names that mean nothing here, each with its table; all others count.
    """

    max_file_bytes: int = MAX_FILE_BYTES
    limits: Limits = Limits()
    grace_s: float = GRACE_S
    damage: str | None = None
    unknown: tuple[tuple[str, str], ...] = ()

    def troubles(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the file, and what follows from that, as phrases for people."""
        if self.damage is not None:
            largest = self.max_file_bytes // 1024**2
            yield self.damage, f"until it is mended nothing is limited, but files over {largest} MiB are not captured"
        if self.unknown:
            import difflib  # noqa: PLC0415 - nobody pays for it who makes no mistake
        for table, name in self.unknown:
            meant = difflib.get_close_matches(name, _NAMES[table], 1)
            yield (
                f"{_FILE}: [{table}] has no setting {name!r}",
                f"ignored{f'; is {meant[0]} meant?' if meant else ''}",
            )


def load(root: Path) -> Settings:
    """Read the settings of a store.

    Returns:
        The settings; a file that cannot be read, parsed or believed, be it in one number, says so in ``damage``: a
        damaged setting never makes anything shorter or smaller.
    """
    try:
        text = _read(root / _FILE)
        import tomllib  # noqa: PLC0415 - most stores have no such file

        said = tomllib.loads(text)
    except FileNotFoundError:
        return Settings()
    except RecursionError:
        return _damaged("it is nested too deeply")
    except (OSError, ValueError) as error:
        return _damaged(str(error))
    tables = {name: said.get(name, {}) for name in _NAMES}
    for name, table in tables.items():
        if not isinstance(table, dict):
            return _damaged(f"[{name}] is not a table")
    checkpoints = tables["checkpoints"]
    try:
        return Settings(
            _number(checkpoints, "max_file_bytes", MAX_FILE_BYTES, "bytes"),
            Limits(
                _number(checkpoints, "retain_turns", RETAIN_TURNS, "turns"),
                _number(checkpoints, "retain_rewinds", RETAIN_REWINDS, "rewinds"),
                _number(checkpoints, "quota_bytes", QUOTA_BYTES, "bytes"),
            ),
            _seconds(tables["tasks"], "grace_s", GRACE_S),
            unknown=tuple((table, name) for table in tables for name in tables[table] if name not in _NAMES[table]),
        )
    except ValueError as error:
        return _damaged(str(error))


def text_of(root: Path) -> str:
    """Return what the file says. Where there is none, or it cannot be read, an OSError or ValueError says so."""
    return _read(root / _FILE)


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


def _damaged(why: str) -> Settings:
    return Settings(limits=UNLIMITED, damage=f"{_FILE}: {why}")


def _read(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise OSError("it is not a file")  # a pipe would block
    return path.read_text(encoding="utf-8")
