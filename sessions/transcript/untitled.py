"""A note in the sidecar that a transcript has no title, so that no list searches the whole of it for one.

``untitled`` holds ``[size, inode, mtime_ns, ctime_ns, rewound]``: the state of the transcript as its writer left it,
and whether there are records of rewinds beside it, so that something in it may be hidden. Whoever changes the file
makes the note say nothing; a missing or damaged one says nothing either. Not synced: at worst a list reads more.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sessions.transcript import codec

NAME = "untitled"


class Beside:
    """What the sidecar tells of a transcript in some state; each thing is looked for when it is asked for.

    Args:
        sidecar: Where it is.
        status: The state of the transcript.
    """

    __slots__ = ("_rewound", "_sidecar", "_status")

    def __init__(self, sidecar: str, status: os.stat_result) -> None:
        self._sidecar = sidecar
        self._status = status
        self._rewound: bool | None = None

    def may_have_title(self) -> bool:
        """Return False where it is noted that the transcript has none."""
        said = _noted(self._sidecar)
        for rewound in (False, True):
            if said == _saying(self._status, rewound=rewound):
                self._rewound = rewound
                return False
        return True

    def may_hide(self) -> bool:
        """Tell whether the session has gone back, so that something in the transcript may be hidden."""
        if self._rewound is None:
            self._rewound = _is_rewound(self._sidecar)
        return self._rewound


def note(sidecar: Path, status: os.stat_result) -> None:
    """Note that the transcript in this state has no title. Where that is not possible, nothing happens."""
    from sessions import files  # noqa: PLC0415 - who reads the note writes none

    with contextlib.suppress(OSError):
        if Beside(str(sidecar), status).may_have_title():
            said = _saying(status, rewound=_is_rewound(str(sidecar)))
            files.rewrite(sidecar / NAME, lambda fd: files.write_all(fd, said), durable=False)


def _noted(sidecar: str) -> bytes | None:
    try:
        descriptor = os.open(f"{sidecar}/{NAME}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(descriptor, 1024)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_rewound(sidecar: str) -> bool:
    return os.access(f"{sidecar}/undo", os.F_OK)


def _saying(status: os.stat_result, *, rewound: bool) -> bytes:
    return codec.dumps([status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, rewound])
