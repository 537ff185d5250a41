"""rewind and undo from the command line: what they do, say and refuse."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions import SessionStore, assistant_message

Cli = Callable[..., Any]


def test_a_rewind_reports_how_to_undo_it_and_gives_the_prompt_back(cli: Cli, kept: Any) -> None:
    done = cli("rewind", kept.id, "--to", "2", "--yes")
    assert done.exit_code == 0
    assert kept.text() == "one\n"
    assert kept.text("old.txt") == "old\n"
    assert done.out.splitlines()[0].startswith("rewound: ")
    assert "restored     notes.txt" in done.out
    assert "recreated    old.txt" in done.out
    assert f"undo {kept.id}\n" in done.out
    assert "  Add \\x1b[31mtwo\n  lines \\ud83d\n" in done.out
    assert done.err == "warning: not captured, so it stays as it is: shell commands: build/out.o\n"


def test_undo_and_redo(cli: Cli, kept: Any) -> None:
    before = kept.path.read_bytes()
    cli("rewind", kept.id, "--last", "2", "--yes")
    rewound = kept.path.read_bytes()
    undone = cli("undo", kept.id, "--yes")
    assert undone.exit_code == 0
    assert kept.path.read_bytes() == before
    assert kept.text() == "one\ntwo\nthree\n"
    assert f"undo {kept.id} --redo\n" in undone.out
    assert cli("undo", kept.id, "--redo", "--yes").exit_code == 0
    assert kept.path.read_bytes() == rewound
    assert kept.text() == "one\n"


def test_json_has_the_documented_shape(cli: Cli, kept: Any) -> None:
    plan = cli("rewind", kept.id, "--to", "3", "--dry-run", "--json").json
    report = cli("rewind", kept.id, "--to", "3", "--yes", "--json").json
    undo = cli("undo", kept.id, "--yes", "--json").json
    for said in (plan, report, undo):
        assert set(said) == {
            "rewind_id", "session", "removed_messages", "files", "conflicts", "cancelled", "gaps", "prompt", "partial",
            "dry_run", "scope", "history", "run", "mark", "notes",
        }  # fmt: skip
        assert said["session"] == kept.id
    assert (plan["rewind_id"], plan["dry_run"], report["dry_run"]) == (None, True, False)
    assert report["files"] == [
        {
            "path": path,
            "action": action,
            "reason": None,
            "by": "agent",
            "insertions": added,
            "deletions": gone,
            "note": "",
        }
        for path, action, added, gone in (("notes.txt", "restore", 0, 1), ("old.txt", "recreate", 1, 0))
    ]
    assert report["prompt"] == plan["prompt"] == "Delete the old file"
    assert undo["rewind_id"] == report["rewind_id"]


def test_a_lone_surrogate_in_the_prompt_is_json_that_every_reader_takes(cli: Cli, kept: Any) -> None:
    done = cli("rewind", kept.id, "--to", "2", "--dry-run", "--json")
    assert r"lines \ufffd" in done.out
    assert done.json["prompt"] == "Add \x1b[31mtwo\nlines \ufffd"
    assert rb"lines \ud83d" in kept.path.read_bytes()


def test_a_file_name_that_is_not_utf8_is_shown_escaped_and_valid_in_json(cli: Cli, kept: Any) -> None:
    name = b"caf\xe9.txt"
    with SessionStore(kept.root).open(kept.id) as session, session.begin_turn("name") as turn:
        path = Path(kept.project, name.decode("utf-8", "surrogateescape"))
        with turn.edit(path):
            path.write_bytes(b"x")
    assert r"caf\xe9.txt" in cli("rewind", kept.id, "--to", "4", "--dry-run").out
    said = cli("rewind", kept.id, "--to", "4", "--yes", "--json").json
    assert said["files"][0]["path"] == "caf\ufffd.txt"


def test_a_dry_run_prints_the_plan_and_changes_nothing(cli: Cli, kept: Any) -> None:
    before = kept.path.read_bytes()
    done = cli("rewind", kept.id, "--to", "1", "--dry-run")
    assert done.exit_code == 0
    assert "conversation loses " in done.out
    assert "delete       notes.txt" in done.out
    assert kept.path.read_bytes() == before
    assert kept.text() == "one\ntwo\nthree\n"


def test_scopes(cli: Cli, kept: Any) -> None:
    before = kept.path.read_bytes()
    assert cli("rewind", kept.id, "--to", "2", "--scope", "code", "--yes").exit_code == 0
    assert (kept.text(), kept.path.read_bytes()) == ("one\n", before)
    assert cli("undo", kept.id, "--yes").exit_code == 0
    done = cli("rewind", kept.id, "--to", "2", "--scope", "conversation", "--yes")
    assert kept.text() == "one\ntwo\nthree\n"
    [note] = [line for line in done.out.splitlines() if line.startswith("files stay as they are; ")]
    words = shlex.split(note.partition("to take them back: ")[2])
    done = cli(*words[words.index("rewind") :], "--yes")
    assert (done.exit_code, kept.text()) == (0, "one\n")


def test_printed_commands_name_the_directories_that_were_given(cli: Cli, kept: Any, tmp_path: Path) -> None:
    (tmp_path / "more dirs").mkdir()
    for words in (["rewind", kept.id, "--to", "2", "--yes"], ["undo", kept.id, "--yes"],
                  ["rewind", kept.id, "--to", "2", "--scope", "conversation", "--yes"]):  # fmt: skip
        done = cli(*words, "--add-dir", os.path.relpath(tmp_path / "more dirs"))
        assert f"--add-dir '{tmp_path / 'more dirs'}'" in done.out


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dry_run_of_what_would_be_refused_says_so_and_exits_5(cli: Cli, kept: Any, as_json: bool) -> None:
    (kept.project / "notes.txt").write_text("mine\n")
    words = ["rewind", kept.id, "--to", "2", "--on-conflict", "refuse", "--dry-run"]
    done = cli(*words, *(["--json"] if as_json else []))
    assert done.exit_code == 5
    assert done.err.splitlines()[-1].startswith("sessions: refused: 1 file")
    if as_json:
        assert "notes.txt" in done.json["refused"]
    else:
        assert done.out.startswith("refused: 1 file")


def test_a_dry_run_of_an_undo_that_would_be_refused_says_so_and_exits_5(cli: Cli, kept: Any) -> None:
    cli("rewind", kept.id, "--to", "2", "--yes")
    assert cli("undo", kept.id, "--dry-run").exit_code == 0
    with SessionStore(kept.root).open(kept.id) as session, session.begin_turn("another"):
        pass
    done = cli("undo", kept.id, "--dry-run")
    assert done.exit_code == 5
    assert done.out.splitlines()[1].startswith("refused: messages came since")


def test_a_gap_is_said_once_and_single_files_bring_none_of_others(cli: Cli, kept: Any) -> None:
    assert cli("rewind", kept.id, "--to", "3", "--file", "notes.txt", "--dry-run").out.count("shell") == 0
    assert cli("rewind", kept.id, "--to", "3", "--file", "notes.txt", "--yes").err == ""
    assert cli("undo", kept.id, "--yes").err == ""
    done = cli("rewind", kept.id, "--to", "3", "--yes")
    assert (done.out + done.err).count("shell commands") == 1


def test_findings_that_come_with_the_change_are_warned_about_once(cli: Cli, kept: Any) -> None:
    whole = kept.path.read_bytes()
    for words in (["title", kept.id, "new"], ["compact", kept.id, "--summary", "x", "--keep-rounds", "0"]):
        kept.path.write_bytes(whole + b'{"timestamp":"2026')
        done = cli(*words)
        assert done.exit_code == 0
        warnings = [line for line in done.err.splitlines() if "torn" in line]
        assert len(warnings) == len(set(warnings))
        assert sum("set aside in " in line for line in warnings) == 1


def test_single_files(cli: Cli, kept: Any) -> None:
    before = kept.path.read_bytes()
    assert cli("rewind", kept.id, "--to", "2", "--file", "notes.txt", "--yes").exit_code == 0
    assert kept.text() == "one\n"
    assert not (kept.project / "old.txt").exists()
    assert kept.path.read_bytes() == before
    assert cli("rewind", kept.id, "--to", "2", "--file", "notes.txt", "--scope", "both", "--yes").exit_code == 2


@pytest.mark.parametrize(
    ("policy", "exit_code", "left"), [("overwrite", 0, "one\n"), ("keep", 0, "mine\n"), ("refuse", 5, "mine\n")]
)
def test_a_file_somebody_else_changed(cli: Cli, kept: Any, policy: str, exit_code: int, left: str) -> None:
    (kept.project / "notes.txt").write_text("mine\n")
    done = cli("rewind", kept.id, "--to", "2", "--on-conflict", policy, "--yes")
    assert done.exit_code == exit_code
    assert kept.text() == left
    assert "notes.txt" in done.out + done.err
    if policy == "overwrite":
        assert cli("undo", kept.id, "--yes").exit_code == 0
        assert kept.text() == "mine\n"


def test_undo_refuses_files_that_changed_since_unless_told_otherwise(cli: Cli, kept: Any) -> None:
    cli("rewind", kept.id, "--to", "2", "--yes")
    (kept.project / "notes.txt").write_text("mine\n")
    refused = cli("undo", kept.id, "--yes")
    assert (refused.exit_code, kept.text()) == (5, "mine\n")
    looked = cli("undo", kept.id, "--dry-run")
    assert looked.exit_code == 5
    assert "notes.txt" in looked.out
    assert cli("undo", kept.id, "--on-conflict", "overwrite", "--yes").exit_code == 0
    assert kept.text() == "one\ntwo\nthree\n"


def test_add_dir_lets_files_outside_be_restored(cli: Cli, kept: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with SessionStore(kept.root).open(kept.id, add_dirs=[outside]) as session, session.begin_turn("outside") as turn:
        made = outside / "made.txt"
        with turn.edit(made):
            made.write_text("x")
    skipped = cli("rewind", kept.id, "--to", "4", "--dry-run", "--json").json
    assert [(file["action"], file["reason"]) for file in skipped["files"]] == [("skip", "outside")]
    assert skipped["partial"]
    done = cli("rewind", kept.id, "--to", "4", "--add-dir", str(outside), "--yes")
    assert done.exit_code == 0
    assert not (outside / "made.txt").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["rewind", "ID"],
        ["rewind", "ID", "--to", "2"],
        ["rewind", "ID", "--to", "1", "--last", "1", "--yes"],
        ["rewind", "ID", "--to", "1", "--history", "forget", "--yes"],
        ["rewind", "ID", "--to", "1", "--history", "hide", "--scope", "code", "--yes"],
        ["rewind", "ID", "--run", "r", "--scope", "both", "--yes"],
        ["rewind", "ID", "--run", "r", "--history", "hide", "--yes"],
        ["rewind", "ID", "--to", "1", "--on-conflict", "maybe", "--yes"],
        ["rewind", "ID", "--to", "1", "--on-conflict", "keep=", "--yes"],
        ["rewind", "ID", "--to", "1", "--on-conflict", "keep=a", "--on-conflict", "refuse=a", "--yes"],
        ["rewind", "ID", "--last", "0", "--yes"],
        ["rewind", "ID", "--to", "2", "--scope", "all", "--yes"],
        ["rewind"],
        ["undo", "ID"],
        ["undo", "ID", "--redo", "--file", "x", "--yes"],
        ["delete", "ID"],
        ["compact", "ID"],
        ["compact", "ID", "--summary", "  "],
    ],
)
def test_a_command_without_what_it_needs_exits_2_in_one_line_and_changes_nothing(
    cli: Cli, kept: Any, words: list[str]
) -> None:
    before = kept.path.read_bytes()
    done = cli(*(kept.id if word == "ID" else word for word in words))
    assert done.exit_code == 2
    assert len(done.err.splitlines()) == 1
    assert done.out == ""
    assert kept.path.read_bytes() == before


def test_without_a_terminal_it_says_what_to_give(cli: Cli, kept: Any) -> None:
    assert "--to CHECKPOINT, --last N or --run RUN" in cli("rewind", kept.id).err
    assert "--yes" in cli("rewind", kept.id, "--to", "1").err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["rewind", "nope", "--to", "1", "--yes"], "not_found"),
        (["rewind", "ID", "--to", "99", "--yes"], "not_found"),
        (["rewind", "ID", "--last", "99", "--yes"], "not_found"),
        (["rewind", "ID", "--to", "msg-", "--yes"], "ambiguous"),
        (["rewind", "ID", "--to", "1:no mark", "--yes"], "not_found"),
        (["rewind", "ID", "--to", "1:", "--yes"], "not_found"),
        (["rewind", "ID", "--run", "", "--yes"], "not_found"),
        (["rewind", "ID", "--run", "no run", "--yes"], "not_found"),
        (["undo", "ID", "--yes"], "nothing_to_undo"),
        (["undo", "ID", "--redo", "--yes"], "nothing_to_undo"),
        (["show", "../../etc/passwd"], "not_found"),
        (["show", ""], "bad_request"),
        (["rewind", "nope"], "not_found"),
        (["rewind", "nope", "--to", "1"], "not_found"),
        (["undo", "nope"], "not_found"),
        (["delete", "nope"], "not_found"),
    ],
)
def test_what_does_not_exist_exits_3(cli: Cli, kept: Any, words: list[str], code: str) -> None:
    done = cli(*(kept.id if word == "ID" else word for word in words), "--json")
    assert done.exit_code == 3
    assert len(done.err.splitlines()) == 1
    assert json.loads(done.out)["error"]["code"] == code
    assert json.loads(done.out)["error"]["message"]


def test_an_ambiguous_session_lists_the_candidates_and_what_tells_them_apart(
    cli: Cli, kept: Any, tmp_path: Path
) -> None:
    with SessionStore(kept.root).create(tmp_path) as session:
        session.set_title("A kept session")
        session.append({"role": "user", "blocks": [{"type": "text", "content": "hi"}]})
    done = cli("rewind", "A kept session", "--to", "1", "--yes", "--json")
    assert done.exit_code == 3
    assert set(done.json["error"]["candidates"]) == {kept.id, session.id}
    assert f"{kept.id} (now)" in done.err  # here, and called what was asked for
    assert f"{session.id} ({tmp_path}, now)" in done.err
    assert len(done.err.splitlines()) == 1
    session.path.rename(session.path.with_name(f"{kept.id[:8]}-other.jsonl"))
    assert f"{kept.id} (A kept session, now)" in cli("show", kept.id[:8]).err


def test_a_session_open_elsewhere_exits_5_and_can_still_be_read(cli: Cli, kept: Any) -> None:
    with SessionStore(kept.root).open(kept.id):
        done = cli("rewind", kept.id, "--to", "1", "--yes", "--json")
        assert done.exit_code == 5
        assert done.json["error"]["code"] == "locked"
        assert cli("rewind", kept.id, "--to", "1", "--dry-run").exit_code == 0
        assert cli("show", kept.id).exit_code == 0


@pytest.fixture
def labelled(kept: Any) -> Any:
    """The kept session with a fourth turn: of a run, with a mark after its first file."""
    with (
        SessionStore(kept.root).open(kept.id) as session,
        session.begin_turn("Two more", run_id="nightly") as turn,
    ):
        for name in ("first.txt", "second.txt"):
            with turn.edit(name):
                (kept.project / name).write_text(f"{name}\n")
            session.append(assistant_message(f"Wrote {name}."))
            turn.mark(f"wrote {name}")
    return kept


def test_a_mark_is_listed_as_it_can_be_given_and_keeps_the_prompt(cli: Cli, labelled: Any) -> None:
    assert cli("checkpoints", labelled.id).out.splitlines()[-2].strip() == "• 4:wrote first.txt"
    assert cli("checkpoints", labelled.id, "--json").json[3]["marks"] == ["wrote first.txt", "wrote second.txt"]
    plan = cli("rewind", labelled.id, "--to", "4:wrote first.txt", "--dry-run").out
    assert "loses 1 message; the prompt and what came before the mark stay" in plan
    done = cli("rewind", labelled.id, "--to", "4:wrote first.txt", "--yes", "--json").json
    assert (done["prompt"], done["removed_messages"]) == ("", 1)
    assert labelled.text("first.txt") == "first.txt\n"
    assert not (labelled.project / "second.txt").exists()


def test_an_undo_names_the_rewind_it_takes_back(cli: Cli, labelled: Any) -> None:
    for words, said in (
        (["--to", "2"], r"conversation and files to before 'Add \x1b[31mtwo lines \ud83d'"),
        (["--to", "1", "--scope", "code"], "files to before 'Begin the notes'"),
        (["--to", "3", "--scope", "conversation"], "the conversation to before 'Delete the old file'"),
        (["--to", "4:wrote first.txt"], "conversation and files to the mark 'wrote first.txt' of 'Two more'"),
        (["--run", "nightly"], "what run nightly did to files"),
        (["--to", "4", "--history", "fork"], "files, with a fork, to before 'Two more'"),
    ):
        assert cli("rewind", labelled.id, *words, "--yes").exit_code == 0
        assert cli("undo", labelled.id, "--dry-run").out.startswith(f"takes back the rewind of {said}, ")
        assert cli("undo", labelled.id, "--yes").exit_code == 0
        assert cli("undo", labelled.id, "--redo", "--dry-run").out.startswith(f"repeats the rewind of {said}, ")
    assert "takes back" not in cli("rewind", labelled.id, "--to", "2", "--dry-run").out


def test_an_undo_of_one_file_says_so(cli: Cli, labelled: Any) -> None:
    cli("rewind", labelled.id, "--to", "4", "--yes")
    looked = cli("undo", labelled.id, "--file", "first.txt", "--dry-run").out
    assert looked.startswith("takes back single files of the rewind of conversation and files to before 'Two more'")
    assert cli("undo", labelled.id, "--file", "first.txt", "--dry-run", "--json").json["scope"] == "code"


def test_the_undo_stack_is_listed_newest_first_and_stays_as_it_is(cli: Cli, labelled: Any) -> None:
    assert cli("undo", labelled.id, "--list").err == "this session was never rewound\n"
    assert cli("undo", labelled.id, "--list", "--json").json == []
    ids = [
        cli("rewind", labelled.id, *words, "--yes", "--json").json["rewind_id"]
        for words in (["--run", "nightly"], ["--to", "2", "--scope", "code"], ["--to", "4"])
    ]
    cli("undo", labelled.id, "--yes")
    cli("rewind", labelled.id, "--to", "4", "--yes")
    listed = cli("undo", labelled.id, "--list", "--json").json
    assert [each["id"] for each in listed][1:] == ids[::-1]
    assert [each["state"] for each in listed] == ["done", "undone", "done", "done"]
    assert [list(each) for each in listed] == 4 * [
        ["id", "timestamp", "scope", "to", "state", "run", "mark", "history", "prompt", "of"]
    ]
    assert [(each["scope"], each["run"]) for each in listed[1:]] == [
        ("both", None),
        ("code", None),
        ("code", "nightly"),
    ]
    lines = cli("undo", labelled.id, "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == [each["id"] for each in listed]
    assert lines[0].endswith("done    conversation and files to before 'Two more'")
    assert listed[0]["prompt"] == listed[1]["prompt"] == "Two more"
    assert lines[2].endswith(r"files to before 'Add \x1b[31mtwo lines \ud83d'")
    assert lines[3].endswith("what run nightly did to files")
    assert cli("undo", labelled.id, "--list", "--json").json == listed
    assert cli("undo", labelled.id, "--list", "--redo").exit_code == 2


def test_a_refusal_says_what_to_do(cli: Cli, kept: Any) -> None:
    (kept.project / "notes.txt").write_text("mine\n")
    refused = cli("rewind", kept.id, "--to", "3", "--on-conflict", "refuse", "--yes").err
    assert "notes.txt (changed since); on conflict 'keep' leaves it alone, and 'overwrite' replaces it" in refused
    assert cli("rewind", kept.id, "--to", "3", "--yes").exit_code == 0
    (kept.project / "notes.txt").write_text("mine again\n")
    refused = cli("undo", kept.id, "--yes").err
    assert "on conflict 'keep' leaves it alone, and 'overwrite' replaces it; nothing was changed" in refused
    with SessionStore(kept.root).open(kept.id) as session:
        session.begin_turn("Go on").end()
    refused = cli("undo", kept.id, "--yes").err
    assert "on conflict 'keep' leaves them there, behind the restored ones, and 'overwrite' removes them" in refused
    assert "on_conflict" not in refused


def test_a_run_is_named_in_front_of_its_turns(cli: Cli, labelled: Any) -> None:
    with SessionStore(labelled.root).open(labelled.id) as session:
        for run in ("nightly", None, "w\u00f6chentlich"):
            session.begin_turn("Go on", run_id=run).end()
    lines = [line.strip() for line in cli("checkpoints", labelled.id).out.splitlines()]
    named = [(place, line) for place, line in enumerate(lines) if line.startswith("▸")]
    assert [line for _, line in named] == ["▸ run nightly", "▸ run w\u00f6chentlich"]
    assert lines[named[0][0] + 1].startswith("4  ")
    assert lines[named[1][0] + 1].startswith("7  ")
    runs = [each["run_id"] for each in cli("checkpoints", labelled.id, "--json").json]
    assert runs == [None, None, None, "nightly", "nightly", None, "w\u00f6chentlich"]
    assert "the runs 'nightly'" in cli("diff", labelled.id, "--run", "nope").err


def test_a_run_is_taken_back_alone(cli: Cli, labelled: Any) -> None:
    before = labelled.path.read_bytes()
    done = cli("rewind", labelled.id, "--run", "nightly", "--yes")
    assert done.exit_code == 0
    assert "conversation stays" not in done.out
    assert sorted(path.name for path in labelled.project.iterdir()) == ["notes.txt"]
    assert labelled.path.read_bytes() == before
    assert cli("undo", labelled.id, "--yes").exit_code == 0
    assert labelled.text("first.txt") == "first.txt\n"


def test_what_is_hidden_stays_in_the_file(cli: Cli, labelled: Any) -> None:
    before = labelled.path.read_bytes()
    assert "which stay in the file" in cli("rewind", labelled.id, "--to", "4", "--history", "hide", "--dry-run").out
    assert cli("rewind", labelled.id, "--to", "4", "--history", "hide", "--yes").exit_code == 0
    assert labelled.path.read_bytes().startswith(before)
    assert len(cli("checkpoints", labelled.id, "--json").json) == 3
    assert cli("undo", labelled.id, "--yes").exit_code == 0
    assert labelled.path.read_bytes() == before


def test_each_path_can_have_its_own_policy(cli: Cli, labelled: Any) -> None:
    for name in ("first.txt", "second.txt"):
        (labelled.project / name).write_text("by hand\n")
    words = ["rewind", labelled.id, "--to", "4", "--on-conflict", "refuse", "--on-conflict", "keep=first.txt"]
    refused = cli(*words, "--yes")
    assert refused.exit_code == 5
    assert "second.txt" in refused.err
    assert "first.txt" not in refused.err
    done = cli(*words, "--on-conflict", "overwrite=second.txt", "--yes", "--json").json
    assert [(file["path"], file["action"]) for file in done["files"]] == [
        ("first.txt", "skip"), ("second.txt", "delete"),
    ]  # fmt: skip
    assert labelled.text("first.txt") == "by hand\n"


def test_one_file_nobody_touched_among_those_chosen_keeps_none_of_the_others(cli: Cli, labelled: Any) -> None:
    done = cli("rewind", labelled.id, "--to", "4", "--file", "first.txt", "--file", "typo.txt", "--yes")
    assert done.exit_code == 0
    assert "typo.txt" in done.out
    assert "the agent did not touch it" in done.out
    assert not (labelled.project / "first.txt").exists()
    assert (labelled.project / "second.txt").exists()
