"""Directories: their modes go back and forth, and one its owner may not write to is no obstacle."""

import errno
import itertools
import os
import shutil
from pathlib import Path

import pytest
from agent import Agent, make, verdicts
from scenario import Small, builder, steps
from worst_moments import CHANGES, failing, killed_at

from sessions import ConflictError, IncompleteError, SessionsError
from sessions.rewind.judge import Change
from sessions.rewind.midway import is_on_the_way, is_there
from sessions.rewind.states import Absent, Content, Directory, Image, Link

WORK = pytest.mark.parametrize(("work", "begins", "ends"), [("rewind", "new", "old"), ("undo", "old", "new")])


def _remove(path: Path) -> None:
    """Remove a file, or a tree in which nobody may write."""
    if path.is_file():
        path.unlink()
        return
    for directory in (path, *path.rglob("*")):
        if directory.is_dir():
            directory.chmod(0o700)
    shutil.rmtree(path)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture
def chmodded(agent):
    """The agent gave a directory another mode, and changed nothing in it."""
    make(agent.project / "d" / "f", "v1")
    (agent.project / "d").chmod(0o750)
    agent.before = agent.files
    agent.turn("close it", {"d": lambda path: path.chmod(0o711)})
    return agent


def test_the_mode_of_a_directory_goes_back_and_forth(chmodded):
    after = chmodded.files
    report = chmodded.session.rewind(1, on_conflict="refuse")
    assert verdicts(report) == {"d": ("restore", None)}
    assert chmodded.files == chmodded.before
    chmodded.reopen()
    chmodded.session.undo_rewind()
    assert chmodded.files == after
    chmodded.session.redo_rewind()
    assert chmodded.files == chmodded.before


def test_a_mode_the_user_gave_it_since_is_a_conflict(chmodded):
    (chmodded.project / "d").chmod(0o700)
    found = chmodded.files
    plan = chmodded.session.plan_rewind(1)
    assert [(conflict.path, conflict.found) for conflict in plan.conflicts] == [("d", "mode changed to 0700 since")]
    with pytest.raises(ConflictError, match="mode changed to 0700 since"):
        chmodded.session.rewind(1, on_conflict="refuse")
    assert chmodded.files == found
    report = chmodded.session.rewind(1, on_conflict="keep")
    assert report.partial
    assert chmodded.files == found
    chmodded.session.undo_rewind()
    chmodded.session.rewind(1, on_conflict="overwrite")
    assert chmodded.files == chmodded.before
    chmodded.session.undo_rewind()
    assert chmodded.files == found


def test_a_mode_the_user_changed_after_the_rewind_makes_the_undo_refuse(chmodded):
    chmodded.session.rewind(1)
    (chmodded.project / "d").chmod(0o700)
    with pytest.raises(ConflictError, match="mode changed to 0700 since"):
        chmodded.session.undo_rewind()
    chmodded.session.undo_rewind(on_conflict="overwrite")
    assert _mode(chmodded.project / "d") == 0o711


def test_a_directory_that_must_go_goes_in_any_mode_and_comes_back_in_that(agent):
    agent.turn("make", {"made/deep/f": "x"})
    (agent.project / "made").chmod(0o700)
    (agent.project / "made" / "deep").chmod(0o555)
    found = agent.files
    report = agent.session.rewind(1, on_conflict="refuse")
    assert report.conflicts == ()
    assert agent.files == {}
    agent.session.undo_rewind()
    assert agent.files == found


@pytest.mark.parametrize("mode", [0o755, 0o500, 0o700])
def test_a_directory_that_must_go_is_never_emptied_of_what_the_user_put_there(agent, mode):
    agent.turn("make", {"made/f": "x"})
    make(agent.project / "made" / "users.txt", "the user's")
    (agent.project / "made").chmod(mode)
    report = agent.session.rewind(1)
    assert set(agent.files) == {"made", "made/users.txt"}
    assert verdicts(report)["made"] == ("skip", None)
    assert next(file.note for file in report.files if file.path == "made") == "not empty: it stays"
    assert _mode(agent.project / "made") == mode


def test_a_directory_the_agent_replaced_by_a_file_comes_back_with_its_mode(agent):
    make(agent.project / "d" / "f", "v1")
    (agent.project / "d").chmod(0o500)
    before = agent.files

    def replace(path: Path) -> None:
        shutil.rmtree(path)
        path.write_text("a file now")

    agent.turn("replace", {"d": replace})
    after = agent.files
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


# -- the worst moment --------------------------------------------------------------------------------------------------


