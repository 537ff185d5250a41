"""Work inside the host: asyncio tasks and threads are cancelled, and waited for."""

import asyncio
import threading

import pytest
from agent import contents
from programs import until

import sessions.stopping
from sessions import ConflictError, NotFoundError, RequestError, UnstoppableError, assistant_message


def test_an_asyncio_task_is_cancelled_and_awaited_before_files_change(agent):
    agent.turn("first", {"f": "old"})
    seen = []

    async def work(child):
        with child, child.begin_turn("work") as turn:
            number = 0
            try:
                while True:
                    with turn.edit("f"):
                        (agent.project / "f").write_text(f"late {number}")
                    number += 1
                    await asyncio.sleep(0.001)
            finally:
                await asyncio.sleep(0.05)
                agent.session.append(assistant_message("interrupted"))
                with turn.edit("f"):
                    (agent.project / "f").write_text("the last word")
                seen.append("ended")

    async def host():
        with agent.session.begin_turn("second"):
            child = agent.session.subagent()
            running = asyncio.create_task(work(child), name="helper")
            task = agent.session.tasks.attach(running)
        await asyncio.sleep(0.05)
        with pytest.raises(ConflictError, match=r"'helper' runs on this very thread.*to_thread"):
            agent.session.rewind(2)
        assert seen == []
        report = await asyncio.to_thread(agent.session.rewind, 2)
        assert running.cancelled()
        return task, report

    task, report = asyncio.run(host())
    assert seen == ["ended"]
    assert [(each.id, each.label) for each in report.cancelled] == [(task.id, "helper")]
    assert contents(agent.project) == {"f": b"old"}
    assert not any(name.startswith("subagent-") for name in agent.names)


@pytest.mark.parametrize(("ends", "state"), [(lambda: 1, "completed"), (lambda: 1 / 0, "failed")])
def test_how_an_asyncio_task_ends_is_known_and_told(agent, ends, state):
    async def work():
        await asyncio.sleep(0.01)
        ends()

    async def host():
        with agent.session.begin_turn("first"):
            task = agent.session.tasks.attach(asyncio.create_task(work()), label="helper")
            assert task.state == "running"
        await asyncio.to_thread(until, lambda: [m for m in agent.session.messages if not m.text], "the notice")
        return task

    task = asyncio.run(host())
    assert agent.state(task) == state
    [notice] = [message for message in agent.session.messages if not message.text]
    assert (notice.blocks[0].task_type, notice.blocks[0].status) == ("subagent", state)


def test_a_thread_is_cancelled_by_what_the_host_gives(agent):
    stop, ended = threading.Event(), threading.Event()

    def work():
        stop.wait(60)
        agent.session.append(assistant_message("goodbye"))  # needs the session
        ended.set()

    with agent.session.begin_turn("first"):
        task = agent.session.tasks.attach(cancel=stop.set, wait=ended.wait, label="thread")
    thread = threading.Thread(target=work)
    thread.start()
    assert [each.id for each in agent.session.rewind(1).cancelled] == [task.id]
    thread.join()


def test_work_that_does_not_end_stops_the_rewind(agent, monkeypatch):
    monkeypatch.setattr(sessions.stopping, "_SETTLING_S", 0.1)
    ended = threading.Event()
    with agent.session.begin_turn("first") as turn:
        with turn.edit("f"):
            (agent.project / "f").write_text("f")
        task = agent.session.tasks.attach(cancel=lambda: None, wait=ended.wait, label="stubborn")
    before = agent.transcript
    with pytest.raises(UnstoppableError, match=rf"could not stop 'stubborn' \({task.id}\)"):
        agent.session.rewind(1)
    assert (agent.transcript, contents(agent.project)) == (before, {"f": b"f"})
    assert agent.state(task) == "running"
    ended.set()
    agent.session.rewind(1)
    assert contents(agent.project) == {}


def test_a_thread_is_joined(agent):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, args=(60,))
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.attach(thread, cancel=stop.set, label="thread")
        assert agent.state(task) == "running"
        thread.start()
        assert agent.state(task) == "running"
    assert [each.id for each in agent.session.rewind(1).cancelled] == [task.id]
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("wait", "said"),
    [(lambda _: None, "wait= returned None"), (lambda: True, "wait= cannot be called with a number of seconds")],
)
def test_a_wait_that_cannot_tell_is_refused_at_once(agent, wait, said):
    with agent.session.begin_turn("first"), pytest.raises(RequestError, match=said):
        agent.session.tasks.attach(cancel=print, wait=wait)
    assert agent.session.tasks.list() == []


