"""``<root>/settings.toml``: limits a user may set. A missing file means the defaults."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be set, with the defaults.

    Attributes:
        max_file_bytes: A larger file is not captured (``[checkpoints] max_file_bytes``).
        damage: Why the file could not be used; the defaults hold then. None when it was fine or missing.
    """

    max_file_bytes: int = MAX_FILE_BYTES
    damage: str | None = None


def load(root: Path) -> Settings:
    """Read the settings of a store.

    Returns:
        The settings; a file that cannot be read, parsed or believed yields the defaults and says so in ``damage``: a
        damaged setting never makes anything shorter or smaller.
    """
    try:
        said = tomllib.loads(_read(root / "settings.toml"))
    except FileNotFoundError:
        return Settings()
    except RecursionError:
        return Settings(damage="settings.toml: it is nested too deeply")
    except (OSError, ValueError) as error:
        return Settings(damage=f"settings.toml: {error}")
    checkpoints = said.get("checkpoints", {})
    if not isinstance(checkpoints, dict):
        return Settings(damage="settings.toml: [checkpoints] is not a table")
    limit = checkpoints.get("max_file_bytes", MAX_FILE_BYTES)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        return Settings(damage=f"settings.toml: max_file_bytes is {limit!r}, not a number of bytes")
    return Settings(max_file_bytes=limit)


def _read(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise OSError("it is not a file")  # a pipe would block
    return path.read_text(encoding="utf-8")
