"""Whatever was edited, rewound, undone and redone: a diff since a prompt leads from how it was there to how it is now."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from agent import Agent, contents, make
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions import ConflictError, Diff, NothingToUndoError, SessionStore

PATHS = ["a", "b", "d/c"]
EDITS = st.dictionaries(st.sampled_from(PATHS), st.none() | st.integers(1, 3), max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("turn"), EDITS, EDITS),
    st.tuples(st.just("turn"), EDITS, EDITS),
    st.tuples(st.just("rewind"), st.sampled_from(["code", "both", "conversation"]), st.integers(0, 9)),
    st.tuples(st.just("undo"), st.sampled_from(["refuse", "overwrite"]), st.none()),
    st.tuples(st.just("redo"), st.just("refuse"), st.none()),
)


class Model:
    """A session, and how its directory was when each prompt was typed."""

    def __init__(self, base: Path) -> None:
        (base / "project").mkdir(parents=True)
        self.agent = Agent(base / "root", base / "project")
        self.states: dict[str, dict[str, bytes]] = {}

    def turn(self, *edits: dict[str, int | None]) -> None:
        before = contents(self.agent.project)
        made = [self._texts(each) for each in edits]
        self.states[self.agent.turn("edit", *made)] = before

    def rewind(self, scope: str, place: int) -> None:
        prompts = self.agent.session.checkpoints()
        if prompts:
            self.agent.session.rewind(prompts[place % len(prompts)].id, scope=scope)

    def undo(self, on_conflict: str, _: None) -> None:
        with suppress(NothingToUndoError, ConflictError):
            self.agent.session.undo_rewind(on_conflict=on_conflict)

    def redo(self, on_conflict: str, _: None) -> None:
        with suppress(NothingToUndoError, ConflictError):
            self.agent.session.redo_rewind(on_conflict=on_conflict)

    def _texts(self, edits: dict[str, int | None]) -> dict[str, object]:
        def edit(version: int | None, path: str):
            return lambda file: write(file, None if version is None else f"{path} {version}\n")

        return {path: edit(version, path) for path, version in edits.items()}


def write(file: Path, text: str | None) -> None:
    if text is not None:
        make(file, text)
    elif file.exists():
        file.unlink()


def shown(said: Diff) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Return path → (old content, new content) of files of one line at most; no content: there was no file."""
    found = {}
    for file in said.files:
        assert not file.unverified
        body = file.text.partition("\n@@")[2].split("\n")
        sides = [next((line[1:].encode() + b"\n" for line in body if line.startswith(mark)), None) for mark in "-+"]
        found[file.path] = sides[0], sides[1]
    return found


def difference(old: dict[str, bytes], new: dict[str, bytes]) -> dict[str, tuple[bytes | None, bytes | None]]:
    return {path: (old.get(path), new.get(path)) for path in old.keys() | new if old.get(path) != new.get(path)}


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=2, max_size=9))
def test_since_each_prompt_it_is_the_difference_between_then_and_now(steps):
    base = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        model = Model(base)
        for name, *arguments in steps:
            getattr(model, name)(*arguments)
        now = contents(model.agent.project)
        for prompt in model.agent.session.checkpoints():
            assert shown(model.agent.session.diff(since=prompt)) == difference(model.states[prompt.id], now)
        assert shown(model.agent.session.diff()) == difference({}, now)
        identity = model.agent.session.id
        model.agent.close()
        if identity in {each.id for each in SessionStore(base / "root").list(scope="all")}:
            with SessionStore(base / "root").open(identity, read_only=True) as reading:
                assert shown(reading.diff()) == difference({}, now)
    finally:
        shutil.rmtree(base)
