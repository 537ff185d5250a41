"""What the blocks of a message say: texts, file snapshots, where a user's message came from. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sessions.transcript.entry import COMPACT, Entry
from sessions.transcript.outline import ForeignSnapshot

NOT_TYPED = ("task_notification", "bang")

_SHOWN = {  # what people see of a block, by its type: the key, and how that part is called
    "tool": (("name", "tool"), ("parameters", "parameters"), ("result", "result"), ("error", "error")),
    "bang": (("command", "command"), ("output", "output")),
    "task_notification": (("summary", "notice"),),
}


def text_of(entry: Entry) -> str:
    """Return the texts of a message, joined by newlines; of a custom command, what was typed, not what it became."""
    return "\n".join(_contents(entry, ("text",)))


def summary_of(entry: Entry) -> str:
    """Return the summary a compact message holds; empty for any other."""
    return "\n".join(_contents(entry, COMPACT))


def texts_of(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield all that people read of a message: what it is, and the text. What an image holds is none.

    It is ``text``, ``reasoning``, ``summary``, ``tool`` (its name), ``parameters`` (the JSON it was called with),
    ``result``, ``command``, ``output``, ``notice``, or the type of any other block with a content, as ``error`` and
    ``info``.
    """
    for block in entry.blocks:
        kind = block.get("type")
        known = _SHOWN.get(kind) if isinstance(kind, str) else None
        named = "summary" if kind in COMPACT else kind if isinstance(kind, str) else "text"
        for key, what in known or (("content", named),):
            text = block.get(key)
            if isinstance(text, str) and text:
                yield what, text


def typed_text(entry: Entry) -> str | None:
    """Return what `text_of` does of a user's message that was typed.

    None for a hook's, a command run, a notice of a task, a summary.
    """
    texts: list[str] = []
    for block in entry.blocks:
        kind = block.get("type")
        if kind == "text":
            if block.get("source") == "hook":
                return None
            if isinstance(content := block.get("content"), str):
                texts.append(content)
        elif kind in NOT_TYPED or kind in COMPACT:
            return None
    return "\n".join(texts)


def snapshots_of(entry: Entry, offset: int) -> Iterator[tuple[tuple[object, ...], ForeignSnapshot]]:
    """Yield the file snapshots of a message, each with the key by which a copy of it is recognised."""
    owner = entry.id or ""
    for block in entry.blocks:
        snapshots = block.get("snapshots") if block.get("type") == "file_history" else None
        for said in snapshots if isinstance(snapshots, list) else ():
            path = said.get("filePath") if isinstance(said, dict) else None
            if not isinstance(path, str):
                continue
            operation, at = said.get("operation"), said.get("snapshotPath")
            key = (owner, str(said.get("messageId")), path, str(said.get("timestamp")), str(operation), str(at))
            yield (
                key,
                ForeignSnapshot(
                    message_id=owner,
                    offset=offset,
                    path=path,
                    operation=operation if isinstance(operation, str) else "",
                    snapshot_path=at if isinstance(at, str) else None,
                ),
            )


def _contents(entry: Entry, kinds: tuple[str, ...]) -> Iterator[str]:
    for block in entry.blocks:
        content = block.get("content")
        if block.get("type") in kinds and isinstance(content, str):
            yield content


def tasks_started(entry: Entry) -> Iterator[str]:
    """Yield the ids of the background tasks a message's tool calls started."""
    for block in entry.blocks:
        task = block.get("backgroundTaskId")
        if block.get("type") == "tool" and isinstance(task, str) and task:
            yield task


def tasks_ended(entry: Entry) -> Iterator[str]:
    """Yield the ids of the background tasks a message says have ended."""
    for block in entry.blocks:
        task = block.get("taskId")
        if block.get("type") == "task_notification" and isinstance(task, str):
            yield task


def is_notice(entry: Entry) -> bool:
    """Tell whether a message is the notice that a background task ended, and nothing else."""
    return bool(entry.blocks) and all(block.get("type") == "task_notification" for block in entry.blocks)
