"""Being told that a program ended, and that nobody of its task is left."""

import os
import signal
import subprocess
import sys
import threading

import programs
import pytest
from programs import python, state, until

from sessions.subagents.folder import Started
from sessions.subagents.identity import identity_of, is_alive
from sessions.subagents.watching import Watcher


class Told:
    """What a watcher said, and what was so at that moment."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.look = lambda task: None
        self.seen: list[object] = []

    def __call__(self, task: str) -> None:
        self.seen.append(self.look(task))
        self.tasks.append(task)

    def times(self, task: str, count: int) -> None:
        until(lambda: self.tasks.count(task) >= count, f"{count} calls")


@pytest.fixture(params=[True, False], ids=["pidfd", "no pidfd"])
def told(request, monkeypatch):
    if not request.param:
        monkeypatch.delattr(os, "pidfd_open")
    return Told()


@pytest.fixture
def watcher(told):
    watcher = Watcher(told)
    yield watcher
    watcher.close()


def test_the_end_of_the_program_is_told_when_its_record_is_there_and_the_end_of_all_again(lab, told, watcher):
    task = lab.start(python(programs.DAEMON))
    [daemon] = task.told("daemon")
    told.look = lambda _: (task.folder.exit(), is_alive(task.supervisor))
    watcher.watch("a", task.started)
    told.times("a", 1)
    os.kill(daemon, signal.SIGKILL)
    told.times("a", 2)
    [(first, lived), (second, lives)] = told.seen
    assert (first.gone, lived) == (False, True)
    assert (second.gone, lives) == (True, False)


def test_every_end_comes_with_its_record(lab, told, watcher):
    tasks = {str(number): lab.start(["sh", "-c", f"exit {number}"]) for number in range(20)}
    told.look = lambda task: tasks[task].folder.exit().code
    for name, task in tasks.items():
        watcher.watch(name, task.started)
    for name in tasks:
        told.times(name, 2)
    assert sorted(told.seen) == sorted([*range(20), *range(20)])
    assert len(told.tasks) == 40


def test_a_task_that_ended_before_is_told(lab, told, watcher):
    task = lab.start(["true"])
    task.gone()
    watcher.watch("a", task.started)
    told.times("a", 2)


def test_a_supervisor_that_was_stopped_holds_up_nobody_else(lab, told, watcher):
    held, other = lab.start(["sleep", "1000"]), lab.start(["sleep", "1000"])
    watcher.watch("held", held.started)
    watcher.watch("other", other.started)
    os.kill(held.supervisor.pid, signal.SIGSTOP)
    until(lambda: state(held.supervisor.pid) == "T", "the stop")
    os.kill(held.main.pid, signal.SIGKILL)
    os.kill(other.main.pid, signal.SIGKILL)
    told.times("other", 2)
    assert "held" not in told.tasks
    os.kill(held.supervisor.pid, signal.SIGCONT)
    told.times("held", 2)


def test_without_its_supervisor_a_program_is_still_watched(lab, told, watcher):
    task = lab.start(["sleep", "1000"])
    watcher.watch("a", task.started)
    os.kill(task.supervisor.pid, signal.SIGKILL)
    task.gone()
    os.kill(task.main.pid, signal.SIGKILL)
    told.times("a", 2)


def test_a_process_without_supervisor_is_told_once_though_nobody_reaped_it(told, watcher):
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    other = subprocess.Popen(["sleep", "0.3"])
    watcher.watch("a", Started(identity_of(process.pid), 0, None))
    watcher.watch("b", Started(identity_of(other.pid), 0, None))
    told.times("a", 1)
    told.times("b", 1)
    assert sorted(told.tasks) == ["a", "b"]
    assert process.wait() == 7
    other.wait()


def test_what_is_watched_no_more_is_not_told(lab, told, watcher):
    task, other = lab.start(["sleep", "1000"]), lab.start(["sleep", "1000"])
    watcher.unwatch("never watched")
    watcher.watch("a", task.started)
    watcher.watch("b", other.started)
    watcher.unwatch("a")
    os.kill(task.main.pid, signal.SIGKILL)
    task.gone()
    os.kill(other.main.pid, signal.SIGKILL)
    told.times("b", 2)
    assert told.tasks == ["b", "b"]


def test_an_error_of_the_callback_ends_nothing(lab):
    told = Told()

    def broken(task):
        told(task)
        raise RuntimeError

    watcher = Watcher(broken)
    for name in ("a", "b"):
        task = lab.start(["true"])
        watcher.watch(name, task.started)
        told.times(name, 2)
    watcher.close()


def test_closing_ends_the_thread_and_may_be_done_twice_and_from_the_thread_itself(lab):
    closed = threading.Event()

    def close(_):
        watcher.close()
        closed.set()

    watcher = Watcher(close)
    before = set(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    task = lab.start(["sleep", "1000"])
    watcher.watch("a", task.started)
    os.kill(task.main.pid, signal.SIGKILL)
    assert closed.wait(programs.GIVE_UP_S)
    watcher.close()
    watcher.close()
    assert threading.active_count() <= threads
    assert set(os.listdir("/proc/self/fd")) <= before
    watcher.watch("a", task.started)
    assert threading.active_count() <= threads


def test_a_watcher_nobody_used_has_no_thread():
    threads = threading.active_count()
    Watcher(print).close()
    assert threading.active_count() <= threads


def test_an_interpreter_with_a_watcher_ends(lab):
    task = lab.start(["sleep", "1000"])
    code = f"""
import sys
from sessions.subagents.folder import TaskFolder
from sessions.subagents.watching import Watcher
from pathlib import Path
watcher = Watcher(print)
watcher.watch("a", TaskFolder(Path({str(task.folder.directory)!r})).started())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=programs.GIVE_UP_S,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_forked_child_may_use_its_copy(lab):
    task = lab.start(["sleep", "1000"])
    told = Told()
    watcher = Watcher(told)
    watcher.watch("parent", task.started)
    ended = lab.start(["true"])
    ended.gone()
    child = os.fork()
    if child == 0:
        try:
            watcher.watch("child", ended.started)
            told.times("child", 2)
            watcher.close()
            os._exit(0 if told.tasks == ["child", "child"] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert told.tasks == []
    os.kill(task.main.pid, signal.SIGKILL)
    told.times("parent", 2)
    watcher.close()


@pytest.mark.parametrize("started", [False, True])
def test_ctrl_c_while_its_thread_starts_leaves_a_watcher_that_tells(told, watcher, monkeypatch, started):
    start = threading.Thread.start

    def interrupted(thread):
        monkeypatch.setattr(threading.Thread, "start", start)
        if started:
            start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        watcher.tell("interrupted")
    watcher.tell("later")
    told.times("later", 1)
    assert told.tasks == ["interrupted", "later"]


def test_a_watcher_whose_thread_never_started_can_be_closed(monkeypatch):
    def interrupted(thread):
        raise KeyboardInterrupt

    watcher = Watcher(Told())
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        watcher.tell("interrupted")
    watcher.close()


def test_what_could_not_be_told_is_told_again(told):
    left = [True, True, False]

    def tell(task):
        told(task)
        return bool(left) and left.pop(0)

    watcher = Watcher(tell)
    watcher.tell("a")
    told.times("a", 3)
    watcher.tell("b")
    watcher.close()
    assert told.tasks[:3] == ["a"] * 3
