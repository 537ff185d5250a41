"""Limits: what goes, what never goes, and what a session still does afterwards."""

import errno
import itertools
import os
import shutil

import pytest
from agent import Agent, contents, leftovers, make, tree, verdicts
from scenario import Scenario
from worst_moments import CALLS, CHANGES, failing, killed_at

from sessions import NothingToUndoError, SessionStore
from sessions.rewind.usage import Usage
from sessions.settings import UNLIMITED, Limits, Settings, load

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
    agent = limited(retain_turns=4)
    for number in range(8):
        agent.turn(f"turn {number}", {"f": content(number % 2)})
        if number == 5:
            agent.reopen()
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


def test_what_the_timeline_does_not_know_is_left_alone(limited):
    agent = limited(retain_turns=1)
    make(agent.sidecar / "turns/99/files/0001.before", "of a later version")
    make(agent.sidecar / "turn-99.json", "{}")
    make(agent.sidecar / "turns/notes/mine", "mine")
    make(agent.sidecar / "undo/rw-unknown/record.json", "unknown")
    for number in range(3):
        agent.turn(f"turn {number}", {"f": f"v{number}"})
    agent.session.prune(undo=True)
    assert names_in(agent.sidecar / "turns") == ["3", "99", "notes"]
    assert records_kept(agent) == ["rw-unknown"]


def test_a_turn_directory_without_its_marker_and_a_dead_stage_are_removed(limited):
    agent = limited()
    agent.turn("one", {"f": "v1"})
    make(agent.sidecar / "turns/7/files/0001.before", "dead")
    make(agent.sidecar / "undo/rw-dead/stage.bin", "dead")
    agent.close()
    (seen,) = SessionStore(agent.root).prune(dry_run=True)
    (done,) = SessionStore(agent.root).prune()
    assert seen == done
    assert (done.leftovers, done.turns, done.rewinds) == (2, (), ())
    assert (turns_kept(agent), records_kept(agent)) == ([1], [])


def test_snapshots_of_a_live_turn_stay_also_without_its_marker(limited):
    agent = limited(retain_turns=3)
    agent.turn("one", {"f": "v1"})
    agent.turn("two", {"f": "v2"})
    (agent.sidecar / "turn-1.json").unlink()
    agent.reopen()
    agent.session.prune()
    assert names_in(agent.sidecar / "turns") == ["1", "2"]


def test_nothing_is_pruned_where_records_of_the_timeline_are_missing(limited):
    agent = limited()
    for number in range(4):
        agent.turn(f"turn {number}", {"f": f"v{number}"})
    log = agent.sidecar / "timeline.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3] + lines[4:]))
    limit(agent.root, retain_turns=1)
    agent.reopen()
    assert agent.session.prune().is_empty
    agent.turn("another", {"f": "v"})
    assert turns_kept(agent) == [1, 2, 3, 4, 5]


def test_nothing_is_pruned_while_a_rewind_is_unfinished(memory_path):
    scenario = Scenario(memory_path, changed=3)
    limit(scenario.root, retain_turns=1)
    scenario.keep("before")
    scenario.crash_after_the_commit("rewind")
    before = tree(scenario.sidecar)
    assert SessionStore(scenario.root).prune() == []
    assert tree(scenario.sidecar) == before
    scenario.recover()
    assert scenario.side() == "new"
    scenario.undo()
    assert scenario.side() == "old"


# -- settings ----------------------------------------------------------------------------------------------------------


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


# -- the store ---------------------------------------------------------------------------------------------------------


def test_a_session_that_somebody_has_open_is_skipped_and_the_others_are_pruned(limited, project):
    agent = limited()
    rewound(agent, 3)
    other = Agent(agent.root, project)
    rewound(other, 3)
    other.close()
    pruned = {each.session: each for each in SessionStore(agent.root).prune(undo=True)}
    assert f"open in process {os.getpid()}" in pruned[agent.session.id].skipped
    assert len(records_kept(agent)) == 3
    assert pruned[other.session.id].skipped is None
    assert len(pruned[other.session.id].rewinds) == 2
    assert len(records_kept(other)) == 1


def test_a_store_prunes_the_sessions_it_has_open_itself(limited):
    agent = limited()
    rewound(agent, 3)
    with agent.session.begin_turn("open"):
        (pruned,) = agent.store.prune(undo=True)
    assert (pruned.skipped, len(pruned.rewinds), len(records_kept(agent))) == (None, 2, 1)
    agent.turn("goes on", {"f": "v"})


def test_pruning_touches_no_transcript_and_opens_nothing_it_takes_nothing_from(limited):
    agent = limited()
    rewound(agent, 1)
    agent.close()
    before = tree(agent.root), agent.session.path.stat(), agent.sidecar.stat()
    assert SessionStore(agent.root).prune(undo=True) == []
    after = tree(agent.root), agent.session.path.stat(), agent.sidecar.stat()
    assert [after[0], *after[1]] == [before[0], *before[1]]
    assert after[2].st_mtime_ns == before[2].st_mtime_ns


