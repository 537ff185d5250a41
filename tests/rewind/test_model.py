"""Any sequence of turns, edits, rewinds, undos, restarts and the user's own changes, against a model of a page.

The model knows the files as a dictionary, the transcript as lines, and the timeline as a list of touches; of how the real
one keeps them it knows nothing.
"""

import contextlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from agent import Agent, make, tree
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sessions import ConflictError, NothingToUndoError, assistant_message, user_message

FILES = st.sampled_from(["a", "b", "d/x", "d/e/y", "n/z"])
TOP = st.sampled_from(["a", "b", "c"])
CONTENTS = st.sampled_from([b"", b"one\n", b"two\n", b"\0\xff", b"one\ntwo\n"])
TITLES = st.sampled_from(["One", "Two", "ähm \U0001f600"])
MODES = st.sampled_from([0o600, 0o644, 0o755])
EDITS = st.one_of(
    st.tuples(st.just("write"), FILES, CONTENTS, MODES),
    st.tuples(st.just("delete"), FILES),
    st.tuples(st.just("move"), FILES, FILES),
    st.tuples(st.just("link"), FILES),
    st.tuples(st.just("rebuild"), CONTENTS),
    st.tuples(st.just("fail"), FILES, st.none() | CONTENTS),
)
Tree = dict[str, tuple[str, object, int]]


@dataclass
class Touch:
    """One path in one turn, or written by one rewind of code alone."""

    time: int
    owner: object
    path: str
    before: object
    after: object


@dataclass
class Step:
    """One rewind: what it did to files, transcript, prompts and timeline."""

    scope: str
    time: int
    files: dict[str, tuple[object, object]]
    transcripts: tuple[bytes, bytes]
    prompts: tuple[list[str], list[str]]
    taken: list[Touch] = field(default_factory=list)
    own: list[Touch] = field(default_factory=list)
    done: bool = True
    expired: bool = False


