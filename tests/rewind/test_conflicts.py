"""A file that somebody else changed since the agent's last edit of it: told before, treated as asked, never lost."""

import os
from pathlib import Path

import pytest
from agent import make, verdicts

from sessions import ConflictError


def _directory(path: Path) -> None:
    path.unlink()
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "note.txt").write_text("the user's")
    (path / "deep" / "note.txt").chmod(0o640)
    (path / "link").symlink_to("deep/note.txt")
    path.chmod(0o750)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("beside.txt")


V3 = {
    "content": b"v3\n",
    "mode only": lambda path: path.chmod(0o600),
    "deleted": None,
    "empty": b"",
    "a directory": _directory,
    "an empty directory": lambda path: (path.unlink(), path.mkdir()),
    "a link": _link,
}
CONFLICTS = pytest.mark.parametrize("v3", V3.values(), ids=V3.keys())


@pytest.fixture
def edited(agent):
    """The agent made v2 of v1, and changed another file in the same turn; the other one nobody else touched."""
    (agent.project / "f.sh").write_text("v1\n")
    (agent.project / "f.sh").chmod(0o755)
    (agent.project / "beside.txt").write_text("beside v1\n")
    agent.turn("look around", {})
    agent.before = agent.files
    agent.turn("change it", {"f.sh": "v2\n", "beside.txt": "beside v2\n"})
    return agent


def _user_makes(agent, v3) -> dict:
    make(agent.project / "f.sh", v3)
    return agent.files


@CONFLICTS
def test_a_plan_names_the_conflict_and_changes_nothing(edited, v3):
    found = _user_makes(edited, v3)
    plan = edited.session.plan_rewind(2)
    assert [conflict.path for conflict in plan.conflicts] == ["f.sh"]
    assert verdicts(plan)["f.sh"][1] == "conflict"
    assert verdicts(plan)["beside.txt"] == ("restore", None)
    assert edited.files == found


@CONFLICTS
def test_overwrite_restores_v1_and_undo_brings_v3_back(edited, v3):
    found, transcript = _user_makes(edited, v3), edited.transcript
    report = edited.session.rewind(2, on_conflict="overwrite")
    assert edited.files == edited.before
    assert not report.partial
    assert [conflict.path for conflict in report.conflicts] == ["f.sh"]
    edited.reopen()
    edited.session.undo_rewind()
    assert edited.files == found
    assert edited.transcript == transcript


@CONFLICTS
def test_keep_leaves_v3_rewinds_the_rest_and_is_partial(edited, v3):
    found, transcript = _user_makes(edited, v3), edited.transcript
    report = edited.session.rewind(2, on_conflict="keep")
    expected = {path: state for path, state in found.items() if path != "beside.txt"}
    assert edited.files == expected | {"beside.txt": edited.before["beside.txt"]}
    assert verdicts(report) == {"f.sh": ("skip", "conflict"), "beside.txt": ("restore", None)}
    assert report.partial
    edited.session.undo_rewind()
    assert edited.files == found
    assert edited.transcript == transcript


@CONFLICTS
def test_refuse_changes_nothing(edited, v3):
    found, transcript = _user_makes(edited, v3), edited.transcript
    with pytest.raises(ConflictError, match=r"f\.sh") as refused:
        edited.session.rewind(2, on_conflict="refuse")
    assert refused.value.exit_code == 5
    assert edited.files == found
    assert edited.transcript == transcript
    assert edited.session.rewinds() == []


@pytest.mark.parametrize("on_conflict", ["overwrite", "keep", "refuse"])
def test_a_file_changed_back_to_v1_is_no_conflict_and_is_not_written(edited, on_conflict):
    make(edited.project / "f.sh", "v1\n")
    status = os.stat(edited.project / "f.sh")
    report = edited.session.rewind(2, on_conflict=on_conflict)
    assert report.conflicts == ()
    assert verdicts(report)["f.sh"] == ("unchanged", None)
    assert edited.files == edited.before
    assert os.stat(edited.project / "f.sh").st_mtime_ns == status.st_mtime_ns
    assert os.stat(edited.project / "f.sh").st_ino == status.st_ino


def test_a_file_the_agent_deleted_and_the_user_made_again_is_a_conflict(agent):
    (agent.project / "f").write_text("v1")
    before = agent.files
    agent.turn("delete it", {"f": None})
    make(agent.project / "f", "the user's")
    found = agent.files
    assert verdicts(agent.session.plan_rewind(1)) == {"f": ("restore", "conflict")}
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == found


def test_a_file_the_agent_made_and_the_user_changed_comes_back_with_undo(agent):
    agent.turn("make it", {"new/f": "v1"})
    make(agent.project / "new" / "f", "the user's")
    found = agent.files
    assert verdicts(agent.session.plan_rewind(1))["new/f"] == ("delete", "conflict")
    agent.session.rewind(1)
    assert agent.files == {}
    agent.session.undo_rewind()
    assert agent.files == found


def test_a_file_the_agent_made_and_the_user_deleted_needs_nothing(agent):
    agent.turn("make it", {"f": "v1"})
    make(agent.project / "f", None)
    report = agent.session.rewind(1)
    assert verdicts(report) == {"f": ("unchanged", None)}
    assert report.conflicts == ()


