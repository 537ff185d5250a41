"""Undo and redo beside work of turns that came since: only what leaves takes its work along."""

import pytest
from programs import until
from test_notices import WAITS, ends
from workers import alive, notices

from sessions import NothingToUndoError, assistant_message, user_message

SLEEPS = "import time; time.sleep(1000)"


def prompts(agent):
    return [checkpoint.prompt for checkpoint in agent.session.checkpoints()]


def subagent_that_writes(agent, path):
    """Let a subagent of the open turn, else of the last one, write a file; return the name of its transcript."""
    with agent.session.subagent() as child, child.begin_turn("work") as turn, turn.edit(path):
        (agent.project / path).write_text("k")
    return f"{child.id}.jsonl"


def turn_with_work(agent, prompt):
    """Take a turn with a task and with a subagent that writes ``kid``."""
    started: list[object] = []

    def work(message):
        started.append(agent.python(SLEEPS, spawned_by=message, label=prompt))
        started.append(subagent_that_writes(agent, "kid"))

    agent.working(prompt, work)
    return started


@pytest.fixture
def gone_back(agent):
    """A session that went back from its second turn."""
    agent.turn("first", {"f": "1"})
    agent.turn("second", {"f": "2"})
    agent.session.rewind(2)
    return agent


def test_a_redo_leaves_the_work_of_a_turn_that_the_undo_kept(gone_back):
    task, transcript = turn_with_work(gone_back, "third")
    gone_back.session.undo_rewind(on_conflict="keep")
    plan = gone_back.session.plan_undo(redo=True)
    report = gone_back.session.redo_rewind(plan)
    assert (plan.tasks, report.cancelled) == ((), ())
    assert prompts(gone_back) == ["first", "third"]
    assert alive(task.pid)
    assert transcript in gone_back.names
    assert [file.path for file in gone_back.session.plan_rewind(2).files] == ["kid"]
    gone_back.session.undo_rewind(on_conflict="overwrite")
    assert prompts(gone_back) == ["first", "second", "third"]
    assert alive(task.pid)
    assert transcript in gone_back.names


@pytest.mark.parametrize(
    "options",
    [
        {"to": "2:m"}, {"to": 2, "history": "hide"}, {"to": 2, "history": "fork"}, {"to": 2, "scope": "code"},
        {"to": 2, "scope": "conversation"}, {"run": "r"},
    ],
)  # fmt: skip
def test_a_redo_of_any_rewind_leaves_the_work_of_a_turn_that_came_since(agent, options):
    agent.turn("first", {"f": "1"})
    with agent.session.begin_turn("second", run_id="r") as turn:
        with turn.edit("f"):
            (agent.project / "f").write_text("2")
        turn.mark("m")
        with turn.edit("f"):
            (agent.project / "f").write_text("3")
    report = agent.session.rewind(**options)
    if report.session is not agent.session:
        report.session.close()
    task, transcript = turn_with_work(agent, "third")
    agent.session.undo_rewind(on_conflict="keep")
    plan = agent.session.plan_undo(redo=True)
    agent.session.redo_rewind(plan)
    assert plan.tasks == ()
    assert alive(task.pid)
    assert transcript in agent.names


def test_a_redo_ends_a_subagent_that_it_removes_and_that_was_opened_again(agent):
    agent.turn("first", {"f": "1"})
    agent.working("second", lambda _: subagent_that_writes(agent, "kid"))
    [transcript] = [name for name in agent.names if name.startswith("subagent-") and name.endswith(".jsonl")]
    agent.session.rewind(2)
    agent.session.undo_rewind()
    with agent.store.open(transcript.removesuffix(".jsonl")) as child:
        agent.session.redo_rewind()
        assert child.hold.closed
    assert transcript not in agent.names
    agent.session.undo_rewind()
    assert transcript in agent.names


def test_the_transcript_of_a_turn_that_stays_is_there_whatever_the_limits(agent):
    (agent.root / "settings.toml").write_text("[checkpoints]\nretain_rewinds = 1\n")
    agent.turn("first", {"f": "1"})
    agent.reopen()
    agent.turn("second", {"f": "2"})
    agent.session.rewind(2)
    agent.working("third", lambda _: subagent_that_writes(agent, "kid"))
    agent.session.undo_rewind(on_conflict="keep")
    agent.session.redo_rewind()
    agent.turn("fourth", {"f": "4"})
    agent.session.rewind(3)
    assert prompts(agent) == ["first", "third"]
    assert [name for name in agent.names if name.startswith("subagent-") and name.endswith(".jsonl")]


