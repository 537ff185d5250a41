"""The picker driven by real keys through prompt_toolkit's pipe input, drawn into a real vt100 output."""

from __future__ import annotations

import asyncio
import io
import re
from typing import TYPE_CHECKING

import pyte
import pytest
from prompt_toolkit.application import get_app_or_none
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from sessions.errors import DataError
from sessions.picker import pick_rewind, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.input.base import PipeInput

    from sessions.picker.state import PickerState
    from sessions.picker.text import Line
    from sessions.rewind.plan import Checkpoint, Plan, Scope

UP, DOWN, HOME, END, PAGE_UP = "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x1b[5~"
ENTER, ESC, BACKSPACE, CTRL_C = "\r", "\x1b", "\x7f", "\x03"
LOOK = "\0"  # no key: wait until all is drawn


class FakeSession:
    """What the picker needs of a session, and which plans it was asked for."""

    title = "A session"

    def __init__(self, checkpoints: list[Checkpoint], plan: Callable[..., Plan]) -> None:
        self._checkpoints = checkpoints
        self._plan = plan
        self.asked: list[tuple[int, Scope, dict[str, object]]] = []

    def checkpoints(self) -> list[Checkpoint]:
        return self._checkpoints

    def plan_rewind(self, to: Checkpoint, *, scope: Scope, **options: object) -> Plan:
        self.asked.append((to.index, scope, options))
        return self._plan(to, scope)


class Typing(io.StringIO):
    """What the picker writes; types the next keys whenever it has drawn all it has to say."""

    def __init__(self, pipe: PipeInput, keys: str) -> None:
        super().__init__()
        self.pipe = pipe
        self.parts = [part for part in re.split("(?<=\r)|\0|(?<=m)(?=\x1b\\[<)", keys) if part]
        self.seen: object = None

    def flush(self) -> None:
        if get_app_or_none() is not None:
            asyncio.get_running_loop().call_soon(self.type)

    def type(self) -> None:
        app = get_app_or_none()
        state = app.layout.current_control.state  # type: ignore[union-attr]
        if self.parts and state is not self.seen and not (state.reading or state.unseen):
            self.seen = state
            self.pipe.send_text(self.parts.pop(0))


def pick(
    session: FakeSession, keys: str, columns: int = 80, lines: int = 24, **options: object
) -> tuple[Plan | None, str]:
    """Pick with ``keys``, each Enter and click followed by a look at what it did."""
    with create_pipe_input() as pipe:
        written = Typing(pipe, keys)
        output = Vt100_Output(written, lambda: Size(lines, columns), term="xterm", enable_cpr=False)
        plan = pick_rewind(session, input=pipe, output=output, **options)  # type: ignore[arg-type]
    return plan, written.getvalue()


def last_screen(written: str, columns: int = 80, lines: int = 24) -> str:
    """Return what stood on the screen before the picker left."""
    screen = pyte.Screen(columns, lines)
    pyte.Stream(screen).feed(written.split("\x1b[0m\r\n\x1b[J\x1b[?7h", maxsplit=1)[0])
    return "\n".join(screen.display)


@pytest.fixture
def session(checkpoint: Callable[..., Checkpoint], plan: Callable[..., Plan]) -> FakeSession:
    return FakeSession([checkpoint(n) for n in range(1, 31)], plan)


@pytest.mark.parametrize(
    ("keys", "index", "scope"),
    [
        (ENTER + ENTER, 30, "both"),
        (UP + UP + ENTER + DOWN + LOOK + ENTER, 28, "conversation"),
        (HOME + ENTER + DOWN + DOWN + LOOK + ENTER, 1, "code"),
        (HOME + END + ENTER + ENTER, 30, "both"),
        (PAGE_UP + ENTER + ENTER, 12, "both"),
        ("number 7" + ENTER + ENTER, 7, "both"),
        ("NUMBER 77" + BACKSPACE + ENTER + ENTER, 7, "both"),
        (ENTER + DOWN + LOOK + BACKSPACE + UP + ENTER + ENTER, 29, "both"),
    ],
)
def test_keys_choose_a_checkpoint_and_a_scope(session: FakeSession, keys: str, index: int, scope: str) -> None:
    plan, _ = pick(session, keys)
    assert plan is not None
    assert (plan.index, plan.scope) == (index, scope)


