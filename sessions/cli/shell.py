"""Commands that are pasted into a shell, whatever their words hold. Pure."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from sessions.picker.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

_AS_IT_IS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@ ")


def quoted(word: str) -> str:
    """Return a word as a shell reads it back, on one line, in UTF-8, without what a terminal must not get.

    What cannot be shown, such as a newline, an escape, or a byte that is not UTF-8, is spelled out for ``printf``,
    which every shell has: quotes would hold it too, but neither a terminal nor a clipboard hands it on unchanged.
    """
    if visible(word, keep="") == word:
        return shlex.quote(word)
    raw = os.fsencode(word)
    spelled = "".join(chr(byte) if byte in _AS_IT_IS else f"\\0{byte:03o}" for byte in raw)
    return f"\"$(printf '%b' '{spelled}')\""


def in_directory(directory: str | None, words: Sequence[str]) -> str:
    """Return ``cd DIRECTORY && WORDS``; without a directory the words alone."""
    command = " ".join(quoted(word) for word in words)
    if directory is None:
        return command
    closed = directory + "/" if directory.endswith("\n") else directory  # a shell drops newlines at the end of $(…)
    return f"cd {'-- ' if closed.startswith('-') else ''}{quoted(closed)} && {command}"
