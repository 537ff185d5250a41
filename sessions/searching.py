"""Which rows of a list a few words mean, the best first. Pure.

Every word has to be found somewhere in a row. A word that stands there as it was typed beats one that only resembles
what stands there; then where it stands decides, then whether a word begins with it, then the order the rows came in.

Both sides are folded: case, white space, and how a character is composed do not count (NFKC, so that full-width letters
and ligatures are the plain ones too), nor do the accents of Latin, Greek and Cyrillic letters: on many keyboards they
cannot be typed. Marks of other scripts stay, there they make another letter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

SLIPS_EVERY = 5
"""For so many letters one slip of the fingers is forgiven: one in a word of five to nine, two in one of ten.

A slip is a letter left out, added, mistaken, or exchanged with its neighbour. A shorter word has to stand there as it
was typed: ``code`` and ``core``, ``fix`` and ``fit`` are different words.
"""

_IGNORED = re.compile("[\u0300-\u036f\u00ad\u200b-\u200d\u2060\ufe0e\ufe0f\ufeff]")  # accents, joiners, selectors
_WORD = re.compile(r"[^\W_]+")
_WORD_START, _PHRASE = 10, 200
_LONGEST_WORD = 64  # what is longer is no word somebody types, but data
_HELD_CHARACTERS, _SHORT_CHARACTERS = 64 << 20, 200
_WORDS_REMEMBERED = 16
_PART_OF_AN_ID = 6  # fewer characters stand somewhere in many ids


class Row(Protocol):
    """What is searched of a row."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def title(self) -> str | None: ...  # noqa: D102
    @property
    def git_branch(self) -> str | None: ...  # noqa: D102
    @property
    def first_prompt(self) -> str | None: ...  # noqa: D102


R = TypeVar("R", bound=Row)


def matching(rows: Iterable[R], query: str, prompts: Callable[[R], Iterable[str]] | None = None) -> list[R]:
    """Return the rows every word of ``query`` is found in, the best first; all of them for a query without words.

    Args:
        rows: In list order, which decides among equals.
        query: What was typed.
        prompts: Returns the prompts of a row; asked only for rows that do not hold all words as they were typed.
    """
    found = Searchable(rows)
    if prompts is not None:
        for row in found.lacking(query):
            found.learn(row, prompts(row))
    return found.matching(query)


def words_of(query: str) -> tuple[str, ...]:
    """Return the words of a query, folded, each once."""
    return tuple(dict.fromkeys(fold(query).split()))


def fold(text: str) -> str:
    """Return a text as it is compared; see the head of this module. Folding it again changes nothing."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.casefold())
        text = unicodedata.normalize("NFKC", _IGNORED.sub("", text))
    return " ".join(text.casefold().split())


_TITLE, _ID, _BRANCH, _PROMPT, _MORE = 90, 75, 60, 45, 30  # what a hit there counts


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a row, folded; see :func:`read`."""

    text: str
    pieces: frozenset[str]


@dataclass(slots=True)
class _Folded(Generic[R]):
    """A row and its folded texts, the one that counts most first."""

    row: R
    texts: list[tuple[int, str]]
    whole: str  # all texts, one a line: what is not in here is in none of them
    prompts: str = ""  # likewise, of all its prompts; they count less than any other text


def read(prompts: Iterable[str]) -> Prompts:
    """Return the prompts of a row as :meth:`Searchable.learn` takes them in, so that it has the least to do."""
    text = _joined(prompts)
    return Prompts(text, frozenset(text.split()))


