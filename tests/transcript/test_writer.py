import errno
import json
import os
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcript_crash import die_at, failing
from transcript_shorthand import line, names, script

from sessions import files
from sessions.errors import RequestError
from sessions.transcript import reader
from sessions.transcript.writer import Writer

HEADER = line("H")
WINDOW = 64 * 1024


@pytest.fixture
def writer(tmp_path):
    return writer_of(tmp_path / "s.jsonl")


def writer_of(path, header=HEADER):
    return Writer(path, sidecar=path.with_suffix(".ckpt"), session_id="s", header=header)


def on_disk(path):
    return path.read_bytes().split(b"\n")[:-1]


def test_a_new_session_is_made_with_its_header_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "projects" / "home" / "s.jsonl"
    writer = writer_of(path)
    assert (writer.size, writer.title) == (0, None)
    writer.append(script("u1 a1"))
    assert on_disk(path) == script("H u1 a1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(parent.stat().st_mode) for parent in (path.parent, path.parent.parent)} == {0o700}
    assert os.listdir(path.parent) == ["s.jsonl"]


def test_a_headerless_session_gets_none(tmp_path):
    writer = writer_of(tmp_path / "s.jsonl", header=None)
    writer.append(script("u1"))
    writer.append(script("a1"))
    assert on_disk(writer.path) == script("u1 a1")


def test_an_empty_file_stays_headerless(writer):
    writer.path.touch()
    writer.append(script("u1"))
    assert on_disk(writer.path) == script("u1")


def test_records_come_with_or_without_their_newline_and_nothing_is_nothing(writer):
    writer.append([line("u1") + b"\n", line("a1")])
    before = writer.path.stat().st_mtime_ns
    writer.append([])
    assert on_disk(writer.path) == script("H u1 a1")
    assert writer.path.stat().st_mtime_ns == before


def test_each_append_is_one_write_and_one_sync(writer):
    writer.append(script("u1"))
    with failing(0, 0, names=("write", "fsync", "ftruncate", "rename")) as called:
        writer.append(script("a1 u2 a2"))
    assert called == ["write", "fsync"]


TORN = {
    "inside a key": b'{"timest',
    "inside a character": line("u9=\u7528")[: line("u9=\u7528").index("\u7528".encode()) + 1],
    "NULs": b"\0" * 5000,
    "no record": b"null",
}


@pytest.mark.parametrize("fragment", TORN.values(), ids=TORN.keys())
def test_a_torn_last_line_is_set_aside_reported_and_glued_to_nothing(writer, fragment):
    writer.append(script("u1 a1"))
    torn_at = writer.size
    with writer.path.open("ab") as file:
        file.write(fragment)
    again = writer_of(writer.path)
    again.append(script("u2"))
    again.append(script("a2"))
    assert on_disk(writer.path) == script("H u1 a1 u2 a2")
    (kept,) = (writer.path.with_suffix(".ckpt") / "torn").iterdir()
    assert (kept.name, kept.read_bytes()) == (f"{torn_at}-1", fragment)
    (finding,) = again.findings
    assert (finding.kind, finding.offset, finding.action) == ("torn_tail", torn_at, f"set aside in {kept}")
    assert names(reader.read_view(writer.path)) == "u1 a1 u2 a2"


def test_a_line_torn_at_the_same_place_again_gets_its_own_name(writer):
    writer.append(script("u1"))
    for fragment in (b"{one", b"{two"):
        start = writer.size
        with writer.path.open("ab") as file:
            file.write(fragment)
        writer.append(script("u2"))
        files.truncate(writer.path, start)
    assert sorted(kept.read_bytes() for kept in (writer.path.with_suffix(".ckpt") / "torn").iterdir()) == [
        b"{one",
        b"{two",
    ]


@pytest.mark.parametrize("last", ["u2", "T:late", "H"])
def test_a_complete_last_line_without_newline_is_kept_and_ended(writer, last):
    writer.append(script("u1 a1"))
    with writer.path.open("ab") as file:
        file.write(line(last))
    again = writer_of(writer.path)
    again.append(script("a2"))
    assert on_disk(writer.path) == script(f"H u1 a1 {last} a2")
    assert again.findings == ()
    assert again.title == ("late" if last == "T:late" else None)


def test_a_file_of_a_fragment_alone_starts_over(writer):
    writer.path.write_bytes(b'{"type":"meta')
    writer.append(script("u1"))
    assert on_disk(writer.path) == script("u1")


def test_what_somebody_else_appended_or_replaced_meanwhile_is_seen(writer):
    writer.append(script("u1"))
    with writer.path.open("ab") as file:
        file.write(line("a1") + b"\n{torn")
    writer.append(script("u2"))
    other = writer.path.with_name("other")
    other.write_bytes(b"".join(raw + b"\n" for raw in script("H u7 T:theirs")))
    os.replace(other, writer.path)
    writer.append(script("u8"))
    assert on_disk(writer.path) == script("H u7 T:theirs u8")
    assert writer.title == "theirs"


def test_the_last_title_wins_and_is_said_with_half_a_surrogate_pair(writer):
    writer.set_title("first")
    writer.set_title("zweite \ud83d\u2028")
    assert writer_of(writer.path).title == "zweite \ud83d\u2028"
    assert json.loads(on_disk(writer.path)[-1]) == {
        "type": "custom-title",
        "customTitle": "zweite \ud83d\u2028",
        "sessionId": "s",
    }
    assert reader.summary(writer.path).title == "zweite \ud83d\u2028"


@pytest.mark.parametrize("text", ["", " \n", "x" * 1001])
def test_a_title_is_neither_empty_nor_longer_than_a_thousand_characters(writer, text):
    with pytest.raises(RequestError, match="title"):
        writer.set_title(text)
    assert not writer.path.exists()
    writer.set_title("x" * 1000)


def title_starts(path):
    data = path.read_bytes()
    return len(data) - data.rindex(b'{"type":"custom-title"')


@settings(max_examples=40)
@given(st.lists(st.one_of(st.integers(1, 70_000), st.sampled_from(["A", "B"]), st.just("reopen")), max_size=30))
def test_after_every_append_the_last_title_starts_within_the_final_64_kib(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("titles") / "s.jsonl"
    writer, title, appended = writer_of(path), None, []
    for step in steps:
        if step == "reopen":
            writer = writer_of(path)
        elif isinstance(step, str):
            writer.set_title(title := step)
        else:
            appended.append(line(f"a{len(appended)}=" + "x" * step))
            writer.append(appended[-1:])
        if title is not None:
            assert title_starts(path) <= WINDOW
            assert writer.title == title == reader.summary(path).title
    if path.exists():
        assert (
            [raw for raw in on_disk(path) if b'"custom-title"' not in raw] == [HEADER, *appended]
            if appended or title
            else True
        )


def test_a_record_of_12_mb_and_the_title_go_out_in_one_write(writer):
    writer.set_title("kept in sight")
    with failing(0, 0, names=("write",)) as called:
        writer.append([line("a1=" + "x" * 12_000_000)])
    assert called == ["write"]
    assert title_starts(writer.path) < 200


def test_the_title_is_not_said_again_before_it_must_be(writer):
    writer.set_title("once")
    for number in range(50):
        writer.append([line(f"a{number}=" + "x" * 1000)])
    assert writer.path.read_bytes().count(b"custom-title") == 1
    for number in range(600):
        writer.append([line(f"b{number}=" + "x" * 1000)])
    assert writer.path.read_bytes().count(b"custom-title") < 15


def test_a_foreign_title_too_long_to_be_kept_in_sight_is_not_repeated_with_every_append(writer):
    writer.path.write_bytes(line("T:" + "y" * 70_000) + b"\n")
    writer.append(script("u1"))
    writer.append(script("u2"))
    assert len(on_disk(writer.path)) == 3


# Failing at every call


def grown(tmp_path, words="H T:t u1 a1"):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(raw + b"\n" for raw in script(words)))
    return path


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("half", [False, True])
def test_an_append_that_fails_at_any_call_leaves_the_file_as_it_was_and_can_be_repeated(tmp_path, error, half):
    for number in (1, 2):
        path = grown(tmp_path)
        before = path.read_bytes()
        writer = writer_of(path)
        with failing(number, error, half=half) as called, pytest.raises(OSError) as caught:
            writer.append(script("u2"))
        assert caught.value.errno == error
        assert called[number - 1] == ("write", "fsync")[number - 1]
        assert path.read_bytes() == before
        writer.append(script("u2"))
        assert on_disk(path) == script("H T:t u1 a1 u2")


def test_a_short_write_is_a_failure_and_leaves_nothing(tmp_path, monkeypatch):
    path = grown(tmp_path)
    before, write = path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[: len(data) // 2]))
    with pytest.raises(OSError, match="could be appended"):
        writer_of(path).append(script("u2"))
    monkeypatch.undo()
    assert path.read_bytes() == before


def test_an_interrupt_in_the_middle_of_an_append_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = grown(tmp_path)
    before = path.read_bytes()

    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer_of(path).append(script("u2"))
    monkeypatch.undo()
    assert path.read_bytes() == before


def turns_500(path):
    """500 turns; where turn 250 starts, the whole, and what a rewind to it leaves."""
    lines = script("H T:named " + " ".join(f"u{n} a{n}" for n in range(1, 501)))
    path.write_bytes(b"".join(raw + b"\n" for raw in lines))
    keep = reader.scan(path).prompts[249].offset
    old = path.read_bytes()
    return keep, old, old[:keep] + line("T:named") + b"\n"


def sound(path, old, new, mode=0o640):
    """The path holds the old or the new file, whole, as it was dressed; nothing beside it looks like a session."""
    assert path.read_bytes() in {old, new}
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert [name for name in os.listdir(path.parent) if name.endswith(".jsonl")] == ["s.jsonl"]
    assert all(name == "s.jsonl" or files.is_temporary(name) for name in os.listdir(path.parent))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_rewind_that_fails_at_any_call_leaves_the_old_file_or_the_new_one_whole(tmp_path, error):
    path = tmp_path / "s.jsonl"
    number, failures = 0, 0
    while True:
        number += 1
        keep, old, new = turns_500(path)
        path.chmod(0o640)
        try:
            with failing(number, error, half=True) as called:
                writer_of(path).rewrite(keep, line("T:named") + b"\n")
        except files.DurabilityUnknownError:
            assert (path.read_bytes(), called[-1]) == (new, "fsync")
        except OSError:
            assert path.read_bytes() == old
        else:
            break
        failures += 1
        sound(path, old, new)
        assert os.listdir(tmp_path) == ["s.jsonl"]
    assert path.read_bytes() == new
    assert failures >= 5  # copy, write, mode, sync, rename, directory


@pytest.mark.parametrize("moment", ["before", "after", "half"])
def test_a_rewind_killed_at_any_call_leaves_the_old_file_or_the_new_one_whole(tmp_path, moment):
    path = tmp_path / "s.jsonl"
    keep, old, _ = turns_500(path)
    seen, number = set(), 0
    while True:
        number += 1
        for name in os.listdir(tmp_path):
            os.unlink(tmp_path / name)
        path.write_bytes(old)
        path.chmod(0o640)
        died = die_at(number, moment, f"rewrite:{keep}:tail\n", path)
        sound(path, old, old[:keep] + b"tail\n")
        seen.add(path.read_bytes() == old)
        if not died:
            break
        writer_of(path).sweep()
        assert os.listdir(tmp_path) == ["s.jsonl"]
    assert seen == {True, False}
    assert number > 6


@pytest.mark.parametrize("moment", ["before", "after", "half"])
def test_an_append_killed_at_any_call_loses_no_earlier_record_and_the_next_one_is_sound(tmp_path, moment):
    number = 0
    while True:
        number += 1
        path = grown(tmp_path)
        died = die_at(number, moment, 'append:{"role"}:{"second"}', path)
        assert path.read_bytes().startswith(b"".join(raw + b"\n" for raw in script("H T:t u1 a1")))
        writer_of(path).append(script("u2 a2"))
        assert names(reader.read_view(path)) == "u1 a1 u2 a2"
        assert on_disk(path)[:4] + on_disk(path)[-2:] == script("H T:t u1 a1 u2 a2")
        if not died:
            break
    assert number > 3


@pytest.mark.parametrize("moment", ["before", "after", "half"])
def test_a_torn_line_is_lost_at_no_moment_of_setting_it_aside(tmp_path, moment):
    fragment = b'{"timestamp":"2026-03-01T09:00'
    number = 0
    while True:
        number += 1
        folder = tmp_path / f"{number}"
        folder.mkdir()
        path = grown(folder)
        before = path.read_bytes()
        path.write_bytes(before + fragment)
        died = die_at(number, moment, "append:{}", path)
        torn = folder / "s.ckpt" / "torn"
        aside = (
            [kept.read_bytes() for kept in torn.iterdir() if not files.is_temporary(kept.name)] if torn.exists() else []
        )
        data = path.read_bytes()
        assert data.startswith(before)
        assert data.startswith(before + fragment) or fragment in aside
        writer_of(path).append(script("u2"))
        assert names(reader.read_view(path)) == "u1 a1 u2"
        if not died:
            break
    assert number > 8


@pytest.mark.parametrize("moment", ["before", "after", "half"])
def test_a_session_whose_making_is_killed_is_whole_or_not_there(tmp_path, moment):
    number = 0
    while True:
        number += 1
        path = tmp_path / f"{number}" / "s.jsonl"
        died = die_at(number, moment, 'append:{"a"}', path)
        assert not path.exists() or path.read_bytes() == b'{"type":"metadata"}\n{"a"}\n'
        if not died:
            break
    assert number > 5


# Rewriting


def test_a_rewrite_keeps_mode_and_link_and_knows_the_file_afterwards(tmp_path):
    target = tmp_path / "elsewhere" / "real.jsonl"
    target.parent.mkdir()
    path = tmp_path / "s.jsonl"
    path.symlink_to(target)
    writer = writer_of(path)
    writer.append(script("u1 a1"))
    keep = writer.size
    writer.append(script("T:late u2"))
    target.chmod(0o644)
    writer.rewrite(keep, b"")
    assert path.is_symlink()
    assert (on_disk(target), writer.title, writer.size) == (script("H u1 a1"), None, keep)
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    writer.append(script("u3"))
    assert on_disk(path) == script("H u1 a1 u3")


def test_a_tail_can_be_written_by_a_function(writer):
    writer.append(script("u1 a1"))
    writer.rewrite(len(HEADER) + 1, lambda target: files.write_all(target, line("u2") + b"\n"))
    assert on_disk(writer.path) == script("H u2")


def test_everything_may_go_and_the_session_stays(writer):
    writer.append(script("u1"))
    writer.rewrite(0, b"")
    assert writer.path.read_bytes() == b""
    writer.append(script("u2"))
    assert on_disk(writer.path) == script("u2")


def test_keeping_more_than_there_is_changes_nothing(writer):
    writer.append(script("u1"))
    before = writer.path.read_bytes()
    with pytest.raises(OSError, match="ended early"):
        writer.rewrite(len(before) + 1, b"")
    assert writer.path.read_bytes() == before
    assert os.listdir(writer.path.parent) == ["s.jsonl"]


SEPARATORS = "one\u2028two\u2029three\u0085four\x1cfive\rsix"


def test_separators_in_texts_survive_append_and_rewrite_byte_for_byte(writer):
    record = line("u1=" + SEPARATORS)
    writer.append([record, line("a1")])
    writer.rewrite(len(HEADER) + 1 + len(record) + 1, b"")
    assert on_disk(writer.path) == [HEADER, record]
    assert reader.scan(writer.path).prompts[0].preview == SEPARATORS
