"""Undo and redo: exact where nothing else changed, said where something did, never silent."""

import pytest
from agent import contents, make, verdicts

from sessions import ConflictError, NotFoundError, NothingToUndoError, RequestError, assistant_message


@pytest.fixture
def worked(agent):
    """Three turns over files, modes, a link and directories; nothing of it ends in a newline by habit."""
    make(agent.project / "f", "v0")
    make(agent.project / "run", "#!")
    make(agent.project / "old" / "a", "a")
    make(agent.project / "gone", "gone")
    agent.states = {1: agent.files}
    agent.turn("one", {"f": "v1", "run": lambda path: path.chmod(0o755)})
    agent.states[2] = agent.files
    agent.turn("two", {"f": "v2", "new/deep/b": b"\0b", "old/a": None, "old": lambda path: path.rmdir()})
    agent.session.set_title("A title")
    agent.states[3] = agent.files
    agent.turn("three", {"f": "v3", "gone": None, "link": lambda path: path.symlink_to("f")})
    agent.states[4] = agent.files
    return agent


def _state(agent):
    return agent.files, agent.transcript


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
@pytest.mark.parametrize("target", [1, 2, 3])
def test_undo_gives_back_bytes_modes_and_transcript(worked, target, restart):
    before = _state(worked)
    worked.session.rewind(target)
    assert worked.files == worked.states[target]
    if restart:
        worked.reopen()
    report = worked.session.undo_rewind()
    assert not report.partial
    assert _state(worked) == before


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
def test_three_rewinds_and_three_undos_give_everything_back(worked, restart):
    states = [_state(worked)]
    for target in (3, 2, 1):
        worked.session.rewind(target)
        states.append(_state(worked))
        if restart:
            worked.reopen()
    for state in reversed(states[:-1]):
        worked.session.undo_rewind()
        assert _state(worked) == state
        if restart:
            worked.reopen()
    with pytest.raises(NothingToUndoError):
        worked.session.undo_rewind()
    for state in states[1:]:
        worked.session.redo_rewind()
        assert _state(worked) == state
        if restart:
            worked.reopen()
    with pytest.raises(NothingToUndoError, match="redo"):
        worked.session.redo_rewind()


def test_undo_again_takes_back_the_rewind_before(worked):
    states = [_state(worked)]
    worked.session.rewind(3)
    states.append(_state(worked))
    worked.session.rewind(1, scope="code")
    worked.session.undo_rewind()
    assert _state(worked) == states[1]
    worked.session.undo_rewind()
    assert _state(worked) == states[0]


def test_twice_and_twice(worked):
    states = [_state(worked)]
    for _round in range(2):
        worked.session.rewind(3)
        worked.session.rewind(2)
        worked.session.undo_rewind()
        worked.session.undo_rewind()
        assert _state(worked) == states[0]
    assert [record.state for record in worked.session.rewinds()] == ["undone"] * 4


def test_redo_again_and_again(worked):
    before = _state(worked)
    worked.session.rewind(2)
    after = _state(worked)
    for _round in range(3):
        worked.session.undo_rewind()
        assert _state(worked) == before
        worked.session.redo_rewind()
        assert _state(worked) == after
        worked.reopen()


def test_a_rewind_after_an_undo_ends_the_redo(worked):
    worked.session.rewind(2)
    worked.session.undo_rewind()
    worked.session.rewind(3)
    with pytest.raises(NothingToUndoError):
        worked.session.redo_rewind()
    worked.session.undo_rewind()
    with pytest.raises(NothingToUndoError):
        worked.session.undo_rewind()


def test_a_turn_after_an_undo_ends_the_redo(worked):
    worked.session.rewind(2)
    worked.session.undo_rewind()
    worked.turn("four")
    with pytest.raises(NothingToUndoError):
        worked.session.redo_rewind()


