"""Limits: what goes, what never goes, and what a session still does afterwards."""

import contextlib
import errno
import itertools
import os
import shutil

import pytest
from agent import Agent, contents, make, tree, verdicts
from worst_moments import failing, killed_at

from sessions import NothingToUndoError, SessionStore
from sessions.settings import load

KIB = 1024


def limit(root, **numbers):
    root.mkdir(exist_ok=True)
    lines = [f"{name} = {number}" for name, number in numbers.items()]
    (root / "settings.toml").write_text("\n".join(["[checkpoints]", *lines]))


@pytest.fixture
def limited(root, project):
    """An agent whose session has limits from its first turn on: ``limited(retain_turns=2)``."""
    working = []

    def begin(**numbers):
        limit(root, **numbers)
        working.append(Agent(root, project))
        return working[-1]

    yield begin
    for each in working:
        each.close()


def turns_kept(agent):
    """The numbers of the turns whose snapshots are there; directories and markers agree."""
    numbers = sorted(int(name) for name in names_in(agent.sidecar / "turns"))
    assert sorted(agent.sidecar.glob("turn-*.json")) == sorted(agent.sidecar / f"turn-{n}.json" for n in numbers)
    return numbers


def records_kept(agent):
    return names_in(agent.sidecar / "undo")


def names_in(directory):
    return sorted(os.listdir(directory)) if directory.exists() else []


def on_disk(directory):
    """What the files below a directory take, those of one inode counted once."""
    found = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            status = os.lstat(os.path.join(parent, name))
            found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def kept_bytes(agent):
    return on_disk(agent.sidecar / "turns") + on_disk(agent.sidecar / "undo")


def content(number, size=64 * KIB):
    return (f"content {number}\n".encode() * size)[:size]


# -- turns -------------------------------------------------------------------------------------------------------------


def test_snapshots_of_the_last_turns_are_kept(limited):
    agent = limited(retain_turns=3)
    for number in range(6):
        agent.turn(f"turn {number}", {"f": f"v{number}"})
    assert turns_kept(agent) == [4, 5, 6]
    assert len(agent.session.checkpoints()) == 6


def test_a_turn_without_edits_counts_too(limited):
    agent = limited(retain_turns=3)
    agent.turn("edits", {"f": "v1"})
    agent.turn("edits again", {"f": "v2"})
    agent.turn("talks")
    agent.turn("talks on")
    assert turns_kept(agent) == [2]


def test_a_file_whose_snapshot_was_removed_is_lost_and_left_alone(limited):
    agent = limited(retain_turns=2)
    make(agent.project / "lost", "original")
    make(agent.project / "back", "original too")
    agent.turn("one", {"lost": "v1", "made": "v1"})
    agent.turn("two", {"lost": "v2"})
    agent.turn("three", {"back": "v1", "lost": "v3"})
    plan = agent.session.plan_rewind(1)
    assert verdicts(plan) == {"lost": ("skip", "lost"), "made": ("delete", None), "back": ("restore", None)}
    assert [file.note for file in plan.files if file.path == "lost"] == ["its snapshot was removed by the limits"]
    assert plan.partial
    report = agent.session.rewind(plan)
    assert report.partial
    assert contents(agent.project) == {"lost": b"v3", "back": b"original too"}
    assert agent.session.checkpoints() == []
    agent.session.undo_rewind()
    assert contents(agent.project) == {"lost": b"v3", "back": b"v1", "made": b"v1"}


def test_a_snapshot_that_was_removed_is_no_damage_and_one_that_is_gone_is_named(limited):
    agent = limited(retain_turns=2)
    make(agent.project / "f", "original")
    for number in range(3):
        agent.turn(f"turn {number}", {"f": f"v{number}"})
    assert agent.session.check() == []
    make(agent.project / "g", "original")
    agent.turn("last", {"g": "v"})
    shutil.rmtree(agent.sidecar / "turns/4/files")
    (finding,) = agent.session.check()
    assert (finding.kind, "/g " in finding.where) == ("lost_snapshot", True)
    (file,) = agent.session.plan_rewind(4).files
    assert (file.path, file.action, file.note) == ("g", "skip", "its snapshot is gone")


def test_a_snapshot_that_was_removed_comes_back_from_equal_content_kept_elsewhere(limited):
    agent = limited(retain_turns=2)
    make(agent.project / "f", "the same")
    make(agent.project / "copy", "the same")
    agent.turn("one", {"f": "v1"})
    agent.turn("two", {"f": "v2"})
    agent.turn("three", {"copy": "v3"})
    assert turns_kept(agent) == [2, 3]
    assert verdicts(agent.session.plan_rewind(1)) == {"f": ("restore", None), "copy": ("restore", None)}
    agent.session.rewind(1)
    assert contents(agent.project) == {"f": b"the same", "copy": b"the same"}


def test_the_current_turn_is_never_pruned_however_big(limited):
    agent = limited(quota_bytes=1)
    make(agent.project / "f", content(0))
    agent.turn("one", {"f": content(1)})
    assert turns_kept(agent) == [1]
    with agent.session.begin_turn("two") as turn:
        with turn.edit("f"):
            make(agent.project / "f", content(2))
        agent.session.prune()
        assert turns_kept(agent) == [2]
        with turn.edit("f"):
            make(agent.project / "f", content(3))
    agent.session.rewind(2)
    assert contents(agent.project) == {"f": content(1)}