def test_what_cancelling_raised_is_said(agent, monkeypatch):
    monkeypatch.setattr(sessions.stopping, "_SETTLING_S", 0.1)
    ended = threading.Event()
    with agent.session.begin_turn("first"):
        agent.session.tasks.attach(cancel=lambda: {}["key"], wait=ended.wait, label="broken")
    with pytest.raises(UnstoppableError, match=r"inside this process \(to cancel it raised KeyError\('key'\)\)"):
        agent.session.rewind(1)
    ended.set()


def test_of_several_subagents_in_one_turn_only_the_cancelled_one_is_over(agent):
    stops = [threading.Event(), threading.Event()]
    with agent.session.begin_turn("first"):
        children = [agent.session.subagent(label=name) for name in ("one", "two")]
        tasks = [
            agent.session.tasks.attach(cancel=stop.set, wait=stop.wait, subagent=child)
            for stop, child in zip(stops, children, strict=True)
        ]
        assert [(task.label, task.spawned_by) for task in tasks] == [
            (child_label, child.spawned_by) for child_label, child in zip(("one", "two"), children, strict=True)
        ]
    inner = [child.begin_turn("work") for child in children]
    server = children[0].tasks.spawn(["sleep", "1000"])
    other = children[1].tasks.spawn(["sleep", "1000"])
    edits = [turn.edit(f"f{number}") for number, turn in enumerate(inner)]
    for number, edit in enumerate(edits):
        edit.__enter__()
        (agent.project / f"f{number}").write_text("in the middle")
    agent.session.tasks.cancel(tasks[0].id)
    assert [agent.state(task) for task in (*tasks, server, other)] == ["cancelled", "running", "cancelled", "running"]
    (agent.project / "f0").write_text("somebody else")
    (agent.project / "f1").write_text("finished")
    edits[1].__exit__(None, None, None)
    plan = agent.session.plan_rewind(1)
    assert [conflict.path for conflict in plan.conflicts] == ["f0"]
    assert {task.id for task in plan.tasks} == {tasks[1].id, other.id}
    agent.session.rewind(1)
    assert contents(agent.project) == {}


def test_a_subagent_of_somebody_else_is_none_of_a_task(agent):
    with agent.session.begin_turn("first"):
        pass
    with (
        agent.store.create(agent.project) as another,
        another.begin_turn("first"),
        another.subagent() as child,
        pytest.raises(NotFoundError, match=f"no subagent matches {child.id!r}"),
    ):
        agent.session.tasks.attach(cancel=print, wait=threading.Event().wait, subagent=child)
    assert agent.session.tasks.list() == []


def test_work_of_a_host_that_is_gone_is_lost(agent):
    from workers import in_child, notices

    agent.turn("first")
    agent.session.close()

    def attach():
        agent.reopen()
        agent.session.tasks.attach(cancel=lambda: None, wait=threading.Event().wait, label="inside")

    import os
    import signal

    child = in_child(attach)
    with agent.store.open(agent.session.id, read_only=True) as seen:
        [task] = seen.tasks.list()
        assert (task.state, task.pid) == ("running", child)
        with pytest.raises(ConflictError, match=f"runs inside process {child}"):
            seen.tasks.cancel(task.id)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    agent.reopen()
    assert (agent.state(task), notices(agent.session)) == ("lost", [(task.id, "aborted")])


def test_a_thread_that_asks_about_itself_runs_and_cannot_wait_for_itself(agent):
    stop, said = threading.Event(), []

    def work():
        said.append([task.state for task in agent.session.tasks.list()])
        try:
            agent.session.rewind(1)
        except ConflictError as error:
            said.append(str(error))
        stop.wait(60)

    thread = threading.Thread(target=work)
    with agent.session.begin_turn("first"):
        task = agent.session.tasks.attach(thread, cancel=stop.set, label="thread")
    thread.start()
    until(lambda: len(said) == 2, "what it says")
    assert said[0] == ["running"]
    assert "'thread' runs on this very thread" in said[1]
    stop.set()
    thread.join()
    until(lambda: agent.state(task) == "completed", "its end")


def test_a_forked_child_does_not_take_its_parents_work_for_its_own(agent):
    from workers import in_child

    with agent.session.begin_turn("first"):
        task = agent.session.tasks.attach(cancel=lambda: None, wait=threading.Event().wait, label="inside")

    def cancel():
        with (
            agent.store.open(agent.session.id, read_only=True) as seen,
            pytest.raises(ConflictError, match="alone can"),
        ):
            seen.tasks.cancel(task.id)
        (agent.project / "refused").touch()

    in_child(cancel)
    assert (agent.project / "refused").exists()
    assert agent.state(task) == "running"
