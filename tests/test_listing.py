"""Lists: what a row says and costs, which sessions belong, and that what is kept of them is never believed over a file."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from memory import PEAK_KIB

from sessions import (
    AmbiguousError,
    NotFoundError,
    RequestError,
    SessionStore,
    assistant_message,
    catalog,
    listing,
    paths,
    row_cache,
    user_message,
)
from sessions.row_cache import RowCache
from sessions.transcript import codec, untitled

LATER = 10**9


def _session(store, project, *said, title=None):
    with store.create(project) as session:
        for text in said or ("hello",):
            session.append(user_message(text))
        if title is not None:
            session.set_title(title)
    return session


def _age(path: Path, seconds: int) -> None:
    """Make a file look old enough to be kept in the cache; older by ``seconds`` than others."""
    os.utime(path, ns=((1_700_000_000 - seconds) * LATER, (1_700_000_000 - seconds) * LATER))


def _line(**fields) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _message(text: str, role="user", **more) -> bytes:
    block = {"type": "text", "content": text}
    return _line(timestamp="2026-03-01T09:00:00.000Z", id=f"msg-{text[:20]}", role=role, blocks=[block], **more)


def _header(workdir) -> bytes:
    return _line(type="metadata", workdir=str(workdir), createdAt="2026-03-01T08:00:00.000Z", gitBranch="main")


def _write(store, project, name: str, *content: bytes) -> Path:
    path = paths.project_directory(store.root, project) / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(content))
    return path


@pytest.fixture
def settled(monkeypatch):
    """Let what was written just now be old enough to be kept."""
    monkeypatch.setattr("sessions.row_cache._SETTLED_NS", -(10**18))


@pytest.fixture
def reads(monkeypatch):
    """The transcripts that lists open."""
    from sessions import listing

    opened, real = [], listing.read
    monkeypatch.setattr(listing, "read", lambda place, name: opened.append(name) or real(place, name))
    return opened


# -- what a row says ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_us", [True, False], ids=["written here", "written by others"])
def test_a_title_given_early_is_found_behind_twenty_megabytes(store, project, by_us):
    twin = _session(store, project, "other", title="The same")
    if by_us:
        with store.create(project) as session:
            session.append(user_message("begin"))
            session.set_title("First name")
            session.set_title("The same")
            session.append(assistant_message("x" * 12_000_000))
            for _each in range(40):
                session.append(assistant_message("y" * 200_000))
        path = session.path
    else:
        titles = (_line(type="custom-title", customTitle=text, sessionId="s") for text in ("First name", "The same"))
        long = (_message("y" * 200_000, "assistant") for _each in range(40))
        path = _write(store, project, "foreign", _header(project), *titles, _message("x" * 12_000_000), *long)
    row = next(row for row in store.list(project) if row.path == path)
    assert (row.title, row.given_title) == ("The same", "The same")
    assert [found.title for found in store.list(project, search="the same")] == ["The same", "The same"]
    with pytest.raises(AmbiguousError) as both:
        store.open("The same")
    assert sorted(both.value.details["candidates"]) == sorted([row.id, twin.id])
    with pytest.raises(NotFoundError):
        store.open("First name")


def test_resuming_one_of_two_sessions_with_one_title_writes_nothing_to_the_other(store, project):
    first, second = (_session(store, project, title="Same") for _each in range(2))
    before = second.path.read_bytes()
    with store.open(first.id) as session:
        session.append(user_message("more"))
    assert second.path.read_bytes() == before
    assert first.path.read_bytes().endswith(b"\n")
    assert b"more" in first.path.read_bytes()


@pytest.mark.parametrize(
    ("leading", "title"),
    [
        ([b"x" * 12_000_000], "the prompt"),
        ([_line(type="system", text="s" * 500) for _each in range(10_000)], "the prompt"),
        ([_message("context " * 1000, isMeta=True) for _each in range(700)], "the prompt"),
    ],
    ids=["a 12 MB line that cannot be read", "5 MB of unknown lines", "5 MB of messages for the model only"],
)
def test_a_session_whose_first_prompt_is_far_from_both_ends_is_listed_with_it(store, project, leading, title):
    leading = [line if line.endswith(b"\n") else line + b"\n" for line in leading]
    tail = [_message("answer " * 100, "assistant") for _each in range(200)]
    path = _write(store, project, "s", _header(project), *leading, _message("the prompt"), *tail)
    (row,) = store.list(project)
    assert (row.path, row.title, row.first_prompt) == (path, title, "the prompt")


def test_without_title_and_prompt_a_summary_stands_for_them_and_without_one_nothing(store, project):
    compact = _line(
        timestamp="2026-03-01T09:00:00.000Z",
        id="msg-c",
        role="assistant",
        blocks=[{"type": "compact", "content": "What was done so far"}],
    )
    _write(store, project, "with", _header(project), compact)
    _write(store, project, "without", _header(project), _message("answer", "assistant"))
    assert {row.id: row.title for row in store.list(project)} == {"with": "What was done so far", "without": None}


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 4096, b"{", b"null\n[]\n", b"\xff\xfe\n", b"[" * 200_000 + b"\n", b'{"a":' + b"9" * 5000 + b"}\n"],
)
def test_nothing_in_a_file_keeps_it_out_of_the_list(store, project, content):
    path = _write(store, project, "damaged", content)
    for _each in range(2):
        (row,) = store.list(project)
        assert (row.path, row.workdir) == (path, None)
        assert row.damaged == bool(content)


def test_the_longest_line_that_is_torn_or_nothing_is_not_read_for_a_row(store, project):
    sizes = [
        ("torn", b'{"a":"' + b"x" * 100_000),
        ("nothing", b"\0" * 100_000),
        ("whole", _message("y" * 100_000)[:-1]),
    ]
    for name, end in sizes:
        path = _write(store, project, name, _header(project), _message("begin"), end)
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size + (300 << 20 if name == "nothing" else 0))
    assert {row.id: row.damaged for row in store.list(project)} == {"torn": True, "nothing": True, "whole": False}
    sparse = _write(store, project, "sparse", _header(project))
    os.truncate(sparse, 600 << 20)
    assert _peak_of_list(store, project) < 160 * 1024


def test_blanks_in_front_of_a_prompt_are_no_title(store, project):
    _session(store, project, " \n" * 300 + "begin")
    assert [row.title for row in store.list(project)] == ["begin"]


def test_a_session_is_listed_however_old_it_is(store, project):
    session = _session(store, project)
    os.utime(session.path, (0, 0))
    (row,) = store.list(project)
    assert row.last_active_at.year == 1970


# -- the search for a title is spared ----------------------------------------------------------------------------------


def _long(store, project, title=None):
    with store.create(project) as session:
        session.append(user_message("begin"))
        if title is not None:
            session.set_title(title)
        session.append(assistant_message("z" * 200_000))
    return session


def _searched(monkeypatch):
    from sessions.transcript import scanning

    searches, real = [], scanning.last_title
    monkeypatch.setattr(scanning, "last_title", lambda *given, **more: searches.append(given) or real(*given, **more))
    return searches


def test_a_long_session_left_without_a_title_is_not_searched_for_one(store, project, monkeypatch):
    session = _long(store, project)
    searches = _searched(monkeypatch)
    assert [row.given_title for row in store.list(project)] == [None]
    assert searches == []
    with store.open(session.id):
        pass  # looking takes nothing of it away
    assert [row.given_title for row in store.list(project)] == [None]
    assert searches == []


def test_somebody_else_giving_it_a_title_is_seen_all_the_same(store, project, monkeypatch):
    session = _long(store, project)
    with session.path.open("ab") as file:
        file.write(_line(type="custom-title", customTitle="By another", sessionId="s"))
        file.write(_message("w" * 200_000, "assistant"))
    searches = _searched(monkeypatch)
    assert [row.title for row in store.list(project)] == ["By another"]
    assert len(searches) == 1


def test_a_title_written_over_a_line_in_place_keeping_size_and_times_is_seen(store, project):
    with store.create(project) as session:
        session.append(user_message("begin"))
        session.append(assistant_message("room " * 100))
        session.append(assistant_message("z" * 200_000))
    line = session.path.read_bytes().split(b"\n")[2]
    title = _line(type="custom-title", customTitle="Seen", sessionId="s")[:-2]
    title += b',"x":"' + b"x" * (len(line) - len(title) - 8) + b'"}'
    assert len(title) == len(line)
    keeping_times(session.path, lambda: session.path.write_bytes(session.path.read_bytes().replace(line, title)))
    assert [row.given_title for row in store.list(project)] == ["Seen"]


def test_a_prompt_that_a_rewind_hides_is_none_of_a_session_left_without_a_title(store, project):
    with store.create(project) as session:
        for text in ("hidden", "shown"):
            with session.begin_turn(text):
                session.append(assistant_message("z" * 200_000))
            if text == "hidden":
                session.rewind(session.plan_rewind(session.checkpoints()[0], history="hide"))
    assert (paths.sidecar(session.path) / untitled.NAME).exists()
    assert [row.first_prompt for row in store.list(project)] == ["shown"]


def test_a_session_is_not_damaged_while_a_message_is_being_appended(store, project):
    with store.create(project) as session:
        session.append(user_message("begin"))
        whole = session.path.read_bytes()
        session.path.write_bytes(whole + b'{"timestamp":"2026-')
        assert [row.damaged for row in SessionStore(store.root).list(project)] == [False]
        session.path.write_bytes(whole)
    session.path.write_bytes(whole + b'{"timestamp":"2026-')
    assert [row.damaged for row in store.list(project)] == [True]


def test_that_a_message_is_being_appended_is_not_kept_of_a_session(store, project, settled, monkeypatch):
    session = _session(store, project)
    with session.path.open("ab") as file:
        file.write(b'{"timestamp":"2026-')
    with monkeypatch.context() as patched:
        patched.setattr("sessions.ownership.is_owned", lambda _: True)
        assert [row.damaged for row in store.list(project)] == [False]
    assert [row.damaged for row in store.list(project)] == [True]


def test_a_blank_title_of_another_agent_is_none(store, project):
    _write(store, project, "s", _message("the prompt"), _line(type="custom-title", customTitle="  ", sessionId="s"))
    assert [row.title for row in store.list(project)] == ["the prompt"]


@pytest.mark.parametrize("said", [b"", b"null", b"{", b"[1,2,3]", b"\0" * 2000])
def test_a_damaged_note_says_nothing(store, project, said, monkeypatch):
    session = _long(store, project)
    (paths.sidecar(session.path) / untitled.NAME).write_bytes(said)
    searches = _searched(monkeypatch)
    assert [row.title for row in store.list(project)] == ["begin"]
    assert len(searches) == 1


def test_a_short_session_and_one_with_a_title_leave_no_note(store, project):
    short, titled = _session(store, project), _long(store, project, title="Named")
    assert not paths.sidecar(short.path).exists()
    assert not paths.sidecar(titled.path).exists()


def test_what_is_left_of_a_session_with_a_note_is_swept(store, project):
    session = _long(store, project)
    session.path.unlink()
    store.check()
    assert not paths.sidecar(session.path).exists()


# -- what is kept ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["in memory", "on disk"])
def again(request, root):
    """Return the store to list from once more: the same one, which remembers, or another one, which reads what is kept."""
    return lambda store: store if request.param == "in memory" else SessionStore(root)


def test_a_file_that_did_not_change_is_not_opened_again(store, project, reads, settled, again):
    for number in range(30):
        _session(store, project, f"prompt {number}")
    first = store.list(project)
    assert len(reads) == 30
    assert again(store).list(project) == first
    assert [row.to_json() for row in again(store).list(project)] == [row.to_json() for row in first]
    assert len(reads) == 30


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.open("ab").write(_message("more")),
        os.utime,
        lambda path: path.write_bytes(path.read_bytes().replace(b"hello", b"jello")),
        lambda path: (shutil.copy2(path, f"{path}.new"), os.replace(f"{path}.new", path)),
        lambda path: keeping_times(path, lambda: path.write_bytes(path.read_bytes().replace(b"hello", b"jello"))),
    ],
    ids=[
        *("appended to", "touched", "written over in place", "replaced by a copy with its times"),
        "written over in place, keeping its times",
    ],
)
def test_a_file_that_changed_in_any_way_is_read_again(store, project, reads, settled, again, change):
    session = _session(store, project)
    store.list(project)
    change(session.path)
    (row,) = again(store).list(project)
    assert len(reads) == 2
    assert row.title == ("jello" if b"jello" in session.path.read_bytes() else "hello")
    assert row.last_active_at.timestamp() == pytest.approx(session.path.stat().st_mtime)


def keeping_times(path, work):
    times = path.stat()
    work()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_each_part_of_the_state_counts(store, project, reads, settled, monkeypatch):
    """Of a file with the same times (a file system that keeps coarse ones) the inode tells, and likewise each of them."""
    _session(store, project)
    (row,) = store.list(project)
    kept = row._facts
    for field in ("mtime_ns", "size", "inode", "ctime_ns"):
        known = {row.path.name: list(kept._replace(**{field: getattr(kept, field) + 1}))}
        (found,) = catalog.found_in(kept.directory, known=known)
        assert not catalog.is_known(found), field
    (found,) = catalog.found_in(kept.directory, known={row.path.name: list(kept)})
    assert catalog.is_known(found)


def test_a_file_written_over_within_one_tick_of_the_clock_keeping_its_size_is_never_kept(store, project, reads, again):
    session = _session(store, project)
    store.list(project)
    again(store).list(project)
    assert len(reads) == 2  # written a moment ago: its times would not tell
    assert session.path.exists()


def _cache(store) -> Path:
    (path,) = (store.root / "cache" / "rows").iterdir()
    return path


def rewritten(path, rows):
    """Let a cache say something else, in a form that is right."""
    directory = json.loads(path.read_bytes().partition(b"\n")[0])["of"][0]
    body = codec.dumps(rows)
    path.write_bytes(row_cache._head(directory, body) + b"\n" + body)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"hello", b"wrong")),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2')),
        lambda path: path.write_bytes(b'{"version":1}\n{}'),
        lambda path: path.write_bytes(b"\xff\0" * 5000),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to(path.parents[2] / "settings.toml")),
        lambda path: (path.unlink(), path.symlink_to(path)),
        lambda path: path.parent.chmod(0o500),
        lambda path: os.utime(path, (2**33, 2**33)),
        lambda path: rewritten(path, [[1, 2]]),
        lambda path: rewritten(path, [[]]),
        lambda path: rewritten(path, {"a": 1}),
        lambda path: rewritten(path, 7),
        lambda path: rewritten(path, [[0, ["x"]] + [0] * 15]),
    ],
    ids=[
        *("empty", "cut", "altered", "from the future", "of another shape", "no text", "a directory", "a link"),
        *("a link to itself", "where nothing can be written", "dated in the future"),
        *("rows too short", "empty rows", "no list", "a number", "a name that is none"),
    ],
)
def test_a_damaged_cache_changes_no_result(store, project, settled, damage):
    session = _session(store, project)
    expected = [row.to_json() for row in store.list(project)]
    (store.root / "settings.toml").write_bytes(b"# mine\n")
    damage(_cache(store))
    for each in (SessionStore(store.root), SessionStore(store.root), store):
        assert [row.to_json() for row in each.list(project)] == expected
    session.path.unlink()
    for each in (SessionStore(store.root), store):
        assert each.list(project) == []
    assert (store.root / "settings.toml").read_bytes() == b"# mine\n"


def test_a_store_that_is_told_to_keeps_no_rows(root, project, reads, settled):
    store = SessionStore(root, cache=False)
    _session(store, project)
    for _each in range(2):
        assert len(store.list(project)) == 1
    assert len(reads) == 2
    assert not (root / "cache").exists()


def test_without_a_place_to_keep_rows_lists_work(store, project, settled):
    _session(store, project)
    (store.root / "cache").write_bytes(b"in the way")
    assert len(store.list(project)) == 1
    assert (store.root / "cache").read_bytes() == b"in the way"


def test_what_is_kept_is_private_and_forgets_what_is_gone(store, project, settled):
    keeps, goes = _session(store, project, "stays here"), _session(store, project, "goes away")
    store.list(project)
    assert b"goes away" in _cache(store).read_bytes()
    assert (_cache(store).stat().st_mode & 0o777, (store.root / "cache").stat().st_mode & 0o777) == (0o600, 0o700)
    store.delete(goes.id)
    assert [row.id for row in store.list(project)] == [keeps.id]
    assert b"goes away" not in _cache(store).read_bytes()


def test_a_deletion_leaves_nothing_of_the_session_in_what_is_kept(store, project, settled):
    keeps, goes = _session(store, project, "stays here"), _session(store, project, "goes away")
    store.list(project, children=True)
    assert b"goes away" in _cache(store).read_bytes()
    store.delete(goes.id)
    assert list((store.root / "cache" / "rows").iterdir()) == []
    assert [row.id for row in store.list(project)] == [keeps.id]


def test_threads_that_list_at_once_all_see_everything(store, project, settled):
    expected = {_session(store, project).id for _each in range(40)}
    found, done = [], threading.Event()

    def look():
        while not done.is_set():
            found.append({row.id for row in store.list(project)})

    threads = [threading.Thread(target=look) for _each in range(4)]
    for thread in threads:
        thread.start()
    for path in list(project_files(store, project)):
        os.utime(path)
        found.append({row.id for row in store.list(project)})
    done.set()
    for thread in threads:
        thread.join()
    assert all(each == expected for each in found)


def test_a_child_that_is_forked_in_the_middle_of_lists_lists_too(store, project, settled):
    for _each in range(40):
        _session(store, project)
    done = threading.Event()

    def look():
        while not done.is_set():
            store.list(project)

    threads = [threading.Thread(target=look) for _each in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _each in range(60):
            child = os.fork()
            if child == 0:
                os._exit(0 if len(store.list(project)) == 40 else 1)
            deadline = time.monotonic() + 60
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(child, 9)
                time.sleep(0.001)
            assert ended[1] == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()


def project_files(store, project):
    return paths.project_directory(store.root, project).glob("*.jsonl")


def test_text_that_json_cannot_say_is_read_again_each_time(store, project, reads, settled):
    _write(
        store,
        project,
        "half",
        _header(project),
        rb'{"timestamp":"x","id":"m","role":"user","blocks":[{"type":"text","content":"\ud83d"}]}' + b"\n",
    )
    _session(store, project)
    for _each in range(2):
        assert {row.title for row in store.list(project)} == {"\ud83d", "hello"}
    assert sorted(reads)[-2:] == ["half.jsonl", "half.jsonl"]
    assert len(reads) == 3


def test_a_list_changes_no_session(store, project, settled):
    session = _session(store, project)
    before = (session.path.read_bytes(), session.path.stat().st_mtime_ns, sorted(session.path.parent.iterdir()))
    for scope in ("project", "worktrees", "all"):
        store.list(project, scope=scope, children=True)
    assert before == (session.path.read_bytes(), session.path.stat().st_mtime_ns, sorted(session.path.parent.iterdir()))


# -- which sessions ----------------------------------------------------------------------------------------------------


def test_of_two_sessions_of_one_id_the_latest_is_listed_and_opened(store, project, tmp_path):
    session = _session(store, project)
    copy = tmp_path / "copy"
    copy.mkdir()
    twin = _write(store, copy, session.id, _header(copy), _message("the copy"))
    _age(session.path, 10)
    _age(twin, 5)
    assert [row.title for row in store.list(scope="all")] == ["the copy"]
    assert store.find(session.id) == twin
    assert [row.title for row in store.list(project)] == ["hello"]
    _age(session.path, 0)
    assert [row.title for row in store.list(scope="all")] == ["hello"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("a-b/c", "a/b-c"), ("a b", "a_b"), ("a/b", "a-b")],
)
def test_two_projects_with_one_encoded_name_never_see_each_others_sessions(store, tmp_path, one, other):
    first, second = tmp_path / one, tmp_path / other
    first.mkdir(parents=True)
    second.mkdir(parents=True)
    assert paths.project_directory(store.root, first) == paths.project_directory(store.root, second)
    mine, theirs = _session(store, first, "mine"), _session(store, second, "theirs")
    for scope in ("project", "worktrees"):
        assert [row.id for row in store.list(first, scope=scope)] == [mine.id]
        assert [row.id for row in store.list(second, scope=scope)] == [theirs.id]
    assert store.latest(first).id == mine.id
    assert store.latest(second).id == theirs.id


@pytest.mark.parametrize(
    "name", ["/", "项" * 45 + "/" + "项" * 45, "app-deadbeef", "a\u00a0\u3000b", "-", "projects", "x.ckpt"]
)
def test_a_project_of_any_name_keeps_lists_and_finds_its_sessions(store, tmp_path, name):
    directory = Path("/") if name == "/" else tmp_path / name
    directory.mkdir(exist_ok=True, parents=True)
    session = _session(store, directory, "here", title="Found")
    other = _session(store, tmp_path, "there")
    assert [row.id for row in store.list(directory)] == [session.id]
    assert [row.id for row in store.list(tmp_path)] == [other.id]
    assert {row.id for row in store.list(scope="all")} == {session.id, other.id}
    assert store.latest(directory).workdir == os.path.realpath(directory)
    with store.open("Found") as found:
        assert found.id == session.id


def test_a_directory_whose_name_is_no_text_is_listed(store, tmp_path):
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    directory.mkdir()
    session = _session(store, directory)
    (row,) = store.list(scope="all")
    assert row.path == session.path
    assert [row.id for row in store.list(directory)] == [session.id]


# -- worktrees ---------------------------------------------------------------------------------------------------------


def _git(directory, *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, env=environment, check=True, capture_output=True)


@pytest.fixture
def worktrees(tmp_path):
    """A repository with two worktrees, whose paths begin alike, and beside them strangers whose paths do too."""
    main = tmp_path / "shop"
    main.mkdir()
    _git(main, "init", "-q", "-b", "main")
    _git(main, "commit", "-q", "--allow-empty", "-m", "begin")
    _git(main, "worktree", "add", "-q", str(tmp_path / "shop-fix"))
    _git(main, "worktree", "add", "-q", str(main / "nested" / "deep"))
    return main, tmp_path / "shop-fix", main / "nested" / "deep"


def test_all_worktrees_of_a_repository_are_listed_from_each_of_them_and_nothing_else(store, tmp_path, worktrees):
    sessions = {_session(store, directory).id for directory in worktrees}
    below = worktrees[1] / "src"
    below.mkdir()
    sessions.add(_session(store, below).id)
    for stranger in (tmp_path / "shop-fixed", tmp_path / "shop-", worktrees[0] / "vendor"):
        stranger.mkdir()
        _git(stranger, "init", "-q")
        _session(store, stranger)
    for directory in (*worktrees, below):
        assert {row.id for row in store.list(directory, scope="worktrees")} == sessions
        assert {row.workdir for row in store.list(directory, scope="project")} == {str(directory)}
    assert set(store.worktrees(below)) == {str(each) for each in worktrees}
    assert store.worktrees(below)[0] == str(worktrees[1])


def test_sessions_of_a_worktree_whose_directory_was_removed_are_found(store, worktrees):
    main, fix, _deep = worktrees
    session = _session(store, fix)
    shutil.rmtree(fix)
    assert [row.id for row in store.list(main, scope="worktrees")] == [session.id]
    with store.open(session.id) as found:
        assert found.workdir == str(fix)
        found.append(user_message("on"))
    assert not fix.exists()
    assert session.path.read_bytes().count(b'"on"') == 1
    _git(main, "worktree", "prune")
    assert store.list(main, scope="worktrees") == []
    assert [row.workdir for row in store.list(scope="all")] == [str(fix)]


def test_outside_a_repository_worktrees_are_the_project(store, project):
    session = _session(store, project)
    assert [row.id for row in store.list(project, scope="worktrees")] == [session.id]
    assert store.worktrees(project) == (str(project),)


def test_worktrees_do_not_believe_the_environment(store, project, worktrees, monkeypatch):
    _git(project, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(worktrees[0] / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(worktrees[0]))
    assert store.worktrees(project) == (str(project),)


@pytest.fixture
def old_git(tmp_path, monkeypatch):
    """A git that knows no ``-z`` here, as before 2.36."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    real = shutil.which("git")
    program.write_text(f'#!/bin/sh\nfor word; do [ "$word" = -z ] && exit 129; done\nexec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_git_that_knows_no_z_is_asked_in_its_words(store, worktrees, old_git):
    assert set(store.worktrees(worktrees[1])) == {str(each) for each in worktrees}


def test_the_data_of_a_repository_that_lies_elsewhere_is_no_worktree(store, tmp_path):
    main, other = tmp_path / "main", tmp_path / "other"
    main.mkdir()
    _git(main, "init", "-q", "-b", "main", "--separate-git-dir", str(tmp_path / "data"))
    _git(main, "commit", "-q", "--allow-empty", "-m", "begin")
    _git(main, "worktree", "add", "-q", str(other))
    sessions = {_session(store, directory).id for directory in (main, other)}
    assert store.worktrees(main) == (str(main), str(other))
    assert {row.id for row in store.list(main, scope="worktrees")} == sessions
    assert store.worktrees(other) == (str(other),)  # git says nothing of the main one there


def test_a_submodule_is_a_repository_of_its_own(store, tmp_path):
    source, outer = tmp_path / "source", tmp_path / "outer"
    for directory in (source, outer):
        directory.mkdir()
        _git(directory, "init", "-q", "-b", "main")
        _git(directory, "commit", "-q", "--allow-empty", "-m", "begin")
    _git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(source), "inner")
    inside, outside = _session(store, outer / "inner"), _session(store, outer)
    assert store.worktrees(outer / "inner") == (str(outer / "inner"),)
    assert [row.id for row in store.list(outer / "inner", scope="worktrees")] == [inside.id]
    assert [row.id for row in store.list(outer, scope="worktrees")] == [outside.id]


