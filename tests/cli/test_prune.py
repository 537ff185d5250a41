"""prune."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from sessions import SessionStore, clock

Cli = Callable[..., Any]


@pytest.fixture
def full(kept: Any) -> Any:
    """The kept session with an undo record too many, and snapshots of more turns than are to be kept."""
    with SessionStore(kept.root).open(kept.id) as session:
        for number in range(2):
            (kept.project / "notes.txt").write_text(f"by hand {number}\n")
            session.rewind(3, scope="code")
    (kept.root / "settings.toml").write_text("[checkpoints]\nretain_turns = 2\nretain_rewinds = 20\n")
    return kept


def everything(directory: Any) -> dict[str, tuple[object, ...]]:
    found = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            with open(path, "rb") as file:
                found[path] = status.st_ino, status.st_mtime_ns, status.st_ctime_ns, file.read()
    return found


def test_a_dry_run_says_what_would_go_and_changes_no_byte(cli: Cli, full: Any) -> None:
    before = everything(full.root)
    looked = cli("prune", "--undo", "--dry-run")
    assert everything(full.root) == before
    assert (looked.exit_code, looked.err) == (0, "")
    lines = looked.out.splitlines()
    assert lines[0] == f"{full.id} · A kept session"
    assert lines[1].strip().startswith("the snapshots of 1 turn, 1 undo record  ")
    assert "removed from the conversation" in lines[2]
    assert lines[3].startswith("1 session, ")
    assert lines[3].endswith(" would be freed")


def test_prune_removes_what_the_dry_run_said(cli: Cli, full: Any) -> None:
    seen = cli("prune", "--undo", "--dry-run", "--json").json
    transcript = full.path.read_bytes(), full.path.stat().st_mtime_ns
    done = cli("prune", "--undo", "--yes", "--json")
    assert done.exit_code == 0
    assert done.json == seen
    (said,) = seen
    assert set(said) == {"session", "turns", "rewinds", "tasks", "leftovers", "freed_bytes", "skipped"}
    assert (said["session"], said["turns"], len(said["rewinds"]), said["skipped"]) == (full.id, [1], 1, None)
    assert said["freed_bytes"] > 0
    assert (full.path.read_bytes(), full.path.stat().st_mtime_ns) == transcript
    assert cli("prune", "--undo", "--yes").out == "nothing to prune\n"
    assert cli("check").exit_code == 0
    assert cli("undo", full.id, "--yes").exit_code == 0
    assert full.text() == "by hand 1\n"
    again = cli("undo", full.id, "--yes")
    assert (again.exit_code, "nothing to undo: the undo data" in again.err) == (3, True)


def test_without_the_option_the_limits_count(cli: Cli, full: Any) -> None:
    (said,) = cli("prune", "--yes", "--json").json
    assert (said["turns"], said["rewinds"]) == ([1], [])


def test_damaged_settings_prune_nothing(cli: Cli, full: Any) -> None:
    (full.root / "settings.toml").write_text("[checkpoints]\nretain_turns = 1\nquota_bytes = '1'\n")
    before = everything(full.root)
    done = cli("prune", "--yes")
    assert done.out == "nothing to prune\n"
    assert done.err == (
        "warning: settings: settings.toml: quota_bytes is '1', not a number of bytes: until it is mended nothing is"
        " limited, but files over 32 MiB are not captured\n"
    )
    assert everything(full.root) == before


@pytest.mark.parametrize("words", [["check"], ["check", "--dry-run"], ["prune", "--dry-run"]])
def test_a_mistake_in_the_settings_is_a_warning_and_no_finding(cli: Cli, kept: Any, words: list[str]) -> None:
    (kept.root / "settings.toml").write_text("[checkpoints]\nretain_turn = 1\n")
    done = cli(*words)
    assert done.exit_code == 0
    assert done.err.count("no setting 'retain_turn': ignored; is retain_turns meant?") == 1


def test_a_session_that_is_open_elsewhere_is_skipped_and_named(cli: Cli, full: Any) -> None:
    with SessionStore(full.root).open(full.id):
        before = everything(full.root)
        done = cli("prune", "--yes", "--json")
        assert everything(full.root) == before
    assert done.exit_code == 0
    (said,) = done.json
    assert (said["session"], said["turns"], said["freed_bytes"]) == (full.id, [], 0)
    assert f"session {full.id} is open in process {os.getpid()}" in said["skipped"]
    assert full.id in done.err


def test_it_is_not_done_without_being_asked_or_told(cli: Cli, full: Any) -> None:
    before = everything(full.root)
    assert cli("prune").exit_code == 2
    assert everything(full.root) == before


def test_what_a_crash_left_of_a_deleted_session_goes(cli: Cli, kept: Any) -> None:
    sidecar = kept.path.with_suffix(".ckpt")
    (sidecar / "deleted").touch()
    assert cli("prune", "--yes").out == "nothing to prune\n"
    assert sidecar.exists(), "the crash came before the transcript was deleted"
    (sidecar / "deleted").unlink()
    kept.path.unlink()
    assert cli("prune", "--yes").out == "nothing to prune\n"
    assert sidecar.exists(), "without the mark nobody knows that it was to be deleted"
    (sidecar / "deleted").touch()
    (said,) = cli("prune", "--dry-run", "--json").json
    assert (said["session"], said["leftovers"], sidecar.exists()) == (kept.id, 1, True)
    assert cli("prune", "--yes", "--json").json == [said]
    assert not sidecar.exists()


@pytest.fixture
def old(kept: Any) -> Any:
    """The kept session, last written 40 days ago, where the settings keep one for 30."""
    stamp = time.time() - 40 * 24 * 3600
    os.utime(kept.path, (stamp, stamp))
    (kept.root / "settings.toml").write_text("[retention]\ncleanup_period_days = 30\n")
    return kept


def test_a_dry_run_says_which_sessions_would_go_and_why(cli: Cli, old: Any) -> None:
    before = everything(old.root)
    looked = cli("prune", "--dry-run")
    assert everything(old.root) == before
    assert (looked.exit_code, looked.err) == (0, "")
    first, second, last = looked.out.splitlines()
    assert first == f"{old.id} · A kept session"
    assert second.startswith("  the whole session, last active 5w ago: beyond cleanup_period_days  ")
    assert last.startswith("1 session, ")
    assert last.endswith(" would be freed")


def test_a_session_that_goes_is_said_as_removed_with_the_reason(cli: Cli, old: Any) -> None:
    written = clock.from_epoch(old.path.stat().st_mtime)
    seen = cli("prune", "--dry-run", "--json").json
    assert cli("prune", "--yes", "--json").json == seen
    (said,) = seen
    assert (said["session"], said["removed"], said["reason"], said["skipped"]) == (old.id, True, "age", None)
    assert (said["title"], said["last_active_at"]) == ("A kept session", clock.timestamp(written))
    assert said["freed_bytes"] > 0
    assert not old.path.exists()
    assert not old.path.parent.exists()
    assert cli("prune", "--yes").out == "nothing to prune\n"


def test_one_too_many_says_so(cli: Cli, old: Any) -> None:
    with SessionStore(old.root, retention=False).create(old.project) as session:
        session.append({"role": "user", "blocks": [{"type": "text", "content": "newer"}]})
    (old.root / "settings.toml").write_text("[retention]\nmax_count = 1\n")
    assert ": beyond max_count of its project  " in cli("prune", "--dry-run").out
    (said,) = cli("prune", "--yes", "--json").json
    assert (said["session"], said["reason"]) == (old.id, "count")
    assert session.path.exists()


def test_sessions_do_not_go_without_being_asked_or_told(cli: Cli, old: Any) -> None:
    before = everything(old.root)
    assert cli("prune").exit_code == 2
    assert everything(old.root) == before


def test_a_session_that_is_too_old_only_after_the_question_stays(in_terminal: Any, old: Any) -> None:
    with SessionStore(old.root, retention=False).create(old.project) as session:
        session.append({"role": "user", "blocks": [{"type": "text", "content": "newer"}]})
    stamp = time.time() - 50 * 24 * 3600
    terminal = in_terminal(["-m", "sessions", "prune"], columns=100, lines=20)
    terminal.shows(old.id, "Remove it for good?")
    os.utime(session.path, (stamp, stamp))
    terminal.press("y\r")
    terminal.end()
    assert terminal.exit_code == 0
    assert (old.path.exists(), session.path.exists()) == (False, True)


def test_what_is_skipped_is_said_where_there_is_nothing_to_ask_about(in_terminal: Any, old: Any) -> None:
    with SessionStore(old.root, retention=False).open(old.id):
        terminal = in_terminal(["-m", "sessions", "prune"], columns=200, lines=20)
        terminal.shows(f"session {old.id} was skipped: it is open", "nothing to prune")
        terminal.end()
    assert (terminal.exit_code, old.path.exists()) == (0, True)


def test_an_old_session_that_is_open_is_skipped_and_said_once(cli: Cli, old: Any) -> None:
    with SessionStore(old.root, retention=False).open(old.id):
        done = cli("prune", "--yes", "--json")
    (said,) = done.json
    assert f"is open in process {os.getpid()}" in said["skipped"]
    assert "removed" not in said
    assert done.err.count(old.id) == 2  # in our words, and in those of the reason
    assert old.path.exists()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("cleanup_period_days = 30\nmin_retention = '60d'", "shorter than min_retention (60d): no session is removed"),
        ("cleanup_period_days = 30\nmax_count = -1", "max_count is -1, not a number of sessions: until it is mended"),
        ("cleanup_perod_days = 30\nmax_count = 1", "no session is removed until it is mended; is cleanup_period_days"),
    ],
)
def test_settings_that_cannot_be_meant_remove_no_session_and_are_said(
    cli: Cli, old: Any, settings: str, why: str
) -> None:
    (old.root / "settings.toml").write_text(f"[retention]\n{settings}\n")
    before = everything(old.root)
    done = cli("prune", "--yes")
    assert (done.exit_code, done.out) == (0, "nothing to prune\n")
    assert why in done.err
    assert everything(old.root) == before


@pytest.mark.parametrize("words", [["list"], ["show"], ["checkpoints"], ["title", "anew"], ["check"], ["fork"]])
def test_no_other_command_removes_sessions(cli: Cli, old: Any, words: list[str]) -> None:
    command, *rest = words
    with SessionStore(old.root, retention=False).create(old.project) as session:
        session.append({"role": "user", "blocks": [{"type": "text", "content": "newer"}]})
    named = [] if command in {"list", "check"} else [session.id]
    assert cli(command, *named, *rest).exit_code == 0
    assert not [each for each in threading.enumerate() if each.name == "sessions-retention"]
    assert old.path.exists()


def test_what_cannot_be_looked_at_is_said(cli: Cli, kept: Any) -> None:
    loop = kept.root / "projects" / "loop"
    loop.symlink_to(loop)
    for words in (["prune", "--dry-run"], ["prune", "--yes"]):
        assert f"cannot be read, so it is left out: {loop}" in cli(*words).err
