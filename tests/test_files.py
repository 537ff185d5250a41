import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from sessions import copying, files

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
needs_xattrs = pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")


def content(text):
    return lambda descriptor: files.write_all(descriptor, text)


def listing(directory):
    return sorted(os.listdir(directory))


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


@pytest.fixture(autouse=True)
def no_descriptor_is_leaked():
    if sys.platform != "linux":
        yield
        return
    before = set(listing("/proc/self/fd"))
    yield
    assert set(listing("/proc/self/fd")) <= before  # what an earlier test left may be closed meanwhile


def failing(monkeypatch, name, error, *, at=1):
    """Let the ``at``-th call of ``os.<name>`` fail."""
    original, calls = getattr(os, name), []

    def call(*args, **kwargs):
        calls.append(args)
        if len(calls) == at:
            raise OSError(error, os.strerror(error))
        return original(*args, **kwargs)

    monkeypatch.setattr(os, name, call)


# Replacing


def test_a_file_is_replaced_whole_and_nothing_else_is_left(old):
    files.rewrite(old, content(b"new"))
    assert old.read_bytes() == b"new"
    assert listing(old.parent) == ["file"]


def test_a_new_file_is_for_its_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        files.rewrite(tmp_path / "new", content(b"x"))
        files.rewrite(tmp_path / "open", content(b"x"), mode=0o666)
    finally:
        os.umask(before)
    assert (mode(tmp_path / "new"), mode(tmp_path / "open")) == (0o600, 0o666)


@pytest.mark.parametrize("bits", [0o644, 0o400, 0o755, 0o2640])
def test_the_mode_of_the_replaced_file_is_kept_unless_another_is_given(old, bits):
    old.chmod(bits)
    files.rewrite(old, content(b"new"))
    assert mode(old) == bits
    files.rewrite(old, content(b"newer"), mode=0o604)
    assert mode(old) == 0o604


@needs_root
def test_the_owner_of_the_replaced_file_is_kept_and_a_set_id_bit_with_it(old):
    os.chown(old, 12345, 23456)
    old.chmod(0o4755)
    files.rewrite(old, content(b"new"))
    assert (old.stat().st_uid, old.stat().st_gid, mode(old)) == (12345, 23456, 0o4755)


@needs_root
def test_an_owner_that_cannot_be_kept_is_no_reason_to_fail(old, monkeypatch):
    os.chown(old, 12345, 23456)
    failing(monkeypatch, "fchown", errno.EPERM)
    files.rewrite(old, content(b"new"))
    assert (old.read_bytes(), old.stat().st_uid, old.stat().st_gid) == (b"new", 0, 23456)


@needs_xattrs
def test_extended_attributes_of_the_replaced_file_are_kept(old):
    try:
        os.setxattr(old, "user.origin", b"\0here")
    except OSError:
        pytest.skip("this file system has none")
    files.rewrite(old, content(b"new"))
    files.rewrite(os.fsencode(old), content(b"newer"))
    assert os.getxattr(old, "user.origin") == b"\0here"


def test_a_link_survives_and_its_target_is_replaced(old, tmp_path):
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link"
    link.symlink_to("../file")
    files.rewrite(link, content(b"new"))
    assert (os.readlink(link), old.read_bytes()) == ("../file", b"new")
    assert listing(link.parent) == ["link"]


