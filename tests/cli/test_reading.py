"""list, show, checkpoints: what they print, and that they change nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from sessions import SessionStore
from sessions.cli import render
from sessions.picker.text import plain
from sessions.rewind.plan import Checkpoint

if TYPE_CHECKING:
    from pathlib import Path

Cli = Callable[..., Any]


def test_list_shows_a_line_a_session(cli: Cli, kept: Any) -> None:
    done = cli("list")
    assert done.exit_code == 0
    assert done.err == ""
    [line] = done.out.splitlines()
    assert line.split() == [kept.id[:8], "now", "2.4k", "A", "kept", "session"]


def test_list_shows_only_this_project_unless_all_are_asked_for(
    cli: Cli, kept: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    here = cli("list")
    assert (here.out, here.err) == (
        "",
        "no sessions here; --worktrees shows those of this repository, --all those of other directories\n",
    )
    everywhere = cli("list", "--all")
    assert kept.id[:8] in everywhere.out
    assert str(kept.project) in everywhere.out


def test_list_searches_and_limits(cli: Cli, kept: Any) -> None:
    with SessionStore(kept.root).create(kept.project) as session, session.begin_turn("Another thing"):
        pass
    assert len(cli("list").out.splitlines()) == 2
    assert len(cli("list", "--limit", "1").out.splitlines()) == 1
    assert cli("list", "--limit", "0").exit_code == 2
    [line] = cli("list", "--search", "KEPT").out.splitlines()
    assert kept.id[:8] in line


def test_list_in_json_has_the_documented_keys(cli: Cli, kept: Any) -> None:
    [row] = cli("list", "--json").json
    assert list(row) == [
        "id", "title", "workdir", "git_branch", "created_at", "last_active_at", "total_tokens", "first_prompt", "path",
        "forked_from", "parent_id", "damaged",
    ]  # fmt: skip
    assert (row["id"], row["title"], row["workdir"]) == (kept.id, "A kept session", str(kept.project))
    assert (row["first_prompt"], row["total_tokens"]) == ("Begin the notes", 2400)


def test_a_default_root_that_does_not_exist_has_no_sessions_yet(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONS_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert cli("list", "--json").json == []
    done = cli("list")
    assert (done.exit_code, done.out, done.err) == (0, "", "no sessions yet\n")
    assert cli("check").exit_code == 0
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("words", [["list"], ["check"], ["show", "x"], ["rewind", "x", "--to", "1", "--yes"]])
def test_a_given_root_that_is_no_directory_is_one_clear_error(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    for name, said in [("nowhere", "there is no directory "), ("file", "file is not a directory")]:
        done = cli(*words, "--root", str(tmp_path / name))
        assert (done.exit_code, done.out) == (3, "")
        assert said in done.err
        assert len(done.err.splitlines()) == 1
        monkeypatch.setenv("SESSIONS_HOME", str(tmp_path / name))
        assert cli(*words).exit_code == 3
        monkeypatch.delenv("SESSIONS_HOME")
    assert not (tmp_path / "nowhere").exists()


def test_a_root_that_cannot_be_read_exits_7(cli: Cli, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "projects").symlink_to(loop)
    for root in (loop, tmp_path / "root"):
        for command in ("list", "check"):
            done = cli(command, "--root", str(root))
            assert (done.exit_code, len(done.err.splitlines())) == (7, 1)


def test_transcripts_that_cannot_be_read_are_warned_about(cli: Cli, kept: Any) -> None:
    unreadable = kept.path.with_name("0000.jsonl")
    unreadable.symlink_to(unreadable)
    elsewhere = kept.root / "projects" / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1111.jsonl").symlink_to("nowhere")
    done = cli("list")
    assert (done.exit_code, len(done.out.splitlines())) == (0, 1)
    assert done.err.startswith(f"warning: cannot be read, so it is left out: {unreadable}: ")
    assert len(done.err.splitlines()) == 1
    for words in (["list", "--all"], ["check"], ["check", "--dry-run"]):
        named = {line.split(": ")[2] for line in cli(*words).err.splitlines()}
        assert named == {str(unreadable), str(elsewhere / "1111.jsonl")}
    assert cli("list", "--json").json[0]["id"] == kept.id


def test_many_lines_are_written_with_one_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    from sessions.cli import output

    class Counted(io.StringIO):
        flushes = 0

        def flush(self) -> None:
            self.flushes += 1

    stream = Counted()
    monkeypatch.setattr(sys, "stdout", stream)
    output.lines((("", f"line {n}"),) for n in range(1000))
    assert (stream.getvalue().count("\n"), stream.flushes) == (1000, 1)


@pytest.mark.parametrize(
    ("raw", "printed"),
    [
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\uDE00x"', "\ufffdx"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\ud83d\n\ude00"', "\ufffd\n\ufffd"),
        (rb'"\\ud83d"', "\\ud83d"),
        (rb'"\\\ud83d"', "\\\ufffd"),
        (rb'"\u00e9 \ud7ff"', "\u00e9 \ud7ff"),
    ],
)
def test_json_holds_no_lone_surrogate_and_is_else_unchanged(
    raw: bytes, printed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    import json

    from sessions.cli import output

    output.json_bytes(raw)
    assert json.loads(capfd.readouterr().out) == printed


def test_root_is_taken_before_and_behind_the_command(
    cli: Cli, kept: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SESSIONS_HOME", str(tmp_path / "elsewhere"))
    assert kept.id[:8] in cli("--root", str(kept.root), "list").out
    assert kept.id[:8] in cli("list", "--root", str(kept.root)).out
    assert cli("list").out == ""


def test_short_ids_are_long_enough_to_differ() -> None:
    assert render.short_ids(["abcdefghij1", "abcdefghij2", "zzzzzzzzzzzz"]) == [
        "abcdefghij1",
        "abcdefghij2",
        "zzzzzzzz",
    ]
    assert render.short_ids(["abcdefgh", "abcdefghi"]) == ["abcdefgh", "abcdefghi"]
    assert render.short_ids([]) == []


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, "-"), (0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (999_949, "999.9k"), (999_950, "1.0M")],
)
def test_tokens_are_short(number: int | None, shown: str) -> None:
    assert render.tokens(number) == shown


def test_checkpoints_shows_a_line_a_prompt_and_where_a_compaction_lies(
    cli: Cli, kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    done = cli("checkpoints", kept.id[:8])
    first, second, compaction, third = done.out.splitlines()
    assert first.split()[0] == "1"
    assert "Begin the notes" in first
    assert first.endswith("2 files          +2")
    assert r"Add \x1b[31mtwo lines \ud83d" in second
    assert "compacted here" in compaction
    assert third.endswith("2 files       +1 -1  !")


def test_checkpoints_in_json_has_the_documented_keys(cli: Cli, kept: Any) -> None:
    rows = cli("checkpoints", "A kept session", "--json").json
    assert [list(row) for row in rows] == 3 * [
        [
            "index", "id", "prompt", "timestamp", "files", "insertions", "deletions", "before_compaction", "gaps", "marks",
            "run_id",
        ]
    ]  # fmt: skip
    assert [row["index"] for row in rows] == [1, 2, 3]
    assert rows[1]["prompt"] == "Add \x1b[31mtwo\nlines \ufffd"
    assert rows[2]["files"] == [{"path": "notes.txt", "status": "modified"}, {"path": "old.txt", "status": "deleted"}]
    assert (rows[2]["insertions"], rows[2]["deletions"]) == (1, 1)
    assert [row["before_compaction"] for row in rows] == [True, False, False]
    assert rows[2]["gaps"][0]["kind"] == "shell"


def test_show_prints_what_the_model_sees_and_history_all(cli: Cli, kept: Any) -> None:
    seen = cli("show", kept.id)
    assert seen.exit_code == 0
    assert "⊟ summary of what came before" in seen.out
    assert "Begin the notes" not in seen.out
    assert "\n  Add \\x1b[31mtwo\n  lines \\ud83d\n" in seen.out
    assert "\x1b" not in seen.out
    history = cli("show", kept.id, "--history")
    assert "Begin the notes" in history.out


def test_show_in_json_gives_the_lines_of_the_transcript(cli: Cli, kept: Any) -> None:
    messages = cli("show", kept.id, "--history", "--json").json["messages"]
    assert [message["role"] for message in messages][:3] == ["user", "assistant", "user"]
    assert messages[2]["blocks"][0]["content"] == "Add \x1b[31mtwo\nlines \ufffd"


def test_show_prints_every_kind_of_block(cli: Cli, kept: Any) -> None:
    blocks = [
        {"type": "reasoning", "content": "thinking about it"},
        {"type": "tool", "id": "t1", "name": "Bash", "parameters": '{"command":"ls\\u001b"}', "stage": "end",
         "success": False, "result": "\n".join(f"line {n}" for n in range(20))},
        {"type": "image", "path": "x.png"},
    ]  # fmt: skip
    with SessionStore(kept.root).open(kept.id) as session:
        session.append({"role": "assistant", "blocks": blocks})
        session.append({"role": "user", "blocks": [{"type": "bang", "command": "make", "output": "no", "exitCode": 2}]})
    out = cli("show", kept.id).out
    for text in ("thinking about it", "Bash {", "· failed", "line 11", "… 8 more lines", "[image]", "! make · exit 2"):
        assert text in out
    assert "line 12" not in out


def test_show_says_what_errors_infos_and_file_histories_say(cli: Cli, kept: Any) -> None:
    blocks = [
        {"type": "error", "content": "model\noverloaded \x1b"},
        {"type": "info", "content": "retrying"},
        {
            "type": "file_history",
            "snapshots": [{"filePath": "/w/a.py", "operation": "modify"}, {"filePath": "/w/b"}, 7],
        },
        {"type": "file_history", "snapshots": "?"},
        {"type": "error", "content": 5},
    ]
    with SessionStore(kept.root).open(kept.id) as session:
        session.append({"role": "assistant", "blocks": blocks})
    assert cli("show", kept.id).out.splitlines()[-6:-1] == [
        r"  [error] model overloaded \x1b",
        "  [info] retrying",
        "  [file_history] modify /w/a.py, /w/b",
        "  [file_history]",
        "  [error]",
    ]


def test_checkpoints_show_ids_long_enough_to_name_one() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    ids = ["20260527101112-0a1b2c3d", "20260527101112-0a9b2c3d", "20260527101113-00000000"]
    found = [Checkpoint(each, at, "go", now) for at, each in enumerate(ids, 1)]
    shown = [plain(line).split()[1] for line in render.checkpoint_table(found, now, 100)]
    assert shown == ["20260527101112-0a1", "20260527101112-0a9", "20260527101113"]


def test_reading_changes_no_byte_and_no_time(cli: Cli, kept: Any) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in kept.root.rglob("*") if path.is_file()
        }

    before = state()
    for words in (["list"], ["show", kept.id], ["checkpoints", kept.id], ["title", kept.id], ["check", "--dry-run"],
                  ["rewind", kept.id, "--to", "1", "--dry-run"], ["delete", kept.id, "--dry-run"],
                  ["compact", kept.id, "--summary", "x", "--dry-run"], ["title", kept.id, "x", "--dry-run"]):  # fmt: skip
        assert cli(*words).exit_code == 0, words
    assert state() == before


def test_damage_is_a_warning_on_stderr_and_the_rest_is_read(cli: Cli, kept: Any) -> None:
    lines = kept.path.read_bytes().split(b"\n")
    lines.insert(2, b'{"not json')
    kept.path.write_bytes(b"\n".join(lines) + b'{"timestamp":"2026')
    done = cli("show", kept.id, "--json")
    assert done.exit_code == 0
    assert done.json["messages"]
    warnings = done.err.splitlines()
    assert any(line.startswith("warning: torn tail: ") for line in warnings)
    assert all(line.startswith("warning: ") for line in warnings)


@pytest.mark.parametrize(
    ("ago", "shown"),
    [
        (timedelta(seconds=-3), "now"),
        (timedelta(seconds=9), "now"),
        (timedelta(seconds=59), "59s"),
        (timedelta(seconds=60), "1m"),
        (timedelta(minutes=59, seconds=59), "59m"),
        (timedelta(hours=23), "23h"),
        (timedelta(days=13), "13d"),
        (timedelta(days=14), "2w"),
        (timedelta(days=89), "12w"),
        (timedelta(days=90), "2026-01-30"),
        (timedelta(days=-2), "2026-05-02"),
        (None, ""),
    ],
)
def test_relative_times(ago: timedelta | None, shown: str) -> None:
    from sessions.picker import words

    now = datetime(2026, 4, 30, 12, tzinfo=UTC)
    assert words.relative(None if ago is None else now - ago, now) == shown
