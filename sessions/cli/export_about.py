"""What stands at the head of an exported conversation, and how its messages are named in it. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from sessions import clock
from sessions.cli.export_text import readable
from sessions.cli.messages import other
from sessions.picker import words
from sessions.picker.text import plain
from sessions.transcript import codec
from sessions.transcript.messages import CompactBlock, Message, OtherBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.listing import SessionInfo

_WHOLE_BYTES = 64 * 1024  # of a block nobody knows: a longer one is named only


class About(NamedTuple):
    """The session an export is of; ``whole``: the whole conversation, not only what the model sees of it."""

    id: str
    title: str
    workdir: str | None
    git_branch: str | None
    created_at: datetime
    last_active_at: datetime
    forked_from: str | None
    whole: bool

    def facts(self) -> Iterator[tuple[str, str, bool]]:
        """Yield what is known of it: what, how it reads, and whether that is a name to be copied."""
        yield "Session", readable(self.id), True
        if self.workdir is not None:
            yield "Project", readable(self.workdir), True
        if self.git_branch is not None:
            yield "Branch", readable(self.git_branch), True
        if self.forked_from is not None:
            yield "Fork of", readable(self.forked_from), True
        yield "Begun", words.exactly(self.created_at), False
        yield "Last active", words.exactly(self.last_active_at), False
        if not self.whole:
            yield "Messages", "those the model sees: from the last summary on", False


class Head(NamedTuple):
    """What stands above a message: its number, who speaks, when, and what is special about it."""

    number: int
    speaker: str
    when: str
    moment: datetime | None
    notes: tuple[str, ...]


def about(row: SessionInfo, *, whole: bool) -> About:
    """Return what there is to say about a session; its title on one line."""
    return About(
        row.id,
        " ".join(readable(row.title or words.UNTITLED).split()),
        row.workdir,
        row.git_branch,
        row.created_at,
        row.last_active_at,
        row.forked_from,
        whole,
    )


def head(message: Message, number: int) -> Head:
    """Return what stands above a message."""
    moment = clock.parse(message.timestamp or "")
    summary = any(isinstance(block, CompactBlock) for block in message.blocks)
    notes = (("summary of what came before",) if summary else ()) + (("for the model only",) if message.is_meta else ())
    return Head(number, message.role, words.exactly(moment), moment, notes)


def odd(block: OtherBlock) -> tuple[str, str, bool]:
    """Return what a block of no kind of its own is called, what it says, whole, and whether that is JSON."""
    content = (block.model_extra or {}).get("content")
    if isinstance(content, str):
        return f"[{block.type}]", content, False
    if block.type != "file_history":
        try:
            raw = codec.dumps(block.model_dump())
        except ValueError:
            raw = b""
        if 0 < len(raw) <= _WHOLE_BYTES:
            return f"[{block.type}]", raw.decode(), True
    return plain(other(block)), "", False
