"""The resume picker driven by real keys through prompt_toolkit's pipe input, drawn into a real vt100 output."""

from __future__ import annotations

import asyncio
import io
import re
import threading
from typing import TYPE_CHECKING, Any

import pyte
import pytest
from prompt_toolkit.application import get_app_or_none
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from sessions.errors import DataError, LockedError
from sessions.picker import resume_rows
from sessions.picker.resume_app import pick
from sessions.picker.resume_state import Listing, ResumeState, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prompt_toolkit.input.base import PipeInput

    from sessions.picker.resume_state import Scope
    from sessions.picker.text import Line

UP, DOWN, ENTER, ESC, CTRL_C = "\x1b[A", "\x1b[B", "\r", "\x1b", "\x03"
CTRL_A, CTRL_D, CTRL_R, CTRL_W, TAB = "\x01", "\x04", "\x12", "\x17", "\t"
LOOK = "\0"  # no key: wait until all is drawn


class FakeShelf:
    """What the picker needs of a store, and what it was asked for."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows
        self.asked: list[tuple[str, ...]] = []
        self.fails: Exception | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    def list(self, scope: Scope) -> Listing:
        self.asked.append(("list", scope))
        self.meanwhile()
        rows = self.rows if scope == "all" else self.rows[:10]
        return Listing(rows, lambda text: [at for at, row in enumerate(rows) if text in row.title])

    def look(self, row: Any) -> Sequence[Line]:
        self._note("look", row)
        return [(("", f"message {n} of {row.title}"),) for n in range(50)]

    def weigh(self, row: Any) -> str:
        self._note("weigh", row)
        return "3 subagents go with it"

    def rename(self, row: Any, title: str) -> None:
        self._note("rename", row, title)

    def delete(self, row: Any) -> str:
        self._note("delete", row)
        return "1 task stopped"

    def _note(self, what: str, row: Any, *more: str) -> None:
        self.asked.append((what, row.title, *more))
        self.meanwhile()
        if self.fails is not None:
            raise self.fails


class Typing(io.StringIO):
    """What the picker writes; types the next keys whenever it has drawn all it has to say."""

    def __init__(self, pipe: PipeInput, keys: str) -> None:
        super().__init__()
        self.pipe = pipe
        self.parts = [part for part in re.split(f"\0|(?<=[{ENTER}{CTRL_A}{CTRL_D}{CTRL_W}{TAB}])", keys) if part]
        self.seen: object = None

    def flush(self) -> None:
        if get_app_or_none() is not None:
            asyncio.get_running_loop().call_soon(self.type)

    def type(self) -> None:
        app = get_app_or_none()
        state = app.layout.current_control.state  # type: ignore[union-attr]
        if self.parts and state is not self.seen and not (state.unseen or wanted(state)):
            self.seen = state
            self.pipe.send_text(self.parts.pop(0))


def choose(shelf: FakeShelf, keys: str, columns: int = 80, lines: int = 24, **state: Any) -> tuple[ResumeState, str]:
    """Choose with ``keys``; after Enter, Tab, and Ctrl with A, D or W it is waited for what they did."""
    with create_pipe_input() as pipe:
        written = Typing(pipe, keys)
        output = Vt100_Output(written, lambda: Size(lines, columns), term="xterm", enable_cpr=False)
        last = pick(shelf, ResumeState(several=True, **state), input=pipe, output=output)
    return last, written.getvalue()


def last_screen(written: str, columns: int = 80, lines: int = 24) -> str:
    """Return what stood on the screen before the picker left."""
    screen = pyte.Screen(columns, lines)
    pyte.Stream(screen).feed(written.split("\x1b[0m\r\n\x1b[J\x1b[?7h", maxsplit=1)[0])
    return "\n".join(line.rstrip() for line in screen.display)


@pytest.fixture
def shelf(session_row: Callable[..., Any]) -> FakeShelf:
    return FakeShelf([session_row(n) for n in range(30)])


@pytest.mark.parametrize(
    ("keys", "title"),
    [
        (ENTER, "session number 0"),
        (DOWN + DOWN + ENTER, "session number 2"),
        ("number 7" + LOOK + ENTER, "session number 7"),
        (CTRL_A + "\x1b[F" + ENTER, "session number 29"),
        (CTRL_W + CTRL_A + "number 2" + LOOK + DOWN + ENTER, "session number 20"),
        (DOWN + " " + LOOK + ENTER, "session number 1"),
        ("number 3" + LOOK + TAB + ESC + LOOK + ENTER, "session number 3"),
    ],
)
def test_keys_choose_a_session(shelf: FakeShelf, keys: str, title: str) -> None:
    last, _ = choose(shelf, keys)
    assert last.outcome is not None
    assert last.outcome.title == title


@pytest.mark.parametrize("keys", [ESC, CTRL_C, "zebra" + LOOK + CTRL_C, " " + LOOK + CTRL_C])
def test_leaving_chooses_nothing(shelf: FakeShelf, keys: str) -> None:
    last, _ = choose(shelf, keys)
    assert (last.outcome, last.left, last.changed) == (None, True, False)
    assert not [asked for asked in shelf.asked if asked[0] in {"rename", "delete"}]


def test_each_scope_is_listed_when_it_is_asked_for(shelf: FakeShelf) -> None:
    _, written = choose(shelf, CTRL_A + CTRL_A + CTRL_W + CTRL_C)
    assert [asked[1] for asked in shelf.asked] == ["project", "all", "project", "worktrees"]
    assert "all worktrees" in last_screen(written)


@pytest.mark.parametrize(
    "early", [ENTER, CTRL_D * 3, CTRL_R + "x" + ENTER, " ", TAB + ENTER, "\x1b[<0;4;5M\x1b[<0;4;5m"]
)
def test_what_is_typed_while_the_list_is_read_acts_on_no_row(shelf: FakeShelf, early: str) -> None:
    with create_pipe_input() as pipe:
        shelf.meanwhile = lambda: pipe.send_text(early)
        written = Typing(pipe, CTRL_C)
        output = Vt100_Output(written, lambda: Size(24, 80), term="xterm", enable_cpr=False)
        last = pick(shelf, ResumeState(), input=pipe, output=output)
    assert last.outcome is None
    assert "listing the sessions …" in written.getvalue()
    assert [asked[0] for asked in shelf.asked] == ["list"]


def test_a_second_ctrl_d_typed_before_the_question_stood_there_deletes_nothing(shelf: FakeShelf) -> None:
    with create_pipe_input() as pipe:
        shelf.meanwhile = lambda: pipe.send_text(CTRL_D * 2) if shelf.asked[-1][0] == "weigh" else None
        written = Typing(pipe, CTRL_D + CTRL_C)
        output = Vt100_Output(written, lambda: Size(24, 80), term="xterm", enable_cpr=False)
        pick(shelf, ResumeState(), input=pipe, output=output)
    assert [asked[0] for asked in shelf.asked] == ["list", "weigh"]
    assert "press Ctrl+D again to delete session number 0; 3 subagents go with it" in last_screen(written.getvalue())


def test_a_deletion_says_what_happened(shelf: FakeShelf) -> None:
    last, written = choose(shelf, DOWN + CTRL_D + CTRL_D + CTRL_C)
    assert ("delete", "session number 1") in shelf.asked
    assert "session number 1 was deleted; 1 task stopped" in last_screen(written)
    assert "9 sessions" in last_screen(written)
    assert last.changed


def test_a_renaming_reads_the_list_again(shelf: FakeShelf) -> None:
    last, written = choose(shelf, DOWN + CTRL_R + "\x15New" + ENTER + CTRL_C)
    assert ("rename", "session number 1", "New") in shelf.asked
    assert shelf.asked[-1] == ("list", "project")
    assert "it is called New now" in last_screen(written)
    assert last.changed


@pytest.mark.parametrize("keys", [CTRL_D + CTRL_D, CTRL_R + "x" + ENTER])
@pytest.mark.parametrize("error", [LockedError("s", 4711, "agent"), PermissionError(13, "Permission denied", "/s")])
def test_what_fails_is_said_and_the_picker_stays(shelf: FakeShelf, keys: str, error: Exception) -> None:
    shelf.fails = error
    last, written = choose(shelf, keys + CTRL_C)
    said = "session s is open in process 4711 (agent)" if isinstance(error, LockedError) else "Permission denied"
    assert said in last_screen(written)
    assert not last.changed


def test_a_session_that_cannot_be_read_says_so_in_its_preview(shelf: FakeShelf) -> None:
    shelf.fails = DataError("it is gone")
    _, written = choose(shelf, TAB + CTRL_C)
    assert "cannot be read: it is gone" in last_screen(written)


def test_an_error_while_listing_reaches_the_caller(shelf: FakeShelf) -> None:
    def damaged() -> None:
        raise DataError("no")

    shelf.meanwhile = damaged
    with pytest.raises(DataError):
        choose(shelf, "")


def test_a_preview_does_not_wait_for_what_is_read_of_other_sessions(shelf: FakeShelf) -> None:
    looked = threading.Event()
    look = shelf.look

    def learn() -> Callable[[], bool]:
        pipe.send_text(TAB)
        assert looked.wait(10)
        return lambda: False

    def looks(row: Any) -> Sequence[Line]:
        looked.set()
        return look(row)

    search = Listing(shelf.rows, lambda _: [3], learn=learn)
    shelf.list = lambda scope: search  # type: ignore[method-assign]
    shelf.look = looks  # type: ignore[method-assign]
    with create_pipe_input() as pipe:
        written = Typing(pipe, "x" + LOOK + CTRL_C)
        output = Vt100_Output(written, lambda: Size(24, 80), term="xterm", enable_cpr=False)
        last = pick(shelf, ResumeState(), input=pipe, output=output)
    assert shelf.asked == [("look", "session number 3")]
    assert last.preview is not None
    assert not last.learning


def test_scrolling_a_preview_does_not_make_its_lines_again(shelf: FakeShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    lines = resume_rows.preview_lines

    def counted(state: ResumeState) -> list[Line]:
        made.append(state.preview)
        return lines(state)

    monkeypatch.setattr(resume_rows, "preview_lines", counted)
    _, written = choose(shelf, TAB + UP + LOOK + "\x1b[5~" + LOOK + "\x1b[H" + LOOK + CTRL_C)
    assert "message 0 of session number 0" in last_screen(written)
    assert sum(preview is not None for preview in made) == 1


def test_the_mouse_selects_and_scrolls(shelf: FakeShelf) -> None:
    last, _ = choose(shelf, "\x1b[<0;10;6M\x1b[<0;10;6m" + LOOK + "\x1b[<65;10;6M" + LOOK + ENTER)
    assert last.outcome is shelf.rows[3]


def test_a_small_terminal_has_the_selected_row_in_sight(shelf: FakeShelf) -> None:
    _, written = choose(shelf, "\x1b[F" + LOOK + CTRL_C, columns=20, lines=4)
    assert "❯ 26-03 session num…" in last_screen(written, 20, 4)
