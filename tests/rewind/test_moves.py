"""Moves, and the directories the agent made on the way."""

import os
import shutil

from agent import contents, make, verdicts


def _move(agent, old: str, new: str) -> None:
    with agent.session.begin_turn(f"move {old}") as turn, turn.edit(old, new):
        (agent.project / new).parent.mkdir(parents=True, exist_ok=True)
        os.rename(agent.project / old, agent.project / new)


def test_a_move_is_taken_back_on_both_sides_and_undone(agent):
    make(agent.project / "old.py", "code")
    (agent.project / "old.py").chmod(0o750)
    before = agent.files
    _move(agent, "old.py", "pkg/deep/new.py")
    after = agent.files
    report = agent.session.rewind(1)
    assert agent.files == before
    assert verdicts(report)["old.py"] == ("recreate", None)
    assert verdicts(report)["pkg/deep/new.py"] == ("delete", None)
    agent.reopen()
    agent.session.undo_rewind()
    assert agent.files == after
    agent.session.redo_rewind()
    assert agent.files == before


def test_a_moved_directory_comes_back_with_all_that_is_in_it(agent):
    make(agent.project / "lib" / "a", "a")
    make(agent.project / "lib" / "deep" / "b", "b")
    (agent.project / "lib" / "link").symlink_to("a")
    before = agent.files
    _move(agent, "lib", "src/lib")
    after = agent.files
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


def test_a_move_there_and_back_is_nothing(agent):
    make(agent.project / "a", "a")
    _move(agent, "a", "b")
    _move(agent, "b", "a")
    report = agent.session.rewind(1)
    assert contents(agent.project) == {"a": b"a"}
    assert set(verdicts(report).values()) == {("unchanged", None)}


def test_two_files_that_changed_places_change_back(agent):
    make(agent.project / "a", "a")
    make(agent.project / "b", "b")
    with agent.session.begin_turn("swap") as turn, turn.edit("a", "b"):
        os.rename(agent.project / "a", agent.project / "c")
        os.rename(agent.project / "b", agent.project / "a")
        os.rename(agent.project / "c", agent.project / "b")
    agent.session.rewind(1)
    assert contents(agent.project) == {"a": b"a", "b": b"b"}


def test_a_file_moved_over_another_brings_both_back(agent):
    make(agent.project / "a", "a")
    make(agent.project / "b", "b")
    _move(agent, "a", "b")
    agent.session.rewind(1)
    assert contents(agent.project) == {"a": b"a", "b": b"b"}


def test_directories_the_agent_made_go_with_their_last_file(agent):
    make(agent.project / "users", "u")
    agent.turn("make", {"a/b/c/f": "x"}, {"a/g": "y"})
    agent.session.rewind(1)
    assert set(agent.files) == {"users"}


def test_a_file_of_the_user_in_a_directory_the_agent_made_stays_and_so_does_the_directory(agent):
    agent.turn("make", {"made/deep/f": "x"})
    make(agent.project / "made" / "users.txt", "the user's")
    report = agent.session.rewind(1)
    assert set(agent.files) == {"made", "made/users.txt"}
    assert verdicts(report)["made/deep"] == ("delete", None)
    assert verdicts(report)["made"] == ("skip", None)
    assert not report.partial
    after = agent.files
    agent.session.undo_rewind()
    assert set(agent.files) == {"made", "made/users.txt", "made/deep", "made/deep/f"}
    agent.session.redo_rewind()
    assert agent.files == after


def test_a_directory_that_was_there_stays_when_it_empties(agent):
    make(agent.project / "was" / "there", "x")
    (agent.project / "was" / "there").unlink()
    agent.turn("make", {"was/f": "x"})
    agent.session.rewind(1)
    assert set(agent.files) == {"was"}


def test_a_directory_the_agent_removed_comes_back_with_its_mode(agent):
    make(agent.project / "d" / "f", "x")
    (agent.project / "d").chmod(0o750)
    (agent.project / "empty").mkdir(mode=0o700)
    before = agent.files
    agent.turn("remove", {"d": shutil.rmtree, "empty": lambda path: path.rmdir()})
    after = agent.files
    assert after == {}
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


def test_the_parent_of_a_restored_file_is_made_again_where_the_user_removed_it(agent):
    make(agent.project / "d" / "deep" / "f", "v1")
    agent.turn("change", {"d/deep/f": "v2"})
    shutil.rmtree(agent.project / "d")
    report = agent.session.rewind(1)
    assert contents(agent.project) == {"d/deep/f": b"v1"}
    assert verdicts(report) == {"d/deep/f": ("recreate", "conflict")}
    agent.session.undo_rewind()
    assert agent.files == {}


def test_a_name_that_differs_in_case_alone_is_another_file(agent):
    make(agent.project / "readme", "a")
    _move(agent, "readme", "README")
    agent.session.rewind(1)
    assert contents(agent.project) == {"readme": b"a"}
