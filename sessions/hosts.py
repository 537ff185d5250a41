"""The program that goes on with a session: ``[resume] command`` in ``<root>/settings.toml``.

A list of words, such as ``["my-agent", "--session", "{id}"]``. No shell comes into it.
"""

from __future__ import annotations

import re
from pathlib import Path

from sessions import settings

_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_PLACEHOLDERS = ("id", "path", "workdir")
_WHERE = "settings.toml: [resume]"


def resume_command(root: Path) -> tuple[str, ...] | None:
    """Return the program that is set, for ``filled``; None where none is.

    Raises:
        ValueError: The file, or this setting, cannot be used; the message says why, and no program is to be run.
    """
    try:
        table = settings.read(root).get("resume", {})
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(f"settings.toml: {error}") from error
    if not isinstance(table, dict):
        raise ValueError(f"{_WHERE} is not a table")
    if unknown := [name for name in table if name != "command"]:
        raise ValueError(f"{_WHERE} has no setting {unknown[0]!r}, only 'command'")
    return _checked(table["command"]) if "command" in table else None


def filled(command: tuple[str, ...], **values: str) -> list[str]:
    """Return a command with its placeholders replaced; what a value holds is never one itself."""
    return [_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in command]


def _checked(command: object) -> tuple[str, ...]:
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise ValueError(f'{_WHERE} command is not a list of words, such as ["my-agent", "{{id}}"]')
    if not command[0] or any("\0" in word for word in command):
        raise ValueError(f"{_WHERE} command begins with an empty word, or holds a NUL")
    named = [name for word in command for name in _PLACEHOLDER.findall(word)]
    for name in named:
        if name not in _PLACEHOLDERS:
            raise ValueError(f"{_WHERE} command: {{{name}}} is not one of {{id}}, {{path}}, {{workdir}}")
    if not {"id", "path"} & set(named):
        raise ValueError(
            f"{_WHERE} command has neither {{id}} nor {{path}}, so no program knows which session is meant"
        )
    return tuple(command)
