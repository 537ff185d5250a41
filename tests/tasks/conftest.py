import sys
from pathlib import Path

import pytest

for neighbour in ("rewind", "subagents"):
    sys.path.insert(0, str(Path(__file__).parent.parent / neighbour))  # agent, worst_moments; programs
sys.path.insert(0, str(Path(__file__).parent))  # workers


@pytest.fixture
def tmp_path(memory_path) -> Path:
    return memory_path


@pytest.fixture
def grace(root) -> None:
    """Tasks get little time to end by themselves."""
    root.mkdir(exist_ok=True)
    (root / "settings.toml").write_text("[tasks]\ngrace_s = 0.1\n")


@pytest.fixture
def agent(root, project, grace):
    """An agent at work; nothing it started outlives the test."""
    from workers import Worker

    working = Worker(root, project)
    yield working
    working.end()
