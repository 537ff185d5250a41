"""A rewind after which the conversation goes on in a fork: ``history="fork"``."""

import pytest
from agent import contents, make, verdicts
from scenario import KNOWN
from worst_moments import killed_at

from sessions import NothingToUndoError, SessionStore, assistant_message


@pytest.fixture
def worked(agent):
    make(agent.project / "f", "f0")
    for number in range(1, 4):
        agent.turn(f"prompt {number}", {"f": f"f{number}", f"made{number}": "x"})
    agent.session.set_title("A title")
    agent.at_end = contents(agent.project)
    return agent


def _prompts(session):
    return [each.prompt for each in session.checkpoints()]


def _listed(agent):
    return sorted(row.id for row in SessionStore(agent.root).list(agent.project))


def test_files_go_back_and_the_fork_goes_on_without_what_was_removed(worked):
    old = worked.transcript
    plan = worked.session.plan_rewind(2, history="fork")
    assert (plan.removed_messages, plan.prompt, plan.scope) == (4, "prompt 2", "both")
    assert _listed(worked) == [worked.session.id]
    report = worked.session.rewind(plan)
    with report.session as fork:
        assert report.to_json()["session"] == fork.id != worked.session.id
        assert report.prompt == "prompt 2"
        assert fork.forked_from == worked.session.id
        assert (fork.title, worked.session.title) == ("A title (fork)", "A title")
        assert _prompts(fork) == ["prompt 1"]
        assert fork.rewinds() == []
        assert worked.transcript == old
        assert _prompts(worked.session) == ["prompt 1", "prompt 2", "prompt 3"]
        assert contents(worked.project) == {"f": b"f1", "made1": b"x"}
        assert _listed(worked) == sorted([worked.session.id, fork.id])
        with fork.begin_turn("another 2") as turn, turn.edit("f"):
            make(worked.project / "f", "f2 in the fork")
        fork.rewind(1)
        assert contents(worked.project) == {"f": b"f0"}


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
def test_undo_brings_files_back_and_removes_a_fork_in_which_nobody_went_on(worked, restart):
    report = worked.session.rewind(2, history="fork")
    if restart:
        report.session.close()
        worked.reopen()
    undone = worked.session.undo_rewind()
    assert undone.session is worked.session
    assert undone.notes == (f"the fork {report.session.id} was removed",)
    assert contents(worked.project) == worked.at_end
    assert _listed(worked) == [worked.session.id]
    with pytest.raises(NothingToUndoError):
        worked.session.undo_rewind()
    redone = worked.session.redo_rewind()
    with redone.session as fork:
        assert _prompts(fork) == ["prompt 1"]
        assert contents(worked.project) == {"f": b"f1", "made1": b"x"}
        assert _listed(worked) == sorted([worked.session.id, fork.id])
    worked.session.undo_rewind()
    assert _listed(worked) == [worked.session.id]


def test_undo_keeps_a_fork_that_went_on_and_says_so(worked):
    with worked.session.rewind(2, history="fork").session as fork:
        fork.append(assistant_message("on and on"))
    undone = worked.session.undo_rewind()
    assert undone.notes == (f"the fork {fork.id} has gone on and stays",)
    assert contents(worked.project) == worked.at_end
    assert _listed(worked) == sorted([worked.session.id, fork.id])


def test_undo_keeps_a_fork_another_process_has_open(worked):
    fork = worked.session.rewind(2, history="fork").session
    fork.close()
    with SessionStore(worked.root).open(fork.id):
        undone = worked.session.undo_rewind()
    assert "is open in process" in undone.notes[0]
    assert _listed(worked) == sorted([worked.session.id, fork.id])


def test_from_here_without_files_only_the_conversation_forks(worked):
    old = worked.transcript
    report = worked.session.rewind(2, scope="conversation", history="fork")
    with report.session as fork:
        assert report.files == ()
        assert contents(worked.project) == worked.at_end
        assert worked.transcript == old
        assert _prompts(fork) == ["prompt 1"]
    worked.session.undo_rewind()
    assert _listed(worked) == [worked.session.id]


def test_a_conflict_refuses_the_rewind_and_leaves_no_fork(worked):
    make(worked.project / "f", "by hand")
    with pytest.raises(Exception, match="not as the agent"):
        worked.session.rewind(2, history="fork", on_conflict="refuse")
    assert _listed(worked) == [worked.session.id]
    assert {path.name for path in worked.session.path.parent.iterdir()} == {
        worked.session.path.name, worked.sidecar.name,
    }  # fmt: skip
    report = worked.session.rewind(2, history="fork", on_conflict="keep")
    with report.session:
        assert verdicts(report)["f"] == ("skip", "conflict")


def test_a_mark_and_what_came_before_it_are_in_the_fork(agent):
    with agent.session.begin_turn("only") as turn:
        for number in (1, 2):
            with turn.edit("f"):
                make(agent.project / "f", f"f{number}")
            agent.session.append(assistant_message(f"wrote {number}"))
            turn.mark(f"mark {number}")
    for _ in range(2):
        with agent.session.rewind("1:mark 1", history="fork").session as fork:
            assert [message.text for message in fork.history()] == ["only", "wrote 1"]
            assert fork.checkpoints()[0].mark_names == ("mark 1",)
            assert contents(agent.project) == {"f": b"f1"}
            with fork.begin_turn("next") as turn, turn.edit("f"):
                make(agent.project / "f", "next")
            fork.rewind("1:mark 1")
            assert [message.text for message in fork.history()] == ["only", "wrote 1"]
            assert contents(agent.project) == {"f": b"f1"}
        SessionStore(agent.root).delete(fork.id)
        agent.session.undo_rewind()
        assert contents(agent.project) == {"f": b"f2"}


def test_a_kill_at_any_moment_leaves_all_old_or_all_new(worked, tmp_path):
    old, new = worked.at_end, {"f": b"f1", "made1": b"x"}
    worked.close()

    def rewind():
        with SessionStore(worked.root).open(worked.session.id) as session:
            session.rewind(2, history="fork").session.close()

    sides = set()
    number = 1
    while killed_at(number, rewind):
        store = SessionStore(worked.root)
        store.check()
        assert [checked for checked in store.check() if checked.findings or checked.recovered] == []
        forks = [row for row in store.list(worked.project) if row.id != worked.session.id]
        files = contents(worked.project)
        assert (files, len(forks)) in [(old, 0), (new, 1)]
        sides.add(len(forks))
        there = {path.name for path in worked.session.path.parent.iterdir()}
        assert len(there) <= 2 + 2 * len(forks)
        assert {path.name for path in worked.sidecar.iterdir() if not path.name.startswith("turn-")} <= KNOWN
        if forks:
            with store.open(forks[0].id) as fork:
                assert _prompts(fork) == ["prompt 1"]
            with store.open(worked.session.id) as session:
                session.undo_rewind()
            assert contents(worked.project) == old
            assert _listed(worked) == [worked.session.id]
        number += 1
    assert sides == {0, 1}
