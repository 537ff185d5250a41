"""A table of contents over turns, targets and restarts: every target gives the recorded row."""

from collections import Counter

import pytest
from agent import contents, verdicts

TURNS = {
    1: [{"f1": "f1 after 1\n"}],
    2: [],
    3: [{"f1": "f1 after 3\n"}],
    4: [],
    5: [{"f1": "f1 first in 5\n"}, {"f1": "f1 after 5\n", "f2": "f2 after 5\n"}],
    6: [],
}
TABLE = {
    1: {"f1": b"f1 at first\n"},
    2: {"f1": b"f1 after 1\n"},
    3: {"f1": b"f1 after 1\n"},
    4: {"f1": b"f1 after 3\n"},
    5: {"f1": b"f1 after 3\n"},
    6: {"f1": b"f1 after 5\n", "f2": b"f2 after 5\n"},
}


@pytest.fixture
def worked(agent):
    (agent.project / "f1").write_text("f1 at first\n")
    for number, edits in TURNS.items():
        agent.turn(f"prompt {number}", *edits)
        if number in {2, 4}:
            agent.reopen()
    return agent


@pytest.mark.parametrize("scope", ["both", "code"])
@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
@pytest.mark.parametrize("target", TABLE)
def test_every_target_gives_its_row(worked, target, restart, scope):
    old = worked.transcript
    if restart:
        worked.reopen()
    report = worked.session.rewind(target, scope=scope)
    assert contents(worked.project) == TABLE[target]
    assert not report.partial
    if scope == "both":
        assert [each.prompt for each in worked.session.checkpoints()] == [f"prompt {n}" for n in range(1, target)]
        assert report.prompt == f"prompt {target}"
    else:
        assert worked.transcript == old
    if restart:
        worked.reopen()
    worked.session.undo_rewind()
    assert contents(worked.project) == TABLE[6]
    assert worked.transcript == old


@pytest.mark.parametrize("first", [3, 5, 6])
@pytest.mark.parametrize("second", [1, 2])
def test_going_back_in_two_steps_is_going_back_in_one(worked, first, second):
    worked.session.rewind(first)
    worked.reopen()
    worked.session.rewind(second)
    assert contents(worked.project) == TABLE[second]


@pytest.mark.parametrize("target", TABLE)
@pytest.mark.parametrize("then", TABLE)
def test_after_a_rewind_of_code_alone_every_target_still_gives_its_row(worked, target, then):
    worked.session.rewind(target, scope="code")
    worked.reopen()
    worked.session.rewind(then, scope="code")
    assert contents(worked.project) == TABLE[then]
    worked.session.undo_rewind()
    assert contents(worked.project) == TABLE[target]
    worked.session.undo_rewind()
    assert contents(worked.project) == TABLE[6]


def test_work_after_a_rewind_gets_turns_of_its_own(worked):
    worked.session.rewind(3)
    worked.turn("prompt 3 again", {"f1": "f1 after the second 3\n"}, {"f3": "new\n"})
    worked.reopen()
    worked.turn("prompt 4 again", {"f1": "f1 after the second 4\n"})
    worked.session.rewind(4)
    assert contents(worked.project) == {"f1": b"f1 after the second 3\n", "f3": b"new\n"}
    worked.session.rewind(3)
    assert contents(worked.project) == TABLE[3]
    numbers = [int(path.name) for path in (worked.sidecar / "turns").iterdir()]
    assert max(Counter(numbers).values()) == 1
    assert max(numbers) > 6


def test_single_files_can_be_chosen(worked):
    report = worked.session.rewind(5, scope="code", paths=["f2"])
    assert verdicts(report) == {"f2": ("delete", None)}
    assert contents(worked.project) == {"f1": b"f1 after 5\n"}
    worked.session.rewind(4, scope="code", paths=[worked.project / "f1"])
    assert contents(worked.project) == TABLE[4]
    worked.session.undo_rewind()
    worked.session.undo_rewind()
    assert contents(worked.project) == TABLE[6]


def test_a_file_outside_the_plan_cannot_be_chosen(worked):
    from sessions import NotFoundError, RequestError

    with pytest.raises(NotFoundError, match="README"):
        worked.session.rewind(1, scope="code", paths=["README"])
    with pytest.raises(RequestError, match="scope 'code'"):
        worked.session.rewind(1, paths=["f1"])


def test_the_checkpoints_say_what_each_turn_did(worked):
    listed = worked.session.checkpoints()
    assert [each.index for each in listed] == [1, 2, 3, 4, 5, 6]
    assert [[(file.path, file.status) for file in each.files] for each in listed] == [
        [("f1", "modified")],
        [],
        [("f1", "modified")],
        [],
        [("f1", "modified"), ("f2", "created")],
        [],
    ]
    assert [(each.insertions, each.deletions) for each in listed] == [(1, 1), (0, 0), (1, 1), (0, 0), (2, 1), (0, 0)]
