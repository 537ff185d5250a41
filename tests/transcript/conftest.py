import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # transcript_shorthand

settings.register_profile("sessions", deadline=None)  # no test is a matter of time
settings.load_profile("sessions")

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def write(tmp_path):
    """Write a transcript from shorthand or lines; returns its path."""
    from transcript_shorthand import script

    def write_(lines, name="s.jsonl", ending=b"\n") -> Path:
        lines = script(lines) if isinstance(lines, str) else lines
        path = tmp_path / name
        path.write_bytes(b"".join(line + ending for line in lines))
        return path

    return write_
