"""What a pass over a transcript finds: plain values, positions in bytes, sizes bounded by the number of prompts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from sessions import clock


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a file its owner should know.

    Attributes:
        kind: ``opaque_line`` or ``torn_tail``.
        where: A phrase that says which file and where in it.
        action: What became of it: ``kept``, ``ignored`` or ``set aside in …``.
        offset: Where it starts in the transcript, in bytes; None where it stands for several.
    """

    kind: str
    where: str
    action: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """What a subagent's session hangs on.

    Attributes:
        root: The session the user talks to: it keeps the edits and goes back.
        parent: The session that started it: the root, or another subagent's.
        spawned_by: The message of the parent that did.
    """

    root: str
    parent: str
    spawned_by: str


class Header(NamedTuple):
    """The session's own line. ``raw`` is the line without its newline; what it does not say is None.

    ``link`` is there for a subagent's session.
    """

    raw: bytes
    offset: int
    workdir: str | None
    created_at: str | None
    git_branch: str | None
    forked_from: str | None = None
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Title:
    """The last title line: its text, its bytes without the newline, where it lies (``end``: behind the newline)."""

    text: str
    raw: bytes
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """The first visible line of a checkpoint's prompt.

    Attributes:
        id: The message id.
        offset: Where its line starts; the cut of a rewind to it.
        end: Where its line ends, behind the newline.
        timestamp: As written; None where it is not.
        preview: The first 1 000 characters of its text.
        truncated: Whether there are more; `reader.read_prompt` has them.
    """

    id: str
    offset: int
    end: int
    timestamp: str | None
    preview: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class ForeignSnapshot:
    """A file snapshot another agent recorded in a message.

    Attributes:
        message_id: The message that holds it; empty where that has no id.
        offset: Where that message's first line with it starts.
        path: The file, as written.
        operation: ``create``, ``modify``, ``delete``, or what else stands there.
        snapshot_path: Where its bytes before the edit are said to lie; empty with ``create``: it did not exist. None:
            not said.
    """

    message_id: str
    offset: int
    path: str
    operation: str
    snapshot_path: str | None


@dataclass(frozen=True, slots=True)
class Outline:
    """A transcript without its bodies.

    Attributes:
        path: The file.
        size: Its bytes, as read.
        inode: Its inode when it was opened.
        header: The first header line; None for a headerless file.
        prompts: The visible checkpoints, in order; each id once, at its first visible line.
        compactions: Where the compact messages that count start. Empty unless deep.
        in_view: Ids of the prompts the model still sees, copies included. Empty unless deep.
        title: The last title line.
        snapshots: Snapshots other agents recorded, in order, each once, hidden turns included. Empty unless deep.
        findings: Damage met on the way. A pass reads bodies only where it must, so `reader.check` finds more.
    """

    path: Path
    size: int
    inode: int
    header: Header | None = None
    prompts: tuple[Prompt, ...] = ()
    compactions: tuple[int, ...] = ()
    in_view: frozenset[str] = frozenset()
    title: Title | None = None
    snapshots: tuple[ForeignSnapshot, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Tail:
    """What a cut would remove.

    Attributes:
        removed_messages: Distinct message ids behind the cut, without copies of kept messages, and without notices that
            stay.
        kept: The header and title lines behind the cut and the notices that stay, in order, each with its newline.
        notices: The notices among them.
        tasks_started: Ids of the background tasks it started, in order, each once.
        tasks_ended: Ids of those it says have ended.
        size: The file's bytes.
    """

    removed_messages: int
    kept: bytes
    size: int
    notices: bytes = b""
    tasks_started: tuple[str, ...] = ()
    tasks_ended: frozenset[str] = frozenset()


class Summary(NamedTuple):
    """What a list shows of a session without reading its bodies.

    Attributes:
        header: The header line; None for a headerless file.
        created: When it began, as the header or else the first message spells it; None where neither does.
        written: When the file was last written, in seconds since the epoch.
        title: The last title; None if there is none.
        first_prompt: The first 200 characters of the first prompt; None if there is none.
        first_summary: Likewise of a compact message in front of it.
        total_tokens: The newest count a visible message near the end reports; None if none does.
        damaged: Whether a line read for this is opaque or the last one is torn.
    """

    header: Header | None
    created: str | None
    written: float
    title: str | None
    first_prompt: str | None
    first_summary: str | None
    total_tokens: int | None
    damaged: bool

    @property
    def created_at(self) -> datetime:
        """When it began: as the header says, else the first message, else the time of the last change."""
        return clock.parse(self.created or "") or clock.from_epoch(self.written)
