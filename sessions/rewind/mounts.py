"""Where something is mounted: such a name can be neither replaced nor removed."""

from __future__ import annotations

import os
import re

_TABLE = "/proc/self/mountinfo"
_MOUNT_POINT = 4
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mount_points() -> frozenset[str]:
    """Return every path on which something is mounted; none where the system does not say (it has no ``/proc``)."""
    try:
        with open(_TABLE, "rb") as table:
            lines = table.read().splitlines()
    except OSError:
        return frozenset()
    return frozenset(os.fsdecode(_unescaped(line.split(b" ")[_MOUNT_POINT])) for line in lines)


def _unescaped(field: bytes) -> bytes:
    """Undo what the kernel does to white space and backslashes in a field: three octal digits."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), field)
