"""What a key does to the resume picker: tables for what users do, laws for everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.picker.keys import Click, Key, Press, typed
from sessions.picker.resume_state import (
    Listing,
    ResumeState,
    deleted,
    learnt,
    listed,
    looked,
    measured,
    press,
    renamed,
    resize,
    shown,
    wanted,
    weighed,
)

LINES = [(("", f"line {n}"),) for n in range(40)]
UP, DOWN, ENTER, ESC, DELETE, RENAME = Key.UP, Key.DOWN, Key.ENTER, Key.ESCAPE, Key.DELETE, Key.RENAME


def listing(rows: Sequence[Any]) -> Listing:
    def search(text: str) -> list[int]:
        found = [at for at, row in enumerate(rows) if text.strip() in (row.title or "")]
        return sorted(found, key=lambda at: len(rows[at].title))  # not the order of the list

    return Listing(rows, search)


def granted(state: ResumeState, rows: Sequence[Any]) -> ResumeState:
    """What was wished for, done, until nothing is."""
    while (wish := wanted(state)) is not None:
        match wish.what:
            case "list":
                state = listed(state, state.scope, listing(rows))
            case "look":
                state = looked(state, wish.row, LINES)  # type: ignore[arg-type]
            case "weigh":
                state = weighed(state, wish.row, "2 subagents go with it")  # type: ignore[arg-type]
            case "rename":
                state = renamed(state, wish.row, "renamed", failed=False)  # type: ignore[arg-type]
            case "delete":
                state = deleted(state, wish.row, "deleted", failed=False)  # type: ignore[arg-type]
    return state


def drawn(state: ResumeState) -> ResumeState:
    return shown(measured(state, len(LINES) if state.preview is not None and state.preview.lines else 0))


def after(state: ResumeState, rows: Sequence[Any], *keys: Press) -> ResumeState:
    """The state after keys, each typed when all was drawn that the one before asked for."""
    for key in keys:
        state = drawn(granted(press(state, key), rows))
    return state


@pytest.fixture
def rows(session_row: Callable[..., Any]) -> list[Any]:
    return [session_row(n) for n in range(30)]


@pytest.fixture
def start(rows: list[Any]) -> ResumeState:
    return drawn(granted(resize(ResumeState(several=True), 80, 16), rows))


def current(state: ResumeState) -> int | None:
    return None if state.current is None else int(state.current.id[:8])


@pytest.mark.parametrize(
    ("keys", "number"),
    [
        ((), 0),
        ((UP,), 0),
        ((DOWN, DOWN), 2),
        ((Key.PAGE_DOWN,), 10),
        ((Key.END,), 29),
        ((Key.END, Key.PAGE_UP, Key.HOME), 0),
        ((Key.WHEEL_DOWN, Click(4)), 4),
        ((Click(9), Click(10)), 9),
        ((Key.LEFT, Key.RIGHT, Key.ERASE), 0),
    ],
)
def test_moving(start: ResumeState, rows: list[Any], keys: Sequence[Press], number: int) -> None:
    state = after(start, rows, *keys)
    assert current(state) == number
    assert state.top <= state.selected < state.top + state.page


def test_what_is_typed_filters_and_the_best_is_selected(start: ResumeState, rows: list[Any]) -> None:
    state = after(start, rows, Key.END, "n", "umber 2")
    assert [int(rows[at].id[:8]) for at in state.matches] == [2, *range(20, 30)]
    assert current(state) == 2
    assert current(after(state, rows, DOWN)) == 20


def test_escape_clears_the_filter_and_then_leaves(start: ResumeState, rows: list[Any]) -> None:
    state = after(start, rows, "number 2", DOWN, DOWN, ESC)
    assert (state.filter, state.left, current(state)) == ("", False, 21)
    assert after(state, rows, ESC).left


@pytest.mark.parametrize(
    ("typed", "scopes"),
    [
        ([Key.ALL], ["all"]),
        ([Key.WORKTREES], ["worktrees"]),
        ([Key.WORKTREES, Key.ALL], ["worktrees", "all"]),
        ([Key.ALL, Key.WORKTREES], ["all", "all"]),
        ([Key.ALL, Key.WORKTREES, Key.ALL], ["all", "all", "worktrees"]),
        ([Key.ALL, Key.ALL], ["all", "project"]),
    ],
)
def test_the_scope_that_is_shown_and_all_projects_win(
    start: ResumeState, rows: list[Any], typed: list[Key], scopes: list[str]
) -> None:
    state, found = start, []
    for key in typed:
        state = press(state, key)
        found.append(state.scope)
        state = drawn(granted(state, rows))
    assert found == scopes


def test_worktrees_are_no_scope_where_there_is_only_one_and_candidates_have_none(
    start: ResumeState, rows: list[Any]
) -> None:
    assert press(replace(start, several=False), Key.WORKTREES).scope == "project"
    fixed = replace(start, fixed=True)
    assert after(fixed, rows, Key.ALL, Key.WORKTREES).scope == "project"


def test_another_scope_keeps_the_selected_session_and_the_filter(start: ResumeState, rows: list[Any]) -> None:
    state = press(after(start, rows, "number", *[DOWN] * 12), Key.ALL)
    assert (state.reading, state.current) == (True, None)
    assert current(drawn(granted(state, rows[::-1]))) == 12
    assert state.filter == "number"


def test_a_list_that_comes_too_late_is_dropped(start: ResumeState, rows: list[Any]) -> None:
    state = press(press(start, Key.ALL), Key.ALL)
    assert listed(state, "all", listing(rows[:1])) is state


@pytest.mark.parametrize("key", [ENTER, " ", Key.PREVIEW, RENAME, DELETE, Click(3)])
def test_a_key_never_acts_on_a_row_that_was_not_seen(rows: list[Any], key: Press) -> None:
    state = granted(ResumeState(), rows)
    assert press(ResumeState(), key) == ResumeState()
    assert press(state, key) is state
    assert press(shown(state), key) != shown(state)


def test_what_is_typed_while_the_list_is_read_is_the_filter(rows: list[Any]) -> None:
    state = granted(press(press(ResumeState(), "number"), " 2"), rows)
    assert (state.filter, current(state)) == ("number 2", 2)
    assert press(ResumeState(), ESC).left


def test_enter_resumes_and_a_click_does_not(start: ResumeState, rows: list[Any]) -> None:
    assert after(start, rows, Click(3)).outcome is None
    state = after(start, rows, Click(3), ENTER)
    assert (state.left, state.outcome) == (True, rows[3])
    assert after(start, rows, "nothing is like this", ENTER).outcome is None


@pytest.mark.parametrize("leave", [ESC, Key.BACKSPACE, " ", Key.PREVIEW])
def test_space_looks_and_goes_back(start: ResumeState, rows: list[Any], leave: Press) -> None:
    state = after(start, rows, DOWN, " ")
    assert state.preview is not None
    assert state.preview.row is rows[1]
    state = after(state, rows, leave)
    assert (state.preview, current(state), state.left) == (None, 1, False)


def test_space_is_part_of_a_filter_and_tab_looks_always(start: ResumeState, rows: list[Any]) -> None:
    state = after(start, rows, "number", " ")
    assert (state.filter, state.preview) == ("number ", None)
    assert after(state, rows, Key.PREVIEW).preview is not None


@pytest.mark.parametrize(
    ("keys", "up"),
    [
        ((), 0),
        ((UP, UP), 2),
        ((UP, DOWN, DOWN), 0),
        ((Key.PAGE_UP,), 12),
        ((Key.HOME,), 28),
        ((Key.HOME, UP), 28),
        ((Key.HOME, Key.END), 0),
        ((Key.WHEEL_UP,), 1),
    ],
)
def test_a_preview_begins_at_its_end(start: ResumeState, rows: list[Any], keys: Sequence[Press], up: int) -> None:
    state = after(start, rows, " ", *keys)
    assert state.preview is not None
    assert state.preview.up == up


def test_enter_in_a_preview_resumes_when_it_was_seen(start: ResumeState, rows: list[Any]) -> None:
    state = granted(press(start, " "), rows)
    assert press(state, ENTER) is state
    assert after(drawn(state), rows, ENTER).outcome is rows[0]


@pytest.mark.parametrize(
    ("keys", "title"),
    [
        ((Key.CLEAR, "New"), "New"),
        ((" x",), "session number 0 x"),
        ((Key.HOME, "A "), "A session number 0"),
        ((Key.LEFT, "1"), "session number 10"),
        ((Key.BACKSPACE, Key.BACKSPACE), "session number"),
        ((Key.HOME, Key.ERASE, "S"), "Session number 0"),
        ((Key.HOME, Key.BACKSPACE, Key.LEFT, "x"), "xsession number 0"),
        ((Key.END, Key.RIGHT, Key.ERASE, "\n日\x1b本"), "session number 0 日本"),
        ((Key.CLEAR, "a\tb\r\nc"), "a b c"),
        ((Key.CLEAR, "a" * 2000), "a" * 1000),
    ],
)
def test_a_title_is_edited_in_place(start: ResumeState, rows: list[Any], keys: Sequence[Press], title: str) -> None:
    state = press(after(start, rows, RENAME, *keys), ENTER)
    wish = wanted(state)
    assert wish is not None
    assert (wish.what, wish.row, wish.title.strip()) == ("rename", rows[0], title)
    assert state.renaming is None


@pytest.mark.parametrize("title", ["Given", "on two\nlines", "  and  spaces "])
def test_a_title_that_is_left_blank_or_unchanged_changes_nothing(
    session_row: Callable[..., Any], rows: list[Any], title: str
) -> None:
    rows = [session_row(0, title, given_title=title), *rows[1:]]
    typing = after(drawn(granted(ResumeState(), rows)), rows, RENAME)
    assert after(typing, rows, ESC).renaming is None
    unchanged = press(typing, ENTER)
    assert (wanted(unchanged), unchanged.renaming) == (None, None)
    blank = press(press(typing, Key.CLEAR), ENTER)
    assert (blank.said, blank.failed, blank.renaming is not None) == ("a title cannot be empty", True, True)


@pytest.mark.parametrize("prompt", ["Fix the login", "Fix\nthe login", "Fix \t the login"])
def test_enter_makes_the_prompt_that_was_shown_the_title(
    session_row: Callable[..., Any], rows: list[Any], prompt: str
) -> None:
    rows = [session_row(0, prompt), *rows[1:]]
    wish = wanted(press(after(drawn(granted(ResumeState(), rows)), rows, RENAME), ENTER))
    assert wish is not None
    assert (wish.what, wish.title) == ("rename", "Fix the login")


def test_a_renamed_session_stays_selected_where_it_is_listed_now(start: ResumeState, rows: list[Any]) -> None:
    state = press(after(start, rows, DOWN, DOWN, RENAME, "x"), ENTER)
    state = renamed(state, rows[2], "done", failed=False)
    assert (state.said, state.changed, state.reading) == ("done", True, False)
    assert current(granted(state, [rows[2], *rows[:2], *rows[3:]])) == 2
    failed = renamed(state, rows[2], "it is locked", failed=True)
    assert (failed.said, failed.failed) == ("it is locked", True)


def test_ctrl_d_deletes_when_it_is_pressed_twice(start: ResumeState, rows: list[Any]) -> None:
    asked = after(start, rows, DOWN, DELETE)
    assert asked.doomed is not None
    assert asked.doomed.note == "2 subagents go with it"
    state = after(asked, rows, DELETE)
    assert rows[1] not in [rows[at] for at in state.matches]
    assert (current(state), state.said, state.changed, len(state.matches)) == (2, "deleted", True, 29)
    assert after(state, rows, "number 1", Key.HOME).matches[0] != 1


def test_a_second_ctrl_d_before_the_question_was_seen_is_none(start: ResumeState, rows: list[Any]) -> None:
    state = press(press(start, DELETE), DELETE)
    assert (wanted(state).what, state.busy) == ("weigh", None)  # type: ignore[union-attr]
    state = press(granted(state, rows), DELETE)
    assert state.busy is None
    assert press(drawn(state), DELETE).busy is not None


@pytest.mark.parametrize("key", [ESC, ENTER, DOWN, "y", " ", RENAME, Click(2), ""])
def test_any_other_key_cancels_a_deletion_and_does_nothing_else(
    start: ResumeState, rows: list[Any], key: Press
) -> None:
    state = after(start, rows, DELETE, key)
    assert (state.doomed, state.left, state.filter, current(state), state.renaming) == (None, False, "", 0, None)
    assert after(start, rows, DELETE, key, DELETE).doomed is not None


def test_a_deletion_that_failed_is_said_and_the_session_stays(start: ResumeState, rows: list[Any]) -> None:
    state = press(after(start, rows, DELETE), DELETE)
    state = deleted(state, rows[0], "it is open elsewhere", failed=True)
    assert (state.said, state.failed, state.changed, len(state.matches)) == ("it is open elsewhere", True, False, 30)
    assert press(state, DOWN).said == ""


def test_ctrl_c_leaves_when_what_is_carried_out_is_done(start: ResumeState, rows: list[Any]) -> None:
    state = press(press(after(start, rows, DELETE), DELETE), Key.INTERRUPT)
    assert not state.left
    assert press(state, ENTER) is state
    state = deleted(state, rows[0], "deleted", failed=False)
    assert (state.left, state.interrupted, state.changed, state.outcome) == (True, True, True, None)
    assert press(start, Key.INTERRUPT).interrupted


def test_what_is_learnt_later_is_found_and_the_selected_session_stays(rows: list[Any]) -> None:
    known = [5]
    listing = Listing(rows, lambda _: sorted(known), learn=lambda: lambda: False)
    state = drawn(listed(ResumeState(), "project", listing))
    assert wanted(state) is None
    state = press(state, "x")
    assert wanted(state).what == "learn"  # type: ignore[union-attr]
    known += [2, 7]
    assert list(learnt(state, listing, more=True).matches) == [5]
    state = learnt(state, listing, more=False)
    assert (list(state.matches), current(state), state.unseen, wanted(state)) == ([2, 5, 7], 5, False, None)
    assert learnt(state, Listing(), more=True) is state
    known[:] = [2]
    assert learnt(state, listing, more=False).unseen


keys = st.one_of(
    st.sampled_from(Key), st.builds(Click, st.integers(-2, 40)), st.sampled_from([" ", "n", "2", "日", ""])
)
steps = st.lists(st.one_of(keys, st.sampled_from(["grant", "draw", "small", "large"])), max_size=40)


@given(steps)
def test_laws(session_row: Callable[..., Any], script: list[Any]) -> None:
    rows = [session_row(n) for n in range(25)]
    state = ResumeState(several=True)
    for step in script:
        before = state
        match step:
            case "grant":
                state = granted(state, rows)
            case "draw":
                state = drawn(state)
            case "small" | "large":
                state = resize(state, 20, 5 if step == "small" else 60)
            case _:
                state = press(state, step)
                if before.left:
                    assert state is before
                if state.outcome is not before.outcome:
                    assert not before.unseen
                if state.busy is not None and state.busy.what == "delete" and before.busy is None:
                    assert before.doomed is not None
                    assert before.doomed.seen
        assert 0 <= state.selected <= max(len(state.matches) - 1, 0)
        assert state.top <= state.selected < state.top + state.page
        assert state.preview is None or state.preview.up >= 0


def test_lines_that_are_pasted_stay_apart_in_the_filter():
    assert typed("", "several\nlines\twith\r\nblanks", limit=80) == "several lines with blanks"
