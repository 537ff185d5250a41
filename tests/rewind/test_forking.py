"""A fork's checkpoints and snapshots: they are the parent's, they need it no more, and no crash leaves half a fork."""

import errno
import itertools
import os
import shutil

import pytest
from agent import contents, leftovers, make, verdicts
from worst_moments import CHANGES, at_calls, counting, failing, killed_at

from sessions import NotFoundError, SessionsError, SessionStore
from sessions.rewind.carried import rebase
from sessions.rewind.log import CaptureLog


@pytest.fixture
def worked(agent):
    """Three turns on three files; ``before`` holds the files in front of each turn, from 1."""
    agent.before = {}
    for number, edits in enumerate(({"f": "f1", "g": "g1"}, {"f": "f2"}, {"f": "f3", "d/new": "n"}), 1):
        agent.before[number] = contents(agent.project)
        agent.turn(f"turn {number}", edits)
    return agent


def sidecar(session):
    return session.path.with_suffix(".ckpt")


def inodes(directory):
    return {
        str(path.relative_to(directory)): path.stat().st_ino
        for path in directory.rglob("*")
        if path.name.endswith((".before", ".after"))
    }


def size_of(*directories) -> int:
    """Bytes on disk, each inode once."""
    found = [path.stat() for each in directories for path in each.rglob("*") if path.is_file()]
    return sum({status.st_ino: status.st_size for status in found}.values())


# -- rewinding a fork --------------------------------------------------------------------------------------------------


def test_a_fork_goes_back_before_and_after_its_parent_is_deleted(worked):
    with worked.session.fork() as fork:
        with fork.begin_turn("turn 4") as turn, turn.edit("f"):
            make(worked.project / "f", "f4")
        assert not fork.rewind(2).partial
        assert contents(worked.project) == worked.before[2]
        worked.close()
        worked.store.delete(worked.session.id)
        fork.rewind(1)
        assert contents(worked.project) == {}
        fork.undo_rewind()
        fork.undo_rewind()
        assert contents(worked.project) == {"f": b"f4", "g": b"g1", "d/new": b"n"}
        assert fork.check() == []


@pytest.mark.parametrize("to", [1, 2, 3])
def test_a_fork_plans_what_its_parent_plans(worked, to):
    with worked.session.fork() as fork:
        assert fork.plan_rewind(to).files == worked.session.plan_rewind(to).files
        assert fork.checkpoints() == worked.session.checkpoints()
        assert fork.rewinds() == []


def test_a_fork_of_a_fork_goes_back_when_both_are_gone(worked):
    child = worked.session.fork()
    grandchild = child.fork()
    for session in (worked.session, child):
        session.close()
        worked.store.delete(session.id)
    with grandchild:
        grandchild.rewind(2)
    assert contents(worked.project) == worked.before[2]


def test_what_came_behind_the_end_of_a_fork_is_none_of_its_business(worked):
    with worked.session.fork(1) as fork:
        assert len(fork.checkpoints()) == 1
        assert verdicts(fork.plan_rewind(1)) == {"f": ("delete", "conflict"), "g": ("delete", None)}


def test_the_first_turn_of_a_fork_has_a_number_and_names_nobody_has(worked):
    with worked.session.fork(2) as fork:
        before = inodes(sidecar(fork))
        with fork.begin_turn("turn 3, otherwise") as turn, turn.edit("f"):
            make(worked.project / "f", "otherwise")
        assert before.items() <= inodes(sidecar(fork)).items()
        fork.rewind(3)
        assert (worked.project / "f").read_bytes() == b"f3"
    worked.session.rewind(3)
    assert contents(worked.project) == worked.before[3]


def test_a_fork_touches_no_file_of_the_project_and_none_of_the_parent(worked):
    def state(directory):
        return {
            str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns, path.read_bytes())
            for path in directory.rglob("*")
            if path.is_file()
        }

    parent, project = state(worked.root), state(worked.project)
    worked.session.fork().close()
    assert state(worked.project) == project
    assert parent.items() <= state(worked.root).items()