def test_the_worktrees_of_a_bare_repository_are_its_worktrees(store, tmp_path, worktrees):
    bare, tree = tmp_path / "bare.git", tmp_path / "tree"
    _git(tmp_path, "clone", "-q", "--bare", str(worktrees[0]), str(bare))
    _git(bare, "worktree", "add", "-q", str(tree), "main")
    assert store.worktrees(tree) == (str(tree),)


def test_a_link_that_leads_in_a_circle_is_said_and_stops_nothing(store, project):
    session = _session(store, project, title="Here")
    loop = store.root / "projects" / "loop"
    loop.symlink_to(loop)
    unread = []
    assert [row.id for row in store.list(scope="all", unread=unread)] == [session.id]
    assert [error.filename for error in unread] == [str(loop)]
    assert store.find("Here") == session.path


def test_a_prompt_that_a_rewind_hides_is_no_title_however_long_the_file_grows(store, project):
    with store.create(project) as session:
        session.append(user_message("a secret"))
        session.append(assistant_message("an answer"))
        session.rewind(1, history="hide")
        session.append(user_message("another beginning"))
        for _each in range(2):
            session.append(assistant_message("z" * 200_000))
    assert [row.title for row in store.list(project)] == ["another beginning"]
    with store.open(session.id) as session:
        session.rewind(1, history="rewrite")
        session.undo_rewind()
    assert [row.title for row in store.list(project)] == ["another beginning"]


