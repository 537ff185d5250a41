"""Ctrl-C while tasks are stopped: whoever runs on does so for good, and what is said of everybody is true."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from programs import until
from workers import alive, notices

import sessions.stopping
from sessions import user_message
from sessions.stopping import Stopping
from sessions.subagents.folder import TaskFolder
from sessions.subagents.roster import Roster

STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True);"
    " time.sleep(1000)"
)
LEAVES_ONE = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); time.sleep(1000)"


@pytest.fixture
def grace(root) -> None:
    """Tasks get more time to end than a test takes."""
    root.mkdir(exist_ok=True)
    (root / "settings.toml").write_text("[tasks]\ngrace_s = 30\n")


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])


def pressing(monkeypatch, owner, name, *, slow_s=0.0):
    """Let Ctrl-C come whenever a function begins and when it ends."""
    original = getattr(owner, name)

    def call(*args, **options):
        press()
        time.sleep(slow_s)
        try:
            return original(*args, **options)
        finally:
            press()

    monkeypatch.setattr(owner, name, call)


def pressed_when(found):
    """Let Ctrl-C come once something is so."""

    def wait():
        until(found, "the moment")
        press()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def marked(agent):
    return [*agent.sidecar.glob("tasks/*/cancel")]


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Roster, "wait_for_supervisors"),
        (Roster, "to_stop"),
        (TaskFolder, "unmark_cancelled"),
        (Stopping, "let_go"),
    ],
)
def test_more_of_it_changes_neither_what_is_said_nor_what_is_left(agent, monkeypatch, owner, name):
    stays = agent.spawn("first", STUBBORN)
    ends = agent.spawn("second", "import time; time.sleep(1000)")
    until(stays.log.read_bytes, "its start")

    def asked():
        if alive(ends.pid):
            return False
        pressing(monkeypatch, owner, name)
        return True

    first = pressed_when(asked)
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted; running on: \w+; ended: \w+$"):
        agent.session.tasks.cancel_all([stays, ends])
    first.join()
    monkeypatch.undo()
    assert [path.parent.name for path in marked(agent)] in ([], [ends.id])
    agent.reopen()
    assert (agent.state(stays), agent.state(ends)) == ("running", "cancelled")
    os.kill(stays.pid, signal.SIGKILL)


def test_one_that_comes_when_all_have_ended_says_so_too(agent, monkeypatch):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    pressing(monkeypatch, Stopping, "_conclude_stopped")
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted; ended: \w+$"):
        agent.session.tasks.cancel(task.id)
    monkeypatch.undo()
    assert agent.state(task) == "cancelled"
    agent.session.append(user_message("goes on"))


def test_a_task_said_to_run_on_is_not_settled_as_cancelled_when_it_ends_a_moment_later(agent, monkeypatch):
    task = agent.spawn("first", STUBBORN)
    until(task.log.read_bytes, "its start")
    unmark = TaskFolder.unmark_cancelled

    def slowly(folder):
        os.kill(task.pid, signal.SIGKILL)
        until(lambda: folder.exit() is not None, "its end")
        time.sleep(0.5)  # whoever would settle it has the time to
        unmark(folder)

    monkeypatch.setattr(TaskFolder, "unmark_cancelled", slowly)
    first = pressed_when(lambda: marked(agent))
    with pytest.raises(KeyboardInterrupt):
        agent.session.tasks.cancel(task.id)
    first.join()
    until(lambda: agent.state(task) == "failed", "its end")
    until(lambda: len(notices(agent.session)) == 1, "its notice")


def test_what_a_task_left_behind_when_its_program_ended_as_asked_is_no_running_task(agent):
    task = agent.spawn("first", LEAVES_ONE)
    until(task.log.read_bytes, "its child")
    first = pressed_when(lambda: not alive(task.pid))
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted; ended, but left processes: \w+$"):
        agent.session.tasks.cancel(task.id)
    first.join()
    assert agent.session.tasks.get(task.id).processes == 1
    os.kill(int(task.log.read_bytes()), signal.SIGKILL)


def test_a_handler_of_the_hosts_hears_of_it_and_the_tasks_are_stopped_if_it_goes_on(agent):
    task = agent.spawn("first", STUBBORN)
    until(task.log.read_bytes, "its start")
    heard = []

    def hear(number, _frame):
        heard.append(number)
        os.kill(task.pid, signal.SIGKILL)

    before = signal.signal(signal.SIGINT, hear)
    try:
        first = pressed_when(lambda: marked(agent))
        assert agent.session.tasks.cancel(task.id).state == "cancelled"
        first.join()
        assert signal.getsignal(signal.SIGINT) is hear
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_a_host_whose_wait_hears_no_timeout_is_broken_off_by_the_next_press(agent):
    over, asked, waits = threading.Event(), threading.Event(), []
    agent.turn("first", {})

    def waits_for_good(timeout_s):
        if not asked.is_set() or threading.current_thread() is not threading.main_thread():
            return over.wait(timeout_s)
        waits.append(1)
        return over.wait(60)

    task = agent.session.tasks.attach(cancel=asked.set, wait=waits_for_good)
    presses = [pressed_when(lambda at=at: len(waits) == at) for at in (1, 2)]
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted; running on: \w+"):
        agent.session.tasks.cancel(task.id)
    over.set()
    for each in presses:
        each.join()
    until(lambda: agent.state(task) == "completed", "its end")


def test_work_inside_the_host_that_one_gives_up_on_and_another_still_cancels_is_cancelled(agent, monkeypatch):
    over, begun, both = threading.Event(), threading.Event(), threading.Event()
    agent.turn("first", {})
    task = agent.session.tasks.attach(cancel=lambda: None, wait=over.wait)
    stop = sessions.stopping.stop

    def stopping(quarries, **options):
        if threading.current_thread() is first:
            begun.set()
            both.wait(60)
            raise KeyboardInterrupt
        both.set()
        first.join()
        over.set()
        return stop(quarries, **options)

    def cancel():
        with pytest.raises(KeyboardInterrupt):
            agent.session.tasks.cancel(task.id)

    monkeypatch.setattr(sessions.stopping, "stop", stopping)
    first = threading.Thread(target=cancel)
    first.start()
    begun.wait(60)
    assert agent.session.tasks.cancel(task.id).state == "cancelled"


def test_a_handler_of_the_hosts_may_cancel_a_task_at_any_moment(agent):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    stopping, done = agent.session.tasks._work.stopping, []

    class Pressing(dict):
        def pop(self, *given):
            if not done:
                done.append(1)
                press()
            return super().pop(*given)

    before = signal.signal(signal.SIGINT, lambda *_: done.append(agent.session.tasks.cancel(task.id)))
    try:
        stopping._held_back = Pressing(stopping._held_back)
        agent.spawn("second", "pass")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done[1].state == "cancelled"


def test_when_the_command_has_said_its_last_it_changes_no_exit_code():
    code = (
        "import os, sys; sys.argv = ['sessions', '--version']; from sessions.__main__ import main; code = main()\n"
        "os.kill(os.getpid(), 2); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ctrl_c_in_the_moment_between_the_last_process_and_its_supervisor_finds_the_task_ended(agent, monkeypatch):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    supervisor = _parent(task.pid)

    def stopping(_quarries, **_options):
        os.kill(supervisor, signal.SIGSTOP)
        os.kill(task.pid, signal.SIGTERM)
        until(lambda: not alive(task.pid), "its end")
        threading.Timer(0.2, os.kill, (supervisor, signal.SIGCONT)).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(sessions.stopping, "stop", stopping)
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted; ended: \w+$"):
        agent.session.tasks.cancel(task.id)
    agent.reopen()
    assert (agent.state(task), notices(agent.session)) == ("cancelled", [])