def test_after_a_new_turn_an_undo_is_refused_and_changes_nothing(worked):
    worked.session.rewind(2)
    worked.turn("two again", {"other": "x"})
    state = _state(worked)
    with pytest.raises(ConflictError, match="messages came since") as refused:
        worked.session.undo_rewind()
    assert refused.value.exit_code == 5
    assert _state(worked) == state


def test_after_messages_without_a_turn_an_undo_is_refused_too(worked):
    worked.session.rewind(2)
    worked.session.append(assistant_message("I had a thought"))
    state = _state(worked)
    with pytest.raises(ConflictError, match="messages"):
        worked.session.undo_rewind()
    assert _state(worked) == state


def test_undo_overwriting_a_new_turn_removes_it_and_redo_brings_it_back(worked):
    before = _state(worked)
    worked.session.rewind(2)
    worked.turn("two again", {"f": "v2 again", "other": "x"})
    after = _state(worked)
    worked.session.undo_rewind(on_conflict="overwrite")
    assert worked.transcript == before[1]
    assert contents(worked.project)["new/deep/b"] == b"\0b"
    assert contents(worked.project)["f"] == b"v3"
    worked.reopen()
    worked.session.redo_rewind()
    assert _state(worked) == after
    assert [each.prompt for each in worked.session.checkpoints()] == ["one", "two again"]
    worked.session.rewind(2)
    assert worked.files == worked.states[2]


def test_undo_keeping_a_new_turn_puts_it_behind_the_restored_lines(worked):
    before = worked.transcript
    worked.session.rewind(2)
    kept = len(worked.transcript)
    worked.turn("two again", {"other": "x"})
    new = worked.transcript[kept:]
    worked.session.undo_rewind(on_conflict="keep")
    assert worked.transcript == before + new
    assert [each.prompt for each in worked.session.checkpoints()] == ["one", "two", "three", "two again"]
    assert worked.files == worked.states[4] | {"other": ("file", b"x", 0o644)}
    worked.session.rewind(4)
    assert worked.files == worked.states[4]


def test_a_title_given_since_stays_behind_the_restored_lines(worked):
    before = worked.transcript
    worked.session.rewind(2)
    worked.session.set_title("Another")
    title = worked.transcript.splitlines(keepends=True)[-1]
    worked.session.undo_rewind()
    assert worked.transcript == before + title
    assert worked.session.title == "Another"
    assert worked.files == worked.states[4]


def test_a_notice_that_came_since_stays_behind_the_restored_lines(worked):
    before = worked.transcript
    worked.session.rewind(2)
    notice = {
        "type": "task_notification",
        "taskId": "t1",
        "taskType": "shell",
        "status": "completed",
        "summary": "</summary>",
    }
    worked.session.append({"role": "user", "blocks": [notice]})
    line = worked.transcript.splitlines(keepends=True)[-1]
    worked.session.undo_rewind()
    assert worked.transcript == before + line


HAND_EDITS = {
    "changed": lambda project: make(project / "f", "by hand"),
    "deleted": lambda project: make(project / "f", None),
    "mode": lambda project: (project / "f").chmod(0o600),
    "made where one comes back": lambda project: make(project / "new" / "deep" / "b", "by hand"),
}


@pytest.mark.parametrize("hand", HAND_EDITS.values(), ids=HAND_EDITS.keys())
def test_after_a_hand_edit_an_undo_is_refused_and_changes_nothing(worked, hand):
    worked.session.rewind(2)
    hand(worked.project)
    state = _state(worked)
    with pytest.raises(ConflictError) as refused:
        worked.session.undo_rewind()
    assert refused.value.exit_code == 5
    assert _state(worked) == state
    assert [record.state for record in worked.session.rewinds()] == ["done"]


@pytest.mark.parametrize("hand", HAND_EDITS.values(), ids=HAND_EDITS.keys())
def test_overwriting_a_hand_edit_saves_it_for_the_redo(worked, hand):
    before = _state(worked)
    worked.session.rewind(2)
    hand(worked.project)
    found = _state(worked)
    report = worked.session.undo_rewind(on_conflict="overwrite")
    assert len(report.conflicts) == 1
    assert _state(worked) == before
    worked.session.redo_rewind()
    assert _state(worked) == found


