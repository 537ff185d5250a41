"""fork, and what list says of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sessions import SessionStore

Cli = Callable[..., Any]


def test_fork_makes_a_session_and_says_which(cli: Cli, kept: Any) -> None:
    before = kept.path.read_bytes()
    done = cli("fork", kept.id)
    assert (done.exit_code, done.err) == (0, "")
    session_id = done.out.split()[0]
    assert done.out == f"{session_id} · A kept session (fork)\n  begins with 9 messages\n"
    assert cli("rewind", session_id, "--to", "2", "--yes").exit_code == 0
    assert kept.text() == "one\n"
    assert kept.path.read_bytes() == before


def test_fork_as_json_says_id_path_title_and_messages(cli: Cli, kept: Any) -> None:
    done = cli("fork", kept.id, "--at", "2", "--title", "Another way", "--json")
    with SessionStore(kept.root).open(done.json["id"], read_only=True) as fork:
        assert done.json == {
            "id": fork.id, "path": str(fork.path), "title": "Another way", "messages": len(fork.history()),
        }  # fmt: skip
        assert len(fork.checkpoints()) == 2


def test_fork_with_a_dry_run_makes_nothing(cli: Cli, kept: Any) -> None:
    before = sorted(kept.root.rglob("*"))
    done = cli("fork", kept.id, "--at", "1", "--dry-run")
    assert done.out == (f"would begin a session with 2 messages in {kept.project}, called A kept session (fork)\n")
    said = cli("fork", kept.id, "--at", "1", "--dry-run", "--json").json
    assert said == {
        "id": None, "path": None, "title": "A kept session (fork)", "messages": 2, "workdir": str(kept.project),
        "dry_run": True,
    }  # fmt: skip
    assert sorted(kept.root.rglob("*")) == before


def test_fork_for_another_directory_is_listed_there(cli: Cli, kept: Any, tmp_path: Any, monkeypatch: Any) -> None:
    other = tmp_path / "other"
    other.mkdir()
    forked = cli("fork", kept.id, "--workdir", str(other), "--json").json["id"]
    monkeypatch.chdir(other)
    assert [row["id"] for row in cli("list", "--json").json] == [forked]


def test_a_list_names_what_a_fork_was_made_from(cli: Cli, kept: Any) -> None:
    forked = cli("fork", kept.id, "--json").json["id"]
    told = {row["id"]: row["forked_from"] for row in cli("list", "--json").json}
    assert told == {kept.id: None, forked: kept.id}
    child, parent = cli("list").out.splitlines()
    assert child.startswith(forked[:8])
    assert child.endswith(f"A kept session (fork)  fork of {kept.id[:8]}")
    assert "fork of" not in parent


def test_a_long_title_leaves_room_for_what_a_fork_was_made_from(
    cli: Cli, kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    cli("fork", kept.id, "--title", "long " * 40)
    line = cli("list").out.splitlines()[0]
    assert len(line) <= 80
    assert line.endswith(f"…  fork of {kept.id[:8]}")


def test_a_session_another_process_writes_is_forked(cli: Cli, kept: Any) -> None:
    with SessionStore(kept.root).open(kept.id):
        assert cli("fork", kept.id).exit_code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--at", "9"], 3), (["--at", "nobody"], 3), (["--title", " "], 2), (["--title", "x" * 1001], 2),
     (["--workdir", "nowhere"], 2)],
)  # fmt: skip
def test_what_cannot_be_forked_is_refused_in_one_line(cli: Cli, kept: Any, words: list[str], code: int) -> None:
    before = sorted(kept.root.rglob("*"))
    for dry in ((), ("--dry-run",)):
        done = cli("fork", kept.id, *words, *dry)
        assert (done.exit_code, done.out, len(done.err.splitlines())) == (code, "", 1)
    assert sorted(kept.root.rglob("*")) == before
