"""Processes that a host started and goes on owning."""

from __future__ import annotations

import os
import sys
import time
from typing import NamedTuple, Protocol

from sessions import clock
from sessions.errors import NotFoundError, RequestError
from sessions.subagents.folder import Started
from sessions.subagents.identity import Identity, identity_of
from sessions.subagents.processes import opened, own_line

_LEARNING_S = 5.0
"""How long the owner of an adopted process has to learn how it ended, from when it was seen that it is gone."""


class Process(Protocol):
    """A process a host started: a ``subprocess.Popen``, or one of asyncio."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def returncode(self) -> int | None:
        """How it ended, once its owner knows."""


def started_by_host(process: int | Process) -> Started:
    """Return who a process is.

    Raises:
        NotFoundError: There is no such process.
        RequestError: It is none, it is this process, or one above it.
    """
    pid = process if isinstance(process, int) else getattr(process, "pid", None)
    if not isinstance(pid, int) or isinstance(pid, bool):
        raise RequestError(f"not a process: {process!r}"[:200])
    group = _group_of(pid)
    identity = identity_of(pid) if group is not None else None
    if identity is None or group is None:
        raise NotFoundError("process", pid)
    if pid <= 1 or identity in own_line():
        raise RequestError(f"process {pid} cannot be adopted: this one would be stopped with it")
    return Started(identity, group if group == pid else 0, None)


class Owner:
    """Who started an adopted process and learns how it ended: the host's object, or nobody but the system.

    An owner may learn it later than everybody else sees that the process is gone: one of asyncio does when its loop
    runs again. No question waits for that.

    Args:
        process: What the host gave.
        identity: Who that is.
    """

    def __init__(self, process: int | Process, identity: Identity) -> None:
        self._process = None if isinstance(process, int) else process
        self._identity = identity
        self._code: int | None = None
        self._gone: _Gone | None = None

    def code(self) -> int | None:
        """Return what the process exited with, negative where a signal ended it; None: nobody knows, or not yet.

        The status is left to the owner. Once known it stays known.
        """
        if self._code is None:
            self._code = self._asked()
        return self._code

    def is_learning(self) -> bool:
        """Tell of a process that is gone whether its owner may still learn how it ended; the first call begins that."""
        gone = self._seen_gone()
        return self._process is not None and self.code() is None and time.monotonic() < gone.deadline

    def gone_at(self) -> str:
        """Return when a process that is gone was first seen to be, as a transcript spells it."""
        return self._seen_gone().at

    def gone_ns(self) -> int:
        """Return the same as the system stamps files."""
        return self._seen_gone().ns

    def _seen_gone(self) -> _Gone:
        if self._gone is None:
            self._gone = _Gone(time.monotonic() + _LEARNING_S, clock.timestamp(), clock.epoch_ns())
        return self._gone

    def _asked(self) -> int | None:
        if self._process is None:
            return _peeked(self._identity)
        try:
            code = self._process.returncode
            if code is None:
                code = _peeked(self._identity)
            poll = getattr(self._process, "poll", None)
            return poll() if code is None and poll is not None else code
        except Exception:  # noqa: BLE001 - the host's object: that it cannot say it is no reason to see no task
            return None


class _Gone(NamedTuple):
    """When a process was first seen to be gone.

    Attributes:
        deadline: Until when its owner may learn how it ended.
        at: As a transcript spells it.
        ns: As the system stamps files.
    """

    deadline: float
    at: str
    ns: int


def runs_loop() -> bool:
    """Tell whether the calling thread runs an event loop, which an owner may need to learn anything."""
    if "asyncio" not in sys.modules:
        return False
    import asyncio  # noqa: PLC0415 - whoever runs a loop has it

    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def _peeked(identity: Identity) -> int | None:
    """Return how a child of this process ended that nobody reaped yet, and leave its status where it is."""
    if not hasattr(os, "waitid"):
        return None
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        with opened(identity) as descriptor:
            if descriptor is None:  # it was reaped, and the number may be another child's
                return None
            by_descriptor = descriptor >= 0 and hasattr(os, "P_PIDFD")
            ended = (
                os.waitid(os.P_PIDFD, descriptor, flags) if by_descriptor else os.waitid(os.P_PID, identity.pid, flags)
            )
    except OSError:  # it is no child of this process
        return None
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except (OSError, OverflowError):  # larger than any number of a process
        return None
