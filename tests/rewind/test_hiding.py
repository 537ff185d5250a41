"""The removed part stays in the file, hidden by an event: ``history="hide"``."""

import json

import pytest
from agent import contents, make

from sessions import RequestError, SessionStore, assistant_message


@pytest.fixture
def worked(agent):
    make(agent.project / "f", "f0")
    for number in range(1, 4):
        agent.turn(f"prompt {number}", {"f": f"f{number}"})
    return agent


def _prompts(session):
    return [each.prompt for each in session.checkpoints()]


def test_every_line_stays_and_no_view_shows_what_is_hidden(worked):
    old = worked.transcript
    plan = worked.session.plan_rewind(2, history="hide")
    assert worked.transcript == old
    report = worked.session.rewind(plan)
    assert report.prompt == "prompt 2"
    assert report.removed_messages == 4
    assert contents(worked.project) == {"f": b"f1"}
    assert worked.transcript.startswith(old)
    event = json.loads(worked.transcript[len(old) :])
    assert (event["type"], event["throughTurnId"]) == ("rollback", 2)
    assert event["messageId"] == plan.to
    for session in (worked.session, SessionStore(worked.root).open(worked.session.id, read_only=True)):
        assert _prompts(session) == ["prompt 1"]
        assert [message.text for message in session.history()] == ["prompt 1", "done"]
        assert [message.text for message in session.messages] == ["prompt 1", "done"]


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
def test_undo_removes_the_event_and_redo_puts_it_back(worked, restart):
    old, files = worked.transcript, contents(worked.project)
    worked.session.rewind(2, history="hide")
    hidden = worked.transcript
    for _ in range(2):
        if restart:
            worked.reopen()
        worked.session.undo_rewind()
        assert (worked.transcript, contents(worked.project)) == (old, files)
        worked.session.redo_rewind()
        assert (worked.transcript, contents(worked.project)) == (hidden, {"f": b"f1"})


def test_one_goes_on_behind_the_event_and_rewinds_again(worked):
    worked.session.rewind(2, history="hide")
    worked.turn("another 2", {"f": "f2 again"})
    worked.turn("another 3", {"f": "f3 again"})
    assert _prompts(worked.session) == ["prompt 1", "another 2", "another 3"]
    worked.session.rewind(3, history="hide")
    assert contents(worked.project) == {"f": b"f2 again"}
    worked.session.rewind(2)
    assert contents(worked.project) == {"f": b"f1"}
    worked.session.rewind(1)
    assert contents(worked.project) == {"f": b"f0"}
    for _ in range(4):
        worked.session.undo_rewind(on_conflict="keep")
    assert _prompts(worked.session)[:3] == ["prompt 1", "prompt 2", "prompt 3"]


def test_what_came_since_is_an_obstacle_to_undo_and_stays_behind_what_comes_back(worked):
    old = worked.transcript
    worked.session.rewind(3, history="hide")
    worked.session.append(assistant_message("since"))
    assert "came since" in worked.session.plan_undo().refused
    worked.session.undo_rewind(on_conflict="keep")
    assert worked.transcript.startswith(old)
    assert [message.text for message in worked.session.history()][-2:] == ["done", "since"]


def test_a_title_stays_near_the_end(worked):
    worked.session.set_title("A title")
    worked.session.append(assistant_message("x" * 65_000))
    worked.session.rewind(3, history="hide")
    assert b'"A title"' in worked.transcript[-64 * 1024 :]
    assert worked.session.title == "A title"
    worked.reopen()
    assert worked.session.title == "A title"


@pytest.mark.parametrize(
    "end", [b'{"torn": "li', b'{"timestamp":"2026-01-01T00:00:00.000Z","id":"x","role":"user","blocks":[]}']
)
def test_a_last_line_without_an_end_is_never_glued_to_the_event(worked, end):
    with worked.session.path.open("ab") as transcript:
        transcript.write(end)
    old = worked.transcript
    worked.session.rewind(3, history="hide")
    assert _prompts(worked.session) == ["prompt 1", "prompt 2"]
    assert all(json.loads(line) for line in worked.transcript.splitlines())
    worked.session.undo_rewind()
    assert worked.transcript == old


def test_the_conversation_alone_can_be_hidden_and_files_follow(worked):
    removed = worked.session.checkpoints()[1].id
    worked.session.rewind(2, scope="conversation", history="hide")
    assert contents(worked.project) == {"f": b"f3"}
    worked.session.rewind(removed, scope="code")
    assert contents(worked.project) == {"f": b"f1"}


def test_hiding_concerns_the_conversation(worked):
    with pytest.raises(RequestError, match="conversation"):
        worked.session.plan_rewind(2, scope="code", history="hide")
