"""The picker in a real pseudo-terminal: a child process draws, pyte shows what a user would see."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from sessions import SessionStore, assistant_message
from sessions.cli.app import run
from sessions.picker.text import width

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pseudo_terminal import Terminal

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


@pytest.fixture
def terminal(in_terminal: Callable[..., Terminal]) -> Callable[..., Terminal]:
    def open_one(columns: int = 80, lines: int = 24, arguments: list[str] | None = None) -> Terminal:
        return in_terminal(arguments or ["-c", HOST], columns, lines)

    return open_one


def test_filter_navigate_confirm(terminal: Callable[..., Terminal]) -> None:
    user = terminal()
    user.shows("Rewind · Terminal test", "40 prompts", "❯ 40")
    user.press("LOGIN")
    user.shows("Filter LOGIN▏", "10 of 40", "❯ 40")
    user.press("\x1b[A\x1b[A")
    user.shows("❯ 32")
    user.press("\r")
    user.shows(
        "Rewind to before prompt 32: fix the login bug", "❯ code and conversation", "30 files", "more lines below"
    )
    user.press("\x1b[6~\x1b[6~\x1b[6~")
    user.shows("src/file_29.py", "more lines above")
    user.press("\x1b[B")
    user.shows("❯ conversation", "src/file_0.py")
    user.press("\r")
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
    user.shows("❯ code\n", "src/file_0.py")
    user.press("\r")
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
    shown = user.shows("❯ 40", r"\x1b[31mred\x07", "Esc leave").splitlines()
    rows = [text for text in shown if " +12 -3" in text]
    assert len(rows) == 18
    assert all(text.endswith("+12 -3") for text in rows)
    assert len({columns - width(text) for text in rows}) == 1
    user.press("\x03")
    written = user.end()
    assert "\x1b[31mred" not in written
    assert not {"\u202e", "\x07"} & set(written)


SLOW = HOST.replace(
    "def plan_rewind(self, to, *, scope, **options):",
    """def plan_rewind(self, to, *, scope, **options):
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.05)""",
).replace("import sys", "import os, sys, time")


@pytest.mark.parametrize("early", ["\r", "\r\r\r", "\x1b[<0;4;4M\x1b[<0;4;4m" * 2])
def test_keys_typed_before_the_confirm_screen_was_drawn_do_not_act_on_it(
    terminal: Callable[..., Terminal], tmp_path: Path, early: str
) -> None:
    user = terminal(arguments=["-c", SLOW, str(tmp_path / "go on")])
    user.shows("❯ 40")
    user.press("\r")
    user.shows("Rewind to before prompt 40", "planning …")
    user.press(early)
    user.press("\x1b[A")
    (tmp_path / "go on").touch()
    user.shows("❯ code and conversation", "30 files")
    user.press("\x03")
    assert "chosen: None" in user.end()


def test_ctrl_c_leaves_while_a_plan_is_made(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    user = terminal(arguments=["-c", SLOW, str(tmp_path / "go on")])
    user.shows("❯ 40")
    user.press("\r")
    user.shows("planning …")
    user.press("\x03")
    assert "chosen: None" in user.end()


@pytest.mark.parametrize(("columns", "lines"), [(10, 3), (20, 6), (40, 8)])
def test_in_a_tiny_terminal_the_chosen_choice_is_in_sight(
    terminal: Callable[..., Terminal], columns: int, lines: int
) -> None:
    user = terminal(columns, lines)
    user.shows("❯ 40")
    user.press("\r")
    for choice in ("code and", "conversa", "code", "cancel"):
        user.shows(f"❯ {choice}"[:columns].rstrip() if columns > 10 else f"❯ {choice}"[:9].rstrip())
        user.press("\x1b[B")
    user.press("\r")
    assert "chosen: None" in user.end()


@pytest.fixture
def real(tmp_path: Path) -> tuple[Path, Path, str]:
    """A session of two turns on a real project: where it is kept, the project, its id."""
    root, project = tmp_path / "store", tmp_path / "project"
    project.mkdir()
    with SessionStore(root).create(project) as session:
        for text, prompt in [("one\n", "write one"), ("two\n", "make it two")]:
            with session.begin_turn(prompt) as turn, turn.edit("number.txt"):
                (project / "number.txt").write_text(text)
            session.append(assistant_message("done"))
    return root, project, session.id


def snapshot(*directories: Path) -> dict[str, tuple[bytes, int]]:
    """Every byte and every time below ``directories``, but for the lock, which names its owner."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for directory in directories
        for path in directory.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def command(real: tuple[Path, Path, str], *words: str) -> list[str]:
    return ["-m", "sessions", "--root", str(real[0]), *words]


