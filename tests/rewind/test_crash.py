"""SIGKILL at every call that changes the disk leaves all old or all new, and nothing else.

A child process does the work and is killed; the parent opens the session, which recovers, and compares every file, mode
and the transcript.
"""

import contextlib
import errno
import itertools
import os
import shutil

import pytest
from agent import Agent, leftovers, make
from scenario import Scenario
from worst_moments import CALLS, CHANGES, counting, failing, killed_at

from sessions import IncompleteError, SessionsError, SessionStore, assistant_message

PARTS = 4
WHERE = ("first", "middle", "last")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)


@pytest.fixture
def scenario(memory_path):
    return Scenario(memory_path)


@pytest.fixture
def small(memory_path):
    return Scenario(memory_path, changed=3)


def _sides(work: str) -> tuple[str, str]:
    """Which state the work begins and ends with."""
    return ("old", "new") if work == "rewind" else ("new", "old")


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("work", ["rewind", "undo"])
def test_sigkill_at_every_call_leaves_all_old_or_all_new(scenario, work, part):
    begins, ends = _sides(work)
    seen = set()
    for number in itertools.count(part + 1, PARTS):
        scenario.prepare(work)
        if not killed_at(number, getattr(scenario, work)):
            break
        scenario.recover()
        seen.add(side := scenario.side())
        if side == begins and number % 7 == 0:
            getattr(scenario, work)()
            assert scenario.side() == ends
        elif side == ends and number % 7 == 0:
            with SessionStore(scenario.root).open(scenario.id) as session:
                session.redo_rewind() if work == "undo" else session.undo_rewind()
            assert scenario.side() == begins
    assert number > 150
    assert seen == {"old", "new"}


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("work", ["rewind", "undo"])
def test_an_error_at_every_call_leaves_all_old_or_all_new(small, work, error):
    """An error that reaches the caller has changed nothing, and the next try works.

    What cannot be read while it is planned is skipped, and said; that is no error, and can be undone like all else.
    """
    begins, ends = _sides(work)
    raised = 0
    for number in itertools.count(1):
        small.prepare(work)
        with SessionStore(small.root).open(small.id) as session:
            there, back = lambda opened=session: opened.rewind(2), session.undo_rewind
            if work == "undo":
                there, back = session.undo_rewind, session.redo_rewind
            failure, report = None, None
            with failing(number, error, names=CALLS if error == errno.EACCES else CHANGES) as calls:
                try:
                    report = there()
                except (OSError, SessionsError) as caught:
                    failure = caught
            if len(calls) < number:
                break
            if report is not None and report.partial:
                assert {file.reason for file in report.files if file.action == "skip"} <= {"unreadable", None}
                back()
            elif failure is not None:
                raised += 1
                assert not isinstance(failure, IncompleteError)
                assert os.strerror(error) in str(failure) or "changed meanwhile" in str(failure)
                assert small.is_in(begins), (number, failure)
                if number % 7 == 0:
                    there()
                    back()
            else:
                assert small.is_in(ends), number
                back()
        small.recover()
        assert small.side() == begins, (number, failure)
    assert raised > 30
    assert number > 60


def _everything_fails_from(number: int, error: int, scenario, work: str) -> Exception | None:
    with SessionStore(scenario.root).open(scenario.id) as session, failing(number, error, once=False, names=CHANGES):
        try:
            session.rewind(2) if work == "rewind" else session.undo_rewind()
        except (OSError, SessionsError) as failure:
            return failure
    return None


@pytest.mark.parametrize("work", ["rewind", "undo"])
def test_a_disk_that_stays_full_leaves_what_the_next_opening_makes_whole(small, work):
    """Where nothing can be written any more, putting back fails too: exit 6, and the next opening finishes it."""
    begins, ends = _sides(work)
    incomplete = 0
    for number in itertools.count(1):
        small.prepare(work)
        failure = _everything_fails_from(number, errno.ENOSPC, small, work)
        if isinstance(failure, IncompleteError):
            incomplete += 1
            assert failure.exit_code == 6
            reader = SessionStore(small.root).open(small.id, read_only=True)
            assert "unfinished_rewind" in {finding.kind for finding in reader.findings}
        elif failure is not None:
            assert small.is_in(begins), (number, failure)
        small.recover()
        side = small.side()
        if failure is None:
            assert side == ends
            break
    assert incomplete > 10


def test_the_session_that_stopped_half_way_finishes_itself_when_space_returns(small):
    for number in itertools.count(1):
        small.prepare("rewind")
        with SessionStore(small.root).open(small.id) as session:
            with failing(number, errno.ENOSPC, once=False, names=CHANGES):
                try:
                    session.rewind(2)
                except IncompleteError:
                    stopped = True
                except OSError:
                    stopped = False
                else:
                    break
            if stopped:
                session.set_title("Still alive")
                assert {finding.kind for finding in session.findings} == {"unfinished_rewind"}
                assert small.state[0] in (small.old[0], small.new[0])
                session.rewind(1)
                assert [record.state for record in session.rewinds()][-1] == "done"
        small.recover()