def test_keeping_a_hand_edit_restores_the_rest_and_is_partial(worked):
    before = _state(worked)
    worked.session.rewind(2)
    make(worked.project / "f", "by hand")
    report = worked.session.undo_rewind(on_conflict="keep")
    assert report.partial
    assert verdicts(report)["f"] == ("skip", "conflict")
    assert worked.transcript == before[1]
    expected = before[0] | {"f": ("file", b"by hand", worked.files["f"][2])}
    assert worked.files == expected


def test_a_hand_edit_of_a_file_the_rewind_did_not_touch_is_no_matter(worked):
    before = worked.transcript
    worked.session.rewind(3)
    make(worked.project / "run", "by hand")
    worked.session.undo_rewind()
    assert worked.transcript == before
    assert contents(worked.project)["run"] == b"by hand"


def test_single_files_are_undone_and_the_rest_stays_undoable(worked):
    before = _state(worked)
    worked.session.rewind(2)
    rewound, rewound_files = worked.transcript, worked.files
    report = worked.session.undo_rewind(paths=["new/deep/b"])
    assert verdicts(report) == {"new/deep/b": ("recreate", None)}
    assert worked.transcript == rewound
    assert contents(worked.project) == {
        "f": b"v1", "run": b"#!", "old/a": b"a", "gone": b"gone", "new/deep/b": b"\0b",
    }  # fmt: skip
    partly = worked.files
    worked.session.undo_rewind(paths=["f"])  # one file after the other
    assert verdicts(worked.session.plan_undo(paths=["f"])) == {"f": ("unchanged", None)}
    worked.reopen()
    worked.session.undo_rewind()
    assert _state(worked) == before
    worked.session.redo_rewind()
    worked.session.redo_rewind()
    assert (worked.files, worked.transcript) == (partly, rewound)
    worked.session.redo_rewind()
    assert (worked.files, worked.transcript) == (rewound_files, rewound)
    with pytest.raises(NothingToUndoError):
        worked.session.redo_rewind()
    for _ in range(3):
        worked.session.undo_rewind()
    assert _state(worked) == before


def test_a_path_the_rewind_did_not_touch_cannot_be_undone(worked):
    worked.session.rewind(3)
    with pytest.raises(NotFoundError, match="run"):
        worked.session.undo_rewind(paths=["run"])


def test_a_rewind_can_be_named(worked):
    first = worked.session.rewind(3)
    second = worked.session.rewind(2)
    with pytest.raises(ConflictError, match="newest"):
        worked.session.undo_rewind(first.rewind_id)
    with pytest.raises(NotFoundError):
        worked.session.undo_rewind("rw-000000000000")
    assert worked.session.undo_rewind(second.rewind_id).rewind_id == second.rewind_id
    with pytest.raises(RequestError, match="already"):
        worked.session.undo_rewind(second.rewind_id)
    assert worked.session.undo_rewind(first.rewind_id).rewind_id == first.rewind_id


def test_nothing_to_undo_is_an_error_of_its_own(agent):
    agent.turn("one")
    for work in (agent.session.undo_rewind, agent.session.redo_rewind):
        with pytest.raises(NothingToUndoError) as nothing:
            work()
        assert nothing.value.exit_code == 3


def test_a_plan_of_an_undo_changes_nothing_and_says_what_comes(worked):
    worked.session.rewind(2)
    state = _state(worked)
    plan = worked.session.plan_undo()
    assert _state(worked) == state
    report = worked.session.undo_rewind()
    assert verdicts(plan) == verdicts(report)
    assert verdicts(plan)["gone"] == ("delete", None)
    plan = worked.session.plan_undo(redo=True)
    assert (plan.prompt, plan.removed_messages) == ("two", 4)
    assert worked.session.redo_rewind().prompt == "two"