def test_rewind_without_a_target_opens_the_picker_and_does_what_was_chosen(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str]
) -> None:
    user = terminal(arguments=command(real, "rewind", real[2]))
    user.shows("❯ 2", "make it two", "2 prompts")
    user.press("\r")
    user.shows("conversation loses 2 messages", "restore      number.txt  +1 -1", "1 file")
    user.press("\r")
    written = user.end()
    assert user.exit_code == 0
    assert "rewound: 2 messages removed" in written
    assert f"sessions undo {real[2]} --root" in written
    assert (real[1] / "number.txt").read_text() == "one\n"
    with SessionStore(real[0]).open(real[2], read_only=True) as session:
        assert [message.text for message in session.messages] == ["write one", "done"]


@pytest.mark.parametrize("keys", ["\x1b", "\x03", "two\x1b", "\x1b[A\r\x1b[B\x03"])
def test_leaving_the_picker_changes_no_byte_and_no_time(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str], keys: str
) -> None:
    before = snapshot(real[0], real[1])
    user = terminal(arguments=command(real, "rewind", real[2]))
    user.shows("❯ 2")
    user.press(keys)
    assert "cancelled; nothing was changed" in user.end()
    assert user.exit_code == 130
    assert snapshot(real[0], real[1]) == before


def test_a_terminal_that_cannot_move_its_cursor_is_told_what_to_give(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_TERM", "dumb")
    user = terminal(arguments=command(real, "rewind", real[2]))
    assert "--to CHECKPOINT, --last N or --run RUN" in user.end()
    assert user.exit_code == 2


def test_a_session_that_is_open_elsewhere_is_refused_before_a_picker_opens(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str]
) -> None:
    with SessionStore(real[0]).open(real[2]):
        user = terminal(arguments=command(real, "rewind", real[2]))
        written = user.end()
    assert user.exit_code == 5
    assert f"open in process {os.getpid()}" in written
    assert "?1049h" not in written


@pytest.mark.parametrize(("answer", "exit_code", "left"), [("y", 0, "one\n"), ("n", 130, "two\n"), ("", 130, "two\n")])
def test_a_rewind_to_a_target_shows_the_plan_and_asks(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str], answer: str, exit_code: int, left: str
) -> None:
    user = terminal(arguments=command(real, "rewind", real[2], "--to", "2"))
    user.shows("conversation loses 2 messages", "Rewind? [y/N]:")
    user.press(f"{answer}\r")
    user.end()
    assert user.exit_code == exit_code
    assert (real[1] / "number.txt").read_text() == left


def test_an_undo_asks_about_the_rewind_it_takes_back(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str]
) -> None:
    with SessionStore(real[0]).open(real[2]) as session:
        session.rewind(2, scope="code")
    user = terminal(arguments=command(real, "undo", real[2]))
    user.shows("takes back the rewind of files to before", "Undo the rewind of files to before")
    user.press("y\r")
    user.end()
    assert user.exit_code == 0
    assert (real[1] / "number.txt").read_text() == "two\n"