def test_a_rewind_of_one_leaves_the_snapshots_of_the_other_alone(worked):
    with worked.session.fork() as fork:
        fork.rewind(1)
        fork.undo_rewind()
        worked.session.rewind(1)
        assert contents(worked.project) == {}
        worked.session.undo_rewind()
        assert (fork.check(), worked.session.check()) == ([], [])


def test_gaps_and_runs_come_along(agent):
    with agent.session.begin_turn("work", run_id="r7") as turn:
        turn.gap("shell", ["build"])
    agent.turn("next", {"f": "1"})
    with agent.session.fork() as fork:
        assert fork.checkpoints() == agent.session.checkpoints()
        assert [gap.kind for gap in fork.plan_rewind(1).gaps] == ["shell"]
        assert [turn.run_id for turn in CaptureLog(sidecar(fork)).read().turns.values()] == ["r7", None]


# -- rewinds of the parent ---------------------------------------------------------------------------------------------


def test_what_a_rewind_of_the_code_alone_wrote_comes_along_without_the_rewind(worked):
    """It overwrote a file somebody had changed: in front of turn 2 the file was that, as far as anybody recorded."""
    make(worked.project / "g", "by hand")
    worked.session.rewind(1, scope="code")
    assert contents(worked.project) == {}
    planned = worked.session.plan_rewind(2).files
    with worked.session.fork() as fork:
        worked.close()
        worked.store.delete(worked.session.id)
        assert fork.rewinds() == []
        assert fork.rewind(2).files == planned
        assert fork.check() == []
    assert contents(worked.project) == {"f": b"f1", "g": b"by hand"}


def test_what_a_rewind_overwrote_is_linked_where_that_is_most_of_what_it_guarded(worked):
    make(worked.project / "f", "by hand")
    make(worked.project / "g", "by hand, too")
    worked.session.rewind(1, scope="code")
    with worked.session.fork() as fork, fork.fork() as grandchild:
        (guarded,) = inodes(sidecar(fork) / "turns" / "0").values()
        assert guarded == next(worked.sidecar.glob("undo/*/stage.bin")).stat().st_ino
        assert {*inodes(sidecar(grandchild) / "turns" / "0").values()} == {guarded}
        plans = [session.plan_rewind(2).files for session in (worked.session, fork, grandchild)]
        assert plans == plans[:1] * 3
        assert (fork.check(), grandchild.check()) == ([], [])
        grandchild.rewind(2)
        assert contents(worked.project) == {"f": b"f1", "g": b"by hand, too"}


def test_what_a_rewind_overwrote_is_copied_where_more_lies_beside_it(worked):
    """An undo guarded one small file, and the transcript's tail: that is none of the fork's business."""
    worked.session.rewind(1)
    make(worked.project / "f", "by hand")
    worked.session.undo_rewind(on_conflict="overwrite")
    stages = {path.stat().st_ino for path in worked.sidecar.glob("undo/*/stage.bin")}
    with worked.session.fork() as fork, fork.fork() as grandchild:
        own = sidecar(fork) / "turns" / "0" / "files"
        assert b"by hand" in [path.read_bytes() for path in own.iterdir()]
        assert not stages & {*inodes(own).values()}
        assert inodes(own) == inodes(sidecar(grandchild) / "turns" / "0" / "files")
        assert (fork.check(), grandchild.check()) == ([], [])


def test_turns_that_left_the_conversation_alone_still_go_back_in_the_fork(worked):
    removed = worked.session.checkpoints()[1].id
    worked.session.rewind(2, scope="conversation")
    with worked.session.fork() as fork:
        assert len(fork.checkpoints()) == 1
        fork.rewind(removed, scope="code")
    assert contents(worked.project) == worked.before[2]


def test_turns_a_rewind_removed_leave_nothing_in_the_fork(worked):
    worked.session.rewind(2)
    with worked.session.fork() as fork:
        assert inodes(sidecar(fork)).keys() == {"turns/1/files/0001.after", "turns/1/files/0002.after"}
        assert not (sidecar(fork) / "undo").exists()


