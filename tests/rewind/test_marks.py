"""Marks: named points inside a turn, gone back to exactly, lines and files."""

import pytest
from agent import contents, make, verdicts

from sessions import AmbiguousError, ConflictError, DataError, Mark, NotFoundError, RequestError, assistant_message


def _edit(agent, turn, path, content):
    with turn.edit(path):
        make(agent.project / path, content)


@pytest.fixture
def marked(agent):
    """Turn 2 edits ``a``, ``both`` and marks; then ``both``, ``b`` and marks; then ``a`` again."""
    make(agent.project / "a", "a0")
    make(agent.project / "both", "both0")
    make(agent.project / "b", "b0")
    agent.turn("first")
    with agent.session.begin_turn("second") as turn:
        _edit(agent, turn, "a", "a1")
        _edit(agent, turn, "a", "a2")
        _edit(agent, turn, "both", "both1")
        _edit(agent, turn, "made", "made1")
        agent.session.append(assistant_message("half of it"))
        agent.one = turn.mark("one")
        agent.at_one = contents(agent.project), agent.transcript
        _edit(agent, turn, "both", "both2")
        _edit(agent, turn, "b", None)
        _edit(agent, turn, "later", "later1")
        agent.session.append(assistant_message("three quarters"))
        agent.two = turn.mark("two")
        agent.at_two = contents(agent.project), agent.transcript
        _edit(agent, turn, "a", "a3")
        _edit(agent, turn, "made", None)
        agent.session.append(assistant_message("all of it"))
    agent.turn("third", {"both": "both3"})
    agent.at_end = contents(agent.project), agent.transcript
    return agent


def _now(agent):
    return contents(agent.project), agent.transcript


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
@pytest.mark.parametrize("name", ["one", "two"])
def test_files_and_lines_are_those_of_the_mark_and_undo_brings_all_back(marked, name, restart):
    if restart:
        marked.reopen()
    report = marked.session.rewind(f"2:{name}")
    assert _now(marked) == (marked.at_one if name == "one" else marked.at_two)
    assert report.prompt == ""
    assert not report.conflicts
    assert [each.prompt for each in marked.session.checkpoints()] == ["first", "second"]
    if restart:
        marked.reopen()
    marked.session.undo_rewind()
    assert _now(marked) == marked.at_end
    marked.session.redo_rewind()
    assert _now(marked) == (marked.at_one if name == "one" else marked.at_two)


def test_a_mark_is_found_by_its_value_its_name_and_a_checkpoint_lists_it(marked):
    second = marked.session.checkpoints()[1]
    assert second.marks == (marked.one, marked.two)
    assert [mark.name for mark in second.marks] == ["one", "two"]
    assert [each.marks for each in marked.session.checkpoints()[::2]] == [(), ()]
    for reference in (marked.one, Mark(second.id, "one"), "2:one", f"{second.id}:one", f"{second.id[:12]}:one"):
        plan = marked.session.plan_rewind(reference)
        assert (plan.to, plan.mark, plan.index) == (second.id, "one", 2)


def test_a_rewind_of_the_code_alone_goes_to_a_mark_and_keeps_every_line(marked):
    marked.session.rewind("2:one", scope="code")
    assert _now(marked) == (marked.at_one[0], marked.at_end[1])
    marked.session.rewind("2:two", scope="code")
    assert _now(marked) == (marked.at_two[0], marked.at_end[1])


def test_a_rewind_of_the_conversation_alone_says_how_files_follow_to_the_mark(marked):
    report = marked.session.rewind("2:one", scope="conversation")
    assert _now(marked) == (marked.at_end[0], marked.at_one[1])
    assert ":one" in report.notes[0]
    marked.session.rewind("2:one", scope="code")
    assert _now(marked) == marked.at_one


def test_one_goes_on_from_a_mark_and_back_to_it_once_more(marked):
    marked.session.rewind("2:one")
    marked.turn("another third", {"a": "a9", "both": "both9"})
    marked.session.rewind("2:one")
    assert _now(marked) == marked.at_one
    marked.session.rewind(2)
    assert contents(marked.project) == {"a": b"a0", "both": b"both0", "b": b"b0"}


def test_a_later_mark_leaves_with_its_part_of_the_turn_and_comes_back_with_undo(marked):
    marked.session.rewind("2:one")
    assert [mark.name for mark in marked.session.checkpoints()[1].marks] == ["one"]
    with pytest.raises(NotFoundError, match="'one'"):
        marked.session.plan_rewind("2:two")
    marked.session.undo_rewind()
    assert [mark.name for mark in marked.session.checkpoints()[1].marks] == ["one", "two"]


def test_a_checkpoint_counts_what_is_left_of_its_turn(marked):
    whole = marked.session.checkpoints()[1]
    marked.session.rewind("2:one")
    left = marked.session.checkpoints()[1]
    assert [(file.path, file.status) for file in left.files] == [
        ("a", "modified"), ("both", "modified"), ("made", "created"),
    ]  # fmt: skip
    assert (left.insertions, left.deletions) == (3, 2)
    marked.session.undo_rewind()
    assert marked.session.checkpoints()[1] == whole


def test_a_file_edited_only_in_front_of_the_mark_is_a_conflict_when_somebody_changed_it(marked):
    make(marked.project / "a", "by hand")
    marked.session.rewind("2:two", on_conflict={None: "refuse", "a": "overwrite"})
    assert contents(marked.project)["a"] == b"a2"
    marked.session.undo_rewind()
    assert contents(marked.project)["a"] == b"by hand"
    marked.turn("fourth")
    make(marked.project / "made", "by hand")
    plan = marked.session.plan_rewind("2:two")
    assert verdicts(plan)["made"] == ("restore", "conflict")


