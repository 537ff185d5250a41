r"""Text for a terminal: what must not reach it is spelled out, what reaches it is measured in cells. Pure.

A transcript holds whatever a model, a tool or a stranger wrote. Three things in it are dangerous on a screen: control
characters (they move the cursor and talk to the terminal), bidirectional overrides (they make a line read as something
else) and lone surrogates (they cannot be encoded). All are shown as the escapes a programmer knows: ``\x1b``,
``\u202e``, ``\ud83d``.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Fragment = tuple[str, str]
"""A style (a word of the picker's style sheet, or empty) and the text it is for."""

Line = tuple[Fragment, ...]

ELLIPSIS = "…"

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # part of how Persian, Indic scripts and emoji are written
_FLAGS = {0x1F1E6 + place: letter for place, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
_SHAPERS = "[\u200c\u200d\ufe0e\ufe0f]|(?<=[\u231a-\U0001faff])[\U0001f3fb-\U0001f3ff]"  # compiled at its first use
_WHITE = re.compile(r"[ \t\r\n\f\v\u00a0\u3000]+")
_PLAIN = re.compile(r"[ -~]*")
_NARROW = re.compile("[ -\u02ff…]*")  # what can be counted without a look at each character
_COMBINING = frozenset({"Mn", "Me", "Mc", "Cf", "Cc", "Cs"})
_WIDE = frozenset({"W", "F"})
_JAMO = (range(0x1160, 0x1200), range(0xD7B0, 0xD800))  # vowels and finals: they join the syllable before them


def visible(text: str, *, keep: str = "\n\t") -> str:
    """Return ``text`` with everything a terminal must not get spelled out; the characters of ``keep`` stay.

    The result can be encoded as UTF-8, whatever ``text`` is. Words of all scripts and emoji are unchanged.
    """
    if _PLAIN.fullmatch(text):
        return text
    return "".join(char if char in keep or _is_safe(char) else escape(char) for char in text)


def visible_path(path: str) -> str:
    r"""Return ``path`` on one line; a byte that is not UTF-8 is shown as ``\xff``, as the file system has it."""
    if _PLAIN.fullmatch(path):
        return path
    return "".join(
        f"\\x{ord(char) - 0xDC00:02x}" if "\udc80" <= char <= "\udcff" else visible(char, keep="") for char in path
    )


def one_line(text: str, cells: int) -> str:
    """Return the start of ``text`` on one line, at most ``cells`` wide, ending in ``…`` where something was left out.

    White space of any length becomes one space. Joiners and skin tones are dropped, and a flag becomes the letters it
    is made of: terminals disagree about their width, and columns have to stand. The cost depends on ``cells``, not on
    the length of ``text``.
    """
    head = text[: 8 * cells + 64]
    line = " ".join(head.split()) if _PLAIN.fullmatch(head) else flat(head.strip())
    return clip(line if len(head) == len(text) else line + ELLIPSIS, cells)


def flat(text: str) -> str:
    """Return all of ``text`` on one line as :func:`one_line` shows it; white space at an end is a space too."""
    shaped = text if text.isascii() else re.sub(_SHAPERS, "", text.translate(_FLAGS))
    return visible(_WHITE.sub(" ", shaped), keep="")


def escape(char: str) -> str:
    r"""Return the escape that names ``char``: ``\x1b``, ``\u202e`` or ``\U000e0041``."""
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """Return how many cells ``text`` fills; for text that :func:`visible` or :func:`one_line` returned."""
    return len(text) if _NARROW.fullmatch(text) else sum(map(_char_width, text))


def clip(text: str, cells: int) -> str:
    """Return ``text`` if it fits into ``cells``, else what fits of its start and ``…``."""
    if len(text) <= 4 * cells and width(text) <= cells:
        return text
    return "" if cells < 1 else _prefix(text, cells - 1) + ELLIPSIS


def clip_start(text: str, cells: int) -> str:
    """Return ``text`` if it fits into ``cells``, else ``…`` and what fits of its end."""
    if width(text) <= cells:
        return text
    return "" if cells < 1 else ELLIPSIS + _prefix(text[::-1], cells - 1)[::-1]


def fit(line: Line, cells: int) -> Line:
    """Return ``line`` if it fits into ``cells``, else what fits of its start, each part clipped as text is."""
    if width(plain(line)) <= cells:
        return line
    fitted, room = [], cells
    for style, text in line:
        part = clip(text, room)
        fitted.append((style, part))
        room -= width(part)
        if room <= 0 or part != text:
            break
    return tuple(fitted)


def pad(text: str, cells: int) -> str:
    """Return ``text`` clipped or filled with spaces to exactly ``cells``."""
    text = clip(text, cells)
    return text + " " * (cells - width(text))


def pad_start(text: str, cells: int) -> str:
    """Return ``text`` clipped to ``cells``, or filled with spaces in front of it."""
    text = clip(text, cells)
    return " " * (cells - width(text)) + text


def wrap(line: Line, cells: int, *, indent: int = 2) -> Iterator[Line]:
    """Yield ``line`` as lines of at most ``cells``, broken at spaces where possible; later ones start indented."""
    indent = min(indent, max(cells - 1, 0))
    rest, first = list(line), True
    while rest or first:
        room = max(cells if first else cells - indent, 1)
        taken, rest = _take(rest, room)
        if taken or first:
            yield taken if first else (("", " " * indent), *taken)
        first = False


def plain(line: Line) -> str:
    """Return the text of ``line`` without its styles."""
    return "".join(text for _, text in line)


def _take(fragments: list[Fragment], room: int) -> tuple[Line, list[Fragment]]:
    text = plain(tuple(fragments))
    if len(text) <= 4 * room and width(text) <= room:
        return tuple(fragments), []
    head = _prefix(text, room) or text[:1]
    end, space = len(head), head.rfind(" ")
    if text[end : end + 1] != " " and space > 0 and head[:space].strip():
        end = space
    gap = len(text) - end - len(text[end:].lstrip(" "))
    return _slice(fragments, 0, end), list(_slice(fragments, end + gap, None))


def _slice(fragments: list[Fragment], start: int, end: int | None) -> Line:
    taken, at = [], 0
    for style, text in fragments:
        part = text[max(start - at, 0) : None if end is None else max(end - at, 0)]
        at += len(text)
        if part:
            taken.append((style, part))
    return tuple(taken)


def _prefix(text: str, cells: int) -> str:
    if len(text) > cells and _NARROW.fullmatch(text, 0, cells + 1):
        return text[:cells]
    used = 0
    for at, char in enumerate(text):
        used += _char_width(char)
        if used > cells or at >= 4 * cells:
            return text[:at]
    return text


def _is_safe(char: str) -> bool:
    return char in _JOINERS or unicodedata.category(char) not in _UNSAFE


def _char_width(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.category(char) in _COMBINING or any(ord(char) in jamo for jamo in _JAMO):
        return 0
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1
