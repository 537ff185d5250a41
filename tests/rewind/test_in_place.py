"""Files with several names, or mounted from elsewhere: written in place where they are the very files the agent left."""

import contextlib
import errno
import itertools
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from agent import Agent, contents, make, tree, verdicts
from hypothesis import example, given
from hypothesis import strategies as st
from scenario import Small, builder, steps
from worst_moments import CHANGES, failing, killed_at

from sessions import ConflictError, IncompleteError, SessionsError
from sessions.rewind.half_written import BLOCK_BYTES, could_be_half_written, is_mixture
from sessions.rewind.journal import Record, record_from
from sessions.rewind.judge import Change
from sessions.rewind.states import Content, Image

OLD = {
    "shrinks": b"".join(b"old line %d\n" % number for number in range(100)),
    "grows": b"old and short\n",
    "mode": b"the same\n",
}
NEW = {"shrinks": b"new\n", "grows": b"".join(b"new line %d\n" % number for number in range(150)), "mode": OLD["mode"]}


class Linked(Small):
    """The second turn changed three files, in place; each has a twin in another directory."""

    copied = False

    def build(self) -> None:
        self.twins = self.base / "twins"
        self.twins.mkdir()
        for name, content in OLD.items():
            make(self.project / name, content)
            (self.project / name).chmod(0o640)
            os.link(self.project / name, self.twins / name)
        make(self.project / "plain", "old")

    def edit(self) -> None:
        self.agent.turn("second", NEW | {"mode": lambda path: path.chmod(0o755), "plain": "new"})

    @property
    def state(self) -> tuple:
        inodes = {name: (os.stat(self.project / name).st_ino, os.stat(self.twins / name).st_ino) for name in OLD}
        return (*super().state, tree(self.twins), inodes)


@pytest.fixture
def linked(memory_path):
    return builder(Linked, memory_path)


WORK = pytest.mark.parametrize(("work", "begins", "ends"), [("rewind", "new", "old"), ("undo", "old", "new")])


def test_a_twin_goes_back_and_forth_with_the_file(linked):
    there = linked()
    with there.open() as session:
        plan = session.plan_rewind(2)
        assert {file.path for file in plan.files if "in place" in file.note} == set(OLD)
        session.rewind(plan)
        assert there.side() == "old"
        session.undo_rewind()
        assert there.side() == "new"
        session.redo_rewind()
        assert there.side() == "old"


def test_a_twin_goes_with_every_rewind_of_the_code_alone(agent, tmp_path):
    make(agent.project / "f", "v1")
    os.link(agent.project / "f", tmp_path / "twin")
    agent.turn("one", {"f": "v2"})
    agent.turn("two", {"f": "v3"})
    for to, content in ((2, "v2"), (1, "v1")):
        agent.session.rewind(to, scope="code")
        assert (tmp_path / "twin").read_text() == content
    agent.session.undo_rewind()
    agent.session.undo_rewind()
    assert (tmp_path / "twin").read_text() == "v3"
    assert os.stat(tmp_path / "twin").st_nlink == 2


def test_a_conflict_in_a_file_with_a_twin_is_overwritten_in_place_and_comes_back(linked):
    there = linked()
    with open(there.project / "grows", "ab") as file:
        file.write(b"by hand\n")
    found = there.state
    with there.open() as session:
        assert verdicts(session.rewind(2))["grows"] == ("restore", "conflict")
        assert there.side() == "old"
        session.undo_rewind()
    assert there.state == found


@pytest.mark.parametrize("known", ["swapped since", "never recorded"])
def test_a_file_that_is_not_surely_the_one_the_agent_left_is_replaced_and_said(agent, tmp_path, known):
    make(agent.project / "f", "v1")
    if known == "swapped since":
        agent.turn("edit", {"f": "v2"})
        make(agent.project / "other", "v2")
        os.rename(agent.project / "other", agent.project / "f")
    else:
        turn = agent.session.begin_turn("crash")
        turn.edit("f")
        make(agent.project / "f", "v2")
        agent.session._turn = None  # what a killed process leaves
        agent.reopen()
    os.link(agent.project / "f", tmp_path / "twin")
    report = agent.session.rewind(1)
    (file,) = report.files
    assert "its other hard links keep what is there now" in file.note
    assert ((agent.project / "f").read_text(), (tmp_path / "twin").read_text()) == ("v1", "v2")
    assert os.stat(agent.project / "f").st_nlink == 1
    agent.session.undo_rewind()
    assert (agent.project / "f").read_text() == "v2"


def test_a_file_with_a_twin_that_must_go_goes_and_the_twin_stays(agent, tmp_path):
    agent.turn("make", {"f": "v1"})
    os.link(agent.project / "f", tmp_path / "twin")
    (file,) = agent.session.rewind(1).files
    assert "its other hard links" in file.note
    assert (agent.files, (tmp_path / "twin").read_text()) == ({}, "v1")


