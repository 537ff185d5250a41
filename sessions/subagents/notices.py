"""The message that says that a task ended. Pure."""

from __future__ import annotations

from sessions.ids import notice_id
from sessions.subagents.record import Ended, TaskRecord

_LOST = "nobody knows how it ended"


def notice(task: TaskRecord, ended: Ended, *, timestamp: str, log: str | None) -> dict[str, object]:
    """Return the notice of a task that ended by itself, for `Session.append`. Its id is always the same.

    Args:
        timestamp: When it is told.
        log: Where its output lies.
    """
    block: dict[str, object] = {
        "type": "task_notification",
        "taskId": task.id,
        "taskType": "subagent" if task.how == "attach" else "shell",
        "status": _status(ended),
        "summary": f"Background task {task.label!r} {said(ended)}",
    }
    if log is not None:
        block["outputFile"] = log
    return {"timestamp": timestamp, "id": notice_id(task.id), "role": "user", "blocks": [block]}


def said(ended: Ended) -> str:
    """Say in a phrase how a task ended."""
    match ended.state, ended.code:
        case "completed", _:
            return "completed"
        case "failed", None:
            return f"failed: {ended.why}" if ended.why else "failed"
        case "failed", int(code):
            return f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
        case "cancelled", _:
            return "was cancelled"
        case _:
            return f"is gone: {_LOST}"


def _status(ended: Ended) -> str:
    if ended.state == "failed" and ended.code is not None and ended.code < 0:
        return "killed"
    return {"completed": "completed", "failed": "failed"}.get(ended.state, "aborted")
