"""Numbers in names: of turns, and of the snapshots in them, whoever wrote the names."""

import os

import pytest
from agent import contents, make
from hypothesis import given
from hypothesis import strategies as st

from sessions.rewind.keeping import Keeper
from sessions.rewind.numbers import snapshot_number, turn_in, turn_number
from sessions.rewind.payloads import Payloads
from sessions.rewind.recorded import TurnRecord
from sessions.rewind.retention import is_pruned
from sessions.rewind.states import Payload
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Worktree

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


def test_writers_in_turn_give_every_snapshot_a_number_of_its_own(tmp_path):
    project, sidecar = tmp_path / "project", tmp_path / "root" / "s.ckpt"
    project.mkdir()
    worktree = Worktree(project, (), store=tmp_path / "root")
    keepers = [Keeper(Payloads(sidecar, root=tmp_path / "root"), worktree, limit_bytes=100) for _ in range(3)]
    turn = TurnRecord(0, 7, "m", None, (0, 0, 0, 0))
    kept = []
    for number, which in enumerate([0, 1, 1, 0, 2, 0, 0, 1, 2]):
        make(project / "f", f"v{number}")
        kept.append(keepers[which].before(turn, str(project / "f")))
    assert [image.payload.file for image in kept] == [f"turns/7/files/{place:04d}.before" for place in range(1, 10)]
    assert [(sidecar / image.payload.file).read_text() for image in kept] == [f"v{number}" for number in range(9)]


def test_the_snapshots_of_a_turn_are_listed_once_however_many_edits_it_makes(agent, monkeypatch):
    listed, listdir = [], os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(str(path)) or listdir(path))
    with agent.session.begin_turn("edit") as turn:
        for number in range(12):
            make(agent.project / f"f{number}", f"{number} v1")
            with turn.edit(f"f{number}"):
                make(agent.project / f"f{number}", f"{number} v2")
        assert [path for path in listed if path.endswith("/turns/1/files")] == [str(agent.sidecar / "turns/1/files")]
    agent.session.rewind(1)
    assert contents(agent.project) == {f"f{number}": f"{number} v1".encode() for number in range(12)}
