"""Ctrl-C, and when it may come: Python raises it between any two steps of the main thread."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int


class Interrupts:
    """Ctrl-C within a block of ``deferred``.

    Attributes:
        pending: Whether it came and is held back.
        delivered: Whether what was done with it before the block was done, and raised.
    """

    def __init__(self, handler: Handler = signal.SIG_IGN) -> None:
        self.pending = False
        self.delivered = False
        self._allowed = False
        self._handler = handler

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Let it come while the block runs, also what was held back. If that raises, the next one is held back."""
        try:
            self._allowed = True
            self._let_through()
            yield
        finally:
            self._allowed = False

    def deliver(self) -> None:
        """Let one come that is held back; if none is this does nothing."""
        if self.pending:
            self.pending = False
            self._hand_over(signal.SIGINT, None)

    def came(self, number: int, frame: FrameType | None) -> None:
        """Take the signal: hold it back, or do what was done with it before the block, which may raise."""
        if not self._allowed:
            self.pending = True
            return
        self._allowed = False  # first: from here on no further one raises
        self._hand_over(number, frame)
        self._allowed = True
        self._let_through()

    def _let_through(self) -> None:
        if self.pending:
            self.pending = False
            self.came(signal.SIGINT, None)

    def _hand_over(self, number: int, frame: FrameType | None) -> None:
        # Not by raising the signal again: an event loop hears of each where it comes, before any handler does.
        try:
            if callable(self._handler):
                self._handler(number, frame)
        except BaseException:
            self.delivered = True
            raise
        if self._handler is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def deferred() -> Iterator[Interrupts]:
    """Hold Ctrl-C back until the block is left; then it is delivered, once, unless the block ends with it already.

    Does nothing on a thread other than the main one, which never gets it; where it is ignored; and where something
    other than Python handles it, for that could not be put back.
    """
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is None or handler is signal.SIG_IGN:
        yield Interrupts()
        return
    interrupts = Interrupts(handler)
    signal.signal(signal.SIGINT, interrupts.came)
    ends_with_it = False
    try:
        yield interrupts
    except BaseException:
        ends_with_it = interrupts.delivered
        raise
    finally:
        if signal.getsignal(signal.SIGINT) == interrupts.came:  # else somebody else has it now
            signal.signal(signal.SIGINT, handler)
        if not ends_with_it:
            interrupts.deliver()