def test_an_answer_typed_before_the_question_is_none(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str], tmp_path: Path
) -> None:
    waiting = (
        "import os, sys, time\nfrom sessions.cli import reporting\nfrom sessions.cli.app import run\n"
        "show = reporting.verdicts.plan_lines\n"
        "def slow(*given, **more):\n    print('planning')\n"
        f"    while not os.path.exists({str(tmp_path / 'go on')!r}): time.sleep(0.05)\n    return show(*given, **more)\n"
        "reporting.verdicts.plan_lines = slow\nsys.exit(run(sys.argv[1:]))\n"
    )
    user = terminal(arguments=["-c", waiting, *command(real, "rewind", real[2], "--to", "2")[2:]])
    user.shows("planning")
    user.press("y\r")
    user.shows("y")
    (tmp_path / "go on").touch()
    user.shows("Rewind? [y/N]:")
    user.press("\r")
    user.end()
    assert user.exit_code == 130
    assert (real[1] / "number.txt").read_text() == "two\n"


def test_ctrl_c_in_the_demo_exits_130(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    user = terminal(arguments=["-m", "sessions", "demo", "--dir", str(tmp_path / "demo")])
    user.shows("4 prompts", "❯ 4")
    user.press("\x03")
    user.end()
    assert user.exit_code == 130


@pytest.mark.parametrize(("moves", "commands"), [("\x1b[H", 3), ("\x1b[A\x1b[A", 4), ("", 5)])
def test_the_commands_the_demo_prints_after_a_choice_work(
    terminal: Callable[..., Terminal], tmp_path: Path, moves: str, commands: int
) -> None:
    user = terminal(columns=400, arguments=["-m", "sessions", "demo", "--dir", str(tmp_path / "demo")])
    user.shows("4 prompts", "❯ 4")
    user.press(moves + "\r")
    user.shows("❯ code and conversation")
    user.press("\r")
    printed = user.end().split("To go on by hand")[1].splitlines()[1:]
    words = [[*shlex.split(line.strip())] for line in printed if line.strip()]
    assert len(words) == commands
    for each in words:
        given = each[next(at for at, word in enumerate(each) if word in {"checkpoints", "rewind", "undo"}) :]
        needs = ["--yes"] * (given[0] == "undo") + ["--dry-run"] * (given[0] == "rewind" and "--to" in given)
        if given[0] != "rewind" or needs:
            assert run([*given, *needs]) == 0, given


def test_a_dry_run_in_the_picker_says_so_and_changes_nothing(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str]
) -> None:
    before = snapshot(real[0], real[1])
    user = terminal(arguments=command(real, "rewind", real[2], "--dry-run"))
    user.shows("Rewind (dry run)", "❯ 2")
    user.press("\r")
    user.shows("dry run · 1 file", "Enter print it")
    user.press("\r")
    assert " loses 2 messages; the prompt" in user.end().rpartition("1049l")[2]
    assert user.exit_code == 0
    assert snapshot(real[0], real[1]) == before


def test_a_refused_plan_in_the_picker_says_why_and_enter_changes_nothing(
    terminal: Callable[..., Terminal], real: tuple[Path, Path, str]
) -> None:
    (real[1] / "number.txt").write_text("mine\n")
    user = terminal(arguments=command(real, "rewind", real[2], "--on-conflict", "refuse"))
    user.shows("❯ 2")
    user.press("\r")
    user.shows("refused · 1 file: 1 conflict", "refused: 1 file")
    user.press("\r")
    user.press("\x1b[B")
    user.shows("❯ conversation", "loses 2 messages")
    user.press("\x03")
    user.end()
    assert user.exit_code == 130
    assert (real[1] / "number.txt").read_text() == "mine\n"


def test_the_demo_opens_the_picker_on_a_terminal(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    user = terminal(columns=110, arguments=["-m", "sessions", "demo", "--dir", str(tmp_path / "demo")])
    user.shows("A greeting in four steps", "4 prompts", "3 ⊟", "4  !")
    user.press("\x1b[A\x1b[A\r")
    user.shows("Rewind to before prompt 2", "delete       run.sh")
    user.press("\r")
    written = user.end()
    assert user.exit_code == 0
    assert "rewound: 7 messages removed" in written
    assert f"undo 'A greeting in four steps' --root {tmp_path}/demo/store" in written
    assert sorted(path.name for path in (tmp_path / "demo" / "project").iterdir()) == ["README.md", "greet.py"]
