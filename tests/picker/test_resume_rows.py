"""What the resume picker shows of a state, at any width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.picker.keys import Key
from sessions.picker.resume_rows import hit, preview_lines, screen
from sessions.picker.resume_state import Listing, Preview, ResumeState, listed, measured, press, resize, shown, weighed
from sessions.picker.text import plain, width

TITLES = ["Fix the login", "日本語のタイトルがここにある", "👩‍💻 emoji 🙂🙂", "\x1b[31mred\ud83d", None, "a" * 300]


@pytest.fixture
def rows(session_row: Callable[..., Any]) -> list[Any]:
    more: list[dict[str, object]] = [
        {"git_branch": "main", "total_tokens": 12_345},
        {"forked_from": "00000000-parent"},
        {"damaged": True, "git_branch": "feature/very-long-branch-name-indeed"},
        {"workdir": "/home/user/other"},
        {"workdir": "/home/user/gone"},
        {},
    ]
    return [session_row(n, title, **each) for n, (title, each) in enumerate(zip(TITLES, more, strict=True))]


def state_of(rows: list[Any], columns: int = 80, lines: int = 16) -> ResumeState:
    away = {rows[3].path: "/home/user/other", rows[4].path: "/home/user/gone"}
    listing = Listing(rows, lambda _: [2, 0], away, frozenset({rows[4].path}))
    return shown(listed(resize(ResumeState(several=True), columns, lines), "project", listing))


def text_of(state: ResumeState, now: datetime) -> list[str]:
    return [plain(line) for line in screen(state, now, preview_lines(state))]


def test_a_row_says_when_what_where_and_what_is_odd(rows: list[Any], now: datetime) -> None:
    shown = text_of(state_of(rows, 100), now)
    assert shown[0].startswith("Resume · this project")
    assert shown[0].endswith("6 sessions")
    assert shown[3].startswith("❯ now        Fix the login")
    assert shown[3].rstrip().endswith("main                12.3k")
    assert "⑂ 日本語" in shown[4]
    assert "! 👩💻 emoji" in shown[5]
    assert "feature/very-long…" in shown[5]
    assert r"\x1b[31mred\ud83d" in shown[6]
    assert "/home/user/other" in shown[6]
    assert "(untitled)" in shown[7]
    assert "gone /home/user/gone" in shown[7]


@pytest.mark.parametrize("columns", [40, 63, 64, 80, 120])
def test_columns_stand(rows: list[Any], now: datetime, columns: int) -> None:
    shown = text_of(state_of(rows, columns), now)[3:9]
    assert {width(line) for line in shown} == {columns}
    for at, word in enumerate(["Fix", "日", "👩", r"\x1b", "(un", "aaa"]):
        mark = "⑂ " if at == 1 else "! " if at == 2 else ""
        assert width(shown[at].split(mark + word)[0]) == (13 if columns >= 64 else 8)


def test_what_the_keys_do_is_said_as_far_as_it_fits(rows: list[Any], now: datetime) -> None:
    wide = text_of(state_of(rows, 120), now)[-1]
    assert wide == (
        "Enter resume · Space look · Ctrl+A all projects · Ctrl+W worktrees · Ctrl+R rename · Ctrl+D delete · Esc leave"
    )
    assert text_of(state_of(rows, 40), now)[-1] == "Space ^A all ^W trees ^R name ^D del"
    assert text_of(replace(state_of(rows, 40), several=False), now)[-1] == "Enter Space ^A all ^R name ^D del Esc"
    assert text_of(replace(state_of(rows, 40), fixed=True), now)[-1] == "Enter Space ^R name ^D del Esc"
    everywhere = replace(state_of(rows, 50), everywhere=True)
    assert text_of(everywhere, now)[-1] == "Enter Space ^A project ^R name ^D del Esc"
    assert "Ctrl+W" not in text_of(replace(state_of(rows, 120), several=False), now)[-1]
    assert "Ctrl+A" not in text_of(replace(state_of(rows, 120), fixed=True), now)[-1]
    assert "Tab look" in text_of(press(state_of(rows, 120), "x"), now)[-1]


def test_questions_and_news_stand_below_or_on_a_small_screen_above(rows: list[Any], now: datetime) -> None:
    for lines, at in ((16, -2), (6, 0)):
        state = press(state_of(rows, 100, lines), Key.DELETE)
        assert text_of(state, now)[at] == "looking what belongs to it …"
        state = weighed(state, rows[0], "2 subagents go with it")
        assert text_of(state, now)[at] == "press Ctrl+D again to delete Fix the login; 2 subagents go with it"
        state = press(state, "n")
        assert text_of(state, now)[at] == "nothing was deleted"


def test_a_title_that_is_typed_shows_its_cursor_however_long_it_is(rows: list[Any], now: datetime) -> None:
    state = press(press(state_of(rows, 40), Key.END), Key.RENAME)
    assert text_of(state, now)[1] == "Title …" + "a" * 32 + "▏"
    state = press(state, Key.HOME)
    assert text_of(state, now)[1] == "Title ▏" + "a" * 32 + "…"


def test_an_empty_list_says_where_more_is(now: datetime) -> None:
    empty = listed(ResumeState(), "project", Listing())
    assert text_of(empty, now)[3] == "  There are none here. Ctrl+A: all projects"
    assert text_of(ResumeState(), now)[3] == "  listing the sessions …"
    everywhere = listed(ResumeState(everywhere=True), "all", Listing())
    assert text_of(everywhere, now)[3] == "  There are no sessions."
    assert "No session mentions that." in text_of(press(empty, "x"), now)[3]


def test_what_cannot_be_read_is_said_in_front_of_the_details(rows: list[Any], now: datetime) -> None:
    for some in (rows, []):
        unread = Listing(some, unread="1 session cannot be read")
        state = shown(listed(resize(ResumeState(), 80, 16), "project", unread))
        assert text_of(state, now)[14].startswith("  1 session cannot be read")
        assert ("00000000" in text_of(state, now)[14]) is bool(some)
        assert "nothing was deleted" in text_of(replace(state, said="nothing was deleted"), now)[14]


def test_a_preview_shows_its_end_and_scrolls(rows: list[Any], now: datetime) -> None:
    lines = [(("", f"line {n}"),) for n in range(40)]
    state = measured(replace(state_of(rows), preview=Preview(rows[0], lines)), 40)
    assert text_of(state, now)[2:14] == [f"line {n}" for n in range(28, 40)]
    assert text_of(press(shown(state), Key.UP), now)[2] == "line 27"
    assert text_of(press(shown(state), Key.HOME), now)[2:14] == [f"line {n}" for n in range(12)]
    waiting = replace(state_of(rows), preview=Preview(rows[0]))
    assert text_of(waiting, now)[2] == "reading the last messages …"


def test_clicks_hit_rows_only(rows: list[Any]) -> None:
    state = state_of(rows)
    hits = [hit(state, y) for y in range(16)]
    assert [None if click is None else click.row for click in hits] == [None] * 3 + [0, 1, 2, 3, 4, 5] + [None] * 7


def test_a_key_draws_one_screen_of_rows_however_many_there_are(session_row: Callable[..., Any], now: datetime) -> None:
    asked: list[int] = []

    class Rows(list[Any]):
        def __getitem__(self, at: Any) -> Any:
            asked.append(at)
            return super().__getitem__(at)

    state = shown(listed(ResumeState(), "project", Listing(Rows(session_row(n) for n in range(3000)))))
    asked.clear()
    screen(press(press(state, Key.PAGE_DOWN), Key.UP), now)
    assert len(asked) < 2 * state.page


@given(st.integers(1, 130), st.integers(1, 40), st.lists(st.sampled_from([*Key, " ", "x"]), max_size=6))
def test_nothing_is_ever_wider_or_longer_than_the_screen(
    session_row: Callable[..., Any], columns: int, lines: int, keys: list[Any]
) -> None:
    now = datetime.fromisoformat("2026-03-01T12:00:00Z")
    rows = [session_row(n, title, git_branch="main", forked_from="x" * 9) for n, title in enumerate(TITLES)]
    state = state_of(rows, columns, lines)
    for key in keys:
        state = shown(press(state, key))
        drawn = screen(state, now, preview_lines(state))
        assert len(drawn) <= lines
        assert all(width(plain(line)) <= columns for line in drawn)
