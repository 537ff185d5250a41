"""Forking a session: its conversation byte for byte under a new header, a title of its own, and the errors."""

import itertools
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from sessions import DataError, NotFoundError, RequestError, SessionStore, assistant_message, user_message
from sessions import paths as places

sys.path.insert(0, str(Path(__file__).parent / "rewind"))  # worst_moments

from worst_moments import killed_at

ODD = "a\u2028b\u2029c\u0085d\re\x1cf\ud83d"


def lines(session) -> list[bytes]:
    return session.path.read_bytes().split(b"\n")[:-1]


def said(session) -> list[bytes]:
    """The lines that are no header and no title."""
    return [line for line in lines(session) if json.loads(line).get("type") not in {"metadata", "custom-title"}]


def talk(session, *prompts) -> None:
    for prompt in prompts:
        with session.begin_turn(prompt):
            session.append(assistant_message(f"answer to {prompt}", usage={"total_tokens": 100}))


@pytest.fixture
def worked(session):
    talk(session, "one", "two", "three")
    return session


# -- what it is --------------------------------------------------------------------------------------------------------


def test_a_fork_has_every_message_and_is_another_session(worked, store):
    with worked.fork() as fork:
        assert fork.id != worked.id
        assert said(fork) == said(worked)
        assert fork.messages.entries == worked.messages.entries
        talk(fork, "only here")
        assert len(worked.checkpoints()) == 3
    talk(worked, "only there")
    assert [each.prompt for each in fork.checkpoints()] == ["one", "two", "three", "only here"]


def test_its_header_is_its_own_and_names_its_parent(worked, store, project):
    unknown = worked.path.read_bytes().replace(b'"metadata",', b'"metadata","secret":1,', 1)
    worked.path.write_bytes(unknown)
    with worked.fork() as fork:
        header = json.loads(lines(fork)[0])
        assert set(header) == {"type", "workdir", "createdAt", "forkedFrom"}
        assert (header["workdir"], header["forkedFrom"]) == (str(project), worked.id)
        assert fork.created_at > worked.created_at
        assert (fork.forked_from, worked.forked_from) == (worked.id, None)
    with store.open(fork.id) as again, again.fork() as grandchild:
        assert (again.forked_from, grandchild.forked_from) == (worked.id, fork.id)


def test_lists_say_what_a_fork_was_made_from(worked, store, project):
    with worked.fork() as fork:
        pass
    told = {row.id: row.to_json()["forked_from"] for row in store.list(project)}
    assert told == {worked.id: None, fork.id: worked.id}


@pytest.mark.parametrize(("at", "kept"), [(1, 1), (2, 2), (3, 3), (None, 3), ("2", 2)])
def test_it_keeps_the_turns_up_to_and_including_one(worked, at, kept):
    with worked.fork(at) as fork:
        assert said(fork) == said(worked)[: 2 * kept]


def test_the_turn_may_be_named_as_anywhere_else(worked):
    second = worked.checkpoints()[1]
    for at in (second, second.id, second.id[:20]):
        with worked.fork(at) as fork:
            assert [each.prompt for each in fork.checkpoints()] == ["one", "two"]


@pytest.mark.parametrize(
    ("given", "parent", "title"),
    [
        (None, None, None),
        (None, "T", "T (fork)"),
        ("Mine", "T", "Mine"),
        ("Mine", None, "Mine"),
        (None, ODD, f"{ODD} (fork)"),
    ],
)
def test_it_has_a_title_of_its_own(worked, store, given, parent, title):
    if parent is not None:
        worked.set_title(parent)
    with worked.fork(1, title=given) as fork:
        assert fork.title == title
    with store.open(fork.id) as again:
        assert again.title == title
        again.set_title("Another")
    assert worked.title == parent


def test_two_forks_of_one_title_are_both_offered(worked, store):
    worked.set_title("T")
    forks = {worked.fork().id, worked.fork().id}
    with pytest.raises(RequestError) as several:
        store.find("T (fork)")
    assert set(several.value.details["candidates"]) == forks


def test_odd_separators_and_broken_lines_survive_byte_for_byte(worked):
    talk(worked, ODD)
    worked.append(
        {
            "role": "assistant",
            "blocks": [{"type": "tool", "id": "1", "name": "Edit", "parameters": ODD, "stage": "end"}],
        }
    )
    with worked.path.open("ab") as file:
        file.write(b'\x00\xff{"broken\n{"type":"telemetry","n":12345678901234567890123}\n\n')
    parent = worked.path.read_bytes()
    with worked.fork() as fork:
        assert fork.path.read_bytes().partition(b"\n")[2] == parent.partition(b"\n")[2]
        assert len(fork.history()) == len(worked.history())
    assert worked.path.read_bytes() == parent


