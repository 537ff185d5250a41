"""Tell when the program of a task has ended, and when nobody of the task is left."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass
from select import POLLIN, poll

from sessions.subagents.folder import Started
from sessions.subagents.identity import Identity, identity_of, is_alive
from sessions.subagents.launching import reap
from sessions.subagents.processes import open_process

_ASK_MS = 200  # where the system does not tell by itself
_AGAIN_MS = 20  # how soon what could not be told is told again
_REAPED_MS = 2  # how soon to ask whether who ended was reaped; at first: it comes at once


class _Told:
    """Asked instead of a watch: to tell at once."""


_TOLD = _Told()


class Watcher:
    """Watches tasks from a thread of its own, which starts with the first of them and keeps no interpreter alive.

    Where Ctrl-C kept the thread from starting, whoever asks next starts another one, which takes over what was asked.
    The copy of a forked child watches nothing, and may be used like a new one.

    Args:
        on_change: Called with a task's id, on that thread: when its program has ended (where there is a supervisor,
            ``exit.json`` is there by then), and again when its supervisor has, so that nobody is left, or when it is
            known how it ended. What it raises is dropped. Returns whether it is to be called again soon.
    """

    def __init__(self, on_change: Callable[[str], bool]) -> None:
        self._on_change = on_change
        self._begin()
        _watchers.add(self)

    def watch(self, task: str, started: Started, is_known: Callable[[], bool] | None = None) -> None:
        """Watch a task from now on; if it ended before, that is told now. A closed watcher watches nothing.

        Args:
            is_known: Tells, when all have ended, whether it is known how; asked again until it is. None: it is.
        """
        self._ask(task, _Watch(task, started.main, started.supervisor, is_known))

    def tell(self, task: str) -> None:
        """Call ``on_change`` for a task soon, on the thread: whoever asks may hold what that needs."""
        self._ask(task, _TOLD)

    def unwatch(self, task: str) -> None:
        """Watch a task no more; a call that has begun on the thread may still come."""
        self._ask(task, None)

    def close(self) -> None:
        """End the thread and wait for it, unless called on it."""
        with self._lock:
            self._closed = True
            thread = self._thread
            runs = thread is not None and thread.is_alive()
            if runs:
                self._wake()
            else:
                self._close_descriptors()
        if runs and thread is not None and thread is not threading.current_thread():
            thread.join()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._pipe = (-1, -1)
        self._asked: list[tuple[str, _Watch | _Told | None]] = []
        self._watches: dict[str, _Watch] = {}  # the thread's own
        self._again: set[str] = set()  # likewise

    def _ask(self, task: str, asked: _Watch | _Told | None) -> None:
        with self._lock:
            if self._closed or (asked is None and self._thread is None):
                return
            self._asked.append((task, asked))
            if self._thread is None or not self._thread.is_alive():
                self._start()
            self._wake()

    def _start(self) -> None:
        if self._pipe[0] < 0:
            self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._thread = threading.Thread(target=self._run, name="sessions-watcher", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        if self._pipe[1] >= 0:
            with contextlib.suppress(BlockingIOError):  # so full that it wakes
                os.write(self._pipe[1], b"!")

    def _run(self) -> None:
        with self._lock:
            if threading.current_thread() is not self._thread:  # it was thought not to have started
                return
        try:
            ready: Collection[int] = ()
            while self._take_requests():
                for task in list(self._again):
                    self._tell(task)
                for watch in list(self._watches.values()):
                    if watch.has_ended(ready):
                        self._pass(watch)
                ready = self._wait()
        finally:
            with self._lock:
                self._close_descriptors()

    def _take_requests(self) -> bool:
        with self._lock:
            if self._closed:
                return False
            requests, self._asked = self._asked, []
        for task, asked in requests:
            if isinstance(asked, _Told):
                self._tell(task)
                continue
            self._again.discard(task)
            if task in self._watches:
                self._watches.pop(task).close()
            if asked is not None:
                self._watches[task] = asked
        return True

    def _pass(self, watch: _Watch) -> None:
        if not watch.go_on():
            del self._watches[watch.task]
            reap()
        self._tell(watch.task)

    def _tell(self, task: str) -> None:
        self._again.discard(task)
        with contextlib.suppress(Exception):
            if self._on_change(task):
                self._again.add(task)

    def _wait(self) -> set[int]:
        """Wait until somebody ended, may have, or something was asked; return the descriptors that say so."""
        poller = poll()
        poller.register(self._pipe[0], POLLIN)
        patience = [watch.wait_in(poller) for watch in self._watches.values()]
        patience += [_AGAIN_MS] if self._again else []
        ready = {
            descriptor for descriptor, _ in poller.poll(min((ms for ms in patience if ms is not None), default=None))
        }
        if self._pipe[0] in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._pipe[0], 4096)
        return ready

    def _close_descriptors(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        for end in self._pipe:
            if end >= 0:
                os.close(end)
        self._pipe = (-1, -1)

    def _begin_in_child(self) -> None:
        self._close_descriptors()
        self._begin()


@dataclass(slots=True)
class _Watch:
    """One task: its program is awaited, then its supervisor, then that it is known how it ended.

    Attributes:
        awaited: Who is awaited now; None: all have ended, and it is to be known how.
        after: Who is awaited then, the supervisor, which reaps the program.
        is_known: Tells that; None: it is known.
        descriptor: Of the awaited; -1 where the system gave none, None before it was asked.
        pause_ms: How long to wait until the next question; 0 while the descriptor will tell.
    """

    task: str
    awaited: Identity | None
    after: Identity | None
    is_known: Callable[[], bool] | None
    descriptor: int | None = None
    pause_ms: int = 0

    def has_ended(self, ready: Collection[int]) -> bool:
        """Tell whether the awaited has ended, and was reaped if that is the supervisor's business."""
        if self.awaited is None:
            return self._is_known() or self._ask_later()
        if self.descriptor is None:
            opened = open_process(self.awaited)
            self.descriptor = -1 if opened is None else opened  # it has ended, but maybe was not reaped
            self.pause_ms = _ASK_MS if self.descriptor < 0 else 0
        if self.pause_ms == 0 and self.descriptor not in ready:
            return False
        if self.descriptor < 0 and is_alive(self.awaited):
            return False
        if self.after is None or identity_of(self.awaited.pid) != self.awaited or not is_alive(self.after):
            return True
        return self._ask_later()

    def wait_in(self, poller: poll) -> int | None:
        """Register what will tell, or return after how many milliseconds to ask."""
        if self.awaited is None:
            return self.pause_ms
        if self.descriptor is None:
            return 0
        if self.pause_ms == 0:
            poller.register(self.descriptor, POLLIN)
            return None
        return self.pause_ms

    def go_on(self) -> bool:
        """Await what comes next; False: nothing does."""
        self.close()
        if self.after is not None:
            self.awaited, self.after = self.after, None
            return True
        was, self.awaited = self.awaited, None
        return was is not None and not self._is_known()

    def close(self) -> None:
        """Close the descriptor."""
        if self.descriptor is not None and self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor, self.pause_ms = None, 0

    def _is_known(self) -> bool:
        return self.is_known is None or self.is_known()

    def _ask_later(self) -> bool:
        self.pause_ms = min(max(_REAPED_MS, self.pause_ms * 2), _ASK_MS)
        return False


_watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()


def _begin_in_child() -> None:
    for watcher in list(_watchers):
        watcher._begin_in_child()  # noqa: SLF001 - this module's own class


os.register_at_fork(after_in_child=_begin_in_child)
