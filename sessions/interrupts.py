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
    """

    def __init__(self, handler: Handler = signal.SIG_IGN) -> None:
        self.pending = False
        self._allowed = False
        self._handler = handler

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Let one come while the block runs, also one that is held back already; any after it is held back again."""
        self._allowed = True
        try:
            if self.pending:
                self.pending = False
                self.came(signal.SIGINT, None)
            yield
        finally:
            self._allowed = False

    def came(self, number: int, frame: FrameType | None) -> None:
        """Take the signal: hold it back, or do what was done with it before the block, which may raise."""
        if not self._allowed:
            self.pending = True
        elif callable(self._handler):
            self._allowed = False  # first: from here on no further one raises
            self._handler(number, frame)
            self._allowed = True
        else:
            signal.signal(signal.SIGINT, self._handler)
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def deferred() -> Iterator[Interrupts]:
    """Hold Ctrl-C back until the block is left; then it is delivered, once, unless the block ends with one already.

    Does nothing on a thread other than the main one, which never gets it; where it is ignored; and where something
    other than Python handles it, for that could not be put back.
    """
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is None or handler is signal.SIG_IGN:
        yield Interrupts()
        return
    interrupts = Interrupts(handler)
    signal.signal(signal.SIGINT, interrupts.came)
    try:
        yield interrupts
    except KeyboardInterrupt:
        interrupts.pending = False
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
        if interrupts.pending:
            signal.raise_signal(signal.SIGINT)