class Searchable(Generic[R]):
    """Rows with their texts folded once, for one query after another.

    Building takes a few microseconds a row; a query some milliseconds for thousands of rows, and some more for each ten
    megabytes of prompts. What a word that is typed letter by letter was not found in before is not searched again.

    Of the prompts of all rows together 64 Mi characters are held; of each prompt that is learnt later only the first
    200.
    """

    def __init__(self, rows: Iterable[R]) -> None:
        self._rows = [_folded(row) for row in rows]
        self._at = {id(each.row): at for at, each in enumerate(self._rows)}
        self._pieces: set[str] = set()  # what stands between spaces in all rows
        self._words: set[str] = set()  # the words in it
        self._initials: dict[str, list[str]] = {}  # the same, by their initial
        self._wordless = set(range(len(self._rows)))  # the rows whose words are not among them yet
        self._held = 0
        self._known: dict[str, list[int]] = {}  # the points of words that were looked for

    def __len__(self) -> int:
        return len(self._rows)

    def learn(self, row: R, prompts: Iterable[str] | Prompts) -> None:
        """Take in the prompts of one of the rows, instead of what was learnt of it before; they count less than all."""
        at = self._at[id(row)]
        folded = self._rows[at]
        text = prompts.text if isinstance(prompts, Prompts) else _joined(prompts)
        self._held -= len(folded.prompts)
        if self._held + len(text) > _HELD_CHARACTERS:
            text = "\n".join(each[:_SHORT_CHARACTERS] for each in text.split("\n"))
        folded.prompts = text
        self._held += len(text)
        self._known.clear()
        if isinstance(prompts, Prompts):
            self._take_words(prompts.pieces)
        else:
            self._wordless.add(at)

    def lacking(self, query: str) -> Iterator[R]:
        """Yield the rows that do not hold every word of ``query`` as it was typed: those learning may help."""
        words = words_of(query)
        for each in self._rows:
            if not all(_points(word, each, each.prompts) for word in words):
                yield each.row

    def matching(self, query: str) -> list[R]:
        """Return the rows every word of ``query`` is found in, the best first; see :func:`matching`."""
        words = words_of(query)
        if not words:
            return [each.row for each in self._rows]
        exact = [self._exact(word) for word in words]
        alike = [self._alike(word, points) for word, points in zip(words, exact, strict=True)]
        phrase = fold(query) if len(words) > 1 else None
        ranked: list[tuple[int, int, int]] = []
        for at, each in enumerate(self._rows):
            faults = score = 0
            for points, resembling in zip(exact, alike, strict=True):
                if points[at]:
                    score += points[at]
                elif at in resembling:
                    faults, score = faults + 1, score + resembling[at]
                else:
                    break
            else:
                if phrase is not None and (phrase in each.whole or phrase in each.prompts):
                    score += _PHRASE
                ranked.append((faults, -score, at))
        return [self._rows[at].row for _, _, at in sorted(ranked)]

    def _exact(self, word: str) -> list[int]:
        """Return what each row gets for a word that stands in it; 0 where it does not."""
        if (known := self._known.pop(word, None)) is None:
            beginnings = (self._known.get(word[:end]) for end in range(len(word) - 1, 0, -1))
            shorter = next((points for points in beginnings if points is not None), None)
            if shorter is None:
                known = [_points(word, each, each.prompts) for each in self._rows]
            else:  # where its beginning does not stand, it does not
                known = [
                    _points(word, each, each.prompts if before else "")
                    for each, before in zip(self._rows, shorter, strict=True)
                ]
        self._known[word] = known  # the last
        if len(self._known) > _WORDS_REMEMBERED:
            del self._known[next(iter(self._known))]
        return known

    def _take_words(self, pieces: AbstractSet[str]) -> None:
        """Take in the words in what stands between spaces, which is mostly known already."""
        new = pieces - self._pieces
        self._pieces.update(piece for piece in new if len(piece) <= _LONGEST_WORD)
        words = {word[:_LONGEST_WORD] for word in _WORD.findall(" ".join(new))} - self._words
        self._words |= words
        for word in words:
            self._initials.setdefault(word[0], []).append(word)

    def _alike(self, word: str, exact: Sequence[int]) -> dict[int, int]:
        """Return what the rows without ``word`` get for a word like it; rows without one are not in it."""
        if len(word) < SLIPS_EVERY or all(exact):
            return {}
        for at in self._wordless:
            self._take_words(_pieces_of(self._rows[at]))
        self._wordless.clear()
        best: dict[int, int] = {}
        for alike, slips in _words_like(word, self._initials):
            for at, folded in enumerate(self._rows):
                if not exact[at] and (points := _points(alike, folded, folded.prompts)):
                    best[at] = max(best.get(at, 0), points * 10 // (10 + slips))
        return best


def _joined(prompts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(folded for prompt in prompts if (folded := fold(prompt))))


def _folded(row: R) -> _Folded[R]:
    said = ((_TITLE, row.title), (_ID, row.id), (_BRANCH, row.git_branch), (_PROMPT, row.first_prompt))
    texts = [(place, fold(text)) for place, text in said if text]
    return _Folded(row, texts, "\n".join(text for _, text in texts))


def _points(word: str, folded: _Folded[R], prompts: str) -> int:
    """Return what a word that stands in a row counts for; 0 where it does not stand there.

    Args:
        prompts: Its prompts, as far as they are to be looked at.
    """
    best = 0
    if word in folded.whole:
        for place, text in folded.texts:
            if place + _WORD_START <= best:
                break
            if word not in text:
                continue
            if _starts_a_word(word, text):
                best = max(best, place + _WORD_START)
            elif place != _ID:
                best = max(best, place)
            elif len(word) >= _PART_OF_AN_ID:
                best = max(best, _MORE)
    if best < _MORE + _WORD_START and word in prompts:
        best = max(best, _MORE + _WORD_START if _starts_a_word(word, prompts) else _MORE)
    return best


def _starts_a_word(word: str, text: str) -> bool:
    at = text.find(word)
    while at > 0 and text[at - 1].isalnum() and text[at].isalnum():
        at = text.find(word, at + 1)
    return at >= 0


def _pieces_of(folded: _Folded[R]) -> set[str]:
    """Return what stands between spaces in the texts of a row, but for its id."""
    texts = [text for place, text in folded.texts if place != _ID]
    return set("\n".join((*texts, folded.prompts)).split())


def _words_like(word: str, by_initial: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, int]]:
    """Yield the words that begin with ``word``, but for slips of the fingers, and how many they are.

    Fingers slip behind the first letter, or exchange it with the second.
    """
    from rapidfuzz.distance import OSA  # noqa: PLC0415 - costs more than the rest of a search, and few need it

    length, most = len(word), len(word) // SLIPS_EVERY
    for initial in dict.fromkeys(word[:2]):
        for each in by_initial.get(initial, ()):
            beginnings = {each[:end] for end in range(length - most, length + most + 1)}
            slips = min(OSA.distance(word, beginning, score_cutoff=most) for beginning in beginnings)
            if slips <= most:
                yield each, slips