class Modes(Small):
    """The second turn changed modes, removed, made and replaced directories whose owner may not write to them."""

    def build(self) -> None:
        for name in ("closed/f", "opens/deep/f", "gone/deep/f", "replaced/f"):
            make(self.project / name, "old")
        make(self.project / "becomes", "a file")
        for name, mode in {
            "closed": 0o700,
            "opens/deep": 0o500,
            "gone/deep": 0o500,
            "gone": 0o555,
            "replaced": 0o510,
        }.items():
            (self.project / name).chmod(mode)

    def edit(self) -> None:
        def replace(path: Path) -> None:
            _remove(path)
            make(path, "a file now") if path.name == "replaced" else make(path / "f", "new")
            path.chmod(0o540)

        def make_closed(path: Path) -> None:
            make(path / "deep" / "f", "new")
            (path / "deep").chmod(0o500)
            path.chmod(0o550)

        self.agent.turn(
            "second",
            {"closed": lambda path: (make(path / "f", "new"), path.chmod(0o500))},
            {"opens": lambda path: ((path / "deep" / "f").write_text("new"), (path / "deep").chmod(0o755))},
            {"gone": _remove, "made": make_closed, "replaced": replace, "becomes": replace},
        )


@pytest.fixture
def modes(memory_path):
    return builder(Modes, memory_path)


@WORK
def test_sigkill_at_every_call_leaves_all_old_or_all_new(modes, work, begins, ends):
    seen = []
    for number in itertools.count(steps(modes, work)[0] - 1):
        there = modes(work)
        if not killed_at(number, getattr(there, work)):
            break
        there.recover()
        seen.append(there.side())
    assert there.side() == ends
    assert set(seen) == {"old", "new"}
    assert seen.count(ends) > 20


@WORK
def test_an_error_at_every_call_leaves_all_old_or_all_new(modes, work, begins, ends):
    raised = 0
    for number in itertools.count(steps(modes, work)[0] + 1):
        there = modes(work)
        failure = None
        with there.open() as session, failing(number, errno.EIO, names=CHANGES) as calls:
            try:
                session.rewind(2) if work == "rewind" else session.undo_rewind()
            except (OSError, SessionsError) as caught:
                failure = caught
        if len(calls) < number:
            break
        assert not isinstance(failure, IncompleteError)
        assert there.side() == (begins if failure else ends), (number, failure)
        raised += failure is not None
    assert raised > 20


@WORK
def test_sigkill_while_everything_is_put_back_is_recovered_from(modes, work, begins, ends):
    _commit, (_, failed_at) = steps(modes, work)
    for later in itertools.count(failed_at + 1):
        there = modes(work)
        if not killed_at(later, getattr(there, work), failed_at=failed_at):
            break
        marked = any(name.startswith("abort-") for name in os.listdir(there.agent.sidecar))
        there.recover()
        assert there.side() == begins or not marked
    assert later > failed_at + 10


def test_a_mode_given_since_a_crash_is_left_alone_and_said(modes):
    there = modes()
    assert killed_at(steps(modes, "rewind")[0], there.rewind)
    (there.project / "closed").chmod(0o711)
    (finding,) = there.recover()
    assert "closed" in finding.action
    assert there.state[0] == there.old[0] | {"closed": ("directory", None, 0o711)}


# -- without being root ------------------------------------------------------------------------------------------------


def test_modes_mean_nothing_to_the_rewind_of_somebody_who_is_not_root(modes, as_somebody):
    def work() -> None:
        there = modes()
        there.rewind()
        assert there.side() == "old"
        there.undo()
        assert there.side() == "new"
        with there.open() as session:
            session.redo_rewind()
        assert there.side() == "old"

    as_somebody(work)


def test_an_error_half_way_puts_closed_directories_back_for_somebody_who_is_not_root(modes, as_somebody):
    def work() -> None:
        for name in ("unlink", "rename", "rmdir", "mkdir", "fchmod"):
            there = modes()
            with (
                there.open() as session,
                failing(2, errno.EIO, names=[name]) as calls,
                pytest.raises(OSError, match="error"),
            ):
                session.rewind(2)
            assert len(calls) >= 2, name
            assert there.side() == "new", name

    as_somebody(work)


def test_a_file_in_a_closed_directory_the_agent_never_named_goes_back_and_forth(memory_path, as_somebody):
    def work() -> None:
        agent = Agent(memory_path / "root", memory_path / "project")
        make(agent.project / "d" / "f", "v1")
        (agent.project / "d").chmod(0o500)
        before = agent.files
        agent.turn("edit", {"d/f": lambda path: path.write_text("v2")})
        after = agent.files
        plan = agent.session.plan_rewind(1)
        assert verdicts(plan) == {"d/f": ("restore", None)}
        agent.session.rewind(plan)
        assert agent.files == before
        assert verdicts(agent.session.plan_undo()) == {"d/f": ("restore", None)}
        agent.session.undo_rewind()
        assert agent.files == after
        agent.close()

    as_somebody(work)


