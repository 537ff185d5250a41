"""Programs under a supervisor: how they start, what they get, and what a death at any moment leaves."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import programs
import pytest
from programs import python, until

from sessions import clock
from sessions.subagents import launching
from sessions.subagents.cancelling import Quarry, stop
from sessions.subagents.folder import TaskFolder
from sessions.subagents.identity import identity_of, is_alive, stat_of
from sessions.subagents.launching import launch
from sessions.subagents.processes import Table
from sessions.subagents.tagging import tagged

HOST = """
    import os, sys, time
    from pathlib import Path
    from sessions.subagents.folder import TaskFolder
    from sessions.subagents.launching import launch
    from sessions.subagents.tagging import tagged
    directory, tag, *argv = sys.argv[1:]
    print("ready", flush=True)
    started = launch(argv, TaskFolder(Path(directory)), cwd="/", env=tagged(os.environ, tag))
    print("started", started.main.pid, flush=True)
    time.sleep(1000)
"""


def host(*arguments: str, **options: object) -> subprocess.Popen[str]:
    """Start a process that launches a task."""
    code = [sys.executable, "-c", textwrap.dedent(HOST), *arguments]
    return subprocess.Popen(code, stdout=subprocess.PIPE, text=True, **options)


@pytest.fixture
def no_children():
    """Make sure that this process has no more children afterwards, dead or alive."""
    before = Table.read().descendants([os.getpid()])
    yield

    def left():
        launching.reap()
        here = Table.read().descendants([os.getpid()]) - before
        return here - launching._unreaped.keys() - Table.read().descendants(launching._unreaped)

    until(lambda: not left(), "the end of all other children")


def test_process_json_says_who_runs(lab, no_children):
    task = lab.start(["sleep", "1000"])
    assert task.folder.started() == task.started
    assert is_alive(task.main)
    assert is_alive(task.supervisor)
    found = stat_of(task.main.pid)
    assert (found.parent, found.group, os.getsid(found.pid)) == (task.supervisor.pid, task.main.pid, task.main.pid)
    assert Path(f"/proc/{task.main.pid}/comm").read_text() == "sleep\n"
    assert task.started.group == task.main.pid
    assert os.getsid(task.supervisor.pid) == task.supervisor.pid


@pytest.mark.parametrize("code", [0, 7, 255])
def test_an_exit_code_is_kept(lab, code):
    task = lab.start(["sh", "-c", f"exit {code}"])
    task.ended()
    assert (task.folder.exit().code, task.folder.exit().signal) == (code, None)
    task.gone()
    assert task.folder.exit().gone


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_signal_that_ended_it_is_kept(lab, number):
    task = lab.start(["sleep", "1000"])
    os.kill(task.main.pid, number)
    task.ended()
    assert (task.folder.exit().code, task.folder.exit().signal) == (None, number)


def test_exit_json_says_when_as_our_timestamps_do(lab):
    before = datetime.now(UTC)
    task = lab.start(["true"])
    task.gone()
    at = clock.parse(task.folder.exit().at)
    assert abs((at - before).total_seconds()) < programs.GIVE_UP_S
    assert clock.timestamp(at) == task.folder.exit().at


def test_exit_json_is_there_before_the_number_is_gone(lab):
    for _ in range(20):
        task = lab.start(["true"])
        while identity_of(task.main.pid) == task.main:
            pass
        assert task.folder.exit() is not None


def test_the_supervisor_stays_while_descendants_do(lab):
    task = lab.start(python(programs.DAEMON))
    [daemon] = task.told("daemon")
    task.ended()
    assert (task.folder.exit().code, task.folder.exit().gone) == (0, False)
    assert is_alive(task.supervisor)
    at = task.folder.exit().at
    os.kill(daemon, signal.SIGKILL)
    task.gone()
    assert (task.folder.exit().code, task.folder.exit().gone, task.folder.exit().at) == (0, True, at)


def test_output_of_both_kinds_is_appended_to_the_log(lab):
    folder = TaskFolder(lab.directory / "task")
    folder.make()
    folder.log.write_text("before\n")
    launch(["sh", "-c", "echo out; echo err >&2; cat"], folder, cwd="/", env=os.environ)
    until(folder.exit, "the end")
    assert folder.log.read_text() == "before\nout\nerr\n"


def test_the_folder_is_private(lab):
    task = lab.start(["true"])
    task.gone()
    assert stat.S_IMODE(task.folder.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in task.folder.directory.iterdir()} == {0o600}
    assert sorted(os.listdir(task.folder.directory)) == ["exit.json", "output.log", "process.json"]


def test_the_program_gets_nothing_of_the_host_but_what_it_is_given(lab):
    inheritable, other = os.pipe()
    os.set_inheritable(inheritable, True)
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    old_handler = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    code = """
descriptors = os.listdir("/proc/self/fd")
print(*(f"{fd}={os.readlink('/proc/self/fd/' + fd)}" for fd in descriptors if os.path.lexists("/proc/self/fd/" + fd)), sep="\\n")
print(*(line for line in open("/proc/self/status") if line.startswith(("SigBlk", "SigIgn"))), sep="")
print("cwd", os.getcwd(), "env", *sorted(os.environ), "umask", os.umask(0), flush=True)
"""
    try:
        tag = lab.new_tag()
        folder = TaskFolder(lab.directory / tag)
        # without TZ, LC_ALL and the like of the host
        launch(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", programs.HEAD + code], folder, cwd="/usr", env={"A": "b"}
        )
        until(folder.exit, "the end")
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {signal.SIGUSR1, *old_mask}
        assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        signal.signal(signal.SIGUSR2, old_handler)
        os.close(inheritable)
        os.close(other)
    said = folder.log.read_text()
    assert {line for line in said.splitlines() if "=" in line} == {
        "0=/dev/null",
        f"1={folder.log}",
        f"2={folder.log}",
    }
    ignored = int(said.partition("SigIgn:\t")[2][:16], 16)
    assert "SigBlk:\t0000000000000000" in said
    own = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1  # Python itself ignores these
    assert ignored & ~(own | 1 << 31 | 1 << 32) == 0  # and the C library's posix_spawn its two internal ones
    assert "cwd /usr env A" in said
    assert f"umask {_umask()}" in said


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_supervisor_holds_no_descriptor_and_no_directory(lab):
    task = lab.start(["sleep", "1000"])
    held = f"/proc/{task.supervisor.pid}"
    until(lambda: {os.readlink(f"{held}/fd/{fd}") for fd in os.listdir(f"{held}/fd")} == {"/dev/null"}, "closing")
    assert os.readlink(f"{held}/cwd") == "/"


def test_the_path_of_the_given_environment_decides(lab):
    (lab.directory / "bin").mkdir()
    program = lab.directory / "bin" / "greet-nobody-else-has"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    with pytest.raises(FileNotFoundError):
        lab.start([program.name])
    for given, argv in [
        ({"PATH": f"/nowhere:/dev/null:{program.parent}"}, [program.name]),
        ({}, ["bin/" + program.name]),
        ({"PATH": ":/bin"}, ["bin/" + program.name]),
    ]:
        task = lab.start(argv, env=given)
        task.ended()
        assert task.folder.exit().code == 9


@pytest.mark.parametrize(
    "argv", [["no-such-program"], ["/nowhere/program"], ["no-exec"], ["./no-format"], [""], ["a\0b"]]
)
def test_a_program_that_cannot_start_leaves_nothing(lab, no_children, argv):
    for name, mode in (("no-exec", 0o600), ("no-format", 0o700)):
        (lab.directory / name).write_text("neither script nor program")
        (lab.directory / name).chmod(mode)
    expected = {"no-exec": PermissionError, "./no-format": OSError, "a\0b": OSError}.get(argv[0], FileNotFoundError)
    folder = TaskFolder(lab.directory / "task")
    with pytest.raises(expected) as raised:
        launch(argv, folder, cwd=str(lab.directory), env=tagged({"PATH": str(lab.directory)}, lab.new_tag()))
    assert raised.value.filename == argv[0] or "\0" in argv[0]
    assert raised.value.errno
    assert not folder.directory.exists()
    until(lambda: not Table.read().with_tag(lab.tags[-1]), "the child's end")


@pytest.mark.parametrize(("cwd", "expected"), [("/nowhere", FileNotFoundError), ("/dev/null", NotADirectoryError)])
def test_a_directory_it_cannot_start_in_is_named(lab, cwd, expected):
    folder = TaskFolder(lab.directory / "task")
    folder.make()
    with pytest.raises(expected) as raised:
        launch(["true"], folder, cwd=cwd, env=os.environ)
    assert raised.value.filename == cwd
    assert os.listdir(folder.directory) == ["output.log"]


def test_names_that_are_not_utf8_pass_through(lab):
    directory = os.fsdecode(os.fsencode(lab.directory) + b"/\xff")
    os.mkdir(directory)
    folder = TaskFolder(lab.directory / "task")
    launch(["sh", "-c", 'printf %s "$1$B"; pwd', "sh", "\udcfe"], folder, cwd=directory, env={"B": "\udcfd"})
    until(folder.exit, "the end")
    assert folder.log.read_bytes() == b"\xfe\xfd" + os.fsencode(directory) + b"\n"


def test_a_large_environment_passes_through(lab):
    env = {"PATH": os.environ["PATH"], **{f"V{number}": "x" * 100_000 for number in range(10)}}
    task = lab.start(["sh", "-c", 'test "${#V9}" = 100000'], env=env)
    task.ended()
    assert task.folder.exit().code == 0


def test_threads_may_launch_at_the_same_time(lab, no_children):
    tasks = []
    threads = [
        threading.Thread(target=lambda code=code: tasks.append((code, lab.start(["sh", "-c", f"exit {code}"]))))
        for code in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for code, task in tasks:
        task.ended()
        assert task.folder.exit().code == code
    assert len(tasks) == len(threads)


def test_a_host_that_ignores_its_children_changes_nothing(lab):
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        task = lab.start(["sh", "-c", "exit 7"])
    finally:
        signal.signal(signal.SIGCHLD, old)
    task.ended()
    assert task.folder.exit().code == 7


def test_where_there_is_no_proc_the_host_says_when_who_started(lab, monkeypatch):
    monkeypatch.setattr(launching, "_ASKS", True)
    task = lab.start(["sleep", "1000"])
    assert task.started == task.folder.started()
    assert task.main == identity_of(task.main.pid)
    assert task.supervisor == identity_of(task.supervisor.pid)


def test_a_host_that_is_killed_leaves_the_program_and_how_it_ends(lab):
    tag = lab.new_tag()
    folder = TaskFolder(lab.directory / tag)
    started = host(str(folder.directory), tag, "sh", "-c", "read x; sleep 0.2; exit 7")
    assert started.stdout.readline() == "ready\n"
    assert started.stdout.readline().startswith("started")
    started.kill()
    started.wait()
    started.stdout.close()
    until(folder.exit, "the end")
    assert folder.exit().code == 7


def test_a_host_killed_at_any_moment_leaves_a_supervised_program_or_nothing(lab):
    chance = random.Random(4)
    span_s = 2 * _launch_s(lab)
    ran = 0
    for number in range(30):
        tag = lab.new_tag()
        folder = TaskFolder(lab.directory / tag)
        mark = lab.directory / f"mark{number}"
        started = host(
            str(folder.directory),
            tag,
            "sh",
            "-c",
            f"test -e {folder.directory}/process.json && touch {mark}; sleep 1000",
        )
        started.stdout.readline()
        time.sleep(chance.uniform(0, span_s))
        started.kill()
        started.wait()
        started.stdout.close()
        # Until everybody is gone, or the program runs for good.
        until(lambda mark=mark, folder=folder: mark.exists() or not _of(folder), "one of the two")
        if not mark.exists():
            assert folder.started() is None
            continue
        ran += 1
        who = folder.started()
        assert is_alive(who.main)
        assert is_alive(who.supervisor)
        stop([Quarry(tag, who.main, who.group, who.supervisor, tag)], grace_s=1)
    assert ran


def _launch_s(lab) -> float:
    start = time.monotonic()
    lab.start(["true"])
    return time.monotonic() - start


def _of(folder: TaskFolder) -> list[str]:
    """Return the pids of those whose command names the folder: launchers, supervisors, programs."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder.directory) in command:
            found.append(pid)
    return found


