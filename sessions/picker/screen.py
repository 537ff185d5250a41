"""A picker on a terminal: it draws what a state says, forwards keys to it, and decides nothing.

What takes long runs in a thread while the screen says so; what nobody waits for runs in another one. A key is meant for
a screen only when it arrived after that screen was drawn: what was typed ahead is taken from the terminal at that
moment, and the state hears it as such.

Full screen, on the terminal's other page: leaving it brings back what was there. Nothing is written anywhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.data_structures import Point
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, UIContent, UIControl, Window
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style

from sessions.picker.keys import Key, Press
from sessions.picker.text import Line

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input

ESCAPE_WAIT_S = 0.1
"""How long Esc waits for the rest of an arrow key's sequence."""

MOVING: Mapping[str, Key] = {
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
    "<sigint>": Key.INTERRUPT,
}
"""What every picker binds."""

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

_MOUSE = {MouseEventType.SCROLL_UP: Key.WHEEL_UP, MouseEventType.SCROLL_DOWN: Key.WHEEL_DOWN}


class State(Protocol):
    """What the terminal has to know of a state."""

    @property
    def left(self) -> bool:
        """Whether the picker is done."""
        ...

    @property
    def unseen(self) -> bool:
        """Whether what it shows was not on the screen yet."""
        ...


S = TypeVar("S", bound=State)
Work = Callable[[], Callable[[S], S]]


class Picker(Protocol[S]):
    """One picker: pure but for ``work``, and for the clock in ``draw``."""

    @property
    def keys(self) -> Mapping[str, Key]:
        """The keys it binds, by prompt_toolkit's names."""
        ...

    def draw(self, state: S, width: int, height: int) -> tuple[S, list[Line]]:
        """Return the state for a terminal of that size, and its lines, at most ``height``."""
        ...

    def press(self, state: S, key: Press) -> S:
        """Return what a key makes of a state."""
        ...

    def shown(self, state: S) -> S:
        """Return a state that knows that it was on the screen."""
        ...

    def hit(self, state: S, y: int) -> Press | None:
        """Return what a click on a line means; None for nothing."""
        ...

    def work(self, state: S) -> Work[S] | None:
        """Return what is missing in a state: it runs in a thread, and what it returns puts the result in.

        None where nothing is. What it raises ends the picker.
        """
        ...

    def idle(self, state: S) -> Work[S] | None:
        """Return what is worth doing while nothing is missing; likewise, in another thread: nobody waits for it."""
        ...


def run(
    picker: Picker[S],
    state: S,
    *,
    input: Input | None = None,  # noqa: A002 - prompt_toolkit's word for it
    output: Output | None = None,
) -> S:
    """Show a picker until its state says that it is left; return that state.

    Args:
        picker: What is shown.
        state: The first state.
        input: Where keys come from; None is the terminal.
        output: Where the screen goes; None is the terminal.
    """
    app = _app(_Screen(state, picker), input, output)
    try:
        return app.run(in_thread=_inside_a_loop())
    except EOFError:  # the terminal went away
        return state


class _Screen(UIControl, Generic[S]):
    """The one control of the app: holds the state, draws it, and takes the mouse."""

    def __init__(self, state: S, picker: Picker[S]) -> None:
        self.state = state
        self.picker = picker
        self._busy: set[str] = set()  # the names of the threads that work

    def create_content(self, width: int, height: int) -> UIContent:
        self.state, lines = self.picker.draw(self.state, width, height)
        drawn = [_styled(line) for line in lines] + [[] for _ in range(height - len(lines))]
        return UIContent(drawn.__getitem__, len(drawn), cursor_position=Point(0, 0), show_cursor=False)

    def is_focusable(self) -> bool:
        return True

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        key: Press | None = _MOUSE.get(mouse_event.event_type)
        if mouse_event.event_type is MouseEventType.MOUSE_UP:
            key = self.picker.hit(self.state, mouse_event.position.y)
        if key is not None:
            self.press(key)

    def press(self, key: Press) -> None:
        """Forward ``key``, and let the app end when the state says so."""
        app = get_app()
        try:
            self.state = self.picker.press(self.state, key)
        except Exception as bug:  # noqa: BLE001 - the event loop would swallow it and leave the terminal in a mess
            app.exit(exception=bug)
            return
        app.invalidate()
        if self.state.left:
            app.exit(result=self.state)

    def drawn(self, app: Application[S]) -> None:
        """Take note that the state is on the screen: what was typed before is heard first, then what is missing made.

        Keys wait in the terminal until they are read; those that wait now arrived while another screen stood there.
        """
        before = self.state
        while not self.state.left and self.state.unseen and (keys := app.input.read_keys()):
            app.key_processor.feed_multiple(keys)
            app.key_processor.process_keys()
        if self.state is before:
            self.state = self.picker.shown(before)
        if not self.state.left:
            self._go_on(app, "sessions-picker", self.picker.work)
            self._go_on(app, "sessions-picker-idle", self.picker.idle)

    def _go_on(self, app: Application[S], thread: str, next_of: Callable[[S], Work[S] | None]) -> None:
        if thread not in self._busy and (work := next_of(self.state)) is not None:
            self._start(app, thread, work)

    def _start(self, app: Application[S], thread: str, work: Work[S]) -> None:
        loop = asyncio.get_running_loop()
        self._busy.add(thread)

        def run() -> None:
            result: Callable[[S], S] | Exception
            try:
                result = work()
            except Exception as bug:  # noqa: BLE001 - raised again where the app is
                result = bug
            with contextlib.suppress(RuntimeError):  # the user left meanwhile: the loop is closed
                loop.call_soon_threadsafe(finish, result)

        def finish(result: Callable[[S], S] | Exception) -> None:
            self._busy.discard(thread)
            if app.is_done:
                return
            if isinstance(result, Exception):
                app.exit(exception=result)
                return
            self.state = result(self.state)
            app.invalidate()

        threading.Thread(target=run, name=thread, daemon=True).start()


def _app(screen: _Screen[S], source: Input | None, target: Output | None) -> Application[S]:
    app: Application[S] = Application(
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


def _bindings(screen: _Screen[S]) -> KeyBindings:
    bindings = KeyBindings()

    def bind(name: str, key: Key) -> None:
        @bindings.add(name, eager=True)
        def _(_event: KeyPressEvent) -> None:
            screen.press(key)

    for name, key in screen.picker.keys.items():
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
