"""The picker in a real pseudo-terminal: a child process draws, pyte shows what a user would see."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator

import pexpect
import pyte
import pytest

from sessions.picker.text import width

HOST = r"""
import sys
from datetime import UTC, datetime, timedelta
from sessions.picker import pick_rewind
from sessions.rewind.plan import Checkpoint, FileVerdict, Plan, TouchedFile

now = datetime.now(UTC)

class Session:
    title = "Terminal test"
    def checkpoints(self):
        prompts = ["fix the login bug", "\x1b[31mred\x07 \u202eprompt", "日本語のプロンプト " * 9, "add tests " * 20]
        return [
            Checkpoint(f"msg-{n}", n, prompts[n % 4], now - timedelta(hours=41 - n), (TouchedFile("a.py", "modified"),),
                       12, 3, compacted=n == 38)
            for n in range(1, 41)
        ]
    def plan_rewind(self, to, *, scope, **options):
        files = tuple(FileVerdict(f"src/file_{n}.py", "restore", insertions=1) for n in range(30))
        return Plan("s", to.id, to.index, scope, "rewrite", "overwrite", "cancel", to.prompt, 3, files, (), ())

plan = pick_rewind(Session())
print("chosen:", plan and (plan.index, plan.scope))
"""


class Terminal:
    """A child process in a pseudo-terminal and the screen it draws."""

    def __init__(self, columns: int, lines: int) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.Stream(self.screen)
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.child = pexpect.spawn(
            sys.executable, ["-c", HOST], dimensions=(lines, columns), env=environment, encoding="utf-8", timeout=30
        )
        self.raw = ""

    def shows(self, *texts: str) -> str:
        """Wait until all of ``texts`` are on the screen; return the screen."""
        deadline = time.monotonic() + 30
        while True:
            shown = "\n".join(line.rstrip() for line in self.screen.display)
            if all(text in shown for text in texts):
                return shown
            assert time.monotonic() < deadline, f"{texts} never appeared:\n{shown}"
            self._read()

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self.child.setwinsize(lines, columns)

    def end(self) -> str:
        """Wait for the child to end; return all it wrote."""
        self.raw += self.child.read()
        self.child.close()
        return self.raw

    def _read(self) -> None:
        try:
            part = self.child.read_nonblocking(65_536, timeout=0.5)
        except pexpect.TIMEOUT:
            return
        self.raw += part
        self.stream.feed(part)


@pytest.fixture
def terminal() -> Iterator[Callable[[int, int], Terminal]]:
    opened: list[Terminal] = []

    def open_one(columns: int = 80, lines: int = 24) -> Terminal:
        opened.append(Terminal(columns, lines))
        return opened[-1]

    yield open_one
    for one in opened:
        one.child.close(force=True)


def test_filter_navigate_confirm(terminal: Callable[..., Terminal]) -> None:
    user = terminal()
    user.shows("Rewind · Terminal test", "40 prompts", "❯ 40")
    user.press("LOGIN")
    user.shows("Filter LOGIN▏", "10 of 40", "❯ 40")
    user.press("\x1b[A\x1b[A")
    user.shows("❯ 32")
    user.press("\r")
    user.shows("Rewind to before prompt 32: fix the login bug", "❯ code and conversation", "more lines, PgDn")
    user.press("\x1b[6~\x1b[6~\x1b[6~")
    user.shows("src/file_29.py")
    user.press("\x1b[B\r")
    assert "chosen: (32, 'conversation')" in user.end()


def test_escape_goes_back_and_then_leaves_and_the_terminal_is_as_before(terminal: Callable[..., Terminal]) -> None:
    user = terminal()
    user.shows("❯ 40")
    user.press("\r")
    user.shows("❯ code and conversation")
    user.press("\x1b")
    user.shows("Type to filter", "❯ 40")
    user.press("\x1b")
    written = user.end()
    assert "chosen: None" in written
    for on, off in [("?1049h", "?1049l"), ("?1000h", "?1000l"), ("?2004h", "?2004l"), ("?25l", "?25h")]:
        assert written.rindex(on) < written.rindex(off)


def test_a_mouse_click_enters_that_row(terminal: Callable[..., Terminal]) -> None:
    user = terminal()
    shown = user.shows("❯ 40").splitlines()
    line = next(at for at, text in enumerate(shown, 1) if text.startswith("  36"))
    user.press(f"\x1b[<0;20;{line}M\x1b[<0;20;{line}m")
    shown = user.shows("Rewind to before prompt 36:", "  code").splitlines()
    line = next(at for at, text in enumerate(shown, 1) if text == "  code")
    user.press(f"\x1b[<0;4;{line}M\x1b[<0;4;{line}m")
    assert "chosen: (36, 'code')" in user.end()


def test_a_resized_terminal_keeps_the_selection_in_sight(terminal: Callable[..., Terminal]) -> None:
    user = terminal()
    user.shows("❯ 40")
    user.press("\x1b[5~")
    user.shows("❯ 22")
    user.resize(40, 12)
    user.shows("❯ 22", "Enter look · Esc leave")
    user.resize(100, 40)
    user.shows("❯ 22", "PgUp PgDn Home End choose")
    user.press("\x03")
    assert "chosen: None" in user.end()


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_columns_stand_and_nothing_hostile_is_sent(terminal: Callable[..., Terminal], columns: int) -> None:
    user = terminal(columns, 24)
    shown = user.shows("❯ 40", r"\x1b[31mred\x07").splitlines()
    rows = [text for text in shown if " +12 -3" in text]
    assert len(rows) == 18
    assert all(text.endswith("+12 -3") for text in rows)
    assert len({columns - width(text) for text in rows}) == 1
    user.press("\x03")
    written = user.end()
    assert "\x1b[31mred" not in written
    assert not {"\u202e", "\x07"} & set(written)

