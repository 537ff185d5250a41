"""An agent with background work, and the programs it starts."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable

from agent import Agent
from programs import GIVE_UP_S, until

from sessions import Session, SessionsError, SessionStore, Task, assistant_message
from sessions.subagents.identity import identity_of, is_alive

WRITER = """
import os, signal, sys, time, sessions
signal.signal(signal.SIGTERM, signal.SIG_IGN)
number = 0
with sessions.subagent_from_env() as child, child.begin_turn("write") as turn:
    while True:
        with turn.edit("written.txt"):
            with open("written.txt", "w") as file:
                file.write(f"late {number}")
        number += 1
        time.sleep(0.01)
"""
"""A subagent in a process of its own that writes a file every 10 ms and ignores SIGTERM."""

BLIND_WRITER = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
number = 0
while True:
    with open("written.txt", "w") as file:
        file.write(f"late {number}")
    number += 1
    time.sleep(0.01)
"""
"""The same by a program that does not know of this library."""


class Worker(Agent):
    """Works with tasks and subagents; ``end`` stops all of them."""

    def working(self, prompt: str, work: Callable[[str], object]) -> str:
        """Take a turn in which ``work`` is called with the id of a message; return the id of its prompt."""
        with self.session.begin_turn(prompt) as turn:
            work(self.session.append(assistant_message(f"about {prompt}")))
        return turn.message_id

    def spawn(self, prompt: str, code: str, **options) -> Task:
        """Take a turn that starts a program in Python."""
        started: list[Task] = []
        self.working(prompt, lambda message: started.append(self.python(code, spawned_by=message, **options)))
        return started[0]

    def python(self, code: str, **options) -> Task:
        options = {"label": "worker"} | options
        return self.session.tasks.spawn([sys.executable, "-c", code], **options)

    def state(self, task: Task) -> str:
        return self.session.tasks.get(task.id).state

    def end(self) -> None:
        with contextlib.suppress(SessionsError, OSError):
            self.close()
        for path in (self.root / "projects").rglob("*.jsonl"):
            if path.name.startswith("subagent-") or path.parent.suffix == ".ckpt":
                continue
            with SessionStore(self.root).open(path.stem, read_only=True) as session:
                for task in session.tasks.list():
                    with contextlib.suppress(SessionsError):
                        session.tasks.cancel(task.id)

    @property
    def written(self) -> str:
        return (self.project / "written.txt").read_text()

    def wait_for(self, text: str = "late") -> None:
        """Wait until the file says so."""
        path = self.project / "written.txt"
        until(lambda: path.exists() and text in path.read_text(), f"{text!r} in {path}")

    @property
    def names(self) -> set[str]:
        """The names beside the transcript."""
        return {path.name for path in self.session.path.parent.iterdir()}


def alive(pid: int) -> bool:
    identity = identity_of(pid)
    return identity is not None and is_alive(identity)


def notices(session: Session) -> list[tuple[str, str]]:
    """Return the notices in a session: task and status."""
    return [
        (block.task_id, block.status)
        for message in session.history()
        for block in message.blocks
        if block.type == "task_notification"
    ]


def stays(read: Callable[[], object], seconds: float = 0.1) -> bool:
    """Tell whether something stays as it is for a while."""
    first, until_ = read(), time.monotonic() + seconds
    while time.monotonic() < until_:
        if read() != first:
            return False
        time.sleep(0.005)
    return True


def in_child(work: Callable[[], object]) -> int:
    """Do work in a forked process that then waits to be killed; return its pid when the work is done."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            work()
            os.write(writes, b"!")
            time.sleep(GIVE_UP_S)
        finally:
            os._exit(1)
    os.close(writes)
    with os.fdopen(reads, "rb") as told:
        assert told.read(1) == b"!", "the child failed"
    return child
