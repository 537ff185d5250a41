"""Background work of a turn that has a mark: what was started in front of it goes on, and what it edits is its own."""

import os

import pytest
from agent import contents, verdicts
from programs import until
from workers import notices, stays

WRITES_ON = """
import os, time
def write(text):
    with open("out.new", "w") as file:
        file.write(text)
    os.replace("out.new", "out")
write("in front")
while not os.path.exists("../go"):
    time.sleep(0.005)
write("behind")
while not os.path.exists("../end"):
    time.sleep(0.005)
"""
CHILD = """
import os, time, sessions
with sessions.subagent_from_env() as me, me.begin_turn("work") as turn:
    with turn.edit("out"):
        with open("out", "w") as file: file.write("in front")
        while not os.path.exists("../go"):
            time.sleep(0.005)
        with open("out", "w") as file: file.write("behind")
    with turn.edit("more"):
        with open("more", "w") as file: file.write("m")
"""


@pytest.fixture
def marked(agent):
    """A turn that starts a program, marks, and edits a file of its own."""

    def begin(code, **options):
        agent.turn("first", {"out": "old", "mine": "old"})
        with agent.session.begin_turn("second") as turn:
            task = agent.python(code, **options)
            until(lambda: (agent.project / "out").read_text() == "in front", "the program")
            turn.mark("here")
            with turn.edit("mine"):
                (agent.project / "mine").write_text("behind")
        return task

    return begin


def go(agent, name="go"):
    (agent.project.parent / name).touch()


def is_behind(agent):
    until(lambda: (agent.project / "out").read_text() == "behind", "the program")


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("when", ["before the rewind", "after it"])
def test_a_task_started_in_front_of_a_mark_goes_on_and_keeps_what_it_wrote(agent, marked, when, restart):
    task = marked(WRITES_ON, edits=["out"])
    if when == "before the rewind":
        go(agent)
        is_behind(agent)
    assert verdicts(agent.session.plan_rewind("2:here")) == {"mine": ("restore", None)}
    report = agent.session.rewind("2:here")
    assert (report.cancelled, (agent.project / "mine").read_text()) == ((), "old")
    go(agent)
    is_behind(agent)
    assert agent.state(task) == "running"
    if restart:
        agent.session.close()
    go(agent, "end")
    if restart:
        until((agent.sidecar / "tasks" / task.id / "exit.json").exists, "its end")
        agent.reopen()
    until(lambda: notices(agent.session) == [(task.id, "completed")], "the notice")
    plan = agent.session.plan_rewind(2)
    assert (verdicts(plan), plan.conflicts) == ({"out": ("restore", None)}, ())
    agent.session.rewind(2)
    assert contents(agent.project) == {"out": b"old", "mine": b"old"}


def test_what_is_made_of_a_file_by_the_agent_and_a_task_behind_a_mark_is_a_conflict(agent, marked):
    marked(WRITES_ON, edits=["out"])
    with agent.session.begin_turn("third") as turn, turn.edit("out"):
        (agent.project / "out").write_text("third")
    plan = agent.session.plan_rewind("2:here")
    assert [conflict.path for conflict in plan.conflicts] == ["out"]
    assert "may be editing it" in plan.conflicts[0].found


def test_an_edit_of_a_subagent_that_was_open_at_a_mark_goes_on_over_a_rewind_to_it(agent, marked):
    task = marked(CHILD)
    assert verdicts(agent.session.plan_rewind("2:here")) == {"mine": ("restore", None)}
    agent.session.rewind("2:here")
    go(agent)
    until(lambda: agent.state(task) != "running", "the end")
    assert (agent.state(task), contents(agent.project)) == (
        "completed", {"out": b"behind", "more": b"m", "mine": b"old"},
    )  # fmt: skip
    agent.session.rewind(2)
    assert contents(agent.project) == {"out": b"old", "mine": b"old"}
    agent.session.undo_rewind()
    assert contents(agent.project) == {"out": b"behind", "more": b"m", "mine": b"old"}


def test_an_edit_that_outlives_its_turn_and_a_rewind_to_a_mark_in_it_is_captured_behind_the_mark(agent):
    agent.turn("first", {"out": "old"})
    turn = agent.session.begin_turn("second")
    edit = turn.edit("out")
    with edit:
        (agent.project / "out").write_text("in front")
        turn.mark("here")
        turn.end()
        (agent.project / "out").write_text("behind")
        agent.session.rewind("2:here")
        assert contents(agent.project) == {"out": b"in front"}
        (agent.project / "out").write_text("late")
    assert verdicts(agent.session.plan_rewind("2:here")) == {"out": ("restore", None)}
    agent.session.rewind("2:here")
    assert contents(agent.project) == {"out": b"in front"}


@pytest.mark.parametrize("where", [2, "2:here"])
def test_leftovers_of_a_task_that_ended_in_front_of_a_mark_are_no_obstacle(agent, where):
    agent.turn("first", {"out": "old"})
    with agent.session.begin_turn("second") as turn:
        task = agent.session.tasks.spawn(["sh", "-c", "echo 1 > out; sleep 1000 & exit 0"], edits=["out"])
        until(lambda: agent.state(task) == "completed", "the end")
        turn.mark("here")
    (agent.project / "out").write_text("by somebody")
    cancelled = agent.session.rewind(where).cancelled
    assert [each.id for each in cancelled] == ([task.id] if where == 2 else [])
    assert stays(lambda: os.listdir(agent.project))
    agent.reopen()


def test_what_a_subagent_that_stays_edits_behind_a_mark_beside_the_agent_is_a_conflict(agent):
    with agent.session.begin_turn("first") as turn:
        child = agent.session.subagent(label="helper")
        inner = child.begin_turn("work")
        edited(agent, inner, "by the helper")
        turn.mark("here")
        edited(agent, turn, "by the agent")
        edited(agent, inner, "by the helper again")
    plan = agent.session.plan_rewind("1:here", on_conflict="keep")
    assert [(each.path, each.found) for each in plan.conflicts] == [("out", f"edited since by {child.id} (helper)")]
    agent.session.rewind(plan)
    assert contents(agent.project) == {"out": b"by the helper again"}
    child.close()


def edited(agent, turn, text):
    with turn.edit("out"):
        (agent.project / "out").write_text(text)


def test_the_notice_of_a_task_that_a_subagent_started_behind_a_mark_stays_with_it(agent):
    with agent.session.begin_turn("first") as turn, agent.session.subagent() as child, child.begin_turn("work"):
        turn.mark("here")
        task = child.tasks.spawn(["sh", "-c", "while [ ! -e ../go ]; do sleep 0.01; done"], label="worker")
    go(agent)
    until(lambda: notices(agent.session), "the notice")
    agent.session.rewind("1:here")
    assert ([each.id for each in agent.session.tasks.list()], notices(agent.session)) == (
        [task.id], [(task.id, "completed")],
    )  # fmt: skip


def test_the_gap_of_a_task_that_a_subagent_started_behind_a_mark_stays_with_it(agent):
    with agent.session.begin_turn("first") as turn:
        child = agent.session.subagent()
        with child.begin_turn("work"):
            turn.mark("here")
            child.tasks.spawn(["sleep", "1000"], label="worker")
    assert [gap.kind for gap in agent.session.plan_rewind(1).gaps] == ["task"]
    assert agent.session.plan_rewind("1:here").gaps == ()
    agent.session.rewind("1:here")
    assert [gap.kind for gap in agent.session.plan_rewind(1).gaps] == ["task"]
    child.close()
