"""Taking back one run of the agent: the files it touched, and nothing else."""

import pytest
from agent import contents, make, verdicts

from sessions import ConflictError, NotFoundError, RequestError


def _run(agent, run, *edits, prompt="go on"):
    with agent.session.begin_turn(prompt, run_id=run) as turn:
        for made in edits:
            for path, content in made.items():
                with turn.edit(path):
                    make(agent.project / path, content)
    return turn.message_id


@pytest.fixture
def ran(agent):
    """Run ``a`` in two turns with a turn of nobody and one of run ``b`` between."""
    for name in ("kept", "shared", "untouched"):
        make(agent.project / name, f"{name} 0")
    agent.first = _run(agent, "a", {"kept": "kept a", "made": "made a"})
    agent.turn("without a run", {"own": "own"})
    _run(agent, "b", {"shared": "shared b"})
    _run(agent, "a", {"made": "made a2", "last": "last a"})
    return agent


def test_its_files_go_back_to_what_they_were_before_it_and_the_conversation_stays(ran):
    transcript, before = ran.transcript, contents(ran.project)
    plan = ran.session.plan_rewind(run="a")
    assert (plan.scope, plan.run, plan.to, plan.prompt, plan.removed_messages) == ("code", "a", ran.first, "", 0)
    ran.session.rewind(plan)
    assert contents(ran.project) == {
        "kept": b"kept 0", "shared": b"shared b", "untouched": b"untouched 0", "own": b"own",
    }  # fmt: skip
    assert ran.transcript == transcript
    assert ran.session.rewinds()[-1].run == "a"
    ran.reopen()
    ran.session.undo_rewind()
    assert contents(ran.project) == before
    ran.session.redo_rewind()
    assert "made" not in contents(ran.project)


def test_a_file_another_run_edited_since_is_a_conflict_that_names_it(ran):
    _run(ran, "b", {"made": "made by b"})
    plan = ran.session.plan_rewind(run="a", on_conflict="refuse")
    assert [(each.path, each.found) for each in plan.conflicts] == [("made", "edited since by run 'b'")]
    with pytest.raises(ConflictError, match="run 'b'"):
        ran.session.rewind(plan)
    kept = ran.session.rewind(run="a", on_conflict="keep")
    assert verdicts(kept) == {
        "kept": ("restore", None), "last": ("delete", None), "made": ("skip", "conflict"),
    }  # fmt: skip
    assert kept.partial


def test_what_another_run_edited_between_two_of_its_edits_is_a_conflict_too(ran):
    make(ran.project / "f", "f0")
    _run(ran, "c", {"f": "f c"})
    ran.turn("in between", {"f": "f in between"})
    _run(ran, "c", {"f": "f c again"})
    plan = ran.session.plan_rewind(run="c")
    assert [(each.path, each.found) for each in plan.conflicts] == [("f", "edited since by another turn")]
    ran.session.rewind(plan)
    assert contents(ran.project)["f"] == b"f0"
    ran.session.undo_rewind()
    assert contents(ran.project)["f"] == b"f c again"


def test_from_a_checkpoint_on_only_the_later_part_of_a_run_goes(ran):
    ran.session.rewind(2, run="a")
    assert {"kept", "made", "last"} & contents(ran.project).keys() == {"kept", "made"}
    assert contents(ran.project)["made"] == b"made a"


def test_taking_a_run_back_twice_changes_nothing_the_second_time(ran):
    ran.session.rewind(run="a")
    assert {action for action, _ in verdicts(ran.session.plan_rewind(run="a")).values()} == {"unchanged"}


def test_after_a_rewind_of_the_code_to_its_middle_a_run_still_goes_without_a_conflict(ran):
    ran.session.rewind(4, scope="code")
    plan = ran.session.plan_rewind(run="a")
    assert not plan.conflicts
    ran.session.rewind(plan)
    assert "made" not in contents(ran.project)
    assert contents(ran.project)["kept"] == b"kept 0"


def test_single_files_of_a_run_can_be_chosen(ran):
    ran.session.rewind(run="a", paths=["made"])
    assert contents(ran.project)["kept"] == b"kept a"
    assert "made" not in contents(ran.project)


def test_only_the_gaps_of_the_run_are_named(ran):
    with ran.session.begin_turn("shell", run_id="b") as turn:
        turn.gap("shell")
    assert ran.session.plan_rewind(run="a").gaps == ()
    assert [gap.kind for gap in ran.session.plan_rewind(run="b").gaps] == ["shell"]


@pytest.mark.parametrize("run", ["", "nobody", "A"])
def test_an_unknown_run_is_an_error_that_names_those_there_are(ran, run):
    with pytest.raises(NotFoundError, match="'a', 'b'"):
        ran.session.plan_rewind(run=run)


def test_neither_a_place_nor_a_run_is_an_error(ran):
    for work in (ran.session.plan_rewind, ran.session.rewind):
        with pytest.raises(RequestError, match="where to go back to"):
            work()


@pytest.mark.parametrize("scope", ["both", "conversation"])
def test_a_run_is_taken_back_in_files_only(ran, scope):
    with pytest.raises(RequestError, match="files only"):
        ran.session.plan_rewind(run="a", scope=scope)


def test_a_run_that_a_rewind_removed_is_unknown_until_undo(ran):
    ran.session.rewind(3)
    with pytest.raises(NotFoundError):
        ran.session.plan_rewind(run="b")
    ran.session.undo_rewind()
    assert verdicts(ran.session.plan_rewind(run="b")) == {"shared": ("restore", None)}


def test_what_a_run_only_looked_at_or_failed_to_change_is_not_taken_back(agent):
    for name in ("f", "d/x"):
        make(agent.project / name, "0")
    with agent.session.begin_turn("look", run_id="a") as turn:
        with turn.edit("f"):
            pass
        with turn.edit("d"):
            make(agent.project / "d/new", "a")
    _run(agent, "b", {"f": "b", "d/x": "b"})
    assert verdicts(agent.session.plan_rewind(run="a")) == {"d/new": ("delete", None)}
    _run(agent, "a", {"f": "a"})
    agent.session.rewind(run="a")
    assert contents(agent.project) == {"f": b"b", "d/x": b"b"}


def test_a_plan_for_a_run_says_that_somebody_changed_a_file_between_its_edits(agent):
    _run(agent, "a", {"f": "1"})
    make(agent.project / "f", "the user's")
    _run(agent, "a", {"f": "2"})
    [file] = agent.session.plan_rewind(run="a").files
    assert "between the agent's edits" in file.note
