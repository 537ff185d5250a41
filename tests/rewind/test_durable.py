"""A snapshot is durable before its edit is made, and one that cannot be kept is said before."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from agent import contents, make, verdicts
from worst_moments import failing

from sessions import SessionStore

WRITES = ("write", "fsync", "rename", "mkdir", "link")

TOOL = """
    import os, signal, sys
    from pathlib import Path
    from sessions import SessionStore
    session = SessionStore(sys.argv[1]).open(sys.argv[2])
    project = Path(session.workdir)
    turn = session.begin_turn("work")
    turn.edit("f")
    (project / "f").write_text("v2")
    turn.edit("made/g", "gone")
    (project / "made").mkdir()
    (project / "made/g").write_text("new")
    (project / "gone").unlink()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("scope", ["both", "code"])
def test_sigkill_right_after_the_tools_write_leaves_the_old_content_restorable(agent, scope):
    make(agent.project / "f", "v1")
    make(agent.project / "gone", "gone")
    before = agent.files
    agent.turn("start")
    agent.session.close()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TOOL), agent.root, agent.session.id], check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    assert contents(agent.project) == {"f": b"v2", "made/g": b"new"}
    agent.reopen()
    report = agent.session.rewind(2, scope=scope)
    assert agent.files == before
    assert {reason for action, reason in verdicts(report).values() if action != "unchanged"} == {"unverified"}


def test_the_order_on_disk_is_bytes_names_record(agent, monkeypatch):
    """Before ``edit`` returns: the snapshot is synced, then its directory, then the record that speaks of it."""
    make(agent.project / "f", "v1")
    agent.turn("start")
    synced = []
    real = os.fsync

    def fsync(fd):
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), agent.sidecar))
        real(fd)

    with agent.session.begin_turn("work") as turn:
        monkeypatch.setattr(os, "fsync", fsync)
        with turn.edit("f"):
            seen = list(synced)
            make(agent.project / "f", "v2")
    places = [place for place in seen if place.startswith("turns/2/files")] + seen[-1:]
    assert [os.path.dirname(place) or place for place in places] == ["turns/2/files", "turns/2", "timeline.jsonl"]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_snapshot_that_cannot_be_stored_raises_before_the_body(agent, error):
    make(agent.project / "f", "v1" * 1000)
    agent.turn("start")
    with agent.session.begin_turn("work") as turn:
        for number in range(1, 100):
            edit, raised = None, None
            with failing(number, error, names=WRITES) as calls:
                try:
                    edit = turn.edit("f")
                except OSError as failure:
                    raised = failure
            if edit is not None:
                break
            assert raised.errno == error
        assert len(calls) < number, "the failure was tried at every call"
        assert number > 5
        with edit:
            make(agent.project / "f", "v2")
    agent.session.rewind(2)
    assert contents(agent.project) == {"f": b"v1" * 1000}


def test_after_a_full_disk_earlier_snapshots_are_whole_and_recording_goes_on(agent):
    make(agent.project / "f", "v1")
    agent.turn("one", {"f": "v2"})
    with agent.session.begin_turn("two") as turn:
        with failing(1, errno.ENOSPC, once=False), pytest.raises(OSError, match="No space"):
            turn.edit("f")
        with turn.edit("f"):
            make(agent.project / "f", "v3")
    agent.reopen()
    assert agent.session.check() == []
    agent.session.rewind(2)
    assert contents(agent.project) == {"f": b"v2"}
    agent.session.rewind(1)
    assert contents(agent.project) == {"f": b"v1"}


def test_a_file_over_the_limit_is_a_gap_said_before_the_edit_and_left_alone(root, project):
    root.mkdir()
    (root / "settings.toml").write_text("[checkpoints]\nmax_file_bytes = 10\n")
    make(project / "big", "0123456789a")
    make(project / "small", "0123456789")
    with SessionStore(root).create(project) as session:
        with session.begin_turn("work") as turn:
            with turn.edit("big") as edit:
                assert edit.gap == "over_limit"
                make(project / "big", "changed")
            with turn.edit("small") as edit:
                assert edit.gap is None
                make(project / "small", "grown beyond the limit")
        plan = session.plan_rewind(1)
        assert verdicts(plan) == {"big": ("skip", "over_limit"), "small": ("restore", None)}
        assert [gap.kind for gap in plan.gaps] == ["over_limit"]
        assert session.rewind(plan).partial
        assert contents(project) == {"big": b"changed", "small": b"0123456789"}


