"""A file that a task may have made, where a later edit of it comes before the task has ended."""

import pytest
from agent import contents, verdicts
from programs import until
from workers import notices

MAKES = """
import os, time
open("d/new", "w").write("half")
while not os.path.exists("../go"): time.sleep(0.005)
open("d/new", "a").write(" and whole")
while not os.path.exists("../end"): time.sleep(0.005)
"""
ADDS = """
import os, time
while not os.path.exists("../go"): time.sleep(0.005)
with open("d/new", "a") as file: file.write(" more")
time.sleep(1000)
"""


@pytest.fixture
def made(agent):
    """A turn of one run that started a task, and the file it has made so far."""
    (agent.project / "d").mkdir()
    with agent.session.begin_turn("first", run_id="r1"):
        task = agent.python(MAKES, edits=["d"])
    until(lambda: "d/new" in agent.files and contents(agent.project)["d/new"] == b"half", "what it makes")
    return agent, task


def go(agent, *names):
    for name in names:
        (agent.project.parent / name).touch()


def appends(agent, who):
    """Let somebody add to the file in a turn of another run."""

    def add(turn):
        with turn.edit("d/new"), open(agent.project / "d" / "new", "a") as file:
            file.write(f" by {who}")

    with agent.session.begin_turn("second", run_id="r2") as turn:
        if who == "the agent":
            add(turn)
        elif who == "a subagent":
            with agent.session.subagent() as child, child.begin_turn("go") as its:
                add(its)
        else:
            agent.session.tasks.spawn(["sh", "-c", f"printf ' by {who}' >> d/new"], edits=["d/new"])
            until(lambda: b"by" in contents(agent.project)["d/new"], "the second task")


@pytest.mark.parametrize("who", ["the agent", "a subagent", "another task"])
@pytest.mark.parametrize("end", ["running", "cancelled", "by itself"])
def test_a_file_a_task_made_goes_with_it_also_where_a_later_turn_edited_it(made, who, end):
    agent, task = made
    appends(agent, who)
    if end == "cancelled":
        agent.session.tasks.cancel(task.id)
    elif end == "by itself":
        go(agent, "go", "end")
        until(lambda: agent.state(task) == "completed", "the end of the task")
    plan = agent.session.plan_rewind(1)
    assert verdicts(plan)["d/new"][0] == "delete"
    agent.session.rewind(plan)
    assert contents(agent.project) == {}


def test_it_goes_after_a_restart_too(made):
    agent, task = made
    agent.reopen()
    appends(agent, "the agent")
    agent.session.tasks.cancel(task.id)
    agent.session.rewind(1)
    assert contents(agent.project) == {}


def test_going_back_to_the_later_turn_leaves_the_file_as_that_turn_found_it(made):
    agent, task = made
    appends(agent, "the agent")
    agent.session.tasks.cancel(task.id)
    agent.session.rewind(2)
    assert contents(agent.project) == {"d/new": b"half"}
    agent.session.rewind(1)
    assert contents(agent.project) == {}


def test_taking_back_the_run_of_the_task_is_a_conflict_where_another_run_edited_the_file(made):
    agent, task = made
    appends(agent, "the agent")
    agent.session.tasks.cancel(task.id)
    plan = agent.session.plan_rewind(run="r1", on_conflict="refuse")
    assert ([conflict.path for conflict in plan.conflicts], plan.refused is None) == (["d/new"], False)


def test_a_file_the_agent_edits_on_both_sides_of_a_mark_beside_a_task_is_at_the_mark_as_it_was_there(agent):
    (agent.project / "d").mkdir()
    with agent.session.begin_turn("first") as turn:
        agent.session.tasks.spawn(["sleep", "1000"], edits=["d"])
        for text in ("in front", "behind"):
            with turn.edit("d/file"):
                (agent.project / "d" / "file").write_text(text)
            if text == "in front":
                turn.mark("here")
    agent.session.rewind("1:here")
    assert contents(agent.project) == {"d/file": b"in front"}


@pytest.fixture
def beside(agent):
    """A turn of one run that started a task, and one of another run in which the agent made a file beside it."""
    (agent.project / "d").mkdir()
    with agent.session.begin_turn("first", run_id="r1"):
        task = agent.python(ADDS, edits=["d"])
    with agent.session.begin_turn("second", run_id="r2") as turn, turn.edit("d/new"):
        (agent.project / "d" / "new").write_text("the agent's")
    return agent, task


def test_what_an_agent_made_where_a_task_may_make_files_is_the_agents_alone_if_the_task_did_not_touch_it(beside):
    agent, task = beside
    assert "d/new" not in verdicts(agent.session.plan_rewind(run="r1"))
    agent.session.tasks.cancel(task.id)
    plan = agent.session.plan_rewind(run="r1")
    assert "d/new" not in verdicts(plan)
    plan = agent.session.plan_rewind(2)
    assert (verdicts(plan), plan.conflicts) == ({"d/new": ("delete", None)}, ())


