"""Making, finding, listing, checking and deleting sessions."""

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from sessions import (
    AmbiguousError,
    ConflictError,
    NotFoundError,
    RequestError,
    SessionStore,
    assistant_message,
    paths,
    settings,
    user_message,
)


def _session(store, project, prompt="hello", title=None):
    with store.create(project) as session:
        session.append(user_message(prompt))
        if title is not None:
            session.set_title(title)
    return session


def _touch(session, second: int) -> None:
    os.utime(session.path, ns=(second * 10**9, second * 10**9))


# -- finding -----------------------------------------------------------------------------------------------------------


def test_a_session_is_found_by_id_prefix_and_title(store, project):
    session = _session(store, project, title="Fix the parser")
    _session(store, project)
    for reference in (session.id, session.id[:20], "Fix the parser"):
        with store.open(reference) as found:
            assert found.id == session.id


def test_a_session_without_a_title_is_found_by_what_lists_show_for_it(store, project):
    session = _session(store, project, prompt="Mend the parser")
    assert store.find("Mend the parser") == session.path
    titled = _session(store, project, title="Mend the parser")
    assert store.find("Mend the parser") == titled.path


def test_of_a_session_and_its_copy_neither_is_deleted_by_what_names_both(store, project, tmp_path):
    session = _session(store, project, title="Twin")
    elsewhere = paths.project_directory(store.root, tmp_path) / session.path.name
    elsewhere.parent.mkdir(parents=True, exist_ok=True)
    elsewhere.write_bytes(session.path.read_bytes())
    for reference in (session.id, session.id[:8]):
        with pytest.raises(AmbiguousError):
            store.delete(reference)
    assert session.path.exists()
    assert elsewhere.exists()


