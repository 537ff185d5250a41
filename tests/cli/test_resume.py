"""``sessions resume``: where a session belongs, what is printed or started, and the picker with real keys."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessions import SessionStore, assistant_message, paths, user_message
from sessions.cli import clipboard, shell

if TYPE_CHECKING:
    from collections.abc import Callable

    from pseudo_terminal import Terminal

    from sessions.session import Session

UP, DOWN = "\x1b[A", "\x1b[B"
CALL = {"type": "tool", "id": "t", "name": "Bash", "parameters": "{}", "stage": "running"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionStore:
    monkeypatch.setenv("SESSIONS_HOME", str(tmp_path / "store"))
    return SessionStore()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "shop"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def other(tmp_path: Path) -> Path:
    directory = tmp_path / "it's other"
    directory.mkdir()
    return directory


def keep(store: SessionStore, directory: Path | str, prompt: str, title: str | None = None, **more: Any) -> Session:
    """Keep a session of one turn."""
    with store.create(directory) as session:
        session.begin_turn(prompt).end()
        session.append(assistant_message("Done.", **more))
        if title is not None:
            session.set_title(title)
    return session


def snapshot(directory: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every byte, time and inode below a directory."""
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns, path.stat().st_ino)
        for path in [directory, *directory.rglob("*")]
    }


# -- where it belongs --------------------------------------------------------------------------------------------------


def test_a_session_of_this_project_shows_its_end_and_nothing_changes(
    cli: Callable[..., Any], store: SessionStore, here: Path
) -> None:
    session = keep(store, here, "Fix the login", blocks=[CALL])
    before = snapshot(store.root / "projects")
    done = cli("resume", session.id)
    assert done.exit_code == 0
    assert done.out.startswith(f"Fix the login · {session.id} · ")
    assert "Done." in done.out
    assert "unfinished: a tool call never returned" in done.out
    assert f'store.open("{session.id}")' in done.out
    assert snapshot(store.root / "projects") == before


def test_continue_is_the_latest_of_this_directory_only(
    cli: Callable[..., Any], store: SessionStore, here: Path, other: Path
) -> None:
    store.root.mkdir()
    done = cli("resume", "--continue")
    assert (done.exit_code, done.out) == (3, "")
    assert "no session of this directory" in done.err
    keep(store, here, "the older one")
    latest = keep(store, here, "the newer one")
    keep(store, other, "elsewhere")
    assert cli("resume", "--continue", "--json").json["session"]["id"] == latest.id
    assert "the newer one" in cli("resume", "--continue").out


@pytest.mark.parametrize("words", [["ID", "--continue"], ["ID", "--all"], ["--continue", "--search", "x"]])
def test_what_contradicts_itself_is_refused(cli: Callable[..., Any], store: SessionStore, words: list[str]) -> None:
    assert cli("resume", *words).exit_code == 2


def test_what_nobody_knows_is_an_error_and_no_new_session(
    cli: Callable[..., Any], store: SessionStore, here: Path
) -> None:
    keep(store, here, "one")
    before = snapshot(store.root / "projects")
    done = cli("resume", "nothing-like-it", "--json")
    assert (done.exit_code, done.json["error"]["code"]) == (3, "not_found")
    assert snapshot(store.root / "projects") == before


def test_two_equal_titles_are_both_named_and_none_is_taken(
    cli: Callable[..., Any], store: SessionStore, here: Path, other: Path
) -> None:
    ids = {keep(store, where, "x", "Same").id for where in (here, other)}
    done = cli("resume", "Same", "--json")
    assert (done.exit_code, done.json["error"]["code"]) == (3, "ambiguous")
    assert set(done.json["error"]["candidates"]) == ids