@pytest.mark.parametrize("keys", [ESC, CTRL_C, "abc" + ESC, ENTER + CTRL_C, "\x04"])
def test_leaving_gives_no_plan(session: FakeSession, keys: str) -> None:
    assert pick(session, keys)[0] is None


def test_plans_are_made_only_when_they_are_looked_at(session: FakeSession) -> None:
    pick(
        session,
        UP * 5 + "num" + BACKSPACE + ENTER + DOWN + LOOK + ENTER,
        history="hide",
        on_conflict="keep",
        paths=["a"],
    )
    options = {"history": "hide", "on_conflict": "keep", "on_running": "cancel", "paths": ["a"]}
    assert session.asked == [(25, "both", options), (25, "conversation", options)]


def test_an_empty_session_says_so_and_any_key_leaves(plan: Callable[..., Plan]) -> None:
    chosen, written = pick(FakeSession([], plan), "x")
    assert chosen is None
    assert "This session has no prompts to go back to." in last_screen(written)


def test_a_plan_that_cannot_be_made_is_shown_and_escape_goes_back(session: FakeSession) -> None:
    def damaged(to: Checkpoint, scope: Scope) -> Plan:
        raise DataError("line 7 is \x1b[31m damaged")

    session._plan = damaged
    chosen, written = pick(session, ENTER + CTRL_C)
    assert chosen is None
    assert r"cannot rewind: line 7 is \x1b[31m damaged" in last_screen(written)


def test_a_bug_while_planning_leaves_the_terminal_and_reaches_the_caller(session: FakeSession) -> None:
    def broken(to: Checkpoint, scope: Scope) -> Plan:
        raise ZeroDivisionError

    session._plan = broken
    with pytest.raises(ZeroDivisionError):
        pick(session, ENTER)


def test_control_characters_in_prompts_are_shown_and_never_sent(
    checkpoint: Callable[..., Checkpoint], plan: Callable[..., Plan]
) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\u202eevil \ud83d\x9b"
    _, written = pick(FakeSession([checkpoint(1, hostile)], plan), ENTER + CTRL_C)
    assert r"\x1b]0;owned\x07\x1b[2J\u202eevil \ud83d\x9b" in last_screen(written)
    assert "\x1b]0;owned" not in written
    assert not {"\u202e", "\x9b", "\x07"} & set(written)


def test_only_one_screen_of_rows_is_drawn(checkpoint: Callable[..., Checkpoint], plan: Callable[..., Plan]) -> None:
    session = FakeSession([checkpoint(n) for n in range(1, 20_001)], plan)
    _, written = pick(session, ESC)
    assert set(re.findall(r"prompt number (\d+)", written)) == {str(n) for n in range(19_983, 20_001)}


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (40, 12), (20, 5), (10, 3), (1, 1)])
def test_every_size_of_terminal_is_usable(session: FakeSession, columns: int, lines: int) -> None:
    plan, _ = pick(session, UP + ENTER + ENTER, columns, lines)
    assert plan is not None
    assert plan.index == 29