def test_a_dangling_link_gets_its_target(tmp_path):
    (tmp_path / "link").symlink_to("missing")
    files.rewrite(tmp_path / "link", content(b"new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "missing").read_bytes() == b"new"


def test_inside_a_directory_descriptor_a_link_is_itself_replaced(old):
    link = old.with_name("link")
    link.symlink_to("file")
    old.chmod(0o666)
    directory = os.open(old.parent, os.O_RDONLY)
    try:
        files.rewrite("link", content(b"new"), dir_fd=directory)
    finally:
        os.close(directory)
    assert (link.is_symlink(), link.read_bytes(), old.read_bytes(), mode(link)) == (False, b"new", b"old", 0o600)


def test_a_change_of_directory_or_a_renamed_parent_meanwhile_changes_nothing(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    (here / "file").write_bytes(b"old")
    monkeypatch.chdir(here)

    def moving(descriptor):
        files.write_all(descriptor, b"new")
        os.chdir(tmp_path)
        here.rename(tmp_path / "there")

    files.rewrite("file", moving)
    assert (tmp_path / "there" / "file").read_bytes() == b"new"
    assert listing(tmp_path) == ["there"]
    assert listing(tmp_path / "there") == ["file"]


def test_names_that_are_no_text_and_path_objects_and_bytes_are_names(tmp_path):
    files.rewrite(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")), content(b"a"))
    files.rewrite(os.fsencode(tmp_path) + b"/\xfe", content(b"b"))
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [b"\xfe", b"\xff"]


def test_while_it_is_written_the_temporary_bears_a_name_we_recognise_or_the_one_given(old):
    seen = []
    files.rewrite(old, lambda _: seen.append(listing(old.parent)))
    files.rewrite(old, lambda _: seen.append(listing(old.parent)), temp_name=".sessions-mine.tmp")
    (temporary,) = set(seen[0]) - {"file"}
    assert files.is_temporary(temporary)
    assert seen[1] == [".sessions-mine.tmp", "file"]


def test_a_temporary_that_is_already_there_is_not_taken_over(old):
    taken = old.with_name(".sessions-mine.tmp")
    taken.write_bytes(b"somebody's")
    with pytest.raises(FileExistsError):
        files.rewrite(old, content(b"new"), temp_name=taken.name)
    assert (taken.read_bytes(), old.read_bytes()) == (b"somebody's", b"old")


@pytest.mark.parametrize("raised", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ValueError("mine")])
def test_whatever_the_content_raises_passes_through_and_the_old_file_is_whole(old, raised):
    def half(descriptor):
        files.write_all(descriptor, b"ne")
        raise raised

    with pytest.raises(type(raised)):
        files.rewrite(old, half)
    assert old.read_bytes() == b"old"
    assert listing(old.parent) == ["file"]


@pytest.mark.parametrize("step", ["open", "write", "fchmod", "fsync", "rename", "stat"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_a_step_that_fails_leaves_the_old_file_and_no_temporary(old, monkeypatch, step, error):
    for at in (1, 2) if step == "open" else (1,):
        with monkeypatch.context() as patch:
            failing(patch, step, error, at=at)
            with pytest.raises(OSError) as caught:
                files.rewrite(old, content(b"new"))
        assert caught.value.errno == error
        assert not isinstance(caught.value, files.DurabilityUnknownError)
        assert old.read_bytes() == b"old"
        assert listing(old.parent) == ["file"]


def test_a_directory_that_cannot_be_synced_leaves_the_new_file_and_says_that_nobody_knows(old, monkeypatch):
    failing(monkeypatch, "fsync", errno.EIO, at=2)
    with pytest.raises(files.DurabilityUnknownError, match="the new file is live") as caught:
        files.rewrite(old, content(b"new"))
    assert caught.value.errno == errno.EIO
    assert old.read_bytes() == b"new"
    assert listing(old.parent) == ["file"]


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_directories_is_taken_at_its_word(old, monkeypatch, error):
    failing(monkeypatch, "fsync", error, at=2)
    files.rewrite(old, content(b"new"))
    assert old.read_bytes() == b"new"


def test_the_directory_is_synced_after_the_rename_unless_the_caller_does_that_itself(old, monkeypatch):
    calls = []
    for name in ("fsync", "rename"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, o=original, **k: (calls.append(n), o(*a, **k))[1])
    files.rewrite(old, content(b"new"))
    files.rewrite(old, content(b"newer"), sync_directory=False)
    assert calls == ["fsync", "rename", "fsync", "fsync", "rename"]


def test_a_missing_directory_is_an_error_and_a_directory_is_not_replaced(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.rewrite(tmp_path / "no" / "file", content(b"x"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        files.rewrite(tmp_path / "folder", content(b"x"))
    assert listing(tmp_path) == ["folder"]


# Appending and cutting


def test_an_append_returns_where_it_starts(old):
    assert files.append(old, b" and new") == 3
    assert old.read_bytes() == b"old and new"


def test_an_append_makes_no_file_unless_told_to(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.append(tmp_path / "new", b"x")
    assert files.append(tmp_path / "new", b"x", create=True) == 0
    assert (mode(tmp_path / "new"), (tmp_path / "new").read_bytes()) == (0o600, b"x")


@pytest.mark.parametrize(("step", "error"), [("write", errno.ENOSPC), ("fsync", errno.EIO), ("fsync", errno.EDQUOT)])
def test_an_append_that_fails_leaves_the_file_as_it_was(old, monkeypatch, step, error):
    failing(monkeypatch, step, error)
    with pytest.raises(OSError) as caught:
        files.append(old, b"new")
    assert caught.value.errno == error
    assert old.read_bytes() == b"old"


def test_an_append_that_can_not_even_be_taken_back_says_both(old, monkeypatch):
    failing(monkeypatch, "fsync", errno.EIO)
    failing(monkeypatch, "ftruncate", errno.EROFS)
    with pytest.raises(OSError) as caught:
        files.append(old, b"new")
    assert caught.value.errno == errno.EIO
    assert any("3 bytes failed" in note for note in caught.value.__notes__)


def test_a_failed_sync_is_never_taken_for_a_good_one_by_a_second_try(old, monkeypatch):
    calls = []

    def fsync(descriptor):
        calls.append(descriptor)
        raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError):
        files.append(old, b"new")
    assert len(calls) == 1


def test_a_cut_is_durable(old):
    files.truncate(old, 1)
    assert old.read_bytes() == b"o"


# Copying


@pytest.fixture
def pair(tmp_path):
    (tmp_path / "source").write_bytes(bytes(range(256)) * 9000)
    source = os.open(tmp_path / "source", os.O_RDONLY)
    target = os.open(tmp_path / "target", os.O_RDWR | os.O_CREAT)
    yield source, target, (tmp_path / "target").read_bytes
    os.close(source)
    os.close(target)


WAYS = {"in the kernel": (), "between files": ("copy_file_range",), "by hand": ("copy_file_range", "sendfile")}


@pytest.mark.parametrize("missing", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("error", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_a_range_is_copied_whole_whichever_way_works(pair, monkeypatch, missing, error):
    source, target, copied = pair
    for name in missing:
        failing(monkeypatch, name, error)
    os.write(target, b"before ")
    files.copy_range(source, target, 300, 2_000_000)
    assert copied() == b"before " + (bytes(range(256)) * 9000)[300:2_000_300]
    assert os.lseek(source, 0, os.SEEK_CUR) == 0


def test_a_way_that_stops_early_is_taken_over_by_the_next(pair, monkeypatch):
    source, target, copied = pair
    whole, calls = os.copy_file_range, []

    def a_little(source, target, count, offset):
        calls.append(count)
        return whole(source, target, 1000, offset) if len(calls) < 3 else 0

    monkeypatch.setattr(os, "copy_file_range", a_little)
    files.copy_range(source, target, 0, 5000)
    assert copied() == (bytes(range(256)) * 9000)[:5000]


def test_a_source_that_ends_early_is_an_error(pair):
    source, target, _ = pair
    with pytest.raises(OSError, match="ended early"):
        files.copy_range(source, target, 2_303_000, 2000)


def test_a_full_disk_is_not_tried_again_another_way(pair, monkeypatch):
    source, target, copied = pair
    failing(monkeypatch, "copy_file_range", errno.ENOSPC)
    with pytest.raises(OSError) as caught:
        files.copy_range(source, target, 0, 100)
    assert (caught.value.errno, copied()) == (errno.ENOSPC, b"")


def test_the_parts_of_this_module_are_handed_on():
    assert (files.copy_range, files.write_all) == (copying.copy_range, copying.write_all)


# Directories and links


def test_directories_are_made_for_their_owner_alone_and_existing_ones_left_as_they_are(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    synced = []
    original = os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda descriptor: (synced.append(os.readlink(f"/proc/self/fd/{descriptor}")), original(descriptor))[1],
    )
    files.make_directory(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / part) for part in ("", "a", "a/b", "a/b/c")] == [0o755, 0o700, 0o700, 0o700]
    assert synced == [str(tmp_path / part) for part in ("", "a", "a/b")]
    files.make_directory(tmp_path / "a" / "b" / "c")
    assert len(synced) == 3


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_file_in_the_way_of_a_directory_is_an_error(old, inside):
    with pytest.raises((FileExistsError, NotADirectoryError)):
        files.make_directory(old / inside)
    assert old.read_bytes() == b"old"


def test_our_temporaries_are_swept_and_nothing_else(tmp_path):
    mine = [".sessions-1.tmp", ".sessions-s.jsonl.2.tmp"]
    others = [".sessions-x", "sessions-1.tmp", ".tmp", "s.jsonl", ".sessions-folder.tmp"]
    for name in [*mine, *others[:-1]]:
        (tmp_path / name).touch()
    (tmp_path / others[-1]).mkdir()
    assert files.sweep_temporaries(tmp_path, among=lambda name: "jsonl" in name) == mine[1:]
    assert files.sweep_temporaries(tmp_path) == mine[:1]
    assert listing(tmp_path) == sorted(others)
    assert files.sweep_temporaries(tmp_path / "missing") == []


def test_temporaries_are_swept_in_an_open_directory_and_a_link_is_unlinked_not_followed(old):
    old.with_name(".sessions-1.tmp").symlink_to("file")
    directory = os.open(old.parent, os.O_RDONLY)
    try:
        assert files.sweep_temporaries(directory) == [".sessions-1.tmp"]
    finally:
        os.close(directory)
    assert listing(old.parent) == ["file"]


def test_a_file_becomes_a_link_in_one_step_or_stays(old, monkeypatch):
    directory = os.open(old.parent, os.O_RDONLY)
    try:
        with monkeypatch.context() as patch:
            failing(patch, "rename", errno.EIO)
            with pytest.raises(OSError):
                files.replace_link("file", "target", dir_fd=directory, temp_name=".sessions-l.tmp")
        assert (old.read_bytes(), listing(old.parent)) == (b"old", ["file"])
        files.replace_link("file", "target", dir_fd=directory, temp_name=".sessions-l.tmp")
    finally:
        os.close(directory)
    assert (os.readlink(old), listing(old.parent)) == ("target", ["file"])
