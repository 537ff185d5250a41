"""The command line as a function, and a session to use it on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sessions import SessionStore, assistant_message
from sessions.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Done:
    """What a command did: its exit code, what it printed, what it complained about."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


@dataclass(frozen=True)
class Kept:
    """A session of three turns, with a compaction behind the second: ``notes.txt`` grows, ``old.txt`` goes."""

    root: Path
    project: Path
    id: str
    path: Path

    def text(self, name: str = "notes.txt") -> str:
        return (self.project / name).read_text()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    root, project = tmp_path / "store", tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("SESSIONS_HOME", str(root))
    monkeypatch.chdir(project)
    with SessionStore(root).create(project) as session:
        session.set_title("A kept session")
        with session.begin_turn("Begin the notes") as turn, turn.edit("notes.txt", "old.txt"):
            (project / "notes.txt").write_text("one\n")
            (project / "old.txt").write_text("old\n")
        session.append(assistant_message("Begun.", usage={"total_tokens": 800}))
        with session.begin_turn("Add \x1b[31mtwo\nlines \ud83d") as turn, turn.edit("notes.txt"):
            (project / "notes.txt").write_text("one\ntwo\n")
        session.append(assistant_message("Added.", usage={"total_tokens": 1600}))
        session.compact(summary="Notes were begun.", keep_rounds=1)
        with session.begin_turn("Delete the old file") as turn:
            with turn.edit("old.txt", "notes.txt"):
                (project / "old.txt").unlink()
                (project / "notes.txt").write_text("one\ntwo\nthree\n")
            turn.gap("shell", ["build/out.o"])
        session.append(assistant_message("Deleted.", usage={"total_tokens": 2400}))
    return Kept(root, project, session.id, session.path)


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def call(*arguments: str) -> Done:
        capfd.readouterr()
        code = run(arguments)
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call