def test_a_damaged_record_is_an_error_and_changes_nothing(worked):
    from sessions import DataError

    report = worked.session.rewind(2)
    record = worked.sidecar / "undo" / report.rewind_id / "record.json"
    record.write_bytes(record.read_bytes()[:-5])
    state = _state(worked)
    with pytest.raises(DataError) as damaged:
        worked.session.undo_rewind()
    assert damaged.value.exit_code == 4
    assert _state(worked) == state


def test_a_transcript_rewritten_by_another_program_is_not_spliced(worked):
    worked.session.rewind(2)
    worked.session.path.write_bytes(worked.transcript.replace(b'"one"', b'"one more"'))
    state = _state(worked)
    with pytest.raises(ConflictError, match="another program"):
        worked.session.undo_rewind()
    assert _state(worked) == state


def test_an_untitled_transcript_rewritten_by_another_program_is_not_spliced_either(agent):
    agent.turn("one")
    agent.turn("two")
    agent.session.rewind(2)
    for damaged in (agent.transcript.replace(b'"one"', b'"one more"'), agent.transcript.replace(b'"one"', b'""')):
        agent.session.path.write_bytes(damaged)
        with pytest.raises(ConflictError, match="another program"):
            agent.session.undo_rewind()
        assert agent.transcript == damaged


def test_single_files_undone_redone_and_undone_again_leave_the_timeline_as_the_first_time(worked):
    worked.session.rewind(1, scope="code")
    worked.session.undo_rewind(paths=["f"])
    shown = [(file.path, file.text) for file in worked.session.diff().files]
    worked.session.redo_rewind()
    worked.reopen()
    worked.session.undo_rewind()
    assert [(file.path, file.text) for file in worked.session.diff().files] == shown
    assert worked.session.plan_rewind(1, on_conflict="refuse").refused is None


def test_single_files_are_found_behind_a_redo_of_others_and_nothing_to_do_is_no_step(worked):
    worked.session.rewind(1, scope="code")
    worked.session.undo_rewind(paths=["f"])
    worked.session.redo_rewind()
    worked.session.undo_rewind(paths=["run"])
    with pytest.raises(NothingToUndoError):
        worked.session.undo_rewind(paths=["run"])
    first, second, third = worked.session.rewinds()
    assert (first.of, second.of, third.of) == (None, first.id, first.id)
    assert [each.state for each in (first, second, third)] == ["done", "done", "undone"]


def test_an_undo_keeps_the_file_it_is_told_to_and_goes_on(worked):
    worked.session.rewind(1)
    make(worked.project / "f", "by hand")
    report = worked.session.undo_rewind(on_conflict={"f": "keep"})
    assert verdicts(report)["f"] == ("skip", "conflict")
    assert contents(worked.project)["f"] == b"by hand"


def test_a_redo_of_single_files_gives_no_prompt_back(worked):
    worked.session.rewind(1)
    worked.session.undo_rewind(paths=["f"])
    assert worked.session.redo_rewind().prompt == ""


@pytest.mark.parametrize("scope", ["both", "code"])
def test_after_the_undo_of_a_whole_rewind_the_undo_of_single_files_leaves_no_trace(agent, scope):
    make(agent.project / "a", "a0")
    agent.turn("one", {"a": "a1"})
    agent.turn("two", {"b": "b2"})
    agent.session.rewind(1, scope=scope)
    agent.session.undo_rewind(paths=["a"])
    agent.session.undo_rewind()
    assert contents(agent.project) == {"a": b"a1", "b": b"b2"}
    assert verdicts(agent.session.plan_rewind(2)) == {"b": ("delete", None)}
    agent.session.redo_rewind()
    assert contents(agent.project) == {"a": b"a1"}
    agent.session.redo_rewind()
    assert contents(agent.project) == {"a": b"a0"}
    for _ in range(2):
        agent.session.undo_rewind()
    agent.session.rewind(2)
    assert contents(agent.project) == {"a": b"a1"}
