"""The README's commands and outputs, its library example and its samples: all real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sessions import SessionStore
from sessions.settings import Settings, load
from sessions.transcript.codec import decode
from sessions.transcript.entry import Kind

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """Return every ``$ command`` of the README with the output printed below it, in order."""
    text = "".join(block for block in blocks("console") if block.startswith("$ "))
    return [tuple(part.partition("\n")[::2]) for part in re.split(r"^\$ ", text, flags=re.MULTILINE) if part]


def play(example: str, directory: Path, **environment: str) -> str:
    """Run an example; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def matches(said: str, real: str) -> bool:
    """Tell whether ``real`` is what the README says: ``…`` stands for anything in a line, alone for any lines."""
    lines = ["[^\n]*".join(map(re.escape, line.split("…"))) for line in said.rstrip("\n").split("\n")]
    pattern = "\n".join("(?s:.*)" if line == "[^\n]*" else line for line in lines)
    return re.fullmatch(pattern, real.rstrip("\n")) is not None


@pytest.fixture
def started(tmp_path):
    """Stop what the examples started, whatever happens."""
    yield
    store = SessionStore(tmp_path / "tour" / "store")
    for info in store.list(scope="all"):
        with store.open(info.id) as session:
            for task in session.tasks.list():
                session.tasks.cancel(task.id)


@pytest.mark.usefixtures("started")
def test_every_command_prints_what_the_readme_says(tmp_path):
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    _, tasks = blocks("python")
    ran = 0
    for command, said in steps():
        if command == "sessions tasks 'A site'":
            play(tasks, tmp_path, **environment)
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            environment[name] = value
            continue
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert matches(said, done.stdout), f"$ {command}\n{done.stdout}"
        ran += 1
    assert ran >= 17


def test_the_library_example_runs(tmp_path):
    example, _ = blocks("python")
    assert play(example, tmp_path) == (
        "[('haiku.txt', 'deleted')]\n[('haiku.txt', 'recreate')]\nNow delete it | An old silent pond\n\n"
    )
    assert not (tmp_path / "project" / "haiku.txt").exists(), "the undo took the rewind back"


def test_the_samples_are_lines_of_the_format_in_the_order_the_text_names_them():
    (samples,) = blocks("jsonl")
    kinds = [decode(line.encode()).kind for line in samples.splitlines()]
    assert kinds == [Kind.HEADER, Kind.MESSAGE, Kind.MESSAGE, Kind.MESSAGE, Kind.TITLE, Kind.ROLLBACK]


def test_the_first_two_commands_are_one_line_each_and_make_their_own_environment():
    first, second = [block for block in blocks("console") if not block.startswith("$ ")][:2]
    for block in (first, second):
        assert len(block.splitlines()) == 1
        assert block.startswith("python3 -m venv .venv && .venv/bin/pip install")
    assert "sessions demo" in first
    assert "pytest" in second


def test_every_exit_code_is_explained():
    table = README.partition("| exit | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE) == ["0", "1", "2", "3", "4", "5", "6", "7", "130"]


def test_the_settings_it_shows_are_the_defaults(tmp_path):
    (shown,) = blocks("toml")
    (tmp_path / "settings.toml").write_text(shown, encoding="utf-8")
    assert load(tmp_path) == Settings()
