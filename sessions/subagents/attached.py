"""Work inside this process that is attached to a session: an asyncio task, or a way to cancel and a way to wait."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from sessions.errors import RequestError

if TYPE_CHECKING:
    import asyncio

Outcome = Literal["completed", "failed", "cancelled"]

_FAILURE_CHARACTERS = 200
_SLICE_S = 0.05  # a loop that was closed does not tell
_PATIENCE_S = 1.0  # per call of a host's ``wait``


class Attached(Protocol):
    """Work that can be cancelled and waited for, from any thread but its own."""

    def cancel(self) -> None:
        """Ask it to end; returns at once. What the host's own ``cancel`` raises passes through."""

    def uncancel(self) -> None:
        """Make nothing of it that it was asked to end: it runs on, and how it ends is its own doing."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; return whether it has. On the loop's own thread that would wait for itself."""

    def on_own_thread(self) -> bool:
        """Tell whether the calling thread is the work's own, or runs its loop, so that waiting would never end."""

    def outcome(self) -> Outcome | None:
        """Return how it ended; None: it has not."""

    def failure(self) -> str:
        """Return what it failed with, in a line; empty where it did not, or nobody knows."""

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once, on any thread, when it has ended, also if it has already. What it raises is dropped.

        A loop that is closed before it could tell calls nobody.
        """


def attached_to(
    task: asyncio.Task[object] | asyncio.Future[object] | threading.Thread | None,
    cancel: Callable[[], object] | None,
    wait: Callable[[float], bool] | None,
) -> Attached:
    """Return the handle of work in this process.

    Args:
        task: An asyncio task or future, whose exception counts as seen, so asyncio does not log it as never retrieved;
            or a thread, with ``cancel``.
        cancel: Asks a thread, or other work, to end.
        wait: Waits for other work at most that many seconds, and says whether it has ended: ``Event.wait``, for
            example. One that raises says that it ended, and failed. It is asked once here.

    Raises:
        RequestError: It is none of the three, or ``wait`` does not say whether the work has ended.
    """
    if isinstance(task, threading.Thread) and cancel is not None and wait is None:
        return _AttachedPair(cancel, _joining(task), task)
    if task is not None and not (isinstance(task, threading.Thread) or hasattr(task, "get_loop")):
        raise RequestError(f"not an asyncio task, and no thread: {task!r}; other work is given by cancel= and wait=")
    if task is not None and not isinstance(task, threading.Thread) and cancel is None and wait is None:
        return _AttachedTask(task)
    if task is None and cancel is not None and wait is not None:
        _check_wait(wait)
        return _AttachedPair(cancel, wait)
    raise RequestError("attach an asyncio task, or a thread and cancel=, or cancel= and wait= together")


def _joining(thread: threading.Thread) -> Callable[[float], bool]:
    def wait(timeout_s: float) -> bool:
        if thread.ident is None or thread is threading.current_thread():  # not started yet; or asked by the work itself
            time.sleep(min(timeout_s, _SLICE_S))
            return False
        thread.join(timeout_s)
        return not thread.is_alive()

    return wait


def _check_wait(wait: Callable[[float], bool]) -> None:
    try:
        said: object = wait(0.0)
    except TypeError as error:
        raise RequestError(f"wait= cannot be called with a number of seconds: {error}") from error
    except Exception:  # noqa: BLE001 - the work has failed already
        return
    if not isinstance(said, bool):
        close: Callable[[], object] = getattr(said, "close", lambda: None)
        close()  # of a coroutine nobody awaits
        raise RequestError(f"wait= returned {type(said).__name__}; it has to return whether the work has ended")


class _AttachedTask:
    def __init__(self, task: asyncio.Task[object] | asyncio.Future[object]) -> None:
        self._task = task
        self._loop = task.get_loop()
        self._ended = threading.Event()
        self._when_ended(lambda _: self._ended.set())

    def cancel(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._task.cancel)

    def uncancel(self) -> None:
        """An asyncio task says itself how it ended."""

    def wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not (self._task.done() or self._loop.is_closed()):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._ended.wait(min(left, _SLICE_S))
        return True

    def on_own_thread(self) -> bool:
        import asyncio  # noqa: PLC0415 - whoever has a task has it

        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def outcome(self) -> Outcome | None:
        if not self._task.done():
            return "cancelled" if self._loop.is_closed() else None
        if self._task.cancelled():
            return "cancelled"
        return "completed" if self._task.exception() is None else "failed"

    def failure(self) -> str:
        if not self._task.done() or self._task.cancelled():
            return ""
        error = self._task.exception()
        return "" if error is None else " ".join(repr(error).split())[:_FAILURE_CHARACTERS]

    def when_done(self, callback: Callable[[], object]) -> None:
        once = _Once(callback)
        if not self._when_ended(lambda _: once()):
            once()

    def _when_ended(self, callback: Callable[[object], object]) -> bool:
        """Have the loop call back when the task is done; False: the loop is closed and calls nobody."""
        try:
            self._loop.call_soon_threadsafe(self._task.add_done_callback, callback)
        except RuntimeError:
            return False
        return True


class _AttachedPair:
    def __init__(
        self, cancel: Callable[[], object], wait: Callable[[float], bool], thread: threading.Thread | None = None
    ) -> None:
        self._thread = thread
        self._cancel = cancel
        self._wait = wait
        self._outcome: Outcome = "completed"
        self._failure = ""

    def cancel(self) -> None:
        if not self.wait(0):
            self._outcome = "cancelled"
            self._cancel()

    def uncancel(self) -> None:
        self._outcome = "completed" if self._outcome == "cancelled" else self._outcome

    def wait(self, timeout_s: float) -> bool:
        try:
            return bool(self._wait(max(0.0, timeout_s)))
        except Exception as error:  # noqa: BLE001 - the host's code; what it raises is its way to say that the work failed
            self._outcome, self._failure = "failed", " ".join(repr(error).split())[:_FAILURE_CHARACTERS]
            return True

    def on_own_thread(self) -> bool:
        return self._thread is threading.current_thread()

    def outcome(self) -> Outcome | None:
        return self._outcome if self.wait(0) else None

    def failure(self) -> str:
        return self._failure

    def when_done(self, callback: Callable[[], object]) -> None:
        threading.Thread(target=self._call_when_done, args=(_Once(callback),), daemon=True).start()

    def _call_when_done(self, callback: Callable[[], object]) -> None:
        while True:
            asked = time.monotonic()
            if self.wait(_PATIENCE_S):
                break
            if time.monotonic() - asked < _SLICE_S:  # a wait that does not wait
                time.sleep(_SLICE_S)
        callback()


class _Once:
    """A callback that is called once, and whose errors are nobody's."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._first = threading.Lock()

    def __call__(self) -> None:
        if self._first.acquire(blocking=False):
            with contextlib.suppress(Exception):
                self._callback()
