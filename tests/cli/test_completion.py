"""Completion: what is offered, and how three real shells put it on the command line."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from sessions import SessionStore

Cli = Callable[..., Any]

HERE = Path(__file__).parents[2]
DANGEROUS = 'it\'s "a" $(touch pwned); `touch pwned` * & !x, y: ü 日本'


@pytest.fixture
def program(kept: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program ``sessions`` on the PATH that also writes down what it was given when no shell asks it."""
    directory = tmp_path / "bin dir"
    directory.mkdir()
    path = directory / "sessions"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nsys.path.insert(0, {str(HERE)!r})\n"
        "if '_SESSIONS_COMPLETE' not in os.environ:\n"
        "    with open(os.environ['GIVEN'], 'w') as file: json.dump(sys.argv[1:], file)\n"
        "    print('given'); sys.exit()\n"
        "from sessions.cli.app import run\nsys.exit(run(sys.argv[1:]))\n"
    )
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GIVEN", str(tmp_path / "given"))
    return path


@pytest.fixture
def offered(program: Path) -> Callable[..., dict[str, str]]:
    """What is offered behind some words, with its descriptions, as zsh gets it."""

    def ask(*words: str) -> dict[str, str]:
        done = subprocess.run(
            [str(program)],
            env={
                **os.environ,
                "_SESSIONS_COMPLETE": "zsh_complete",
                "COMP_WORDS": shlex.join(("sessions", *words)).removesuffix("''"),
                "COMP_CWORD": str(len(words)),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.split("\n")[:-1]
        return dict(zip(lines[1::3], lines[2::3], strict=True))

    return ask


def another(kept: Any, title: str | None, prompt: str = "Another thing", project: Path | None = None) -> str:
    with SessionStore(kept.root).create(project or kept.project) as session:
        with session.begin_turn(prompt):
            pass
        if title is not None:
            session.set_title(title)
    return session.id


# -- what is offered -----------------------------------------------------------------------------------------------


def test_commands_options_and_choices_are_offered(offered: Callable[..., dict[str, str]]) -> None:
    assert {"export", "completion", "rewind"} <= offered("").keys()
    assert list(offered("exp")) == ["export"]
    assert {"--format", "--output", "--yes"} <= offered("export", "x", "--").keys()
    assert list(offered("export", "x", "--format", "")) == ["md", "html", "json"]
    assert list(offered("completion", "f")) == ["fish"]
    assert list(offered("rewind", "x", "--on-conflict", "k")) == ["keep"]


def test_sessions_are_offered_by_title_and_by_id(offered: Callable[..., dict[str, str]], kept: Any) -> None:
    untitled = another(kept, None, "No title: here")
    assert list(offered("show", "")) == [untitled, "A kept session"]
    assert offered("show", "")[untitled].endswith(" · No title: here")
    assert offered("show", "a kep").keys() == {"A kept session"}
    assert offered("show", kept.id[:4]).keys() == {kept.id}
    for title in ("A kept session", "tab\there", "back\\slash", "-dash", "\x1b[31m"):
        another(kept, title)
    assert "A kept session" not in offered("show", ""), "two have that title, so it names none"
    assert not {"tab\there", "-dash"} & offered("check", "").keys()
    assert len(offered("check", "")) == 7


def test_a_title_that_was_given_is_one_whatever_the_first_prompt_is(
    offered: Callable[..., dict[str, str]], kept: Any
) -> None:
    another(kept, "As asked", "As asked")
    with SessionStore(kept.root).create(kept.project) as session:
        session.set_title("Before any prompt")
        session.append({"role": "assistant", "blocks": [{"type": "text", "content": "hello"}]})
    assert offered("show", "As").keys() == {"As asked"}
    assert offered("show", "Bef").keys() == {"Before any prompt"}


def test_those_of_this_directory_come_first_and_then_all(
    offered: Callable[..., dict[str, str]], kept: Any, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    another(kept, "Elsewhere", project=tmp_path / "other")
    assert offered("show", "").keys() == {"A kept session"}
    assert offered("show", "El").keys() == {"Elsewhere"}
    assert offered("show", "--root", str(tmp_path / "nowhere"), "") == {}
    assert offered("--root", str(kept.root), "show", "El").keys() == {"Elsewhere"}


def test_checkpoints_are_offered_with_their_prompts(offered: Callable[..., dict[str, str]], kept: Any) -> None:
    prompts = {"1": "Begin the notes", "2": r"Add \x1b[31mtwo lines \ud83d", "3": "Delete the old file"}
    for words in (["rewind", kept.id, "--to"], ["fork", "A kept session", "--at"], ["diff", kept.id, "--turn"]):
        assert offered(*words, "") == prompts
    assert offered("rewind", kept.id, "--to", "2").keys() == {"2"}
    assert len(offered("rewind", kept.id, "--to", "msg-")) == 3
    assert offered("rewind", "nope", "--to", "") == {}


def test_the_root_may_be_below_a_tilde(
    offered: Callable[..., dict[str, str]], kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONS_HOME")
    monkeypatch.setenv("HOME", str(kept.root.parent))
    assert offered("show", "--root", "~/store", "").keys() == {"A kept session"}


def test_an_unknown_shell_is_told_nothing(program: Path) -> None:
    for asked, code in (("tcsh_complete", 1), ("", 1), ("bash_complete", 0)):
        done = subprocess.run(
            [str(program)], env={**os.environ, "_SESSIONS_COMPLETE": asked}, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_other_shells_are_refused(cli: Cli) -> None:
    assert cli("completion", "tcsh").exit_code == 2
    assert cli("completion").exit_code == 2


# -- in real shells ------------------------------------------------------------------------------------------------


class Shell:
    """A shell in a terminal that has read the script; types, and says what the program was given."""

    READY = "ready>"

    def __init__(self, name: str, tmp_path: Path) -> None:
        executable = shutil.which(name)
        if executable is None:
            pytest.skip(f"there is no {name} here")
        script = tmp_path / f"script.{name}"
        made = subprocess.run(
            [sys.executable, "-m", "sessions", "completion", name],
            env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True, check=True,
        )  # fmt: skip
        script.write_bytes(made.stdout)
        home = tmp_path / "home"
        home.mkdir()
        arguments = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
        setup = {
            "bash": f"PS1='{self.READY[:3]}''{self.READY[3:]}'; bind 'set bell-style none'; . '{script}'",
            "zsh": f"PS1='{self.READY[:3]}''{self.READY[3:]}'; unsetopt zle_bracketed_paste; autoload -U compinit;"
            f" compinit -u -d '{home}/dump'; . '{script}'",
            "fish": f"function fish_prompt; echo -n '{self.READY[:3]}''{self.READY[3:]}'; end; source '{script}'",
        }[name]
        self.given = Path(os.environ["GIVEN"])
        self.child = pexpect.spawn(
            executable, arguments, dimensions=(60, 200), encoding="utf-8", timeout=60,
            env={**os.environ, "HOME": str(home), "TERM": "dumb" if name == "zsh" else "xterm", "LANG": "C.UTF-8",
                 "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        self.child.sendline(setup)
        self.child.expect_exact(self.READY)

    def gives(self, typed: str) -> list[str]:
        """Type, with Tab, until the program runs; return the words it was given."""
        self.given.unlink(missing_ok=True)
        self.child.send(typed)
        self.child.send("\r")
        self.child.expect_exact("given\r\n")
        self.child.expect_exact(self.READY)
        words = json.loads(self.given.read_text())
        assert isinstance(words, list)
        return words

    def end(self) -> None:
        self.child.close(force=True)


@pytest.fixture
def shell(request: pytest.FixtureRequest, program: Path, tmp_path: Path) -> Any:
    opened = Shell(request.param, tmp_path)
    yield opened
    opened.end()


in_every_shell = pytest.mark.parametrize("shell", ["bash", "zsh", "fish"], indirect=True)


@in_every_shell
def test_a_shell_completes_commands_options_choices_sessions_and_checkpoints(shell: Shell, kept: Any) -> None:
    assert shell.gives("sessions exp\tx") == ["export", "x"]
    assert shell.gives("sessions export x --form\tht\t") == ["export", "x", "--format", "html"]
    assert shell.gives(f"sessions show {kept.id[:5]}\t") == ["show", kept.id]
    assert shell.gives("sessions show A\\ k\t--json") == ["show", "A kept session", "--json"]
    assert shell.gives("sessions rewind 'A kept session' --to m\t").pop().startswith("msg-")


@in_every_shell
def test_a_title_is_put_on_the_line_as_one_word_and_runs_nothing(shell: Shell, kept: Any) -> None:
    another(kept, DANGEROUS)
    (kept.project / "it s").touch()
    assert shell.gives("sessions title it\t") == ["title", DANGEROUS]
    assert shell.gives("sessions title it\\'s\t") == ["title", DANGEROUS]
    assert shell.gives("sessions title \"it's\t") == ["title", DANGEROUS]
    another(kept, "one's $(touch pwned) two")
    assert shell.gives("sessions title 'one\t") == ["title", "one's $(touch pwned) two"]
    assert not (kept.project / "pwned").exists()
