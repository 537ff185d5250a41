"""Which processes there are, and the one place that sends signals."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from select import poll
from typing import Self

from sessions.subagents.identity import ON_LINUX, Identity, Stat, boot_id, identity_of, is_alive, stat_of
from sessions.subagents.tagging import TAGS, tags_of

_COMMAND_LOOKS = 10
_MARK = os.fsencode(TAGS) + b"="
_NO_PIDFD = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL})  # an old system, or a sandbox


class Table:
    """All processes at about one moment: one that was made or ended while the table was read may be in it or not.

    Args:
        stats: What the system said of each.
    """

    def __init__(self, stats: Iterable[Stat]) -> None:
        self._stats = {stat.pid: stat for stat in stats}

    @classmethod
    def read(cls) -> Self:
        """Ask the system, once."""
        return cls(stat for stat in map(stat_of, _pids()) if stat is not None)

    def get(self, pid: int) -> Stat | None:
        """Return what the table says of a number; None: there was no such process."""
        return self._stats.get(pid)

    def has(self, identity: Identity) -> bool:
        """Tell whether that very process was there, also as a zombie."""
        stat = self._stats.get(identity.pid)
        return stat is not None and stat.ticks == identity.ticks and identity.boot == boot_id()

    def identity(self, pid: int) -> Identity:
        """Return the identity of a process of the table."""
        return Identity(pid, self._stats[pid].ticks, boot_id())

    def descendants(self, of: Iterable[int]) -> set[int]:
        """Return the children of ``of``, their children and so on, zombies too; ``of`` themselves only as such."""
        found: set[int] = set()
        unseen = list(of)
        while unseen:
            children = self._children.get(unseen.pop(), ())
            new = [pid for pid in children if pid not in found]
            found.update(new)
            unseen += new
        return found

    def in_group(self, group: int) -> set[int]:
        """Return the members of a process group."""
        return set(self._groups.get(group, ()))

    def with_tag(self, tag: str) -> set[int]:
        """Return who was given ``tag`` in its environment when its program started.

        The environments are read once, at the first question. One that may not be read has no tag.
        """
        return self._tagged.get(tag, set())

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        children = defaultdict(list)
        for stat in self._stats.values():
            children[stat.parent].append(stat.pid)
        return children

    @cached_property
    def _groups(self) -> dict[int, list[int]]:
        groups = defaultdict(list)
        for stat in self._stats.values():
            groups[stat.group].append(stat.pid)
        return groups

    @cached_property
    def _tagged(self) -> dict[str, set[int]]:
        tagged = defaultdict(set)
        for stat in self._stats.values():
            if not stat.zombie and not stat.kernel:
                for tag in _tags(stat.pid):
                    tagged[tag].add(stat.pid)
        return tagged


def send(identity: Identity, number: int) -> bool:
    """Send a signal to that very process.

    Returns:
        Whether it was there to get it; a zombie is, and nothing happens to it.

    Raises:
        PermissionError: The system does not allow it, or it would be this process, one it descends from, or the
            first of all: those are never signalled.
    """
    if identity.pid <= 1 or identity in own_line():
        raise PermissionError(errno.EPERM, "not a process to be signalled", str(identity.pid))
    with opened(identity) as descriptor:
        if descriptor is None:
            return False
        if descriptor < 0:
            return _send_by_psutil(identity, number)
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        return True


@contextlib.contextmanager
def opened(identity: Identity) -> Iterator[int | None]:
    """Hold a descriptor of that very process: None where it is no more, -1 where the system has none to give."""
    descriptor = open_process(identity)
    try:
        yield descriptor
    finally:
        if descriptor is not None and descriptor >= 0:
            os.close(descriptor)


def open_process(identity: Identity) -> int | None:
    """Return a descriptor of that very process, for the caller to close; None and -1 as `opened` says.

    The number is looked at again after opening: what the descriptor names cannot change any more.
    """
    if not hasattr(os, "pidfd_open"):
        return -1 if is_alive(identity) else None
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        if error.errno in _NO_PIDFD or error.errno in {errno.EMFILE, errno.ENFILE}:
            return -1 if identity_of(identity.pid) == identity else None
        raise
    if identity_of(identity.pid) == identity:
        return descriptor
    os.close(descriptor)
    return None


def wait_for_end(identity: Identity, timeout_s: float) -> bool:
    """Wait until that very process has ended, reaped or not; its status is left to its parent.

    Returns:
        Whether it has. Without descriptors of processes (`opened`) this asks every few milliseconds.
    """
    with opened(identity) as descriptor:
        if descriptor is None:
            return True
        poller = poll()
        if descriptor >= 0:
            poller.register(descriptor)
            return bool(poller.poll(max(0, timeout_s * 1000)))
    pause_ms = 2
    while is_alive(identity):
        if timeout_s <= 0:
            return False
        poller.poll(pause_ms)
        timeout_s -= pause_ms / 1000
        pause_ms = min(pause_ms * 2, 50)
    return True


def living_below(above: Identity) -> list[Identity] | None:
    """Return the living descendants of a process that is there, from the system's own lists of children.

    Far cheaper than a table where there are many others. None where the system has no such lists.
    """
    found: dict[int, Identity] = {}
    waiting = [above.pid]
    while waiting:
        children = children_of(waiting.pop())
        if children is None:
            return None
        for pid in children:
            identity = identity_of(pid)
            if identity is not None and pid not in found:
                found[pid] = identity
                waiting.append(pid)
    return [identity for identity in found.values() if is_alive(identity)] if is_alive(above) else []


def children_of(pid: int) -> list[int] | None:
    """Return the children of all threads of a process; none where it is gone, None where the system has no lists."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return [] if ON_LINUX else None
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as listed:
                found += [int(child) for child in listed.read().split()]
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{thread}"):
                return None
        except (OSError, ValueError):
            continue
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process as a shell would take it; its number where that is not known."""
    with contextlib.suppress(OSError):
        for _ in range(_COMMAND_LOOKS):  # a process that changes its program right now has none
            if ON_LINUX:
                with open(f"/proc/{pid}/cmdline", "rb") as said:
                    words = said.read().rstrip(b"\0").split(b"\0")
            else:
                words = [os.fsencode(word) for word in _command_by_psutil(pid)]
            if any(words):
                return shlex.join(os.fsdecode(word) for word in words)
            time.sleep(0.002)
    return f"process {pid}"


def own_line() -> frozenset[Identity]:
    """Return this process and those it descends from."""
    return _own_line(os.getpid())


@lru_cache(maxsize=1)
def _own_line(pid: int) -> frozenset[Identity]:
    # Kept: when a parent dies another of the line, or the first process, takes its place.
    line = set()
    while pid > 1 and (stat := stat_of(pid)) is not None:
        line.add(Identity(pid, stat.ticks, boot_id()))
        pid = stat.parent
    return frozenset(line)


def _pids() -> list[int]:
    if ON_LINUX:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil  # noqa: PLC0415 - costs 45 ms

    return psutil.pids()


def _tags(pid: int) -> list[str]:
    if not ON_LINUX:
        return _tags_by_psutil(pid)
    try:
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    except OSError:  # it ended
        return []
    finally:
        os.close(descriptor)
    raw = b"".join(parts)
    if _MARK not in raw:
        return []
    # A program sees the first of two entries of one name.
    value = next((entry[len(_MARK) :] for entry in raw.split(b"\0") if entry.startswith(_MARK)), b"")
    return tags_of(value.decode("ascii", "replace"))


def _command_by_psutil(pid: int) -> list[str]:
    import psutil  # noqa: PLC0415 - costs 45 ms

    try:
        return psutil.Process(pid).cmdline()
    except (psutil.Error, OSError):
        return []


def _tags_by_psutil(pid: int) -> list[str]:
    import psutil  # noqa: PLC0415 - costs 45 ms

    try:
        return tags_of(psutil.Process(pid).environ().get(TAGS, ""))
    except (psutil.Error, OSError):
        return []


def _send_by_psutil(identity: Identity, number: int) -> bool:
    import psutil  # noqa: PLC0415 - costs 45 ms

    try:
        process = psutil.Process(identity.pid)  # keeps the start time, and looks at it before it signals
        if identity_of(identity.pid) != identity:
            return False
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(identity.pid)) from None
    return True
