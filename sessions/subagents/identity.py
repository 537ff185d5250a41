"""Which process: a pid alone is a number the system gives out again."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

ON_LINUX = sys.platform == "linux"


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of all there ever were.

    Attributes:
        pid: Its number.
        ticks: When it started: clock ticks since the machine did (Linux), microseconds since the epoch (elsewhere).
        boot: Which start of the machine the ticks count from; elsewhere than on Linux the name of the platform.
    """

    pid: int
    ticks: int
    boot: str

    def to_record(self) -> dict[str, object]:
        """Return plain data for JSON; `identity_from` reads it back."""
        return {"pid": self.pid, "ticks": self.ticks, "boot": self.boot}


class Stat(NamedTuple):
    """What the system says of a process at one moment.

    Attributes:
        pid: Its number.
        parent: Its parent's number.
        group: Its process group.
        ticks: As in `Identity`.
        zombie: Whether it has ended and only waits to be reaped. One whose first thread has ended while others run
            has not.
        kernel: Whether it is a thread of the kernel.
    """

    pid: int
    parent: int
    group: int
    ticks: int
    zombie: bool
    kernel: bool = False


def identity_from(data: object) -> Identity:
    """Return the identity of a record.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(data, dict):
        raise ValueError("an identity is an object")
    pid, ticks, boot = data.get("pid"), data.get("ticks"), data.get("boot")
    if type(pid) is not int or type(ticks) is not int or not isinstance(boot, str) or pid < 1:
        raise ValueError("an identity has a pid, ticks and a boot")
    return Identity(pid, ticks, boot)


def identity_of(pid: int) -> Identity | None:
    """Return the identity of the process with this number now, also of a zombie; None: there is no such process."""
    found = stat_of(pid)
    return None if found is None else Identity(pid, found.ticks, boot_id())


def is_alive(identity: Identity) -> bool:
    """Tell whether that very process is there and has not ended."""
    if identity.boot != boot_id():
        return False
    found = stat_of(identity.pid)
    return found is not None and found.ticks == identity.ticks and not found.zombie


@cache
def boot_id() -> str:
    """Return the name of this start of the machine.

    Elsewhere than on Linux the platform's name: the start of a process is a date there, and names its boot itself.
    """
    if not ON_LINUX:
        return sys.platform
    return _read("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def stat_of(pid: int) -> Stat | None:
    """Return what the system says of a process; None: there is no such process."""
    if pid < 1:
        return None
    if not ON_LINUX:
        return _ask_psutil(pid)
    try:
        return _parse(pid, _read(f"/proc/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def _parse(pid: int, raw: bytes) -> Stat:
    # The name stands in parentheses and may hold any byte, also spaces and parentheses.
    fields = raw[raw.rindex(b")") + 2 :].split(None, 20)
    return Stat(
        pid,
        int(fields[1]),
        int(fields[2]),
        int(fields[19]),
        fields[0] in b"ZXx" and int(fields[17]) <= 1,
        bool(int(fields[6]) & 0x00200000),  # PF_KTHREAD
    )


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _ask_psutil(pid: int) -> Stat | None:
    import psutil  # noqa: PLC0415 - costs 45 ms

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            ticks, parent = round(process.create_time() * 1_000_000), process.ppid()
            zombie = process.status() == psutil.STATUS_ZOMBIE
        return Stat(pid, parent, os.getpgid(pid), ticks, zombie)
    except psutil.ZombieProcess:
        return None
    except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError):
        return None
