"""What an import costs: nobody pays for what they do not use."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\nLOADED', *sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.rpartition("LOADED")[2].split()}


def test_importing_the_package_loads_no_dependency():
    heavy = {"prompt_toolkit", "psutil", "pydantic", "click", "orjson", "atomicwrites", "platformdirs"}
    assert not loaded_by("import sessions") & heavy


@pytest.mark.parametrize("command", ["list", "check"])
def test_a_command_that_needs_no_terminal_and_no_model_loads_neither(tmp_path, command):
    run = f"from sessions.cli.app import run; run(['--root', {str(tmp_path)!r}, {command!r}])"
    assert not loaded_by(run) & {"prompt_toolkit", "psutil", "pydantic"}


def test_a_rewind_without_the_picker_loads_neither_terminal_nor_models(tmp_path):
    run = (
        "import os; from sessions import SessionStore\n"
        f"os.makedirs({str(tmp_path / 'p')!r})\n"
        f"s = SessionStore({str(tmp_path / 'r')!r})\n"
        "try: s.open('nobody')\n"
        "except Exception as error: print(error)\n"
        "import sessions.session"
    )
    assert not loaded_by(run) & {"prompt_toolkit", "psutil", "pydantic", "click"}


def test_every_public_name_is_there_and_listed():
    import sessions

    for name in sessions.__all__:
        assert getattr(sessions, name).__name__ == name
        assert name in dir(sessions)
    with pytest.raises(AttributeError):
        sessions.nothing  # noqa: B018
