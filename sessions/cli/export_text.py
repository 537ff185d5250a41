r"""Text of a transcript as a file may hold it: readable by any program, and unable to swallow what follows it. Pure."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sessions.picker.text import escape, visible
from sessions.transcript import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEPT = "\n\t\u2028\u2029"  # the last two are text, which some editors show as new lines
_PLAIN = re.compile("[ -~\n\t]*")
_FENCE = re.compile("```|~~~")
_NO_CHARACTER = re.compile("[\ufdd0-\ufdef\ufffe\uffff\U0001fffe\U0001ffff]")
_OPENS = re.compile(r"( {0,3})(`{3,}(?=[^`]*\Z)|~{3,})[ \t]*(\S*)")
_CLOSES = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*\Z")
_CODE_SPAN = re.compile(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)")
_MARKUP = re.compile(r"<(?!https?://|mailto:)[A-Za-z/!?]")
_PRETTY_CHARACTERS = 1_000_000  # of a tool call: a longer one is shown as it was written


class Section(NamedTuple):
    """A part of a text: prose, or what stood between two fences (``language`` may be empty)."""

    is_code: bool
    language: str
    text: str


def readable(text: str) -> str:
    r"""Return ``text`` with what no file should hold spelled out: control characters, lone surrogates, overrides.

    New lines, tabs, U+2028 and U+2029 stay; ``\r\n`` is a new line. The result can be encoded, and an HTML parser takes
    every character of it as it is. The cost is that of a pass in C, whatever the script.
    """
    if _PLAIN.fullmatch(text):
        return text
    text = text.replace("\r\n", "\n")
    spelled = {ord(char): shown for char in set(text) if (shown := _shown(char)) != char}
    return text.translate(spelled) if spelled else text


def sections(text: str) -> Iterator[Section]:
    """Split a text at its fences, which are left out; one that is never closed ends with the text."""
    if not _FENCE.search(text):
        yield Section(is_code=False, language="", text=text)
        return
    part: list[str] = []
    opened: re.Match[str] | None = None
    for line in text.split("\n"):
        if opened is not None and _ends(line, opened):
            yield Section(is_code=True, language=opened[3], text="\n".join(part))
            opened, part = None, []
        elif opened is None and (found := _OPENS.match(line)) is not None:
            if part:
                yield Section(is_code=False, language="", text="\n".join(part))
            opened, part = found, []
        else:
            part.append(line)
    if part or opened is not None:
        yield Section(opened is not None, opened[3] if opened is not None else "", "\n".join(part))


def stands_alone(text: str) -> bool:
    """Tell whether a text can be put into a Markdown file as it is, and what follows it reads as if it were not there.

    That is not so where a fence stays open, or may be closed by a list it stands in; nor where there is HTML, which a
    reader does not see, or which hides the rest. When in doubt: no.
    """
    if "<" not in text and not _FENCE.search(text):
        return True
    opened: re.Match[str] | None = None
    for line in text.split("\n"):
        if opened is None:
            opened = _OPENS.match(line)
            if opened is None and "<" in line and _MARKUP.search(_CODE_SPAN.sub("", line)) is not None:
                return False
        elif line.strip() and len(line) - len(line.lstrip(" ")) < len(opened[1]):
            return False
        elif _ends(line, opened):
            opened = None
    return opened is None


def fenced(text: str, language: str = "") -> str:
    """Return a text between fences longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}"


def parameters(said: str) -> tuple[str, bool]:
    """Return what a tool was called with, one key a line where that can be; and whether it is JSON."""
    try:
        value = codec.loads(said.encode("utf-8", "surrogatepass"))
        pretty = json.dumps(value, ensure_ascii=False, indent=2) if len(said) <= _PRETTY_CHARACTERS else said
    except (ValueError, RecursionError):
        return said, False
    return pretty, True


def _ends(line: str, opened: re.Match[str]) -> bool:
    closing = _CLOSES.match(line)
    return closing is not None and closing[1].startswith(opened[2])


@lru_cache(maxsize=1 << 14)
def _shown(char: str) -> str:
    return escape(char) if _NO_CHARACTER.match(char) else visible(char, keep=_KEPT)
