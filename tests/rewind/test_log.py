"""The timeline's log on disk: fragments, damage, several processes and threads."""

import contextlib
import json
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from agent import contents, make
from interrupting import interruptions

from sessions import DataError, SessionStore, locks
from sessions.rewind import log as rewind_log
from sessions.rewind.log import CaptureLog


@pytest.fixture
def worked(agent):
    make(agent.project / "f", "v0")
    for number in (1, 2, 3):
        agent.turn(f"prompt {number}", {"f": f"v{number}"})
    agent.path = agent.sidecar / "timeline.jsonl"
    return agent


def test_a_fragment_a_crash_left_is_ended_and_hides_nothing(worked):
    worked.session.close()
    with open(worked.path, "ab") as log:
        log.write(b'{"v":1,"seq":99,"kind":"befo')
    worked.reopen()
    worked.turn("prompt 4", {"f": "v4"})
    worked.reopen()
    assert b'"befo\n{' in worked.path.read_bytes()
    assert worked.session.check() == []
    worked.session.rewind(4)
    assert contents(worked.project) == {"f": b"v3"}
    worked.session.rewind(1)
    assert contents(worked.project) == {"f": b"v0"}


def test_a_fragment_that_is_a_whole_record_counts(worked):
    worked.session.close()
    whole = worked.path.read_bytes()
    worked.path.write_bytes(whole.removesuffix(b"\n"))
    worked.reopen()
    worked.turn("prompt 4", {"f": "v4"})
    worked.session.rewind(1)
    assert contents(worked.project) == {"f": b"v0"}


