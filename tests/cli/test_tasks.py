"""``sessions tasks``: what it lists, what it stops, what it follows; all with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from memory import PEAK_KIB

from sessions import ConflictError, Session, SessionStore, Task, assistant_message
from sessions.cli import render
from sessions.picker.text import plain, width

if TYPE_CHECKING:
    from pseudo_terminal import Terminal

Cli = Callable[..., Any]

HERE = Path(__file__).parents[2]
SLEEPS = ["sleep", "1000"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
DEADLINE_S = 60


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


@dataclass
class Work:
    """A session whose prompt started tasks; it is open here, or closed."""

    session: Session
    root: Path

    @property
    def id(self) -> str:
        return self.session.id

    def spawn(self, *argv: str, **more: Any) -> Task:
        return self.session.tasks.spawn(list(argv), **more)

    def ended(self, *argv: str, **more: Any) -> Task:
        task = self.spawn(*argv, **more)
        until(lambda: task.id in self.told)  # only then its end is on record
        return self.now(task)

    @property
    def told(self) -> list[str]:
        """The tasks of which the session was told that they ended."""
        blocks = [block for message in self.session.history() for block in message.blocks]
        return [block.task_id for block in blocks if block.type == "task_notification"]

    def now(self, task: Task) -> Task:
        return self.session.tasks.get(task.id)

    def seen(self, task: Task) -> Task:
        """The task as another process sees it."""
        with SessionStore(self.root).open(self.id, read_only=True) as session:
            return session.tasks.get(task.id)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    root, project = tmp_path / "store", tmp_path / "project"
    project.mkdir()
    root.mkdir()
    monkeypatch.setenv("SESSIONS_HOME", str(root))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.chdir(project)
    session = SessionStore(root).create(project)
    session.begin_turn("Start the server").end()
    yield Work(session, root)
    session.close()
    (root / "settings.toml").write_text("[tasks]\ngrace_s = 0\n")
    with suppress(Exception), SessionStore(root).open(session.id, read_only=True) as again:
        for task in again.tasks.list():
            with suppress(ConflictError):
                again.tasks.cancel(task.id)


def sessions(*words: str, **more: Any) -> subprocess.Popen[bytes]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "sessions", *words], **(streams | more))


def done(child: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = child.communicate(timeout=DEADLINE_S)
    return child.returncode, out, err


def bytes_below(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# -- listing -------------------------------------------------------------------------------------------------------


TASK = Task(
    id="task-1a2b3c4d",
    label="dev server",
    state="running",
    pid=4711,
    processes=3,
    spawned_by="msg-1",
    prompt="Start the\nserver",
    started_at=None,
    ended_at=None,
    runtime_s=307.9,
    log=Path("/var/log/a very long path that nobody shortens, for it is there to be copied/output.log"),
    exit_code=None,
    session="s",
)


def table(*tasks: Task, columns: int = 80) -> list[str]:
    return [plain(line).rstrip() for line in render.task_table(tasks, columns, session="s")]


def test_a_table_says_of_each_task_what_it_is_who_runs_who_asked_and_where_its_output_lies() -> None:
    tasks = (
        TASK,
        replace(TASK, id="task-2", label="テスト", state="failed", exit_code=7, pid=None, processes=0, runtime_s=0.25),
        replace(TASK, id="task-3", state="failed", exit_code=-9, pid=None, processes=2, prompt=None, log=None),
        replace(TASK, id="task-4", state="running", processes=0, log=None, session="subagent-0a1b2c3d-1111-4222-8333-0123456789ab"),
        replace(TASK, id="task-5", label="\x1b[2Jred", state="lost", pid=None, processes=0, runtime_s=None, prompt=None),
    )  # fmt: skip
    assert table(*tasks) == [
        "task-1a2b3c4d  running            5m 07s  dev server",
        "               pid 4711, 3 processes · Start the server",
        f"               {TASK.log}",
        "task-2         failed (exit 7)      0.2s  テスト",
        "               Start the server",
        f"               {TASK.log}",
        "task-3         failed (signal 9)  5m 07s  dev server",
        "               2 processes left",
        "task-4         running            5m 07s  dev server",
        "               inside process 4711 · started by subagent-0a1b2c3d · Start the s…",
        r"task-5         lost                    -  \x1b[2Jred",
        f"               {TASK.log}",
    ]


def test_on_a_narrow_terminal_every_text_has_a_line_of_its_own_and_fits() -> None:
    lines = table(replace(TASK, label="a long label " * 9, prompt="長い" * 40), columns=40)
    assert lines[0] == "task-1a2b3c4d  running  5m 07s"
    assert lines[1].startswith("  a long label a long label")
    assert lines[2].startswith("  pid 4711, 3 processes · 長い長")
    assert lines[3] == f"  {TASK.log}"
    assert all(width(line) <= 40 for line in lines[:3])


def test_a_list_shows_tasks_in_every_state(cli: Cli, work: Work) -> None:
    running = work.spawn(*SLEEPS, label="the server")
    work.ended("sh", "-c", "exit 7", label="tests")
    work.ended("true")
    cancelled = work.spawn(*SLEEPS)
    work.session.tasks.cancel(cancelled.id)
    shown = cli("tasks", work.id)
    assert (shown.exit_code, shown.err) == (0, "")
    rows = [line for line in shown.out.splitlines() if line.startswith("task-")]
    assert [row.split()[1] for row in rows] == ["running", "failed", "completed", "cancelled"]
    assert "failed (exit 7)" in rows[1]
    assert rows[0].endswith("  the server")
    assert f"pid {running.pid}, 1 process · Start the server" in shown.out
    assert str(running.log) in shown.out
    told = cli("tasks", work.id, "--json").json
    expected = [task.to_json() for task in work.session.tasks.list()]
    assert [{**each, "runtime_s": None} for each in told] == [{**each, "runtime_s": None} for each in expected]


def test_a_session_without_tasks_says_so_in_one_line(cli: Cli, kept: Any) -> None:
    shown = cli("tasks", kept.id)
    assert (shown.exit_code, shown.out, shown.err) == (0, "", "this session started no background task\n")
    assert cli("tasks", kept.id, "--json").json == []


def test_a_list_changes_no_byte_while_an_agent_is_at_work(work: Work) -> None:
    task = work.spawn(*SLEEPS)
    before = bytes_below(work.root)
    code, out, err = done(sessions("tasks", work.id))
    assert (code, err) == (0, b"")
    assert task.id.encode() in out
    assert bytes_below(work.root) == before


def test_a_list_of_a_damaged_session_shows_what_is_left(cli: Cli, work: Work) -> None:
    task = work.spawn(*SLEEPS)
    work.session.close()
    timeline = work.session.path.with_suffix(".ckpt") / "timeline.jsonl"
    for path in (work.session.path, timeline):
        with open(path, "ab") as damaged:
            damaged.write(b'{"kind": "task", \xff\n[]\n{"to')
    shown = cli("tasks", work.id)
    assert shown.exit_code == 0
    assert task.id in shown.out
    assert "warning: " in shown.err
    assert "Traceback" not in shown.err


def test_a_subagents_session_has_the_tasks_it_started_and_its_parent_has_all(cli: Cli, work: Work) -> None:
    own = work.spawn(*SLEEPS, label="own")
    with work.session.subagent() as child:
        child.append(assistant_message("on it"))
        theirs = child.tasks.spawn(SLEEPS, label="theirs")
        shown = cli("tasks", child.id)
        assert shown.exit_code == 0
        assert (theirs.id in shown.out, own.id in shown.out) == (True, False)
        everything = cli("tasks", work.id).out
        assert (theirs.id in everything, own.id in everything) == (True, True)
        assert f"started by {child.id[:17]} · " in everything


@pytest.mark.parametrize(
    "words",
    [
        ["--cancel", "a", "--follow", "b"],
        ["--follow", "a", "--json"],
        ["--yes"],
        ["--dry-run"],
        ["--follow", "a", "--yes"],
        ["--follow"],
    ],
)
def test_words_that_do_not_go_together_are_usage(cli: Cli, kept: Any, words: list[str]) -> None:
    said = cli("tasks", kept.id, *words)
    assert said.exit_code == 2
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("words", [["--cancel", "TASK", "--yes"], ["--follow", "TASK"]])
def test_a_task_nobody_knows_exits_3_and_names_those_there_are(cli: Cli, work: Work, words: list[str]) -> None:
    task, other = work.spawn(*SLEEPS), work.spawn(*SLEEPS)
    for name in ("nope", "task-"):
        said = cli("tasks", work.id, *(name if word == "TASK" else word for word in words))
        assert (said.exit_code, len(said.err.splitlines())) == (3, 1)
        assert task.id in said.err
    assert (work.now(task).state, work.now(other).state) == ("running", "running")


# -- stopping ------------------------------------------------------------------------------------------------------


def test_cancel_stops_everything_of_a_task_and_says_so(cli: Cli, work: Work) -> None:
    task = work.spawn("sh", "-c", "setsid sleep 1000 & sleep 1000 & wait", label="server")
    until(lambda: work.now(task).processes == 3)
    ended = work.ended("true", label="tests")
    work.session.close()
    said = cli("tasks", work.id, "--cancel", task.id[:-2], "--cancel", ended.id, "--yes")
    assert (said.exit_code, said.err) == (0, "")
    assert said.out == f"stopped server ({task.id})\ntests ({ended.id}) had ended: completed\n"
    assert task.pid is not None
    assert not alive(task.pid)
    assert (work.seen(task).state, work.seen(task).processes) == ("cancelled", 0)
    again = cli("tasks", work.id, "--cancel", task.id, "--yes")
    assert (again.exit_code, again.out) == (0, f"server ({task.id}) had ended: cancelled\n")


def test_cancel_in_json_gives_the_tasks_as_they_are_afterwards(cli: Cli, work: Work) -> None:
    task, ended = work.spawn(*SLEEPS), work.ended("false")
    work.session.close()
    told = cli("tasks", work.id, "--cancel", ended.id, "--cancel", task.id, "--cancel", task.id, "--yes", "--json").json
    assert [(each["id"], each["state"], each["pid"]) for each in told] == [
        (ended.id, "failed", None),
        (task.id, "cancelled", None),
    ]


def test_cancel_stops_what_a_task_that_ended_left_behind(cli: Cli, work: Work) -> None:
    task = work.ended("sh", "-c", "setsid sleep 1000 & sleep 1000 & exit 3", label="left")
    until(lambda: work.now(task).processes == 2)
    said = cli("tasks", work.id, "--cancel", task.id, "--yes")
    assert said.out == f"stopped 2 processes that left ({task.id}) had left: failed (exit 3)\n"
    assert work.now(task).processes == 0


def test_cancel_names_and_stops_what_the_subagents_of_a_task_started(cli: Cli, work: Work) -> None:
    program = (
        "import sessions, time\n"
        "with sessions.subagent_from_env() as session:\n"
        "    session.append(sessions.assistant_message('on it'))\n"
        "    session.tasks.spawn(['sleep', '1000'], label='inner')\n"
        "    time.sleep(1000)\n"
    )
    task = work.spawn(sys.executable, "-c", program, label="outer")
    until(lambda: [each.pid for each in work.session.tasks.list()][1:] not in ([], [None]))
    inner = work.session.tasks.list()[1]
    asked = cli("tasks", work.id, "--cancel", task.id, "--dry-run")
    assert [line.split("  ")[0] for line in asked.out.splitlines()] == [
        f"would stop outer ({task.id})",
        f"would stop inner ({inner.id})",
    ]
    assert cli("tasks", work.id, "--cancel", task.id, "--yes").out.splitlines() == [
        f"stopped outer ({task.id})",
        f"stopped inner ({inner.id})",
    ]
    assert inner.pid is not None
    assert not alive(inner.pid)


def test_without_a_terminal_and_without_yes_nothing_is_stopped(work: Work) -> None:
    task = work.spawn(*SLEEPS)
    code, out, err = done(sessions("tasks", work.id, "--cancel", task.id))
    assert (code, out) == (2, b"")
    assert b"give --yes, or look first with --dry-run" in err
    assert work.now(task).state == "running"


def test_a_dry_run_says_what_would_stop_and_changes_no_byte(cli: Cli, work: Work) -> None:
    task, ended = work.spawn(*SLEEPS, label="server"), work.ended("true", label="tests")
    work.session.close()
    before = bytes_below(work.root)
    said = cli("tasks", work.id, "--cancel", task.id, "--cancel", ended.id, "--dry-run")
    assert said.out.splitlines() == [
        f"would stop server ({task.id})  pid {task.pid}, 1 process",
        f"tests ({ended.id}) had ended: completed",
    ]
    told = cli("tasks", work.id, "--cancel", task.id, "--dry-run", "--json")
    assert [each["state"] for each in told.json] == ["running"]
    assert bytes_below(work.root) == before
    assert task.pid is not None
    assert alive(task.pid)


@pytest.mark.parametrize(("answer", "exit_code", "state"), [("y", 0, "cancelled"), ("n", 130, "running")])
def test_on_a_terminal_it_says_what_stops_and_asks(
    in_terminal: Callable[..., Terminal], work: Work, answer: str, exit_code: int, state: str
) -> None:
    task = work.spawn(*SLEEPS, label="server")
    work.session.close()
    user = in_terminal(["-m", "sessions", "tasks", work.id, "--cancel", task.id])
    user.shows(f"stops server ({task.id})  pid {task.pid}, 1 process", "Stop it? [y/N]:")
    user.press(f"{answer}\r")
    written = user.end()
    assert user.exit_code == exit_code
    assert (f"stopped\x1b[0m server ({task.id})" in written) is (answer == "y")
    assert work.seen(task).state == state


OWNER = """
import sys, threading
from sessions import SessionStore
with SessionStore().open(sys.argv[1]) as session:
    stop = threading.Event()
    task = session.tasks.attach(cancel=stop.set, wait=stop.wait, label="inside")
    spawned = session.tasks.spawn(["sleep", "1000"], label="server")
    print(task.id, spawned.id, spawned.pid, flush=True)
    for line in sys.stdin:
        print(session.tasks.get(spawned.id).state, len(session.messages), flush=True)
