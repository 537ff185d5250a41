"""Tasks of a session with limits: those of turns whose snapshots are removed, and what is kept of those that went."""

import itertools
import os
import shutil
import subprocess
import time

import pytest
from agent import contents, make
from limited import names_in
from programs import until
from workers import Worker, alive, notices
from worst_moments import killed_at

from sessions import SessionStore
from sessions.subagents.folder import Started
from sessions.subagents.identity import identity_of


@pytest.fixture
def limited(root, project):
    """Make an agent whose session has limits."""
    working = []

    def make_(**numbers):
        root.mkdir(exist_ok=True)
        lines = [f"{name} = {number}" for name, number in numbers.items()]
        (root / "settings.toml").write_text("\n".join(["[checkpoints]", *lines, "[tasks]", "grace_s = 0.1"]))
        working.append(Worker(root, project))
        return working[-1]

    yield make_
    for each in working:
        each.end()


def old_turn(agent, code):
    """Take a turn that edits and starts a task, and more until its snapshots are removed; return the task."""
    with agent.session.begin_turn("one") as turn:
        with turn.edit("a"):
            (agent.project / "a").write_text("first")
        task = agent.python(code, edits=["f", "made"])
        with turn.edit("a"):
            (agent.project / "a").write_text("second")
    for number in range(3):
        agent.turn(f"turn {number}", {"b": f"b{number}"})
    assert names_in(agent.sidecar / "turns") == ["3", "4"]
    return task


def test_a_task_of_a_turn_whose_snapshots_are_removed_ends_and_is_told_of(limited):
    agent = limited(retain_turns=2)
    task = old_turn(
        agent, "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nopen('f', 'w').write('T')"
    )
    (agent.project / "go").touch()
    until(lambda: notices(agent.session), "the notice")
    assert notices(agent.session) == [(task.id, "completed")]
    assert names_in(agent.sidecar / "turns") == ["3", "4"]
    agent.session.rewind(1)
    assert contents(agent.project) == {"go": b""}


def test_a_task_of_a_turn_whose_snapshots_are_removed_is_stopped_by_a_cancel_and_a_rewind(limited):
    agent = limited(retain_turns=2)
    task = old_turn(agent, "open('f', 'w').write('T')\nimport time; time.sleep(1000)")
    until((agent.project / "f").exists, "its file")
    assert agent.session.tasks.cancel(task.id).state == "cancelled"
    agent.session.rewind(1)
    assert contents(agent.project) == {}
    assert not alive(task.pid)


def test_a_snapshot_that_is_missing_for_another_reason_is_an_error(limited):
    agent = limited(retain_turns=10)
    task = agent.spawn("one", "import time; time.sleep(1000)", edits=["f"])
    with agent.session.begin_turn("two"):
        turn_of_f = agent.sidecar / "turns"
        (agent.project / "f").write_text("by hand")
    agent.session.tasks.cancel(task.id)
    assert names_in(turn_of_f) == ["1"]
    again = agent.python("import time; time.sleep(1000)", edits=["f"], spawned_by=task.spawned_by)
    for path in (turn_of_f / "1/files").iterdir():
        os.unlink(path)
    with pytest.raises(OSError, match="No such file"):
        agent.session.tasks.cancel(again.id)


# -- what is kept of tasks that a rewind removed -----------------------------------------------------------------------

WAITS = "import time; print('said', flush=True); time.sleep(1000)"


def removed_task(agent, code=WAITS):
    """Start a task in a turn of its own, wait until it says something, and take the turn back."""
    task = agent.spawn("work", code)
    until(task.log.read_text, "its output")
    agent.session.rewind(len(agent.session.checkpoints()))
    return task


def logs_kept(agent):
    return set(names_in(agent.sidecar / "tasks"))


def leftover(agent, name, *, age_s=3600):
    """Make the folder of a task nobody has on record."""
    folder = agent.sidecar / "tasks" / name
    make(folder / "output.log", "x" * 5000)
    os.utime(folder, (time.time() - age_s,) * 2)
    return folder


