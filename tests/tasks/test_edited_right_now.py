"""What a task or a subagent is editing right now, as diffs and lists show it."""

import time

import pytest
from agent import make, verdicts
from programs import until
from workers import notices

from sessions import SessionStore
from sessions.rewind.log import CaptureLog
from sessions.rewind.ongoing import Ongoing

EDITS = ["cache", "ex", "build"]
STEPS = """
import os, time
def wait(name):
    while not os.path.exists(name): time.sleep(0.005)
wait("go")
open("cache", "w").write("1\\n2\\n")
open("ex", "a").write("more\\n")
os.mkdir("build")
open("build/made", "w").write("made\\n")
open("done", "w").close()
wait("end")
"""


LEAVES = """
import os, time
while not os.path.exists("../go"): time.sleep(0.005)
os.mkdir("d")
for name in ("kept", "changed", "d/new"):
    with open(name, "w") as file: file.write("by the task")
"""


@pytest.fixture
def working(agent):
    """A turn that wrote a line itself and started a task, which did nothing yet."""
    make(agent.project / "ex", "there\n")
    with agent.session.begin_turn("first") as turn:
        with turn.edit("own"):
            make(agent.project / "own", "own\n")
        task = agent.python(STEPS, edits=EDITS)
    return agent, task


def goes_on(agent):
    (agent.project / "go").touch()
    until((agent.project / "done").exists, "what the task makes")


def ends(agent, task):
    (agent.project / "end").touch()
    until(lambda: agent.state(task) == "completed", "the end of the task")


def shown(session):
    """Return what a diff shows and what a list does: both say the same."""
    files = {file.path: (file.status, file.insertions, file.deletions) for file in session.diff().files}
    assert not any(file.unverified for file in session.diff().files)
    [checkpoint] = session.checkpoints()
    assert {file.path: file.status for file in checkpoint.files} == {path: each[0] for path, each in files.items()}
    assert checkpoint.insertions == sum(each[1] for each in files.values())
    return files


OWN = {"own": ("created", 1, 0)}
MADE = {"build/made": ("created", 1, 0), "cache": ("created", 2, 0), "ex": ("modified", 1, 0)}


def test_what_a_task_may_edit_and_has_not_is_not_listed(working):
    agent, _ = working
    assert shown(agent.session) == OWN
    with SessionStore(agent.root).open(agent.session.id, read_only=True) as reading:
        assert shown(reading) == OWN


def test_what_it_has_changed_so_far_is_shown_as_it_is_now_and_so_it_stays_when_it_ends(working):
    agent, task = working
    goes_on(agent)
    with SessionStore(agent.root).open(agent.session.id, read_only=True) as reading:
        assert shown(reading) == OWN | MADE
    assert shown(agent.session) == OWN | MADE
    by = {file.path: file.by for file in agent.session.diff(paths=["cache", "build"]).files}
    assert by == {"cache": task.id, "build/made": task.id}
    [patch] = [file.text for file in agent.session.diff(paths=["ex"]).files]
    assert "+more\n" in patch
    make(agent.project / "cache", "1\n")
    assert shown(agent.session)["cache"] == ("created", 1, 0)
    make(agent.project / "cache", "1\n2\n")
    ends(agent, task)
    assert shown(agent.session) == OWN | MADE


def test_what_it_left_is_shown_before_the_next_opening_settles_it(working):
    agent, _ = working
    agent.close()
    goes_on(agent)
    (agent.project / "end").touch()
    with SessionStore(agent.root).open(agent.session.id, read_only=True) as reading:
        until(lambda: reading.tasks.list()[0].state == "completed", "the end of the task")
        until(lambda: not reading.tasks.list()[0].processes, "the last of it")
        assert shown(reading) == OWN | MADE
        time.sleep(0.02)
        make(agent.project / "cache", "by hand\n")
        [file] = reading.diff(paths=["cache"]).files
        assert (file.unverified, file.insertions) == (True, None)


def test_where_a_later_turn_edited_the_file_what_that_found_is_what_the_task_did(working):
    agent, _ = working
    goes_on(agent)
    agent.turn("second", {"cache": "1\n2\n3\n"})
    [first] = agent.session.diff(turn=1, paths=["cache"]).files
    [second] = agent.session.diff(turn=2).files
    assert (first.insertions, second.insertions) == (2, 1)


def test_what_an_open_subagent_edits_is_shown_as_it_is_now_when_the_turn_of_its_root_has_ended(agent):
    with agent.session.begin_turn("first") as turn:
        with turn.edit("own"):
            make(agent.project / "own", "own\n")
        child = agent.session.subagent(label="helper")
    with child, child.begin_turn("work") as work, work.edit("f"), work.edit("g"):
        assert shown(agent.session) == OWN
        make(agent.project / "f", "1\n2\n")
        assert shown(agent.session) == OWN | {"f": ("created", 2, 0)}
    assert shown(agent.session) == OWN | {"f": ("created", 2, 0)}


def test_a_fork_does_not_list_what_a_task_of_its_parent_has_not_touched(working):
    agent, _ = working
    with agent.session.fork() as fork:
        assert shown(fork) == OWN


def test_where_nothing_is_being_edited_nothing_is_looked_at(agent):
    agent.turn("first", {"f": "1\n"})
    task = agent.spawn("second", "pass", edits=["g"])
    until(lambda: agent.state(task) == "completed", "its end")
    until(lambda: CaptureLog(agent.sidecar).read().tasks[task.id].ended is not None, "that it is settled")

    class Untouched:
        def __getattr__(self, name):
            raise AssertionError(f"{name} was asked for")

    timeline = CaptureLog(agent.sidecar).read()
    nothing = Untouched()
    now = Ongoing(nothing, nothing, limit_bytes=1).as_of_now(timeline.touches, timeline, is_open=nothing)
    assert now.touches is timeline.touches


def test_a_plan_judges_what_a_task_left_that_nobody_settled_yet_as_settling_will(agent):
    agent.turn("first", {})
    task = agent.spawn("second", LEAVES, edits=["kept", "changed", "d"])
    agent.session.close()
    make(agent.project.parent / "go", "")
    with SessionStore(agent.root).open(agent.session.id, read_only=True) as reading:
        until(lambda: reading.tasks.get(task.id).state == "completed", "its end")
        until(lambda: not reading.tasks.get(task.id).processes, "the last of it")
        time.sleep(0.02)  # the system stamps files that finely
        (agent.project / "changed").write_text("by the user")
        planned = reading.plan_rewind(2, on_conflict="refuse")
    agent.reopen()
    until(lambda: notices(agent.session), "that it is settled")
    settled = agent.session.plan_rewind(2, on_conflict="refuse")
    assert (verdicts(planned), planned.refused, planned.tasks) == (verdicts(settled), settled.refused, ())
    assert {file.path: file.note for file in planned.files} == {file.path: file.note for file in settled.files}
    assert verdicts(planned)["changed"] == ("delete", "unverified")
    assert verdicts(planned)["kept"] == ("delete", None)
