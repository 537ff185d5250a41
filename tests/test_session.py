"""The facade: laziness, order, read-only, what closing leaves, several threads."""

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from interrupting import interruptions

from sessions import (
    BusyError,
    ConflictError,
    DataError,
    RequestError,
    SessionStore,
    assistant_message,
    hold,
    user_message,
)


def _snapshot(directory: Path) -> dict[str, tuple[object, ...]]:
    found = {}
    for parent, directories, names in os.walk(directory):
        for name in [".", *directories, *names]:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            content = Path(path).read_bytes() if stat.S_ISREG(status.st_mode) else None
            found[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_mode, status.st_ino, content)
    return found


@pytest.fixture
def worked(session, project):
    (project / "f").write_text("v1")
    with session.begin_turn("one") as turn, turn.edit("f"):
        (project / "f").write_text("v2")
    session.append(assistant_message("done"))
    session.set_title("A title")
    return session


# -- what is written, and when -----------------------------------------------------------------------------------------


def test_a_session_without_a_message_writes_nothing(store, project):
    with store.create(project) as session:
        assert len(session.messages) == len(session.history()) == 0
        assert session.title is None
        assert session.checkpoints() == session.rewinds() == []
        assert session.findings == ()
    assert not store.root.exists()


def test_meta_messages_and_a_title_wait_for_the_first_real_message(store, project):
    session = store.create(project)
    session.append(user_message("for the model", is_meta=True))
    session.set_title("Early")
    assert session.title == "Early"
    assert not store.root.exists()
    session.append(user_message("hello"))
    lines = [json.loads(line) for line in session.path.read_bytes().splitlines()]
    assert [line.get("type", line.get("role")) for line in lines] == ["metadata", "user", "custom-title", "user"]
    assert lines[1]["isMeta"] is True
    assert session.title == "Early"
    session.close()


def test_what_only_waited_is_gone_with_the_session(store, project):
    with store.create(project) as session:
        session.append(user_message("for the model", is_meta=True))
    assert not store.root.exists()
    assert store.list(project) == []


def test_files_and_directories_are_private(worked, store):
    modes = {}
    for parent, _, names in os.walk(store.root):
        modes[parent] = stat.S_IMODE(os.stat(parent).st_mode)
        for name in names:
            path = os.path.join(parent, name)
            modes[path] = stat.S_IMODE(os.stat(path).st_mode)
    assert {mode for path, mode in modes.items() if os.path.isdir(path)} == {0o700}
    assert {mode for path, mode in modes.items() if os.path.isfile(path)} == {0o600}