def test_where_the_current_directory_was_removed_all_sessions_are_listed(store, project, tmp_path, monkeypatch):
    session = _session(store, project)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert [row.id for row in store.list(scope="all")] == [session.id]
    for scope in ("project", "worktrees"):
        with pytest.raises(RequestError, match="was removed"):
            store.list(scope=scope)


def test_what_is_kept_of_projects_that_are_gone_goes_with_a_check(store, project, tmp_path, settled):
    _session(store, project)
    other = _session(store, tmp_path)
    store.list(scope="all")
    place = store.root / "cache" / "rows"
    left = place / ".sessions-0011223344556677.tmp"
    left.write_bytes(b"")
    os.utime(left, (0, 0))
    shutil.rmtree(other.path.parent)
    assert len(list(place.iterdir())) == 3
    store.check()
    assert len(list(place.iterdir())) == 1
    assert [row.title for row in SessionStore(store.root).list(scope="all")] == ["hello"]


def test_a_list_that_began_before_a_deletion_keeps_nothing_of_the_removed_session(store, project, settled):
    keeps, goes = _session(store, project, "stays here"), _session(store, project, "goes away")
    cache = RowCache(str(store.root), str(keeps.path.parent))
    for path in (keeps.path, goes.path):
        cache.keep(listing.read(str(path.parent), path.name))
    store.delete(goes.id)
    cache.save()
    assert b"stays here" in _cache(store).read_bytes()
    assert b"goes away" not in _cache(store).read_bytes()