def test_no_color_writes_no_color(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    _, written = pick(session, ESC)
    assert not any(f"\x1b[0;{code}" in written or f";{code}m" in written for code in range(30, 38))
    assert ";38;5;" not in written


def click(line: int) -> str:
    return f"\x1b[<0;12;{line}M\x1b[<0;12;{line}m"


def test_a_click_enters_that_row_and_selects_that_choice(session: FakeSession) -> None:
    row_of_prompt_15 = 3 + 2  # three lines above the rows, of which the first is prompt 13
    plan, written = pick(session, click(row_of_prompt_15 + 1) + LOOK + click(5) + LOOK + ENTER)
    assert plan is not None
    assert (plan.index, plan.scope) == (15, "conversation")
    assert "\x1b[?1000h" in written


@pytest.mark.parametrize("early", [ENTER, ENTER * 5, click(4), click(4) * 3, "x" * 3000 + ENTER])
def test_what_is_typed_while_a_plan_is_made_carries_nothing_out(session: FakeSession, early: str) -> None:
    make = session._plan

    def slow(to: Checkpoint, scope: Scope) -> Plan:
        typing.pipe.send_text(early)  # all of it lies in the terminal before the plan can be drawn
        return make(to, scope)

    session._plan = slow
    with create_pipe_input() as pipe:
        typing = Typing(pipe, ENTER + CTRL_C)
        output = Vt100_Output(typing, lambda: Size(24, 80), term="xterm", enable_cpr=False)
        assert pick_rewind(session, input=pipe, output=output) is None
    assert "❯ code and conversation" in last_screen(typing.getvalue())


def test_what_is_typed_while_the_session_is_read_chooses_nothing(session: FakeSession) -> None:
    read = session.checkpoints

    def slow() -> list[Checkpoint]:
        typing.pipe.send_text(UP + ENTER + "number")
        return read()

    session.checkpoints = slow  # type: ignore[method-assign]
    with create_pipe_input() as pipe:
        typing = Typing(pipe, ESC)
        output = Vt100_Output(typing, lambda: Size(24, 80), term="xterm", enable_cpr=False)
        pick_rewind(session, input=pipe, output=output)
    assert "reading the session …" in typing.getvalue()
    assert "Type to filter" in last_screen(typing.getvalue())
    assert session.asked == []


def test_an_error_while_the_session_is_read_reaches_the_caller(session: FakeSession) -> None:
    def damaged() -> list[Checkpoint]:
        raise DataError("no")

    session.checkpoints = damaged  # type: ignore[method-assign]
    with pytest.raises(DataError):
        pick(session, "")


def test_a_refused_plan_says_why_and_enter_does_nothing(
    checkpoint: Callable[..., Checkpoint], plan: Callable[..., Plan]
) -> None:
    session = FakeSession([checkpoint(1)], lambda to, scope: plan(to, scope, refused="a.py changed since"))
    chosen, written = pick(session, ENTER + LOOK + ENTER + LOOK + CTRL_C)
    assert chosen is None
    assert "refused: a.py changed since" in last_screen(written)


def test_scrolling_a_long_plan_does_not_make_its_lines_again(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    lines = rows.plan_lines

    def counted(state: PickerState) -> list[Line]:
        made.append(state.confirm.plan if state.confirm else None)
        return lines(state)

    monkeypatch.setattr(rows, "plan_lines", counted)
    pick(session, ENTER + LOOK + "\x1b[6~" + LOOK + "\x1b[6~" + LOOK + "\x1b[5~" + LOOK + CTRL_C)
    assert sum(plan is not None for plan in made) == 1


def test_a_dry_run_says_so_on_both_screens(session: FakeSession) -> None:
    chosen, written = pick(session, ENTER + ENTER, dry_run=True)
    assert chosen is not None
    assert "Rewind (dry run)" in written
    assert "dry run ·" in last_screen(written)


def test_ctrl_c_is_an_interrupt_for_who_asks(session: FakeSession) -> None:
    with pytest.raises(KeyboardInterrupt):
        pick(session, CTRL_C, interruptible=True)
    assert pick(session, ESC, interruptible=True)[0] is None


def test_the_picker_works_inside_a_running_event_loop(session: FakeSession) -> None:
    async def host() -> Plan | None:
        return pick(session, ENTER + ENTER)[0]

    plan = asyncio.run(host())
    assert plan is not None
    assert plan.index == 30
