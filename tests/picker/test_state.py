"""What a key does to the picker: tables for what users do, laws for everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.picker.confirm import Choice, hidden
from sessions.picker.state import (
    Click,
    Key,
    PickerState,
    Press,
    failed,
    measured,
    opened,
    opening,
    planned,
    press,
    resize,
    shown,
    wanted,
)
from sessions.rewind.plan import Checkpoint, FileVerdict, Plan, Scope

Make = Callable[..., Checkpoint]
MakePlan = Callable[..., Plan]


def presses(state: PickerState, *keys: Press) -> PickerState:
    for key in keys:
        state = press(state, key)
    return state


def of(*prompts: str) -> list[Checkpoint]:
    return [Checkpoint(f"msg-{at}", at, prompt, None) for at, prompt in enumerate(prompts, 1)]


def start(checkpoints: Sequence[Checkpoint], **more: object) -> PickerState:
    """The list, read and drawn."""
    return shown(opened(opening(**more), checkpoints))  # type: ignore[arg-type]


def listed(state: PickerState) -> list[int]:
    return [state.checkpoints[at].index for at in state.matches]


def looked(state: PickerState, make_plan: MakePlan, **more: object) -> PickerState:
    """Give ``state`` the plans it asks for and draw it."""
    while (wish := wanted(state)) is not None:
        checkpoint, scope = wish
        state = planned(state, scope, make_plan(checkpoint, scope, **more))
    return shown(state)


def test_the_newest_checkpoint_is_selected_at_the_start_and_visible() -> None:
    state = resize(start(of(*"abcdefghijklmnopqrstuvwxyz")), 80, 16)
    assert state.current is not None
    assert state.current.index == 26
    assert (state.top, state.page) == (16, 10)


@pytest.mark.parametrize(
    ("keys", "index"),
    [
        ((Key.UP,), 29),
        ((Key.DOWN,), 30),
        ((Key.UP, Key.DOWN), 30),
        ((Key.PAGE_UP,), 20),
        ((Key.PAGE_UP, Key.PAGE_UP, Key.PAGE_DOWN), 20),
        ((Key.HOME,), 1),
        ((Key.HOME, Key.UP), 1),
        ((Key.HOME, Key.PAGE_UP), 1),
        ((Key.HOME, Key.PAGE_DOWN), 11),
        ((Key.HOME, Key.END), 30),
        ((Key.WHEEL_UP, Key.WHEEL_UP, Key.WHEEL_DOWN), 29),
    ],
)
def test_moving(keys: Sequence[Key], index: int) -> None:
    state = presses(resize(start(of(*(str(n) for n in range(30)))), 80, 16), *keys)
    assert state.current is not None
    assert state.current.index == index


@pytest.mark.parametrize(
    ("typed", "indexes"),
    [
        ("", [1, 2, 3, 4]),
        ("login", [1, 3]),
        ("LOGIN", [1, 3]),
        ("login bug", [1]),
        ("  login   bug ", [1]),
        ("bug login", []),
        ("strasse", [4]),
        ("STRAß", [4]),
        ("   ", [1, 2, 3, 4]),
        ("nothing of it", []),
    ],
)
def test_typing_filters_on_the_prompt_in_upper_and_lower_case(typed: str, indexes: list[int]) -> None:
    state = start(of("fix the Login\nbug", "write tests", "login again", "Straße"))
    assert listed(presses(state, *typed)) == indexes
    assert listed(presses(state, typed)) == indexes  # pasted at once


def test_backspace_widens_the_filter_again_and_keeps_the_selected_prompt() -> None:
    state = presses(start(of("alpha one", "beta", "alpha two")), *"alpha o")
    assert listed(state) == [1]
    state = presses(state, Key.BACKSPACE)
    assert listed(state) == [1, 3]
    assert state.current is not None
    assert state.current.index == 1
    assert listed(presses(state, Key.CLEAR)) == [1, 2, 3]
    assert listed(presses(state, *[Key.BACKSPACE] * 20)) == [1, 2, 3]


def test_the_filter_takes_no_control_characters() -> None:
    assert presses(start(of("a")), "a\x1b[2J\n\ud83db").filter == "a[2J b"


def test_escape_leaves_without_an_outcome_also_with_a_filter() -> None:
    state = presses(start(of("a", "b")), "a", Key.ESCAPE)
    assert state.left
    assert state.outcome is None


def test_an_empty_session_is_left_by_any_key() -> None:
    for key in (Key.ENTER, Key.ESCAPE, Key.DOWN, "x", Click(0), Key.LEAVE):
        state = press(start([]), key)
        assert state.left
        assert state.outcome is None


def test_enter_without_a_match_does_nothing() -> None:
    state = presses(start(of("a")), "zzz", Key.ENTER)
    assert state.confirm is None
    assert not state.left


def test_entering_asks_for_the_widest_plan_and_only_then_for_others(checkpoint: Make, plan: MakePlan) -> None:
    state = press(start([checkpoint(1), checkpoint(2)]), Key.ENTER)
    assert wanted(state) == (state.checkpoints[1], "both")
    state = planned(state, "both", plan(state.checkpoints[1]))
    assert wanted(state) is None
    state = press(state, Key.DOWN)
    assert wanted(state) == (state.checkpoints[1], "conversation")


@pytest.mark.parametrize(
    ("more", "choices"),
    [
        ({}, [Choice.BOTH, Choice.CONVERSATION, Choice.CODE, Choice.CANCEL]),
        ({"files": ()}, [Choice.CONVERSATION, Choice.CANCEL]),
        (
            {"files": (FileVerdict("a", "unchanged"), FileVerdict("b", "skip", "lost"))},
            [Choice.CONVERSATION, Choice.CANCEL],
        ),
        ({"files": (), "tasks": ("server",)}, [Choice.BOTH, Choice.CONVERSATION, Choice.CODE, Choice.CANCEL]),
        ({"removed_messages": 0}, [Choice.CODE, Choice.CANCEL]),
        ({"removed_messages": 0, "files": ()}, [Choice.CANCEL]),
    ],
)
def test_choices_that_would_do_nothing_are_hidden(
    checkpoint: Make, plan: MakePlan, more: dict[str, object], choices: list[Choice]
) -> None:
    state = looked(press(start([checkpoint(1)]), Key.ENTER), plan, **more)
    assert state.confirm is not None
    assert list(state.confirm.choices) == choices


@pytest.mark.parametrize("scope", ["conversation", "code"])
def test_only_the_scopes_asked_for_are_offered(checkpoint: Make, plan: MakePlan, scope: Scope) -> None:
    state = looked(press(start([checkpoint(1)], scopes=(scope,)), Key.ENTER), plan)
    assert state.confirm is not None
    assert [choice.scope for choice in state.confirm.choices] == [scope, None]


@pytest.mark.parametrize(("downs", "scope"), [(0, "both"), (1, "conversation"), (2, "code")])
def test_enter_takes_the_plan_that_is_shown(checkpoint: Make, plan: MakePlan, downs: int, scope: Scope) -> None:
    state = looked(press(start([checkpoint(1)]), Key.ENTER), plan)
    for _ in range(downs):
        state = looked(press(state, Key.DOWN), plan)
    state = press(state, Key.ENTER)
    assert state.left
    assert state.outcome is not None
    assert state.outcome.scope == scope


def test_a_click_enters_a_prompt_and_selects_a_choice(checkpoint: Make, plan: MakePlan) -> None:
    state = looked(press(start([checkpoint(n) for n in range(1, 9)]), Click(2)), plan)
    assert state.confirm is not None
    assert state.confirm.checkpoint.index == 3
    state = looked(press(state, Click(1)), plan)
    assert not state.left, "a click selects and never carries out"
    state = press(state, Key.ENTER)
    assert state.left
    assert state.outcome is not None
    assert (state.outcome.index, state.outcome.scope) == (3, "conversation")


def test_a_click_below_the_last_row_does_nothing(checkpoint: Make) -> None:
    state = start([checkpoint(1)])
    assert press(state, Click(1)) == state
    assert press(state, Click(-1)) == state


def test_escape_goes_back_to_the_list_as_it_was(checkpoint: Make, plan: MakePlan) -> None:
    before = presses(start([checkpoint(n) for n in range(1, 9)]), Key.UP, Key.UP, "prompt")
    assert press(looked(press(before, Key.ENTER), plan), Key.ESCAPE) == before


def test_cancel_leaves_the_picker_without_an_outcome(checkpoint: Make, plan: MakePlan) -> None:
    state = looked(press(start([checkpoint(1)]), Key.ENTER), plan)
    for _ in range(3):
        state = looked(press(state, Key.DOWN), plan)
    assert not state.left
    state = press(state, Key.ENTER)
    assert state.left
    assert state.outcome is None


def test_ctrl_c_leaves_from_everywhere_without_an_outcome(checkpoint: Make, plan: MakePlan) -> None:
    listed = start([checkpoint(1)])
    for state in (opening(), listed, press(listed, Key.ENTER), looked(press(listed, Key.ENTER), plan)):
        last = press(state, Key.INTERRUPT)
        assert last.left
        assert last.interrupted
        assert last.outcome is None


def test_a_plan_that_cannot_be_made_leaves_only_the_way_back(checkpoint: Make) -> None:
    before = start([checkpoint(1)])
    state = failed(press(before, Key.ENTER), "the transcript is damaged")
    assert wanted(state) is None
    assert press(state, Key.ENTER) == state, "nobody has seen why"
    assert press(shown(state), Key.ENTER).left
    assert press(shown(state), Key.ESCAPE) == before


@pytest.mark.parametrize("early", [(Key.ENTER,), (Key.ENTER, Key.ENTER), (Click(0),), (Key.ENTER, Click(0), Key.ENTER)])
def test_what_was_pressed_before_the_plan_was_drawn_takes_nothing(
    checkpoint: Make, plan: MakePlan, early: Sequence[Press]
) -> None:
    state = presses(start([checkpoint(1)]), Key.ENTER, *early)
    state = presses(planned(state, "both", plan(checkpoint(1))), *early)
    assert not state.left
    assert state.confirm is not None
    assert state.confirm.chosen == 0
    assert press(shown(state), Key.ENTER).outcome is not None


def test_another_choice_is_taken_only_when_its_plan_was_drawn(checkpoint: Make, plan: MakePlan) -> None:
    state = press(looked(press(start([checkpoint(1)]), Key.ENTER), plan), Key.DOWN)
    assert not press(state, Key.ENTER).left
    state = planned(state, "conversation", plan(checkpoint(1), "conversation"))
    assert not press(state, Key.ENTER).left
    assert press(shown(state), Key.ENTER).outcome is not None


def test_before_the_list_was_drawn_keys_only_move_or_leave(checkpoint: Make) -> None:
    for state in (opening(), opened(opening(), [checkpoint(1), checkpoint(2)])):
        assert presses(state, Key.ENTER, "x", Click(0)) == state
        assert press(state, Key.ESCAPE).left
    assert press(opened(opening(), []), Key.ENTER).left is False


def test_a_plan_that_comes_late_for_another_prompt_is_dropped(checkpoint: Make, plan: MakePlan) -> None:
    state = presses(start([checkpoint(1), checkpoint(2)]), Key.ENTER, Key.ESCAPE, Key.UP, Key.ENTER)
    assert planned(state, "both", plan(checkpoint(2))) == state
    assert wanted(state) == (checkpoint(1), "both")


def test_a_plan_that_would_be_refused_is_not_taken(checkpoint: Make, plan: MakePlan) -> None:
    state = looked(press(start([checkpoint(1)]), Key.ENTER), plan, refused="a.py changed since")
    assert press(state, Key.ENTER) == state


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ""),
        ({"files": ()}, "no file to restore"),
        ({"files": (FileVerdict("a", "skip", "lost"),)}, "no file can be restored"),
        ({"removed_messages": 0}, "no message to remove"),
        ({"removed_messages": 0, "files": ()}, "no file to restore, no message to remove"),
    ],
)
def test_why_a_choice_is_hidden_is_said(checkpoint: Make, plan: MakePlan, more: dict[str, object], why: str) -> None:
    assert hidden(plan(checkpoint(1), **more)) == why


def test_a_long_plan_scrolls_and_another_choice_starts_at_its_top(checkpoint: Make, plan: MakePlan) -> None:
    state = looked(press(resize(start([checkpoint(1)]), 80, 24), Key.ENTER), plan)
    state = measured(state, 100)
    page = state.plan_page
    for key, scroll in [
        (Key.PAGE_DOWN, page), (Key.WHEEL_DOWN, page + 1), (Key.END, 100 - page), (Key.PAGE_DOWN, 100 - page),
        (Key.PAGE_UP, 100 - 2 * page), (Key.HOME, 0), (Key.PAGE_UP, 0), (Key.WHEEL_DOWN, 1), (Key.DOWN, 0),
    ]:  # fmt: skip
        state = press(state, key)
        assert state.confirm is not None
        assert state.confirm.scroll == scroll, key


class Counted(Sequence[Checkpoint]):
    """Checkpoints that count how often one is looked at."""

    def __init__(self, checkpoints: list[Checkpoint]) -> None:
        self.checkpoints = checkpoints
        self.looks = 0

    def __len__(self) -> int:
        return len(self.checkpoints)

    def __getitem__(self, at: int) -> Checkpoint:  # type: ignore[override]
        self.looks += 1
        return self.checkpoints[at]


def test_with_20_000_checkpoints_a_key_looks_at_none_and_a_longer_filter_only_at_what_matched() -> None:
    counted = Counted(of(*(f"prompt {n}" for n in range(20_000))))
    state = start(counted)
    for key in (Key.UP, Key.PAGE_UP, Key.HOME, Key.END, Key.PAGE_DOWN):
        state = press(state, key)
    assert counted.looks == 0
    state = press(state, "prompt 1999")
    assert counted.looks == 20_000
    matched = len(state.matches)
    counted.looks = 0
    press(state, "9")
    assert counted.looks == matched == 11


KEYS = st.one_of(
    st.sampled_from(list(Key)),
    st.builds(Click, st.integers(-3, 40)),
    st.characters(),
    st.sampled_from(["prompt", "2", " ", "ß"]),
    st.tuples(st.integers(-1, 200), st.integers(-1, 60)),
    st.integers(0, 300),
)


@settings(deadline=None)
@given(st.integers(0, 40), st.lists(KEYS, max_size=40), st.sampled_from(["fine", "nothing", "fails"]))
def test_no_key_ever_raises_and_the_window_always_holds_the_selection(
    count: int, keys: list[Press | tuple[int, int] | int], outcome: str
) -> None:
    state = start(of(*(f"prompt {n}" for n in range(count))))
    for key in keys:
        if isinstance(key, tuple):
            state = resize(state, *key)
        elif isinstance(key, int):
            state = measured(state, key)
        else:
            state = press(state, key)
        state = shown(given_what_it_wants(state, outcome))
        assert state.width >= 1
        assert state.height >= 1
        assert 0 <= state.selected <= max(len(state.matches) - 1, 0)
        assert state.top <= state.selected < state.top + state.page
        assert state.top == 0 or state.top + state.page <= len(state.matches)
        assert list(state.matches) == sorted(set(state.matches))
        if state.confirm:
            assert 0 <= state.confirm.chosen < len(state.confirm.choices)
            assert 0 < state.choice_page <= len(state.confirm.choices)
            assert 0 <= state.confirm.scroll <= max(state.confirm.length - state.plan_page, 0)
        assert state.outcome is None or state.left


def given_what_it_wants(state: PickerState, outcome: str) -> PickerState:
    while (wish := wanted(state)) is not None:
        to, scope = wish
        if outcome == "fails":
            state = failed(state, "no")
            continue
        files = () if outcome == "nothing" else (FileVerdict("a", "delete"),)
        removed = 0 if outcome == "nothing" else 1
        plan = Plan("s", to.id, to.index, scope, "rewrite", "overwrite", "cancel", "", removed, files, (), ())
        state = planned(state, scope, plan)
    return state
