import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

NOBODY = 65534

sys.path.insert(0, str(Path(__file__).parent))  # agent, worst_moments


@pytest.fixture
def tmp_path(memory_path) -> Path:
    """In memory: these tests sync thousands of times."""
    return memory_path


@pytest.fixture
def limited(root, project):
    """An agent whose session has limits from its first turn on: ``limited(retain_turns=2)``."""
    from agent import Agent
    from limited import limit

    working = []

    def begin(**numbers):
        limit(root, **numbers)
        working.append(Agent(root, project))
        return working[-1]

    yield begin
    for each in working:
        each.close()


@pytest.fixture
def agent(store, project):
    """An agent at work in a new session; everything is closed at the end."""
    from agent import Agent

    working = Agent(store.root, project)
    yield working
    working.close()


@pytest.fixture
def as_somebody(memory_path):
    """Does work in a child process that is not root, for whom modes mean something; ``memory_path`` is theirs."""

    def run(work: Callable[[], object]) -> None:
        if os.geteuid():
            work()
            return
        warm_up(memory_path / "warm-up")
        os.chown(memory_path, NOBODY, NOBODY)
        child = os.fork()
        if not child:
            status = 1
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                work()
                status = 0
            except BaseException:  # noqa: BLE001 - the child must never go on as a second test run
                traceback.print_exc()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"

    return run


def warm_up(directory: Path) -> None:
    """Load what is loaded late: nobody may be allowed to read Python's library."""
    from agent import Agent

    agent = Agent(directory / "root", directory / "project")
    agent.turn("first", {"f": "f"})
    agent.session.rewind(1)
    agent.session.undo_rewind()
    agent.close()