@pytest.mark.parametrize("root", [False, True])
def test_a_session_of_another_project_prints_the_command_that_resumes_it_there(
    cli: Callable[..., Any], store: SessionStore, here: Path, other: Path, root: bool
) -> None:
    session = keep(store, other, "Elsewhere", "A title")
    option = ["--root", str(store.root)] if root else []
    done = cli("resume", "A title", *option)
    assert done.exit_code == 0
    command = done.out.rstrip("\n")
    assert command.startswith(f"""cd '{str(other).replace("'", "'" + '"' + "'" + '"' + "'")}' && """)
    assert ("--root" in command) is root
    assert "is of another directory" in done.err
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    again = subprocess.run(["/bin/sh", "-c", command], cwd=here, env=environment, capture_output=True, check=False)
    assert f"A title · {session.id}" in again.stdout.decode()


def test_a_directory_that_is_gone_is_not_made(
    cli: Callable[..., Any], store: SessionStore, here: Path, other: Path
) -> None:
    session = keep(store, other, "Elsewhere")
    other.rmdir()
    done = cli("resume", session.id)
    assert done.exit_code == 0
    assert "gone" in done.err
    assert "mkdir -p " in done.err
    assert done.out.endswith(f"resume {session.id}\n")
    assert not other.exists()
    assert cli("resume", session.id, "--json").json["gone"] is True
    with store.open(session.id) as opened:
        opened.append(assistant_message("still here"))
    assert b"still here" in session.path.read_bytes()
    assert not other.exists()


def test_every_command_that_is_printed_names_the_store_from_anywhere_and_an_id_that_looks_like_an_option(
    cli: Callable[..., Any], store: SessionStore, other: Path
) -> None:
    session = keep(store, other, "Elsewhere")
    odd = session.path.rename(session.path.with_name("-x.jsonl"))
    other.rmdir()
    done = cli("resume", "--root", os.path.relpath(store.root), "--", "-x")
    named = f" --root {store.root} -- -x\n"
    assert f" fork --workdir .{named}" in done.err
    assert done.out.endswith(f" resume{named}")
    assert odd.exists()