def test_a_file_swapped_for_one_with_the_same_content_while_it_is_staged_makes_the_plan_stale(linked, monkeypatch):
    there = linked()
    with there.open() as session:
        intact = session._payloads.intact

        def swap(image):
            with contextlib.suppress(FileExistsError):
                os.link(there.twins / "grows", there.twins / "kept")
                make(there.project / "other", NEW["grows"])
                (there.project / "other").chmod(0o640)
                os.rename(there.project / "other", there.project / "grows")
            return intact(image)

        seen = itertools.count()
        planned = len(session.plan_rewind(2).files)
        monkeypatch.setattr(
            session._payloads, "intact", lambda image: swap(image) if next(seen) >= planned else intact(image)
        )
        with pytest.raises(SessionsError, match="changed meanwhile"):
            session.rewind(2)
    assert contents(there.project)["shrinks"] == NEW["shrinks"]


def test_two_names_the_agent_edited_go_back_together_where_both_were_the_same(agent):
    make(agent.project / "f", "v1")
    os.link(agent.project / "f", agent.project / "twin")
    with agent.session.begin_turn("edit") as turn, turn.edit("f", "twin"):
        make(agent.project / "f", "v2")
    report = agent.session.rewind(1)
    assert contents(agent.project) == {"f": b"v1", "twin": b"v1"}
    assert not report.partial
    assert os.stat(agent.project / "f").st_nlink == 2
    agent.session.undo_rewind()
    assert contents(agent.project) == {"f": b"v2", "twin": b"v2"}
    assert os.stat(agent.project / "f").st_nlink == 2


def test_two_names_that_must_become_different_part_and_that_is_said(agent):
    make(agent.project / "f", "v1")
    os.link(agent.project / "f", agent.project / "twin")
    agent.turn("edit", {"f": "v2"}, {"twin": "v3"})
    report = agent.session.rewind(1)
    assert contents(agent.project) == {"f": b"v1", "twin": b"v2"}
    assert all("its other hard links keep" in file.note for file in report.files)
    agent.session.undo_rewind()
    assert contents(agent.project) == {"f": b"v3", "twin": b"v3"}


def test_a_twin_that_is_kept_does_not_go_with_the_file(agent):
    make(agent.project / "f", "v1")
    make(agent.project / "twin", "v1")
    agent.turn("edit", {"f": "v2", "twin": "v2"})
    (agent.project / "twin").unlink()
    os.link(agent.project / "f", agent.project / "twin")
    make(agent.project / "twin", "the user's")
    make(agent.project / "f", "v2")
    (agent.project / "twin").chmod(0o600)
    report = agent.session.rewind(1, on_conflict="keep")
    assert set(verdicts(report).values()) == {("skip", "conflict")}
    (agent.project / "twin").chmod(0o644)
    assert contents(agent.project) == {"f": b"v2", "twin": b"v2"}


# -- the worst moment --------------------------------------------------------------------------------------------------


@WORK
def test_sigkill_at_every_call_leaves_all_old_or_all_new(linked, work, begins, ends):
    seen = []
    commit, _ = steps(linked, work)
    for number in itertools.count(commit - 1):
        there = linked(work)
        if not killed_at(number, getattr(there, work)):
            break
        there.recover()
        seen.append(there.side())
        assert there.recover() == ()
    assert there.side() == ends
    assert seen == sorted(seen, reverse=begins == "old") or set(seen) == {"old", "new"}
    assert seen.count(ends) > 20


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@WORK
def test_an_error_at_every_call_leaves_all_old_or_all_new(linked, work, begins, ends, error):
    raised = 0
    for number in itertools.count(steps(linked, work)[0] + 1):
        there = linked(work)
        failure = None
        with there.open() as session, failing(number, error, names=CHANGES) as calls:
            try:
                session.rewind(2) if work == "rewind" else session.undo_rewind()
            except (OSError, SessionsError) as caught:
                failure = caught
        if len(calls) < number:
            break
        assert not isinstance(failure, IncompleteError)
        assert there.side() == (begins if failure else ends), (number, failure)
        raised += failure is not None
        there.recover()
        assert there.side() == (begins if failure else ends)
    assert raised > 20


@WORK
def test_a_disk_that_stays_full_leaves_what_the_next_opening_makes_whole(linked, work, begins, ends):
    incomplete = 0
    for number in itertools.count(steps(linked, work)[0] + 1):
        there = linked(work)
        failure = None
        with there.open() as session, failing(number, errno.ENOSPC, once=False, names=CHANGES):
            try:
                session.rewind(2) if work == "rewind" else session.undo_rewind()
            except (OSError, SessionsError) as caught:
                failure = caught
        incomplete += isinstance(failure, IncompleteError)
        there.recover()
        there.side()
        if failure is None:
            break
    assert incomplete > 10