def test_a_session_and_its_copy_are_told_apart_by_where_one_is(store, project, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    session = _session(store, project, title="Only here")
    copy = paths.project_directory(store.root, other) / session.path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(
        session.path.read_bytes()
        .replace(str(project).encode(), str(other).encode())
        .replace(b"Only here", b"Elsewhere")
    )
    os.utime(session.path, (0, 0))
    for directory, path in ((project, session.path), (other, copy), (tmp_path, copy)):
        monkeypatch.chdir(directory)
        for reference in (session.id, session.id[:9]):
            assert store.find(reference) == path
    monkeypatch.chdir(project)
    assert store.find("Only here") == session.path
    with store.open(session.id) as opened:
        assert opened.path == session.path


def test_a_row_of_another_store_names_no_session(store, project, tmp_path):
    session = _session(store, project)
    (row,) = store.list(project)
    stranger = SessionStore(tmp_path / "another")
    for work in (stranger.open, stranger.delete, stranger.check):
        for reference in (row, row.path):
            with pytest.raises(RequestError, match="another store"):
                work(reference)
    with pytest.raises(RequestError, match="row of a list"):
        store.open(42)
    with pytest.raises(RequestError, match="no transcript"):
        store.open(session.path.with_suffix(".ckpt"))
    assert session.path.exists()


def test_a_transcript_names_exactly_its_session_by_whatever_path(store, project, tmp_path, monkeypatch):
    session = _session(store, project)
    (tmp_path / "link").symlink_to(store.root)
    monkeypatch.chdir(store.root)
    for path in (
        session.path,
        tmp_path / "link" / session.path.relative_to(store.root),
        session.path.relative_to(store.root),
    ):
        with store.open(path) as opened, store.open(session.id) as same:
            assert opened is same
        assert [checked.session for checked in store.check(path)] == [session.id]
    with SessionStore(tmp_path / "link").open(session.path, read_only=True) as opened:
        assert opened.id == session.id
    with store.create(project) as begun:
        assert store.open(begun.path) is begun
        begun.close()


def test_what_is_no_file_below_the_projects_is_no_transcript(store, project):
    session = _session(store, project)
    outside = store.root / "x.jsonl"
    outside.write_bytes(session.path.read_bytes())
    pipe = session.path.with_name("pipe.jsonl")
    os.mkfifo(pipe)
    session.path.with_name("directory.jsonl").mkdir()
    for path in (
        store.root / "projects" / ".." / "x.jsonl",
        session.path.parent / ".." / ".." / "x.jsonl",
        pipe,
        session.path.with_name("directory.jsonl"),
    ):
        for work in (store.open, store.delete, store.check):
            with pytest.raises(RequestError):
                work(path)
    assert outside.exists()


def test_a_headerless_session_opens_where_the_current_directory_was_removed(store, project, monkeypatch, tmp_path):
    session = _session(store, project)
    session.path.write_bytes(session.path.read_bytes().partition(b"\n")[2])
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with store.open(session.id, read_only=True) as opened:
        assert (opened.workdir, len(opened.messages)) == (None, 1)


def test_a_row_whose_session_went_names_none(store, project):
    session = _session(store, project)
    (row,) = store.list(project)
    session.path.unlink()
    with pytest.raises(NotFoundError):
        store.open(row)


def test_an_id_wins_over_a_prefix_and_a_prefix_over_a_title(store, project):
    first, second = _session(store, project), _session(store, project)
    titled = _session(store, project, title=second.id[:30])
    longer = first.path.rename(first.path.with_name(f"{second.id}-longer.jsonl"))
    assert store.find(second.id) == second.path
    assert store.find(f"{second.id}-l") == longer
    longer.unlink()
    assert store.find(second.id[:30]) == second.path
    second.path.unlink()
    assert store.find(second.id[:30]) == titled.path


def test_two_sessions_with_one_title_are_both_offered_and_neither_is_opened(store, project):
    sessions = [_session(store, project, title="Same") for _each in range(2)]
    with pytest.raises(AmbiguousError) as several:
        store.open("Same")
    assert sorted(several.value.details["candidates"]) == sorted(session.id for session in sessions)
    assert several.value.exit_code == 3


def test_the_beginning_of_two_ids_is_ambiguous(store, project):
    session = _session(store, project)
    os.link(session.path, session.path.with_name(f"{session.id[:8]}-other.jsonl"))
    with pytest.raises(AmbiguousError):
        store.open(session.id[:8])


@pytest.mark.parametrize(
    "reference", ["nothing", "../x", "a/b", "x" * 300, "a\0b", "/etc/passwd", "..", ".", "*", "\ud83d"]
)
def test_what_is_not_a_session_is_not_found_and_nothing_is_made(store, project, reference):
    _session(store, project)
    before = sorted(map(str, store.root.rglob("*")))
    for work in (store.open, store.delete, store.check):
        with pytest.raises(NotFoundError):
            work(reference)
    assert sorted(map(str, store.root.rglob("*"))) == before


def test_an_empty_reference_is_none(store, project):
    _session(store, project)
    with pytest.raises(RequestError):
        store.open("")


def test_a_store_returns_the_session_it_has_open(store, project):
    session = store.create(project)
    assert store.open(session.id) is session
    session.append(user_message("hello"))
    assert store.open(session.id) is session
    assert store.open(session.id, read_only=True) is session
    for _ in range(4):  # one for each time it was handed out
        session.append(user_message("still open"))
        session.close()
    with store.open(session.id) as again:
        assert again is not session


def test_a_reader_does_not_stand_in_the_way_of_a_writer(store, project):
    session = _session(store, project)
    reading = store.open(session.id, read_only=True)
    with store.open(session.id) as writing:
        assert writing is not reading
        writing.append(assistant_message("more"))
        assert len(reading.messages) == 2


# -- listing -----------------------------------------------------------------------------------------------------------


def test_the_one_touched_last_comes_first(store, project):
    sessions = [_session(store, project, prompt=f"prompt {number}") for number in range(3)]
    for second, session in zip((2, 3, 1), sessions, strict=True):
        _touch(session, second)
    assert [row.first_prompt for row in store.list(project)] == ["prompt 1", "prompt 0", "prompt 2"]
    assert [row.id for row in store.list(project, limit=1)] == [sessions[1].id]
    assert store.latest(project).id == sessions[1].id


def test_an_empty_store_lists_nothing(store, project):
    assert store.list(project) == store.list(scope="all") == store.check() == []
    assert store.latest(project) is None


def test_projects_whose_names_collide_do_not_show_each_others_sessions(store, tmp_path):
    first, second = tmp_path / "a-b" / "c", tmp_path / "a" / "b-c"
    for directory in (first, second):
        directory.mkdir(parents=True)
    one, two = _session(store, first), _session(store, second)
    assert one.path.parent == two.path.parent
    assert [row.id for row in store.list(first)] == [one.id]
    assert [row.id for row in store.list(second)] == [two.id]
    assert {row.id for row in store.list(scope="all")} == {one.id, two.id}


def test_a_project_is_the_same_through_a_link(store, project, tmp_path):
    session = _session(store, project)
    (tmp_path / "way").symlink_to(project)
    assert [row.id for row in store.list(tmp_path / "way")] == [session.id]


def test_a_headerless_file_belongs_to_the_project_of_its_directory(store, project):
    session = _session(store, project)
    session.path.write_bytes(session.path.read_bytes().split(b"\n", 1)[1])
    (row,) = store.list(project)
    assert (row.id, row.workdir) == (session.id, None)
    assert store.list(scope="all")[0].to_json()["workdir"] is None


def test_search_looks_at_title_id_branch_and_first_prompt(store, project):
    session = _session(store, project, prompt="Mend the Parser", title="Titel")
    for wanted in ("parser", "TITEL", session.id[3:9]):
        assert [row.id for row in store.list(project, search=wanted)] == [session.id]
    assert store.list(project, search="nothing of it") == []


def test_a_row_says_what_list_prints(store, project):
    session = _session(store, project, prompt="hello")
    (row,) = store.list(project)
    assert set(row.to_json()) == {
        "id", "title", "workdir", "git_branch", "created_at", "last_active_at", "total_tokens", "first_prompt", "path",
        "forked_from", "parent_id", "damaged",
    }  # fmt: skip
    assert row.to_json()["workdir"] == str(project)
    assert row.to_json()["path"] == str(session.path)
    json.dumps(row.to_json())


def test_children_temporaries_and_strangers_are_no_sessions(store, project):
    session = _session(store, project)
    directory = session.path.parent
    for name in ("subagent-x.jsonl", ".sessions-abc.tmp", ".hidden.jsonl", "notes.txt", "sessions-index.json"):
        (directory / name).write_bytes(b"x")
    (directory / "directory.jsonl").mkdir()
    (directory / "dangling.jsonl").symlink_to("nowhere")
    assert [row.id for row in store.list(project)] == [session.id]
    assert [row.id for row in store.list(scope="all")] == [session.id]


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\xff\xfe", b"{", b"[]\n", b"null\n"])
def test_a_damaged_file_is_listed_and_opens(store, project, content):
    session = _session(store, project)
    session.path.write_bytes(content)
    assert [row.id for row in store.list(project)] == [session.id]
    with store.open(session.id) as opened:
        assert len(opened.messages) == 0
        opened.append(user_message("again"))
        assert len(opened.messages) == 1


def test_a_session_of_a_directory_that_is_gone_is_found_and_nothing_is_made_there(store, project):
    session = _session(store, project)
    os.rmdir(project)
    with store.open(session.id) as opened:
        assert opened.workdir == str(project)
        with opened.begin_turn("two") as turn, turn.edit("f") as edit:
            assert edit.gap == "outside"
        opened.rewind(2)
    assert not project.exists()
    assert [row.id for row in store.list(project)] == [session.id]


def test_the_branch_is_kept_and_the_environment_not_believed(store, project, monkeypatch, tmp_path):
    for directory, branch in ((project, "topic/one"), (tmp_path / "other", "elsewhere")):
        directory.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "-q", "-b", branch], cwd=directory, check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    session = _session(store, project)
    assert store.list(project)[0].git_branch == session.git_branch == "topic/one"
    assert json.loads(session.path.read_bytes().splitlines()[0])["gitBranch"] == "topic/one"


def test_outside_a_repository_the_header_has_no_branch(store, project):
    session = _session(store, project)
    assert "gitBranch" not in json.loads(session.path.read_bytes().splitlines()[0])
    assert session.git_branch is None


# -- checking and deleting ---------------------------------------------------------------------------------------------


def test_check_finds_nothing_in_a_whole_session(store, project):
    session = _session(store, project)
    (checked,) = store.check()
    assert (checked.session, checked.findings, checked.recovered) == (session.id, (), ())
    assert checked.to_json() == {"session": session.id, "findings": [], "recovered": []}


def test_check_names_every_damage_and_changes_no_byte(store, project):
    session = _session(store, project)
    damaged = session.path.read_bytes() + b"\0\0\0\nnot json\n" + b'{"torn'
    session.path.write_bytes(damaged)
    (checked,) = store.check(session.id)
    assert [finding.kind for finding in checked.findings] == ["opaque_line", "opaque_line", "torn_tail"]
    assert session.path.read_bytes() == damaged
    assert store.recover() == []


def test_check_reads_what_it_may_not_lock(store, project):
    session = _session(store, project)
    with SessionStore(store.root).open(session.id):
        (checked,) = store.check()
        assert checked.session == session.id


def test_deleting_leaves_nothing_of_it_and_everything_of_the_others(store, project):
    other = _session(store, project)
    before = other.path.read_bytes()
    with store.create(project) as session:
        with session.begin_turn("work") as turn, turn.edit("f"):
            (project / "f").write_text("made")
        session.rewind(1)
    assert store.delete(session.id) == session.id
    assert os.listdir(other.path.parent) == [other.path.name]
    assert other.path.read_bytes() == before
    with pytest.raises(NotFoundError):
        store.open(session.id)


def test_what_a_link_in_place_of_a_sidecar_leads_to_is_left_alone(store, project, tmp_path):
    session = _session(store, project)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"mine")
    paths.sidecar(session.path).symlink_to(outside)
    with pytest.raises(ConflictError, match="symbolic link"):
        store.delete(session.id)
    assert session.path.exists()
    assert (outside / "precious").read_bytes() == b"mine"
    session.path.unlink()
    store.check()
    store.prune()
    assert (outside / "precious").read_bytes() == b"mine"