def test_an_undo_that_removes_a_turn_stops_what_it_started_behind_a_redo(gone_back):
    gone_back.turn("third")
    gone_back.session.undo_rewind(on_conflict="overwrite")
    gone_back.session.redo_rewind()
    assert prompts(gone_back) == ["first", "third"]
    task = gone_back.python(SLEEPS)
    transcript = subagent_that_writes(gone_back, "kid")
    plan = gone_back.session.plan_undo(on_conflict="overwrite")
    assert [each.id for each in plan.tasks] == [task.id]
    gone_back.session.undo_rewind(plan)
    assert prompts(gone_back) == ["first", "second"]
    assert not alive(task.pid)
    assert transcript not in gone_back.names
    gone_back.session.redo_rewind()
    assert prompts(gone_back) == ["first", "third"]
    assert transcript in gone_back.names


def test_an_undo_keeps_the_subagent_of_a_turn_that_an_earlier_one_removed_and_a_redo_gave_back(gone_back):
    gone_back.working("third", lambda _: subagent_that_writes(gone_back, "kid"))
    [transcript] = [name for name in gone_back.names if name.startswith("subagent-") and name.endswith(".jsonl")]
    for kept in (False, True, True):
        gone_back.session.undo_rewind(on_conflict="keep" if kept else "overwrite")
        assert prompts(gone_back) == ["first", "second", *(["third"] if kept else [])]
        assert (transcript in gone_back.names) == kept
        gone_back.session.redo_rewind()
        assert prompts(gone_back) == ["first", "third"]
        assert transcript in gone_back.names


def test_an_undo_that_removes_a_turn_removes_the_notice_of_its_task_behind_a_redo(gone_back):
    gone_back.turn("third")
    gone_back.session.undo_rewind(on_conflict="overwrite")
    before = gone_back.transcript
    gone_back.session.redo_rewind()
    ends(gone_back, gone_back.python(WAITS))
    gone_back.session.undo_rewind(on_conflict="overwrite")
    assert gone_back.transcript == before


@pytest.mark.parametrize("redone", [False, True])
def test_a_turn_that_a_compaction_said_once_more_stays_with_its_work(agent, redone):
    """The compaction stands behind a rewind, and with the redone one, behind a turn that an undo of that kept."""
    agent.turn("zeroth", {"f": "0"})
    if redone:
        agent.turn("first", {"f": "1"})
        agent.session.rewind(2)
    task, transcript = turn_with_work(agent, "second")
    if redone:
        agent.session.undo_rewind(on_conflict="keep")
        agent.session.redo_rewind()
    else:
        agent.turn("third", {"f": "3"})
        agent.session.rewind(3)
    agent.session.append(assistant_message("more"))
    agent.session.compact("what happened")
    plan = agent.session.plan_undo(on_conflict="overwrite")
    assert plan.tasks == ()
    agent.session.undo_rewind(plan)
    assert prompts(agent) == ["zeroth", *(["first", "second"] if redone else ["second", "third"])]
    assert alive(task.pid)
    assert transcript in agent.names


def test_an_undo_of_the_code_alone_removes_no_turn_and_stops_nothing(agent):
    agent.turn("first", {"f": "1"})
    agent.session.rewind(1, scope="code")
    task, transcript = turn_with_work(agent, "second")
    plan = agent.session.plan_undo(on_conflict="overwrite")
    assert (plan.tasks, plan.removed_messages) == ((), 0)
    agent.session.undo_rewind(plan)
    assert alive(task.pid)
    assert transcript in agent.names


def test_a_prompt_that_an_undo_kept_and_that_gets_its_turn_late_leaves_the_redo(gone_back):
    """It was only appended, so the task that it starts is the first to ask for its turn."""
    gone_back.session.append(user_message("by the way"))
    gone_back.session.undo_rewind(on_conflict="keep")
    task = gone_back.python(SLEEPS)
    gone_back.session.redo_rewind()
    assert prompts(gone_back) == ["first", "by the way"]
    assert alive(task.pid)


def test_a_redo_that_removes_a_prompt_stops_what_it_started(gone_back):
    gone_back.session.undo_rewind()
    gone_back.session.append(user_message("by the way"))
    task = gone_back.python(SLEEPS)
    gone_back.session.redo_rewind(on_conflict="overwrite")
    assert prompts(gone_back) == ["first"]
    assert not alive(task.pid)


@pytest.mark.parametrize("on_conflict", ["keep", "overwrite"])
def test_the_end_of_a_task_of_a_new_turn_makes_the_plan_of_an_undo_not_stale(gone_back, on_conflict):
    task = gone_back.spawn("third", WAITS)
    plan = gone_back.session.plan_undo(on_conflict=on_conflict)
    ends(gone_back, task)
    gone_back.session.undo_rewind(plan)
    stays = on_conflict == "keep"
    assert prompts(gone_back) == ["first", "second", *(["third"] if stays else [])]
    assert notices(gone_back.session) == ([(task.id, "completed")] if stays else [])


