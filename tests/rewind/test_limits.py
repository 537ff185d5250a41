"""Limits: what goes, what never goes, and what a session still does afterwards."""

import errno
import os
import shutil

import pytest
from agent import contents, leftovers, make, tree, verdicts
from limited import KIB, content, kept_bytes, limit, on_disk, records_kept, rewound, turns_kept
from worst_moments import failing

from sessions import NothingToUndoError
from sessions.rewind.payloads import Payloads
from sessions.rewind.usage import Usage
from sessions.settings import UNLIMITED, Limits, Settings, load


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


def test_however_many_files_lost_the_same_content_each_place_is_asked_for_it_a_few_times(limited, monkeypatch):
    agent = limited(retain_turns=1)
    names = [f"f{number}" for number in range(40)]
    for name in names:
        make(agent.project / name, "the same")
    agent.turn("one", {name: f"{name} v1" for name in names})
    agent.turn("two", {"other": "v1"})
    asked, intact = [], Payloads.intact
    monkeypatch.setattr(Payloads, "intact", lambda self, image: asked.append(image) or intact(self, image))
    plan = agent.session.plan_rewind(1)
    assert {verdict for path, verdict in verdicts(plan).items() if path in names} == {("skip", "lost")}
    assert 0 < len(asked) <= 3 * len(names)


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
    agent = limited(retain_turns=4)
    for number in range(8):
        agent.turn(f"turn {number}", {"f": content(number % 2)})
        if number == 5:
            agent.reopen()
    inodes = {path.stat().st_ino for path in (agent.sidecar / "turns").glob("*/files/*")}
    assert len(inodes) == 2


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


def test_for_the_quota_the_turns_that_the_newest_rewind_removed_are_turns_like_others(limited):
    agent = limited(quota_bytes=500 * KIB)
    for number in range(5):
        agent.turn(f"turn {number}", {"f": content(number)})
    agent.session.rewind(1)
    removed = turns_kept(agent)
    assert removed == [1, 2, 3, 4, 5]
    for number in range(5):
        agent.turn(f"again {number}", {"f": content(10 + number)})
    assert [number for number in turns_kept(agent) if number > 5] == [6, 7, 8, 9, 10]
    assert kept_bytes(agent) <= 500 * KIB
    agent.session.undo_rewind(on_conflict="overwrite")
    assert contents(agent.project) == {"f": content(4)}


def test_no_limit_means_that_nothing_goes(limited):
    agent = limited(retain_turns=0, retain_rewinds=0, quota_bytes=0)
    for number in range(3):
        agent.turn(f"turn {number}", {"f": content(number)})
    make(agent.project / "f", "by hand")
    agent.session.rewind(2, scope="code")
    before = tree(agent.sidecar)
    assert agent.session.prune().is_empty
    assert tree(agent.sidecar) == before


def test_the_numbers_of_the_settings_are_the_limits(tmp_path):
    assert load(tmp_path) == Settings(32 * 1024 * KIB, Limits(100, 20, 1024 * 1024 * KIB))
    limit(tmp_path, retain_turns=1, retain_rewinds=2, quota_bytes=3, max_file_bytes=4)
    assert load(tmp_path) == Settings(4, Limits(1, 2, 3))


@pytest.mark.parametrize("name", ["retain_turns", "retain_rewinds", "quota_bytes", "max_file_bytes"])
@pytest.mark.parametrize("value", ["-1", "1.5", "true", "'1'", "[1]", ""])
def test_one_damaged_number_lifts_every_limit(tmp_path, name, value):
    others = {"retain_turns": 1, "retain_rewinds": 1, "quota_bytes": 1} | {name: value}
    limit(tmp_path, **others)
    read = load(tmp_path)
    assert read.limits == UNLIMITED
    assert read.max_file_bytes == Settings().max_file_bytes
    assert value == "" or name in read.damage


def test_damaged_settings_prune_nothing_and_are_said(limited):
    agent = limited(retain_turns="'one'", quota_bytes=1)
    for number in range(3):
        agent.turn(f"turn {number}", {"f": f"v{number}"})
    assert turns_kept(agent) == [1, 2, 3]
    assert [finding.kind for finding in agent.session.findings] == ["settings"]
    assert agent.session.prune().is_empty


def test_a_hundred_edits_of_one_file_and_twenty_compactions_take_little_more_than_their_contents(limited):
    agent = limited()
    size = 128 * KIB
    for number in range(100):
        agent.turn(f"turn {number}", {"f": content(number, size)})
        if number % 5 == 4:
            agent.session.compact(f"summary {number}")
    distinct = 100 * size
    assert distinct <= on_disk(agent.root) < 1.15 * distinct
    agent.session.rewind(50)
    assert contents(agent.project) == {"f": content(48, size)}
    agent.session.undo_rewind()
    assert on_disk(agent.root) < 1.25 * distinct
    agent.close()
    agent.store.delete(agent.session.id)
    assert on_disk(agent.root / "projects") == 0


@pytest.mark.parametrize("error", [errno.EMLINK, errno.EXDEV, errno.EPERM])
def test_equal_content_that_cannot_be_linked_is_copied(limited, error):
    agent = limited()
    agent.turn("one", {"f": "the same"})
    with failing(1, error, once=False, names=("link",)) as calls:
        agent.turn("two", {"f": "other"})
        agent.turn("three", {"f": "the same"})
    assert len(calls) > 1
    assert leftovers(agent.sidecar) == []
    agent.reopen()
    agent.session.rewind(2)
    assert contents(agent.project) == {"f": b"the same"}
    agent.session.undo_rewind()
    agent.session.rewind(3)
    assert contents(agent.project) == {"f": b"other"}


def test_a_turn_that_grew_is_measured_anew(limited):
    agent = limited()
    usage = Usage(agent.sidecar)
    with agent.session.begin_turn("work") as turn:
        for number in range(3):
            with turn.edit(f"f{number}"):
                make(agent.project / f"f{number}", content(number))
            usage.update()
            assert usage.total_bytes == kept_bytes(agent)


def test_the_end_of_a_turn_looks_only_at_what_came(limited, monkeypatch):
    agent = limited(quota_bytes=1024 * KIB)
    looked = []

    def scandir(path):
        looked.append(path)
        return real(path)

    real = os.scandir
    for number in range(12):
        agent.turn(f"turn {number}", {f"f{place}": f"v{number} {place}" for place in range(5)})
    counts = []
    for number in range(4):
        agent.turn(f"turn {number}", {"f": f"v{number}"})
        with agent.session.begin_turn(f"more {number}") as turn:
            with turn.edit("f"):
                make(agent.project / "f", f"w{number}")
            monkeypatch.setattr(os, "scandir", scandir)
        monkeypatch.setattr(os, "scandir", real)
        counts.append(len([path for path in looked if str(path).startswith(str(agent.sidecar))]))
        looked.clear()
    assert counts == [4] * 4  # turns, undo, the directory of the turn, and the one in it


def test_a_fork_knows_which_snapshots_the_limits_removed_before_it_began(limited):
    agent = limited(retain_turns=2)
    for number in range(4):
        make(agent.project / f"f{number}", f"original {number}")
        agent.turn(f"turn {number}", {f"f{number}": f"content {number}"})
    fork = agent.session.fork()
    try:
        assert fork.check() == []
        lost = {file.path: file.note for file in fork.plan_rewind(1).files if file.reason == "lost"}
        assert lost == dict.fromkeys(["f0", "f1"], "its snapshot was removed by the limits")
    finally:
        fork.close()