def test_the_log_of_a_removed_task_goes_with_the_undo_record_and_not_before(limited):
    agent = limited(retain_rewinds=2)
    agent.turn("stays", {})
    runs = agent.spawn("runs", WAITS)
    tasks = [removed_task(agent) for _ in range(3)]
    assert logs_kept(agent) == {runs.id, tasks[1].id, tasks[2].id}
    agent.session.undo_rewind()
    assert {task.id for task in agent.session.tasks.list()} == {runs.id, tasks[2].id}
    assert agent.session.tasks.get(tasks[2].id).log.read_text() == "said\n"


def test_a_task_that_an_undo_brought_back_stays_whatever_becomes_of_the_record(limited):
    agent = limited(retain_rewinds=20)
    agent.turn("stays", {})
    task = removed_task(agent)
    agent.session.undo_rewind()
    agent.turn("goes on", {"f": "v"})
    agent.session.rewind(3)
    assert agent.session.prune(undo=True).eviction.records
    assert logs_kept(agent) == {task.id}


def test_prune_says_beforehand_what_goes_of_logs_and_counts_their_bytes(limited):
    agent = limited()
    agent.turn("stays", {})
    tasks = [removed_task(agent, f"print('x' * 100_000, flush=True); {WAITS}") for _ in range(2)]
    agent.close()
    (seen,) = SessionStore(agent.root).prune(undo=True, dry_run=True)
    assert logs_kept(agent) == {task.id for task in tasks}
    (done,) = SessionStore(agent.root).prune(undo=True)
    assert seen == done
    assert done.tasks == (tasks[0].id,)
    assert done.freed_bytes > 100_000
    assert logs_kept(agent) == {tasks[1].id}
    assert SessionStore(agent.root).prune(undo=True) == []


def test_the_folder_of_a_removed_task_stays_while_a_process_of_it_lives(limited):
    agent = limited()
    agent.turn("stays", {})
    task = removed_task(agent)
    folder = agent.session.tasks._roster.folder(task.id)
    (folder.directory / "exit.json").unlink()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as process:
        folder.write_started(Started(identity_of(process.pid), process.pid, None))
        removed_task(agent)
        assert agent.session.prune(undo=True).eviction.records
        assert task.id in logs_kept(agent)
    assert agent.session.prune().tasks == (task.id,)
    assert task.id not in logs_kept(agent)


def test_a_folder_that_a_crash_left_goes_but_not_one_that_somebody_may_be_making(limited, tmp_path):
    agent = limited()
    task = agent.spawn("runs", WAITS)
    leftover(agent, "task-00000000")
    leftover(agent, "task-11111111", age_s=0)
    leftover(agent, "notes")
    (agent.sidecar / "tasks/task-22222222").symlink_to(tmp_path)
    agent.close()
    (done,) = SessionStore(agent.root).prune()
    assert done.tasks == ("task-00000000",)
    assert logs_kept(agent) == {task.id, "task-11111111", "task-22222222", "notes"}


def test_a_turn_that_ends_removes_what_a_crash_left_of_tasks(limited):
    agent = limited()
    agent.turn("one", {})
    leftover(agent, "task-00000000")
    agent.reopen()
    agent.turn("two", {})
    assert logs_kept(agent) == set()


def test_sigkill_at_any_call_of_a_pruning_leaves_what_the_next_one_finishes(limited, memory_path):
    agent = limited()
    agent.turn("stays", {})
    tasks = [removed_task(agent) for _ in range(2)]
    agent.close()
    shutil.copytree(agent.root, memory_path / "kept")
    for number in itertools.count(1):
        shutil.rmtree(agent.root)
        shutil.copytree(memory_path / "kept", agent.root)
        if not killed_at(number, lambda: SessionStore(agent.root).prune(undo=True)):
            break
        SessionStore(agent.root).prune(undo=True)
        assert logs_kept(agent) == {tasks[1].id}
    assert number > 5


def test_a_file_too_big_to_be_kept_is_recorded_once_though_several_tasks_may_change_it(limited):
    agent = limited(max_file_bytes=10)
    make(agent.project / "big", "x" * 100)
    with agent.session.begin_turn("work"):
        tasks = [agent.session.tasks.spawn(["sleep", "1000"], edits=["big"]) for _ in range(2)]
    for task in tasks:
        agent.session.tasks.cancel(task)
    assert (agent.sidecar / "timeline.jsonl").read_bytes().count(b'"kind":"after"') == 1
