"""Starting a task: it is given to the host, or it never was."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from agent import make
from interrupting import interruptions
from programs import until
from workers import alive

from sessions import ConflictError, NotFoundError, RequestError, stopping, tasks
from sessions.rewind.log import CaptureLog


def running(*argv: str) -> list[int]:
    """The processes with that command line."""
    wanted = b"\0".join(os.fsencode(word) for word in argv)
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def nothing_is_left(agent) -> bool:
    folders = agent.sidecar / "tasks"
    return not agent.session.tasks.list() and not (folders.exists() and os.listdir(folders))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks through /proc")
def test_ctrl_c_anywhere_in_a_spawn_leaves_neither_a_task_nor_a_process(agent):
    program = ["sleep", f"600.{os.getpid()}"]
    make(agent.project / "f", "as it was")
    agent.turn("prompt", {})

    def work():
        return agent.session.tasks.spawn(program, edits=["f"])

    for _ in interruptions(work, [tasks, contextlib]):
        assert not running(*program)
        assert nothing_is_left(agent)
    [task] = agent.session.tasks.list()
    assert running(*program) == [task.pid]
    assert not agent.session.plan_rewind(1).changes_files


def test_ctrl_c_anywhere_in_adopting_or_attaching_leaves_no_task(agent):
    agent.turn("prompt", {})
    over = threading.Event()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        for _ in interruptions(lambda: agent.session.tasks.adopt(process), [tasks]):
            assert nothing_is_left(agent)
            assert alive(process.pid)
        agent.session.rewind(1)
    agent.turn("prompt", {})
    for _ in interruptions(lambda: agent.session.tasks.attach(cancel=over.set, wait=over.wait), [tasks]):
        assert not agent.session.tasks.list()
    agent.session.rewind(1)


@pytest.mark.parametrize("pid", [1 << 31, 1 << 40, 1 << 80, -1, 0, -(1 << 40)])
def test_a_number_no_process_has_is_not_found(agent, pid):
    agent.turn("prompt", {})
    with pytest.raises(NotFoundError, match="no process"):
        agent.session.tasks.adopt(pid)
    assert nothing_is_left(agent)


def test_a_process_is_one_task_while_that_runs(agent):
    agent.turn("prompt", {})
    spawned = agent.python("input()", label="spawned")
    with pytest.raises(ConflictError, match=f"'spawned' \\({spawned.id}\\)"):
        agent.session.tasks.adopt(spawned.pid)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        adopted = agent.session.tasks.adopt(process, label="adopted")
        with pytest.raises(ConflictError, match=f"'adopted' \\({adopted.id}\\)") as refused:
            agent.session.tasks.adopt(process.pid)
        assert refused.value.details["task"] == adopted.id
        assert len(agent.session.tasks.list()) == 2


def test_a_label_that_is_none_is_told_how_long_it_may_be(agent):
    agent.turn("prompt", {})
    with pytest.raises(RequestError, match="at most 200 characters"):
        agent.python("", label="x" * 201)


def test_ctrl_c_anywhere_in_a_cancel_leaves_a_task_that_runs_on_or_is_settled(agent):
    agent.turn("prompt", {})
    begun = [agent.session.tasks.spawn(["sleep", "1000"])]
    for _ in interruptions(lambda: agent.session.tasks.cancel(begun[-1]), [stopping]):
        task = begun[-1]
        if alive(task.pid):
            os.kill(task.pid, signal.SIGKILL)
        until(lambda task=task: CaptureLog(agent.sidecar).read().tasks[task.id].ended, "its end")
        begun.append(agent.session.tasks.spawn(["sleep", "1000"]))
    assert agent.state(begun[-1]) == "cancelled"