def test_what_another_session_links_to_is_not_counted_as_freed(limited, tmp_path):
    agent = limited()
    for number in range(3):
        agent.turn(f"turn {number}", {"f": content(number)})
    agent.close()
    limit(agent.root, retain_turns=1)
    (alone,) = SessionStore(agent.root).prune(dry_run=True)
    assert alone.freed_bytes > 64 * KIB
    for place, path in enumerate((agent.sidecar / "turns").glob("*/files/*")):
        os.link(path, tmp_path / str(place))
    (shared,) = SessionStore(agent.root).prune()
    assert shared.turns == alone.turns
    assert shared.freed_bytes < 64 * KIB


# -- the worst moments -------------------------------------------------------------------------------------------------


class Overfull:
    """A session beyond limits that were set only then."""

    def __init__(self, base):
        self._base = base
        (base / "now/project").mkdir(parents=True)
        agent = Agent(base / "now/root", base / "now/project")
        for number in range(4):
            agent.turn(f"turn {number}", {"f": f"v{number}", "g": f"w{number}"})
        for number in range(3):
            make(agent.project / "f", f"by hand {number}")
            agent.session.rewind(4, scope="code")
        agent.session.rewind(4)
        agent.close()
        limit(agent.root, retain_turns=1)
        self.agent, self.root = agent, agent.root
        shutil.copytree(base / "now", base / "kept")

    def reset(self):
        shutil.rmtree(self._base / "now")
        shutil.copytree(self._base / "kept", self._base / "now")

    def prune(self):
        return SessionStore(self.root).prune(undo=True)

    def assert_it_works(self):
        """Nothing is damaged, the newest rewind comes back, and of every other file it is said what is lost."""
        with SessionStore(self.root).open(self.agent.session.id) as session:
            assert session.check() == []
            for file in session.plan_rewind(1).files:
                assert file.reason in {None, "conflict"} or file.note == "its snapshot was removed by the limits"
            session.undo_rewind()
            assert len(session.checkpoints()) == 4
            assert contents(self.agent.project) == {"f": b"v2", "g": b"w2"}
            session.redo_rewind()

    def assert_pruned(self):
        assert self.prune() == []
        assert turns_kept(self.agent)[-2:] in ([3, 4], [4])  # 4 belongs to the newest rewind; it came back for a moment
        assert len(records_kept(self.agent)) == 1
        assert leftovers(self.root) == []


def test_sigkill_at_every_call_of_a_pruning_leaves_what_the_next_one_finishes(memory_path):
    overfull = Overfull(memory_path)
    for number in itertools.count(1):
        overfull.reset()
        if not killed_at(number, overfull.prune):
            break
        overfull.assert_it_works()
        overfull.prune()
        overfull.assert_pruned()
    overfull.assert_pruned()
    assert number > 20


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES])
def test_an_error_at_every_call_of_a_pruning_is_said_and_the_next_one_finishes(memory_path, error):
    overfull = Overfull(memory_path)
    skipped = 0
    for number in itertools.count(1):
        overfull.reset()
        with failing(number, error, names=CALLS) as calls:
            pruned = overfull.prune()
        if len(calls) < number:
            break
        skipped += any(each.skipped is not None for each in pruned)
        if number % 4 == 0:
            overfull.assert_it_works()
        overfull.prune()
        overfull.assert_pruned()
    assert skipped > 10


def test_a_turn_ends_whatever_happens_to_its_pruning(limited):
    agent = limited(retain_turns=1)
    agent.turn("one", {"f": "v1"})
    turn = agent.session.begin_turn("two")
    with turn.edit("f"):
        make(agent.project / "f", "v2")
    with failing(1, errno.EACCES, once=False, names=("unlink", "rmdir")):
        turn.end()
    assert names_in(agent.sidecar / "turns") == ["1", "2"]
    agent.session.rewind(2)
    assert contents(agent.project) == {"f": b"v1"}
    agent.turn("three", {"f": "v3"})
    assert turns_kept(agent) == [2, 3]  # 2 belongs to the rewind


def test_on_a_full_disk_nothing_is_pruned_and_nothing_is_lost(limited):
    agent = limited()
    make(agent.project / "f", "original")
    for number in range(3):
        agent.turn(f"turn {number}", {"f": f"v{number}"})
    limit(agent.root, retain_turns=1)
    agent.reopen()
    with failing(1, errno.ENOSPC, once=False, names=CHANGES), pytest.raises(OSError, match="No space"):
        agent.session.prune()
    assert turns_kept(agent) == [1, 2, 3]
    agent.session.prune()
    assert turns_kept(agent) == [3]


# -- scale -------------------------------------------------------------------------------------------------------------


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
    assert counts == [2] * 4  # the directory of the turn, and the one in it