def test_a_session_open_here_is_deleted_and_closed(store, project):
    from sessions import ConflictError

    session = store.create(project)
    session.append(user_message("hello"))
    store.delete(session.id)
    assert not session.path.exists()
    with pytest.raises(ConflictError):
        session.append(user_message("more"))
    assert store.list(project) == []


def test_a_session_in_a_turn_is_not_deleted(store, project):
    from sessions import BusyError

    session = store.create(project)
    with session.begin_turn("work"), pytest.raises(BusyError):
        store.delete(session.id)
    assert session.path.exists()
    session.close()


def test_the_root_comes_from_the_environment(monkeypatch, tmp_path, project):
    monkeypatch.setenv("SESSIONS_HOME", str(tmp_path / "home"))
    store = SessionStore()
    session = _session(store, project)
    assert Path(tmp_path / "home") in session.path.parents


@pytest.mark.parametrize("said", ["[checkpoints", "checkpoints = 3", "[checkpoints]\nmax_file_bytes = 'a'", "\0"])
def test_damaged_settings_are_said_and_the_default_size_holds(store, project, said):
    session = _session(store, project)
    (store.root / "settings.toml").write_text(said)
    with store.open(session.id) as opened:
        assert [finding.kind for finding in opened.findings] == ["settings"]
        with opened.begin_turn("work") as turn, turn.edit("f") as edit:
            assert edit.gap is None


