"""A rewind that a crash left unfinished: what readers see, who finishes it, and what came in between."""

import json
import os

import pytest
from agent import make, tree
from scenario import Scenario

from sessions import IncompleteError, SessionStore
from sessions.rewind.log import CaptureLog

NOTICE = b'{"timestamp":"2026-03-01T09:00:00.000Z","id":"msg-late","role":"assistant","blocks":[]}\n'


@pytest.fixture(params=["rewind", "undo"])
def crashed(request, memory_path):
    """The crash came right after the commit point: no file is changed yet."""
    scenario = Scenario(memory_path, changed=3)
    scenario.work = request.param
    scenario.crash_after_the_commit(scenario.work)
    scenario.begins, scenario.ends = ("old", "new") if scenario.work == "rewind" else ("new", "old")
    assert scenario.is_in(scenario.begins)
    return scenario


def test_a_reader_sees_what_was_and_is_told(crashed):
    before = tree(crashed.root)
    with SessionStore(crashed.root).open(crashed.id, read_only=True) as session:
        assert session.path.read_bytes() == crashed.state[1]
        assert [finding.kind for finding in session.findings] == ["unfinished_rewind"]
        assert len(session.history()) == crashed.state[1].count(b'"blocks"')
    assert tree(crashed.root) == before


def test_a_reader_sees_what_was_also_when_the_transcript_is_new_already(crashed):
    old = crashed.state[1]
    child = os.fork()
    if child == 0:
        CaptureLog.append = lambda *_, **__: os._exit(9)  # the step behind the rewrite of the transcript
        try:
            SessionStore(crashed.root).open(crashed.id)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert crashed.state[1] != old, "the transcript was rewritten"
    before = tree(crashed.root)
    with SessionStore(crashed.root).open(crashed.id, read_only=True) as session:
        assert len(session.history()) == old.count(b'"blocks"')
        assert len(session.checkpoints()) == old.count(b'"role":"user"')
        assert [finding.kind for finding in session.findings] == ["unfinished_rewind"]
        scratch = session._source.parent
    assert not scratch.exists()
    assert tree(crashed.root) == before
    crashed.recover()
    assert crashed.side() == crashed.ends
    with SessionStore(crashed.root).open(crashed.id, read_only=True) as session:
        assert len(session.history()) == session.path.read_bytes().count(b'"blocks"')


def test_the_next_opening_finishes_it_and_says_so(crashed):
    with SessionStore(crashed.root).open(crashed.id) as session:
        assert [(finding.kind, finding.action) for finding in session.findings] == [("unfinished_rewind", "finished")]
    assert crashed.side() == crashed.ends
    with SessionStore(crashed.root).open(crashed.id) as session:
        assert session.findings == ()


@pytest.mark.parametrize("how", ["check", "check one", "recover"])
def test_check_finishes_it_and_says_so_once(crashed, how):
    store = SessionStore(crashed.root)
    checks = {"check": store.check, "check one": lambda: store.check(crashed.id), "recover": store.recover}
    (checked,) = checks[how]()
    assert checked.session == crashed.id
    assert len(checked.recovered) == 1
    assert checked.findings == ()
    assert crashed.side() == crashed.ends
    assert [checked.recovered for checked in store.check()] == [()]
    assert store.recover() == []


def test_check_leaves_it_to_the_owner_who_is_alive(crashed):
    with SessionStore(crashed.root).open(crashed.id):
        (checked,) = SessionStore(crashed.root).check()
        assert checked.recovered == ()


def test_a_file_edited_since_the_crash_is_left_alone_and_said(crashed):
    make(crashed.project / "src/0/0.txt", "by hand")
    with SessionStore(crashed.root).open(crashed.id) as session:
        (finding,) = session.findings
        assert finding.kind == "unfinished_rewind"
        assert "src/0/0.txt" in finding.action
    files, transcript = crashed.state
    ends = crashed.new if crashed.ends == "new" else crashed.old
    assert files == ends[0] | {"src/0/0.txt": ("file", b"by hand", files["src/0/0.txt"][2])}
    assert transcript == ends[1]
    crashed.assert_tidy()


def test_what_another_program_appended_since_the_crash_stays_behind_the_new_tail(crashed):
    with open(crashed.path, "ab") as file:
        file.write(NOTICE)
    crashed.recover()
    ends = crashed.new if crashed.ends == "new" else crashed.old
    assert crashed.state == (ends[0], ends[1] + NOTICE)


def test_a_transcript_another_program_rewrote_since_the_crash_is_left_alone_and_said(crashed):
    crashed.path.write_bytes(NOTICE)
    with SessionStore(crashed.root).open(crashed.id) as session:
        (finding,) = session.findings
        assert str(crashed.path) in finding.action
    assert crashed.path.read_bytes() == NOTICE


def test_a_store_that_was_copied_since_the_crash_is_finished_too(crashed):
    """Inodes are others then; what stands in the transcript is read from its bytes."""
    crashed.keep("copy")
    crashed.reset("copy")
    crashed.recover()
    assert crashed.side() == crashed.ends


@pytest.mark.parametrize("damage", ["cut", "garbled", "empty", "of the future"])
def test_an_intent_that_cannot_be_read_stops_writers_and_nobody_else(crashed, damage):
    intent = crashed.sidecar / "intent.json"
    whole = intent.read_bytes()
    changed = {
        "cut": whole[: len(whole) // 2],
        "garbled": whole.replace(b'"kind":"', b'"kind":"x'),
        "empty": b"",
        "of the future": whole.replace(b'"v":1', b'"v":9'),
    }
    intent.write_bytes(changed[damage])
    before = crashed.state
    with pytest.raises(IncompleteError) as incomplete:
        SessionStore(crashed.root).open(crashed.id)
    assert incomplete.value.exit_code == 6
    assert str(intent) in str(incomplete.value)
    (checked,) = SessionStore(crashed.root).check()
    assert [finding.kind for finding in checked.findings] == ["unfinished_rewind"]
    assert len(SessionStore(crashed.root).open(crashed.id, read_only=True).history()) > 0
    assert crashed.state == before
    intent.write_bytes(whole)
    crashed.recover()
    assert crashed.side() == crashed.ends


def test_a_stage_that_is_gone_changes_nothing_and_is_said(crashed):
    (record,) = [path for path in (crashed.sidecar / "undo").iterdir() if not (path / "record.json").exists()]
    stage = (record / "stage.bin").read_bytes()
    os.unlink(record / "stage.bin")
    with pytest.raises(IncompleteError):
        SessionStore(crashed.root).open(crashed.id)
    (record / "stage.bin").write_bytes(stage)
    crashed.recover()
    assert crashed.side() == crashed.ends


def test_the_workdir_missing_at_recovery_makes_nothing_and_loses_nothing(crashed):
    away = crashed.project.with_name("away")
    os.rename(crashed.project, away)
    with pytest.raises(IncompleteError, match="missing"):
        SessionStore(crashed.root).open(crashed.id)
    assert not crashed.project.exists()
    os.rename(away, crashed.project)
    crashed.recover()
    assert crashed.side() == crashed.ends


def test_the_record_says_what_it_is(crashed):
    digest, _, text = (crashed.sidecar / "intent.json").read_bytes().partition(b"\n")
    assert len(digest) == 64
    record = json.loads(text)
    assert (record["v"], record["kind"], record["scope"]) == (1, crashed.work, "both")
