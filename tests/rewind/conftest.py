import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # agent, worst_moments


@pytest.fixture
def tmp_path(memory_path) -> Path:
    """In memory: these tests sync thousands of times."""
    return memory_path


@pytest.fixture
def agent(store, project):
    """An agent at work in a new session; everything is closed at the end."""
    from agent import Agent

    working = Agent(store.root, project)
    yield working
    working.close()