def test_a_task_that_could_not_be_started_leaves_the_redo(gone_back):
    gone_back.session.undo_rewind()
    with pytest.raises(FileNotFoundError):
        gone_back.session.tasks.spawn(["/nonexistent"])
    gone_back.session.redo_rewind()
    assert prompts(gone_back) == ["first"]


def test_work_begun_from_a_turn_that_stays_leaves_the_redo_and_is_left_by_it(agent):
    code = """
import os, sessions, time
while not os.path.exists("go"):
    time.sleep(0.005)
with sessions.subagent_from_env() as me, me.begin_turn("work") as turn, turn.edit("kid"):
    open("kid", "w").close()
open("ready", "w").close()
time.sleep(1000)
"""
    task = agent.spawn("first", code)
    agent.turn("second", {"f": "2"})
    agent.session.rewind(2)
    agent.session.undo_rewind()
    (agent.project / "go").touch()
    until((agent.project / "ready").exists, "the subagent")
    other = agent.python(SLEEPS, spawned_by=task.spawned_by)
    agent.session.redo_rewind()
    assert prompts(agent) == ["first"]
    assert alive(task.pid)
    assert alive(other.pid)
    assert (agent.project / "kid").exists()
    assert [file.path for file in agent.session.plan_rewind(1).files] == ["kid"]


def test_an_edit_of_a_subagent_that_the_redo_would_remove_ends_it(agent):
    agent.turn("first", {"f": "1"})
    agent.working("second", lambda _: subagent_that_writes(agent, "kid"))
    [transcript] = [name for name in agent.names if name.startswith("subagent-") and name.endswith(".jsonl")]
    agent.session.rewind(2)
    agent.session.undo_rewind()
    with agent.store.open(transcript.removesuffix(".jsonl")) as child:
        child.begin_turn("more").end()
        assert agent.session.plan_undo(redo=True).removed_messages == 2
        with child.begin_turn("still more") as turn, turn.edit("kid"):
            (agent.project / "kid").write_text("more")
    with pytest.raises(NothingToUndoError):
        agent.session.redo_rewind()
    agent.session.rewind(2)
    assert not (agent.project / "kid").exists()


APPENDS = """
import os, time
while not os.path.exists("../end"): time.sleep(0.005)
open("f", "a").write(" and the task")
"""


def test_the_end_of_a_task_that_stays_ends_no_redo(agent):
    with agent.session.begin_turn("first") as turn:
        agent.python(APPENDS, edits=["f"])
        turn.mark("here")
        with turn.edit("f"):
            (agent.project / "f").write_text("the agent")
    agent.session.rewind("1:here")
    agent.session.undo_rewind()
    (agent.project.parent / "end").touch()
    until(lambda: notices(agent.session), "its end")
    assert agent.session.plan_undo(redo=True).files


def test_what_ended_a_redo_is_said(gone_back):
    rewind_id = gone_back.session.rewinds()[-1].id
    gone_back.session.undo_rewind()
    gone_back.session.tasks.spawn(["sleep", "1000"])
    for named in (None, rewind_id):
        with pytest.raises(NothingToUndoError, match="a task, a subagent or an edit was begun since"):
            gone_back.session.plan_undo(named, redo=True)
    gone_back.turn("third")
    with pytest.raises(NothingToUndoError, match="a turn or a rewind came since"):
        gone_back.session.redo_rewind()


def test_a_redo_too_says_that_processes_do_not_come_back(gone_back):
    task, _ = turn_with_work(gone_back, "third")
    undone = gone_back.session.undo_rewind(on_conflict="overwrite")
    assert [each.id for each in undone.cancelled] == [task.id]
    assert "processes do not come back: third" in gone_back.session.redo_rewind().notes


@pytest.mark.parametrize("options", [{"scope": "code"}, {"history": "fork"}])
def test_a_redo_leaves_work_alone_that_began_between_the_rewind_and_its_undo(agent, options):
    agent.turn("first", {"f": "1"})
    agent.turn("second", {"f": "2"})
    report = agent.session.rewind(2, **options)
    if report.session is not agent.session:
        report.session.close()
    task = agent.session.tasks.spawn(["sh", "-c", "echo made > made; sleep 1000"], edits=["made"])
    until((agent.project / "made").exists, "what it makes")
    agent.session.undo_rewind()
    assert agent.session.plan_undo(redo=True).tasks == ()
    agent.session.redo_rewind()
    assert ((agent.project / "f").read_text(), agent.state(task)) == ("1", "running")
    assert "made" in agent.files
