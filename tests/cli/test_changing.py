"""compact, title, delete, check."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from sessions import SessionStore

Cli = Callable[..., Any]


def test_title_prints_and_changes(cli: Cli, kept: Any) -> None:
    assert cli("title", kept.id).out == "A kept session\n"
    assert cli("title", kept.id, "A \x1b new one").out == "A \\x1b new one\n"
    assert cli("title", kept.id, "--json").json == {"session": kept.id, "title": "A \x1b new one"}
    assert cli("title", kept.id, "another", "--dry-run").out == "would be called another\n"
    assert cli("title", kept.id, "--json").json["title"] == "A \x1b new one"


@pytest.mark.parametrize("title", ["", "   ", "x" * 1001])
def test_a_title_that_is_none_is_refused_in_one_line(cli: Cli, kept: Any, title: str) -> None:
    before = kept.path.read_bytes()
    done = cli("title", kept.id, title)
    assert done.exit_code == 2
    assert len(done.err.splitlines()) == 1
    assert kept.path.read_bytes() == before


def test_a_session_without_a_title_says_so(cli: Cli, kept: Any) -> None:
    with SessionStore(kept.root).create(kept.project) as session, session.begin_turn("hello"):
        pass
    done = cli("title", session.id)
    assert (done.exit_code, done.out) == (0, "")
    assert done.err == "this session has no title\n"


def test_compact_takes_the_summary_as_an_option_or_from_stdin(
    cli: Cli, kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = cli("compact", kept.id, "--summary", "All of it.", "--keep-rounds", "1", "--json")
    assert set(done.json) == {"compacted", "summary_id", "kept_messages", "tokens_before", "tokens_after"}
    assert done.json["compacted"] is True
    assert "All of it." in cli("show", kept.id).out
    with SessionStore(kept.root).open(kept.id) as session, session.begin_turn("go on"):
        session.append({"role": "assistant", "blocks": [{"type": "text", "content": "x"}]})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Zusammenfassung: größer\n".encode())))
    assert cli("compact", kept.id, "--summary", "-", "--keep-rounds", "0").exit_code == 0
    assert "Zusammenfassung: größer" in cli("show", kept.id).out


def test_delete_removes_the_session_and_leaves_the_project(cli: Cli, kept: Any) -> None:
    looked = cli("delete", kept.id, "--dry-run")
    assert (looked.exit_code, kept.path.exists()) == (0, True)
    assert f"would delete {kept.id} · A kept session" in looked.out
    done = cli("delete", kept.id, "--yes", "--json")
    assert done.json == {
        "session": kept.id, "path": str(kept.path), "subagents": [], "deleted": True, "cancelled": [], "dry_run": False,
    }  # fmt: skip
    assert [path for path in kept.root.rglob("*") if path.is_file()] == []
    assert kept.text() == "one\ntwo\nthree\n"
    assert cli("delete", kept.id, "--yes").exit_code == 3


def test_delete_says_what_becomes_of_subagents(cli: Cli, kept: Any) -> None:
    header = {"type": "metadata", "createdAt": "2026-03-01T08:00:00.000Z", "rootSession": kept.id,
              "parentSession": kept.id, "spawnedBy": "m"}  # fmt: skip
    child = kept.path.with_name("subagent-a.jsonl")
    child.write_text(json.dumps(header) + "\n")
    assert "and the 1 session of its subagents" in cli("delete", kept.id, "--dry-run").out
    assert child.exists()
    assert cli("delete", kept.id, "--yes", "--json").json["subagents"] == ["subagent-a"]
    assert not child.exists()


def test_delete_says_nothing_of_deleting_what_another_process_holds(cli: Cli, kept: Any) -> None:
    with SessionStore(kept.root).open(kept.id):
        done = cli("delete", kept.id, "--yes")
    assert (done.exit_code, done.out) == (5, "")
    assert kept.path.exists()


@pytest.fixture
def copied(kept: Any, tmp_path: Any) -> Any:
    """The kept session's copy in another project, with the same id, another title, and written later."""
    copy = kept.root / "projects" / "elsewhere" / kept.path.name
    copy.parent.mkdir()
    copy.write_bytes(
        kept.path.read_bytes()
        .replace(str(kept.project).encode(), str(tmp_path / "elsewhere").encode())
        .replace(b"A kept session", b"Its copy")
    )
    os.utime(kept.path, (1, 1))
    return copy


@pytest.mark.parametrize(
    "words",
    [
        ("title", "Its copy", "New name"),
        ("compact", "Its copy", "--summary", "short"),
        ("rewind", "Its copy", "--to", "1", "--scope", "conversation", "--yes"),
    ],
)
def test_a_command_changes_the_session_that_has_the_title_not_one_of_its_id(
    cli: Cli, kept: Any, copied: Any, words: tuple[str, ...]
) -> None:
    before = kept.path.read_bytes(), copied.read_bytes()
    done = cli(*words)
    assert done.exit_code == 0, done.err
    assert kept.path.read_bytes() == before[0]
    assert copied.read_bytes() != before[1]


def test_the_command_that_takes_it_back_means_that_session_too(
    cli: Cli, kept: Any, copied: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    before = kept.path.read_bytes(), copied.read_bytes()
    done = cli("rewind", "Its copy", "--to", "1", "--scope", "conversation", "--yes")
    command = next(line for line in done.out.splitlines() if "to take this back: " in line).partition(": ")[2]
    directory, _, words = command.partition(" && ")
    assert directory == f"cd {tmp_path / 'elsewhere'}"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cli(*words.partition("sessions ")[2].split(), "--yes").exit_code == 0
    assert (kept.path.read_bytes(), copied.read_bytes()) == before


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_check_looks_at_each_of_two_sessions_of_one_id(cli: Cli, kept: Any, copied: Any, dry: tuple[str, ...]) -> None:
    kept.path.write_bytes(kept.path.read_bytes() + b"broken\n")
    os.utime(kept.path, (1, 1))
    done = cli("check", *dry)
    assert (done.exit_code, done.out.splitlines()[-1]) == (4, "2 sessions checked, 1 finding")


def test_check_of_whole_sessions_exits_0(cli: Cli, kept: Any) -> None:
    done = cli("check")
    assert (done.exit_code, done.out) == (0, "1 session checked, nothing is damaged\n")
    assert cli("check", kept.id, "--json").json == [{"session": kept.id, "findings": [], "recovered": []}]


def test_check_names_damage_leaves_it_and_exits_4(cli: Cli, kept: Any) -> None:
    damaged = kept.path.read_bytes().replace(b"\n", b"\n\x00\x00broken\n", 1)
    kept.path.write_bytes(damaged)
    for dry in ((), ("--dry-run",)):
        done = cli("check", kept.id, *dry)
        assert done.exit_code == 4
        assert "opaque line" in done.out
        assert "1 session checked, 1 finding" in done.out
        assert done.err == ""
    [checked] = cli("check", "--json").json
    assert set(checked["findings"][0]) == {"kind", "where", "action"}
    assert kept.path.read_bytes() == damaged
