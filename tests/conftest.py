"""A store and a project in a temporary directory: what most tests start from."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from sessions import SessionStore

sys.path.insert(0, str(Path(__file__).parent))  # pseudo_terminal

settings.register_profile("repeatable", derandomize=True, deadline=None)  # a busy machine is no reason to fail
settings.load_profile("repeatable")


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root) -> SessionStore:
    return SessionStore(root)


@pytest.fixture
def project(tmp_path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def session(store, project):
    with store.create(project) as opened:
        yield opened


@pytest.fixture
def memory_path():
    """A temporary directory in memory where the system has one: for tests that sync thousands of times."""
    shared = "/dev/shm"
    directory = tempfile.mkdtemp(prefix="sessions-test-", dir=shared if os.access(shared, os.W_OK) else None)
    yield Path(directory)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def in_terminal():
    """Start Python with arguments in a pseudo-terminal: ``in_terminal(["-m", "sessions"], columns, lines)``."""
    from pseudo_terminal import Terminal

    opened = []

    def start(arguments, columns=80, lines=24):
        opened.append(Terminal(arguments, columns, lines))
        return opened[-1]

    yield start
    for one in opened:
        one.child.close(force=True)
