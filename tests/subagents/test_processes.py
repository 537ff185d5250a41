"""Who a process is, which there are, and what may be sent to whom."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import programs
import pytest
from programs import python, until

from sessions.subagents import processes
from sessions.subagents.identity import Identity, boot_id, identity_from, identity_of, is_alive, stat_of
from sessions.subagents.processes import Table, send, wait_for_end
from sessions.subagents.tagging import TAGS, tagged


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def test_an_identity_survives_a_record(sleeper):
    identity = identity_of(sleeper.pid)
    assert identity_from(identity.to_record()) == identity


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"pid": "1", "ticks": 1, "boot": ""}, {"pid": True, "ticks": 1, "boot": ""}, {"pid": 1, "ticks": 1}],
)
def test_a_record_that_is_none_is_refused(data):
    with pytest.raises(ValueError):
        identity_from(data)


def test_a_process_is_alive_until_it_ends_and_is_only_itself(sleeper):
    identity = identity_of(sleeper.pid)
    assert is_alive(identity)
    assert not is_alive(replace(identity, ticks=identity.ticks + 1))
    assert not is_alive(replace(identity, boot="another"))
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert identity_of(sleeper.pid) == identity  # a zombie
    assert not is_alive(identity)
    sleeper.wait()
    assert identity_of(sleeper.pid) is None
    assert identity_of(0) is None
    assert identity_of(-1) is None


def test_a_name_with_parentheses_and_spaces_is_read(tmp_path):
    program = tmp_path / ") Z 1 (x"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "1000"])
    try:
        until(lambda: b") Z 1 (x" in Path(f"/proc/{process.pid}/stat").read_bytes(), "exec")
        found = stat_of(process.pid)
        assert (found.parent, found.group, found.zombie) == (os.getpid(), os.getpgrp(), False)
    finally:
        process.kill()
        process.wait()


def test_the_table_knows_descendants_and_groups(lab):
    task = lab.start(python(programs.SETSID))
    main, child = task.told("main", "child")
    table = Table.read()
    assert table.descendants([task.supervisor.pid]) == {main, child}
    assert table.descendants([main]) == {child}
    assert table.in_group(main) == {main}
    assert table.has(task.main)
    assert table.identity(main) == task.main
    assert not table.has(replace(task.main, ticks=1))
    assert table.get(2**22 + 1) is None


def test_tags_are_read_exactly(lab):
    tag = lab.new_tag()
    others = {
        "within": {"OTHER": f"{TAGS}={tag}"},
        "longer": {TAGS: tag + "0"},
        "prefix": {f"X{TAGS}": tag},
        "value": {"A": tag},
    }
    inner = lab.new_tag()
    sleepers = [subprocess.Popen(["sleep", "1000"], env=env) for env in others.values()]
    member = subprocess.Popen(["sleep", "1000"], env=tagged(tagged({"OTHER": f"{TAGS}=x"}, tag), inner))
    try:
        table = Table.read()
        assert table.with_tag(tag) == {member.pid} == table.with_tag(inner)
    finally:
        for process in (*sleepers, member):
            process.kill()
            process.wait()


def test_a_tag_goes_behind_those_that_are_there():
    assert tagged({"A": "b"}, "1") == {"A": "b", TAGS: "1"}
    assert tagged(tagged({}, "1"), "2") == {TAGS: "1:2"}


def test_a_signal_reaches_that_very_process_only(sleeper):
    identity = identity_of(sleeper.pid)
    assert not send(replace(identity, ticks=1), signal.SIGKILL)
    assert sleeper.poll() is None
    assert send(identity, signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM
    assert not send(identity, signal.SIGTERM)


def test_neither_this_process_nor_its_line_nor_the_first_is_signalled():
    for pid in {os.getpid(), os.getppid(), 1}:
        with pytest.raises(PermissionError):
            send(identity_of(pid), signal.SIGCONT)
    with pytest.raises(PermissionError):
        send(Identity(0, 0, boot_id()), 0)
    with pytest.raises(PermissionError):
        send(Identity(-1, 0, boot_id()), 0)


def test_a_process_of_somebody_else_may_not_be_signalled(sleeper):
    if os.getuid():
        pytest.skip("needs root, to be somebody else")
    code = f"""
import os, signal
from sessions.subagents.identity import identity_of
from sessions.subagents.processes import send
os.setuid(65534)
try:
    send(identity_of({sleeper.pid}), signal.SIGTERM)
except PermissionError:
    print("forbidden")
"""
    # Everything is read before it becomes somebody else, who may not.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "forbidden\n"
    assert sleeper.poll() is None


@pytest.fixture(params=[True, False], ids=["pidfd", "no pidfd"])
def descriptors(request, monkeypatch):
    if not request.param:
        monkeypatch.delattr(os, "pidfd_open")


def test_signals_and_waiting_work_with_and_without_descriptors(descriptors, sleeper):
    identity = identity_of(sleeper.pid)
    assert not wait_for_end(identity, 0.01)
    assert wait_for_end(replace(identity, ticks=1), 1000)
    assert not send(replace(identity, ticks=1), signal.SIGKILL)
    threading.Timer(0.05, lambda: send(identity, signal.SIGKILL)).start()
    assert wait_for_end(identity, programs.GIVE_UP_S)
    assert sleeper.wait() == -signal.SIGKILL
    assert wait_for_end(identity, 0)
    assert not send(identity, signal.SIGKILL)


def test_psutil_is_not_loaded_where_it_is_not_needed():
    code = "import sys, sessions.subagents.cancelling as c, sessions.subagents.watching; c.found([]); print('psutil' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_elsewhere_psutil_says_the_same(monkeypatch, sleeper):
    from sessions.subagents import identity

    here = stat_of(sleeper.pid)
    env = processes._tags_by_psutil(sleeper.pid)
    monkeypatch.setattr(identity, "ON_LINUX", False)
    monkeypatch.setattr(processes, "ON_LINUX", False)
    there = stat_of(sleeper.pid)
    assert (there.pid, there.parent, there.group) == (here.pid, here.parent, here.group)
    assert not there.zombie
    assert env == []
    assert sleeper.pid in Table.read().descendants([os.getpid()])
    assert stat_of(2**22 + 1) is None
