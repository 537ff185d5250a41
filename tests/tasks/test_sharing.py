"""Tasks that may change the same files: what they left is recorded once, whoever ends together or one after another."""

import errno
from collections import Counter

import pytest
from agent import contents, make, verdicts
from programs import until

from sessions.rewind.log import CaptureLog
from sessions.rewind.ongoing import appeared
from sessions.rewind.worktree import Worktree
from sessions.transcript.codec import loads

MAKES = """
import os, time
os.makedirs("src/deep", exist_ok=True)
open("src/deep/made", "w").write("made")
open("src/a", "w").write("new")
time.sleep(1000)
"""


@pytest.fixture
def sharing(agent):
    """A turn that started three tasks which may change one directory, and what one of them made of it."""
    for name in ("a", "b", "c"):
        make(agent.project / "src" / name, "old")
    with agent.session.begin_turn("work"):
        tasks = [agent.session.tasks.spawn(["sleep", "1000"], edits=["src"]) for _ in range(2)]
        tasks.append(agent.python(MAKES, edits=["src"]))
    until(lambda: (agent.project / "src" / "a").read_text() == "new", "what it makes")
    return agent, tasks


def recorded(agent, kind):
    """Count by path, or by turn, the records of a kind; not those that only say what the system has to say now."""
    records = [loads(line) for line in (agent.sidecar / "timeline.jsonl").read_bytes().splitlines()]
    of_kind = [record for record in records if record["kind"] == kind and not record.get("settled")]
    return Counter(str(record.get("path", record["turn"])).removeprefix(f"{agent.project}/") for record in of_kind)


def test_what_tasks_that_are_stopped_together_left_is_recorded_once_and_is_still_of_all_who_may_have_made_it(sharing):
    agent, tasks = sharing
    before = contents(agent.project)
    ids = [task.id for task in tasks]
    plan = agent.session.plan_rewind(1)
    changing = {path: what for path, (what, _) in verdicts(plan).items() if what != "unchanged"}
    assert changing == {"src/a": "restore", "src/deep": "delete", "src/deep/made": "delete"}
    assert len(agent.session.rewind(plan).cancelled) == 3
    assert set(recorded(agent, "after").values()) == {1}
    assert recorded(agent, "end") == {"1": 1 + 1}  # that of the turn, and that of the tasks
    assert (agent.project / "src" / "a").read_text() == "old"
    agent.session.undo_rewind()
    assert contents(agent.project) == before
    touches = {
        touch.path.removeprefix(f"{agent.project}/"): touch for touch in CaptureLog(agent.sidecar).read().touches
    }
    assert {path: [*touches[path].authors] for path in ("src/a", "src/b", "src/deep/made")} == {
        "src/a": ids, "src/b": ids, "src/deep/made": ids[:1],
    }  # fmt: skip
    assert {path: what for path, (what, _) in verdicts(agent.session.plan_rewind(1)).items()} == changing


@pytest.mark.parametrize("marked", [False, True])
def test_what_tasks_made_apart_is_each_ones_own_though_they_are_stopped_together(agent, marked):
    for name in ("one", "two"):
        make(agent.project / name / "there", "old")
    with agent.session.begin_turn("work") as turn:
        tasks = {name: agent.session.tasks.spawn(["sleep", "1000"], edits=[name]) for name in ("one", "two")}
        if marked:
            turn.mark("here")
    for name in tasks:
        make(agent.project / name / "made", "new")
        make(agent.project / name / "there", "new")
    agent.session.rewind(1)
    assert contents(agent.project) == {"one/there": b"old", "two/there": b"old"}
    agent.session.undo_rewind()
    by = {file.path: file.by for file in agent.session.diff().files}
    assert by == {f"{name}/{file}": task.id for name, task in tasks.items() for file in ("made", "there")}


def test_what_did_not_change_since_another_task_ended_is_not_recorded_once_more(sharing):
    agent, tasks = sharing
    agent.session.tasks.cancel(tasks[2])
    make(agent.project / "src" / "b", "by the second")
    agent.session.tasks.cancel(tasks[1])
    assert recorded(agent, "after") == {
        "src": 1, "src/a": 1, "src/b": 2, "src/c": 1, "src/deep": 1, "src/deep/made": 1,
    }  # fmt: skip
    ends = recorded(agent, "end")
    agent.session.tasks.cancel(tasks[0])
    assert recorded(agent, "end") == ends
    assert {file.path: file.status for file in agent.session.diff().files} == {
        "src/a": "modified", "src/b": "modified", "src/deep/made": "created",
    }  # fmt: skip
    agent.session.rewind(1)
    assert contents(agent.project) == {"src/a": b"old", "src/b": b"old", "src/c": b"old"}


def test_what_an_ended_task_left_and_a_later_turn_changed_is_recorded_once_when_the_others_end_and_stays_a_conflict(
    sharing,
):
    agent, tasks = sharing
    agent.session.tasks.cancel(tasks[2])
    agent.turn("later", {"src/a": "later"})
    for task in tasks[:2]:
        agent.session.tasks.cancel(task)
    assert recorded(agent, "after")["src/a"] == 1 + 1 + 1
    plan = agent.session.plan_rewind(2)
    assert [conflict.path for conflict in plan.conflicts] == ["src/a"]


def test_bytes_that_could_not_be_kept_are_tried_again_when_the_next_task_ends(sharing, monkeypatch):
    agent, tasks = sharing

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(agent.session._payloads, "store", full)
        agent.session.tasks.cancel(tasks[2])
    agent.session.tasks.cancel(tasks[1])
    assert recorded(agent, "after") == {
        "src": 1, "src/a": 2, "src/b": 1, "src/c": 1, "src/deep": 1, "src/deep/made": 2,
    }  # fmt: skip
    [patch] = [file.text for file in agent.session.diff(paths=["src/a"]).files]
    assert "+new\n" in patch


def test_a_directory_many_tasks_share_is_looked_through_once(sharing):
    agent, _ = sharing

    descents = Counter()

    class Counting(Worktree):
        def descend(self, path, *, closed=None):
            descents[path] += 1
            return super().descend(path, closed=closed)

    tasks = CaptureLog(agent.sidecar).read().tasks.values()
    worktree = Counting(str(agent.project), store=agent.root)
    found = [path.removeprefix(f"{agent.project}/") for _, path in appeared(worktree, tasks, lambda *_: False)]
    assert found == ["src/a", "src/b", "src/c", "src/deep", "src/deep/made"]
    assert descents == {str(agent.project / "src"): 1}