@pytest.mark.parametrize(
    ("name", "error"), [("rename", errno.EIO), ("create", errno.EACCES), ("write", errno.ENOSPC), ("fsync", errno.EIO)]
)
def test_the_eleventh_of_26_files_cannot_be_written(scenario, name, error):
    """A failing rename, a read-only directory, a full disk: all 26 and the transcript are old, the error says why."""
    scenario.prepare("rewind")
    with SessionStore(scenario.root).open(scenario.id) as session:
        with counting(names=[name]) as calls:
            session.rewind(2)
        usual = len(calls)
        session.undo_rewind()
        plan = session.plan_rewind(2)
        assert [sum(file.action == action for file in plan.files) for action in ("restore", "delete", "recreate")] == [
            21, 7, 7
        ]  # fmt: skip
        with failing(usual - 11, error, names=[name]), pytest.raises(OSError, match=os.strerror(error)):
            session.rewind(plan)
        assert scenario.is_in("old")
        session.rewind(2)
        assert scenario.is_in("new")
    scenario.recover()
    assert scenario.side() == "new"


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("work", ["rewind", "undo"])
def test_sigkill_during_the_recovery_is_recovered_from(small, work, where):
    """Whatever step the first crash stopped at, a second one while it is mended changes nothing of the outcome."""
    _begins, ends = _sides(work)
    first = _sync_after_the_commit(small, work, where)
    small.prepare(work)
    assert killed_at(first, getattr(small, work))
    small.keep("crashed")
    for second in itertools.count(1):
        if not killed_at(second, small.recover):
            break
        small.recover()
        assert small.side() == ends
        small.reset("crashed")
    assert second > 3


@pytest.mark.parametrize("where", WHERE[1:])
@pytest.mark.parametrize("work", ["rewind", "undo"])
def test_sigkill_while_everything_is_put_back_is_recovered_from(small, work, where):
    """An error after the commit point, then a crash at every later call: all old; before the abort mark, all new."""
    failed_at = _sync_after_the_commit(small, work, where)
    seen = set()
    begins, _ends = _sides(work)
    for later in itertools.count(failed_at + 1):
        small.prepare(work)
        if not killed_at(later, getattr(small, work), failed_at=failed_at):
            break
        marked = any(name.startswith("abort-") for name in os.listdir(small.sidecar))
        small.recover()
        side = small.side()
        assert side == begins or not marked
        seen.add((side, marked))
    assert (begins, True) in seen
    assert later > failed_at + 10


def _sync_after_the_commit(scenario, work: str, where: str) -> int:
    """Return the number of the first, a middle or the last ``fsync`` behind the commit point."""
    commit = scenario.crash_after_the_commit(work)
    scenario.prepare(work)
    with counting() as calls:
        getattr(scenario, work)()
    syncs = [number for number, name in enumerate(calls, 1) if number > commit and name == "fsync"]
    return {"first": syncs[0], "middle": syncs[len(syncs) // 2], "last": syncs[-1]}[where]


# -- while the agent works ---------------------------------------------------------------------------------------------


@pytest.fixture
def at_work(memory_path):
    """A session with one turn; ``work`` takes a second one, with edits of every kind."""
    agent = Agent(memory_path / "now" / "root", memory_path / "now" / "project")
    agent.project.mkdir(parents=True)
    make(agent.project / "f", "f1")
    make(agent.project / "gone", "gone1")
    agent.turn("first")
    agent.close()
    agent.before = agent.files
    agent.fixed = agent.transcript
    shutil.copytree(memory_path / "now", memory_path / "before", symlinks=True)

    def reset() -> None:
        shutil.rmtree(memory_path / "now")
        shutil.copytree(memory_path / "before", memory_path / "now", symlinks=True)

    agent.reset = reset
    return agent


def _work(agent, session) -> None:
    """Edit as a tool does: what could not be captured is not edited."""
    with session.begin_turn("second") as turn:
        for path, content in {"f": "f2", "made/deep/g": "g", "gone": None}.items():
            with contextlib.suppress(OSError), turn.edit(path) as edit:
                if edit.gap is None:
                    make(agent.project / path, content)
        session.append(assistant_message("done"))


def test_sigkill_at_every_call_of_a_turn_leaves_it_revertible(at_work):
    def work() -> None:
        with SessionStore(at_work.root).open(at_work.session.id) as session:
            _work(at_work, session)

    seen = set()
    for number in itertools.count(1):
        at_work.reset()
        if not killed_at(number, work):
            break
        with SessionStore(at_work.root).open(at_work.session.id) as session:
            seen.add(count := len(session.checkpoints()))
            if count == 2:
                assert not session.rewind(2).partial
            assert at_work.files == at_work.before, number
            torn = at_work.transcript.removeprefix(at_work.fixed)
            assert not torn or (count == 1 and b"\n" not in torn)
            session.append(assistant_message("after the crash"))
            assert at_work.transcript.startswith(at_work.fixed + b'{"timestamp"')
            assert session.check() == []
        assert leftovers(at_work.root) == []
    assert number > 50
    assert seen == {1, 2}


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
def test_an_error_at_every_call_of_a_turn_leaves_it_revertible(at_work, error):
    for number in itertools.count(1):
        at_work.reset()
        with (
            SessionStore(at_work.root).open(at_work.session.id) as session,
            failing(number, error) as calls,
            contextlib.suppress(OSError),
        ):
            _work(at_work, session)
        if len(calls) < number:
            break
        with SessionStore(at_work.root).open(session.id) as session:
            if len(session.checkpoints()) == 2:
                session.rewind(2)
            assert at_work.files == at_work.before, (number, calls[number - 1])
            assert at_work.transcript == at_work.fixed
            assert session.check() == []
    assert number > 50
