"""The environment variable that says which tasks a process belongs to; children inherit it."""

from __future__ import annotations

from collections.abc import Mapping

TAGS = "SESSIONS_TASKS"


def tagged(env: Mapping[str, str], tag: str) -> dict[str, str]:
    """Return ``env`` with ``tag`` (32 hexadecimal digits) behind the tags that are there; outermost task first."""
    already = tags_of(env.get(TAGS, ""))
    return {**env, TAGS: ":".join([*already, tag])}


def tags_of(value: str) -> list[str]:
    """Return the tags a value of the variable names, in order."""
    return [tag for tag in value.split(":") if tag]