@WORK
def test_sigkill_during_the_recovery_and_while_all_is_put_back_is_recovered_from(linked, work, begins, ends):
    commit, (first, failed_at) = steps(linked, work)
    for second in itertools.count(1):
        there = linked(work)
        assert killed_at(first, getattr(there, work))
        if not killed_at(second, there.recover):
            break
        there.recover()
        assert there.side() == ends
    assert second > 10
    for later in itertools.count(failed_at + 1):
        there = linked(work)
        if not killed_at(later, getattr(there, work), failed_at=failed_at):
            break
        marked = any(name.startswith("abort-") for name in os.listdir(there.agent.sidecar))
        there.recover()
        assert there.side() == begins or not marked
    assert later > failed_at + 10
    assert failed_at > first > commit


@WORK
def test_a_half_written_file_somebody_edited_since_is_left_alone_and_said(linked, work, begins, ends):
    _commit, writes = steps(linked, work)
    there = linked(work)
    assert killed_at(writes[0], getattr(there, work))
    half = contents(there.project)
    (name,) = [name for name in OLD if half[name] not in {OLD[name], NEW[name]}]
    with open(there.project / name, "r+b") as file:
        file.write(b"BY HAND")
    edited = (there.project / name).read_bytes()
    (finding,) = there.recover()
    assert name in finding.action
    wanted = OLD if ends == "old" else NEW
    assert contents(there.project) == wanted | {name: edited, "plain": ends.encode()}


@WORK
def test_a_half_written_file_that_was_copied_since_is_another_file(linked, work, begins, ends):
    _commit, writes = steps(linked, work)
    there = linked(work)
    assert killed_at(writes[0], getattr(there, work))
    half = contents(there.project)
    (name,) = [name for name in OLD if half[name] not in {OLD[name], NEW[name]}]
    make(there.project / "copy", half[name])
    os.rename(there.project / "copy", there.project / name)
    (finding,) = there.recover()
    assert name in finding.action
    assert contents(there.project)[name] == half[name]


def test_a_file_nobody_may_write_to_is_written_in_place_all_the_same(as_somebody, memory_path):
    def work() -> None:
        agent = Agent(memory_path / "root", memory_path / "project")
        make(agent.project / "f", "v1")
        (agent.project / "f").chmod(0o444)
        os.link(agent.project / "f", memory_path / "twin")
        before = agent.files

        def edit(path: Path) -> None:
            path.chmod(0o644)
            path.write_text("v2, longer")
            path.chmod(0o400)

        agent.turn("edit", {"f": edit})
        after = agent.files
        agent.session.rewind(1)
        assert agent.files == before
        assert (memory_path / "twin").read_text() == "v1"
        agent.session.undo_rewind()
        assert agent.files == after
        assert (memory_path / "twin").read_text() == "v2, longer"
        agent.close()

    as_somebody(work)