def test_what_lies_before_a_compaction_comes_along(worked):
    worked.compact("a summary", keep_rounds=1)
    talk(worked, "four")
    with worked.fork() as fork:
        assert said(fork) == said(worked)
        assert fork.messages.entries == worked.messages.entries
        fork.rewind(1)
        assert len(fork.history()) == 0


def test_turns_that_an_event_hides_stay_behind(worked):
    hidden = worked.checkpoints()[1].id
    event = json.dumps({"type": "rollback", "throughTurnId": 2, "reason": "rewind", "messageId": hidden}).encode()
    first = said(worked)[:2]
    with worked.path.open("ab") as file:
        file.write(event + b"\n")
    talk(worked, "two, otherwise")
    with worked.fork() as fork:
        assert said(fork) == [*first, *said(worked)[-2:]]
        assert fork.messages.entries == worked.messages.entries
    with worked.fork(1) as fork:
        assert said(fork) == first


def test_a_torn_last_line_stays_behind_and_the_parent_keeps_it(worked):
    whole = said(worked)
    with worked.path.open("ab") as file:
        file.write(b'{"timestamp":"20')
    damaged = worked.path.read_bytes()
    with worked.fork() as fork:
        assert said(fork) == whole
    assert worked.path.read_bytes() == damaged


def test_a_session_that_was_rewound_to_its_first_prompt_can_be_forked(worked):
    worked.rewind(1)
    with worked.fork() as fork:
        assert len(lines(fork)) == 1
        talk(fork, "anew")
        assert len(fork.checkpoints()) == 1


# -- where it lies -----------------------------------------------------------------------------------------------------


def test_it_lies_beside_its_parent_also_when_the_directory_is_gone(worked, project):
    shutil.rmtree(project)
    with worked.fork() as fork:
        assert fork.path.parent == worked.path.parent
        assert fork.workdir == str(project)
    assert not project.exists()


