"""What a host says of a task it starts: checked, and put into the words a program is started with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from sessions.errors import RequestError
from sessions.rewind.options import path_texts
from sessions.turn import check_label

_LABEL_CHARACTERS = 80


def argv(given: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return a program and its arguments.

    Raises:
        RequestError: It is none.
    """
    if isinstance(given, str | bytes) or not given:
        raise RequestError("a program is given as a list of its name and its arguments")
    words = tuple(os.fspath(word) if isinstance(word, os.PathLike) else word for word in given)
    if not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise RequestError(f"not a program and its arguments: {list(given)!r}"[:200])
    return words


def environ(given: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return an environment; None: this process's.

    Raises:
        RequestError: It does not map texts to texts.
    """
    if given is None:
        return os.environ
    if not all(isinstance(word, str) for pair in given.items() for word in pair):
        raise RequestError("an environment maps texts to texts")
    return given


def directory(given: str | os.PathLike[str] | None) -> str:
    """Return where a program starts; empty: where the session works.

    Raises:
        RequestError: It is no path.
    """
    return "" if given is None else path_texts([given])[0]


def label(given: str | None, default: str) -> str:
    """Return what to call a task: what was given, else what fits on a line of ``default``.

    Raises:
        RequestError: What was given is no text on one line, or too long.
    """
    if given is not None:
        check_label(given, "a label for a task")
        return given
    text = " ".join("".join(c if c.isprintable() else " " for c in default).split()) or "task"
    return text if len(text) <= _LABEL_CHARACTERS else f"{text[: _LABEL_CHARACTERS - 1]}…"
