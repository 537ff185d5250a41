"""Background tasks and the terminal: what the picker says of them, and that no key for somebody else reaches them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest

from sessions import Session, SessionStore, Task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


Start = "Callable[..., Terminal]"


def alive(task: Task) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(task.pid).status() != psutil.STATUS_ZOMBIE)
    return False


@pytest.fixture
def started(store: SessionStore, session: Session, project: Path) -> Iterator[Task]:
    """A task of the second of two prompts, whose session nobody has open."""
    with session.begin_turn("write it") as turn, turn.edit("a.txt"):
        (project / "a.txt").write_text("one\n")
    with session.begin_turn("serve it") as turn:
        for number in range(30):
            with turn.edit(f"f{number}.txt"):
                (project / f"f{number}.txt").write_text("f\n")
        task = session.tasks.spawn(["sleep", "1000"], label="dev server")
    session.close()
    yield task
    with suppress(OSError, psutil.NoSuchProcess):
        psutil.Process(task.pid).kill()


def rewind(root: Path, session: Session) -> list[str]:
    return ["-m", "sessions", "--root", str(root), "rewind", session.id]


def test_the_confirm_screen_names_the_task_above_the_files_and_enter_stops_it(
    in_terminal: Start, root: Path, session: Session, started: Task
) -> None:
    user = in_terminal(rewind(root, session))
    user.shows("❯ 2", "serve it")
    user.press("\r")
    shown = user.shows("❯ code and conversation", "30 files · 1 task to be stopped", "more lines below").splitlines()
    assert f"  stop         dev server  {started.id}" in shown
    assert shown.index("background tasks") < shown.index("files the agent touched")
    assert alive(started)
    user.press("\r")
    written = user.end()
    assert user.exit_code == 0
    assert f"dev server\x1b[90m  {started.id}" in written.rpartition("1049l")[2]
    assert "stopped  " in written.rpartition("1049l")[2]
    assert not alive(started)
    with SessionStore(root).open(session.id, read_only=True) as again:
        assert again.tasks.list() == [], "it went with its turn"


@pytest.mark.parametrize("keys", ["\x1b", "\x03", "\r\x1b[B\x03"])
def test_leaving_the_picker_leaves_the_task_running(
    in_terminal: Start, root: Path, session: Session, started: Task, keys: str
) -> None:
    user = in_terminal(rewind(root, session))
    user.shows("❯ 2", "serve it")
    user.press(keys)
    assert "cancelled; nothing was changed" in user.end()
    assert user.exit_code == 130
    assert alive(started)
    with SessionStore(root).open(session.id) as again:
        assert again.tasks.get(started.id).state == "running"


HOST = """
import sys, time
from sessions import SessionStore
session = SessionStore(sys.argv[1]).open(sys.argv[2])
with session.begin_turn("serve more"):
    session.tasks.spawn(["sh", "-c", "echo ready; exec sleep 1000"], label="from the terminal")
print("working", flush=True)
try:
    time.sleep(1000)
except KeyboardInterrupt:
    print("interrupted")
    session.close()
"""


@pytest.mark.parametrize("key", ["\x03", "\x1c"])
def test_a_signal_of_the_terminal_ends_the_host_and_not_its_tasks(
    in_terminal: Start, root: Path, session: Session, started: Task, key: str
) -> None:
    user = in_terminal(["-c", HOST, str(root), session.id])
    user.shows("working")
    user.press(key)
    assert ("interrupted" in user.end()) is (key == "\x03")
    with SessionStore(root).open(session.id) as again:
        task = again.tasks.list()[1]
        assert (task.label, task.state) == ("from the terminal", "running")
        assert alive(task)
        again.tasks.cancel(task.id)
    assert alive(started)


def test_a_terminal_that_is_closed_ends_the_host_and_not_its_tasks(
    in_terminal: Start, root: Path, session: Session, started: Task
) -> None:
    user = in_terminal(["-c", HOST, str(root), session.id])
    user.shows("working")
    user.child.close(force=True)
    with SessionStore(root).open(session.id) as again:
        task = again.tasks.list()[1]
        assert (task.state, alive(task)) == ("running", True)
        again.tasks.cancel(task.id)
    assert alive(started)