def test_it_can_work_in_another_directory(worked, store, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    with worked.fork(workdir=tmp_path / "." / "other") as fork:
        assert fork.workdir == json.loads(lines(fork)[0])["workdir"] == str(other)
        assert fork.path.parent == places.project_directory(store.root, other)
    assert [row.id for row in store.list(other)] == [fork.id]


def test_a_fork_of_a_headerless_session_says_the_directory_where_it_is_known(
    worked, store, tmp_path, project, monkeypatch
):
    headerless = b"\n".join(lines(worked)[1:]) + b"\n"
    worked.close()
    worked.path.write_bytes(headerless)
    elsewhere = SessionStore(store.root)
    with elsewhere.open(worked.id, read_only=True) as parent, parent.fork() as fork:
        assert fork.path.read_bytes() == headerless
        assert (fork.workdir, fork.path.parent) == (None, worked.path.parent)
    monkeypatch.chdir(project)
    with elsewhere.open(worked.id, read_only=True) as parent, parent.fork() as fork:
        assert fork.workdir == json.loads(lines(fork)[0])["workdir"] == str(project)
        assert said(fork) == headerless.split(b"\n")[:-1]


def test_a_fork_may_change_the_directories_its_parent_was_opened_with(store, project, tmp_path):
    more = tmp_path / "more"
    more.mkdir()
    with store.create(project, add_dirs=[more]) as session:
        with session.begin_turn("work") as turn, turn.edit(more / "f"):
            (more / "f").write_text("1")
        with session.fork() as fork:
            fork.rewind(1)
    assert not (more / "f").exists()


# -- how it is made ----------------------------------------------------------------------------------------------------


def test_it_is_open_for_writing_and_its_store_hands_out_the_same(worked, store):
    fork = worked.fork()
    assert store.open(fork.id) is fork
    fork.close()
    talk(fork, "still open, as it was handed out twice")
    fork.close()


def test_nobody_else_writes_it_meanwhile(worked, store):
    from sessions import LockedError

    with worked.fork() as fork, pytest.raises(LockedError):
        SessionStore(store.root).open(fork.id)
    SessionStore(store.root).open(fork.id).close()


def test_a_plan_makes_nothing_and_says_what_would_be_made(worked, store, project):
    worked.set_title("T")
    before = sorted(store.root.rglob("*"))
    plan = worked.plan_fork(2)
    assert (plan.title, plan.workdir, plan.messages) == ("T (fork)", str(project), 4)
    assert worked.plan_fork(title="Mine").title == "Mine"
    assert sorted(store.root.rglob("*")) == before
    with worked.fork(2) as fork:
        assert len(fork.history()) == plan.messages


def test_a_session_of_which_nothing_is_written_cannot_be_forked(session, store):
    session.append(user_message("for the model only", is_meta=True))
    with pytest.raises(RequestError, match="nothing of session"):
        session.fork()
    assert not store.root.exists()


@pytest.mark.parametrize("at", [0, 4, -1, "nobody", "99"])
def test_a_checkpoint_that_is_none_is_refused(worked, store, project, at):
    with pytest.raises(NotFoundError):
        worked.fork(at)
    assert len(list(worked.path.parent.iterdir())) == 2


@pytest.mark.parametrize("title", ["", "  ", "x" * 1001])
def test_a_title_that_is_none_is_refused_before_anything_is_made(worked, title):
    with pytest.raises(RequestError, match="title"):
        worked.fork(title=title)
    assert len(list(worked.path.parent.iterdir())) == 2


def test_a_directory_that_is_none_is_refused(worked, tmp_path):
    (tmp_path / "file").write_text("")
    for workdir in (tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(RequestError, match="not a directory"):
            worked.fork(workdir=workdir)


def test_a_large_transcript_is_copied_in_few_ranges_and_not_parsed(worked, monkeypatch):
    """Only lines of an unusual shape are: here the header and the titles."""
    from sessions.transcript import codec, fork

    worked.set_title("T")
    parsed = []
    real = codec.decode
    monkeypatch.setattr(fork.codec, "decode", lambda raw: parsed.append(raw) or real(raw))
    descriptor = os.open(worked.path, os.O_RDONLY)
    copied = fork.survey(descriptor, worked.path.stat().st_size)
    os.close(descriptor)
    assert len(copied.ranges) == 1
    assert len(parsed) == 2


# -- leftovers ---------------------------------------------------------------------------------------------------------


def test_a_deletion_interrupted_anywhere_is_whole_or_finished_by_check(memory_path, project):
    store = SessionStore(memory_path / "root")
    with store.create(project) as session, session.begin_turn("one") as turn, turn.edit("f"):
        (project / "f").write_text("1")
    seen = set()
    for number in itertools.count(1):
        shutil.copytree(store.root, memory_path / "kept")
        killed = killed_at(number, lambda: SessionStore(store.root).delete(session.id))
        there = session.path.exists()
        checked = store.check()
        assert all(not each.findings for each in checked)
        found = sorted(path.name for path in store.root.rglob("*") if path.is_file())
        if there:
            assert not session.path.with_suffix(".ckpt").joinpath("deleted").exists()
            with store.open(session.id) as again:
                assert not again.plan_rewind(1).partial
        else:
            assert found == []
        seen.add(there)
        shutil.rmtree(store.root)
        (memory_path / "kept").rename(store.root)
        if not killed:
            break
    assert number > 8
    assert seen == {True, False}


def test_check_leaves_alone_what_only_looks_like_a_leftover(worked, store, tmp_path):
    """A sidecar whose transcript was moved away holds snapshots; a project may be called like a sidecar."""
    project = tmp_path / "app.ckpt"
    project.mkdir()
    places.project_directory(store.root, project).mkdir()
    with worked.begin_turn("four") as turn, turn.edit("f"):
        pass
    worked.close()
    worked.path.rename(tmp_path / "moved.jsonl")
    before = sorted(store.root.rglob("*"))
    assert store.check() == []
    assert sorted(store.root.rglob("*")) == before


def test_check_removes_an_empty_sidecar_and_one_with_nothing_but_a_lock(worked, store):
    for name in ("a", "b"):
        worked.path.with_name(f"{name}.ckpt").mkdir()
    worked.path.with_name("b.ckpt").joinpath("lock").touch()
    store.check()
    assert sorted(path.name for path in worked.path.parent.iterdir()) == [f"{worked.id}.ckpt", f"{worked.id}.jsonl"]


def test_a_mark_whose_lines_are_gone_is_gone_in_the_fork_too(store, project):
    with store.create(project) as session:
        with session.begin_turn("go") as turn:
            session.append(assistant_message("one"))
            turn.mark("first")
            session.append(assistant_message("two"))
            turn.mark("second")
        session.rewind("1:first", scope="conversation")
        for number in range(3):
            session.append(assistant_message(f"new {number}"))
        with session.fork() as fork:
            for each in (session, fork):
                with pytest.raises(DataError, match="are gone"):
                    each.plan_rewind("1:second")
            fork.rewind("1:first")
            assert [message.text for message in fork.history()] == ["go", "one"]


def test_a_fork_of_a_session_that_lost_undo_records_to_the_limits_is_sound(store, project):
    store.root.mkdir(exist_ok=True)
    (store.root / "settings.toml").write_text("[checkpoints]\nretain_rewinds = 1\n")
    with store.create(project) as session:
        for number in range(3):
            with session.begin_turn("go") as turn, turn.edit("f"):
                (project / "f").write_text(f"f{number}")
        for _ in range(3):
            (project / "f").write_text("by hand")
            session.rewind(2, scope="code")
        with session.fork() as fork:
            assert fork.check() == session.check() == []
