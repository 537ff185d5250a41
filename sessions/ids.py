"""Names for new things, and which names are safe as a file name."""

from __future__ import annotations

import re
import uuid

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def new_session_id() -> str:
    """Return a session id nobody has: a random UUID, as text."""
    return str(uuid.uuid4())


CHILD_PREFIX = "subagent-"
"""How the id of a subagent's session begins."""


TASK_PREFIX = "task-"
"""How the id of a task begins."""


def new_child_id() -> str:
    """Return an id nobody has for a subagent's session: ``subagent-`` and a random UUID."""
    return f"{CHILD_PREFIX}{uuid.uuid4()}"


def new_task_id() -> str:
    """Return an id nobody has for a task: ``task-`` and eight hexadecimal digits."""
    return f"{TASK_PREFIX}{uuid.uuid4().hex[:8]}"


def notice_id(task: str) -> str:
    """Return the message id of the notice that a task ended: always the same, so that it is written once."""
    return f"msg-{uuid.uuid5(uuid.NAMESPACE_OID, task)}"


def new_message_id() -> str:
    """Return a message id nobody has: ``msg-`` and a random UUID."""
    return f"msg-{uuid.uuid4()}"


def new_rewind_id() -> str:
    """Return a rewind id nobody has: ``rw-`` and twelve hexadecimal digits."""
    return f"rw-{uuid.uuid4().hex[:12]}"


def is_safe(name: str) -> bool:
    """Tell whether ``name`` may become a file name: no separator, NUL, leading dot, at most 200 ASCII characters."""
    return _SAFE.fullmatch(name) is not None
