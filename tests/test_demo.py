"""The demonstration without a terminal: it tells the truth, the same on every run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from sessions import SessionStore

HERE = Path(__file__).parents[1]


def demo(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sessions", "demo", "--dir", str(directory), *words],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_it_prints_the_same_on_every_run_but_for_the_directory(tmp_path: Path) -> None:
    first, second = demo(tmp_path / "one"), demo(tmp_path / "two")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.replace(str(tmp_path / "one"), "DIR") == second.stdout.replace(str(tmp_path / "two"), "DIR")


def test_it_shows_prompts_plan_report_undo_and_the_files_at_every_step(tmp_path: Path) -> None:
    out = demo(tmp_path / "demo").stdout
    parts = dict(part.split("\n", 1) for part in out.split("\n\n"))
    left, back = parts["The files as the agent left them"], parts["The files after the undo"]
    assert back == left + "  byte and mode the same as before the rewind\n" or back.startswith(left)
    assert "byte and mode the same as before the rewind" in out
    assert [line.split()[-1] for line in left.splitlines()] == ["assets/logo.png", "greet.py", "run.sh"]
    assert "-rwxr-xr-x" in left
    assert [line.split()[-1] for line in parts["The files after the rewind"].splitlines()] == ["README.md", "greet.py"]
    assert "rewound: " in parts["Done"]
    assert "undone" in parts["And taken back"]
    assert str(tmp_path / "demo") in out


def test_the_commands_it_names_work(tmp_path: Path) -> None:
    out = demo(tmp_path / "demo").stdout
    commands = out.split("To go on by hand\n")[1].splitlines()
    assert len(commands) == 4
    env = {**os.environ, "PYTHONPATH": str(HERE)}
    for command in (commands[0], f"{commands[2].strip()} --yes", f"{commands[3].strip()} --yes"):
        done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


def test_in_json_it_gives_plan_report_and_undo(tmp_path: Path) -> None:
    said = json.loads(demo(tmp_path / "demo", "--json").stdout)
    assert set(said) == {"session", "root", "project", "plan", "report", "undo"}
    assert said["plan"]["files"] == said["report"]["files"]
    with SessionStore(said["root"]).open(said["session"], read_only=True) as session:
        assert session.title == "A greeting in four steps"
        assert len(session.checkpoints()) == 4


def test_a_directory_with_something_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = demo(tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