def test_what_a_task_made_of_it_is_taken_back_with_the_task_and_all_of_it_with_the_agent(beside):
    agent, task = beside
    go(agent, "go")
    until(lambda: contents(agent.project)["d/new"] == b"the agent's more", "what the task adds")
    agent.session.tasks.cancel(task.id)
    agent.session.rewind(run="r1")
    assert contents(agent.project) == {"d/new": b"the agent's"}
    agent.session.undo_rewind()
    assert [conflict.path for conflict in agent.session.plan_rewind(2).conflicts] == ["d/new"]
    agent.session.rewind(1)
    assert contents(agent.project) == {}


@pytest.fixture
def two(agent):
    """Two tasks of two runs that may make files in one directory; the first made one and was cancelled."""
    (agent.project / "d").mkdir()
    with agent.session.begin_turn("first", run_id="r1"):
        first = agent.python(ADDS, edits=["d"])
    with agent.session.begin_turn("second", run_id="r2"):
        second = agent.session.tasks.spawn(["sleep", "1000"], edits=["d"])
    go(agent, "go")
    until(lambda: contents(agent.project), "what the first makes")
    agent.session.tasks.cancel(first.id)
    return agent, first, second


def test_what_one_of_two_tasks_made_is_in_the_plan_of_either(two):
    agent, _, _ = two
    assert verdicts(agent.session.plan_rewind(1))["d/new"] == ("delete", None)
    plan = agent.session.plan_rewind(2)
    assert verdicts(plan)["d/new"] == ("delete", None)
    assert verdicts(agent.session.rewind(plan)) == {"d/new": ("delete", "conflict")}, "it was the first task's, too"


@pytest.mark.parametrize("options", [{"to": 2}, {"run": "r2"}])
def test_it_is_a_conflict_where_only_the_other_is_taken_back(two, options):
    agent, first, second = two
    agent.session.tasks.cancel(second.id)
    plan = agent.session.plan_rewind(**options, on_conflict="keep")
    assert [(each.path, each.found) for each in plan.conflicts] == [("d/new", f"edited since by {first.id} (worker)")]
    assert agent.session.plan_rewind(1).conflicts == ()


MAKES_ONCE = """
import os, time
while not os.path.exists("../go"): time.sleep(0.005)
open("d/new", "w").write("by the first")
time.sleep(1000)
"""


def test_what_a_task_from_before_a_mark_made_is_not_only_that_of_one_from_behind_it(agent):
    (agent.project / "d").mkdir()
    with agent.session.begin_turn("first") as turn:
        first = agent.python(MAKES_ONCE, edits=["d"])
        turn.mark("here")
        second = agent.session.tasks.spawn(["sleep", "1000"], edits=["d"])
    go(agent, "go")
    until(lambda: contents(agent.project).get("d/new"), "what the first makes")
    agent.session.tasks.cancel(second)
    agent.session.tasks.cancel(first)
    plan = agent.session.plan_rewind("1:here", on_conflict="keep")
    assert [(each.path, first.id in each.found) for each in plan.conflicts] == [("d/new", True)]
    agent.session.rewind(plan)
    assert contents(agent.project) == {"d/new": b"by the first"}


def test_what_the_agent_made_where_a_task_of_the_same_turn_may_is_no_conflict_unless_it_wrote_there(agent):
    (agent.project / "d").mkdir()
    with agent.session.begin_turn("first") as turn:
        task = agent.session.tasks.spawn(
            ["sh", "-c", "while [ ! -e ../go ]; do sleep 0.01; done; echo > d/b"], edits=["d"]
        )
        for path in ("d/a", "d/b"):
            with turn.edit(path):
                (agent.project / path).write_text("by the agent")
    go(agent, "go")
    until(lambda: agent.state(task) == "completed", "its end")
    agent.session.tasks.cancel(task)
    until(lambda: notices(agent.session), "the record of it")
    assert {file.path: file.by for file in agent.session.diff().files} == {
        "d/a": "agent",
        "d/b": task.id,
    }
    assert agent.session.plan_rewind(1).conflicts == ()


def test_a_mark_of_a_later_turn_takes_nothing_a_task_made_for_the_agents_that_only_looked(agent):
    (agent.project / "d").mkdir()
    with agent.session.begin_turn("first"):
        agent.python(MAKES_ONCE, edits=["d"])
    with agent.session.begin_turn("second") as turn:
        with turn.edit("d/new"):
            pass
        go(agent, "go")
        until(lambda: contents(agent.project).get("d/new"), "what the task makes")
        turn.mark("here")
    agent.session.rewind(1)
    assert contents(agent.project) == {}
