"""Processes of the host's that are adopted: how one ended its owner knows, maybe later than all see that it is gone."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest
from agent import contents, verdicts
from programs import until
from workers import alive, notices

import sessions.subagents.adopting
from sessions import SessionStore
from sessions.rewind.log import CaptureLog
from sessions.subagents.processes import Table

HOST = """
import sys, subprocess, sessions
class Late:
    returncode = None
session = sessions.SessionStore(sys.argv[1]).open(sys.argv[2])
with session.begin_turn("by the host"):
    parent = subprocess.Popen(["bash", "-c", "sleep 0.3 & echo $!; wait"], stdout=subprocess.PIPE)
    late = Late()
    late.pid = int(parent.stdout.readline())
    task = session.tasks.adopt(late, label="late")
    parent.wait()
print(task.id, flush=True)
input()
late.returncode = 3
input()
"""
"""Another process that has the session open and adopts one whose owner learns late how it ended."""


class Late:
    """An owner that learns how its process ended when it is told to: that is another one's child.

    Args:
        does: What the process does when it is asked to end, as a shell takes it.
    """

    def __init__(self, does: str = "true", *, first: str = "true") -> None:
        script = f"set -m; exec 3<&0; (set +m; echo $BASHPID; {first}; read line; {does}) <&3 & wait"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.parent = subprocess.Popen(["bash", "-c", script], **pipes)
        self.pid = int(self.said())
        self.returncode: int | None = None

    def said(self) -> str:
        return self.parent.stdout.readline().decode().strip()

    def ends(self) -> None:
        self.parent.stdin.close()
        self.parent.wait()
        self.parent.stdout.close()


@pytest.fixture
def late(agent):
    owner = Late()
    with agent.session.begin_turn("first"):
        owner.task = agent.session.tasks.adopt(owner, label="late")
    yield owner
    owner.ends()


def test_one_whose_owner_does_not_know_yet_is_not_settled_and_nobody_waits_for_that(agent, late):
    late.ends()
    seen = agent.session.tasks.get(late.task)
    assert (seen.state, seen.pid, seen.processes) == ("running", None, 0)
    with agent.session.begin_turn("second") as turn, turn.edit("file"):
        assert agent.state(late.task) == "running"
    late.returncode = 3
    seen = agent.session.tasks.get(late.task)
    assert (seen.state, seen.exit_code) == ("failed", 3)
    until(lambda: notices(agent.session) == [(late.task.id, "failed")], "the notice")
    assert agent.session.tasks.get(late.task).ended_at == seen.ended_at


def test_what_its_owner_never_learns_nobody_knows(agent, monkeypatch):
    monkeypatch.setattr(sessions.subagents.adopting, "_LEARNING_S", 0.1)
    owner = Late()
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.adopt(owner)
    owner.ends()
    until(lambda: notices(agent.session) == [(task.id, "aborted")], "the notice")
    assert agent.state(task) == "lost"


def test_an_owner_that_cannot_say_it_breaks_no_look(agent):
    class Broken(Late):
        @property
        def returncode(self):
            raise OSError("no idea")

        @returncode.setter
        def returncode(self, code):
            pass

    owner = Broken()
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.adopt(owner)
    owner.ends()
    assert agent.state(task) == "running"


def test_on_an_event_loop_that_looks_itself_every_end_is_known(agent):
    async def host():
        seen = []
        with agent.session.begin_turn("first"):
            for _ in range(5):
                process = await asyncio.create_subprocess_exec("sh", "-c", "read line; exit 3", stdin=subprocess.PIPE)
                task = agent.session.tasks.adopt(process)
                process.stdin.close()
                while (now := agent.session.tasks.get(task)).state == "running":  # noqa: ASYNC110 - what is tested
                    await asyncio.sleep(0)
                seen.append((now.state, now.exit_code, process.returncode or await process.wait()))
        return seen

    assert asyncio.run(host()) == [("failed", 3, 3)] * 5
    until(lambda: [status for _, status in notices(agent.session)] == ["failed"] * 5, "the notices")


def test_an_event_loop_that_is_busy_when_a_process_ends_loses_nothing(agent):
    async def host():
        with agent.session.begin_turn("first"):
            process = await asyncio.create_subprocess_exec("sleep", "1000")
            task = agent.session.tasks.adopt(process)
            os.kill(process.pid, signal.SIGKILL)
            for _ in range(120):  # the loop does not run meanwhile
                assert agent.state(task) in {"running", "failed"}
                threading.Event().wait(0.01)
            await process.wait()
        return task

    task = asyncio.run(host())
    until(lambda: notices(agent.session) == [(task.id, "killed")], "the notice")


def test_one_that_nobody_reaped_is_known_and_its_status_is_left_to_its_owner(agent):
    class Silent:
        returncode = None

        def __init__(self, program):
            self.pid = program.pid

    program = subprocess.Popen(["sh", "-c", "exit 7"])
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.adopt(Silent(program))
    until(lambda: notices(agent.session) == [(task.id, "failed")], "the notice")
    assert (agent.session.tasks.get(task).exit_code, program.wait()) == (7, 7)


def test_what_it_left_is_recorded_when_it_is_gone_whoever_edits_on_before_its_owner_knows(agent):
    owner = Late(f"echo task > '{agent.project}/file'")
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.adopt(owner, edits=["file"])
    owner.ends()
    until(lambda: CaptureLog(agent.sidecar).read().touches[0].after is not None, "the record of what it left")
    agent.turn("second", {"file": "agent\n"})
    owner.returncode = 0
    until(lambda: notices(agent.session) == [(task.id, "completed")], "the notice")
    [left] = agent.session.diff(turn=1).files
    assert ("+task\n" in left.text, left.unverified) == (True, False)
    agent.session.rewind(2)
    assert (agent.project / "file").read_text() == "task\n"


def test_a_rewind_waits_for_the_owner_of_what_ended_and_its_undo_knows_how_it_did(agent, late):
    late.ends()
    assert agent.state(late.task) == "running"
    told = threading.Timer(0.2, lambda: setattr(late, "returncode", 3))
    told.start()
    report = agent.session.rewind(1)
    told.join()
    assert report.cancelled == ()
    agent.session.undo_rewind()
    assert agent.session.tasks.get(late.task).exit_code == 3
    assert notices(agent.session) == [(late.task.id, "failed")]


def test_a_rewind_on_the_thread_of_an_event_loop_does_not_wait_for_what_needs_that(agent):
    owner = Late(f"echo task > '{agent.project}/file'")
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.adopt(owner, edits=["file"])
    owner.ends()

    async def host():
        assert agent.state(task) == "running"
        return agent.session.rewind(1)

    assert verdicts(asyncio.run(host())) == {"file": ("delete", None)}
    agent.session.undo_rewind()
    owner.returncode = 3
    assert agent.session.tasks.get(task).exit_code == 3


def test_stopping_what_one_left_makes_no_cancel_of_its_own_end(agent):
    owner = Late(first="sleep 1000 & echo $!")
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.adopt(owner)
    left = int(owner.said())
    owner.ends()
    assert [each.id for each in agent.session.tasks.plan_cancel([task])] == [task.id]
    agent.session.tasks.cancel(task)
    assert not alive(left)
    owner.returncode = 3
    until(lambda: notices(agent.session) == [(task.id, "failed")], "the notice")


def test_a_cancelled_one_has_the_code_its_owner_learns_soon(agent, late):
    def learn():
        late.parent.wait()
        threading.Event().wait(0.1)
        late.returncode = -signal.SIGTERM

    told = threading.Thread(target=learn)
    told.start()
    assert agent.session.tasks.cancel(late.task).exit_code == -signal.SIGTERM
    told.join()
    assert notices(agent.session) == []


def test_closed_before_its_owner_knew_it_is_settled_by_the_next_opening_of_this_process(agent, late):
    late.ends()
    assert agent.state(late.task) == "running"
    agent.reopen()
    assert (agent.state(late.task), notices(agent.session)) == ("running", [])
    late.returncode = 3
    until(lambda: notices(agent.session) == [(late.task.id, "failed")], "the notice")


def test_what_somebody_writes_while_the_session_is_closed_is_not_what_it_left(agent):
    owner = Late()
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.adopt(owner, edits=["file"])
    agent.close()
    owner.ends()
    (agent.project / "file").write_text("somebody's")
    agent.reopen()
    assert agent.state(task) == "running"
    owner.returncode = 0
    until(lambda: notices(agent.session) == [(task.id, "completed")], "the notice")
    assert [(file.text, file.unverified) for file in agent.session.diff().files] == [("", True)]


def test_a_reader_elsewhere_says_no_end_while_somebody_may_know_it(agent):
    agent.turn("first")
    agent.close()
    command = [sys.executable, "-c", HOST, agent.root, agent.session.id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as host:
        task = host.stdout.readline().strip()
        with SessionStore(agent.root).open(agent.session.id, read_only=True) as reader:
            seen = reader.tasks.get(task)
            assert (seen.state, seen.pid) == ("running", None)
            host.stdin.write("\n")
            until(lambda: reader.tasks.get(task).state == "failed", "the record")
            assert notices(reader) == [(task, "failed")]
        host.kill()


def test_when_whoever_may_know_it_has_closed_the_session_nobody_does(agent):
    agent.turn("first")
    agent.close()
    command = [sys.executable, "-c", HOST, agent.root, agent.session.id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as host:
        task = host.stdout.readline().strip()
        host.kill()
    with SessionStore(agent.root).open(agent.session.id, read_only=True) as reader:
        assert (reader.tasks.get(task).state, notices(reader)) == ("lost", [])
    agent.reopen()
    assert (agent.session.tasks.get(task).state, notices(agent.session)) == ("lost", [(task, "aborted")])


def test_the_processes_are_looked_at_once_to_plan_a_cancel_and_once_to_describe_it(agent, late, monkeypatch):
    stop = threading.Event()
    with agent.session.begin_turn("second"):
        inside = agent.session.tasks.attach(cancel=stop.set, wait=stop.wait, label="inside")
    looks = []
    read = Table.read
    monkeypatch.setattr(Table, "read", lambda: looks.append("look") or read())
    assert len(agent.session.tasks.plan_cancel([late.task, inside])) == 2
    assert looks == ["look", "look"]


def test_what_a_subagents_process_left_is_on_record_when_its_session_is_closed_at_once(agent):
    for number in range(8):
        (agent.project / f"d{number}").mkdir()
        with agent.session.begin_turn(f"prompt {number}"), agent.session.subagent() as child:
            argv = ["sh", "-c", f"read line; echo made > '{agent.project}/d{number}/new'"]
            process = subprocess.Popen(argv, stdin=subprocess.PIPE)
            task = child.tasks.adopt(process, edits=[f"d{number}"])
            process.stdin.close()
            process.wait()
        until(lambda task=task: CaptureLog(agent.sidecar).read().tasks[task.id].ended, "its end")
    agent.session.rewind(1)
    assert contents(agent.project) == {}