def test_a_number_that_does_not_fit_is_the_same_from_the_cache(store, project, settled, again):
    usage = {"total_tokens": 10**25 - 1}
    _write(store, project, "s", _header(project), _message("begin"), _message("answer", "assistant", usage=usage))
    for each in (store, again(store)):
        assert [row.total_tokens for row in each.list(project)] == [10**25 - 1]


@pytest.mark.parametrize("name", ["new\nline", "two  spaces", "日本語", "quo'te\"s"])
def test_a_worktree_may_be_called_anything(store, worktrees, tmp_path, name):
    odd = tmp_path / name
    _git(worktrees[0], "worktree", "add", "-q", "-b", "odd", str(odd))
    session = _session(store, odd)
    assert [row.id for row in store.list(worktrees[0], scope="worktrees")] == [session.id]


# -- subagents and numbers ---------------------------------------------------------------------------------------------


def _child(directory: Path, name: str, root: str, parent: str) -> Path:
    header = _line(
        type="metadata", createdAt="2026-03-01T08:00:00.000Z", rootSession=root, parentSession=parent, spawnedBy="m"
    )
    path = directory / f"subagent-{name}.jsonl"
    path.write_bytes(header + _message(name))
    return path


def test_subagents_follow_the_session_they_belong_to_in_a_tree(store, project):
    first, second = _session(store, project, "one"), _session(store, project, "two")
    _age(first.path, 0)
    _age(second.path, 50)
    directory = first.path.parent
    for age, (name, root, parent) in enumerate(
        [
            ("a", first.id, first.id),
            ("b", first.id, "subagent-a"),
            ("c", first.id, "subagent-b"),
            ("d", first.id, first.id),
            ("e", second.id, second.id),
            ("x", "gone", "gone"),
            ("y", first.id, "subagent-y"),
        ]
    ):
        _age(_child(directory, name, root, parent), age)
    rows = [row.id for row in store.list(project, children=True)]
    assert rows == [first.id, *(f"subagent-{name}" for name in "abcd"), second.id, "subagent-e"]
    assert [row.id for row in store.list(project, children=True, limit=1)] == rows[:5]
    assert [row.id for row in store.list(project)] == [first.id, second.id]
    assert [row.id for row in store.list(scope="all", search="subagent")] == []
    assert [row.id for row in store.list(project, search="subagent-d", children=True)] == ["subagent-d"]


