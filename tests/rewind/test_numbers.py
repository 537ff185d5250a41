"""Numbers in names: of turns, and of the snapshots in them, whoever wrote the names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.rewind.numbers import snapshot_number, turn_in, turn_number
from sessions.rewind.retention import is_pruned
from sessions.rewind.states import Payload
from sessions.rewind.timeline import Timeline

NO_NUMBERS = ["", "²", "٣", "-1", "+1", "1_0", " 1", "1 ", "x", "1x", "9" * 5000, ".."]


@given(st.integers(0, 10**18 - 1))
def test_a_number_is_read_back_from_the_name_it_has(number):
    assert turn_number(str(number)) == number
    assert turn_in(f"turns/{number}/files/0001.before") == number
    assert snapshot_number(f"{number:04d}.after") == number


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_is_no_number_is_none_in_any_place(name):
    assert turn_number(name) is None
    assert turn_in(f"turns/{name}/files/0001.before") is None
    assert snapshot_number(f"{name}.before") is None
    assert not is_pruned(Timeline(pruned_turns={1, 10}), Payload(f"turns/{name}/files/0001.before"))


@pytest.mark.parametrize("name", ["01", "0001"])
def test_a_turn_is_written_in_one_way(name):
    assert turn_number(name) is None


@given(st.text())
def test_any_text_can_be_asked(text):
    turn_number(text), turn_in(text), turn_in(f"turns/{text}/files/x"), snapshot_number(text)


def test_a_snapshot_of_a_turn_whose_snapshots_went_is_pruned():
    timeline = Timeline(pruned_turns={3}, pruned_records={"rw-1"})
    files = ["turns/3/files/0001.before", "turns/4/files/0001.before", "undo/rw-1/guards.bin", "undo/rw-2/guards.bin"]
    assert [is_pruned(timeline, Payload(file)) for file in files] == [True, False, True, False]
