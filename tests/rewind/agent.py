"""An agent at work, in shorthand, and what a directory looks like, byte and mode."""

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from sessions import SessionStore, assistant_message

Made = bytes | str | None | Callable[[Path], object]
"""What an edit makes of a path: content, nothing any more, or whatever a function does to it."""


class Agent:
    """Works in one session: ``turn("add a parser", {"parser.py": "…", "old.py": None})``."""

    def __init__(self, root: Path, project: Path, **options) -> None:
        self.root = root
        self.project = project
        self.store = SessionStore(root)
        self.session = self.store.create(project, **options)

    def turn(self, prompt: str, *edits: Mapping[str, Made], answer: str = "done") -> str:
        """Take one turn, with each mapping's paths edited one after the other; return the id of its prompt."""
        with self.session.begin_turn(prompt) as turn:
            for made in edits:
                for path, content in made.items():
                    with turn.edit(path):
                        make(self.project / path, content)
            self.session.append(assistant_message(answer))
        return turn.message_id

    def reopen(self, **options) -> None:
        """Open the session once more, in a fresh store, as a new process would."""
        self.session.close()
        self.store = SessionStore(self.root)
        self.session = self.store.open(self.session.id, **options)

    def close(self) -> None:
        self.session.close()

    @property
    def files(self) -> dict[str, tuple[str, object, int]]:
        return tree(self.project)

    @property
    def transcript(self) -> bytes:
        return self.session.path.read_bytes()

    @property
    def sidecar(self) -> Path:
        return self.session.path.with_suffix(".ckpt")


def make(path: Path, content: Made) -> None:
    """Make a path be something, as a tool would: in place, with the directories it needs."""
    if callable(content):
        content(path)
    elif content is None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def tree(directory: Path) -> dict[str, tuple[str, object, int]]:
    """Return everything below a directory: path → (kind, bytes or target, mode)."""
    found = {}
    for parent, directories, names in os.walk(directory):
        for name in directories + names:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                state = "link", os.readlink(path), 0
            elif stat.S_ISDIR(status.st_mode):
                state = "directory", None, mode
            elif not stat.S_ISREG(status.st_mode):
                state = "special", None, mode
            else:
                with open(path, "rb") as file:
                    state = "file", file.read(), mode
            found[os.path.relpath(path, directory)] = state
    return found


def contents(directory: Path) -> dict[str, bytes]:
    """Return the files below a directory, without their modes."""
    return {path: state[1] for path, state in tree(directory).items() if state[0] == "file"}


def verdicts(said) -> dict[str, tuple[str, str | None]]:
    """Return path → (action, reason) of a plan or a report."""
    return {file.path: (file.action, file.reason) for file in said.files}


def leftovers(directory: Path) -> list[str]:
    """Return every temporary of ours anywhere below a directory, hidden or not."""
    return sorted(
        os.path.join(parent, name)
        for parent, directories, names in os.walk(directory)
        for name in names + directories
        if name.startswith(".sessions-") or name.endswith(".tmp")
    )
