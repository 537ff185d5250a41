"""Where a session belongs, which of several with one id is meant, and rows as references."""

import os
import subprocess

import pytest

from sessions import AmbiguousError, NotFoundError, assistant_message, paths
from sessions.belonging import Belonging, Where
from sessions.repository import may_be_one

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]


def kept(store, directory):
    with store.create(directory) as session:
        session.begin_turn("one").end()
    return session


def copied(session, store, directory):
    """A copy in another project that was written later."""
    copy = paths.transcript_path(store.root, directory, session.id)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(session.path.read_bytes().replace(os.fsencode(session.workdir), os.fsencode(directory)))
    later = session.path.stat().st_mtime_ns + 10**9
    os.utime(copy, ns=(later, later))
    return copy


@pytest.fixture
def other(tmp_path):
    directory = tmp_path / "other"
    directory.mkdir()
    return directory


def test_a_row_names_exactly_its_session(store, project, other):
    session = kept(store, project)
    copy = copied(session, store, other)
    [row], [twin] = store.list(project), store.list(other)
    assert (row.path, twin.path) == (session.path, copy)
    with store.open(session.id, read_only=True) as opened:
        assert opened.path == copy
    with store.open(twin) as opened, store.open(row) as mine:
        assert (opened.path, mine.path) == (copy, session.path)
        mine.append(assistant_message("mine"))
    assert b"mine" in session.path.read_bytes()
    assert b"mine" not in copy.read_bytes()
    with pytest.raises(AmbiguousError):
        store.delete(session.id)
    assert store.delete(row) == session.id
    assert (session.path.exists(), copy.exists()) == (False, True)


def test_a_row_whose_session_is_gone_names_none_though_another_project_has_its_id(store, project, other):
    session = kept(store, project)
    copied(session, store, other)
    [row] = store.list(project)
    store.delete(row)
    for use in (store.open, store.delete):
        with pytest.raises(NotFoundError):
            use(row)


def test_of_several_of_one_id_the_one_of_the_directory_is_found(store, project, other, tmp_path):
    session = kept(store, project)
    copy = copied(session, store, other)
    for reference in (session.id, session.id[:10]):
        assert store.find(reference) == copy
        assert store.find(reference, workdir=tmp_path) == copy
        assert store.find(reference, workdir=project) == session.path


def test_where_a_session_belongs(store, project, other, tmp_path):
    [row] = [kept(store, project) and store.list(project)[0]]
    assert store.belonging(row, project) == Belonging(Where.HERE, str(project))
    assert store.belonging(row, other) == Belonging(Where.ELSEWHERE, str(project))
    assert store.belonging(row) == Belonging(Where.ELSEWHERE, str(project))
    project.rename(tmp_path / "moved")
    assert store.belonging(row, other) == Belonging(Where.GONE, str(project))


def test_a_headerless_session_belongs_where_the_store_keeps_it(store, project, other, tmp_path):
    session = kept(store, project)
    session.path.write_bytes(b"".join(session.path.read_bytes().splitlines(keepends=True)[1:]))
    [row] = store.list(project)
    assert row.workdir is None
    assert store.belonging(row, project) == Belonging(Where.HERE, str(project))
    assert store.belonging(row, other) == store.belonging(row) == Belonging(Where.UNKNOWN, None)
    repository(project, tmp_path / "fix")
    assert store.belonging(row, tmp_path / "fix") == Belonging(Where.WORKTREE, str(project))


def repository(directory, worktree):
    for words in (["init", "-q"], ["commit", "-qm", "x", "--allow-empty"], ["worktree", "add", "-q", str(worktree)]):
        subprocess.run([*GIT, *words], cwd=directory, check=True)


def test_what_lies_around_directories_says_whether_they_may_be_of_one_repository(project, other, tmp_path):
    repository(project, tmp_path / "fix")
    repository(other, tmp_path / "other-fix")
    inside = tmp_path / "fix" / "deep" / "in"
    inside.mkdir(parents=True)
    (tmp_path / "none").mkdir()
    mine, theirs = [project, tmp_path / "fix", inside], [other, tmp_path / "other-fix"]
    assert all(may_be_one(str(one), str(two)) for same in (mine, theirs) for one in same for two in same)
    assert not any(may_be_one(str(one), str(two)) for one in mine for two in [*theirs, tmp_path / "none"])
    (tmp_path / "none" / ".git").write_text("what nobody understands")
    assert may_be_one(str(tmp_path / "none"), str(project))
