"""Background work of a turn that has a mark: what was started in front of it goes on, and what it edits is its own."""

import os
import threading

import pytest
from agent import contents, verdicts
from programs import until
from workers import notices, stays

from sessions.rewind.log import CaptureLog

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

WRITES_ALL_THE_TIME = """
import os, time
with open("out", "ab", 0) as file:
    file.write(b"x" * 2_000_000)
    while not os.path.exists("../end"):
        file.write(b"x")
        time.sleep(0.003)
"""
CHILD_THAT_WRITES_ALL_THE_TIME = """
import sessions
with sessions.subagent_from_env() as me, me.begin_turn("work") as turn, turn.edit("out"):
""" + "".join(f"    {line}\n" for line in WRITES_ALL_THE_TIME.splitlines())


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


@pytest.mark.parametrize(
    ("code", "options"), [(WRITES_ALL_THE_TIME, {"edits": ["out"]}), (CHILD_THAT_WRITES_ALL_THE_TIME, {})]
)
def test_what_is_written_while_a_mark_is_made_is_the_writers_and_stays(agent, code, options):
    with agent.session.begin_turn("first") as turn:
        task = agent.python(code, **options)
        until(lambda: (agent.project / "out").exists() and (agent.project / "out").stat().st_size > 2_000_000, "it")
        for _ in range(10):
            turn.mark("here")
    go(agent, "end")
    until(lambda: notices(agent.session) == [(task.id, "completed")], "the notice")
    assert verdicts(agent.session.plan_rewind("1:here#10")) == {}
    assert "agent" not in {author for touch in CaptureLog(agent.sidecar).read().touches for author in touch.authors}
    agent.session.rewind(1)
    assert contents(agent.project) == {}


def test_what_leftovers_of_an_ended_task_write_on_both_sides_of_a_mark_stays(agent):
    loop = "(while [ ! -e ../go ]; do sleep 0.005; done; while :; do echo x >> out; sleep 0.005; done) & exit 0"
    with agent.session.begin_turn("first") as turn:
        task = agent.session.tasks.spawn(["sh", "-c", loop], edits=["out"])
        until(lambda: notices(agent.session), "the end")
        go(agent)
        until((agent.project / "out").exists, "what is left writes")
        turn.mark("here")
    size = (agent.project / "out").stat().st_size
    until(lambda: (agent.project / "out").stat().st_size > size, "what is left writes more")
    agent.session.tasks.cancel(task.id)
    assert verdicts(agent.session.plan_rewind("1:here")) == {}


def test_what_a_task_writes_on_both_sides_of_a_mark_in_a_file_the_agent_edited_too_is_a_conflict_behind_it(agent):
    steps = "for step in 1 2; do while [ ! -e ../$step ]; do sleep 0.005; done; printf $step >> out; done; sleep 1000"
    with agent.session.begin_turn("first") as turn:
        task = agent.session.tasks.spawn(["sh", "-c", steps], label="worker", edits=["out"])
        edited(agent, turn, "by the agent ")
        for step in ("1", "2"):
            go(agent, step)
            until(lambda step=step: (agent.project / "out").read_text().endswith(step), "the task")
            if step == "1":
                turn.mark("here")
    agent.session.tasks.cancel(task.id)
    plan = agent.session.plan_rewind("1:here")
    assert [(each.path, each.found) for each in plan.conflicts] == [("out", f"edited since by {task.id} (worker)")]
    agent.session.rewind(plan)
    assert contents(agent.project) == {"out": b"by the agent 1"}


def test_what_a_task_made_between_two_marks_of_a_file_of_the_agents_stays_so_at_the_second(agent):
    with agent.session.begin_turn("first") as turn:
        edited(agent, turn, "by the agent")
        turn.mark("here")
        task = agent.session.tasks.spawn(["sh", "-c", "printf 'by the task' > out"], edits=["out"])
        until(lambda: agent.state(task) == "completed", "the end")
        turn.mark("there")
    assert set(verdicts(agent.session.plan_rewind("1:there")).values()) == {("unchanged", None)}
    (agent.project / "out").write_text("by somebody")
    agent.session.rewind("1:there")
    assert contents(agent.project) == {"out": b"by the task"}


@pytest.mark.parametrize("redone", [False, True])
def test_work_attached_behind_a_mark_to_a_subagent_from_before_it_takes_its_edits_along(agent, redone):
    stop = threading.Event()
    with agent.session.begin_turn("first") as turn:
        child = agent.session.subagent(label="one")
        with child.begin_turn("in front") as inner, inner.edit("f"):
            (agent.project / "f").write_text("in front")
        turn.mark("m")
        task = agent.session.tasks.attach(cancel=stop.set, wait=stop.wait, subagent=child)
        with child.begin_turn("behind") as inner:
            for path in ("f", "kid"):
                with inner.edit(path):
                    (agent.project / path).write_text("behind")
    plan = agent.session.plan_rewind("1:m")
    assert [each.id for each in plan.tasks] == [task.id]
    assert verdicts(plan) == {"f": ("restore", None), "kid": ("delete", None)}
    agent.session.rewind(plan)
    if redone:
        agent.session.undo_rewind()
        assert contents(agent.project) == {"f": b"behind", "kid": b"behind"}
        agent.session.redo_rewind()
    assert contents(agent.project) == {"f": b"in front"}
    with child.begin_turn("once more") as inner, inner.edit("kid"):
        (agent.project / "kid").write_text("once more")
    assert verdicts(agent.session.plan_rewind("1:m")) == {}
    agent.session.rewind(1)
    assert contents(agent.project) == {}


def test_work_attached_by_a_subagent_that_stays_behind_a_mark_stays_and_so_do_its_edits(agent):
    stop = threading.Event()
    with agent.session.begin_turn("first") as turn:
        outer = agent.session.subagent(label="outer")
        inner = outer.subagent(label="inner")
        turn.mark("m")
        task = outer.tasks.attach(cancel=stop.set, wait=stop.wait, subagent=inner)
        with inner.begin_turn("behind") as work, work.edit("kid"):
            (agent.project / "kid").write_text("behind")
    report = agent.session.rewind("1:m")
    assert (report.cancelled, verdicts(report)) == ((), {})
    assert agent.state(task) == "running"
    stop.set()
