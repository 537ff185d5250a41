"""Pruning on demand: of a whole store, of what crashes left, and at its own worst moments."""

import errno
import itertools
import os
import shutil

import pytest
from agent import Agent, contents, leftovers, make, tree
from limited import KIB, content, limit, names_in, records_kept, rewound, turns_kept
from scenario import Scenario
from worst_moments import CALLS, CHANGES, failing, killed_at

from sessions import SessionStore


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


def test_what_a_link_in_the_sidecar_leads_to_is_left_alone(limited, tmp_path):
    agent = limited(retain_turns=1)
    make(tmp_path / "elsewhere/7/photo", "mine")
    make(tmp_path / "elsewhere/stage.bin", "mine")
    agent.turn("one", {"f": "v1"})
    (agent.sidecar / "undo").mkdir()
    (agent.sidecar / "undo/rw-linked").symlink_to(tmp_path / "elsewhere")
    (agent.sidecar / "turns/7").symlink_to(tmp_path / "elsewhere/7")
    agent.session.prune()
    agent.turn("two", {"f": "v2"})
    shutil.rmtree(agent.sidecar / "turns")
    (agent.sidecar / "turns").symlink_to(tmp_path / "elsewhere")
    agent.session.prune(undo=True)
    assert contents(tmp_path / "elsewhere") == {"7/photo": b"mine", "stage.bin": b"mine"}


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
