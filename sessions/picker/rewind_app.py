"""The rewind picker on a terminal: what ``rows`` says is drawn, ``state`` hears the keys; see ``screen``.

What takes long is reading the session and planning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sessions import clock
from sessions.errors import SessionsError
from sessions.picker import rows, screen
from sessions.picker.keys import Key, Press
from sessions.picker.state import (
    PickerState,
    failed,
    measured,
    opened,
    planned,
    press,
    resize,
    shown,
    wanted,
)
from sessions.picker.text import Line, visible
from sessions.rewind.plan import Checkpoint, Plan, Scope

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

Reader = Callable[[], Sequence[Checkpoint]]
Planner = Callable[[Checkpoint, Scope], Plan]
Step = Callable[[PickerState], PickerState]


def pick(
    read: Reader,
    plan: Planner,
    state: PickerState,
    *,
    input: Input | None = None,  # noqa: A002 - prompt_toolkit's word for it
    output: Output | None = None,
) -> PickerState:
    """Show checkpoints until one is chosen or the picker is left.

    Args:
        read: Returns the checkpoints, oldest first; called once, in a thread. What it raises is raised here.
        plan: Makes the plan of a checkpoint and a scope; called in a thread when it is about to be shown. A
            ``SessionsError`` or ``OSError`` of it is shown instead of the plan, anything else is raised here.
        state: As ``state.opening`` returns it.
        input: Where keys come from; None is the terminal.
        output: Where the screen goes; None is the terminal.

    Returns:
        The last state; its ``outcome`` is the plan to execute. Nothing was changed.
    """
    return screen.run(_RewindPicker(read, plan), state, input=input, output=output)


class _RewindPicker:
    """The checkpoints of a session, and the plan of one of them."""

    keys: Mapping[str, Key] = {**screen.MOVING, "c-d": Key.LEAVE}

    def __init__(self, read: Reader, plan: Planner) -> None:
        self._read = read
        self._plan = plan
        self._lines: tuple[object, object, int, list[Line]] = (None, None, 0, [])

    def draw(self, state: PickerState, width: int, height: int) -> tuple[PickerState, list[Line]]:
        state = resize(state, width, height)
        plan = self._plan_lines(state)
        state = measured(state, len(plan))
        return state, rows.screen(state, clock.now(), plan)

    def press(self, state: PickerState, key: Press) -> PickerState:
        return press(state, key)

    def shown(self, state: PickerState) -> PickerState:
        return shown(state)

    def hit(self, state: PickerState, y: int) -> Press | None:
        return rows.hit(state, y)

    def idle(self, state: PickerState) -> None:
        """Return nothing: all that is made is waited for."""

    def work(self, state: PickerState) -> Callable[[], Step] | None:
        if state.reading:
            return self._opened
        wish = wanted(state)
        return (lambda: self._planned(*wish)) if wish is not None else None

    def _plan_lines(self, state: PickerState) -> list[Line]:
        """Return the lines of the plan that is shown; a key that only scrolls does not make them again."""
        confirm = state.confirm
        plan, failure = (confirm.plan, confirm.failure) if confirm is not None else (None, None)
        known = self._lines
        if not (known[0] is plan and known[1] is failure and known[2] == state.width):
            self._lines = (plan, failure, state.width, rows.plan_lines(state))
        return self._lines[3]

    def _opened(self) -> Step:
        checkpoints = self._read()
        return lambda state: opened(state, checkpoints)

    def _planned(self, checkpoint: Checkpoint, scope: Scope) -> Step:
        try:
            plan = self._plan(checkpoint, scope)
        except (SessionsError, OSError) as error:
            why = error.message if isinstance(error, SessionsError) else visible(str(error), keep="")
            return lambda state: failed(state, why) if wanted(state) == (checkpoint, scope) else state
        return lambda state: planned(state, scope, plan)
