"""A session over its life: compactions, rewinds, reopening, and an outline that follows a growing file."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcript_shorthand import Naive, line, names, script

from sessions.transcript import collapse, reader, scanning, titles
from sessions.transcript.writer import Writer

NOW = "2026-03-01T10:00:00.000Z"


def writer_of(path):
    return Writer(path, sidecar=path.with_suffix(".ckpt"), session_id="s", header=line("H"))


def compact(path, summary):
    writer_of(path).append(collapse.compaction_lines(reader.read_view(path), summary, now=NOW))


def rewind(path, prompt_id):
    outline = reader.scan(path)
    cut = next(prompt.offset for prompt in outline.prompts if prompt.id == prompt_id)
    tail = titles.restated(reader.survey_tail(path, cut, header=outline.header).kept, outline.title, cut)
    writer_of(path).rewrite(cut, tail)


def turns(first, last):
    return script(" ".join(f"u{n} a{n}" for n in range(first, last + 1)))


def shown(path):
    return " ".join(entry.id if len(entry.id) < 5 else "c" for entry in reader.read_history(path))


def test_compacting_again_and_again_and_reopening_keeps_each_record_once_per_segment_and_the_newest_summary(tmp_path):
    path = tmp_path / "s.jsonl"
    writer_of(path).append(turns(1, 3))
    for first in (4, 7, 10):
        compact(path, f"up to {first - 1}")
        writer_of(path).append(turns(first, first + 2))
    view = reader.read_view(path)
    assert view[0].blocks[0]["content"] == "up to 9"
    assert names(view[1:]) == "u8 a8 u9 a9 u10 a10 u11 a11 u12 a12"
    assert shown(path) == (
        "u1 a1 u2 a2 u3 a3 c u2 a2 u3 a3 u4 a4 u5 a5 u6 a6 c u5 a5 u6 a6 u7 a7 u8 a8 u9 a9 c u8 a8 u9 a9 u10 a10 u11 a11 u12 a12"
    )
    assert len(reader.scan(path).compactions) == 3


@pytest.mark.parametrize(
    ("to", "view"),
    [
        ("u8", "c u5 a5 u6 a6 u7 a7"),
        ("u6", "c u2 a2 u3 a3 u4 a4 u5 a5"),
        ("u2", "u1 a1"),
        ("u1", ""),
    ],
)
def test_a_rewind_behind_compactions_leaves_the_view_of_that_time_and_nothing_of_what_it_removed(tmp_path, to, view):
    path = tmp_path / "s.jsonl"
    writer = writer_of(path)
    writer.append(turns(1, 3))
    writer.set_title("Kept")
    for first in (4, 7):
        compact(path, f"up to {first - 1}")
        writer_of(path).append(turns(first, first + 2))
    rewind(path, to)
    assert " ".join(entry.id if len(entry.id) < 5 else "c" for entry in reader.read_view(path)) == view
    assert f'"{to}"'.encode() not in path.read_bytes()
    assert path.read_bytes().startswith(line("H") + b"\n")
    assert path.read_bytes().count(line("H")) == 1
    assert path.read_bytes().endswith(writer.title and titles.title_line("Kept", "s") + b"\n")


def test_every_figure_after_a_rewind_is_that_of_the_rewound_transcript(tmp_path):
    path = tmp_path / "s.jsonl"
    writer_of(path).append(turns(1, 5))
    os.utime(path, (1, 1))
    rewind(path, "u3")
    assert reader.summary(path).total_tokens == 200
    assert path.stat().st_mtime > 1_000_000_000  # a rewind is a touch
    rewind(path, "u1")
    summary = reader.summary(path)
    assert (summary.total_tokens, summary.first_prompt, summary.created_at.minute) == (None, None, 0)


def test_ten_rewinds_in_a_row_leave_one_header_and_no_rewind_invents_one(tmp_path):
    for name, header in (("with", line("H")), ("without", None)):
        path = tmp_path / f"{name}.jsonl"
        for number in range(10):
            Writer(path, sidecar=tmp_path / name, session_id="s", header=header).append(turns(1, 3))
            Writer(path, sidecar=tmp_path / name, session_id="s", header=header).set_title(f"title {number}")
            rewind(path, "u2")
        assert path.read_bytes().count(b'"type":"metadata"') == (1 if header else 0)
        assert reader.scan(path).title.text == "title 9"


STEPS = st.lists(
    st.one_of(
        st.sampled_from(
            ["u1", "u2", "u3", "a1", "a2", "m1", "h1", "c1@5", "c2@3", "f1", "f2", "T:t", "x", "e", "R:u1", "c3>a1"]
        ).map(lambda word: line(word) + b"\n"),
        st.sampled_from([b'{"torn', line("u4"), line("a3"), b"\n"]),
        st.integers(0, 300),
    ),
    max_size=14,
)


@given(STEPS, st.booleans())
def test_an_outline_that_follows_a_file_is_that_of_a_whole_pass_at_every_moment(tmp_path_factory, steps, deep):
    path = tmp_path_factory.mktemp("followed") / "s.jsonl"
    path.touch()
    follower = scanning.Follower(path, deep=deep)
    for step in steps:
        if isinstance(step, int):  # a rewrite, which may get the inode of the file before last
            data = path.read_bytes()
            new = path.with_name("new")
            new.write_bytes(data[step:] + line("a9") + b"\n")
            os.replace(new, path)
            continue
        with path.open("ab") as file:
            file.write(step)
        followed = follower.outline()
        assert followed == reader.scan(path, deep=deep)
        assert [(prompt.id, prompt.offset) for prompt in followed.prompts] == Naive(path.read_bytes()).prompts()


def test_a_file_that_was_replaced_under_the_same_inode_is_read_anew(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(raw + b"\n" for raw in script("u1 a1")))
    follower = scanning.Follower(path, deep=True)
    follower.outline()
    with path.open("r+b") as file:  # the surest way to the same inode
        file.write(b"".join(raw + b"\n" for raw in script("u5 a5 u6 a6")))
    assert [prompt.id for prompt in follower.outline().prompts] == ["u5", "u6"]
