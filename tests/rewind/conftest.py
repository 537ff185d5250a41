import sys
from pathlib import Path

import pytest

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
