"""What a resumed session shows of the calls its last host left unfinished, and that nothing is written for it."""

import json
import subprocess
import sys

import pytest

from sessions import SessionStore, assistant_message
from sessions.cli.app import run
from sessions.transcript import reader
from sessions.transcript.interrupted import ERROR


def call(stage, **more):
    return {"type": "tool", "id": "t1", "name": "Bash", "parameters": '{"command":"make"}', "stage": stage, **more}


def left(store, project, stage="running"):
    """A session whose host went away while a tool ran."""
    with store.create(project) as session:
        session.begin_turn("build it").end()
        session.append(assistant_message("Building.", blocks=[call(stage)], message_id="msg-a"))
    return session


@pytest.mark.parametrize("stage", ["start", "streaming", "running"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_call_left_unfinished_is_shown_as_one_that_failed(store, project, stage, read_only):
    path = left(store, project, stage).path
    before = path.read_bytes()
    with store.open(path.stem, read_only=read_only) as session:
        block = session.messages[1].blocks[1]
        assert (block.stage, block.success, block.error) == ("end", False, ERROR)
        assert session.history()[1].blocks[1].stage == stage
        assert session.recent(1)[0].blocks[1].stage == "end"
    assert path.read_bytes() == before


def test_a_call_of_the_host_itself_is_shown_as_it_is(store, project):
    session = left(store, project)
    with store.open(session.id) as session:
        session.append(assistant_message(blocks=[call("running")], message_id="msg-b"))
        assert [message.blocks[-1].stage for message in session.messages[1:]] == ["end", "running"]
        session.append(assistant_message(blocks=[call("end", result="ok", success=True)], message_id="msg-b"))
        assert session.messages[2].blocks[0].success is True
        assert session.messages.repaired == 1


def test_a_call_that_was_saved_while_it_ran_and_ended_later_is_the_one_that_ended(store, project):
    session = left(store, project)
    with store.open(session.id) as session:
        session.append(assistant_message(blocks=[call("end", result="ok", success=True)], message_id="msg-a"))
    with store.open(session.id) as session:
        (block,) = session.messages[1].blocks
        assert (block.success, block.result, block.error) == (True, "ok", None)
        assert session.messages.repaired == 0


def test_a_compaction_says_again_what_the_file_says_and_the_view_is_repaired_again(store, project):
    session = left(store, project)
    with store.open(session.id) as session:
        session.compact("so far")
        assert session.messages.repaired == 1
        assert session.messages.entries[-1].data["blocks"][1]["stage"] == "running"


def test_a_fork_is_told_that_the_call_never_returned_to_it(store, project):
    session = left(store, project)
    with store.open(session.id) as session:
        session.append(assistant_message(blocks=[call("running")], message_id="msg-b"))
        with session.fork() as fork:
            assert fork.messages.repaired == 2


OWNER = """
import sys
from sessions import SessionStore, assistant_message
with SessionStore(sys.argv[1]).open(sys.argv[2]) as session:
    block = {"type": "tool", "id": "t2", "name": "Bash", "parameters": "{}", "stage": "running"}
    session.append(assistant_message(blocks=[block]))
    print("open", flush=True)
    sys.stdin.readline()
"""


def test_while_another_process_has_the_session_open_its_calls_are_still_running(store, project, root):
    session = left(store, project)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(root), session.id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout.readline() == "open\n"
        with SessionStore(root).open(session.id, read_only=True) as reading:
            assert reading.messages[2].blocks[0].stage == "running"
            owner.kill()
            owner.wait()
            assert reading.messages[2].blocks[0].stage == "end"
    finally:
        owner.kill()
        owner.communicate()


@pytest.mark.parametrize("comes", [True, False])
def test_an_owner_that_comes_or_goes_while_the_file_is_read_is_one(store, project, root, monkeypatch, comes):
    session = left(store, project)
    owner = None if comes else store.open(session.id)
    read = reader.read_view

    def slow(path):
        nonlocal owner
        view = read(path)
        if comes:
            owner = store.open(session.id)
        else:
            owner.close()
        return view

    monkeypatch.setattr(reader, "read_view", slow)
    with SessionStore(root).open(session.id, read_only=True) as reading:
        assert reading.messages.repaired == 0
    owner.close()


def test_a_view_says_for_ever_what_it_said_first(store, project):
    session = left(store, project)
    with store.open(session.id) as session:
        session.append(assistant_message(blocks=[call("running")], message_id="msg-b"))
        view = session.messages
        end = session.messages[-1:]
        session.append(assistant_message(blocks=[call("end", result="ok", success=True)], message_id="msg-b"))
        session.append(assistant_message(blocks=[call("running")], message_id="msg-a"))
        assert [message.blocks[-1].stage for message in view[1:]] == ["end", "running"]
        assert (view.repaired, end.repaired) == (1, 0)
        assert [message.blocks[-1].success for message in session.messages[1:]] == [None, True]


def test_a_call_whose_result_could_not_be_written_still_runs(store, project, monkeypatch):
    session = left(store, project)
    with store.open(session.id) as session:
        session.append(assistant_message(blocks=[call("running")], message_id="msg-b"))
        with monkeypatch.context() as full:
            full.setattr(session._writer, "append", refuse)
            with pytest.raises(OSError, match="full"):
                session.append(assistant_message(blocks=[call("end", success=True)], message_id="msg-b"))
            with pytest.raises(OSError, match="full"):
                session.append(assistant_message(blocks=[call("running")], message_id="msg-a"))
        assert [message.blocks[-1].stage for message in session.messages[1:]] == ["end", "running"]


def refuse(_):
    raise OSError(28, "full")


@pytest.mark.parametrize("stage", ["running", "end"])
def test_a_call_that_is_begun_or_ended_while_the_file_is_read_was_not_interrupted(store, project, monkeypatch, stage):
    session = left(store, project, "end")
    with store.open(session.id) as session:
        read = reader.read_view

        def slow(path):
            session.append(assistant_message(blocks=[call("running")], message_id="msg-b"))
            view = read(path)
            if stage == "end":
                session.append(assistant_message(blocks=[call("end", success=True)], message_id="msg-b"))
            return view

        monkeypatch.setattr(reader, "read_view", slow)
        assert session.messages[-1].blocks[-1].stage == "running"


def stages(entries):
    return [entry.data["blocks"][-1]["stage"] for entry in entries]


def test_lines_show_what_messages_show_one_at_a_time(store, project, root):
    session = left(store, project)
    with store.open(session.id) as session:
        session.append(assistant_message(blocks=[call("running")], message_id="msg-b"))
        assert stages(list(session.lines(history=False))[1:]) == ["end", "running"]
        assert stages(list(session.lines(history=True))[1:]) == ["running", "running"]
        with SessionStore(root).open(session.id, read_only=True) as reading:
            assert stages(list(reading.lines(history=False))[1:]) == ["running", "running"]


def test_lines_of_an_owner_that_comes_while_they_are_read_are_still_running(store, project, root):
    session = left(store, project)
    with SessionStore(root).open(session.id, read_only=True) as reading:
        view = reading.lines(history=False)
        next(view)
        with store.open(session.id):
            assert stages(view) == ["running"]


def test_a_view_of_no_messages_has_none(store, project):
    session = left(store, project)
    with store.open(session.id) as session:
        assert len(session.recent(0)) == 0
        session.begin_turn("again").end()
        prompt = session.checkpoints()[-1]
        session.rewind(prompt, history="hide")
        assert len(session.messages) == 2
        assert len(session.recent(0)) == 0


def test_show_prints_the_view_and_the_history_as_the_file_has_it(store, project, root, capfd):
    session = left(store, project)
    assert run(["show", session.id, "--root", str(root), "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)["messages"]
    assert shown[1]["blocks"][1]["error"] == ERROR
    assert run(["show", session.id, "--root", str(root), "--json", "--history"]) == 0
    assert json.loads(capfd.readouterr().out)["messages"][1]["blocks"][1]["stage"] == "running"
    assert run(["show", session.id, "--root", str(root)]) == 0
    assert "interrupted: the session ended" in capfd.readouterr().out
