"""The notice that a task ended stays with the task, wherever in the conversation it was told."""

import json

import pytest
from programs import until
from workers import notices

from sessions import assistant_message

WAITS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.005)"


@pytest.fixture
def told(agent):
    """A session whose first turn started a task that ended in the second one."""
    task = agent.spawn("first", WAITS)
    with agent.session.begin_turn("second"):
        agent.session.append(assistant_message("at work"))
        ends(agent, task)
        agent.session.append(assistant_message("done"))
    return agent, task


def ends(agent, *tasks):
    """Let the tasks end; return when all of them are told of."""
    (agent.project / "go").touch()
    until(lambda: {task.id for task in tasks} <= {name for name, _ in notices(agent.session)}, "the notices")


def lines(agent):
    return agent.transcript.splitlines(keepends=True)


def notice_lines(said):
    return [line for line in said if b'"task_notification"' in line]


def roles(session):
    """Return what the model sees, in short."""
    return ["notice" if each.blocks[0].type == "task_notification" else each.role for each in session.messages]


@pytest.mark.parametrize("scope", ["both", "conversation"])
def test_it_stays_behind_the_cut_where_its_task_does(told, scope):
    agent, task = told
    before = lines(agent)
    plan = agent.session.plan_rewind(2, scope=scope)
    report = agent.session.rewind(plan)
    assert plan.removed_messages == report.removed_messages == 3
    cut = next(number for number, line in enumerate(before) if b'"second"' in line)
    assert lines(agent) == [*before[:cut], *notice_lines(before)]
    after = agent.transcript
    for _ in range(2):
        agent.session.undo_rewind()
        assert lines(agent) == before
        agent.session.redo_rewind()
        assert agent.transcript == after
    agent.reopen()
    assert notices(agent.session) == [(task.id, "completed")]
    assert roles(agent.session) == ["user", "assistant", "notice"]


def test_it_is_said_once_more_behind_the_event_that_hides_it(told):
    agent, task = told
    agent.session.set_title("A title")
    before = lines(agent)
    report = agent.session.rewind(2, history="hide")
    assert report.removed_messages == 3
    event, *behind = lines(agent)[len(before) :]
    assert json.loads(event)["type"] == "rollback"
    assert behind == notice_lines(before)
    assert notices(agent.session) == [(task.id, "completed")]
    assert roles(agent.session) == ["user", "assistant", "notice"]
    after = agent.transcript
    agent.session.undo_rewind()
    assert lines(agent) == before
    agent.session.redo_rewind()
    assert agent.transcript == after
    agent.turn("another second")
    agent.session.rewind(2)
    assert roles(agent.session) == ["user", "assistant", "notice"]


def test_hidden_twice_it_is_said_once(told):
    agent, task = told
    agent.turn("third")
    agent.session.rewind(3, history="hide")
    agent.session.rewind(2, history="hide")
    assert notices(agent.session) == [(task.id, "completed")]
    agent.session.undo_rewind()
    agent.session.undo_rewind()
    agent.session.rewind(2)
    assert notices(agent.session) == [(task.id, "completed")]


def test_it_goes_where_its_task_does(told):
    agent, task = told
    (agent.project / "go").unlink()
    late = agent.spawn("third", WAITS)
    ends(agent, late)
    agent.session.rewind(3)
    assert notices(agent.session) == [(task.id, "completed")]
    agent.session.rewind(1)
    assert notices(agent.session) == []


@pytest.mark.parametrize("options", [{}, {"scope": "conversation"}, {"history": "hide"}])
def test_with_a_new_turn_that_an_undo_removes_it_goes_too(told, options):
    agent, _ = told
    before = lines(agent)
    agent.session.rewind(2, **options)
    kept = lines(agent)
    (agent.project / "go").unlink()
    late = agent.spawn("instead", WAITS)
    ends(agent, late)
    new = lines(agent)[len(kept) :]
    agent.session.undo_rewind(on_conflict="overwrite")
    assert lines(agent) == before
    agent.session.redo_rewind()
    assert lines(agent) == [*kept, *new]
    agent.session.undo_rewind(on_conflict="keep")
    assert lines(agent) == [*before, *new]


def test_one_that_comes_between_a_rewind_and_its_undo_stays_where_its_task_does(agent):
    task = agent.spawn("first", WAITS)
    agent.turn("second")
    before = lines(agent)
    agent.session.rewind(2)
    ends(agent, task)
    agent.session.undo_rewind()
    assert lines(agent) == [*before, *notice_lines(lines(agent))]
    assert notices(agent.session) == [(task.id, "completed")]


def test_that_of_a_task_from_before_a_mark_stays_behind_it(agent):
    with agent.session.begin_turn("first") as turn:
        early = agent.python(WAITS, label="early")
        mark = turn.mark("here")
        late = agent.python(WAITS, label="late")
        ends(agent, early, late)
    agent.session.rewind(mark)
    assert notices(agent.session) == [(early.id, "completed")]


def test_a_compaction_that_said_it_again_makes_it_no_second_one(told):
    agent, task = told
    agent.turn("third")
    agent.session.compact(summary="So far.", keep_rounds=2)
    assert agent.transcript.count(b'"task_notification"') == 2
    agent.session.rewind(3)
    assert agent.transcript.count(b'"task_notification"') == 1
    agent.session.undo_rewind()
    assert agent.transcript.count(b'"task_notification"') == 2
    report = agent.session.rewind(2)
    assert agent.transcript.count(b'"task_notification"') == 1
    assert report.removed_messages == 6
    assert notices(agent.session) == [(task.id, "completed")]


@pytest.mark.parametrize("how", ["rewind", "fork"])
def test_a_fork_is_told_how_the_tasks_of_the_turns_it_keeps_ended(told, how):
    agent, task = told
    agent.session.set_title("A title")
    before = agent.transcript
    planned = agent.session.plan_fork(1)
    if how == "rewind":
        report = agent.session.rewind(2, history="fork")
        fork = report.session
        assert report.removed_messages == 3
    else:
        fork = agent.session.fork(1)
    with fork:
        assert planned.messages == len(list(fork.history())) == 3
        assert roles(fork) == ["user", "assistant", "notice"]
        assert notices(fork) == [(task.id, "completed")]
        assert notice_lines(fork.path.read_bytes().splitlines(keepends=True)) == notice_lines(lines(agent))
        assert fork.title == "A title (fork)"
    assert agent.transcript == before


def test_a_fork_of_all_turns_has_it_once(told):
    agent, task = told
    agent.turn("third")
    with agent.session.fork(2) as fork:
        assert notices(fork) == [(task.id, "completed")]