def test_an_append_that_fails_leaves_the_file_as_it_was(worked, monkeypatch):
    before = worked.path.read_bytes()
    real = os.write

    def write(fd, data):
        real(fd, bytes(data)[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space"):
            worked.append(assistant_message("more"))
    assert worked.path.read_bytes() == before
    worked.append(assistant_message("more"))
    assert worked.path.read_bytes().startswith(before)
    assert worked.messages[-1].text == "more"


@pytest.mark.parametrize("message", [{}, {"role": "nobody", "blocks": []}, {"role": "user", "blocks": "x"}])
def test_what_is_not_a_message_is_refused_and_nothing_is_written(worked, message):
    before = worked.path.read_bytes()
    with pytest.raises(RequestError):
        worked.append(message)
    assert worked.path.read_bytes() == before


def test_a_message_of_plain_data_keeps_what_we_do_not_know(worked):
    message_id = worked.append(
        {"role": "assistant", "blocks": [{"type": "text", "content": "x", "new": [1]}], "mood": "good"}
    )
    line = json.loads(worked.path.read_bytes().splitlines()[-1])
    assert (line["id"], line["mood"], line["blocks"][0]["new"]) == (message_id, "good", [1])
    assert next(iter(line)) == "timestamp"


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wreck", ["whole", "torn", "opaque", "empty", "no sidecar", "a timeline that is none"])
def test_reading_changes_no_byte_no_time_and_no_lock(worked, store, project, wreck):
    worked.close()
    sidecar = worked.path.with_suffix(".ckpt")
    match wreck:
        case "torn":
            worked.path.write_bytes(worked.path.read_bytes()[:-20])
        case "opaque":
            worked.path.write_bytes(worked.path.read_bytes() + b"\0\0\0\n{\nnull\n")
        case "empty":
            worked.path.write_bytes(b"")
        case "no sidecar":
            import shutil

            shutil.rmtree(sidecar)
        case "a timeline that is none":
            (sidecar / "timeline.jsonl").write_bytes(b'\xff\0{}\n[]\n{"seq":1}\n')
    before = _snapshot(store.root), _snapshot(project)
    reading = SessionStore(store.root)
    session = reading.open(worked.id, read_only=True)
    assert session.read_only
    len(session.messages), len(session.history()), session.title, session.checkpoints(), session.findings
    session.rewinds(), session.check(), session.created_at, session.git_branch, session.workdir
    for checkpoint in session.checkpoints():
        session.plan_rewind(checkpoint, scope="conversation")
        if wreck == "a timeline that is none":
            with pytest.raises(DataError, match="damaged"):
                session.plan_rewind(checkpoint)
        else:
            session.plan_rewind(checkpoint)
    reading.list(project)
    reading.list(scope="all", search="one")
    reading.latest(project)
    session.close()
    assert (_snapshot(store.root), _snapshot(project)) == before
    if wreck == "no sidecar":
        assert not sidecar.exists()


def test_reading_makes_no_sidecar(store, project):
    with store.create(project) as session:
        session.append(user_message("hello"))
    os.rename(session.path, session.path.with_name("copied.jsonl"))
    for _again in range(2):
        with SessionStore(store.root).open("copied", read_only=True) as copied:
            copied.plan_rewind(1)
            copied.checkpoints()
    assert os.listdir(session.path.parent) == ["copied.jsonl"]


def test_opening_and_closing_an_untouched_session_leaves_no_sidecar_and_no_change(store, project):
    with store.create(project) as session:
        session.append(user_message("hello"))
    assert os.listdir(session.path.parent) == [session.path.name]
    before = session.path.read_bytes(), os.stat(session.path).st_mtime_ns
    with store.open(session.id) as again:
        len(again.messages)
        assert again.path.with_suffix(".ckpt").is_dir()
    assert os.listdir(session.path.parent) == [session.path.name]
    assert (session.path.read_bytes(), os.stat(session.path).st_mtime_ns) == before


def test_a_read_only_session_refuses_every_change(worked):
    worked.close()
    reading = SessionStore(worked.path.parents[2]).open(worked.id, read_only=True)
    for work in (
        lambda: reading.append(user_message("x")),
        lambda: reading.begin_turn("x"),
        lambda: reading.set_title("x"),
        lambda: reading.compact("x"),
        lambda: reading.rewind(1),
        reading.undo_rewind,
        reading.redo_rewind,
    ):
        with pytest.raises(ConflictError, match="read-only"):
            work()


def test_a_closed_session_refuses_every_change_and_closing_again_is_harmless(worked):
    worked.close()
    worked.close()
    before = worked.path.read_bytes()
    for work in (
        lambda: worked.append(user_message("x")),
        lambda: worked.begin_turn("x"),
        lambda: worked.rewind(1),
        worked.undo_rewind,
    ):
        with pytest.raises(ConflictError, match="closed"):
            work()
    assert worked.path.read_bytes() == before


def test_damage_is_found_and_said_and_kept(worked, store):
    worked.close()
    whole = worked.path.read_bytes()
    worked.path.write_bytes(whole + b"\0\0\0\n" + b'{"torn')
    reading = SessionStore(store.root).open(worked.id, read_only=True)
    assert {finding.kind for finding in reading.findings} == {"opaque_line", "torn_tail"}
    with SessionStore(store.root).open(worked.id) as session:
        session.append(assistant_message("more"))
        assert worked.path.read_bytes().startswith(whole + b"\0\0\0\n")
        assert [finding.kind for finding in session.findings if "set aside" in finding.action] == ["torn_tail"]
    (kept,) = (worked.path.with_suffix(".ckpt") / "torn").iterdir()
    assert kept.read_bytes() == b'{"torn'


# -- turns -------------------------------------------------------------------------------------------------------------


def test_a_turn_knows_its_prompt_and_number(worked):
    with worked.begin_turn("two", run_id="run-7") as turn:
        assert (turn.index, turn.run_id) == (2, "run-7")
        assert worked.messages[-1].id == turn.message_id
    assert [each.id for each in worked.checkpoints()][1] == turn.message_id


def test_one_turn_at_a_time(worked):
    with worked.begin_turn("two"):
        with pytest.raises(BusyError):
            worked.begin_turn("three")
        assert worked.messages[-1].text == "two"
    worked.begin_turn("three").end()


def test_closing_ends_an_open_turn(worked, store, project):
    turn = worked.begin_turn("two")
    turn.edit("g")
    (project / "g").write_text("made")
    worked.close()
    with store.open(worked.id) as session:
        assert [(file.path, file.status) for file in session.checkpoints()[1].files] == [("g", "created")]
        assert session.plan_rewind(2, on_conflict="refuse").files[0].reason is None


def test_a_turn_ends_once(worked):
    turn = worked.begin_turn("two")
    turn.end()
    log = worked.path.with_suffix(".ckpt") / "timeline.jsonl"
    size = log.stat().st_size
    turn.end()
    worked.close()
    turn.end()
    assert log.stat().st_size == size


@pytest.mark.parametrize("paths", [(), ("",), ("a\0b",), ("ok", "")])
def test_what_is_not_a_path_is_refused_before_the_edit(worked, paths):
    with worked.begin_turn("two") as turn, pytest.raises(RequestError):
        turn.edit(*paths)


def test_a_prompt_can_be_a_whole_message(worked):
    prompt = user_message("typed", message_id="msg-mine")
    with worked.begin_turn(prompt) as turn:
        assert turn.message_id == "msg-mine"
    assert worked.checkpoints()[-1].prompt == "typed"


def test_an_edit_outside_the_directories_is_a_gap(worked, tmp_path, project):
    (tmp_path / "outside").write_text("v1")
    with worked.begin_turn("two") as turn, turn.edit("../outside", "inside") as edit:
        assert edit.gap == "outside"
        (tmp_path / "outside").write_text("v2")
        (project / "inside").write_text("made")
    plan = worked.plan_rewind(2)
    assert [(file.path, file.action, file.reason) for file in plan.files] == [
        (str(tmp_path / "outside"), "skip", "outside"),
        ("inside", "delete", None),
    ]
    assert [gap.kind for gap in plan.gaps] == ["outside"]
    worked.rewind(plan)
    assert (tmp_path / "outside").read_text() == "v2"
    assert not (project / "inside").exists()


# -- compaction and titles ---------------------------------------------------------------------------------------------


def _raise():
    raise RuntimeError("no answer")


@pytest.mark.parametrize(
    ("summarizer", "error"),
    [(lambda _seen: _raise(), RuntimeError), (lambda _seen: "", RequestError), (lambda _seen: " \n", RequestError)],
    ids=["raises", "says nothing", "says white space"],
)
def test_a_summariser_that_fails_leaves_the_file_as_it_was(worked, summarizer, error):
    with worked.begin_turn("two"):
        worked.append(assistant_message("more"))
    before = worked.path.read_bytes()
    with pytest.raises(error):
        worked.compact(summarizer=summarizer)
    assert worked.path.read_bytes() == before
    assert worked.compact("short", keep_rounds=1).compacted


def test_a_summariser_sees_what_the_model_sees(worked):
    with worked.begin_turn("two"):
        worked.append(assistant_message("more"))
    seen = []
    result = worked.compact(
        summarizer=lambda messages: seen.extend(each.text for each in messages) or "short", keep_rounds=0
    )
    assert seen == ["one", "done", "two", "more"]
    assert [message.text for message in worked.messages] == ["short"]
    assert (result.compacted, result.kept_messages) == (True, 0)
    assert [message.text for message in worked.history()] == [*seen, "short"]


def test_nothing_to_compact_writes_nothing(worked):
    before = worked.path.read_bytes()
    result = worked.compact("short", keep_rounds=5)
    assert not result.compacted
    assert worked.path.read_bytes() == before


@pytest.mark.parametrize("options", [{}, {"summary": "x", "summarizer": str}, {"summary": "x", "keep_rounds": -1}])
def test_a_compaction_that_makes_no_sense_is_refused(worked, options):
    with pytest.raises(RequestError):
        worked.compact(**options)


@pytest.mark.parametrize("title", ["", " ", "x" * 1001])
def test_a_title_is_one_to_a_thousand_characters(worked, title):
    before = worked.path.read_bytes()
    with pytest.raises(RequestError):
        worked.set_title(title)
    assert worked.path.read_bytes() == before
    assert worked.title == "A title"


# -- several threads ---------------------------------------------------------------------------------------------------


def test_threads_append_and_edit_at_once_and_nothing_is_lost(session, project):
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        for step in range(10):
            session.append(assistant_message(f"{number}-{step}"))
            with turn.edit(f"{number}/{step}"):
                (project / str(number)).mkdir(exist_ok=True)
                (project / str(number) / str(step)).write_text("made")

    with session.begin_turn("work") as turn, ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    texts = [message.text for message in session.messages]
    assert sorted(texts[1:]) == sorted(f"{number}-{step}" for number in range(8) for step in range(10))
    assert all(json.loads(line) for line in session.path.read_bytes().splitlines())
    records = (session.path.with_suffix(".ckpt") / "timeline.jsonl").read_bytes().splitlines()
    assert [json.loads(record)["seq"] for record in records] == list(range(len(records)))
    assert len(session.plan_rewind(1, on_conflict="keep").files) == 88
    session.rewind(1)
    assert os.listdir(project) == []


def test_a_session_may_be_read_while_another_thread_rewinds(session, project):
    for number in range(30):
        with session.begin_turn(f"prompt {number}") as turn, turn.edit("f"):
            (project / "f").write_text(str(number))
    stop = threading.Event()
    seen = []

    def read() -> None:
        while not stop.is_set():
            seen.append((len(session.messages), len(session.checkpoints()), len(session.rewinds())))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for target in range(30, 10, -1):
            session.rewind(target)
    finally:
        stop.set()
        reader.join()
    assert seen
    assert (project / "f").read_text() == "9"


def test_a_rewind_broken_off_anywhere_lets_the_session_begin_the_next_thing(session):
    for number in (1, 2):
        session.append(user_message(f"prompt {number}"))

    def work():
        session.rewind(2)
        session.undo_rewind()

    for _ in interruptions(work, [hold]):
        if len(session.checkpoints()) == 1:
            session.undo_rewind()
        session.begin_turn("another").end()
        session.rewind(3)
