import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # programs


@pytest.fixture
def tmp_path(memory_path) -> Path:
    return memory_path


@pytest.fixture
def lab(tmp_path):
    """Where tasks are started; nobody of them outlives the test."""
    from programs import Lab

    used = Lab(tmp_path)
    yield used
    used.clean_up()
