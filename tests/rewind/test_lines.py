"""Lines that stay: every matching is a valid one, the shortest where that is within reach, and never takes long."""

import random
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.rewind import lines
from sessions.rewind.lines import count_changes, is_binary, matches, split_lines

TEXTS = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"a ", b"\r"]), max_size=12).flatmap(
    lambda lines: st.sampled_from([b"\n".join(lines), b"".join(line + b"\n" for line in lines)])
)
LONG = st.lists(st.sampled_from([b"%d\n" % number for number in range(20)]), max_size=60)


def replayed(old: list[bytes], new: list[bytes]) -> list[bytes]:
    """Make ``new`` of ``old`` with what the matching says: matched lines are taken from the old side alone."""
    made, at = [], 0
    for match in matches(old, new):
        made += new[at : match.new] + old[match.old : match.old + match.size]
        at = match.new + match.size
    return made + new[at:]


def is_in_order(old: list[bytes], new: list[bytes]) -> bool:
    """Tell whether matches follow one another on both sides, with something between any two, and none is empty."""
    at_old = at_new = -1
    for match in matches(old, new):
        gap = match.old - at_old, match.new - at_new
        if match.size < 1 or min(gap) < 0 or (gap == (0, 0)):
            return False
        at_old, at_new = match.old + match.size, match.new + match.size
    return at_old <= len(old) and at_new <= len(new)


def fewest(before: bytes, after: bytes) -> tuple[int, int]:
    """Count by the textbook: the longest common subsequence stays."""
    old, new = split_lines(before), split_lines(after)
    row = [0] * (len(new) + 1)
    for line in old:
        above, row = row, [0]
        for place, other in enumerate(new):
            row.append(max(row[place], above[place + 1], above[place] + (line == other)))
    return len(new) - row[-1], len(old) - row[-1]


@given(TEXTS)
def test_lines_joined_are_the_text_and_end_at_newlines_only(text):
    assert b"".join(split_lines(text)) == text
    assert all(line.endswith(b"\n") for line in split_lines(text)[:-1])
    assert len(split_lines(text)) == text.count(b"\n") + (not text.endswith(b"\n") and text != b"")


@given(TEXTS, TEXTS)
def test_lines_are_counted_as_few_as_possible(before, after):
    assert count_changes(before, after) == fewest(before, after)


@given(TEXTS, TEXTS)
def test_the_way_back_counts_the_other_way_round(before, after):
    assert count_changes(before, after) == count_changes(after, before)[::-1]


@given(TEXTS)
def test_nothing_changed_counts_nothing_and_all_new_counts_all(text):
    assert count_changes(text, text) == (0, 0)
    assert count_changes(b"", text) == (len(split_lines(text)), 0)


@given(LONG, LONG)
def test_a_matching_leads_from_the_old_text_to_the_new_one(old, new):
    assert replayed(old, new) == new
    assert is_in_order(old, new)


@given(LONG, LONG, st.integers(0, 4), st.integers(0, 300))
def test_so_does_one_that_ran_into_its_bounds(old, new, edits, steps):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lines, "_MOST_EDITS", edits)
        patched.setattr(lines, "_STEPS", steps)
        patched.setattr(lines, "_STEPS_A_LINE", 1)
        assert replayed(old, new) == new
        assert is_in_order(old, new)


@pytest.mark.skipif(shutil.which("diff") is None, reason="there is no diff to compare with")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"a"),
        (b"a", b"a\n"),
        (b"a\nb\n", b"b\na\n"),
        (b"a\nb\nc\na\nb\nb\na\n", b"c\nb\na\nb\na\nc\n"),
        (b"x\n" * 50, b"x\n" * 49 + b"y\n"),
        (b"\n\n\n", b"\n"),
        (b"\r\n", b"\n"),
        ("a\u2028b\n".encode(), b"a\nb\n"),
    ],
)
def test_diff_counts_the_same(before, after, tmp_path):
    (tmp_path / "before").write_bytes(before)
    (tmp_path / "after").write_bytes(after)
    said = subprocess.run(
        ["diff", "--minimal", tmp_path / "before", tmp_path / "after"], capture_output=True, check=False
    ).stdout
    marks = said.split(b"\n")
    counted = sum(line.startswith(b">") for line in marks), sum(line.startswith(b"<") for line in marks)
    assert count_changes(before, after) == counted


@pytest.mark.parametrize(("before", "after"), [(b"a\0", b"b"), (b"a", b"\0")])
def test_binary_content_has_no_lines(before, after):
    assert count_changes(before, after) is None
    assert is_binary(before) or is_binary(after)


class _Looks:
    """Counts how often two lines are compared while a matching is made."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.most = 0
        real = lines._Matcher.run

        def run(matcher):
            budget = matcher._left
            found = real(matcher)
            self.most = max(self.most, budget - matcher._left)
            return found

        patched.setattr(lines._Matcher, "run", run)


SIZE = 60_000


def _edited(text: list[bytes], count: int) -> list[bytes]:
    chance = random.Random(count)
    edited = list(text)
    for place in chance.sample(range(len(text)), count):
        edited[place] = b"changed\n"
    return edited


@pytest.mark.parametrize(
    "text",
    [
        [b"line %d\n" % number for number in range(SIZE)],
        [b"}\n" if number % 3 else b"line %d\n" % number for number in range(SIZE)],
        [b"line %d\n" % (number % 100) for number in range(SIZE)],
    ],
    ids=["all different", "braces", "periodic"],
)
def test_scattered_edits_of_60_000_lines_are_found_one_by_one(text):
    after = _edited(text, 2_000)
    assert count_changes(b"".join(text), b"".join(after)) == (2_000, 2_000)


@pytest.mark.parametrize("kinds", [2, 3, 1_000, 20_000])
def test_two_texts_that_have_nothing_to_do_with_each_other_are_matched_within_the_bound(kinds, monkeypatch):
    looks = _Looks(monkeypatch)
    monkeypatch.setattr(lines, "_STEPS", 200_000)
    chance = random.Random(kinds)
    old, new = ([b"%d\n" % chance.randrange(kinds) for _ in range(20_000)] for _ in range(2))
    assert replayed(old, new) == new
    bound = lines._STEPS + lines._STEPS_A_LINE * 2 * 20_000
    assert looks.most < 1.5 * bound


def test_a_text_turned_upside_down_keeps_a_line():
    text = [b"%d\n" % number for number in range(20_000)]
    assert count_changes(b"".join(text), b"".join(reversed(text))) == (19_999, 19_999)
    assert count_changes(b"", b"".join(text)) == (20_000, 0)