def test_a_session_without_a_directory_is_resumed_by_a_command_that_finds_the_store_from_anywhere(
    cli: Callable[..., Any], store: SessionStore, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = keep(store, here, "Old")
    headerless = session.path.parent.with_name("elsewhere") / session.path.name
    headerless.parent.mkdir()
    headerless.write_bytes(session.path.read_bytes().partition(b"\n")[2])
    session.path.unlink()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    (tmp_path / "a" / "kept").symlink_to(store.root)
    monkeypatch.setenv("SESSIONS_HOME", os.path.relpath(store.root))
    assert cli("resume", session.id).out.endswith(f"sessions resume {session.id} --root {store.root}\n")
    done = cli("resume", session.id, "--root", str(tmp_path / "link" / ".." / "kept"))
    assert done.out.endswith(f"sessions resume {session.id} --root {tmp_path}/link/../kept\n")


def test_a_session_of_another_worktree_goes_on_in_its_directory(
    cli: Callable[..., Any], store: SessionStore, here: Path, tmp_path: Path
) -> None:
    git_worktree(here, tmp_path / "shop-fix")
    session = keep(store, tmp_path / "shop-fix", "In the worktree")
    said = cli("resume", session.id, "--json").json
    assert (said["here"], said["workdir"]) == (True, str(tmp_path / "shop-fix"))
    assert str(tmp_path / "shop-fix") in cli("resume", session.id).out


def test_a_headerless_session_belongs_where_its_directory_says(
    cli: Callable[..., Any], store: SessionStore, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = keep(store, here, "Old")
    lines = session.path.read_bytes().splitlines(keepends=True)
    session.path.write_bytes(b"".join(lines[1:]))
    assert cli("resume", session.id, "--json").json["here"] is True
    monkeypatch.chdir(tmp_path)
    done = cli("resume", session.id)
    assert (done.exit_code, "does not say which directory" in done.err) == (0, True)
    assert done.out.endswith(f"resume {session.id}\n")
    assert "cd " not in done.out


def test_a_current_directory_that_is_gone_is_no_reason_to_find_nothing(
    cli: Callable[..., Any], store: SessionStore, here: Path, other: Path
) -> None:
    session = keep(store, other, "Elsewhere")
    here.rmdir()
    assert cli("resume", session.id).out.endswith(f"resume {session.id}\n")


def test_the_session_of_a_subagent_is_not_resumed(cli: Callable[..., Any], store: SessionStore, here: Path) -> None:
    session = keep(store, here, "Parent")
    with store.open(session.id) as opened, opened.subagent() as child:
        child.append(assistant_message("hi"))
    done = cli("resume", child.id)
    assert done.exit_code == 3
    assert session.id in done.err


def git_worktree(here: Path, worktree: Path) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for words in (
        ["init", "-q"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", str(worktree)],
    ):
        subprocess.run(["git", *words], cwd=here, env=environment, check=True)


def copied(session: Session, store: SessionStore, directory: Path, said: bytes = b"") -> Path:
    """A copy of a transcript in another project, written later; ``said`` stands for the directory its header names."""
    copy = paths.transcript_path(store.root, directory, session.id)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(
        session.path.read_bytes().replace(os.fsencode(session.workdir or ""), said or os.fsencode(directory))
    )
    later = session.path.stat().st_mtime_ns + 10**9
    os.utime(copy, ns=(later, later))
    return copy


@pytest.mark.parametrize("moved", [True, False])
def test_a_session_of_which_a_later_copy_lies_elsewhere_goes_on_in_its_own_project(
    cli: Callable[..., Any], store: SessionStore, here: Path, tmp_path: Path, moved: bool
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    session = keep(store, here, "Mine", "A title")
    copied(session, store, other, b"" if moved else os.fsencode(here))
    for words in (["--continue"], [session.id], [session.id[:12]], ["A title"]):
        done = cli("resume", *words, "--json")
        assert done.exit_code == 0
        assert done.json["session"]["path"] == str(session.path), words
        assert done.json["here"] is True
    assert "A title" in cli("resume", "--continue").out


def test_an_id_that_two_projects_have_leads_to_the_session_of_the_directory_it_is_typed_in(
    cli: Callable[..., Any],
    store: SessionStore,
    here: Path,
    other: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = keep(store, here, "Mine", "the one")
    copy = copied(session, store, other)
    copy.write_bytes(copy.read_bytes().replace(b"the one", b"another"))
    os.utime(copy)
    monkeypatch.chdir(tmp_path)
    command = cli("resume", session.id).out
    assert str(other).rpartition("s ")[2] in command
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for line, title in ((command, "another"), (command.replace(command.split(" && ")[0], f"cd {here}"), "the one")):
        done = subprocess.run(["/bin/sh", "-c", line], env=environment, capture_output=True, check=True)
        assert done.stdout.decode().startswith(f"{title} · ")


def test_of_two_of_one_id_that_of_another_worktree_is_meant(
    cli: Callable[..., Any], store: SessionStore, here: Path, other: Path, tmp_path: Path
) -> None:
    git_worktree(here, tmp_path / "shop-fix")
    session = keep(store, tmp_path / "shop-fix", "In the worktree")
    copied(session, store, other)
    assert cli("resume", session.id, "--json").json["session"]["path"] == str(session.path)


SLOW_GIT = """#!/bin/sh
echo asked >> "$ASKED_GIT"
exec sleep 60
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is written whenever git is asked; it never answers."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(SLOW_GIT)
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("ASKED_GIT", str(tmp_path / "asked"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "asked"


@pytest.mark.parametrize("repository", [True, False])
def test_git_is_not_asked_about_a_session_that_can_be_of_no_worktree(
    cli: Callable[..., Any],
    store: SessionStore,
    here: Path,
    other: Path,
    tmp_path: Path,
    repository: bool,
    request: Any,
) -> None:
    if repository:
        git_worktree(other, tmp_path / "other-fix")
        git_worktree(here, tmp_path / "shop-fix")
    ids = [keep(store, where, "x").id for where in (other, here)]
    asked = request.getfixturevalue("asked")
    asked.unlink(missing_ok=True)
    assert [cli("resume", each, "--json").json["here"] for each in ids] == [False, True]
    assert not asked.exists()
    other.rename(tmp_path / "gone")
    assert cli("resume", ids[0], "--json").json["gone"] is True
    assert not asked.exists()


NAMES = [
    "plain",
    "with space",
    "it's",
    '"two"',
    "$HOME `x`",
    "a\nb",
    "end\n",
    "-dash",
    "tab\t",
    "\x1b[31m",
    "日本",
    "\udcff\udc80",
    "100%\\n",
    "\u202e",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sh", ["/bin/sh", "/bin/bash"])
def test_a_command_pastes_right_whatever_the_directory_is_called(tmp_path: Path, name: str, sh: str) -> None:
    if not os.path.exists(sh):
        pytest.skip(f"no {sh}")
    directory = os.path.join(tmp_path, name)
    os.mkdir(directory)
    command = shell.in_directory(directory, [sys.executable, "-c", "import os; print(ascii(os.getcwd()))"])
    assert command.isprintable()
    done = subprocess.run([sh, "-c", command], capture_output=True, check=True)
    assert done.stdout.decode().strip() == ascii(directory)
    relative = shell.in_directory(name, ["pwd"])
    assert subprocess.run([sh, "-c", relative], cwd=tmp_path, capture_output=True, check=False).returncode == 0


# -- the program that is set -------------------------------------------------------------------------------------------

AGENT = """#!/bin/sh
printf '%s\\n' "$PWD" "$SESSIONS_HOME" "$@" > "$AGENT_SAID"
"""


@pytest.fixture
def agent(store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes down how it was started, set as the one sessions are resumed with."""
    program = tmp_path / "agent"
    program.write_text(AGENT)
    program.chmod(0o755)
    monkeypatch.setenv("AGENT_SAID", str(tmp_path / "said"))
    store.root.mkdir()
    words = json.dumps([str(program), "--session={id}", "{path}", "{workdir}", "{x"])
    (store.root / "settings.toml").write_text(f"[resume]\ncommand = {words}\n")
    return tmp_path / "said"


def sessions(*words: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "sessions", *words],
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_program_that_is_set_is_started_in_the_directory_of_the_session(
    store: SessionStore, here: Path, agent: Path
) -> None:
    session = keep(store, here, "{id} in a prompt")
    assert sessions("resume", session.id[:9], "--root", str(store.root)).returncode == 0
    assert agent.read_text().splitlines() == [
        str(here), str(store.root), f"--session={session.id}", str(session.path), str(here), "{x"
    ]  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="nobody says which signals are ignored")
def test_the_program_that_is_set_ignores_no_signal(store: SessionStore, here: Path, agent: Path) -> None:
    (agent.parent / "agent").write_text('#!/bin/sh\ngrep SigIgn /proc/$$/status > "$AGENT_SAID"\n')
    session = keep(store, here, "x")
    assert sessions("resume", session.id).returncode == 0
    ignored = int(agent.read_text().split()[1], 16)
    inherited = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN}
    python_s_own = {signal.SIGPIPE, signal.SIGXFSZ}
    assert not {number for number in signal.valid_signals() if ignored >> number - 1 & 1} - (inherited - python_s_own)


def test_it_is_not_started_for_another_project_nor_for_json(
    cli: Callable[..., Any], store: SessionStore, here: Path, other: Path, agent: Path
) -> None:
    assert cli("resume", keep(store, other, "x").id).exit_code == 0
    assert cli("resume", keep(store, here, "x").id, "--json").json["here"] is True
    assert not agent.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[resume]\ncommand = 'agent {id}'", "is not a list of words"),
        ("[resume]\ncommand = []", "is not a list of words"),
        ("[resume]\ncommand = ['agent', 1]", "is not a list of words"),
        ("[resume]\ncommand = ['agent', '{session}', '{id}']", "{session} is not one of {id}, {path}, {workdir}"),
        ("[resume]\ncommand = ['agent']", "neither {id} nor {path}"),
        ("[resume]\ncommand = ['', '{id}']", "an empty word"),
        ("[resume]\ncomand = ['agent', '{id}']", "has no setting 'comand'"),
        ("resume = 1", "is not a table"),
        ("[resume", "settings.toml: "),
        ("[resume]\ncommand = ['./no-such-agent', '{id}']", "cannot be started: No such file"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_clear_line(
    cli: Callable[..., Any], store: SessionStore, here: Path, text: str, said: str
) -> None:
    session = keep(store, here, "x")
    (store.root / "settings.toml").write_text(text)
    done = cli("resume", session.id)
    assert (done.exit_code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("term", "copies"), [("xterm", True), ("dumb", False), (None, False)])
def test_a_text_is_copied_only_by_a_terminal_that_understands_it(
    monkeypatch: pytest.MonkeyPatch, term: str | None, copies: bool
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert clipboard.copy("cd x") is copies
    assert screen.getvalue() == ("\x1b]52;c;Y2QgeA==\x07" if copies else "")


# -- without a terminal ------------------------------------------------------------------------------------------------


def test_without_a_terminal_the_sessions_are_listed(
    cli: Callable[..., Any], store: SessionStore, here: Path, other: Path
) -> None:
    mine, theirs = keep(store, here, "Fix the login"), keep(store, other, "Write the docs")
    assert "Fix the login" in cli("resume").out
    assert "Write the docs" not in cli("resume").out
    assert [row["id"] for row in cli("resume", "--all", "--json").json] == [theirs.id, mine.id]
    assert [row["id"] for row in cli("resume", "--all", "--search", "login", "--json").json] == [mine.id]
    assert "no session mentions that" in cli("resume", "--search", "zebra").err


# -- on a terminal -----------------------------------------------------------------------------------------------------


@pytest.fixture
def resume(in_terminal: Callable[..., Terminal]) -> Callable[..., Terminal]:
    def start(*words: str, columns: int = 80, lines: int = 24) -> Terminal:
        return in_terminal(["-m", "sessions", "resume", *words], columns, lines)

    return start


def test_type_look_and_resume(resume: Callable[..., Terminal], store: SessionStore, here: Path) -> None:
    for prompt in ("Fix the login", "Write the docs", "Speed up the build"):
        keep(store, here, prompt, blocks=[CALL])
    before = snapshot(store.root / "projects")
    user = resume()
    user.shows("Resume · this project", "3 sessions", "❯ now        Speed up the build")
    user.press("docs")
    user.shows("1 of 3", "❯ now        Write the docs")
    user.press("\t")
    user.shows("Done.", "Esc back", "interrupted: the session ended")
    user.press("\x1b")
    user.shows("Filter docs")
    user.press("\r")
    written = user.end()
    assert user.exit_code == 0
    assert "Write the docs" in written.split("?1049l")[-1]
    assert "store.open(" in written.split("?1049l")[-1]
    assert snapshot(store.root / "projects") == before


@pytest.mark.parametrize("keys", ["\x1b", "\x03", "zebra\x1b", "\x01\x03"])
def test_leaving_changes_nothing(resume: Callable[..., Terminal], store: SessionStore, here: Path, keys: str) -> None:
    keep(store, here, "Fix the login")
    before = snapshot(store.root / "projects")
    user = resume()
    user.shows("❯ now")
    user.press(keys)
    if keys == "zebra\x1b":
        user.shows("Type to filter", "1 session")
        user.press("\x1b")
    assert "cancelled; nothing was changed" in user.end()
    assert user.exit_code == 130
    assert snapshot(store.root / "projects") == before


def test_another_project_is_chosen_and_its_command_copied(
    resume: Callable[..., Terminal], store: SessionStore, here: Path, other: Path
) -> None:
    keep(store, here, "Fix the login")
    session = keep(store, other, "Write the docs")
    user = resume(columns=100)
    user.shows("1 session", "❯ now        Fix the login")
    user.press("\x01")
    user.shows("all projects", "2 sessions", "it's other")
    user.press(UP)
    user.shows("❯ now        Write the docs")
    user.press("\r")
    written = user.end()
    assert user.exit_code == 0
    copied = re.search("\x1b]52;c;([A-Za-z0-9+/=]+)\x07", written)
    assert copied is not None
    command = base64.b64decode(copied[1]).decode()
    assert command.endswith(f"resume {session.id}")
    assert command in written


def test_two_equal_titles_are_both_offered_and_resuming_one_writes_nothing(
    resume: Callable[..., Terminal], store: SessionStore, here: Path
) -> None:
    first, second = (keep(store, here, prompt, "Same") for prompt in ("the first", "the second"))
    keep(store, here, "another one")
    before = snapshot(store.root / "projects")
    user = resume("Same")
    user.shows("candidates", "2 sessions", "Same")
    user.press(DOWN + " ")
    user.shows("the first", "Esc back")
    user.press("\r")
    written = user.end()
    assert first.id in written.split("?1049l")[-1]
    assert second.id not in written.split("?1049l")[-1]
    assert snapshot(store.root / "projects") == before


def test_rename_and_delete_with_real_keys(resume: Callable[..., Terminal], store: SessionStore, here: Path) -> None:
    doomed = keep(store, here, "Fix the login")
    with store.open(doomed.id) as opened, opened.subagent() as child:
        child.append(assistant_message("hi"))
    kept = keep(store, here, "Write the docs")
    user = resume(columns=100)
    user.shows("2 sessions", "❯ now        Write the docs")
    user.press("\x12")
    user.shows("Title Write the docs▏")
    user.press("\x15日本語 🙂\r")
    user.shows("it is called 日本語 🙂 now", "❯ now        日本語 🙂")
    assert store.list()[0].title == "日本語 🙂"
    user.press(DOWN)
    user.shows("❯ now        Fix the login")
    user.press("\x04")
    user.shows("press Ctrl+D again to delete Fix the login; 1 subagent and snapshots and undo records go with it")
    user.press("x")
    user.shows("nothing was deleted")
    user.press("\x04")
    user.shows("press Ctrl+D again")
    user.press("\x04")
    user.shows("Fix the login was deleted", "1 session", "❯ now        日本語 🙂")
    user.press("\x1b")
    assert "no session was chosen" in user.end()
    assert user.exit_code == 130
    assert [row.id for row in store.list()] == [kept.id]
    assert not child.path.exists()


def test_a_session_that_is_open_elsewhere_is_neither_renamed_nor_deleted(
    resume: Callable[..., Terminal], store: SessionStore, here: Path
) -> None:
    session = keep(store, here, "Fix the login")
    with store.open(session.id):
        user = resume(columns=100)
        user.shows("❯ now")
        user.press("\x12x\r")
        user.shows(f"is open in process {os.getpid()}")
        user.press("\x04")
        user.shows("press Ctrl+D again")
        user.press("\x04")
        user.shows(f"is open in process {os.getpid()}", "1 session")
        user.press("\r")
        assert "a process has this session open" in user.end()


def test_forty_columns_and_no_colour(
    resume: Callable[..., Terminal], store: SessionStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    keep(store, here, "日本語のタイトルはとても長いのでここには入らない")
    keep(store, here, "👩‍💻 emoji " * 9)
    user = resume(columns=40, lines=12)
    shown = user.shows("2 sessions", "Enter Space ^A all ^R name ^D del Esc").splitlines()
    assert shown[3].startswith("❯ now   👩")
    assert shown[4].startswith("  now   日本語のタイトルは")
    assert all(line.rstrip().endswith("…") for line in shown[3:5])
    user.resize(100, 30)
    user.shows("❯ now        👩", "Ctrl+R rename")
    user.press("\x03")
    assert not re.search("\x1b\\[[0-9;]*3[0-9]m", user.end())


def test_the_picker_looks_into_renames_and_deletes_the_session_that_is_shown(
    resume: Callable[..., Terminal], store: SessionStore, here: Path, other: Path
) -> None:
    session = keep(store, here, "Fix the login")
    copy = copied(session, store, other)
    user = resume()
    user.shows("❯ now        Fix the login")
    user.press("\t")
    user.shows("Done.", "Esc back")
    user.press("\x1b")
    user.shows("Type to filter")
    user.press("\x12\x15Mine\r")
    user.shows("it is called Mine now", "Mine")
    user.press("\x04")
    user.shows("press Ctrl+D again to delete Mine")
    user.press("\x04")
    user.shows("Mine was deleted")
    user.press("\x03")
    user.end()
    assert (session.path.exists(), copy.exists()) == (False, True)
    assert b"Mine" not in copy.read_bytes()


def test_a_session_that_cannot_be_read_is_counted(
    resume: Callable[..., Terminal], store: SessionStore, here: Path
) -> None:
    session = keep(store, here, "Write the docs")
    session.path.with_name("a.jsonl").symlink_to("nowhere")
    user = resume()
    user.shows("1 session", "Write the docs", "1 session cannot be read")
    user.press("\x03")
    user.end()


def test_the_search_option_opens_the_picker_filtered(
    resume: Callable[..., Terminal], store: SessionStore, here: Path
) -> None:
    keep(store, here, "Fix the login")
    keep(store, here, "Write the docs")
    user = resume("--search", "login")
    user.shows("Filter login▏", "1 of 2", "❯ now        Fix the login")
    user.press("\x03")
    user.end()


def test_what_is_typed_finds_a_later_prompt(resume: Callable[..., Terminal], store: SessionStore, here: Path) -> None:
    session = keep(store, here, "Fix the login")
    with store.open(session.id) as opened:
        opened.begin_turn("Now paint the bikeshed").end()
    keep(store, here, "Write the docs")
    user = resume()
    user.shows("2 sessions")
    user.press("bikeshed")
    user.shows("1 of 2", "❯ now        Fix the login")
    user.press("\x03")
    user.end()


def test_a_damaged_setting_is_said_before_a_picker_opens(
    resume: Callable[..., Terminal], store: SessionStore, here: Path
) -> None:
    keep(store, here, "x")
    (store.root / "settings.toml").write_text("[resume]\ncommand = 1\n")
    user = resume()
    assert "?1049h" not in user.end()
    assert user.exit_code == 2


def test_a_session_in_use_is_not_handed_to_a_program(
    cli: Callable[..., Any], store: SessionStore, here: Path, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    with store.create(here) as session:
        session.append(user_message("hello"))
        (store.root / "settings.toml").write_text(f'[resume]\ncommand = ["touch", "{started}", "{{id}}"]\n')
        done = cli("resume", session.id)
    assert (done.exit_code, started.exists()) == (5, False), done.err
    assert "is open in" in done.err


def test_what_is_said_to_put_into_the_settings_can_be_put_there(
    cli: Callable[..., Any], store: SessionStore, here: Path
) -> None:
    with store.create(here) as session:
        session.append(user_message("hello"))
    said = cli("resume", session.id).out
    lines = said[said.index("  [resume]") :].splitlines()
    assert tomllib.loads("\n".join(lines)) == {"resume": {"command": ["my-agent", "{id}"]}}


def test_a_session_that_is_resumed_is_safe_from_retention_until_its_host_has_it(
    cli: Callable[..., Any], store: SessionStore, here: Path
) -> None:
    with store.create(here) as session:
        session.append(user_message("hello"))
    os.utime(session.path, (0, 0))
    (store.root / "settings.toml").write_text("[retention]\ncleanup_period_days = 30\n")
    before = session.path.stat()
    assert cli("resume", session.id).exit_code == 0
    after = session.path.stat()
    assert (after.st_mtime_ns, after.st_ino, after.st_size) == (before.st_mtime_ns, before.st_ino, before.st_size)
    (pruned,) = store.prune()
    assert "resumed" in (pruned.skipped or "")
    assert session.path.exists()
