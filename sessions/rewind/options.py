"""How to rewind, as a host or a command asked for it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from sessions.errors import RequestError
from sessions.rewind.plan import History, OnConflicts, OnRunning, Scope

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Options:
    """How to rewind; the words of the public API.

    Attributes:
        paths: Only these files, as given; None for all.
        run: Only what this run did.
    """

    scope: Scope
    history: History
    on_conflict: OnConflicts
    on_running: OnRunning
    paths: tuple[str, ...] | None
    run: str | None = None


def path_texts(paths: Paths) -> tuple[str, ...]:
    """Return paths a host gave as texts; a single one is one, not its letters.

    Raises:
        RequestError: Something among them is no path.
    """
    named = [paths] if isinstance(paths, str | bytes | os.PathLike) else paths
    try:
        return tuple(os.fsdecode(path) for path in named)
    except TypeError:
        raise RequestError(f"not paths: {paths!r}"[:_SHOWN]) from None


def check(options: Options) -> None:
    """Refuse what is no word of the public API, and what contradicts itself.

    Raises:
        RequestError: Something does.
    """
    for name, value, known in (
        ("scope", options.scope, get_args(Scope)),
        ("history", options.history, get_args(History)),
        ("on_running", options.on_running, get_args(OnRunning)),
    ):
        if value not in known:
            raise RequestError(f"{name} is {value!r}, not one of {', '.join(known)}")
    if options.scope == "code" and options.history != "rewrite":
        raise RequestError(f"history={options.history!r} concerns the conversation, which scope 'code' leaves alone")
    if options.paths is not None and options.scope != "code":
        raise RequestError("single files can only be chosen for scope 'code'")
    if options.run is not None and options.scope != "code":
        raise RequestError("a run is taken back in files only: its scope is 'code'")