# -- bytes -------------------------------------------------------------------------------------------------------------


def test_snapshots_are_linked_under_their_names(worked):
    with worked.session.fork() as fork:
        assert inodes(sidecar(fork)) == inodes(worked.sidecar)
        assert sorted(os.listdir(sidecar(fork) / "turns" / "2")) == ["files", "meta.json"]
        assert (sidecar(fork) / "turn-2.json").read_bytes() == (worked.sidecar / "turn-2.json").read_bytes()


@pytest.mark.parametrize("error", ["EMLINK", "EXDEV", "EPERM"])
def test_where_nothing_can_be_linked_it_is_copied(worked, error):
    with failing(1, getattr(errno, error), once=False, names=["link"]):
        fork = worked.session.fork()
    with fork:
        assert inodes(sidecar(fork)).keys() == inodes(worked.sidecar).keys()
        assert not {*inodes(sidecar(fork)).values()} & {*inodes(worked.sidecar).values()}
        fork.rewind(2)
    assert contents(worked.project) == worked.before[2]


def test_fifty_forks_keep_every_content_once_and_deleting_frees_what_only_one_used(agent):
    size = 200_000
    for number in range(5):
        agent.turn(f"turn {number}", {"f": bytes([number]) * size})
    make(agent.project / "f", b"by hand" * 30_000)
    agent.session.rewind(3, scope="code")
    for _ in range(50):
        agent.session.fork().close()
    projects = agent.root / "projects"
    assert size_of(projects) < 7 * size + 50 * 20_000
    forks = [row.id for row in agent.store.list(agent.project) if row.forked_from]
    with agent.store.open(forks[0]) as fork, fork.begin_turn("more") as turn, turn.edit("g"):
        make(agent.project / "g", b"only here" * size)
    for each in forks:
        agent.store.delete(each)
    agent.store.delete(agent.session.id)
    assert [path for path in agent.root.rglob("*") if path.is_file()] == []


def test_a_snapshot_that_is_gone_is_gone_in_the_fork_too_and_no_error(worked):
    gone = (worked.sidecar / "turns/2/files/0001.before").read_bytes()
    for path in worked.sidecar.glob("turns/*/files/*"):
        if path.read_bytes() == gone:
            path.unlink()
    with worked.session.fork() as fork:
        assert verdicts(fork.plan_rewind(2))["f"] == ("skip", "lost")
        assert verdicts(fork.plan_rewind(3))["f"] == ("restore", None)


def test_where_records_are_missing_the_fork_knows_it_too(worked):
    log = worked.sidecar / "timeline.jsonl"
    lines = log.read_bytes().split(b"\n")
    worked.close()
    log.write_bytes(b"\n".join(b"garbage" if b'"before"' in line and b'"turn":2' in line else line for line in lines))
    with SessionStore(worked.root).open(worked.session.id, read_only=True) as parent, parent.fork() as fork:
        for session in (parent, fork):
            assert "damaged_record" in {finding.kind for finding in session.findings}
            with pytest.raises(SessionsError, match="damaged"):
                session.plan_rewind(1)
            assert session.plan_rewind(3).files == parent.plan_rewind(3).files


REBASED = [
    ("/a/b/c", ["/a/b"], "/x", "/x/c"),
    ("/a/b", ["/a/b"], "/x", "/x"),
    ("/a/bc", ["/a/b"], "/x", "/a/bc"),
    ("/f", ["/"], "/x", "/x/f"),
    ("/a/f", ["/a"], "/", "/f"),
    ("/a", ["/a"], "/", "/"),
    ("/b/f", ["/a", "/b"], "/b/c", "/b/c/f"),
    ("relative", ["/a"], "/x", "relative"),
    ("/a/f", [], "/x", "/a/f"),
    ("/a/f", ["/a"], None, "/a/f"),
]


@pytest.mark.parametrize(("path", "old", "new", "becomes"), REBASED)
def test_a_path_below_the_old_directory_is_one_below_the_new(path, old, new, becomes):
    assert rebase(path, old, new) == becomes