# -- the quota ---------------------------------------------------------------------------------------------------------


def test_the_quota_removes_the_oldest_until_the_rest_fits(limited):
    quota = 400 * KIB
    agent = limited(quota_bytes=quota)
    for number in range(12):
        agent.turn(f"turn {number}", {"f": content(number)})
        assert kept_bytes(agent) <= quota
    kept = turns_kept(agent)
    assert kept == list(range(kept[0], 13))
    assert kept_bytes(agent) > quota // 2
    agent.session.rewind(kept[0])
    assert contents(agent.project) == {"f": content(kept[0] - 2)}


def test_the_quota_counts_undo_records_and_they_go_first(limited):
    agent = limited(quota_bytes=500 * KIB)
    agent.turn("one", {"f": content(1)})
    agent.turn("two", {"f": content(2)})
    for number in range(6):
        make(agent.project / "f", content(10 + number))
        agent.session.rewind(2, scope="code")
        make(agent.project / "f", content(100 + number))
        assert kept_bytes(agent) <= 500 * KIB
    assert turns_kept(agent) == [1, 2]
    assert 1 < len(records_kept(agent)) < 6


def test_equal_content_is_counted_once_and_kept_once(limited):
    agent = limited(quota_bytes=300 * KIB)
    for number in range(30):
        agent.turn(f"turn {number}", {"f": content(number % 2)})
    assert len(turns_kept(agent)) == 30
    assert agent.session.prune().is_empty


def test_content_stays_kept_once_when_the_turn_that_first_had_it_is_pruned(limited):
    agent = limited(retain_turns=2)
    for number in range(8):
        agent.turn(f"turn {number}", {"f": content(number % 2)})
    inodes = {path.stat().st_ino for path in (agent.sidecar / "turns").glob("*/files/*")}
    assert len(inodes) == 2


# -- undo records ------------------------------------------------------------------------------------------------------


def rewound(agent, times):
    """Rewind the code that often, each time past a different content."""
    agent.turn("start", {"f": "start"})
    agent.turn("work", {"f": "work"})
    for number in range(times):
        make(agent.project / "f", f"by hand {number}")
        agent.session.rewind(2, scope="code")


def test_as_many_rewinds_as_are_retained_can_be_taken_back(limited):
    agent = limited(retain_rewinds=2)
    rewound(agent, 3)
    assert [each.state for each in agent.session.rewinds()] == ["pruned", "done", "done"]
    agent.session.undo_rewind()
    assert contents(agent.project) == {"f": b"by hand 2"}
    agent.session.undo_rewind(on_conflict="overwrite")
    assert contents(agent.project) == {"f": b"by hand 1"}
    with pytest.raises(NothingToUndoError, match="nothing to undo: the undo data of earlier rewinds was removed"):
        agent.session.undo_rewind(on_conflict="overwrite")
    with pytest.raises(NothingToUndoError, match="removed by the limits"):
        agent.session.plan_undo(agent.session.rewinds()[0].id)
    agent.reopen()
    assert [each.state for each in agent.session.rewinds()] == ["pruned", "undone", "undone"]
    assert agent.session.check() == []
    agent.session.redo_rewind()
    assert contents(agent.project) == {"f": b"by hand 2"}
    agent.session.redo_rewind()
    assert contents(agent.project) == {"f": b"start"}


def test_undo_and_redo_again_and_again_do_not_grow_without_end(limited):
    agent = limited(retain_rewinds=4)
    rewound(agent, 2)
    for _ in range(10):
        agent.session.undo_rewind()
        agent.session.redo_rewind()
    assert len(records_kept(agent)) == 4
    assert [each.state for each in agent.session.rewinds()] == ["done", "done"]
    agent.session.undo_rewind()
    agent.session.undo_rewind(on_conflict="overwrite")
    assert contents(agent.project) == {"f": b"by hand 0"}


def test_the_snapshots_of_removed_turns_go_with_the_undo_record(limited):
    agent = limited(retain_rewinds=1)
    for number in range(1, 5):
        agent.turn(f"turn {number}", {"f": f"v{number}"})
    agent.session.rewind(3)
    assert turns_kept(agent) == [1, 2, 3, 4]
    agent.turn("another", {"f": "other"})
    agent.session.rewind(3)
    assert turns_kept(agent) == [1, 2, 5]
    agent.session.undo_rewind()
    assert contents(agent.project) == {"f": b"other"}
    assert [each.state for each in agent.session.rewinds()] == ["pruned", "undone"]


def test_no_limit_means_that_nothing_goes(limited):
    agent = limited(retain_turns=0, retain_rewinds=0, quota_bytes=0)
    for number in range(3):
        agent.turn(f"turn {number}", {"f": content(number)})
    make(agent.project / "f", "by hand")
    agent.session.rewind(2, scope="code")
    before = tree(agent.sidecar)
    assert agent.session.prune().is_empty
    assert tree(agent.sidecar) == before
