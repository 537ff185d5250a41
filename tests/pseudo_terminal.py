"""A command in a pseudo-terminal, and the screen a user would see."""

from __future__ import annotations

import os
import sys
import time

import pexpect
import pyte


class Terminal:
    """A child process in a pseudo-terminal and the screen it draws."""

    def __init__(self, arguments: list[str], columns: int, lines: int) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.Stream(self.screen)
        environment = {**os.environ, "TERM": os.environ.get("TEST_TERM", "xterm-256color"), "LANG": "C.UTF-8"}
        self.child = pexpect.spawn(
            sys.executable, arguments, dimensions=(lines, columns), env=environment, encoding="utf-8", timeout=30
        )
        self.raw = ""
        self.exit_code: int | None = None

    def shows(self, *texts: str) -> str:
        """Wait until all of ``texts`` are on the screen; return the screen."""
        deadline = time.monotonic() + 30
        while True:
            shown = "\n".join(line.rstrip() for line in self.screen.display)
            if all(text in shown for text in texts):
                return shown
            assert time.monotonic() < deadline, f"{texts} never appeared:\n{shown}"
            self._read()

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self.child.setwinsize(lines, columns)

    def end(self) -> str:
        """Wait for the child to end; return all it wrote."""
        self.raw += self.child.read()
        self.child.close()
        self.exit_code = self.child.exitstatus
        return self.raw

    def _read(self) -> None:
        try:
            part = self.child.read_nonblocking(65_536, timeout=0.5)
        except pexpect.TIMEOUT:
            return
        self.raw += part
        self.stream.feed(part)
