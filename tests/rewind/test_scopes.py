"""Conversation alone, code alone, both, in any order."""

import pytest
from agent import contents, make, verdicts

from sessions import ConflictError, NotFoundError


@pytest.fixture
def four(agent):
    """Turns 1 to 4 edit f; 3 also makes g."""
    make(agent.project / "f", "v0\n")
    agent.ids = {}
    for number in (1, 2, 3, 4):
        agent.ids[number] = agent.turn(
            f"prompt {number}", {"f": f"v{number}\n"} | ({"g": "made\n"} if number == 3 else {})
        )
    return agent


def _prompts(agent) -> list[str]:
    return [checkpoint.prompt for checkpoint in agent.session.checkpoints()]


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
def test_conversation_first_then_code_to_the_removed_prompt(four, restart):
    files, transcript = four.files, four.transcript
    report = four.session.rewind(2, scope="conversation")
    assert _prompts(four) == ["prompt 1"]
    assert four.files == files
    assert report.files == ()
    assert f"--scope code --to {four.ids[2]}" in report.notes[0]
    rewound = four.transcript
    if restart:
        four.reopen()
    report = four.session.rewind(four.ids[2], scope="code")
    assert contents(four.project) == {"f": b"v1\n"}
    assert report.prompt == ""
    assert report.removed_messages == 0
    assert four.transcript == rewound
    if restart:
        four.reopen()
    four.session.undo_rewind()
    assert four.files == files
    assert four.transcript == rewound
    four.session.undo_rewind()
    assert four.files == files
    assert four.transcript == transcript


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
def test_code_first_then_the_conversation(four, restart):
    files, transcript = four.files, four.transcript
    four.session.rewind(2, scope="code")
    assert contents(four.project) == {"f": b"v1\n"}
    assert four.transcript == transcript
    if restart:
        four.reopen()
    four.session.rewind(2, scope="conversation")
    assert contents(four.project) == {"f": b"v1\n"}
    assert _prompts(four) == ["prompt 1"]
    if restart:
        four.reopen()
    four.session.undo_rewind()
    assert contents(four.project) == {"f": b"v1\n"}
    assert four.transcript == transcript
    four.session.undo_rewind()
    assert four.files == files


def test_a_later_removed_prompt_is_a_place_of_its_own(four):
    four.session.rewind(2, scope="conversation")
    four.session.rewind(four.ids[4], scope="code")
    assert contents(four.project) == {"f": b"v3\n", "g": b"made\n"}
    four.session.rewind(four.ids[3], scope="code")
    assert contents(four.project) == {"f": b"v2\n"}


def test_a_removed_prompt_is_no_place_for_the_conversation(four):
    four.session.rewind(3, scope="conversation")
    for scope in ("both", "conversation"):
        with pytest.raises(NotFoundError):
            four.session.plan_rewind(four.ids[3], scope=scope)


def test_a_later_rewind_of_code_past_detached_turns_takes_them_back_too(four):
    four.session.rewind(3, scope="conversation")
    four.turn("prompt 3 again", {"h": "new\n"})
    four.session.rewind(3)
    assert contents(four.project) == {"f": b"v4\n", "g": b"made\n"}
    four.session.rewind(2, scope="code")
    assert contents(four.project) == {"f": b"v1\n"}
    four.session.undo_rewind()
    four.session.rewind(1)
    assert contents(four.project) == {"f": b"v0\n"}


def test_what_was_taken_back_with_its_conversation_is_no_place_any_more(four):
    four.session.rewind(3)
    with pytest.raises(NotFoundError):
        four.session.plan_rewind(four.ids[3], scope="code")


def test_code_alone_then_both_further_back_then_two_undos(four):
    files, transcript = four.files, four.transcript
    four.session.rewind(4, scope="code")
    middle = four.files
    four.session.rewind(2)
    assert contents(four.project) == {"f": b"v1\n"}
    four.reopen()
    four.session.undo_rewind()
    assert four.files == middle
    four.session.undo_rewind()
    assert four.files == files
    assert four.transcript == transcript


