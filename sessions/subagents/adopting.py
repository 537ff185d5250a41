"""Processes that a host started and goes on owning."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

from sessions.errors import NotFoundError, RequestError
from sessions.subagents.folder import Started
from sessions.subagents.identity import identity_of
from sessions.subagents.processes import own_line

_STATUS_S = 1.0
"""How long the owner of an adopted process has to learn how it ended."""


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


def status_of(process: int | Process) -> Callable[[], int | None]:
    """Return what says how a process ended: its owner; or the system, without taking the status from the owner."""
    if isinstance(process, int):
        return lambda: _peeked(process)
    poll = getattr(process, "poll", None)

    def asked() -> int | None:
        deadline = time.monotonic() + _STATUS_S
        while True:
            code = poll() if poll is not None else process.returncode
            if code is not None or time.monotonic() > deadline:
                return code
            time.sleep(0.01)

    return asked


def _peeked(pid: int) -> int | None:
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:  # it is no child of this process, or its owner knows already
        return None
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except (OSError, OverflowError):  # larger than any number of a process
        return None
