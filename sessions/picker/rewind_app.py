"""The rewind picker on a terminal: it draws what ``rows`` says, forwards keys to ``state``, and decides nothing.

Full screen, on the terminal's other page: leaving it brings back what was there. Nothing is written anywhere else.
"""

from __future__ import annotations

import asyncio
import os
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
    planned,
    press,
    resize,
    start,
    wanted,
)
from sessions.picker.text import Line, visible
from sessions.rewind.plan import Checkpoint, Plan, Scope

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input

Planner = Callable[[Checkpoint, Scope], Plan]

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
    "c-c": Key.LEAVE,
    "c-d": Key.LEAVE,
    "<sigint>": Key.LEAVE,
}

_MOUSE = {MouseEventType.SCROLL_UP: Key.WHEEL_UP, MouseEventType.SCROLL_DOWN: Key.WHEEL_DOWN}


def pick(
    checkpoints: Sequence[Checkpoint],
    plan: Planner,
    *,
    title: str = "",
    scopes: tuple[Scope, ...] = ("both", "conversation", "code"),
    input: Input | None = None,  # noqa: A002 - prompt_toolkit's word for it
    output: Output | None = None,
) -> Plan | None:
    """Show ``checkpoints`` until one is chosen or the picker is left.

    Args:
        checkpoints: Oldest first.
        plan: Makes the plan of a checkpoint and a scope; called when it is about to be shown. A ``SessionsError`` or
            ``OSError`` of it is shown instead of the plan.
        title: The session's title, shown above.
        scopes: The scopes to offer, widest first.
        input: Where keys come from; None is the terminal.
        output: Where the screen goes; None is the terminal.

    Returns:
        The plan to execute, or None when the user left. Nothing was changed in either case.
    """
    app = _app(_Screen(start(checkpoints, title=title, scopes=scopes), plan), input, output)
    try:
        return app.run(in_thread=_inside_a_loop())
    except EOFError:  # the terminal went away
        return None


class _Screen(UIControl):
    """The one control of the app: holds the state, draws it, and takes the mouse."""

    def __init__(self, state: PickerState, plan: Planner) -> None:
        self.state = state
        self._plan = plan

    def create_content(self, width: int, height: int) -> UIContent:
        self.state = resize(self.state, width, height)
        self.state = measured(self.state, len(rows.plan_lines(self.state)))
        lines = rows.screen(self.state, clock.now())
        drawn = [_styled(line) for line in lines] + [[] for _ in range(height - len(lines))]
        return UIContent(drawn.__getitem__, len(drawn), cursor_position=Point(0, 0), show_cursor=False)

    def is_focusable(self) -> bool:
        return True

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        key: Press | None = _MOUSE.get(mouse_event.event_type)
        if mouse_event.event_type is MouseEventType.MOUSE_UP:
            key = rows.hit(self.state, mouse_event.position.y)
        if key is not None:
            self.press(key)

    def press(self, key: Press) -> None:
        """Forward ``key``, make the plans it asks for, and let the app end when the state says so."""
        app = get_app()
        try:
            self.state = press(self.state, key)
            self._make_plans()
        except Exception as bug:  # noqa: BLE001 - the event loop would swallow it and leave the terminal in a mess
            app.exit(exception=bug)
            return
        app.invalidate()
        if self.state.left:
            app.exit(result=self.state.outcome)

    def _make_plans(self) -> None:
        while (wish := wanted(self.state)) is not None:
            try:
                self.state = planned(self.state, wish[1], self._plan(*wish))
            except SessionsError as error:
                self.state = failed(self.state, error.message)
            except OSError as error:
                self.state = failed(self.state, visible(str(error), keep=""))


def _app(screen: _Screen, source: Input | None, target: Output | None) -> Application[Plan | None]:
    app: Application[Plan | None] = Application(
        layout=Layout(Window(screen, always_hide_cursor=True)),
        key_bindings=_bindings(screen),
        style=STYLE,
        color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
        full_screen=True,
        mouse_support=True,
        input=source,
        output=target,
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
