"""A session whose rewind changes everything a rewind can change, and its states before and after."""

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from agent import Agent, leftovers, make, tree
from worst_moments import counting, killed_at

from sessions import Session, SessionStore

_COMMITS: dict[tuple[int, str], int] = {}
_STEPS: dict[tuple[str, str], tuple[int, list[int]]] = {}
KNOWN = {"lock", "captures.lock", "timeline.jsonl", "turns", "undo"}


class Scenario:
    """Turn 2 changed, made and deleted files and directories; the user changed one file after it.

    Args:
        changed: How many files it changed; it made and deleted a sixth as many, at least one of each.
    """

    def __init__(self, base: Path, *, changed: int = 20) -> None:
        self._base = base
        self._changed = changed
        self.project = base / "now" / "project"
        self.root = base / "now" / "root"
        self.project.mkdir(parents=True)
        few = max(changed // 6, 1)
        agent = Agent(self.root, self.project)
        for number in range(changed):
            make(self.project / f"src/{number % 3}/{number}.txt", f"old {number}\n" * (number + 1))
            (self.project / f"src/{number % 3}/{number}.txt").chmod(0o640 if number % 2 else 0o755)
        for number in range(few):
            make(self.project / f"gone/deep{number}/file.bin", bytes(range(number, 200)))
        (self.project / "gone").chmod(0o750)
        (self.project / "link").symlink_to("src/0/0.txt")
        agent.turn("first")
        agent.session.set_title("A title")
        first = agent.files
        edits = {f"src/{number % 3}/{number}.txt": f"new {number}\n" * 40 for number in range(changed)}
        edits["src/1/1.txt"] = lambda path: path.chmod(0o600)
        edits |= {f"made/{number}/new.txt": f"made {number}\n" for number in range(few)}
        edits |= {"gone": None, "link": lambda path: (path.unlink(), path.symlink_to("elsewhere"))}
        agent.turn("second", edits)
        agent.turn("third", {"src/0/0.txt": "newest\n"})
        make(self.project / "src/2/2.txt", "by hand\n")
        self.new = first, agent.transcript[: agent.transcript.index(b"\n", agent.transcript.index(b"custom-title")) + 1]
        self.old = agent.files, agent.transcript
        self.id, self.path, self.sidecar = agent.session.id, agent.session.path, agent.sidecar
        agent.close()
        self.keep("before")

    def rewind(self) -> None:
        with SessionStore(self.root).open(self.id) as session:
            session.rewind(2)

    def undo(self) -> None:
        with SessionStore(self.root).open(self.id) as session:
            session.undo_rewind()

    def recover(self) -> None:
        """What the next opening for writing does."""
        SessionStore(self.root).open(self.id).close()

    def prepare(self, work: str) -> None:
        """Begin where ``work`` (``rewind`` or ``undo``) begins."""
        if work == "undo" and not (self._base / "rewound").exists():
            self.reset("before")
            self.rewind()
            self.keep("rewound")
        self.reset("before" if work == "rewind" else "rewound")

    def keep(self, name: str) -> None:
        """Keep how it is now, to come back to with ``reset``."""
        shutil.rmtree(self._base / name, ignore_errors=True)
        shutil.copytree(self._base / "now", self._base / name, symlinks=True, copy_function=_copy)

    def reset(self, name: str) -> None:
        shutil.rmtree(self._base / "now")
        shutil.copytree(self._base / name, self._base / "now", symlinks=True, copy_function=_copy)

    @property
    def state(self) -> tuple[dict, bytes]:
        return tree(self.project), self.path.read_bytes()

    def crash_after_the_commit(self, work: str) -> int:
        """Do ``work`` in a process killed right after its commit point; return at which call that was."""
        for number in itertools.count(_COMMITS.get((self._changed, work), 1)):
            self.prepare(work)
            assert killed_at(number, getattr(self, work))
            if (self.sidecar / "intent.json").exists():
                _COMMITS[self._changed, work] = number
                return number
        raise AssertionError

    def is_in(self, state: str) -> bool:
        """Tell whether it is in the state ``old`` or ``new``."""
        return self.state == (self.old if state == "old" else self.new)

    def side(self) -> str:
        """Say which state it is in, and that nothing else is left.

        Raises:
            AssertionError: It is a mixture, or there are leftovers.
        """
        files, transcript = self.state
        if (files, transcript) not in (self.old, self.new):
            old = {path for path in files.keys() | self.old[0] if files.get(path) != self.old[0].get(path)}
            new = {path for path in files.keys() | self.new[0] if files.get(path) != self.new[0].get(path)}
            raise AssertionError(
                f"a mixture: not old {sorted(old)}, transcript {transcript == self.old[1]};"
                f" not new {sorted(new)}, transcript {transcript == self.new[1]}"
            )
        self.assert_tidy()
        return "old" if (files, transcript) == self.old else "new"

    def assert_tidy(self) -> None:
        assert leftovers(self._base / "now") == []
        there = {name for name in os.listdir(self.sidecar) if not name.startswith("turn-")}
        assert there <= KNOWN
        if "undo" in there:
            for record in (self.sidecar / "undo").iterdir():
                assert sorted(os.listdir(record)) == ["record.json", "stage.bin"]


class Small:
    """A session whose second turn is to be taken back.

    Attributes:
        copied: Whether a copy does as well; else it is made anew each time, as where inodes matter.
    """

    copied = True

    def __init__(self, base: Path) -> None:
        self.base = base
        self.project, self.root = base / "project", base / "root"
        self.project.mkdir(parents=True)
        self.agent = Agent(self.root, self.project)
        self.build()
        self.agent.turn("first")
        self.old = self.state
        self.edit()
        self.new = self.state
        self.id = self.agent.session.id
        self.agent.close()

    def build(self) -> None:
        """Make the files of the first turn."""

    def edit(self) -> None:
        """Take the second turn."""

    @property
    def state(self) -> tuple:
        return tree(self.project), self.agent.transcript

    def open(self) -> Session:
        return SessionStore(self.root).open(self.id)

    def rewind(self) -> None:
        with self.open() as session:
            session.rewind(2)

    def undo(self) -> None:
        with self.open() as session:
            session.undo_rewind()

    def recover(self) -> tuple:
        """What the next opening for writing does, and says."""
        with self.open() as session:
            return session.findings

    def side(self) -> str:
        """Say which state it is in: ``old``, what the rewind leaves, or ``new``."""
        assert self.state in (self.old, self.new), "a mixture"
        assert leftovers(self.base) == []
        return "old" if self.state == self.old else "new"


def builder(kind: type[Small], base: Path) -> Callable[..., Small]:
    """Return what makes a session of a kind, one after the other, ready for ``rewind`` or ``undo``."""
    there, numbers, made = base / "now", itertools.count(), {}

    def build(work: str = "rewind") -> Small:
        if kind.copied and there.exists():
            _remove(there)
        if work in made:
            shutil.copytree(base / f"kept {work}", there, symlinks=True, copy_function=_copy)
            return made[work]
        built = kind(there if kind.copied else base / str(next(numbers)))
        if work == "undo":
            built.rewind()
        if kind.copied:
            made[work] = built
            shutil.copytree(there, base / f"kept {work}", symlinks=True, copy_function=_copy)
        return built

    build.kind = kind
    return build


def steps(build: Callable[..., Small], work: str) -> tuple[int, list[int]]:
    """Return the number of the first call behind the commit point, and of the first two writes."""
    known = build.kind.__name__, work
    if known in _STEPS:
        return _STEPS[known]
    there = build(work)
    with counting() as calls:
        getattr(there, work)()
    for commit in itertools.count(1):
        there = build(work)
        assert killed_at(commit, getattr(there, work))
        if (there.agent.sidecar / "intent.json").exists():
            writes = [number for number, name in enumerate(calls, 1) if number > commit and name == "write"]
            _STEPS[known] = commit, writes[:2]
            return _STEPS[known]
    raise AssertionError


def _remove(directory: Path) -> None:
    for parent, names, _ in os.walk(directory):
        for name in names:
            if not os.path.islink(path := os.path.join(parent, name)):
                os.chmod(path, 0o700)
    shutil.rmtree(directory)


def _copy(source: str, target: str) -> None:
    """Copy a file; what is never written in place, only linked."""
    if "/turns/" in source or "/undo/" in source:
        os.link(source, target)
    else:
        shutil.copy(source, target)