def test_what_follows_from_damaged_settings_is_what_is_said(store, project):
    session = _session(store, project)
    (store.root / "settings.toml").write_text("[checkpoints]\nretain_turns = -1\nmax_file_bytes = 1\n")
    with store.open(session.id) as opened:
        [finding] = opened.findings
    assert finding.where == "settings.toml: retain_turns is -1, not a number of turns"
    assert finding.action == "until it is mended nothing is limited, but files over 32 MiB are not captured"


def test_a_setting_there_is_not_is_said_and_the_others_count(store, project):
    session = _session(store, project)
    (store.root / "settings.toml").write_text("[checkpoints]\nretain_turn = 1\nmax_file_bytes = 3\nqqq = 'x'\n")
    with store.open(session.id) as opened:
        assert [(finding.where, finding.action) for finding in opened.findings] == [
            ("settings.toml: [checkpoints] has no setting 'retain_turn'", "ignored; is retain_turns meant?"),
            ("settings.toml: [checkpoints] has no setting 'qqq'", "ignored"),
        ]
        (project / "f").write_text("four")
        with opened.begin_turn("work") as turn, turn.edit("f") as edit:
            assert edit.gap is not None
    assert settings.load(store.root).limits == settings.Limits()


def test_settings_that_are_no_text_are_said(store, project):
    session = _session(store, project)
    (store.root / "settings.toml").write_bytes(b"\xff\xfe")
    with store.open(session.id) as opened:
        assert [finding.kind for finding in opened.findings] == ["settings"]


def test_threads_that_open_and_close_one_session_never_wait_for_each_other_for_good(store, project):
    with store.create(project) as session:
        session.begin_turn("hello").end()
    trouble = []

    def work():
        try:
            for _ in range(40):
                with store.open(session.id) as opened:
                    opened.append(assistant_message("hi"))
        except BaseException as error:  # noqa: BLE001 - a thread has nobody to raise it to
            trouble.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert trouble == []
    with store.open(session.id) as opened:
        assert len(opened.history()) == 161


def test_a_root_given_relative_stays_where_it_is_when_the_process_moves(tmp_path, project, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SessionStore(root="here")
    with store.create(project) as session:
        session.append(user_message("hello"))
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        session.append(assistant_message("done"))
    assert [row.path for row in store.list(project)] == [session.path]
    assert session.path.is_relative_to(tmp_path / "here")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_relative_root_is_shown_short_where_that_is_the_same_place(tmp_path, monkeypatch):
    for name in ("real/sub", "project"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "project" / "link").symlink_to(tmp_path / "real" / "sub")
    monkeypatch.chdir(tmp_path / "project")
    assert str(SessionStore("../store").root) == str(tmp_path / "store")
    assert SessionStore("link/../store").root.resolve() == tmp_path / "real" / "store"


def test_a_root_the_environment_gives_relative_is_made_absolute_at_once(tmp_path, project, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIONS_HOME", "here")
    assert SessionStore().root == tmp_path / "here"


def test_the_row_of_a_session_is_the_one_a_list_shows_and_a_removed_one_has_none(store, project):
    with store.create(project) as session:
        with pytest.raises(NotFoundError, match="its transcript is gone"):
            store.row(session)
        session.append(user_message("hello"))
        assert store.row(session).to_json() == store.list(project)[0].to_json()
        session.path.unlink()
        with pytest.raises(NotFoundError, match="its transcript is gone"):
            store.row(session)
