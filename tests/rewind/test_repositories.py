"""A project under git, and one that two sessions work in: only what this session's agent edited changes."""

import hashlib
import os
import subprocess

import pytest
from agent import Agent, contents, make, verdicts


def git(directory, *words):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        environment.pop(name, None)
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *who, *words], cwd=directory, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def digests(directory):
    """The SHA-256 and the time of every file below a directory."""
    return {
        path.relative_to(directory): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.fixture
def repository(agent, tmp_path):
    """Committed, staged, changed, ignored and untracked files, a submodule, a nested repository and a hook."""
    project = agent.project
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    make(library / "lib.py", "lib\n")
    git(library, "add", ".")
    git(library, "commit", "-qm", "library")
    git(project, "init", "-q")
    for name in ("code.py", "staged.py", "changed.py"):
        make(project / name, "committed\n")
    make(project / ".gitignore", "*.log\n")
    git(project, "add", ".")
    git(project, "submodule", "add", "-q", str(library), "sub")
    git(project, "commit", "-qm", "first")
    make(project / "staged.py", "staged\n")
    git(project, "add", "staged.py")
    make(project / "changed.py", "changed\n")
    make(project / ".gitignore", "*.log\n.env\n")
    make(project / ".env", "SECRET=1\n")
    make(project / "output/big.log", "output\n" * 10_000)
    make(project / "nested/own.py", "nested\n")
    git(project / "nested", "init", "-q")
    make(project / ".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n")
    return project


@pytest.mark.parametrize("scope", ["both", "code"])
def test_a_rewind_changes_the_edited_files_and_nothing_git_knows_or_ignores(agent, repository, monkeypatch, scope):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    agent.turn(
        "edit", {"code.py": "agent\n", "sub/lib.py": "agent\n", "nested/own.py": "agent\n", ".env": "SECRET=2\n"}
    )
    git(repository, "commit", "-qam", "a commit behind the edit", "--no-verify")
    edited = {"code.py", "sub/lib.py", "nested/own.py", ".env"}
    before = digests(repository)
    agent.session.rewind(1, scope=scope)
    after = digests(repository)
    assert {str(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == edited
    assert (repository / "code.py").read_text() == "committed\n"
    assert (repository / ".env").read_text() == "SECRET=1\n"
    agent.session.undo_rewind()
    assert {path: digest for path, (digest, _) in digests(repository).items()} == {
        path: digest for path, (digest, _) in before.items()
    }


def test_two_sessions_in_one_project_take_back_their_own_edits_only(agent, tmp_path):
    for name in "abc":
        make(agent.project / f"{name}.txt", f"{name}\n" * 9)
    other = Agent(tmp_path / "root", agent.project)
    agent.turn("mine", {"a.txt": "mine\n" + "a\n" * 9, "c.txt": "mine\n"})
    other.turn("theirs", {"b.txt": "theirs\n", "a.txt": "mine\n" + "a\n" * 9 + "theirs\n"})
    assert sorted(file.path for file in agent.session.diff().files) == ["a.txt", "c.txt"]
    plan = agent.session.plan_rewind(1)
    assert verdicts(plan) == {"a.txt": ("restore", "conflict"), "c.txt": ("restore", None)}
    agent.session.rewind(plan)
    assert contents(agent.project)["b.txt"] == b"theirs\n"
    assert contents(agent.project)["a.txt"] == b"a\n" * 9
    agent.session.undo_rewind()
    assert contents(agent.project)["a.txt"].endswith(b"theirs\n")
    other.close()


def test_a_file_that_outgrows_the_limit_between_two_edits_still_comes_back(store, project):
    store.root.mkdir(exist_ok=True)
    (store.root / "settings.toml").write_text("[checkpoints]\nmax_file_bytes = 100\n")
    agent = Agent(store.root, project)
    make(project / "log", "x" * 50)
    agent.turn("append", {"log": lambda path: path.write_text("x" * 150)})
    agent.turn("append more", {"log": lambda path: path.write_text("x" * 250)})
    plan = agent.session.plan_rewind(2)
    assert verdicts(plan) == {"log": ("skip", "over_limit")}
    assert plan.partial
    agent.session.rewind(1)
    assert contents(project) == {"log": b"x" * 50}
    agent.close()


def test_twenty_thousand_new_files_of_one_turn_go_and_come_back(agent):
    with agent.session.begin_turn("generate") as turn, turn.edit("made"):
        for number in range(20_000):
            if number % 1_000 == 0:
                (agent.project / f"made/{number // 1_000}").mkdir(parents=True)
            (agent.project / f"made/{number // 1_000}/{number}").write_bytes(b"%d" % number)
    before = contents(agent.project)
    assert len(before) == 20_000
    report = agent.session.rewind(1)
    assert contents(agent.project) == {}
    assert not report.partial
    agent.session.undo_rewind()
    assert contents(agent.project) == before