class Model(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.base = Path(
            tempfile.mkdtemp(prefix="sessions-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        )
        self.project = self.base / "project"
        self.project.mkdir()
        make(self.project / "a", "a at first\n")
        make(self.project / "d" / "x", "x at first\n")
        self.agent = Agent(self.base / "root", self.project)
        self.time = 0
        self.places: dict[str, int] = {}
        self.prompts: list[str] = []
        self.removed: dict[str, Step] = {}
        self.touches: list[Touch] = []
        self.steps: list[Step] = []
        self.files: Tree = tree(self.project)
        self.lines = b""

    def teardown(self) -> None:
        if hasattr(self, "agent"):
            self.agent.close()
            shutil.rmtree(self.base, ignore_errors=True)

    # -- the agent ---------------------------------------------------------------------------------------------------

    @rule(edits=st.lists(EDITS, max_size=4))
    def take_a_turn(self, edits) -> None:
        self.time += 1
        with self.agent.session.begin_turn(f"prompt {self.time}") as self.turn:
            self.places[self.turn.message_id] = self.time
            self.prompts.append(self.turn.message_id)
            self._expire()
            for name, *arguments in edits:
                getattr(self, f"_{name}")(*arguments)
            self.agent.session.append(assistant_message("done"))
        self._appended()

    @precondition(lambda self: self.lines)
    @rule(what=st.sampled_from(["say", "ask", "compact", "title", "restart"]), title=TITLES)
    def go_on(self, what: str, title: str) -> None:
        match what:
            case "say":
                self._say()
            case "ask":
                self._ask()
            case "compact":
                self._compact()
            case "title":
                self.agent.session.set_title(title)
                self._appended()
            case "restart":
                self.agent.reopen()

    def _say(self) -> None:
        self.agent.session.append(assistant_message("hm"))
        self._appended()

    def _ask(self) -> None:
        """A host that appends a prompt without opening a turn."""
        self.time += 1
        asked = self.agent.session.append(user_message(f"prompt {self.time}"))
        self.places[asked] = self.time
        self.prompts.append(asked)
        self._appended()

    def _write(self, path: str, content: bytes, mode: int) -> None:
        def work() -> None:
            target = self.project / path
            if target.is_symlink():
                target.unlink()
            make(target, content)
            target.chmod(mode)

        self._edit([path], work)

    def _delete(self, path: str) -> None:
        if os.path.lexists(self.project / path):
            self._edit([path], (self.project / path).unlink)

    def _move(self, old: str, new: str) -> None:
        if os.path.lexists(self.project / old) and old != new:

            def work() -> None:
                (self.project / new).parent.mkdir(parents=True, exist_ok=True)
                os.replace(self.project / old, self.project / new)

            self._edit([old, new], work)

    def _link(self, path: str) -> None:
        def work() -> None:
            (self.project / path).parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                (self.project / path).unlink()
            (self.project / path).symlink_to("nowhere")

        self._edit([path], work)

    def _rebuild(self, content: bytes) -> None:
        """A directory named as a whole: what was in it goes, something else comes."""

        def work() -> None:
            shutil.rmtree(self.project / "d", ignore_errors=True)
            make(self.project / "d" / "new", content)

        below = [path for path in self.files if path == "d" or path.startswith("d/")]
        self._edit(["d"], work, also=[*below, "d/new"])

    def _fail(self, path: str, content: bytes | None) -> None:
        def work() -> None:
            if content is not None and not (self.project / path).is_symlink():
                make(self.project / path, content)
            raise RuntimeError("the tool broke")

        with pytest.raises(RuntimeError):
            self._edit([path], work)

    def _compact(self) -> None:
        if self.agent.session.compact("a summary", keep_rounds=1).compacted:
            self._appended()

    # -- the user ----------------------------------------------------------------------------------------------------

    @rule(path=TOP, content=st.none() | CONTENTS)
    def meddle(self, path: str, content: bytes | None) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.project / path).unlink()
        if content is not None:
            make(self.project / path, b"the user's " + content)
        self.files = tree(self.project)

    # -- going back --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.prompts)
    @rule(data=st.data(), scope=st.sampled_from(["both", "both", "code", "conversation"]), planned=st.booleans())
    def rewind(self, data, scope: str, planned: bool) -> None:
        known = [*self.prompts, *(self.removed if scope == "code" else ())]
        to = data.draw(st.sampled_from(known))
        step = self._step(scope, to)
        plan = self.agent.session.plan_rewind(to, scope=scope)
        assert {file.path for file in plan.files if file.action != "unchanged"} == set(step.files)
        self.agent.session.rewind(plan if planned else to, **({} if planned else {"scope": scope}))
        self._expire()
        self.steps.append(step)
        self._apply(step)

    @precondition(lambda self: self.prompts)
    @rule(data=st.data(), deleted=st.booleans())
    def go_on_in_a_fork(self, data, deleted: bool) -> None:
        """The session's place is taken by a fork of it, of all or of the first turns; the files stay as they are."""
        at = data.draw(st.none() | st.sampled_from(self.prompts))
        parent = self.agent.session
        self.agent.session = parent.fork(at)
        parent.close()
        if deleted:
            self.agent.store.delete(parent.id)
        kept = self.prompts if at is None else self.prompts[: self.prompts.index(at) + 1]
        behind = self.prompts[len(kept) :]
        self.lines = self._forked(parent.id, self.lines if not behind else _cut(self.lines, behind[0]))
        end = self.places[behind[0]] if behind else self.time + 1
        self.prompts, self.steps = list(kept), []
        self.touches = [touch for touch in self.touches if touch.time < end]
        self.removed = {each: why for each, why in self.removed.items() if self.places[each] < end}

    def _forked(self, parent: str, lines: bytes) -> bytes:
        header, *others = [line for line in self.agent.transcript.split(b"\n")[:-1] if b'"blocks"' not in line]
        assert json.loads(header)["forkedFrom"] == parent
        titles = [title for line in lines.split(b"\n")[:-1] if (title := json.loads(line).get("customTitle"))]
        assert [json.loads(line)["customTitle"] for line in others] == [f"{title} (fork)" for title in titles[-1:]]
        messages = [line for line in lines.split(b"\n")[:-1] if b'"blocks"' in line]
        return b"".join(line + b"\n" for line in [header, *messages, *others])

    @rule(redo=st.booleans())
    def turn_round(self, redo: bool) -> None:
        self._redo() if redo else self._undo()

    def _undo(self) -> None:
        step = next((step for step in reversed(self.steps) if step.done), None)
        if step is None:
            with pytest.raises(NothingToUndoError):
                self.agent.session.undo_rewind()
        elif self._may_turn_round(step):
            self.agent.session.undo_rewind()
            self._turn_round(step)
        else:
            with pytest.raises(ConflictError):
                self.agent.session.undo_rewind()

    def _redo(self) -> None:
        undone = [step for step in self.steps if not step.done and not step.expired]
        if not undone:
            with pytest.raises(NothingToUndoError):
                self.agent.session.redo_rewind()
            return
        step = max(undone, key=lambda each: each.time)
        if self._may_turn_round(step):
            self.agent.session.redo_rewind()
            self._turn_round(step)
        else:
            with pytest.raises(ConflictError):
                self.agent.session.redo_rewind()

    # -- what holds ----------------------------------------------------------------------------------------------------

    @invariant()
    def files_are_those_of_the_model(self) -> None:
        if hasattr(self, "agent"):
            assert tree(self.project) == self.files

    @invariant()
    def the_transcript_is_that_of_the_model(self) -> None:
        if hasattr(self, "agent") and self.lines:
            assert self.agent.transcript == self.lines
            assert [each.id for each in self.agent.session.checkpoints()] == self.prompts
            assert [message.id for message in self.agent.session.messages] == _view(self.lines)

    # -- the model -----------------------------------------------------------------------------------------------------

    def _appended(self) -> None:
        found = self.agent.transcript
        assert found.startswith(self.lines)
        self.lines = found

    def _expire(self) -> None:
        for step in self.steps:
            step.expired = step.expired or not step.done

    def _edit(self, paths, work, also=()) -> None:
        before = self.files
        named = [*paths, *also]
        for path in paths:
            while path := os.path.dirname(path):
                if path not in before:
                    named.append(path)
        try:
            with self.turn.edit(*paths):
                work()
        finally:
            self.files = tree(self.project)
            owner = self.turn.message_id
            for path in sorted(set(named)):
                touch = next((each for each in self.touches if (each.owner, each.path) == (owner, path)), None)
                if touch is None:
                    self.time += 1
                    touch = Touch(self.time, owner, path, before.get(path), None)
                    self.touches.append(touch)
                touch.after = self.files.get(path)

    def _step(self, scope: str, to: str) -> Step:
        place = self.places[to]
        wanted: dict[str, object] = {}
        changed: set[str] = set()
        for touch in self.touches if scope != "conversation" else ():
            if touch.time >= place:
                wanted.setdefault(touch.path, touch.before)
                if touch.before != touch.after:
                    changed.add(touch.path)
        files = {path: (self.files.get(path), wanted[path]) for path in changed if self.files.get(path) != wanted[path]}
        lines, prompts = self.lines, self.prompts
        if scope != "code":
            lines, prompts = _cut(self.lines, to), self.prompts[: self.prompts.index(to)]
        self.time += 1
        return Step(scope, self.time, files, (self.lines, lines), (self.prompts, prompts), taken=[
            touch for touch in self.touches if scope == "both" and touch.time >= place
        ])  # fmt: skip

    def _apply(self, step: Step) -> None:
        self._set({path: after for path, (_before, after) in step.files.items()})
        if step.scope != "code":
            gone = self.prompts[len(step.prompts[1]) :]
            self.lines, self.prompts = step.transcripts[1], list(step.prompts[1])
            if step.scope == "conversation":
                self.removed |= dict.fromkeys(gone, step)
            else:
                first = self.places[gone[0]]
                self.removed = {each: why for each, why in self.removed.items() if self.places[each] < first}
        self.touches = [touch for touch in self.touches if touch not in step.taken]
        if step.scope == "code":
            step.own = [Touch(step.time, step, path, *states) for path, states in step.files.items()]
            self.touches += step.own

    def _set(self, states: dict[str, object]) -> None:
        for path, state in states.items():
            if state is None:
                self.files.pop(path, None)
            else:
                self.files[path] = state

    def _may_turn_round(self, step: Step) -> bool:
        """Whether nothing stands in the way: no turn and no message since, no file that is neither side of the step."""
        if any(self.places[each] > step.time for each in [*self.prompts, *self.removed]):
            return False
        if _messages(self.lines[len(step.transcripts[1 if step.done else 0]) :]):
            return False
        return all(self.files.get(path) in states for path, states in step.files.items())

    def _turn_round(self, step: Step) -> None:
        side = 0 if step.done else 1
        # What already is as it must be is not touched, and so is no part of the way back either.
        step.files = {path: states for path, states in step.files.items() if self.files.get(path) != states[side]}
        self._set({path: states[side] for path, states in step.files.items()})
        if step.scope == "code":
            step.transcripts = (self.lines, self.lines)
        else:
            found, since = self.lines, self.lines[len(step.transcripts[1 - side]) :]
            self.lines = step.transcripts[side] + since
            self.prompts = list(step.prompts[side])
            step.transcripts = (self.lines, found) if side == 0 else (found, self.lines)
            if step.scope == "conversation":
                gone = step.prompts[0][len(step.prompts[1]) :]
                self.removed = {each: why for each, why in self.removed.items() if each not in gone}
                if side == 1:
                    self.removed |= dict.fromkeys(gone, step)
        if side == 0:
            self.touches = sorted(
                [*(t for t in self.touches if t.owner is not step), *step.taken], key=lambda t: t.time
            )
        else:
            self.touches = [touch for touch in self.touches if touch not in step.taken]
            self.touches = sorted([*self.touches, *step.own], key=lambda touch: touch.time)
        step.done = not step.done
        self.time += 1
        step.time = self.time


def _messages(lines: bytes) -> list[dict]:
    return [entry for line in lines.split(b"\n")[:-1] if "blocks" in (entry := json.loads(line))]


def _view(lines: bytes) -> list[str]:
    messages = _messages(lines)
    compacts = [place for place, entry in enumerate(messages) if entry["blocks"][0]["type"] == "compact"]
    return list(dict.fromkeys(entry["id"] for entry in messages[compacts[-1] if compacts else 0 :]))


def _cut(lines: bytes, to: str) -> bytes:
    listed = [line + b"\n" for line in lines.split(b"\n")[:-1]]
    place = next(place for place, line in enumerate(listed) if json.loads(line).get("id") == to)
    titles = [line for line in listed if json.loads(line).get("type") == "custom-title"]
    kept = listed[:place] + [line for line in listed[place:] if line in titles]
    if titles and kept[-1] != titles[-1]:
        kept.append(titles[-1])
    return b"".join(kept)


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
