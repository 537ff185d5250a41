"""The hold this process has on a session: who has it open, who changes it now, whether it may be changed at all.

===========  ==========================================================================================================
 ``guard``   the lock in the process: whoever looks at the session's parts, or changes it, holds it
 counting    how often the store handed the session out; guarded apart, so that the store never waits for the guard
 ownership   the kernel's lock of the sidecar, from opening (a new session: from its first line on disk) to closing
 moving      the session goes back: on one thread, with the guard free in between, and nobody may begin anything
===========  ==========================================================================================================

Where Ctrl-C comes on the way into one of these, or out of it, it is given back with the exception at the latest: a host
that keeps the exception keeps the session locked.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sessions.errors import BusyError, ConflictError
from sessions.ownership import Ownership


class Hold:
    """The hold this process has on one session.

    Args:
        ownership: Its lock.
        has_turn: Tells whether a turn is open.
        is_unfinished: Tells whether a rewind stopped half-way.
        recover: Finishes it, and what else a crash left; done first of all when the lock is taken.
    """

    def __init__(
        self,
        session_id: str,
        ownership: Ownership,
        *,
        read_only: bool,
        has_turn: Callable[[], bool],
        is_unfinished: Callable[[], bool],
        recover: Callable[[], None],
    ) -> None:
        self.guard = threading.RLock()
        self._session_id = session_id
        self._ownership = ownership
        self._read_only = read_only
        self._has_turn = has_turn
        self._is_unfinished = is_unfinished
        self._recover = recover
        self._counting = threading.Lock()
        self._holders = 1
        self._closing = False
        self._closed = False
        self._moving: _Moving | None = None

    # -- open and closed -------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more can be done with it."""
        return self._closed

    @property
    def held(self) -> bool:
        """Whether the session's lock is held here."""
        return self._ownership.held

    def share(self) -> bool:
        """Count one more holder, who closes it too; False where it is being closed."""
        with self._counting:  # never the guard: a session that closes holds it and wants the store's
            if not self._closing:
                self._holders += 1
            return not self._closing

    def let_go(self, *, everybody: bool = False) -> bool:
        """Count one holder less, or all of them.

        Returns:
            Whether it is to be closed: nobody is left, and it is not closed yet. Once true, this stays true until
            ``end`` came through, and nobody can share it any more: a closing that Ctrl-C broke off is done by the next
            call. A call that Ctrl-C broke off has counted, or has not; to call again may count twice.
        """
        with self._counting:
            self._holders = 0 if everybody else self._holders - 1
            self._closing = self._closing or self._holders <= 0
            return self._closing and not self._closed

    def end(self, *, removed: bool = False) -> None:
        """Give the lock back and close the session for everybody. The caller holds the guard.

        Where it is broken off, by Ctrl-C or an error, nobody can share the session any more, but it is not closed, and
        whether its lock is given back is open: what still writes takes it anew. Calling again finishes it.

        Args:
            removed: The sidecar, with the lock in it, is removed.
        """
        self.let_go(everybody=True)
        if removed:
            self._ownership.give_up()
        else:
            self._ownership.give_back()
        self._closed = True

    # -- changing --------------------------------------------------------------------------------------------------

    def take(self) -> None:
        """Take the session's lock, if it is not taken yet, and finish what a crash left.

        Raises:
            LockedError: Another process, or another store, writes this session.
            ConflictError: The lock was removed behind our back.
            IncompleteError: An unfinished rewind could not be finished.
        """
        with self.guard:
            if not self._ownership.held:
                self._ownership.take(self._session_id, then=self._recover)
                return
            self._ownership.check(self._session_id)
            if self._is_unfinished():
                self._recover()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Give the session to be changed; its lock is not taken yet.

        Raises:
            ConflictError: It is closed or read-only.
        """
        with self.guard:
            if self._read_only:
                raise ConflictError(f"session {self._session_id} is open read-only")
            if self._closed:
                raise ConflictError(f"session {self._session_id} is closed")
            yield

    @contextlib.contextmanager
    def ready(self, what: str) -> Iterator[None]:
        """Give the session, with its lock, ready to go back: no turn is open, and nobody else goes back.

        Raises:
            BusyError: A turn is open.
            ConflictError: It is closed, read-only, or goes back.
        """
        with self.writing():
            self.refuse_turn(what)
            if self._moving is None or self._moving.thread != threading.get_ident():
                self.refuse_moving(what)
            self.take()
            yield

    @contextlib.contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Keep others from beginning anything, but not from appending; the guard is free meanwhile.

        Raises:
            BusyError: As for ``ready``; ConflictError likewise.
        """
        moving = _Moving(threading.get_ident(), threading.Lock())
        with moving.going_on:  # left in one step that no signal can come into
            with self.guard:
                self.refuse_moving(what)  # also on this very thread: called by what is being stopped
                with self.ready(what):
                    self._moving = moving
            yield

    def refuse_turn(self, what: str) -> None:
        """Refuse to do something while a turn is open.

        Raises:
            BusyError: One is.
        """
        if self._has_turn():
            raise BusyError(what)

    def refuse_moving(self, what: str) -> None:
        """Refuse to begin something while the session goes back.

        Raises:
            ConflictError: It does.
        """
        if self._moving is not None and self._moving.going_on.locked():
            raise ConflictError(f"cannot {what} while the session goes back")


class _Moving(NamedTuple):
    """Somebody goes back, or did.

    Attributes:
        going_on: Locked while they do; nobody ever waits for it.
    """

    thread: int
    going_on: threading.Lock
