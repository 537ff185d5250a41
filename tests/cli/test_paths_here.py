"""Paths on the command line: meant from the current directory where that is inside the session's, as in git."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions import SessionStore

Cli = Callable[..., Any]


@pytest.fixture
def nested(kept: Any) -> Any:
    """A turn that edits ``same.txt`` above and below ``sub``."""
    (kept.project / "sub").mkdir()
    with (
        SessionStore(kept.root).open(kept.id) as session,
        session.begin_turn("Twice the same name") as turn,
        turn.edit("same.txt", "sub/same.txt"),
    ):
        (kept.project / "same.txt").write_text("above\n")
        (kept.project / "sub" / "same.txt").write_text("below\n")
    return kept


def _shown(done: Any) -> list[str]:
    return [each["path"] for each in (done.json["files"] if isinstance(done.json, dict) else done.json)]


@pytest.mark.parametrize(
    ("here", "path", "meant"),
    [
        (".", "same.txt", "same.txt"),
        ("sub", "same.txt", "sub/same.txt"),
        ("sub", "../same.txt", "same.txt"),
        ("sub", ".", "sub/same.txt"),
        ("..", "same.txt", "same.txt"),
        ("..", "sub", "sub/same.txt"),
    ],
)
def test_a_file_is_meant_from_here_inside_the_project_and_from_its_top_elsewhere(
    cli: Cli, nested: Any, monkeypatch: pytest.MonkeyPatch, here: str, path: str, meant: str
) -> None:
    monkeypatch.chdir(nested.project / here)
    assert _shown(cli("diff", nested.id, "--file", path, "--json")) == [meant]
    assert _shown(cli("rewind", nested.id, "--to", "4", "--file", path, "--dry-run", "--json")) == [meant]
    assert cli("rewind", nested.id, "--to", "4", "--yes").exit_code == 0
    assert _shown(cli("undo", nested.id, "--file", path, "--dry-run", "--json")) == [meant]


def test_an_absolute_path_is_meant_as_it_is(cli: Cli, nested: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(nested.project / "sub")
    assert _shown(cli("diff", nested.id, "--file", str(nested.project / "same.txt"), "--json")) == ["same.txt"]


def test_a_link_to_the_project_is_the_project(
    cli: Cli, nested: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(nested.project / "sub")
    monkeypatch.chdir(tmp_path / "link")
    assert _shown(cli("diff", nested.id, "--file", "same.txt", "--json")) == ["sub/same.txt"]


def test_a_directory_beside_the_project_is_not_inside_it(
    cli: Cli, nested: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project-2").mkdir()
    monkeypatch.chdir(tmp_path / "project-2")
    assert _shown(cli("diff", nested.id, "--file", "same.txt", "--json")) == ["same.txt"]


def test_a_policy_is_for_the_path_meant_from_here(cli: Cli, nested: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("same.txt", "sub/same.txt"):
        (nested.project / name).write_text("mine\n")
    monkeypatch.chdir(nested.project / "sub")
    words = ["rewind", nested.id, "--to", "4", "--on-conflict", "keep=same.txt", "--yes", "--json"]
    acted = {each["path"]: each["action"] for each in cli(*words).json["files"]}
    assert acted == {"same.txt": "delete", "sub/same.txt": "skip"}
    (nested.project / "same.txt").write_text("mine again\n")
    words = ["undo", nested.id, "--on-conflict", "overwrite", "--on-conflict", "keep=../same.txt", "--yes"]
    assert cli(*words).exit_code == 0
    assert (nested.project / "same.txt").read_text() == "mine again\n"


def test_a_current_directory_that_is_gone_is_none(cli: Cli, nested: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = nested.project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert _shown(cli("diff", nested.id, "--file", "same.txt", "--json")) == ["same.txt"]