# -- mounts ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mount(project):
    """Bind-mounts a file over another one."""
    mounted: list[Path] = []

    def bind(source: Path, target: Path) -> None:
        done = subprocess.run(["mount", "--bind", source, target], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        mounted.append(target)

    yield bind
    for target in reversed(mounted):
        subprocess.run(["umount", target], check=True)


def test_a_mounted_file_goes_back_and_forth_in_place(agent, mount, tmp_path):
    make(agent.project / "with space", "")
    make(tmp_path / "source", "v1")
    mount(tmp_path / "source", agent.project / "with space")
    agent.turn("edit", {"with space": "v2, longer", "other": "made"})
    report = agent.session.rewind(1)
    assert not report.partial
    assert contents(agent.project) == {"with space": b"v1"}
    assert (tmp_path / "source").read_text() == "v1"
    agent.session.undo_rewind()
    assert (tmp_path / "source").read_text() == "v2, longer"


def test_a_file_mounted_since_is_left_alone_and_said_and_the_rest_is_rewound(agent, mount, tmp_path):
    make(agent.project / "f", "v1")
    make(agent.project / "other", "v1")
    agent.turn("edit", {"f": "v2", "other": "v2", "made": "v2"})
    make(tmp_path / "source", "elsewhere")
    mount(tmp_path / "source", agent.project / "f")
    mount(tmp_path / "source", agent.project / "made")
    with pytest.raises(ConflictError):
        agent.session.rewind(1, on_conflict="refuse")
    report = agent.session.rewind(1)
    assert verdicts(report) == {"f": ("skip", "conflict"), "made": ("skip", "conflict"), "other": ("restore", None)}
    assert report.partial
    assert contents(agent.project) == {"f": b"elsewhere", "made": b"elsewhere", "other": b"v1"}
    agent.session.undo_rewind()
    assert (agent.project / "other").read_text() == "v2"


def test_a_directory_in_the_way_with_a_mount_in_it_is_left_alone_and_said(agent, mount, tmp_path):
    make(agent.project / "f", "v1")
    agent.turn("edit", {"f": "v2"})
    (agent.project / "f").unlink()
    make(agent.project / "f" / "mounted", "")
    make(tmp_path / "source", "elsewhere")
    mount(tmp_path / "source", agent.project / "f" / "mounted")
    report = agent.session.rewind(1)
    assert verdicts(report) == {"f": ("skip", "conflict")}
    assert contents(agent.project) == {"f/mounted": b"elsewhere"}


# -- symbolic links ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["relative", "absolute", "dangling", "to another directory", "of links"])
def test_an_edit_through_a_link_restores_the_target_and_leaves_the_link(agent, kind):
    target = agent.project / "deep" / "target"
    target.parent.mkdir()
    spelled = {"absolute": str(target), "of links": "second"}.get(kind, "deep/target")
    if kind == "to another directory":
        make(agent.project / "beside" / "f", "beside")
        (agent.project / "beside" / "link").symlink_to("../deep/target")
    if kind == "of links":
        (agent.project / "second").symlink_to("deep/target")
    if kind != "dangling":
        make(target, "v1")
    link = agent.project / ("beside/link" if kind == "to another directory" else "link")
    if kind != "to another directory":
        link.symlink_to(spelled)
    before, inode = agent.files, os.lstat(link).st_ino
    agent.turn("edit", {str(link): lambda path: path.write_text("v2")})
    after = agent.files
    assert target.read_text() == "v2"
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after
    assert os.lstat(link).st_ino == inode


# -- half written, as a law --------------------------------------------------------------------------------------------

BYTES = st.binary(max_size=3 * BLOCK_BYTES)


def _chunks(content: bytes) -> list[bytes]:
    return [content[start : start + 2 * BLOCK_BYTES] for start in range(0, len(content), 2 * BLOCK_BYTES)]


@given(one=BYTES, other=BYTES, stops=st.lists(st.integers(0, 3 * BLOCK_BYTES), max_size=2))
@example(one=b"old", other=b"new and longer", stops=[7, 1])
@example(one=b"o" * 1500, other=b"new", stops=[3])
def test_whatever_stopped_writing_in_place_leaves_a_mixture(one, other, stops):
    found = bytearray(one)
    for stop, content in zip(stops, (other, one), strict=False):
        found[: min(stop, len(content))] = content[:stop]
    assert is_mixture(_chunks(bytes(found)), _chunks(one), _chunks(other))


@given(one=st.binary(min_size=1, max_size=1500), place=st.integers(0, 1499))
def test_a_byte_of_neither_is_no_mixture(one, place):
    found = bytearray(one)
    found[place % len(one)] ^= 1
    assert not is_mixture(_chunks(bytes(found)), _chunks(one), _chunks(one))


def test_bytes_picked_from_both_are_no_mixture():
    one, other = b"a" * 100, b"b" * 100
    assert not is_mixture([b"ab" * 50], [one], [other])


def test_blocks_a_power_loss_left_in_any_order_are_a_mixture():
    one, other = b"a" * 4 * BLOCK_BYTES, b"b" * 4 * BLOCK_BYTES
    assert is_mixture([(b"a" * BLOCK_BYTES + b"b" * BLOCK_BYTES) * 2], [one], [other])


@pytest.mark.parametrize(
    ("size", "mode", "could"),
    [(10, 0o444, True), (15, 0o644, True), (20, 0o4755, True), (20, 0o755, True), (21, 0o444, False), (9, 0o444, False),
     (15, 0o600, False)],
)  # fmt: skip
def test_size_and_mode_say_what_could_be_half_written(size, mode, could):
    one, other = Content("", 10, 0o444), Content("", 20, 0o4755)
    assert could_be_half_written(Content("", size, mode), one, other) is could


def test_a_record_says_what_is_written_in_place_and_older_ones_are_read():
    change = Change("/p/f", Image(Content("0" * 64, 1, 0o644)), Image(Content("1" * 64, 1, 0o644)), (7, 8))
    record = Record("rw-1", "rewind", "rw-1", "both", "msg-1", "now", (change,), None, ())
    assert record_from(record.to_record()) == record
    older = record.to_record()
    del older["changes"][0]["in_place"]
    assert record_from(older) == replace(record, changes=(replace(change, in_place=None),))
    for damaged in ("x", [1], [1, 2, 3], ["1", "2"]):
        with pytest.raises(ValueError):
            record_from(record.to_record() | {"changes": [change_record(record) | {"in_place": damaged}]})


def change_record(record: Record) -> dict:
    return record.to_record()["changes"][0]