def test_a_directory_with_something_that_cannot_be_kept_is_left_alone_and_said(edited):
    def with_a_pipe(path: Path) -> None:
        path.unlink()
        path.mkdir()
        os.mkfifo(path / "pipe")

    _user_makes(edited, with_a_pipe)
    report = edited.session.rewind(2)
    assert verdicts(report)["f.sh"] == ("skip", "conflict")
    assert report.partial
    assert os.listdir(edited.project / "f.sh") == ["pipe"]


def test_a_pipe_in_the_place_of_a_file_is_left_alone_and_never_waited_for(edited):
    os.unlink(edited.project / "f.sh")
    os.mkfifo(edited.project / "f.sh")
    report = edited.session.rewind(2)
    assert verdicts(report)["f.sh"] == ("skip", "unreadable")
    assert report.partial


def test_a_file_whose_directory_the_user_replaced_by_a_file_is_left_alone(agent):
    make(agent.project / "d" / "f", "v1")
    agent.turn("change it", {"d/f": "v2"})
    make(agent.project / "d", None)
    make(agent.project / "d", "a file now")
    found = agent.files
    report = agent.session.rewind(1)
    assert verdicts(report) == {"d/f": ("skip", "unreadable")}
    assert agent.files == found


def test_a_directory_the_agent_made_and_the_user_replaced_by_a_file_is_a_conflict(agent):
    agent.turn("make it", {"d/f": "v1"})
    make(agent.project / "d", None)
    make(agent.project / "d", "the user's")
    found = agent.files
    report = agent.session.rewind(1)
    assert agent.files == {}
    assert verdicts(report) == {"d": ("delete", "conflict"), "d/f": ("unchanged", None)}
    agent.session.undo_rewind()
    assert agent.files == found


def test_an_edit_that_never_ended_is_unverified_and_refuse_counts_it(agent):
    """A crash between an edit's begin and end: nobody recorded what the agent left."""
    (agent.project / "f").write_text("v1")
    turn = agent.session.begin_turn("crash")
    turn.edit("f")
    (agent.project / "f").write_text("v2")
    agent.session._turn = None  # what a killed process leaves
    agent.reopen()
    plan = agent.session.plan_rewind(1)
    assert verdicts(plan) == {"f": ("restore", "unverified")}
    with pytest.raises(ConflictError):
        agent.session.rewind(1, on_conflict="refuse")
    agent.session.rewind(plan)
    assert (agent.project / "f").read_text() == "v1"
    agent.session.undo_rewind()
    assert (agent.project / "f").read_text() == "v2"


def test_two_edits_at_once_of_one_path_are_a_conflict(agent):
    with agent.session.begin_turn("both") as turn, turn.edit("f"), turn.edit("f"):
        make(agent.project / "f", "v1")
    plan = agent.session.plan_rewind(1)
    assert verdicts(plan) == {"f": ("delete", "conflict")}
    assert "same time" in plan.conflicts[0].found


def test_an_edit_that_fails_is_recorded_like_any_other(agent):
    make(agent.project / "f", "v1")

    def half_done() -> None:
        with agent.session.begin_turn("fail") as turn, turn.edit("f"):
            make(agent.project / "f", "half")
            raise RuntimeError("the tool broke")

    with pytest.raises(RuntimeError, match="the tool broke"):
        half_done()
    report = agent.session.rewind(1)
    assert verdicts(report) == {"f": ("restore", None)}
    assert (agent.project / "f").read_text() == "v1"


def test_a_change_of_the_user_that_a_later_turn_only_looked_at_is_still_a_conflict(agent):
    make(agent.project / "f", "v1")
    agent.turn("change it", {"f": "v2"})
    make(agent.project / "f", "the user's")
    agent.turn("look at it", {"f": lambda _path: None})
    assert verdicts(agent.session.plan_rewind(1)) == {"f": ("restore", "conflict")}


def test_a_directory_named_by_an_edit_puts_only_what_changed_into_the_plan(agent):
    for name in ("a", "b", "deep/c"):
        make(agent.project / "src" / name, f"{name} v1")
    agent.turn("format all", {"src": lambda path: make(path / "deep" / "c", "c v2")})
    make(agent.project / "src" / "a", "the user's")
    report = agent.session.rewind(1, on_conflict="refuse")
    assert verdicts(report) == {"src/deep/c": ("restore", None)}
    assert (agent.project / "src" / "a").read_text() == "the user's"


def test_two_edits_at_once_of_two_files_in_one_new_directory_are_no_conflict(agent):
    with agent.session.begin_turn("both") as turn, turn.edit("new/a"), turn.edit("new/b"):
        make(agent.project / "new" / "a", "a")
        make(agent.project / "new" / "b", "b")
    plan = agent.session.plan_rewind(1, on_conflict="refuse")
    assert plan.conflicts == ()
    agent.session.rewind(plan)
    assert agent.files == {}


def test_edits_one_after_the_other_never_count_as_at_once(agent):
    """Also where the first one found a file only at its end."""
    with agent.session.begin_turn("work") as turn:
        with turn.edit("d"):
            make(agent.project / "d" / "f", "v1")
        for content in ("v2", "v3"):
            with turn.edit("d/f"):
                make(agent.project / "d" / "f", content)
    assert agent.session.plan_rewind(1).conflicts == ()
