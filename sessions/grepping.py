r"""Full text: where a text stands in the messages of a session, of all its file keeps.

That is what people read: texts, names of tools with what they were called with and returned, commands, summaries,
notices; also of hidden turns, and in front of a compaction. What an image holds, ids and other fields are not searched.

Most bytes are only looked at: a line is decoded where it may hold the text. JSON can spell a character in several ways,
so a line without the bytes looked for may hold the text all the same. What is looked for are therefore characters of
the text that writers leave as they are, and any line with an escape that could stand for one of them (``\u0041`` or,
for other scripts, ``\u4fee``) is decoded too. Where the text has no such characters, every line is.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from sessions.transcript import blocks, codec, collapse, lines, reader, scanning
from sessions.transcript.entry import Kind

BEFORE_CHARACTERS, BEHIND_CHARACTERS = 200, 800
"""How much of a long line is given around the first place in it."""

_PLAIN = re.compile(r"[ !#-%(-.0-;=?-\[\]-~]+")  # no writer of JSON escapes these; some escape & < > ' / too
_OTHER_SCRIPTS = re.compile("[\u00a1-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\U0010ffff]+")
_ASCII_ESCAPE, _ANY_ESCAPE = re.compile(rb"\\u00[2-7]"), re.compile(rb"\\u(?!00[01])")


@dataclass(frozen=True, slots=True)
class Hit:
    """A line of a text that holds what was searched.

    Attributes:
        message_id: The message; None where it has no id.
        role: ``user`` or ``assistant``.
        turn: The index of the turn it lies in, as ``checkpoints`` counts; None in front of the first, and where hidden.
        hidden: Whether a rewind hides it.
        part: What the text is; see `blocks.texts_of`.
        line: The line, of a long one the part around the first place.
        spans: Where in ``line`` it stands: start and end, in characters.
    """

    message_id: str | None
    role: str
    turn: int | None
    hidden: bool
    part: str
    line: str
    spans: tuple[tuple[int, int], ...]

    def to_json(self) -> dict[str, object]:
        """Return the shape ``sessions list --grep --json`` prints."""
        return {
            "message_id": self.message_id,
            "role": self.role,
            "turn": self.turn,
            "hidden": self.hidden,
            "part": self.part,
            "line": self.line,
            "spans": [list(span) for span in self.spans],
        }


@dataclass(frozen=True, slots=True)
class Pattern:
    """A literal text to search.

    Attributes:
        find: Finds it in a decoded text.
        needles: Bytes of which a line that spells it without escapes holds one; none: nobody knows.
        lowered: Whether they are looked for in ASCII letters made lower case.
        escape: Finds an escape that could stand for a character of the needles.
    """

    find: re.Pattern[str]
    needles: tuple[bytes, ...]
    lowered: bool
    escape: re.Pattern[bytes]

    def may_be_in(self, run: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a run of lines that have to be decoded, each with its place in the run."""
        starts: set[int] = set()
        if not self.needles:
            starts.update(match.start() for match in re.finditer(rb"[^\n]+", run))
        elif b"\\u" in run:
            starts.update(run.rfind(b"\n", 0, match.start()) + 1 for match in self.escape.finditer(run))
        searched = run.lower() if self.lowered else run
        for needle in self.needles:
            starts.update(_starts_of_lines_with(needle, searched))
        for start in sorted(starts):
            end = run.find(b"\n", start)
            yield start, run[start:] if end < 0 else run[start:end]


def pattern_of(text: str) -> Pattern:
    """Return the pattern that finds ``text``, which is not empty, as it stands; without capitals in it, in any case."""
    any_case = text == text.lower()
    find = re.compile("".join(f"[{re.escape(_cases(char))}]" for char in text) if any_case else re.escape(text))
    plain = max(_PLAIN.findall(text), key=len, default="").encode()
    others = [each for each in _OTHER_SCRIPTS.findall(text) if not any_case or len(_cases(each)) == len(each)]
    other = max(others, key=len, default="").encode()
    if len(plain) >= len(other) and plain:
        return Pattern(find, (plain,), lowered=any_case, escape=_ASCII_ESCAPE)
    letter = next(iter(_OTHER_SCRIPTS.findall(text)), "")[:1]
    needles = (other,) if other else tuple(case.encode() for case in _cases(letter))
    return Pattern(find, needles, lowered=False, escape=_ANY_ESCAPE)


class Row(Protocol):
    """A session to search."""

    @property
    def path(self) -> Path: ...  # noqa: D102


R = TypeVar("R", bound=Row)


