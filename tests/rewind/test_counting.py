"""How many lines changed: what a diff says, as far as one budget for all the files of a turn or a plan goes."""

import os
import random

import pytest
from agent import make
from hypothesis import given
from hypothesis import strategies as st

from sessions.rewind import counting, lines
from sessions.rewind.counting import LineCounter, Lines
from sessions.rewind.lines import Allowance, count_changes
from sessions.rewind.states import Absent, Content, Directory, Link, OverLimit, Unreadable

TEXTS = st.lists(st.sampled_from([b"%d\n" % number for number in range(20)]), max_size=60).map(b"".join)


def count(counter, old: bytes, new: bytes):
    states = [Content("", len(text), 0o644) for text in (old, new)]
    return counter.count(*states, lambda: old, lambda: new)


def unrelated(seed: int, size: int = 500) -> bytes:
    chance = random.Random(seed)
    return b"".join(b"%d\n" % chance.randrange(20) for _ in range(size))


@given(TEXTS, TEXTS, st.integers(1, 400))
def test_what_is_counted_is_the_same_whatever_is_allowed(old, new, steps):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lines, "_STEPS", 50)
        patched.setattr(lines, "_STEPS_A_LINE", 2)
        allowance = Allowance(steps)
        counted = count_changes(old, new, allowance=allowance)
        assert counted in (None, count_changes(old, new))
        assert 0 <= allowance.steps < steps
        assert counted is not None or not allowance.steps


def test_the_files_of_a_turn_share_what_matching_may_cost(monkeypatch):
    """As many are counted as the budget is for, the rest is not read; and it is not exceeded by much."""
    spent, run = [], lines._Matcher.run

    def counted_run(matcher, allowance=None):
        begun = matcher._left
        found = run(matcher, allowance)
        spent.append(begun - matcher._left)
        return found

    monkeypatch.setattr(lines._Matcher, "run", counted_run)
    texts = [(unrelated(number), unrelated(-number - 1)) for number in range(10)]
    whole = [count(LineCounter(), *pair) for pair in texts]
    assert all(whole)
    monkeypatch.setattr(counting, "_MOST_STEPS", sum(spent) // 2)
    spent.clear()
    counter = LineCounter()
    counts = [count(counter, *pair) for pair in texts]
    known = counts.index(None)
    assert 2 <= known <= 6
    assert counts == whole[:known] + [None] * (10 - known)
    assert sum(spent) < 1.2 * counting._MOST_STEPS


def test_the_files_of_a_turn_share_what_may_be_read(monkeypatch):
    monkeypatch.setattr(counting, "_MOST_BYTES", 100)
    counter = LineCounter()
    assert count(counter, b"a\n" * 20, b"b\n" * 20) == Lines(20, 20)
    assert counter.count(Content("", 30, 0o644), Absent(), lambda: pytest.fail("read"), bytes) is None
    assert count(counter, b"", b"a\n") is None, "the rest is unknown, however small"


def test_one_file_that_is_too_large_does_not_take_what_the_others_need():
    counter = LineCounter()
    large = Content("", counting._MOST_FILE_BYTES + 1, 0o644)
    assert counter.count(Absent(), large, bytes, lambda: pytest.fail("read")) is None
    assert count(counter, b"", b"a\n") == Lines(1, 0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Absent(), Directory(0o755), Lines(0, 0)),
        (Absent(), Link("there"), Lines(1, 0)),
        (Link("there"), Link("here"), Lines(1, 1)),
        (Link("there\nand"), Link("there\n"), Lines(0, 1)),
        (Link("\ud83d"), Absent(), Lines(0, 1)),
        (Link("text"), Content("", 4, 0o644), Lines(1, 1)),
        (Absent(), Unreadable("why"), None),
        (OverLimit(9, 0o644), Absent(), None),
    ],
)
def test_a_state_without_bytes_counts_as_a_diff_shows_it(before, after, expected):
    assert LineCounter().count(before, after, lambda: b"text", lambda: b"text") == expected


def test_what_cannot_be_read_is_unknown_and_binary_content_has_no_lines():
    counter = LineCounter()
    assert counter.count(Content("", 1, 0o644), Absent(), lambda: None, bytes) is None
    assert count(counter, b"a\n", b"a\0") == Lines(0, 0, binary=True)


def _link(target):
    def make_link(path):
        path.unlink(missing_ok=True)
        os.symlink(target, path)

    return make_link


def test_lists_plans_and_diffs_count_links_alike(agent):
    make(agent.project / "changed", _link("old"))
    make(agent.project / "became", "one\ntwo\n")
    make(agent.project / "gone", _link("nowhere"))
    work = {"made": _link("there"), "changed": _link("new"), "became": _link("elsewhere"), "gone": None}
    agent.turn("link", work)
    diff = {file.path: (file.insertions, file.deletions) for file in agent.session.diff().files}
    assert diff == {"made": (1, 0), "changed": (1, 1), "became": (1, 2), "gone": (0, 1)}
    plan = {file.path: (file.deletions, file.insertions) for file in agent.session.plan_rewind(1).files}
    assert plan == diff
    (listed,) = agent.session.checkpoints()
    assert (listed.insertions, listed.deletions) == tuple(map(sum, zip(*diff.values(), strict=True)))


def test_a_turn_and_a_plan_beyond_the_budget_say_that_they_do_not_know(agent, monkeypatch):
    monkeypatch.setattr(counting, "_MOST_BYTES", 20)
    for name in "abc":
        make(agent.project / name, "old text\n")
    agent.turn("edit", dict.fromkeys("abc", "new\n"))
    (listed,) = agent.session.checkpoints()
    assert (listed.insertions, listed.deletions) == (None, None)
    assert [file.path for file in listed.files] == ["a", "b", "c"]
    plan = agent.session.plan_rewind(1)
    assert [(file.insertions, file.deletions) for file in plan.files] == [(1, 1), (None, None), (None, None)]
    assert not agent.session.rewind(plan).partial
