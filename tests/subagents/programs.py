"""Programs that are hard to stop, and what tests need to run them: real processes, told apart by what they print."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sessions.subagents.cancelling import Quarry
from sessions.subagents.folder import Started, TaskFolder
from sessions.subagents.identity import Identity, identity_of, is_alive
from sessions.subagents.launching import launch
from sessions.subagents.processes import Table
from sessions.subagents.tagging import tagged

GIVE_UP_S = 60

HEAD = """
import os, signal, sys, time
def tell(name):
    os.write(1, f"{name} {os.getpid()}\\n".encode())
def child(work):
    if os.fork() == 0:
        work()
        os._exit(0)
def sleep():
    while True: time.sleep(1000)
"""
GRANDCHILD = """
tell("main")
def grandchild():
    tell("grandchild")
    sleep()
child(grandchild)
sleep()
"""
IGNORES_TERM = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
tell("main")
sleep()
"""
SETSID = """
def own_session():
    os.setsid()
    tell("child")
    sleep()
child(own_session)
tell("main")
sleep()
"""
DAEMON = """
def daemon():
    os.setsid()
    def second():
        tell("daemon")
        sleep()
    child(second)
child(daemon)
"""
HOLDS_OUTPUT = """
def holder():
    tell("child")
    sleep()
child(holder)
sys.exit(7)
"""
STOPPED = """
tell("main")
os.kill(os.getpid(), signal.SIGSTOP)
sleep()
"""
HOPPER = """
tell("main")
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
FORKS_WHEN_ASKED_TO_END = """
def hop(*_):
    if os.fork():
        os._exit(0)
    os.setsid()
signal.signal(signal.SIGTERM, hop)
tell("main")
while True: time.sleep(1000)
"""
CLEARED = """
def cleared():
    tell("child")
    os.setsid()
    os.execve("/bin/sleep", ["sleep", "1000"], {})
child(cleared)
tell("main")
sleep()
"""
LEADER_THREAD_ENDED = """
import ctypes, threading
libc = ctypes.CDLL(None)
def other():
    tell("main")
    libc.sleep(1000)
threading.Thread(target=other).start()
libc.syscall(60, 0)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", HEAD + code]


@dataclass
class Task:
    """A task of a test.

    Attributes:
        tag: Also its id.
    """

    tag: str
    folder: TaskFolder
    started: Started

    @property
    def main(self) -> Identity:
        return self.started.main

    @property
    def supervisor(self) -> Identity:
        assert self.started.supervisor is not None
        return self.started.supervisor

    @property
    def quarry(self) -> Quarry:
        return Quarry(self.tag, self.main, self.started.group, self.supervisor, self.tag)

    def told(self, *names: str) -> list[int]:
        """Wait until the program has told these names; return their pids."""
        until(lambda: set(names) <= set(self._said()), f"{names} in {self.folder.log}")
        return [self._said()[name] for name in names]

    def ended(self) -> None:
        until(lambda: identity_of(self.main.pid) != self.main, "the program's end")

    def gone(self) -> None:
        until(lambda: not is_alive(self.supervisor), "the supervisor's end")

    def _said(self) -> dict[str, int]:
        lines = [line.split() for line in self.folder.log.read_text().splitlines()]
        return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


class Lab:
    """Starts tasks, and ends whatever is left of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tasks: list[Task] = []
        self.tags: list[str] = []

    def start(self, argv: list[str], env: dict[str, str] | None = None) -> Task:
        tag = self.new_tag()
        folder = TaskFolder(self.directory / tag)
        environment = tagged(dict(os.environ) if env is None else env, tag)
        task = Task(tag, folder, launch(argv, folder, cwd=str(self.directory), env=environment))
        self.tasks.append(task)
        return task

    def new_tag(self) -> str:
        self.tags.append(uuid.uuid4().hex)
        return self.tags[-1]

    def clean_up(self) -> None:
        while left := self._left():
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        continue
            time.sleep(0.01)

    def _left(self) -> set[int]:
        table = Table.read()
        supervisors = [task.supervisor.pid for task in self.tasks if table.has(task.supervisor)]
        left = table.descendants(supervisors) | {pid for tag in self.tags for pid in table.with_tag(tag)}
        return {pid for pid in left if not table.get(pid).zombie} or {
            pid for pid in supervisors if not table.get(pid).zombie
        }


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def fill(disk: Path) -> None:
    """Take all the room there is."""
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def state(pid: int) -> str:
    """Return the letter the system has for what a process does: ``T`` is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def living(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if (identity := identity_of(pid)) is not None and is_alive(identity)]