def test_code_alone_and_then_a_turn_counts_the_rewind_as_an_edit(four):
    four.session.rewind(2, scope="code")
    five = four.turn("prompt 5", {"f": "v5\n"})
    assert verdicts(four.session.plan_rewind(five)) == {"f": ("restore", None)}
    four.session.rewind(five)
    assert contents(four.project) == {"f": b"v1\n"}
    four.session.rewind(4, scope="code")
    assert contents(four.project) == {"f": b"v3\n", "g": b"made\n"}


def test_both_takes_the_captures_of_a_rewind_of_code_with_it(four):
    four.session.rewind(2, scope="code")
    four.session.rewind(3)
    assert contents(four.project) == {"f": b"v2\n"}
    assert four.session.plan_rewind(2, on_conflict="refuse").conflicts == ()
    four.session.rewind(2)
    assert contents(four.project) == {"f": b"v1\n"}


def test_a_rewind_of_the_conversation_alone_says_no_word_of_files(four):
    plan = four.session.plan_rewind(2, scope="conversation")
    assert plan.files == plan.conflicts == plan.gaps == ()
    assert plan.removed_messages == 6
    assert plan.prompt == "prompt 2"


def test_a_rewind_of_code_alone_says_no_word_of_messages(four):
    plan = four.session.plan_rewind(2, scope="code")
    assert (plan.removed_messages, plan.prompt) == (0, "")
    assert verdicts(plan) == {"f": ("restore", None), "g": ("delete", None)}


def test_gaps_of_removed_turns_are_in_the_plan_and_those_before_are_not(agent):
    with agent.session.begin_turn("one") as turn:
        turn.gap("shell", ["build"])
    with agent.session.begin_turn("two") as turn:
        turn.gap("shell")
        turn.gap("network", [agent.project / "cache"])
    gaps = agent.session.plan_rewind(2).gaps
    assert [(gap.kind, gap.paths, gap.turn) for gap in gaps] == [
        ("shell", (), turn.message_id),
        ("network", ("cache",), turn.message_id),
    ]
    assert len(agent.session.plan_rewind(1).gaps) == 3
    agent.session.rewind(2)
    assert len(agent.session.plan_rewind(1).gaps) == 1
    agent.session.undo_rewind()
    assert len(agent.session.plan_rewind(1).gaps) == 3
    assert [len(each.gaps) for each in agent.session.checkpoints()] == [1, 2]


def test_a_turn_that_is_open_stands_in_the_way(four):
    files, transcript = four.files, four.transcript
    with four.session.begin_turn("five"):
        for work in (
            lambda: four.session.rewind(2),
            four.session.undo_rewind,
            four.session.redo_rewind,
            lambda: four.session.compact("short"),
            lambda: four.session.begin_turn("six"),
        ):
            with pytest.raises(ConflictError, match="turn"):
                work()
    assert four.files == files
    assert four.transcript.startswith(transcript)


def test_a_late_capture_for_a_removed_turn_is_refused(four):
    turn = four.session.begin_turn("five")
    edit = turn.edit("f")
    turn.end()
    four.session.rewind(5)
    lines = len((four.sidecar / "timeline.jsonl").read_bytes().splitlines())
    with pytest.raises(ConflictError, match=turn.message_id):
        turn.edit("late")
    with pytest.raises(ConflictError, match=turn.message_id):
        turn.gap("shell")
    with pytest.raises(ConflictError, match=turn.message_id), edit:
        make(four.project / "f", "late\n")
    turn.end()
    assert len((four.sidecar / "timeline.jsonl").read_bytes().splitlines()) == lines
    four.session.undo_rewind(on_conflict="overwrite")
    turn.gap("shell")  # its turn is back


def test_a_late_capture_for_a_turn_whose_conversation_alone_went_is_kept(four):
    turn = four.session.begin_turn("five")
    turn.end()
    four.session.rewind(5, scope="conversation")
    with turn.edit("late"):
        make(four.project / "late", "x")
    four.session.rewind(turn.message_id, scope="code")
    assert not (four.project / "late").exists()
