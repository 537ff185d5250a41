"""What is read of the working files: nothing where the system's word is enough."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator

import pytest
from agent import make

from sessions.rewind import counting

_LISTENERS: list[list[str]] = []


def _hear(event: str, facts: tuple) -> None:
    if event == "open" and _LISTENERS and isinstance(facts[0], str) and not facts[2] & os.O_DIRECTORY:
        for heard in _LISTENERS:
            heard.append(os.path.basename(facts[0]))


sys.addaudithook(_hear)


@contextlib.contextmanager
def opened(prefix: str) -> Iterator[list[str]]:
    """Take down the names that are opened and begin with ``prefix``."""
    heard: list[str] = []
    found: list[str] = []
    _LISTENERS.append(heard)
    try:
        yield found
    finally:
        _LISTENERS.remove(heard)
        found.extend(sorted(name for name in heard if name.startswith(prefix)))


@pytest.fixture
def settled(agent):
    """The agent edited more files than lines are counted of, and the turn ended more than a second after."""
    agent.names = [f"file-{number:03d}" for number in range(counting.MOST_FILES + 20)]
    for name in agent.names:
        make(agent.project / name, f"{name} v1")
    with agent.session.begin_turn("edit") as turn:
        with turn.edit(*agent.names):
            for name in agent.names:
                make(agent.project / name, f"{name} v2")
        time.sleep(1.1)  # by then a change leaves its trace in the clock
    return agent


def test_planning_reads_no_file_that_its_identity_speaks_for(settled):
    with opened("file-") as names:
        plan = settled.session.plan_rewind(1, on_conflict="refuse")
    assert names == []
    assert len(plan.files) == len(settled.names)
    assert plan.conflicts == ()


def test_planning_reads_exactly_the_files_somebody_touched_since(settled):
    os.utime(settled.project / settled.names[3])
    make(settled.project / settled.names[7], "the user's")
    with opened("file-") as names:
        plan = settled.session.plan_rewind(1)
    assert names == [settled.names[3], settled.names[7]]
    assert [conflict.path for conflict in plan.conflicts] == [settled.names[7]]


def test_a_file_that_changed_its_size_is_read_once_after_an_edit(agent):
    make(agent.project / "edited.txt", "v1")
    with agent.session.begin_turn("edit") as turn:
        for content in ("longer", "longer still"):
            edit = turn.edit("edited.txt")
            make(agent.project / "edited.txt", content)
            with opened("edited.txt") as after:
                edit.__exit__(None, None, None)
            assert after == ["edited.txt"]
    assert [(file.action, file.reason) for file in agent.session.plan_rewind(1).files] == [("restore", None)]
    agent.session.rewind(1)
    assert (agent.project / "edited.txt").read_text() == "v1"
    agent.session.undo_rewind()
    assert (agent.project / "edited.txt").read_text() == "longer still"


def test_an_edit_reads_a_file_of_its_old_size_once_before_and_twice_after(agent):
    make(agent.project / "edited.txt", "v1")
    with agent.session.begin_turn("edit") as turn:
        with opened("edited.txt") as before:
            edit = turn.edit("edited.txt")
        make(agent.project / "edited.txt", "v2")
        with opened("edited.txt") as after:
            edit.__exit__(None, None, None)
        with opened("edited.txt") as again:
            turn.edit("edited.txt")
    assert before == ["edited.txt"]
    assert after == ["edited.txt"] * 2
    assert again == []
