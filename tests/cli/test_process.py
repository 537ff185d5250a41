"""The command as a process: exit codes, one line on stderr, pipes, signals, and what it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[2]


def sessions(*words: str, env: dict[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "sessions", *words],
        env={**os.environ, "PYTHONPATH": str(HERE), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=more.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
        **more,
    )


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (["list"], 0),
        (["--help"], 0),
        (["--version"], 0),
        ([], 0),
        (["rewind", "--help"], 0),
        (["bogus"], 2),
        (["list", "--bogus"], 2),
        (["--bogus"], 2),
        (["show"], 2),
        (["list", "--limit", "x"], 2),
        (["show", "nope"], 3),
        (["list", "--limit", "0"], 2),
        (["rewind", "x", "--history", "forget"], 2),
    ],
)
def test_exit_codes(kept: Any, words: list[str], exit_code: int) -> None:
    done = sessions(*words)
    assert done.returncode == exit_code
    assert len(done.stderr.splitlines()) == (1 if exit_code else 0)
    assert b"Traceback" not in done.stderr


def test_an_error_of_the_system_exits_7_in_one_line(kept: Any) -> None:
    Path(kept.root, "file").write_text("")
    done = sessions("demo", "--dir", str(Path(kept.root, "file", "below")))
    assert done.returncode == 7
    assert len(done.stderr.splitlines()) == 1


def test_a_full_device_exits_7_in_one_line(kept: Any) -> None:
    with open("/dev/full", "wb") as full:
        done = sessions("show", kept.id, "--history", stdout=full)
    assert done.returncode == 7
    assert done.stderr == b"sessions: No space left on device\n"


@pytest.mark.parametrize(
    ("words", "deed"),
    [
        (["rewind", "ID", "--to", "2", "--yes"], b"the rewind was done"),
        (["rewind", "ID", "--to", "2", "--yes", "--json"], b"the rewind was done"),
        (["title", "ID", "new"], b"the title was changed"),
        (["title", "ID", "new", "--json"], b"the title was changed"),
        (["compact", "ID", "--summary", "x", "--keep-rounds", "0"], b"the conversation was compacted"),
        (["delete", "ID", "--yes", "--json"], b"was deleted"),
    ],
)
def test_what_was_done_but_could_not_be_printed_is_said(kept: Any, words: list[str], deed: bytes) -> None:
    before = kept.path.read_bytes()
    with open("/dev/full", "wb") as full:
        done = sessions(*(kept.id if word == "ID" else word for word in words), stdout=full)
    assert done.returncode == 7
    assert deed in done.stderr
    assert done.stderr.endswith(b", but that could not be printed: No space left on device\n")
    assert b"Traceback" not in done.stderr
    assert not kept.path.exists() or kept.path.read_bytes() != before


@pytest.mark.parametrize("words", [["list"], ["checkpoints", "ID"], ["show", "nope"], ["check"], ["show", "ID"]])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_full_device_is_never_a_traceback(kept: Any, words: list[str], as_json: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = sessions(*(kept.id if word == "ID" else word for word in words), *as_json, stdout=full)
    assert done.returncode == (3 if "nope" in words else 7)
    assert len(done.stderr.splitlines()) == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["sessions.cli", "click", "sessions.store", "sessions.session", "pydantic"])
def test_ctrl_c_during_an_import_exits_130_without_a_traceback(kept: Any, tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    done = sessions("show", kept.id, env={"PYTHONPATH": f"{tmp_path}:{HERE}"})
    assert (done.returncode, done.stderr) == (130, b"sessions: interrupted\n")


def test_a_reader_that_went_away_is_no_error(kept: Any) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = sessions("show", kept.id, "--history", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_bug_is_one_line_and_the_traceback_is_there_for_who_asks(kept: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sessions.store\n"
        "def broken(*_, **__):\n    raise ZeroDivisionError('on\\npurpose \\x1b')\n"
        "sessions.store.SessionStore.list = broken\n"
    )
    env = {"PYTHONPATH": f"{tmp_path}:{HERE}"}
    done = sessions("list", env=env)
    assert done.returncode == 1
    assert done.stderr == (
        b"sessions: this is a bug: ZeroDivisionError: on purpose \\x1b; SESSIONS_DEBUG=1 shows where\n"
    )
    assert b"Traceback" in sessions("list", env={**env, "SESSIONS_DEBUG": "1"}).stderr


def test_ctrl_c_exits_130_in_one_line(kept: Any) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "sessions", "compact", kept.id, "--summary", "-"],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stderr is not None
    wait_until_it_reads(child.pid)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=30) == 130
    assert child.stderr.read() == b"sessions: interrupted\n"
    child.stdin.close()
    child.stderr.close()


INTERRUPT_AT = """
import os, signal
from sessions.rewind.engine import Engine
step = Engine.{step}
def interrupted(self, *given):
    os.kill(os.getpid(), signal.SIGINT)
    return step(self, *given)
