"""What is recorded while a plan is made is not passed over."""

import threading

import pytest
from agent import contents

from sessions import StaleError
from sessions.rewind.files_planning import FilesPlanner


@pytest.fixture
def late(agent, monkeypatch):
    """An edit on another thread that begins and ends while the files of a plan are looked at."""
    agent.turn("first", {"a": "a"})
    planning, recorded = threading.Event(), threading.Event()

    with agent.session.begin_turn("second") as turn, turn.edit("b"):
        (agent.project / "b").write_text("b")

    def edit():
        planning.wait(60)
        with turn.edit("late"):
            (agent.project / "late").write_text("late")
        recorded.set()

    plan = FilesPlanner.plan

    def slow(self, *arguments, **options):
        planning.set()
        recorded.wait(60)
        return plan(self, *arguments, **options)

    thread = threading.Thread(target=edit)
    thread.start()
    yield lambda: monkeypatch.setattr(FilesPlanner, "plan", slow)
    planning.set()
    thread.join()


def test_an_edit_that_comes_while_a_rewind_is_planned_makes_it_stale(agent, late):
    late()
    with pytest.raises(StaleError, match="late changed since"):
        agent.session.rewind(2)
    assert contents(agent.project) == {"a": b"a", "b": b"b", "late": b"late"}
    agent.session.rewind(2)
    assert contents(agent.project) == {"a": b"a"}


def test_an_edit_that_comes_while_an_undo_is_planned_is_seen_by_it(agent, late):
    agent.session.rewind(1, scope="conversation")
    agent.session.undo_rewind()
    agent.session.rewind(2, scope="code")
    late()
    agent.session.undo_rewind()
    assert contents(agent.project) == {"a": b"a", "b": b"b", "late": b"late"}
    agent.session.rewind(2)
    assert contents(agent.project) == {"a": b"a"}