# -- another directory -------------------------------------------------------------------------------------------------


def test_a_fork_for_another_directory_captures_and_goes_back_there(worked, tmp_path):
    other = tmp_path / "other tree"
    shutil.copytree(worked.project, other)
    here = contents(worked.project)
    with worked.session.fork(workdir=other) as fork:
        assert fork.workdir == str(other)
        assert fork.path.parent != worked.session.path.parent
        assert fork.checkpoints() == worked.session.checkpoints()
        with fork.begin_turn("turn 4") as turn, turn.edit("f"):
            make(other / "f", "f4")
        assert not fork.rewind(2).partial
    assert contents(other) == worked.before[2]
    assert contents(worked.project) == here
    with SessionStore(worked.root).open(fork.id) as again:
        again.undo_rewind()
    assert contents(other) == here | {"f": b"f4"}


@pytest.mark.parametrize("link", [True, False], ids=["a link in its place", "nothing in its place"])
def test_a_project_that_was_moved_goes_back_in_a_fork_for_its_new_place(worked, tmp_path, link):
    moved = worked.project.rename(tmp_path / "moved")
    if link:
        worked.project.symlink_to(moved)
    worked.close()
    with (
        SessionStore(worked.root).open(worked.session.id, read_only=True) as parent,
        parent.fork(workdir=moved) as fork,
    ):
        with parent.fork() as same:
            for session in (parent, same):  # nobody said that this is where the files are now
                with pytest.raises(SessionsError, match=r"missing|link"):
                    session.plan_rewind(2)
        fork.rewind(2)
    assert contents(moved) == worked.before[2]


# -- while somebody else works -----------------------------------------------------------------------------------------


def test_a_session_that_another_process_writes_can_be_forked(worked):
    other = SessionStore(worked.root)
    with other.open(worked.session.id, read_only=True) as reader, reader.fork() as fork:
        assert fork.checkpoints() == worked.session.checkpoints()
    worked.turn("it goes on", {"f": "f4"})


def test_of_an_open_turn_comes_along_what_is_captured_so_far(worked):
    with worked.session.begin_turn("turn 4") as turn:
        with turn.edit("f"):
            make(worked.project / "f", "f4")
            fork = worked.session.fork()
        with turn.edit("later"):
            make(worked.project / "later", "l")
    with fork:
        assert len(fork.checkpoints()) == 4
        assert verdicts(fork.plan_rewind(4)) == {"f": ("restore", "unverified")}
        fork.rewind(4)
    assert contents(worked.project) == {"f": b"f3", "g": b"g1", "d/new": b"n", "later": b"l"}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_rewind_that_a_crash_interrupted_does_not_mix_two_states_in_a_fork(worked, read_only):
    ids = [each.id for each in worked.session.checkpoints()]
    worked.close()

    def rewind():
        with SessionStore(worked.root).open(worked.session.id) as session:
            session.rewind(2)

    for number in itertools.count(1):
        shutil.copytree(worked.root, worked.root.with_name("kept"), dirs_exist_ok=True)
        if not killed_at(number, rewind):
            break
        with SessionStore(worked.root).open(worked.session.id, read_only=read_only) as session, session.fork() as fork:
            turns = [turn.message_id for turn in CaptureLog(sidecar(fork)).read().turns.values()]
            assert [each.id for each in fork.checkpoints()] == turns
            assert turns in (ids, ids[:1])
        shutil.rmtree(worked.root)
        worked.root.with_name("kept").rename(worked.root)
    assert number > 30


def test_a_fork_made_in_the_middle_of_a_rewind_is_of_before_or_of_after(worked):
    ids = [each.id for each in worked.session.checkpoints()]
    steps = [name for name in CHANGES if name != "write"]
    seen = []
    with SessionStore(worked.root).open(worked.session.id, read_only=True) as reader:

        def fork():
            with reader.fork() as made:
                timeline = CaptureLog(sidecar(made)).read()
                assert [each.id for each in made.checkpoints()] == [turn.message_id for turn in timeline.turns.values()]
                seen.append(len(timeline.turns))

        with counting(names=steps) as calls:
            worked.session.rewind(2)
        worked.session.undo_rewind()
        for number in range(1, len(calls) + 1):
            with strike_at(number, fork, names=steps):
                worked.session.rewind(2)
            worked.session.undo_rewind()
    assert [each.id for each in worked.session.checkpoints()] == ids
    assert (seen[0], {*seen}) == (3, {1, 3})


