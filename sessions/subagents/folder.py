"""What lies on disk of one task: its output, who runs it, how it ended, whether it was cancelled.

::

    output.log     standard output and error of the program, as they came
    process.json   who runs: written by the supervisor before the program may run
    exit.json      how it ended: written by the supervisor before the program's number can be given out again, and
                   written over when nobody of the task is left
    cancel         empty; the task is being, or was, cancelled
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from sessions import files
from sessions.subagents.identity import Identity, identity_from
from sessions.transcript.codec import dumps, loads


@dataclass(frozen=True, slots=True)
class Started:
    """Who runs a task.

    Attributes:
        main: The program.
        group: Its process group, which is also its process session.
        supervisor: Who reaps it; None where it was started by somebody else.
    """

    main: Identity
    group: int
    supervisor: Identity | None


@dataclass(frozen=True, slots=True)
class Exit:
    """How a program ended.

    Attributes:
        code: What it exited with; None if a signal ended it.
        signal: The signal that ended it, or None.
        at: When, as a timestamp.
        gone: Whether nobody of the task is left, also of its descendants.
    """

    code: int | None
    signal: int | None
    at: str
    gone: bool


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """The directory of one task. Nothing is read or made before it is asked for.

    Attributes:
        directory: Where it lies.
    """

    directory: Path

    @property
    def log(self) -> Path:
        """What the program writes to standard output and error."""
        return self.directory / "output.log"

    def make(self) -> bool:
        """Make the directory (0700), the parents it lacks, and the log (0600); what is there is left as it is.

        Returns:
            Whether there was no directory.
        """
        missing = not self.directory.is_dir()
        if missing:
            files.make_directory(self.directory)
        os.close(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        return missing

    def write_started(self, started: Started) -> None:
        """Say who runs the task, where no supervisor does. The directory must be there."""
        record = {
            "main": started.main.to_record(),
            "group": started.group,
            "supervisor": started.supervisor.to_record() if started.supervisor is not None else None,
        }
        files.rewrite(self.directory / "process.json", lambda fd: files.write_all(fd, dumps(record)))

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def started(self) -> Started | None:
        """Return who runs the task; None where that was not written, or is damaged."""
        try:
            data = self._load("process.json")
            supervisor, group = data.get("supervisor"), data.get("group")
            if type(group) is not int:
                return None
            main = identity_from(data.get("main"))
            return Started(main, group, None if supervisor is None else identity_from(supervisor))
        except (OSError, ValueError):
            return None

    def exit(self) -> Exit | None:
        """Return how the program ended; None where that was not written (yet), or is damaged."""
        try:
            data = self._load("exit.json")
        except (OSError, ValueError):
            return None
        code, signal, at, gone = (data.get(name) for name in ("code", "signal", "at", "gone"))
        one = (type(code) is int and signal is None) or (type(signal) is int and code is None)
        if not one or not isinstance(at, str) or not isinstance(gone, bool):
            return None
        return Exit(code, signal, at, gone)  # type: ignore[arg-type]  # mypy does not follow `one`

    def ended_ns(self) -> int | None:
        """Return when its last process ended, as the system stamps files; None where that was not written."""
        try:
            return (self.directory / "exit.json").stat().st_ctime_ns
        except OSError:
            return None

    def unmark_cancelled(self) -> None:
        """Take back that the task is cancelled."""
        with contextlib.suppress(OSError):
            (self.directory / "cancel").unlink()

    def mark_cancelled(self) -> None:
        """Say, durably, that the task is cancelled. The directory must be there."""
        files.append(self.directory / "cancel", b"", create=True)

    def is_cancelled(self) -> bool:
        """Tell whether the task was marked as cancelled."""
        return (self.directory / "cancel").exists()

    def _load(self, name: str) -> dict[str, object]:
        data = loads((self.directory / name).read_bytes())
        if not isinstance(data, dict):
            raise ValueError(f"{name} is no object")
        return data