def test_a_session_names_its_subagents_before_it_is_deleted_with_them(store, project):
    session, other = _session(store, project), _session(store, project)
    directory = session.path.parent
    for name, root, parent in (
        ("a", session.id, session.id),
        ("b", session.id, "subagent-a"),
        ("c", other.id, other.id),
    ):
        _child(directory, name, root, parent)
    with store.open(session.id, read_only=True) as opened:
        assert opened.subagents() == ["subagent-a", "subagent-b"]
    store.delete(session.id)
    assert sorted(path.name for path in directory.iterdir()) == sorted(["subagent-c.jsonl", other.path.name])


def test_a_hundred_thousand_files_of_subagents_are_not_looked_at(store, project, monkeypatch, reads):
    sessions = {_session(store, project).id for _each in range(11)}
    directory = paths.project_directory(store.root, project)
    strays = _child(directory, "0", "gone", "gone")
    for number in range(1, 2000):
        os.link(strays, directory / f"subagent-{number}.jsonl")
    looked = _count_looks(monkeypatch)
    assert {row.id for row in store.list(project)} == sessions
    assert len(reads) == 11
    assert looked == sorted(f"{each}.jsonl" for each in sessions)


def _count_looks(monkeypatch):
    """Return the names of which the system is asked for the status, sorted as they come in; see the assertion."""
    looked = []
    real = os.scandir

    class Entry:
        def __init__(self, entry):
            self._entry = entry
            self.name, self.path = entry.name, entry.path

        def stat(self):
            looked.append(self.name)
            looked.sort()
            return self._entry.stat()

        def is_dir(self):
            return self._entry.is_dir()

    class Entries:
        def __init__(self, given):
            self._entries = real(given)

        def __enter__(self):
            return map(Entry, self._entries.__enter__())

        def __exit__(self, *why):
            return self._entries.__exit__(*why)

    monkeypatch.setattr("sessions.catalog.os.scandir", Entries)
    return looked


def _peak_of_list(store, project) -> int:
    """Return how much memory a list of a project takes, in KiB."""
    code = (
        "import sys\nfrom sessions import SessionStore\n"
        "store = SessionStore(sys.argv[1]); store.list(sys.argv[1] + '/none', scope='all', limit=1)\n"
        f"base = {PEAK_KIB}\n"
        "assert store.list(sys.argv[2])\n"
        f"print({PEAK_KIB} - base)"
    )
    done = subprocess.run([sys.executable, "-c", code, store.root, project], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_memory_for_a_list_does_not_grow_with_the_files(store, project):
    path = _write(store, project, "large", _header(project), _message("begin"))
    with path.open("ab") as file:
        for _each in range(300):
            file.write(_message("z" * 1_000_000, "assistant"))
    assert _peak_of_list(store, project) < 16 * 1024  # of a file of 300 MB


def test_a_list_in_a_store_made_by_another_version_reads_only_its_own_cache(root, project, settled):
    store = SessionStore(root)
    _session(store, project)
    (root / "cache").mkdir(mode=0o700)
    (root / "cache" / "index.json").write_bytes(b'{"sessions":["gone"]}')
    assert [row.title for row in store.list(project)] == ["hello"]
