"""What reaches the terminal: nothing that could talk to it, and every column where it belongs."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.picker import text

ANY_TEXT = st.text(alphabet=st.characters(), max_size=80)  # includes lone surrogates and controls


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("bell\x07 del\x7f csi\x9b", r"bell\x07 del\x7f csi\x9b"),
        ("abc\u202edef\u2066", r"abc\u202edef\u2066"),
        ("half \ud83d", r"half \ud83d"),
        ("line\u2028para\u2029nel\u0085", r"line\u2028para\u2029nel\x85"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("two\nlines\there", "two\nlines\there"),
        ("returns\r", r"returns\x0d"),
        ("漢字 é 👩\u200d💻 नमस्ते", "漢字 é 👩\u200d💻 नमस्ते"),
    ],
)
def test_what_a_terminal_must_not_get_is_spelled_out_and_words_stay(given_text: str, shown: str) -> None:
    assert text.visible(given_text) == shown


@settings(deadline=None)
@given(ANY_TEXT)
def test_visible_text_can_always_be_encoded_and_holds_no_control(any_text: str) -> None:
    shown = text.visible(any_text)
    shown.encode()
    assert not any(unicodedata.category(char) in {"Cc", "Cs"} for char in shown.replace("\n", "").replace("\t", ""))


@settings(deadline=None)
@given(ANY_TEXT, st.integers(0, 60))
def test_one_line_is_one_line_and_fits(any_text: str, cells: int) -> None:
    line = text.one_line(any_text, cells)
    assert text.width(line) <= cells
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in line)


@settings(deadline=None)
@given(ANY_TEXT, st.integers(1, 60))
def test_padding_fills_to_exactly_the_width(any_text: str, cells: int) -> None:
    line = text.one_line(any_text, 200)
    assert text.width(text.pad(line, cells)) == text.width(text.pad_start(line, cells)) == cells


@settings(deadline=None)
@given(st.lists(ANY_TEXT, max_size=4), st.integers(1, 40), st.integers(0, 6))
def test_wrapping_loses_nothing_but_spaces_and_stays_within_the_width(
    parts: list[str], cells: int, indent: int
) -> None:
    line = tuple(("", text.visible(part, keep="")) for part in parts)
    wrapped = list(text.wrap(line, cells, indent=indent))
    joined = "".join(text.plain(part) for part in wrapped)
    assert joined.replace(" ", "") == text.plain(line).replace(" ", "")
    widest_char = max((text.width(char) for char in text.plain(line)), default=1)
    assert all(text.width(text.plain(part)) <= max(cells, indent + widest_char) for part in wrapped)


@pytest.mark.parametrize("sample", ["abc", "漢字かな", "é́̂", "👩💻🎉", "❤", "한국어", "日本 abc", "नमस्ते", "…❯⊟▏"])
def test_widths_are_those_the_terminal_library_draws_with(sample: str) -> None:
    from prompt_toolkit.utils import get_cwidth

    assert text.width(sample) == get_cwidth(sample)


@pytest.mark.parametrize(
    ("given_text", "cells", "shown"),
    [
        ("fix\n\n  the\tbug ", 40, "fix the bug"),
        ("fix the bug", 8, "fix the…"),
        ("漢字漢字", 5, "漢字…"),
        ("漢字漢字", 4, "漢…"),
        ("👩🏽\u200d💻 ❤\ufe0f", 40, "👩💻 ❤"),
        ("anything", 0, ""),
    ],
)
def test_a_prompt_on_one_line(given_text: str, cells: int, shown: str) -> None:
    assert text.one_line(given_text, cells) == shown


def test_a_huge_prompt_costs_its_beginning_only() -> None:
    looked_at: list[int] = []

    class Counting(str):
        __slots__ = ()

        def __getitem__(self, key: object) -> str:
            part = str.__getitem__(self, key)  # type: ignore[index]
            looked_at.append(len(part))
            return part

    text.one_line(Counting("x" * 1_000_000), 80)
    assert looked_at == [8 * 80 + 64]


def test_a_name_that_is_not_utf8_is_shown_as_its_bytes() -> None:
    assert text.visible_path(b"caf\xe9/\x1bx\n.txt".decode("utf-8", "surrogateescape")) == r"caf\xe9/\x1bx\x0a.txt"


def test_a_long_path_keeps_its_end() -> None:
    assert text.clip_start("src/very/deep/module.py", 12) == "…p/module.py"