Engine.{step} = interrupted
"""


@pytest.mark.parametrize(("step", "done"), [("_stage", False), ("_complete", True)])
def test_ctrl_c_during_a_rewind_says_whether_it_was_done(kept: Any, tmp_path: Path, step: str, done: bool) -> None:
    before = kept.path.read_bytes()
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT_AT.format(step=step))
    env = {"PYTHONPATH": f"{tmp_path}:{HERE}"}
    said = sessions("rewind", kept.id, "--to", "2", "--yes", env=env)
    assert said.returncode == 130
    assert len(said.stderr.splitlines()) == 1
    assert (b"was done before Ctrl-C" in said.stderr) is done
    assert kept.text() == ("one\n" if done else "one\ntwo\nthree\n")
    if done:
        assert sessions("undo", kept.id, "--yes").returncode == 0
    assert kept.path.read_bytes() == before


def wait_until_it_reads(pid: int) -> None:
    import time

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if Path(f"/proc/{pid}/wchan").exists() and "pipe" in Path(f"/proc/{pid}/wchan").read_text():
            return
        if Path(f"/proc/{pid}/syscall").exists():
            try:
                if Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 "):
                    return
            except OSError:
                pass
        time.sleep(0.05)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_escapes_and_no_crash(kept: Any, encoding: str) -> None:
    done = sessions("checkpoints", kept.id, env={"PYTHONIOENCODING": encoding})
    assert done.returncode == 0
    assert rb"\u229f compacted" in done.stdout
    assert sessions("show", kept.id, "--json", env={"PYTHONIOENCODING": encoding}).stdout.decode("utf-8")


def test_colour_is_for_terminals_only(kept: Any) -> None:
    for words in (["list"], ["checkpoints", kept.id], ["show", kept.id], ["rewind", kept.id, "--to", "1", "--dry-run"]):
        assert b"\x1b" not in sessions(*words).stdout


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["list"], ["prompt_toolkit", "pydantic", "psutil"]),
        (["--help"], ["prompt_toolkit", "pydantic", "psutil", "orjson.never", "sessions.store"]),
        (["checkpoints", "ID"], ["prompt_toolkit"]),
        (["show", "ID", "--json"], ["prompt_toolkit"]),
        (["rewind", "ID", "--to", "1", "--dry-run"], ["prompt_toolkit"]),
    ],
)
def test_a_command_imports_only_what_it_needs(kept: Any, words: list[str], unwanted: list[str]) -> None:
    words = [kept.id if word == "ID" else word for word in words]
    code = (
        "import sys\nfrom sessions.cli.app import run\n"
        f"code = run({words!r})\n"
        f"print([name for name in {unwanted!r} if name in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=HERE, timeout=60, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, b"[]")


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_no_crash(kept: Any, closed: str) -> None:
    command = f'exec "{sys.executable}" -m sessions list {closed}'
    done = subprocess.run(
        ["sh", "-c", command], env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
