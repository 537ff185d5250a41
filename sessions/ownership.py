"""Who may write a session: whoever holds the lock in its sidecar, from opening to closing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from sessions import files, paths
from sessions.errors import ConflictError, LockedError
from sessions.locks import FileLock, HeldError, holder, is_held

LOCK = "lock"
"""The file in a sidecar that whoever writes the session holds locked."""
CAPTURES_LOCK = "captures.lock"
_TRIES = 1000
"""How often a directory may be removed just when it is needed; each time somebody else got on."""


def is_owned(transcript: Path) -> bool:
    """Tell whether somebody, here or elsewhere, has the session of a transcript open for writing. Makes nothing."""
    return is_held(paths.sidecar(transcript) / LOCK)


def owner_of(transcript: Path) -> tuple[int | None, str | None] | None:
    """Return who has the session of a transcript open for writing, pid and command as far as known; None: nobody."""
    return holder(paths.sidecar(transcript) / LOCK)


class Ownership:
    """The lock of one session.

    Args:
        sidecar: The session's ``.ckpt`` directory; made when the lock is taken, and removed again when it is given back
            and nothing else was put there: looking at a session leaves no trace.
    """

    def __init__(self, sidecar: Path) -> None:
        self._sidecar = sidecar
        self._lock = FileLock(sidecar / LOCK)

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._lock.held

    def take(self, session_id: str, *, then: Callable[[], None]) -> None:
        """Take the lock, and do what comes first of all under it; if that fails the lock is given back.

        Raises:
            LockedError: Somebody else holds it; the error names the process.
        """
        try:
            self._acquire(session_id)
            self._lock.sign()
            then()
        except BaseException:
            self.give_back()
            raise

    def check(self, session_id: str) -> None:
        """Make sure that what is held is still the lock others would take.

        Raises:
            ConflictError: Somebody removed or replaced the sidecar; nothing may be written any more.
        """
        if not self._lock.current:
            raise ConflictError(f"the lock of session {session_id} was removed; open the session again")

    def give_back(self) -> None:
        """Release the lock; without it nothing happens."""
        if not self._lock.held:
            return
        try:
            unused = not set(os.listdir(self._sidecar)) - {self._lock.path.name, CAPTURES_LOCK}
        except OSError:  # somebody removed it
            unused = False
        if unused:
            with contextlib.suppress(OSError):
                os.unlink(self._sidecar / CAPTURES_LOCK)
        self._lock.release(unlink=unused)
        if unused:
            with contextlib.suppress(OSError):
                os.rmdir(self._sidecar)

    def give_up(self) -> None:
        """Release the lock of a session whose sidecar was removed."""
        self._lock.release()

    def _acquire(self, session_id: str) -> None:
        for left in reversed(range(_TRIES)):
            try:
                files.make_directory(self._sidecar)
                self._lock.acquire()
            except FileNotFoundError:
                # Its last owner removed the unused sidecar in between, or retention the project's emptied directory.
                if not left:
                    raise
            except HeldError as held:
                raise LockedError(session_id, held.pid, held.command) from None
            else:
                return