def _garble(path, place: int, by: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[place] = by
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("by", [b"\0\0\0\n", b"[]\n", b"null\n", b'{"kind":"before"}\n', b""])
def test_where_a_record_is_lost_files_are_not_taken_back_past_it_and_all_else_works(worked, by):
    """What an edit was may stand in the lost record: a guess would restore the wrong bytes."""
    worked.session.close()
    records = [json.loads(line) for line in worked.path.read_bytes().splitlines()]
    place = next(at for at, record in enumerate(records) if record["kind"] == "before" and record["turn"] == 2)
    _garble(worked.path, place, by)
    worked.reopen()
    assert [finding.kind for finding in worked.session.check()] == ["damaged_record"]
    for target in (1, 2):
        with pytest.raises(DataError) as damaged:
            worked.session.plan_rewind(target)
        assert damaged.value.exit_code == 4
    worked.session.rewind(3)
    assert contents(worked.project) == {"f": b"v2"}
    worked.session.rewind(1, scope="conversation")
    assert worked.session.checkpoints() == []


def test_a_record_of_a_later_version_is_not_read_as_one_of_ours(worked):
    worked.session.close()
    with open(worked.path, "ab") as log:
        log.write(json.dumps({"v": 2, "seq": 10**6, "kind": "before", "turn": 1, "path": "/x"}).encode() + b"\n")
    worked.reopen()
    assert [finding.kind for finding in worked.session.check()] == ["damaged_record"]


def test_a_lost_log_leaves_a_session_that_works(worked):
    worked.session.close()
    worked.path.unlink()
    worked.reopen()
    worked.session.rewind(2)
    assert contents(worked.project) == {"f": b"v3"}
    worked.turn("prompt 2 again", {"f": "v2 again"})
    worked.session.rewind(2)
    assert contents(worked.project) == {"f": b"v3"}


APPENDER = """
    import sys
    from pathlib import Path
    from sessions.rewind.log import CaptureLog
    log = CaptureLog(Path(sys.argv[1]))
    for number in range(100):
        with log.locked():
            log.append([{"kind": "from", "who": sys.argv[2], "number": number}], sync=False)
"""


def test_processes_append_at_once_and_every_record_has_its_own_number(tmp_path):
    log = CaptureLog(tmp_path / "s.ckpt")
    program = [sys.executable, "-c", textwrap.dedent(APPENDER), log.sidecar]
    others = [subprocess.Popen([*program, str(number)]) for number in range(3)]
    for number in range(100):
        with log.locked():
            log.append([{"kind": "from", "who": "here", "number": number}], sync=False)
    assert [other.wait(60) for other in others] == [0, 0, 0]
    records = [json.loads(line) for line in log.path.read_bytes().splitlines()]
    assert [record["seq"] for record in records] == list(range(400))
    for who in ("here", "0", "1", "2"):
        assert [record["number"] for record in records if record["who"] == who] == list(range(100))


def test_a_reader_sees_what_another_store_appends(worked):
    reading = SessionStore(worked.root).open(worked.session.id, read_only=True)
    assert len(reading.checkpoints()) == 3
    worked.turn("prompt 4", {"f": "v4"})
    assert [file.path for file in reading.checkpoints()[3].files] == ["f"]
    worked.session.rewind(2)
    assert len(reading.checkpoints()) == 1
    assert reading.rewinds()[0].state == "done"


@pytest.mark.parametrize("number", range(1, 4))
def test_a_record_that_could_not_be_appended_is_not_half_there(worked, number):
    import errno

    from worst_moments import failing

    before = worked.path.read_bytes()
    log = CaptureLog(worked.sidecar)
    with log.locked():
        with (
            failing(number, errno.ENOSPC, names=("write", "fsync", "open")) as calls,
            pytest.raises(OSError, match="space"),
        ):
            log.append([{"kind": "x"}])
        assert len(calls) >= number
        assert worked.path.read_bytes() == before
        log.append([{"kind": "x"}])
    assert json.loads(worked.path.read_bytes().splitlines()[-1])["kind"] == "x"
    assert os.path.getsize(worked.path) > len(before)


def test_ctrl_c_anywhere_leaves_the_log_to_everybody_and_every_record_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(rewind_log, "_PATIENCE_S", 0)
    log = CaptureLog(tmp_path / "s.ckpt")

    def append(to):
        with to.locked() as timeline:
            to.append([{"kind": "x", "knows": timeline.next_seq}], sync=False)

    def work():
        try:
            append(log)
        except KeyboardInterrupt:
            append(log)  # what an error handler does, before anybody has let go of the exception
            raise

    for _ in interruptions(work, [contextlib, locks, rewind_log]):
        append(CaptureLog(log.sidecar))
        append(log)
    records = [json.loads(line) for line in log.path.read_bytes().splitlines()]
    assert [record["seq"] for record in records] == list(range(len(records)))
    assert [record["knows"] for record in records] == list(range(len(records)))


def test_what_a_reader_has_stays_as_it_is_while_others_record(tmp_path):
    log = CaptureLog(tmp_path)
    with log.locked() as live:
        log.append([{"kind": "turn", "turn": 1, "message_id": "m1", "run_id": None}], sync=False)
        read = log.read()
        log.append([{"kind": "turn", "turn": 2, "message_id": "m2", "run_id": None}], sync=False)
    assert list(read.turns) == [1]
    assert list(live.turns) == list(log.read().turns) == [1, 2]
    assert log.read() is log.read()


def test_a_thread_iterates_the_timeline_while_another_appends_to_it(tmp_path):
    log, errors, done = CaptureLog(tmp_path), [], threading.Event()

    def read():
        try:
            while not done.is_set():
                timeline = log.read()
                seen = 0
                for _turn in timeline.turns.values():
                    time.sleep(0)  # the others run here
                    seen += 1
                assert seen + len(timeline.gaps) == timeline.next_seq
        except (RuntimeError, AssertionError) as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 201):
        begin = {"kind": "turn", "turn": number, "message_id": f"m{number}", "run_id": None}
        with log.locked():
            log.append([begin, {"kind": "gap", "turn": number, "gap": "shell", "paths": []}], sync=False)
    done.set()
    reader.join()
    assert errors == []
