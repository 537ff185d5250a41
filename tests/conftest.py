"""A store and a project in a temporary directory: what most tests start from."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from sessions import SessionStore

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
