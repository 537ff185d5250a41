"""Kernel locks between real processes."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from interrupting import interruptions

from sessions import LockedError, SessionStore, hold, locks, opening, ownership, user_message
from sessions import store as stores
from sessions.locks import FileLock, HeldError

HOLDER = """
    import sys, time
    from pathlib import Path
    from sessions.locks import FileLock
    lock = FileLock(Path(sys.argv[1]))
    lock.acquire()
    lock.sign()
    print("held", flush=True)
    sys.stdin.read()
    lock.release()
"""
OPENER = """
    import sys
    from sessions import SessionStore
    session = SessionStore(sys.argv[1]).open(sys.argv[2])
    print("open", flush=True)
    sys.stdin.read()
    session.close()
"""


@pytest.fixture
def start():
    """Start a Python program in a process of its own, and wait for its first line."""
    started = []

    def start_(program: str, *arguments) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        process.stdout.readline()
        return process

    yield start_
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_a_lock_excludes_another_process_and_names_it(tmp_path, start):
    holder = start(HOLDER, tmp_path / "lock")
    with pytest.raises(HeldError) as held:
        FileLock(tmp_path / "lock").acquire()
    assert held.value.pid == holder.pid
    assert held.value.command


def test_a_lock_excludes_another_object_of_the_same_process(tmp_path):
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.acquire()
    with pytest.raises(HeldError):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_closing_another_descriptor_of_the_file_keeps_the_lock(tmp_path):
    """What `fcntl.lockf` would lose."""
    lock = FileLock(tmp_path / "lock")
    lock.acquire()
    (tmp_path / "lock").read_bytes()
    with pytest.raises(HeldError):
        FileLock(tmp_path / "lock").acquire()
    lock.release()


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path, start):
    holder = start(HOLDER, tmp_path / "lock")
    holder.kill()
    holder.wait()
    lock = FileLock(tmp_path / "lock")
    lock.acquire()
    assert lock.held
    lock.release()


def test_waiting_gets_the_lock_when_its_holder_ends(tmp_path, start):
    holder = start(HOLDER, tmp_path / "lock")
    waiting = start(
        HOLDER.replace("lock.acquire()", "print('waiting', flush=True); lock.acquire(wait_s=60)"), tmp_path / "lock"
    )
    holder.stdin.close()
    assert waiting.stdout.readline() == "held\n"


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    lock = FileLock(tmp_path / "lock")
    lock.acquire()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)  # lives on, until the parent is done
        os._exit(0)
    lock.release()
    again = FileLock(tmp_path / "lock")
    again.acquire()
    again.release()
    os.close(read)
    os.close(write)
    os.waitpid(child, 0)


def test_the_end_of_a_forked_child_does_not_free_the_parents_lock(tmp_path):
    lock = FileLock(tmp_path / "lock")
    lock.acquire()
    child = os.fork()
    if not child:
        lock.release(unlink=True)
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "lock").exists()
    with pytest.raises(HeldError):
        FileLock(tmp_path / "lock").acquire()
    lock.release()


def test_a_program_started_while_the_lock_is_held_does_not_inherit_it(tmp_path):
    lock = FileLock(tmp_path / "lock")
    lock.acquire()
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    ):
        lock.release()
        again = FileLock(tmp_path / "lock")
        again.acquire()
        again.release()


def test_a_lock_file_replaced_meanwhile_is_not_believed(tmp_path):
    """Who waited on an unlinked file would hold a lock nobody else can see."""
    path = tmp_path / "lock"
    real, swapped = fcntl.flock, []

    def flock(fd, operation):
        real(fd, operation)
        if not swapped:
            swapped.append(True)
            path.unlink()
            path.touch()

    fcntl.flock = flock
    try:
        lock = FileLock(path)
        lock.acquire()
    finally:
        fcntl.flock = real
    with pytest.raises(HeldError):
        FileLock(path).acquire()
    lock.release()


@pytest.mark.parametrize("written", [b"", b"\0\0", b"[]", b'{"pid":"x","command":3}', b"{" * 5000, b"\xff"])
def test_an_unreadable_holder_is_another_process(tmp_path, written):
    path = tmp_path / "lock"
    lock = FileLock(path)
    lock.acquire()
    path.write_bytes(written)
    with pytest.raises(HeldError) as held:
        FileLock(path).acquire()
    named = os.getpid() if os.path.exists("/proc/locks") else None  # there the system says it
    assert (held.value.pid, held.value.command) == (named, None)
    lock.release()


def test_what_stands_in_the_file_never_decides(tmp_path):
    path = tmp_path / "lock"
    path.write_text(json.dumps({"pid": os.getppid(), "command": "somebody"}))
    lock = FileLock(path)
    lock.acquire()
    lock.release()


def test_a_lock_that_cannot_be_signed_is_held_all_the_same(tmp_path, monkeypatch):
    lock = FileLock(tmp_path / "lock")
    lock.acquire()

    class Full(io.FileIO):
        def write(self, _data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(lock, "_file", Full(lock._file.fileno(), "a+b", closefd=False))
    lock.sign()
    assert lock.held
    lock.release()


def test_a_lock_that_is_forgotten_is_given_back(tmp_path):
    FileLock(tmp_path / "lock").acquire()
    FileLock(tmp_path / "lock").acquire()


def test_ctrl_c_anywhere_leaves_no_lock_that_nobody_has(tmp_path):
    def work():
        lock = FileLock(tmp_path / "lock")
        lock.acquire()
        lock.sign()
        lock.release()

    for _ in interruptions(work, [locks]):
        again = FileLock(tmp_path / "lock")
        again.acquire()
        again.release()


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def closed(store, project) -> Path:
    with store.create(project) as session:
        session.append(user_message("hello"))
    return session


def test_a_session_open_in_another_process_is_locked_naming_pid_and_command(store, closed, start):
    other = start(OPENER, store.root, closed.id)
    with pytest.raises(LockedError) as locked:
        store.open(closed.id)
    assert locked.value.exit_code == 5
    assert locked.value.details["pid"] == other.pid
    assert f"process {other.pid}" in str(locked.value)
    assert locked.value.details["command"] in str(locked.value)
    assert len(store.open(closed.id, read_only=True).messages) == 1
    other.stdin.close()
    other.wait()
    store.open(closed.id).close()


def test_two_stores_of_one_process_exclude_each_other_too(store, closed):
    with store.open(closed.id), pytest.raises(LockedError):
        SessionStore(store.root).open(closed.id)


def test_a_session_whose_owner_was_killed_opens_at_once(store, closed, start):
    other = start(OPENER, store.root, closed.id)
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    with store.open(closed.id) as session:
        session.append(user_message("still here"))
        assert len(session.messages) == 2


def test_a_forked_child_of_the_owner_does_not_keep_the_session(store, closed):
    session = store.open(closed.id)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    session.close()
    SessionStore(store.root).open(closed.id).close()
    os.close(read)
    os.close(write)
    os.waitpid(child, 0)


def test_a_forked_child_cannot_write_into_the_parents_session(store, closed):
    session = store.open(closed.id)
    before = session.path.read_bytes()
    child = os.fork()
    if not child:
        try:
            session.append(user_message("from the child"))
        except LockedError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert session.path.read_bytes() == before
    session.append(user_message("from the parent"))
    session.close()


def test_a_locked_session_is_neither_deleted_nor_rewound(store, closed, start):
    start(OPENER, store.root, closed.id)
    with pytest.raises(LockedError):
        store.delete(closed.id)
    assert closed.path.exists()
    reader = store.open(closed.id, read_only=True)
    assert reader.plan_rewind(1).removed_messages == 1
    from sessions import ConflictError

    with pytest.raises(ConflictError, match="read-only"):
        reader.rewind(1)


def test_a_new_session_takes_the_lock_with_its_first_message(store, project):
    session = store.create(project)
    assert not store.root.exists()
    session.append(user_message("hello"))
    with pytest.raises(LockedError):
        SessionStore(store.root).open(session.id)
    session.close()


def test_ctrl_c_anywhere_in_an_opening_leaves_nobody_who_has_it_open(store, closed):
    def work():
        store.open(closed.id).close()

    for _ in interruptions(work, [locks, ownership, hold, opening, stores]):
        left = store._opening.opened(closed.path)
        if left is not None:  # broken off on its way to the caller, or while it is closed
            left.close()
        with SessionStore(store.root).open(closed.id) as session:
            assert len(session.messages) == 1
