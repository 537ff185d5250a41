"""The rewind picker on a terminal: it draws what ``rows`` says, forwards keys to ``state``, and decides nothing.

What takes long, reading the session and planning, runs in a thread while the screen says so. A key is meant for a
screen only when it arrived after that screen was drawn: what was typed ahead is taken from the terminal at that moment,
and ``state`` hears it as such.

Full screen, on the terminal's other page: leaving it brings back what was there. Nothing is written anywhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.data_structures import Point
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, UIContent, UIControl, Window
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style

from sessions import clock
from sessions.errors import SessionsError
from sessions.picker import rows
from sessions.picker.state import (
    Key,
    PickerState,
    Press,
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
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input

Reader = Callable[[], Sequence[Checkpoint]]
Planner = Callable[[Checkpoint, Scope], Plan]
Step = Callable[[PickerState], PickerState]

ESCAPE_WAIT_S = 0.1
"""How long Esc waits for the rest of an arrow key's sequence."""

STYLE = Style.from_dict(
    {
        "title": "bold",
        "strong": "bold",
        "selected": "bold reverse",
        "pointer": "bold ansicyan",
        "dim": "ansibrightblack",
        "mark": "ansimagenta",
        "add": "ansigreen",
        "remove": "ansired",
        "restore": "ansicyan",
        "warn": "bold ansiyellow",
    }
)

_KEYS: dict[str, Key] = {
    "up": Key.UP,
    "c-p": Key.UP,
    "down": Key.DOWN,
    "c-n": Key.DOWN,
    "pageup": Key.PAGE_UP,
    "pagedown": Key.PAGE_DOWN,
    "home": Key.HOME,
    "end": Key.END,
    "enter": Key.ENTER,
    "escape": Key.ESCAPE,
    "backspace": Key.BACKSPACE,
    "c-u": Key.CLEAR,
    "c-c": Key.INTERRUPT,
    "c-d": Key.LEAVE,
    "<sigint>": Key.INTERRUPT,
}

_MOUSE = {MouseEventType.SCROLL_UP: Key.WHEEL_UP, MouseEventType.SCROLL_DOWN: Key.WHEEL_DOWN}


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
    app = _app(_Screen(state, read, plan), input, output)
    try:
        return app.run(in_thread=_inside_a_loop())
    except EOFError:  # the terminal went away
        return state


class _Screen(UIControl):
    """The one control of the app: holds the state, draws it, and takes the mouse."""

    def __init__(self, state: PickerState, read: Reader, plan: Planner) -> None:
        self.state = state
        self._read = read
        self._plan = plan
        self._working = False
        self._lines: tuple[object, object, int, list[Line]] = (None, None, 0, [])

    def create_content(self, width: int, height: int) -> UIContent:
        self.state = resize(self.state, width, height)
        plan = self._plan_lines()
        self.state = measured(self.state, len(plan))
        lines = rows.screen(self.state, clock.now(), plan)
        drawn = [_styled(line) for line in lines] + [[] for _ in range(height - len(lines))]
        return UIContent(drawn.__getitem__, len(drawn), cursor_position=Point(0, 0), show_cursor=False)

    def _plan_lines(self) -> list[Line]:
        """Return the lines of the plan that is shown; a key that only scrolls does not make them again."""
        confirm = self.state.confirm
        plan, failure = (confirm.plan, confirm.failure) if confirm is not None else (None, None)
        known = self._lines
        if not (known[0] is plan and known[1] is failure and known[2] == self.state.width):
            self._lines = (plan, failure, self.state.width, rows.plan_lines(self.state))
        return self._lines[3]

    def is_focusable(self) -> bool:
        return True

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        key: Press | None = _MOUSE.get(mouse_event.event_type)
        if mouse_event.event_type is MouseEventType.MOUSE_UP:
            key = rows.hit(self.state, mouse_event.position.y)
        if key is not None:
            self.press(key)

    def press(self, key: Press) -> None:
        """Forward ``key``, and let the app end when the state says so."""
        app = get_app()
        try:
            self.state = press(self.state, key)
        except Exception as bug:  # noqa: BLE001 - the event loop would swallow it and leave the terminal in a mess
            app.exit(exception=bug)
            return
        app.invalidate()
        if self.state.left:
            app.exit(result=self.state)

    def drawn(self, app: Application[PickerState]) -> None:
        """Take note that the state is on the screen: what was typed before is heard first, then what is missing made.

        Keys wait in the terminal until they are read; those that wait now arrived while another screen stood there.
        """
        before = self.state
        while not self.state.left and self.state.unseen and (keys := app.input.read_keys()):
            app.key_processor.feed_multiple(keys)
            app.key_processor.process_keys()
        if self.state is before:
            self.state = shown(before)
        if not (self.state.left or self._working):
            self._make_what_is_missing(app)

    def _make_what_is_missing(self, app: Application[PickerState]) -> None:
        wish = wanted(self.state)
        if self.state.reading:
            self._start(app, self._opened)
        elif wish is not None:
            self._start(app, lambda: self._planned(*wish))

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

    def _start(self, app: Application[PickerState], work: Callable[[], Step]) -> None:
        loop, self._working = asyncio.get_running_loop(), True

        def run() -> None:
            result: Step | Exception
            try:
                result = work()
            except Exception as bug:  # noqa: BLE001 - raised again where the app is
                result = bug
            with contextlib.suppress(RuntimeError):  # the user left meanwhile: the loop is closed
                loop.call_soon_threadsafe(finish, result)

        def finish(result: Step | Exception) -> None:
            self._working = False
            if app.is_done:
                return
            if isinstance(result, Exception):
                app.exit(exception=result)
                return
            self.state = result(self.state)
            app.invalidate()

        threading.Thread(target=run, name="sessions-picker", daemon=True).start()


def _app(screen: _Screen, source: Input | None, target: Output | None) -> Application[PickerState]:
    app: Application[PickerState] = Application(
        layout=Layout(Window(screen, always_hide_cursor=True)),
        key_bindings=_bindings(screen),
        style=STYLE,
        color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
        full_screen=True,
        mouse_support=True,
        input=source,
        output=target,
        after_render=screen.drawn,
    )
    app.ttimeoutlen = app.timeoutlen = ESCAPE_WAIT_S
    return app


def _bindings(screen: _Screen) -> KeyBindings:
    bindings = KeyBindings()

    def bind(name: str, key: Key) -> None:
        @bindings.add(name, eager=True)
        def _(_event: KeyPressEvent) -> None:
            screen.press(key)

    for name, key in _KEYS.items():
        bind(name, key)

    @bindings.add(Keys.BracketedPaste)
    @bindings.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        typed = not isinstance(event.key_sequence[-1].key, Keys) or event.key_sequence[-1].key is Keys.BracketedPaste
        screen.press(event.data if typed else "")

    return bindings


def _styled(line: Line) -> StyleAndTextTuples:
    return [(f"class:{style}" if style else "", text) for style, text in line]


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
