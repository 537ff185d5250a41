"""What ends while nobody is there, and what a manager that was killed left: settled at the next opening, once."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from programs import until
from workers import BLIND_WRITER, alive, in_child, notices, stays
from worst_moments import killed_at

import sessions.stopping
from sessions import NotFoundError, SessionStore, UnstoppableError
from sessions.subagents.identity import identity_of

HOST = """
import sys, sessions
store = sessions.SessionStore(sys.argv[1])
session = store.open(sys.argv[2])
with session.begin_turn("by the host"):
    task = session.tasks.spawn([sys.executable, "-c", sys.argv[3]], label="worker", edits=sys.argv[5:])
print(task.id, task.pid, flush=True)
if sys.argv[4] == "cancel":
    input()
    session.tasks.cancel(task.id)
else:
    input()
"""


def host(agent, code, does="waits", *edits):
    """Let another process open the session, start a task and wait; return it with the task's id and pid."""
    agent.session.close()
    process = subprocess.Popen(
        [sys.executable, "-c", HOST, agent.root, agent.session.id, code, does, *edits],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    task, pid = process.stdout.readline().split()
    return process, task, int(pid)


def kill(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def opened(agent):
    agent.store = SessionStore(agent.root)
    agent.session = agent.store.open(agent.session.id)
    return agent.session


def test_a_task_of_a_manager_that_was_killed_runs_on_and_can_be_cancelled(agent):
    agent.turn("first")
    process, task, pid = host(agent, "import time; time.sleep(1000)")
    kill(process)
    assert alive(pid)
    [found] = opened(agent).tasks.list()
    assert (found.id, found.state, found.pid, found.label) == (task, "running", pid, "worker")
    assert agent.session.tasks.cancel(task).state == "cancelled"
    assert not alive(pid)
    assert notices(agent.session) == []


@pytest.mark.parametrize(
    ("code", "state", "status"), [("pass", "completed", "completed"), ("exit(7)", "failed", "failed")]
)
def test_how_a_task_ended_is_known_though_nobody_was_there_and_told_once(agent, code, state, status):
    agent.turn("first")
    process, task, pid = host(agent, f"import time; time.sleep(0.3); {code}")
    kill(process)
    until(lambda: identity_of(pid) is None, "its end")
    for _ in range(3):
        assert opened(agent).tasks.get(task).state == state
        assert notices(agent.session) == [(task, status)]
        agent.session.close()


def test_a_task_nobody_knows_the_end_of_is_lost_and_told_once(agent):
    agent.turn("first")
    process, task, pid = host(agent, "import time; time.sleep(1000)")
    kill(process)
    supervisor = identity_of(int(_parent(pid)))
    os.kill(supervisor.pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "its end")
    for _ in range(2):
        assert opened(agent).tasks.get(task).state == "lost"
        assert notices(agent.session) == [(task, "aborted")]
        agent.session.close()


def test_a_manager_killed_during_a_cancel_is_finished_by_the_next(agent):
    (agent.root / "settings.toml").write_text("[tasks]\ngrace_s = 60\n")
    agent.turn("first")
    process, task, pid = host(agent, BLIND_WRITER, "cancel", "written.txt")
    agent.wait_for()
    process.stdin.write("\n")
    process.stdin.flush()
    mark = agent.sidecar / "tasks" / task / "cancel"
    until(mark.exists, "the decision")
    kill(process)
    assert alive(pid)
    (agent.root / "settings.toml").write_text("[tasks]\ngrace_s = 0.1\n")
    assert opened(agent).tasks.get(task).state == "cancelled"
    assert [(each.kind, each.where) for each in agent.session.findings] == [
        ("unfinished_cancel", f"task worker ({task})")
    ]
    assert not alive(pid)
    assert notices(agent.session) == []
    assert stays(lambda: agent.written)
    agent.session.rewind(2)
    assert agent.files == {}


def test_the_owner_records_what_another_process_cancels(agent):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    with SessionStore(agent.root).open(agent.session.id, read_only=True) as other:
        assert other.tasks.cancel(task.id).state == "cancelled"
        assert other.tasks.cancel(task.id).state == "cancelled"
    until(lambda: agent.session.tasks.get(task.id).state == "cancelled", "the record")
    assert notices(agent.session) == []
    agent.reopen()
    assert (agent.state(task), notices(agent.session)) == ("cancelled", [])


def test_a_task_that_ended_by_itself_did_also_when_its_leftovers_are_stopped_before_that_is_on_record(agent):
    program = "import subprocess, sys; subprocess.Popen(['sleep', '1000'], start_new_session=True); sys.exit(3)"
    with agent.session.begin_turn("first"), agent.session.hold.guard:  # its owner has no time to settle it
        task = agent.python(program)
        with SessionStore(agent.root).open(agent.session.id, read_only=True) as other:
            until(lambda: other.tasks.get(task.id).state == "failed", "its end")
            assert other.tasks.get(task.id).processes == 1
            stopped = other.tasks.cancel(task.id)
        assert (stopped.state, stopped.processes, notices(agent.session)) == ("failed", 0, [])
    until(lambda: notices(agent.session), "the notice")
    assert (agent.state(task), notices(agent.session)) == ("failed", [(task.id, "failed")])


@pytest.mark.parametrize("change", ["ticks", "boot"])
def test_a_stranger_that_got_the_pid_is_left_alone(agent, change):
    agent.turn("first")
    process, task, pid = host(agent, "import time; time.sleep(1000)")
    kill(process)
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        path = agent.sidecar / "tasks" / task / "process.json"
        record = json.loads(path.read_bytes())
        record["main"] |= {"pid": stranger.pid} if change == "ticks" else {"boot": "another"}
        record["group"] = stranger.pid
        record["supervisor"]["pid"] = stranger.pid
        path.write_text(json.dumps(record))
        os.kill(_parent(pid), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid), "its end")
        assert opened(agent).tasks.get(task).state == "lost"
        agent.session.tasks.cancel(task)
        agent.session.rewind(2)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_crash_at_any_step_of_settling_leaves_one_notice(agent):
    agent.turn("first")
    process, task, pid = host(agent, "open('made', 'w').write('m')", "waits", "made")
    kill(process)
    until(lambda: identity_of(pid) is None, "its end")
    (agent.project / "made").write_text("m")
    number = 1
    while killed_at(number, lambda: SessionStore(agent.root).open(agent.session.id).close()):
        number += 1
        with SessionStore(agent.root).open(agent.session.id, read_only=True) as seen:
            assert len(notices(seen)) <= 1
    assert number > 3
    session = opened(agent)
    assert (session.tasks.get(task).state, notices(session)) == ("completed", [(task, "completed")])
    assert [file.path for file in session.plan_rewind(2).files] == ["made"]


def test_a_manager_killed_while_it_starts_a_task_leaves_one_that_runs_or_none(agent):
    agent.turn("first")
    agent.session.close()

    def start():
        with SessionStore(agent.root).open(agent.session.id) as session:
            session.tasks.spawn(["sleep", "1000"], label="worker")

    number = 1
    while killed_at(number, start):
        number += 3
        for task in opened(agent).tasks.list():
            assert task.state in {"running", "lost", "cancelled"}
            assert (task.processes > 0) == (task.state == "running")
            agent.session.tasks.cancel(task.id)
        assert all(task.processes == 0 for task in agent.session.tasks.list())
        agent.session.close()
    assert number > 4


def test_a_task_that_ends_is_told_once_while_the_host_goes_on(agent):
    task = agent.spawn("first", "print('said'); exit(3)")
    until(lambda: notices(agent.session), "the notice")
    [message] = [message for message in agent.session.history() if message.blocks[0].type == "task_notification"]
    block = message.blocks[0]
    assert (message.role, block.task_id, block.task_type, block.status) == ("user", task.id, "shell", "failed")
    assert block.summary == "Background task 'worker' failed with exit code 3"
    assert Path(block.output_file).read_text() == "said\n"
    assert [each.prompt for each in agent.session.checkpoints()] == ["first"]
    agent.turn("second")
    agent.reopen()
    assert notices(agent.session) == [(task.id, "failed")]


def test_a_cancelled_task_is_never_told_of(agent):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    agent.session.tasks.cancel(task.id)
    time.sleep(0.3)
    agent.reopen()
    assert (agent.state(task), notices(agent.session)) == ("cancelled", [])


def test_partial_output_is_kept_and_a_second_cancel_is_harmless(agent):
    task = agent.spawn("first", "import time; print('half', flush=True); time.sleep(1000)")
    until(task.log.read_text, "the output")
    for _ in range(2):
        assert agent.session.tasks.cancel(task.id).state == "cancelled"
    assert task.log.read_text() == "half\n"


def test_closing_leaves_tasks_running_and_the_next_opening_watches_them(agent):
    task = agent.spawn("first", "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)")
    agent.reopen()
    assert agent.state(task) == "running"
    (agent.project / "go").touch()
    until(lambda: notices(agent.session) == [(task.id, "completed")], "the notice")


def test_43_tasks_are_cancelled_at_once(agent):
    with agent.session.begin_turn("first"):
        tasks = [agent.session.tasks.spawn(["sleep", "1000"]) for _ in range(43)]
    report = agent.session.rewind(1)
    assert len(report.cancelled) == 43
    assert not any(alive(task.pid) for task in tasks)


def test_several_are_cancelled_in_one_call_and_none_where_one_is_refused(agent):
    with agent.session.begin_turn("first"):
        tasks = [agent.session.tasks.spawn(["sleep", "1000"]) for _ in range(3)]
    with pytest.raises(NotFoundError):
        agent.session.tasks.cancel_all([tasks[0], "nobody"])
    assert [task.state for task in agent.session.tasks.list()] == ["running"] * 3
    stopped = agent.session.tasks.cancel_all([tasks[2].id, tasks[0]])
    assert [(task.id, task.state) for task in stopped] == [(tasks[2].id, "cancelled"), (tasks[0].id, "cancelled")]
    assert agent.state(tasks[1]) == "running"
    assert agent.session.tasks.cancel_all([]) == []


def test_a_program_that_cannot_be_started_leaves_nothing(agent):
    with agent.session.begin_turn("first"):
        for argv, options in (
            (["no-such-program"], {}),
            (["true"], {"cwd": "nowhere"}),
            (["no-such"], {"edits": ["f"]}),
        ):
            with pytest.raises(OSError, match=r"no-such|nowhere"):
                agent.session.tasks.spawn(argv, **options)
    assert agent.session.tasks.list() == []
    plan = agent.session.plan_rewind(1)
    assert (plan.tasks, plan.gaps, plan.changes_files) == ((), (), False)
    agent.reopen()
    assert notices(agent.session) == []


def test_an_adopted_process_is_stopped_and_its_status_is_its_owners(agent):
    with agent.session.begin_turn("first"):
        process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        task = agent.session.tasks.adopt(process.pid)
        ends = subprocess.Popen(["sh", "-c", "exit 7"])
        ended = agent.session.tasks.adopt(ends, label="ends")
    assert task.label == "sleep 1000"
    until(lambda: agent.state(ended) == "failed", "its end")
    assert (agent.session.tasks.get(ended.id).exit_code, ends.wait()) == (7, 7)
    assert [each.id for each in agent.session.rewind(1).cancelled] == [task.id]
    assert process.wait() == -signal.SIGTERM


def test_neither_this_process_nor_one_above_it_can_be_adopted(agent):
    agent.turn("first")
    for pid in (os.getpid(), os.getppid(), 1):
        with pytest.raises(Exception, match="cannot be adopted"):
            agent.session.tasks.adopt(pid)
    child = in_child(lambda: None)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with pytest.raises(Exception, match="no process"):
        agent.session.tasks.adopt(child)


def test_a_task_that_survives_is_named_and_stays_running(agent, monkeypatch):
    import functools

    import sessions.stopping
    from sessions.subagents.cancelling import stop

    def refuses(identity, number):
        raise PermissionError

    task = agent.spawn("first", "import time; time.sleep(1000)")
    monkeypatch.setattr(sessions.stopping, "stop", functools.partial(stop, send=refuses))
    with pytest.raises(UnstoppableError, match=str(task.pid)):
        agent.session.tasks.cancel(task.id)
    assert agent.state(task) == "running"


def _parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])


def test_a_cancel_that_was_broken_off_takes_nothing_from_another_one(agent, monkeypatch):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    begun, breaks_off, marked = threading.Event(), threading.Event(), []
    stop = sessions.stopping.stop

    def stopping(quarries, **options):
        if threading.current_thread() is first:
            begun.set()
            breaks_off.wait(60)
            raise KeyboardInterrupt
        breaks_off.set()
        first.join()
        marked.extend(agent.sidecar.glob("tasks/*/cancel"))  # what finishes this cancel after a crash
        return stop(quarries, **options)

    def cancel():
        with pytest.raises(KeyboardInterrupt):
            agent.session.tasks.cancel(task.id)

    monkeypatch.setattr(sessions.stopping, "stop", stopping)
    first = threading.Thread(target=cancel)
    first.start()
    begun.wait(60)
    assert agent.session.tasks.cancel(task.id).state == "cancelled"
    assert len(marked) == 1
    agent.reopen()
    assert (agent.state(task), notices(agent.session)) == ("cancelled", [])
