"""Which bytes a fork copies: what is visible, without the session's own lines; against a reader that takes every line."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcript_shorthand import script

from sessions.transcript import codec, collapse, fork
from sessions.transcript.entry import Kind
from sessions.transcript.header import header_line
from sessions.transcript.selection import HidesSomethingError, Range, Selection

OWN = {Kind.HEADER, Kind.TITLE}


def copy(path, end=None, *, header=None, title=None) -> bytes:
    source, target = os.open(path, os.O_RDONLY), os.open(path.with_suffix(".copy"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        copied = fork.survey(source, path.stat().st_size if end is None else end)
        fork.write(source, target, copied, header=header, title=title)
    finally:
        os.close(source)
        os.close(target)
    return path.with_suffix(".copy").read_bytes()


COPIES = {
    "": "",
    "H u1 a1 T:t": "u1 a1",
    "u1 a1 c1 u1 a1 u2": "u1 a1 c1 u1 a1 u2",
    "u1 x o e a1 n1 m1": "u1 x o e a1 n1 m1",
    "H u1 a1 u2 x o a2 T:t R:u2 u3": "u1 a1 u3",
    "u1 a1 u2 a2 R:u2 u2 a2 R:u2 u3": "u1 a1 u3",
    "u1 a1 c1 u1 a1 u2 R:u1 u3": "u3",
    "u1 R:nobody u2": "u1 u2",
    "u1 a1 u2 R:a1 R:u1 u3": "u3",
    "R:u1 u1 R:u2": "u1",
}


@pytest.mark.parametrize(("words", "kept"), COPIES.items())
def test_a_fork_copies(write, words, kept):
    assert copy(write(words)) == b"".join(line + b"\n" for line in script(kept))


@given(
    words=st.lists(
        st.sampled_from(
            ["H", "T:t", "u1", "a1", "u2", "a2", "u3", "c1", "x", "o", "e", "R:u1", "R:a1", "R:u2", "R:u3"]
        ),
        max_size=14,
    )
)
def test_whatever_is_visible_is_copied_in_order_and_nothing_else(tmp_path_factory, words):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    lines = script(" ".join(words))
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    seen = [entry.raw for entry in collapse.visible(map(codec.decode, lines)) if entry.kind not in OWN]
    assert copy(path).splitlines() == seen


def test_nothing_behind_the_end_is_copied(write):
    path = write("H u1 a1 T:t u2 a2")
    end = path.read_bytes().index(script("u2")[0])
    assert copy(path, end) == b"".join(line + b"\n" for line in script("u1 a1"))


def test_header_and_title_stand_around_what_is_copied(write):
    copied = copy(write("H u1 T:t"), header=b'{"a":1}', title=b'{"b":2}')
    assert copied == b'{"a":1}\n' + script("u1")[0] + b'\n{"b":2}\n'


@pytest.mark.parametrize("separators", ["\u2028", "\u2029\u0085", "\\r", "\x7f\x1c"])
def test_odd_separators_do_not_end_a_line(write, separators):
    lines = script(f"u1={separators} a1=x{separators}y")
    assert copy(write(lines)) == b"".join(line + b"\n" for line in lines)


def test_a_torn_last_line_is_not_copied_and_a_complete_one_is_ended(write):
    whole, torn = script("u1 a1"), script("u2")[0][:-3]
    path = write(whole)
    path.write_bytes(path.read_bytes() + torn)
    assert copy(path, title=b"{}").splitlines() == [*whole, b"{}"]
    path.write_bytes(path.read_bytes().removesuffix(b"\n" + torn))
    assert copy(path, title=b"{}").splitlines() == [*whole, b"{}"]


def test_what_touches_is_one_range_so_that_a_whole_transcript_is_few():
    selection = Selection(noting=False)
    for place in range(100):
        selection.keep(place * 10, place * 10 + 10)
    selection.keep(2000, 2010)
    assert selection.ranges == [Range(0, 1000), Range(2000, 2010)]


def test_an_event_needs_to_know_which_message_lies_where():
    with pytest.raises(HidesSomethingError):
        Selection(noting=False).take(codec.decode(script("R:u1")[0]), 0, 10)


def test_a_notice_behind_the_end_comes_along_unless_it_stands_in_front_itself_and_is_not_only_quoted_there(write):
    quoted, notices = script("u1=n1 a1 n2 u2 n1 n2 n1")[:3], script("u2 n1 n2 n1")
    path = write([*quoted, *notices])
    source = os.open(path, os.O_RDONLY)
    try:
        end = sum(len(line) + 1 for line in quoted)
        assert fork.notices_behind(source, end, path.stat().st_size, {"n1", "n2"}) == script("n1")
    finally:
        os.close(source)


def test_the_header_of_a_fork_names_its_parent_and_any_other_header_does_not():
    line = header_line("/w", created_at="2026-03-01T09:00:00.000Z", git_branch=None, forked_from="parent")
    assert codec.loads(line) == {
        "type": "metadata", "workdir": "/w", "createdAt": "2026-03-01T09:00:00.000Z", "forkedFrom": "parent",
    }  # fmt: skip
    assert b"forkedFrom" not in header_line("/w", created_at="", git_branch="main")


@pytest.mark.parametrize(
    ("parent", "marked"), [(None, None), (" ", None), ("T", "T (fork)"), ("x" * 1000, "x" * 993 + " (fork)")]
)
def test_the_title_of_a_fork_is_its_parents_marked_and_no_longer_than_a_title_can_be(parent, marked):
    assert fork.title_of(parent) == marked