def test_a_file_only_in_front_of_the_mark_and_untouched_since_is_unchanged(agent):
    with agent.session.begin_turn("only") as turn:
        _edit(agent, turn, "early", "1")
        turn.mark("here")
        _edit(agent, turn, "late", "2")
    assert verdicts(agent.session.plan_rewind("1:here")) == {"early": ("unchanged", None), "late": ("delete", None)}
    make(agent.project / "early", "by hand")
    plan = agent.session.plan_rewind("1:here", on_conflict="keep")
    assert verdicts(plan) == {"early": ("skip", "conflict"), "late": ("delete", None)}


def test_an_edit_that_goes_on_over_a_mark_is_in_it_as_it_was_at_that_moment(agent):
    with agent.session.begin_turn("only") as turn:
        with turn.edit("tree"):
            make(agent.project / "tree/file", "at the mark")
            turn.mark("inside")
            make(agent.project / "tree/file", "behind it")
            make(agent.project / "tree/new", "behind it")
        turn.mark("done")
        _edit(agent, turn, "tree", None)
    done = {"tree/file": b"behind it", "tree/new": b"behind it"}
    agent.session.rewind("1:done", scope="code")
    assert contents(agent.project) == done
    agent.session.rewind("1:inside", scope="code")
    assert contents(agent.project) == {"tree/file": b"at the mark"}
    agent.session.undo_rewind()
    assert contents(agent.project) == done


def test_what_was_kept_at_a_mark_survives_many_later_edits_of_the_same_turn(agent):
    make(agent.project / "f", "f0")
    with agent.session.begin_turn("only") as turn:
        for number in range(6):
            _edit(agent, turn, "f", f"f{number}")
            _edit(agent, turn, "made", f"made{number}")
            turn.mark(f"mark {number}")
    for number in (4, 0, 5, 2):
        agent.session.rewind(f"1:mark {number}", scope="code")
        assert contents(agent.project) == {"f": f"f{number}".encode(), "made": f"made{number}".encode()}


def test_marks_of_one_name_are_told_apart(agent):
    with agent.session.begin_turn("only") as turn:
        for number in range(3):
            _edit(agent, turn, "f", f"f{number}")
            turn.mark("tests green")
    with pytest.raises(AmbiguousError, match="tests green#3"):
        agent.session.plan_rewind("1:tests green")
    assert agent.session.plan_rewind("1:tests green#2").mark == "tests green#2"
    agent.session.rewind(agent.session.checkpoints()[0].marks[1], scope="code")
    assert contents(agent.project) == {"f": b"f1"}


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, "\ud83d", None, 3])
def test_a_name_that_cannot_be_shown_is_refused_and_leaves_nothing(agent, name):
    with agent.session.begin_turn("only") as turn, pytest.raises(RequestError):
        turn.mark(name)
    assert agent.session.checkpoints()[0].marks == ()


def test_a_turn_that_has_ended_takes_no_mark(agent):
    turn = agent.session.begin_turn("only")
    turn.end()
    with pytest.raises(ConflictError, match="ended"):
        turn.mark("late")


def test_in_a_transcript_rewritten_by_another_program_a_mark_is_found_by_its_message(marked):
    path = marked.session.path
    path.write_bytes(path.read_bytes().replace(b'"first"', b'"the very first"'))
    kept = path.read_bytes()[: path.read_bytes().index(b"half of it")].count(b"\n") + 1
    marked.session.rewind("2:one")
    assert contents(marked.project) == marked.at_one[0]
    assert marked.transcript.count(b"\n") == kept


def test_a_mark_whose_message_is_gone_keeps_its_files(marked):
    path = marked.session.path
    path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(True) if b"half of it" not in line))
    with pytest.raises(DataError, match="in front of that mark are gone"):
        marked.session.plan_rewind("2:one")
    marked.session.rewind("2:one", scope="code")
    assert contents(marked.project) == marked.at_one[0]


def test_a_mark_cannot_be_hidden_from(marked):
    with pytest.raises(RequestError, match="mark"):
        marked.session.plan_rewind("2:one", history="hide")


def test_an_undo_that_keeps_a_new_turn_keeps_its_marks(marked):
    marked.session.rewind(2)
    with marked.session.begin_turn("new") as turn:
        _edit(marked, turn, "new", "1")
        marked.session.append(assistant_message("one"))
        turn.mark("in the new turn")
        _edit(marked, turn, "new", "2")
        marked.session.append(assistant_message("two"))
    marked.session.undo_rewind(on_conflict="keep")
    assert [each.prompt for each in marked.session.checkpoints()] == ["first", "second", "third", "new"]
    marked.session.rewind("4:in the new turn")
    assert [message.text for message in marked.session.history()][-2:] == ["new", "one"]
    assert contents(marked.project)["new"] == b"1"


def test_what_somebody_else_made_of_a_file_in_front_of_the_mark_is_its_state_there(agent):
    with agent.session.begin_turn("only") as turn:
        _edit(agent, turn, "a", "the agent's")
        make(agent.project / "a", "the user's")
        turn.mark("here")
    assert verdicts(agent.session.plan_rewind("1:here")) == {"a": ("unchanged", None)}
    make(agent.project / "a", "the user's again")
    plan = agent.session.plan_rewind("1:here")
    assert verdicts(plan) == {"a": ("restore", "conflict")}
    agent.session.rewind(plan)
    assert contents(agent.project) == {"a": b"the user's"}


def test_a_directory_the_user_removed_in_front_of_the_mark_is_gone_there(agent):
    with agent.session.begin_turn("only") as turn:
        with turn.edit("empty"):
            (agent.project / "empty").mkdir()
        (agent.project / "empty").rmdir()
        turn.mark("here")
    assert verdicts(agent.session.plan_rewind("1:here")) == {"empty": ("unchanged", None)}