def among(
    rows: Sequence[R],
    text: str,
    limit: int | None = None,
    *,
    looking: Callable[[int], object] = lambda _: None,
    unread: list[OSError] | None = None,
) -> Iterator[tuple[R, Iterator[Hit]]]:
    """Yield the rows of sessions with a text, each with its hits; see ``SessionStore.grep``.

    Args:
        text: See `pattern_of`.
        looking: Told of each session, before it is read, how many were read.
    """
    pattern, found = pattern_of(text), 0
    for at, row in enumerate(rows):
        if limit is not None and found >= limit:
            return
        looking(at)
        hits = _readable(row.path, pattern, unread)
        if (first := next(hits, None)) is not None:
            found += 1
            yield row, itertools.chain((first,), hits)


def _readable(path: Path, pattern: Pattern, unread: list[OSError] | None) -> Iterator[Hit]:
    try:
        yield from hits_in(path, pattern)
    except FileNotFoundError:
        return  # it was deleted meanwhile
    except OSError as error:
        if unread is not None:
            unread.append(OSError(error.errno, error.strerror, str(path)))  # reading does not name the file


def hits_in(path: Path, pattern: Pattern) -> Iterator[Hit]:
    """Yield the hits in a transcript in file order, as they are found. Hidden turns are searched too.

    A message that stands in the file again, as behind a compaction, is not said again. Memory is bounded by the longest
    line and the number of messages with hits.

    Raises:
        OSError: The file cannot be read.
    """
    said: set[int] = set()
    where: _Whereabouts | None = None
    with lines.opened(path) as (descriptor, size):
        for start, run in lines.runs(descriptor, size):
            for at, raw in pattern.may_be_in(run):
                entry = codec.decode(raw)
                if entry.kind is not Kind.MESSAGE:
                    continue
                for part, text in blocks.texts_of(entry):
                    found = _lines_with(pattern, part, text)
                    first = next(found, None)
                    key = hash((start + at if entry.id is None else entry.id, part, text))
                    if first is None or key in said:
                        continue
                    said.add(key)
                    where = where or _whereabouts(path, descriptor, size)
                    turn, hidden = where.of(start + at)
                    for line, spans in itertools.chain((first,), found):
                        yield Hit(entry.id, entry.role or "", turn, hidden, part, line, spans)


@dataclass(slots=True)
class _Whereabouts:
    """Where the visible turns of a file start, and which of its lines are visible; None: all are."""

    turns: list[int]
    shown: frozenset[int] | None

    def of(self, offset: int) -> tuple[int | None, bool]:
        """Return the index of the turn a line lies in, and whether it is hidden."""
        hidden = self.shown is not None and offset not in self.shown
        return None if hidden else bisect.bisect_right(self.turns, offset) or None, hidden


def _whereabouts(path: Path, descriptor: int, size: int) -> _Whereabouts:
    turns = [prompt.offset for prompt in reader.scan(path, deep=False).prompts]
    if lines.find(descriptor, b'"rollback"', 0, size) is None:
        return _Whereabouts(turns, None)
    places = scanning.places_in(scanning.every_line(path, 0, size))
    return _Whereabouts(turns, frozenset(place.offset for place in collapse.visible(places)))


def _lines_with(pattern: Pattern, part: str, text: str) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """Yield the lines of a text that hold the pattern; of a tool's parameters, the lines of the strings in them."""
    if part == "parameters":
        found = itertools.chain.from_iterable(_lines_of(pattern, each) for each in _strings_in(text))
        if (first := next(found, None)) is not None:
            yield first
            yield from found
            return
    yield from _lines_of(pattern, text)


def _lines_of(pattern: Pattern, text: str) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    match = pattern.find.search(text)
    while match is not None:
        first = match.start()
        start = max(text.rfind("\n", 0, first) + 1, first - BEFORE_CHARACTERS)
        behind = text.find("\n", match.end())
        end = min(len(text) if behind < 0 else behind, match.end() + BEHIND_CHARACTERS)
        spans = tuple((each.start() - start, each.end() - start) for each in pattern.find.finditer(text, first, end))
        yield text[start:end].removesuffix("\r"), spans
        match = None if behind < 0 else pattern.find.search(text, behind)


def _strings_in(parameters: str) -> Iterator[str]:
    try:
        rest = [codec.loads(parameters.encode(errors="surrogatepass"))]
    except ValueError:
        return
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            rest.extend(reversed(list(value.values() if isinstance(value, dict) else value)))


def _starts_of_lines_with(needle: bytes, run: bytes) -> Iterator[int]:
    place = run.find(needle)
    while place >= 0:
        yield run.rfind(b"\n", 0, place) + 1
        behind = run.find(b"\n", place)
        place = run.find(needle, behind) if behind >= 0 else -1


def _cases(text: str) -> str:
    """Return the characters of a text and what each is in upper case, where that is one other character."""
    # Not the re module's any case: to it "k" is also the sign of kelvin, which bytes in lower case do not show.
    return "".join(char + (upper if len(upper := char.upper()) == 1 and upper != char else "") for char in text)