def test_a_supervisor_whose_host_died_in_the_middle_of_the_request_starts_nothing(lab):
    folder = TaskFolder(lab.directory / "task")
    folder.make()
    launcher = subprocess.Popen([sys.executable, "-I", "-S", launching._ENTRANCE, "x"], stdin=subprocess.PIPE)
    launcher.stdin.write((100).to_bytes(8, "big") + b"half")
    launcher.stdin.close()
    assert launcher.wait() == 0


def test_a_host_that_stopped_listening_before_the_program_was_let_go_leaves_nothing(lab):
    import marshal

    folder = TaskFolder(lab.directory / "task")
    folder.make()
    mark = lab.directory / "mark"
    program = ([b"touch", os.fsencode(mark)], b"/", {b"PATH": os.fsencode(os.environ["PATH"])})
    request = {"program": program, "folder": os.fsencode(folder.directory), "boot": "", "ask": False}
    raw = marshal.dumps((launching._supervising(), request))
    launcher = subprocess.Popen(
        [sys.executable, "-I", "-S", launching._ENTRANCE, "x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    launcher.stdin.write(len(raw).to_bytes(8, "big") + raw)
    launcher.stdin.close()
    assert launcher.stdout.read()  # until the supervisor has left
    launcher.stdout.close()
    launcher.wait()
    assert os.listdir(folder.directory) == ["output.log"]
    assert not mark.exists()


def test_the_supervisor_ignores_what_would_end_it(lab):
    task = lab.start(python(programs.IGNORES_TERM))
    task.told("main")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGUSR1):
        os.kill(task.supervisor.pid, number)
    os.kill(task.main.pid, signal.SIGKILL)
    task.gone()
    assert task.folder.exit().gone


def test_a_supervisor_whose_folder_is_removed_leaves_when_nobody_is_left(lab):
    task = lab.start(["sleep", "1000"])
    for path in task.folder.directory.iterdir():
        path.unlink()
    task.folder.directory.rmdir()
    os.kill(task.main.pid, signal.SIGKILL)
    task.gone()
    assert not task.folder.directory.exists()


def test_a_waiting_supervisor_uses_no_processor(lab):
    task = lab.start(python(programs.DAEMON))
    task.told("daemon")
    task.ended()

    def used() -> int:
        fields = Path(f"/proc/{task.supervisor.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    time.sleep(0.5)
    assert used() - before <= 1


def test_a_full_disk_does_not_keep_the_end_from_being_told(lab, small_disk):
    folder = TaskFolder(small_disk / "task")
    tag = lab.new_tag()
    started = launch(["sh", "-c", "read x; kill -STOP $$; exit 7"], folder, cwd="/", env=tagged(os.environ, tag))
    programs.fill(small_disk)
    until(lambda: programs.state(started.main.pid) == "T", "the stop")
    os.kill(started.main.pid, signal.SIGCONT)
    until(lambda: not is_alive(started.supervisor), "the supervisor's end")
    assert (folder.exit().code, folder.exit().gone) == (7, True)


@pytest.fixture
def small_disk(tmp_path):
    directory = tmp_path / "small"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("nobody may mount a small disk here")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


def test_a_launch_on_a_full_disk_says_so_and_runs_nothing(lab, small_disk):
    folder = TaskFolder(small_disk / "task")
    folder.make()
    programs.fill(small_disk)
    with pytest.raises(OSError, match="No space"):
        launch(["touch", str(lab.directory / "ran")], folder, cwd="/", env=os.environ)
    assert os.listdir(folder.directory) == ["output.log"]
    assert not (lab.directory / "ran").exists()


def test_ctrl_c_at_the_terminal_of_the_host_reaches_no_task(lab):
    import pexpect

    tag = lab.new_tag()
    folder = TaskFolder(lab.directory / tag)
    code = [programs.HEAD + 'signal.signal(signal.SIGINT, lambda *_: tell("int")); tell("main"); sleep()']
    terminal = pexpect.spawn(
        sys.executable,
        ["-c", textwrap.dedent(HOST), str(folder.directory), tag, sys.executable, "-c", *code],
        timeout=programs.GIVE_UP_S,
    )
    terminal.expect("started")
    until(lambda: b"main" in folder.log.read_bytes(), "the program")
    terminal.sendintr()
    terminal.expect("KeyboardInterrupt")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert is_alive(folder.started().main)
    assert is_alive(folder.started().supervisor)
    assert b"int" not in folder.log.read_bytes()


def test_nothing_is_left_open_in_the_host(lab):
    lab.start(["true"])
    before = set(os.listdir("/proc/self/fd"))
    lab.start(["true"])
    with pytest.raises(OSError):
        lab.start(["no-such-program"])
    assert set(os.listdir("/proc/self/fd")) <= before


def test_damaged_records_are_none(tmp_path):
    folder = TaskFolder(tmp_path)
    good = {"pid": 5, "ticks": 6, "boot": "b"}
    for text in [
        "",
        "{",
        "[]",
        "{}",
        '{"main":{},"group":1}',
        json.dumps({"main": good, "group": "5"}),
        json.dumps({"main": good, "group": 5, "supervisor": {"pid": 0}}),
    ]:
        (tmp_path / "process.json").write_text(text)
        (tmp_path / "exit.json").write_text(text)
        assert folder.started() is None
        assert folder.exit() is None
    for record in [
        {"code": 1, "signal": 2, "at": "", "gone": True},
        {"code": None, "signal": None, "at": "", "gone": True},
        {"code": True, "at": "", "gone": True},
        {"code": 1, "gone": True},
        {"code": 1, "at": "", "gone": 1},
    ]:
        (tmp_path / "exit.json").write_text(json.dumps(record))
        assert folder.exit() is None
    (tmp_path / "process.json").write_text(json.dumps({"main": good, "group": 5}))
    assert folder.started().supervisor is None
    assert TaskFolder(tmp_path / "nowhere").started() is None
    assert TaskFolder(tmp_path / "nowhere").exit() is None


def test_a_cancelled_task_is_marked(tmp_path):
    folder = TaskFolder(tmp_path / "deep" / "task")
    assert not folder.is_cancelled()
    assert folder.make()
    assert not folder.make()
    folder.mark_cancelled()
    folder.mark_cancelled()
    assert folder.is_cancelled()
