"""Tasks whose session is closed, or whose process is one of another task: the root looks after them."""

import sys
import threading

import pytest
from agent import contents, verdicts
from programs import until
from workers import alive, notices

import sessions.stopping
from sessions import SessionStore, UnstoppableError, assistant_message
from sessions.subagents import roster
from sessions.subagents.folder import TaskFolder

WRITES = (
    "import os, time\nwhile not os.path.exists('../go'): time.sleep(0.005)\nopen('out', 'w').write('by the task')\n"
)
INNER = """
import sessions, sys, threading
with sessions.subagent_from_env() as me:
    with me.begin_turn("work"):
        me.tasks.attach(cancel=print, wait=threading.Event().wait, label="inner")
        me.tasks.spawn([sys.executable, "-c", "import time; time.sleep(1000)"], label="deep")
    open("ready", "w").close()
    threading.Event().wait()
"""


def written_by_a_task_of_a_closed_subagent(agent):
    with agent.session.begin_turn("first"), agent.session.subagent() as child, child.begin_turn("work"):
        return child.tasks.spawn([sys.executable, "-c", WRITES], label="worker", edits=["out"])


@pytest.mark.parametrize("restart", [False, True])
def test_a_task_of_a_closed_subagent_is_settled_by_the_root_and_told_there_once(agent, restart):
    task = written_by_a_task_of_a_closed_subagent(agent)
    assert agent.state(task) == "running"
    if restart:
        agent.session.close()
    (agent.project.parent / "go").touch()
    if restart:
        until((agent.sidecar / "tasks" / task.id / "exit.json").exists, "its end")
        agent.reopen()
    until(lambda: notices(agent.session), "the notice")
    agent.reopen()
    assert notices(agent.session) == [(task.id, "completed")]
    (agent.project / "out").write_text("by the user")
    plan = agent.session.plan_rewind(1, on_conflict="keep")
    assert verdicts(plan) == {"out": ("skip", "conflict")}
    agent.session.rewind(plan)
    assert contents(agent.project) == {"out": b"by the user"}


def test_a_task_of_a_subagent_that_is_open_is_told_to_that_one_alone(agent):
    with agent.session.begin_turn("first"):
        child = agent.session.subagent()
    with child, child.begin_turn("work"):
        task = child.tasks.spawn([sys.executable, "-c", WRITES], label="worker", edits=["out"])
        agent.reopen()  # by a store of its own, as by another process
        (agent.project.parent / "go").touch()
        until(lambda: notices(child), "the notice")
    agent.reopen()
    assert (notices(child), notices(agent.session)) == ([(task.id, "completed")], [])


def test_work_attached_inside_the_process_of_a_task_ends_with_that(agent):
    task = agent.spawn("first", INNER)
    until((agent.project / "ready").exists, "the program")
    assert [each.state for each in agent.session.tasks.list()] == ["running"] * 3
    [inner] = [each for each in agent.session.tasks.list() if each.label == "inner"]
    with pytest.raises(sessions.ConflictError, match=f"runs inside process {task.pid}"):
        agent.session.tasks.cancel(inner.id)
    report = agent.session.rewind(1)
    assert {each.label for each in report.cancelled} == {"worker", "inner", "deep"}
    assert not alive(task.pid)


def test_what_ends_by_itself_after_a_cancel_that_failed_is_told(agent, monkeypatch):
    monkeypatch.setattr(sessions.stopping, "_SETTLING_S", 0.1)
    ends, never = threading.Event(), threading.Event()
    with agent.session.begin_turn("first"):
        stubborn, other = (
            agent.session.tasks.attach(cancel=lambda: None, wait=event.wait, label="stubborn")
            for event in (ends, never)
        )
    with pytest.raises(UnstoppableError):
        agent.session.rewind(1)
    ends.set()
    until(lambda: notices(agent.session), "the notice")
    assert notices(agent.session) == [(stubborn.id, "completed")]
    assert (agent.state(stubborn), agent.state(other)) == ("completed", "running")
    never.set()


def test_a_cancel_that_could_not_begin_leaves_no_task_half_cancelled(agent, monkeypatch):
    tasks = [agent.spawn(name, "import time; time.sleep(1000)", label=name) for name in ("first", "second")]
    marked = []

    def full(folder):
        marked.append(folder)
        if len(marked) == 2:
            raise OSError(28, "No space left on device")
        original(folder)

    original = TaskFolder.mark_cancelled
    monkeypatch.setattr(TaskFolder, "mark_cancelled", full)
    with pytest.raises(OSError, match="No space left"):
        agent.session.rewind(1)
    assert [agent.state(task) for task in tasks] == ["running", "running"]
    assert not any(folder.is_cancelled() for folder in marked)


def test_nothing_is_kept_in_memory_of_attached_work_that_ended(agent):
    with agent.session.begin_turn("first"):
        ended = threading.Event()
        tasks = [agent.session.tasks.attach(cancel=ended.set, wait=ended.wait, label=each) for each in ("one", "two")]
        assert all(task.id in roster._inside for task in tasks)
        ended.set()
    until(lambda: len(notices(agent.session)) == 2, "the notices")
    until(lambda: not any(task.id in roster._inside for task in tasks), "their end")


def test_a_subagent_without_a_message_is_open_and_told_of_its_task(agent):
    with agent.session.begin_turn("first"):
        child = agent.session.subagent()
    with child:
        task = child.tasks.spawn(["true"], label="worker")
        until(lambda: agent.state(task) == "completed", "its end")
        agent.reopen()
        until(lambda: agent.session.tasks.get(task.id).ended_at, "the record")
        child.append(assistant_message("done"))
        until(lambda: notices(child), "the notice")
    agent.reopen()
    assert (notices(child), notices(agent.session)) == ([(task.id, "completed")], [])


def test_a_task_of_a_subagent_that_another_process_closed_is_told_with_the_next_turn(agent):
    with agent.session.begin_turn("first"):
        child = agent.session.subagent()
    with child, child.begin_turn("work"):
        pass
    with SessionStore(agent.root).open(child.id) as elsewhere, elsewhere.begin_turn("more"):
        task = elsewhere.tasks.spawn(["true"], label="worker")
        until(lambda: agent.state(task) == "completed", "its end")
        until(lambda: notices(elsewhere), "the notice")
        other = elsewhere.tasks.spawn([sys.executable, "-c", WRITES], label="worker", edits=["out"])
    (agent.project.parent / "go").touch()
    until(lambda: agent.state(other) == "completed", "its end")
    with agent.session.begin_turn("second"):
        pass
    assert notices(agent.session) == [(other.id, "completed")]


def test_work_that_works_in_a_nested_subagent_is_attached_where_that_belongs(agent):
    with agent.session.begin_turn("first"):
        child = agent.session.subagent()
    with child:
        nested = child.subagent(label="nested")
        ended = threading.Event()
        task = child.tasks.attach(cancel=ended.set, wait=ended.wait, subagent=nested)
        assert (task.label, task.spawned_by) == ("nested", nested.spawned_by)
        assert [each.id for each in agent.session.rewind(1).cancelled] == [task.id]
