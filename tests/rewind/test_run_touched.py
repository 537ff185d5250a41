"""What a rewind of one run, or to a mark, concerns: what the agent touched, and nothing else."""

import os
import stat

import pytest
from agent import contents, make, tree, verdicts

from sessions import Mark, NotFoundError


def _turn(agent, run, *edits):
    """Take a turn of a run; an edit is ``(paths…, what happens)``."""
    with agent.session.begin_turn("go on", run_id=run) as turn:
        for *paths, happens in edits:
            with turn.edit(*paths):
                happens()


def _diff(agent, **selected):
    return {file.path: file.status for file in agent.session.diff(**selected).files}


@pytest.fixture
def writes(agent):
    """Return an edit: ``writes("a", "text")``."""

    def edit(path, content):
        return path, lambda: make(agent.project / path, content)

    return edit


def test_an_untouched_file_the_user_deleted_stays_deleted(agent, writes):
    make(agent.project / "user", "u")
    _turn(agent, "r", writes("a", "a1"))
    (agent.project / "user").unlink()
    agent.session.rewind(run="r")
    assert contents(agent.project) == {}


def test_what_the_user_wrote_before_the_first_touch_is_what_comes_back(agent, writes):
    make(agent.project / "a", "before the run")
    agent.turn("an earlier turn")
    make(agent.project / "a", "the user's, before the agent came to it")
    _turn(agent, "r", writes("b", "b1"), writes("a", "a1"), writes("a", "a2"))
    agent.session.rewind(run="r")
    assert contents(agent.project) == {"a": b"the user's, before the agent came to it"}


def test_what_was_created_goes_and_what_was_deleted_comes_back_with_its_mode(agent, writes):
    make(agent.project / "script", "#!/bin/sh\n")
    (agent.project / "script").chmod(0o751)
    before = tree(agent.project)
    _turn(agent, "r", writes("new/file", "x"), writes("script", None))
    agent.session.rewind(run="r")
    assert tree(agent.project) == before
    assert stat.S_IMODE((agent.project / "script").stat().st_mode) == 0o751


def test_of_a_move_both_sides_go_back_under_whatever_spelling_they_were_named(agent):
    make(agent.project / "dir/old", "content")
    (agent.project / "link").symlink_to("dir")
    before = tree(agent.project)
    move = lambda: os.rename(agent.project / "dir/old", agent.project / "dir/new")  # noqa: E731
    _turn(agent, "r", ("./dir/../dir/old", "link/new", move))
    assert verdicts(agent.session.plan_rewind(run="r")) == {
        "dir/new": ("delete", None),
        "dir/old": ("recreate", None),
    }
    assert _diff(agent, run="r") == {"dir/new": "moved"}
    agent.session.rewind(run="r")
    assert tree(agent.project) == before


def test_a_mark_undoes_what_came_after_it_and_puts_the_rest_to_what_it_was_there(agent, writes):
    make(agent.project / "a", "a0")
    make(agent.project / "b", "b0")
    with agent.session.begin_turn("go on", run_id="r") as turn:
        for path, content in (("a", "a1"), ("b", "b1")):
            with turn.edit(path):
                make(agent.project / path, content)
            turn.mark(f"wrote {path}")
        with turn.edit("a"):
            make(agent.project / "a", "a2")
    agent.session.rewind(Mark(turn.message_id, "wrote a"), scope="code")
    assert contents(agent.project) == {"a": b"a1", "b": b"b0"}


def test_the_undo_of_a_restore_changes_exactly_the_files_it_affected(agent, writes):
    for name in ("a", "b", "user"):
        make(agent.project / name, f"{name}0")
    _turn(agent, "r", writes("a", "a1"))
    _turn(agent, "s", writes("b", "b1"))
    agent.session.rewind(run="r")
    make(agent.project / "user", "changed in between")
    make(agent.project / "b", "changed in between")
    plan = agent.session.plan_undo()
    assert verdicts(plan) == {"a": ("restore", None)}
    agent.session.undo_rewind(plan)
    assert contents(agent.project) == {"a": b"a1", "b": b"changed in between", "user": b"changed in between"}


def test_a_diff_of_a_run_shows_what_it_touched_and_nothing_others_did(agent, writes):
    for name in ("a", "changed", "deleted"):
        make(agent.project / name, f"{name}\n")
    _turn(agent, "r", writes("a", "a1\n"), writes("own", "own\n"))
    make(agent.project / "changed", "by hand\n")
    make(agent.project / "created", "by hand\n")
    (agent.project / "deleted").unlink()
    make(agent.project / "a", "a1\nand by hand\n")
    _turn(agent, "s", writes("other", "other\n"))
    assert _diff(agent, run="r") == {"a": "modified", "own": "created"}
    [patch] = [file.text for file in agent.session.diff(run="r").files if file.path == "a"]
    assert "by hand" not in patch


def test_what_changed_and_changed_back_and_what_came_and_went_is_not_in_the_diff(agent, writes):
    make(agent.project / "a", "a0")
    _turn(agent, "r", writes("a", "a1"), writes("transient", "x"))
    _turn(agent, "r", writes("a", "a0"), writes("transient", None))
    assert _diff(agent, run="r") == {}
    assert _diff(agent, turn=1) == {"a": "modified", "transient": "created"}


def test_without_an_end_on_record_the_state_recorded_next_stands_in_and_says_so(agent, writes):
    make(agent.project / "a", "a0\n")
    turn = agent.session.begin_turn("crashes", run_id="r")
    turn.edit("a")  # never left: as after a crash
    make(agent.project / "a", "a1\n")
    agent.session._turn = None
    agent.reopen()
    _turn(agent, "s", writes("a", "a2\n"))
    [file] = agent.session.diff(run="r").files
    assert file.unverified
    assert "+a1" in file.text
    assert "a2" not in file.text


def test_a_missing_run_is_an_error_everywhere(agent, writes):
    _turn(agent, "r", writes("a", "a1"))
    for work in (agent.session.plan_rewind, agent.session.rewind, agent.session.diff):
        with pytest.raises(NotFoundError, match="no run matches 'gone'"):
            work(run="gone")