# -- the worst moment --------------------------------------------------------------------------------------------------


def kept_files(root):
    return {str(path): path.read_bytes() for path in (root / "projects").rglob("*") if path.is_file()}


def strike_at(number, work, *, names):
    """Let work happen in the middle of something else, once."""
    times = iter([work])
    return at_calls(lambda at: next(times, None) if at == number else None, names=names)


def fork_of(agent):
    def work():
        with SessionStore(agent.root).open(agent.session.id, read_only=True) as session:
            session.fork(2).close()

    return work


def overwritten(worked):
    """With bytes of every origin: a turn's, and what a rewind guarded."""
    make(worked.project / "f", "by hand")
    worked.session.rewind(2, scope="code")
    worked.turn("turn 4", {"f": "f4"})
    worked.close()
    return worked


def test_sigkill_at_every_call_leaves_a_whole_fork_or_none(worked):
    before = kept_files(overwritten(worked).root)
    made = 0
    for number in itertools.count(1):
        killed = killed_at(number, fork_of(worked))
        store = SessionStore(worked.root)
        forks = [row for row in store.list(worked.project) if row.forked_from]
        checked = store.check()
        assert [finding for each in checked for finding in each.findings] == []
        assert leftovers(worked.root) == []
        if forks:
            made += 1
            with store.open(forks[0].id) as fork:
                assert len(fork.checkpoints()) == 2
                assert not fork.plan_rewind(1).partial
            store.delete(forks[0].id)
        assert kept_files(worked.root) == before
        assert len(list(worked.root.rglob("*.ckpt"))) == 1
        if not killed:
            break
    assert number > 30
    assert made > 2


@pytest.mark.parametrize("name", ["ENOSPC", "EIO", "EACCES"])
def test_an_error_at_every_call_leaves_a_whole_fork_or_none(worked, name):
    before = kept_files(overwritten(worked).root)
    raised = 0
    for number in itertools.count(1):
        store = SessionStore(worked.root)
        failed = False
        with store.open(worked.session.id, read_only=True) as session, failing(number, getattr(errno, name)) as calls:
            try:
                session.fork(2).close()
            except OSError:
                failed = True
        raised += failed
        forks = [row.id for row in store.list(worked.project) if row.forked_from]
        assert len(forks) == (not failed), (number, calls[-1])
        for each in forks:
            store.delete(each)
        assert kept_files(worked.root) == before, (number, calls[-1])
        if len(calls) < number:
            break
    assert raised > 30


def test_a_fork_that_is_being_made_is_not_swept(worked):
    """A check that runs at any moment meanwhile removes nothing."""
    other = SessionStore(worked.root)
    steps = [name for name in CHANGES if name != "write"]  # a write would be done half, and again
    with counting(names=steps) as calls:
        worked.session.fork().close()
    for number in range(1, len(calls) + 1):
        with strike_at(number, other.check, names=steps):
            fork = worked.session.fork()
        with fork:
            assert fork.check() == []
            assert not fork.plan_rewind(1).partial


def test_a_parent_that_is_deleted_meanwhile_leaves_no_fork(worked):
    worked.close()
    store = SessionStore(worked.root)
    with counting(names=["link"]) as links, store.open(worked.session.id, read_only=True) as session:
        session.fork().close()
    with (
        store.open(worked.session.id, read_only=True) as session,
        strike_at(len(links) // 2, lambda: SessionStore(worked.root).delete(session.id), names=["link"]),
        pytest.raises(NotFoundError, match="deleted meanwhile"),
    ):
        session.fork()
    assert len(store.list(worked.project)) == 1
