"""A crash, or an error, at any step of a rewind that moves the sessions of subagents: all old, or all new."""

import errno
import shutil

import pytest
from agent import Agent, make, tree
from worst_moments import failing, killed_at

from sessions import ConflictError, IncompleteError, SessionStore, assistant_message


class Scene:
    """Turn 2 has two subagents that edited files, one of them below the other."""

    def __init__(self, base) -> None:
        self._base = base
        self.project = base / "now" / "project"
        self.project.mkdir(parents=True)
        agent = Agent(base / "now" / "root", self.project)
        agent.turn("first", {"kept": "1", "gone": "g"})
        with agent.session.begin_turn("second"), agent.session.subagent() as child, child.subagent() as below:
            for each, made in ((child, {"kept": "2", "new": "n"}), (below, {"gone": None})):
                with each.begin_turn("work") as turn:
                    for path, content in made.items():
                        with turn.edit(path):
                            make(self.project / path, content)
                    each.append(assistant_message("worked"))
        self.id = agent.session.id
        self.root = agent.root
        agent.close()
        self.old = self.state
        self.keep("before")
        self.rewind()
        self.new = self.state
        self.keep("rewound")

    @property
    def state(self):
        """The project, and what lies in the store but bookkeeping."""
        store = {
            path: state
            for path, state in tree(self.root / "projects").items()
            if not any(part in path for part in (f"{self.id}.ckpt",))
        }
        return tree(self.project), store

    def rewind(self) -> None:
        with SessionStore(self.root).open(self.id) as session:
            session.rewind(2)

    def undo(self) -> None:
        with SessionStore(self.root).open(self.id) as session:
            session.undo_rewind()

    def recover(self) -> None:
        SessionStore(self.root).open(self.id).close()

    def keep(self, name) -> None:
        shutil.copytree(self._base / "now", self._base / name, symlinks=True)

    def reset(self, name) -> None:
        shutil.rmtree(self._base / "now")
        shutil.copytree(self._base / name, self._base / "now", symlinks=True)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    import tempfile
    from pathlib import Path

    base = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    yield Scene(base)
    shutil.rmtree(base)


@pytest.mark.parametrize(("does", "begins"), [("rewind", "before"), ("undo", "rewound")])
def test_a_crash_at_any_step_leaves_all_old_or_all_new(scene, does, begins):
    sides = []
    number = 1
    while True:
        scene.reset(begins)
        if not killed_at(number, getattr(scene, does)):
            break
        scene.recover()
        assert scene.state in (scene.old, scene.new), f"a mixture after call {number}"
        sides.append(scene.state == scene.new)
        with SessionStore(scene.root).open(scene.id) as session:
            assert session.check() == []
        number += 1
    assert {*sides} == {True, False}
    assert sides == sorted(sides, reverse=does == "undo")


@pytest.mark.parametrize(("does", "begins"), [("rewind", "before"), ("undo", "rewound")])
def test_an_error_at_any_step_leaves_all_old_or_says_what_is_where(scene, does, begins):
    number = 1
    while True:
        scene.reset(begins)
        expected = scene.state
        with failing(number, errno.EIO) as calls:
            try:
                getattr(scene, does)()
            except (OSError, ConflictError):  # a file that cannot be read is not what the plan found
                assert scene.state == expected, f"changed by an error of call {number}"
            except IncompleteError:
                pass
        if len(calls) < number:
            break
        scene.recover()
        assert scene.state in (scene.old, scene.new), f"a mixture after an error of call {number}"
        number += 1
    assert number > 20
