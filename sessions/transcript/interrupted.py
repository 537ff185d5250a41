"""Tool calls that never returned, as a host that sends calls and results in pairs has to see them. Pure.

A file keeps a call as its host last wrote it. Where that host is gone, nobody will ever write the result: in the view
the call has ended, without success, so that a pair is never left half. The file is not touched.
"""

from __future__ import annotations

from sessions.transcript import codec
from sessions.transcript.entry import Entry, Kind

UNFINISHED = ("start", "streaming", "running")  # a tuple, as a value may be unhashable
ERROR = "interrupted: the session ended before this tool returned"


def is_unfinished(entry: Entry) -> bool:
    """Tell whether a message holds a tool call without its result."""
    return entry.kind is Kind.MESSAGE and any(map(_runs, entry.blocks))


def ended(entry: Entry) -> Entry:
    """Return a message with every call in it ended: those without a result have failed, and say why.

    Only ``stage``, ``success`` and ``error`` of those calls change, and parameters that are not there yet or broke off
    inside their JSON, which become ``{}``: no model takes half a call. All other values are equal, in the same order;
    a message without such a call is returned as it is. ``ended(ended(m)) == ended(m)``.
    """
    if not is_unfinished(entry):
        return entry
    assert entry.data is not None
    blocks = entry.data["blocks"]
    assert isinstance(blocks, list)
    data = {**entry.data, "blocks": [_ended(block) if _runs(block) else block for block in blocks]}
    return Entry(codec.dumps(data), entry.kind, data)


def _runs(block: object) -> bool:
    if not isinstance(block, dict) or block.get("type") != "tool" or (stage := block.get("stage")) == "end":
        return False
    return stage in UNFINISHED or block.get("result") is None


def _ended(block: dict[str, object]) -> dict[str, object]:
    closed = {**block, "stage": "end", "success": False, "error": ERROR}
    given = block.get("parameters")
    if given is None or (isinstance(given, str) and not _is_json(given)):
        closed["parameters"] = "{}"
    return closed


def _is_json(text: str) -> bool:
    try:
        codec.loads(text.encode("utf-8", "replace"))  # half a character is as good as any in a string
    except ValueError:
        return False
    return True