@pytest.mark.parametrize("error", [errno.EACCES, errno.EMFILE, errno.EIO])
def test_a_file_that_cannot_be_read_is_not_one_that_did_not_exist(agent, error, monkeypatch):
    make(agent.project / "f", "v1")
    agent.turn("start")
    real = os.open

    def refuse(path, *args, **options):
        if os.fspath(path) == "f":
            raise OSError(error, os.strerror(error))
        return real(path, *args, **options)

    with agent.session.begin_turn("work") as turn:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            edit = turn.edit("f")
        assert edit.gap == "unreadable"
        with edit:
            make(agent.project / "f", "v2")
    plan = agent.session.plan_rewind(2)
    assert verdicts(plan) == {"f": ("skip", "unreadable")}
    assert [(gap.kind, gap.paths) for gap in plan.gaps] == [("unreadable", ("f",))]
    report = agent.session.rewind(plan)
    assert report.partial
    assert contents(agent.project) == {"f": b"v2"}


def test_a_file_without_permission_to_read_is_left_alone(agent):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    make(agent.project / "f", "v1")
    (agent.project / "f").chmod(0)
    with agent.session.begin_turn("work") as turn, turn.edit("f") as edit:
        assert edit.gap == "unreadable"
    (agent.project / "f").chmod(0o600)
    agent.session.rewind(1)
    assert contents(agent.project) == {"f": b"v1"}


@pytest.mark.parametrize("error", [errno.EACCES, errno.EMFILE])
def test_a_file_that_cannot_be_read_at_the_rewind_is_left_alone_and_said(agent, error, monkeypatch):
    make(agent.project / "f", "v1")
    make(agent.project / "g", "g1")
    agent.turn("change", {"f": "v2", "g": "g2"})
    make(agent.project / "f", "v3")
    real = os.open

    def refuse(path, *args, **options):
        if os.fspath(path) == "f":
            raise OSError(error, os.strerror(error))
        return real(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        report = agent.session.rewind(1)
    assert verdicts(report) == {"f": ("skip", "unreadable"), "g": ("restore", None)}
    assert report.partial
    assert contents(agent.project) == {"f": b"v3", "g": b"g1"}


@pytest.mark.parametrize("number", range(1, 6))
def test_what_an_edit_left_is_recorded_at_the_end_of_its_turn_where_it_could_not_be_before(agent, number):
    make(agent.project / "f", "v1")
    with agent.session.begin_turn("work") as turn:
        edit = turn.edit("f")
        make(agent.project / "f", "v2")
        with failing(number, errno.ENOSPC, once=False, names=WRITES) as calls, contextlib.suppress(OSError):
            edit.__exit__(None, None, None)
        assert calls
    assert verdicts(agent.session.plan_rewind(1)) == {"f": ("restore", None)}
    agent.session.rewind(1)
    assert contents(agent.project) == {"f": b"v1"}


def test_what_nobody_could_record_is_unverified(agent):
    make(agent.project / "f", "v1")
    turn = agent.session.begin_turn("work")
    edit = turn.edit("f")
    make(agent.project / "f", "v2")
    with failing(1, errno.ENOSPC, once=False, names=WRITES):
        for work in (lambda: edit.__exit__(None, None, None), turn.end, agent.session.close):
            with pytest.raises(OSError, match="No space"):
                work()
    agent.reopen()
    assert verdicts(agent.session.plan_rewind(1)) == {"f": ("restore", "unverified")}
    agent.session.rewind(1)
    assert contents(agent.project) == {"f": b"v1"}


def test_an_error_of_the_body_is_not_hidden_by_one_of_the_recording(agent):
    with agent.session.begin_turn("work") as turn:
        edit = turn.edit("f")
        with failing(1, errno.ENOSPC, once=False), pytest.raises(RuntimeError, match="the tool's own"), edit:
            raise RuntimeError("the tool's own")


def test_a_pipe_or_socket_is_a_gap_and_never_waited_for(agent):
    os.mkfifo(agent.project / "pipe")
    with agent.session.begin_turn("work") as turn, turn.edit("pipe") as edit:
        assert edit.gap == "unreadable"
    assert verdicts(agent.session.rewind(1)) == {"pipe": ("skip", "unreadable")}