def test_a_directory_the_agent_closed_altogether_is_opened_again(memory_path, as_somebody):
    def work() -> None:
        agent = Agent(memory_path / "root", memory_path / "project")
        (agent.project / "d").mkdir(mode=0o755, parents=True)
        agent.turn("close", {"d": lambda path: path.chmod(0)})
        agent.session.rewind(1)
        assert _mode(agent.project / "d") == 0o755
        agent.session.undo_rewind()
        assert _mode(agent.project / "d") == 0
        agent.close()

    as_somebody(work)


# -- moves -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def moved(agent):
    """The agent moved a tree with modes, an empty directory and links."""
    make(agent.project / "lib" / "deep" / "f", "f")
    (agent.project / "lib" / "deep" / "f").chmod(0o751)
    (agent.project / "lib" / "empty").mkdir()
    (agent.project / "lib" / "empty").chmod(0o2770)
    (agent.project / "lib" / "link").symlink_to("deep/f")
    (agent.project / "lib" / "dangling").symlink_to("nowhere")
    (agent.project / "lib" / "deep").chmod(0o500)
    (agent.project / "lib").chmod(0o711)
    agent.before = agent.files
    with agent.session.begin_turn("move") as turn, turn.edit("lib", "src/lib"):
        (agent.project / "src").mkdir()
        os.rename(agent.project / "lib", agent.project / "src" / "lib")
    return agent


def test_a_moved_tree_goes_back_and_forth_with_modes_links_and_empty_directories(moved):
    after = moved.files
    report = moved.session.rewind(1, on_conflict="refuse")
    assert moved.files == moved.before
    assert not report.partial
    moved.reopen()
    moved.session.undo_rewind()
    assert moved.files == after
    moved.session.redo_rewind()
    assert moved.files == moved.before


def test_a_file_the_user_put_into_the_new_place_stays_with_its_directories_and_that_is_said(moved):
    make(moved.project / "src" / "lib" / "empty" / "users.txt", "the user's")
    found = moved.files
    report = moved.session.rewind(1)
    stays = ("src", "src/lib", "src/lib/empty", "src/lib/empty/users.txt")
    assert moved.files == moved.before | {path: found[path] for path in stays}
    notes = {file.path: file.note for file in report.files}
    assert {path for path, note in notes.items() if note == "not empty: it stays"} == set(stays[:3])
    moved.session.undo_rewind()
    assert moved.files == found


def test_a_copied_tree_goes_and_the_original_stays(agent):
    make(agent.project / "lib" / "deep" / "f", "f")
    (agent.project / "lib" / "deep").chmod(0o500)
    before = agent.files
    with agent.session.begin_turn("copy") as turn, turn.edit("copy"):
        shutil.copytree(agent.project / "lib", agent.project / "copy")
    after = agent.files
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


# -- as a table --------------------------------------------------------------------------------------------------------

CONTENT, LINK = Content("0" * 64, 1, 0o644), Link("elsewhere")


@pytest.mark.parametrize(
    ("before", "after", "current", "there", "on_the_way"),
    [
        (Absent(), Directory(0o755), Directory(0o700), True, False),
        (Absent(), Directory(0o755), Directory(0o755), True, False),
        (Absent(), Directory(0o755), Directory(0o711), False, False),
        (Absent(), Directory(0o500), Absent(), False, True),
        (Directory(0o500), Directory(0o755), Directory(0o700), True, False),
        (Directory(0o550), Directory(0o755), Directory(0o700), False, False),
        (Directory(0o500), Absent(), Directory(0o711), False, True),
        (Directory(0o500), Absent(), Absent(), True, True),
        (Directory(0o500), CONTENT, Absent(), False, True),
        (CONTENT, Directory(0o500), Absent(), False, True),
        (LINK, Directory(0o500), Absent(), False, True),
        (CONTENT, LINK, Absent(), False, False),
        (CONTENT, Absent(), LINK, False, False),
        (CONTENT, Absent(), Absent(), True, False),
    ],
)
def test_a_path_under_way_is_there_or_on_the_way_or_was_edited_meanwhile(before, after, current, there, on_the_way):
    change = Change("/p/d", Image(before), Image(after))
    assert is_there(current, change) is there
    assert there or is_on_the_way(current, change) is on_the_way