"""


@pytest.fixture
def owner(work: Work) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process that has the session open, with the ids of a task inside it and of one it spawned, and its pid."""
    work.session.close()
    child = subprocess.Popen(
        [sys.executable, "-c", OWNER, work.id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    yield child, child.stdout.readline().split()
    child.communicate(timeout=DEADLINE_S)


def test_a_task_is_stopped_while_its_owner_has_the_session_open(
    cli: Cli, work: Work, owner: tuple[subprocess.Popen[str], list[str]]
) -> None:
    child, (_, task, pid) = owner
    assert child.stdin is not None
    assert child.stdout is not None
    said = cli("tasks", work.id, "--cancel", task, "--yes")
    assert (said.exit_code, said.out, said.err) == (0, f"stopped server ({task})\n", "")
    assert not alive(int(pid))
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline().split() == ["cancelled", "1"], "and nobody is told that it ended"
    child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0
    with SessionStore(work.root).open(work.id) as session:
        assert session.tasks.get(task).state == "cancelled"
        assert task not in work.session.path.read_text(), "and nobody was told later"


def test_work_inside_another_process_is_named_and_the_others_are_stopped(
    cli: Cli, work: Work, owner: tuple[subprocess.Popen[str], list[str]]
) -> None:
    child, (inside, task, pid) = owner
    planned = cli("tasks", work.id, "--cancel", inside, "--cancel", task, "--dry-run")
    assert (planned.exit_code, planned.out) == (5, f"would stop server ({task})  pid {pid}, 1 process\n")
    assert f"'inside' ({inside}) runs inside process {child.pid}, which alone can stop it" in planned.err
    said = cli("tasks", work.id, "--cancel", inside, "--cancel", task, "--yes", "--json")
    assert said.exit_code == 5
    message = f"'inside' ({inside}) runs inside process {child.pid}, which alone can stop it; stopped: server ({task})"
    assert said.err == f"sessions: {message}\n"
    assert said.json["error"]["message"] == message
    assert not alive(int(pid))


def test_what_cannot_be_stopped_is_named_with_its_processes(work: Work) -> None:
    program = (
        "import json, os, subprocess, sys\n"
        "task = json.loads(os.environ['SESSIONS_SUBAGENT'])['task']\n"
        "words = [sys.executable, '-m', 'sessions', 'tasks', sys.argv[1], '--cancel', task, '--yes', '--json']\n"
        "done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)\n"
        "print(os.getpid(), done.returncode, done.stderr, flush=True)\n"
        "print(done.stdout.decode(), flush=True)\n"
    )
    other = work.spawn(*SLEEPS)
    task = work.ended(sys.executable, "-c", program, work.id, label="itself")
    assert task.log is not None
    first, told = task.log.read_text().splitlines()[:2]
    pid, code, _ = first.split(" ", 2)
    assert code == "5"
    assert f"this process runs inside 'itself' ({task.id}) and would be stopped too" in first
    error = json.loads(told)["error"]
    assert error["code"] == "conflict"
    assert int(pid)
    assert work.now(other).state == "running"


def test_several_tasks_are_asked_at_once_and_all_get_the_time_of_one_to_end(work: Work) -> None:
    (work.root / "settings.toml").write_text("[tasks]\ngrace_s = 3600\n")
    tasks = [work.spawn(*program, label="server") for program in (STUBBORN, STUBBORN, SLEEPS)]
    assert tasks[0].log is not None
    assert tasks[1].log is not None
    until(tasks[0].log.read_bytes)
    until(tasks[1].log.read_bytes)
    child = sessions("tasks", work.id, "--yes", *(word for task in tasks for word in ("--cancel", task.id)))
    until(lambda: tasks[2].pid is not None and not alive(tasks[2].pid))  # though the first has an hour
    for task in tasks[:2]:
        assert task.pid is not None
        os.kill(task.pid, signal.SIGKILL)
    code, out, err = done(child)
    assert (code, err) == (0, b"")
    assert out.decode().splitlines() == [f"stopped server ({task.id})" for task in tasks]


def test_ctrl_c_while_stopping_says_who_runs_on_and_who_ended(work: Work) -> None:
    (work.root / "settings.toml").write_text("[tasks]\ngrace_s = 3600\n")
    gone, stays = work.spawn(*SLEEPS, label="gone"), work.spawn(*STUBBORN, label="stays")
    assert stays.log is not None
    until(stays.log.read_bytes)
    child = sessions("tasks", work.id, "--cancel", gone.id, "--cancel", stays.id, "--yes")
    until(lambda: gone.pid is not None and not alive(gone.pid))
    child.send_signal(signal.SIGINT)
    said = b"sessions: interrupted; running on: stays; ended: gone\n"
    assert done(child) == (130, b"", said)
    assert stays.pid is not None
    assert alive(stays.pid)
    until(lambda: [work.now(task).state for task in (gone, stays)] == ["cancelled", "running"])


def test_ctrl_c_while_a_rewind_stops_tasks_leaves_them_for_good(cli: Cli, work: Work) -> None:
    (work.root / "settings.toml").write_text("[tasks]\ngrace_s = 3600\n")
    ends, stays = work.spawn(*SLEEPS, label="ends"), work.spawn(*STUBBORN, label="stays")
    assert (stays.log, stays.pid, ends.pid) != (None, None, None)
    until(stays.log.read_bytes)
    work.session.close()
    child = sessions("rewind", work.id, "--to", "1", "--yes")
    until(lambda: not alive(ends.pid))
    child.send_signal(signal.SIGINT)
    said = b"sessions: interrupted; running on: stays; ended: ends\n"
    assert done(child) == (130, b"", said)
    (work.root / "settings.toml").write_text("[tasks]\ngrace_s = 0\n")
    assert cli("title", work.id, "goes on").exit_code == 0
    assert [each["state"] for each in cli("tasks", work.id, "--json").json] == ["cancelled", "running"]
    assert alive(stays.pid)


# -- following -----------------------------------------------------------------------------------------------------


def test_follow_prints_what_comes_until_the_task_ends(work: Work, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    script = f"echo first; while [ ! -e '{go_on}' ]; do sleep 0.05; done; printf second; exit 3"
    task = work.spawn("sh", "-c", script, label="server")
    child = sessions("tasks", work.id, "--follow", task.id[:-3])
    assert child.stdout is not None
    assert child.stdout.readline() == b"first\n"
    go_on.touch()
    code, out, err = done(child)
    assert (code, out) == (0, b"second")
    assert err.startswith(f"server ({task.id}): failed (exit 3) after ".encode())
    assert len(err.splitlines()) == 1


NASTY = b"a\x1b[2J\t\x1b[1;31mred\x1b[0m 10%\r\x1b[K20%\x1b]0;title\x07\r\n\xff\xfe \xe6\x97\xa5\xe6 \x00 \xc2\x9b last"


@pytest.mark.parametrize("byte_by_byte", [False, True])
def test_a_log_is_piped_byte_by_byte_and_on_a_terminal_only_its_colours_and_its_line_act(
    in_terminal: Callable[..., Terminal], work: Work, byte_by_byte: bool
) -> None:
    write = "for byte in data: os.write(1, bytes([byte])); time.sleep(0.01)" if byte_by_byte else "os.write(1, data)"
    task = work.ended(sys.executable, "-c", f"import os, time\ndata = {NASTY!r}\n{write}", label="bytes")
    code, out, _ = done(sessions("tasks", work.id, "--follow", task.id))
    assert (code, out) == (0, NASTY)
    user = in_terminal(["-m", "sessions", "tasks", work.id, "--follow", task.id])
    written = user.end()
    assert user.exit_code == 0
    assert written.startswith(
        "a\\x1b[2J\t\x1b[1;31mred\x1b[0m 10%\r\x1b[K20%\\x1b]0;title\\x07\r\r\n"
        "\\xff\\xfe 日\\xe6 \\x00 \\x9b last\x1b[0m\r\n"
    )
    assert f"bytes ({task.id}): completed after " in written


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [("a\\346\\227", "\\245z", "a日z"), ("a\\033[3", "1mz", "a\x1b[31mz"), ("a\\033", "]z", "a\\x1b]z")],
    ids=["character", "colour", "other sequence"],
)
def test_what_comes_in_pieces_is_put_together(
    in_terminal: Callable[..., Terminal], work: Work, tmp_path: Path, first: str, second: str, shown: str
) -> None:
    go_on = tmp_path / "go on"
    script = f"printf '{first}'; while [ ! -e '{go_on}' ]; do sleep 0.05; done; printf '{second}'"
    task = work.spawn("sh", "-c", script)
    user = in_terminal(["-m", "sessions", "tasks", work.id, "--follow", task.id])
    user.shows("a")
    go_on.touch()
    assert shown in user.end()


def test_a_huge_log_is_streamed(work: Work) -> None:
    task = work.ended("true")
    assert task.log is not None
    os.truncate(task.log, 1 << 29)
    code = (
        "import sys\nfrom sessions.cli.app import run\n"
        f"code = run(['tasks', {work.id!r}, '--follow', {task.id!r}])\n"
        f"print({PEAK_KIB}, file=sys.stderr)\nsys.exit(code)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    size = 0
    while part := child.stdout.read(1 << 20):
        size += len(part)
    _, _, err = done(child)
    assert (child.returncode, size) == (0, 1 << 29)
    assert int(err.split()[-1]) < 150_000, "KiB"


def test_a_log_that_was_emptied_is_followed_from_its_start(work: Work, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    task = work.spawn("sh", "-c", f"echo a long line; while [ ! -e '{go_on}' ]; do sleep 0.05; done; echo new")
    child = sessions("tasks", work.id, "--follow", task.id)
    assert child.stdout is not None
    assert child.stdout.readline() == b"a long line\n"
    assert task.log is not None
    os.truncate(task.log, 0)
    go_on.touch()
    assert done(child)[:2] == (0, b"new\n")


def test_a_task_whose_output_is_not_ours_cannot_be_followed(cli: Cli, work: Work) -> None:
    program = subprocess.Popen(SLEEPS)
    stop = threading.Event()
    try:
        for task in (
            work.session.tasks.adopt(program, label="theirs"),
            work.session.tasks.attach(cancel=stop.set, wait=stop.wait, label="inside"),
        ):
            said = cli("tasks", work.id, "--follow", task.id)
            assert (said.exit_code, said.out) == (3, "")
            assert said.err == (
                f"sessions: {task.label} ({task.id}) has no log here: it was not started by this library\n"
            )
            assert work.session.tasks.cancel(task.id).state == "cancelled"
    finally:
        program.kill()
        program.wait()


def test_a_log_that_is_gone_exits_3_in_one_line(cli: Cli, work: Work) -> None:
    task = work.ended("true")
    assert task.log is not None
    task.log.unlink()
    said = cli("tasks", work.id, "--follow", task.id)
    assert (said.exit_code, said.err) == (3, f"sessions: the log is gone: {task.log}\n")


def test_ctrl_c_ends_the_following_and_never_the_task(in_terminal: Callable[..., Terminal], work: Work) -> None:
    task = work.spawn("sh", "-c", "echo ready; exec sleep 1000")
    user = in_terminal(["-m", "sessions", "tasks", work.id, "--follow", task.id])
    user.shows("ready")
    user.press("\x03")
    assert "sessions: interrupted" in user.end()
    assert user.exit_code == 130
    assert work.now(task).state == "running"


def test_a_reader_that_goes_while_nothing_is_printed_ends_the_following(work: Work) -> None:
    task = work.spawn("sh", "-c", "echo ready; exec sleep 1000")
    child = sessions("tasks", work.id, "--follow", task.id)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.stdout.close()
    assert child.wait(timeout=DEADLINE_S) == 0
    assert child.stderr is not None
    assert child.stderr.read() == b""
    child.stderr.close()
    assert work.now(task).state == "running"


def test_following_ends_when_the_session_is_deleted(work: Work) -> None:
    task = work.spawn("sh", "-c", "echo ready; exec sleep 1000", label="server")
    work.session.close()
    child = sessions("tasks", work.id, "--follow", task.id)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    SessionStore(work.root).delete(work.id)
    code, out, err = done(child)
    assert (code, out) == (0, b"")
    said = err.decode().removeprefix(f"server ({task.id}): ")
    assert said == "removed, with what started it\n" or said.startswith("cancelled after "), "which it was for a moment"


# -- other commands ------------------------------------------------------------------------------------------------


def test_deleting_a_session_names_the_tasks_it_stops_first(cli: Cli, work: Work) -> None:
    task = work.spawn(*SLEEPS, label="server")
    work.ended("true", label="tests")
    work.session.close()
    asked = cli("delete", work.id, "--dry-run")
    assert f"  would stop server ({task.id})\n" in asked.out
    assert "tests" not in asked.out
    assert task.pid is not None
    assert alive(task.pid)
    said = cli("delete", work.id, "--yes")
    assert (said.exit_code, f"  stops server ({task.id})\n" in said.out) == (0, True)
    assert not alive(task.pid)


def test_deleting_a_session_tells_programs_which_tasks_it_stopped(cli: Cli, work: Work) -> None:
    task = work.spawn(*SLEEPS, label="server")
    work.ended("true", label="tests")
    work.session.close()
    named = {"id": task.id, "label": "server"}
    assert cli("delete", work.id, "--dry-run", "--json").json["cancelled"] == [named | {"proof": None}]
    [stopped] = cli("delete", work.id, "--yes", "--json").json["cancelled"]
    assert stopped == named | {"proof": "group, parentage and tag"}


def test_a_rewind_and_its_undo_say_what_becomes_of_tasks(cli: Cli, work: Work) -> None:
    with work.session.begin_turn("Start another"):
        task = work.spawn(*SLEEPS, label="server")
    work.session.close()
    asked = cli("rewind", work.id, "--to", "2", "--dry-run")
    assert asked.out.splitlines()[1:3] == ["background tasks", f"  stop         server  {task.id}"]
    gap = f"  what a background task changed: server ({task.id})"
    assert asked.out.splitlines()[-2:] == ["not captured, so it stays as it is", gap]
    refused = cli("rewind", work.id, "--to", "2", "--on-running", "refuse", "--yes")
    assert (refused.exit_code, len(refused.err.splitlines())) == (5, 1)
    assert f"1 task is running: 'server' ({task.id}); on running 'cancel' stops it" in refused.err
    said = cli("rewind", work.id, "--to", "2", "--yes")
    assert said.out.splitlines()[1:3] == ["background tasks", f"  stopped      server  {task.id}"]
    assert task.pid is not None
    assert not alive(task.pid)
    looked = cli("undo", work.id, "--dry-run")
    assert looked.out.splitlines()[-1] == "processes do not come back: server"
    assert cli("undo", work.id, "--dry-run", "--json").json["notes"] == ["processes do not come back: server"]
    assert "processes do not come back: server" in cli("undo", work.id, "--yes").out.splitlines()
    assert "processes" not in cli("undo", work.id, "--redo", "--dry-run").out
    assert [each["state"] for each in cli("tasks", work.id, "--json").json] == ["cancelled"]
