"""The words of a rewind: what a plan says before, and what a report says after. Plain values, no I/O.

A plan changes nothing and says everything; the report uses the same words, so a front end shows both with one renderer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from sessions import clock

Scope = Literal["both", "conversation", "code"]
History = Literal["rewrite", "fork", "hide"]
OnConflict = Literal["overwrite", "keep", "refuse"]
OnConflicts = OnConflict | Mapping[str | None, OnConflict]
"""One policy for all files; or one for some paths and what lies below them, and under ``None`` one for all others."""
OnRunning = Literal["cancel", "refuse"]
Action = Literal["restore", "recreate", "delete", "unchanged", "skip"]
Reason = Literal["conflict", "lost", "outside", "over_limit", "unreadable", "unverified"]
RewindState = Literal["done", "undone", "pruned"]
Status = Literal["created", "modified", "deleted"]


@dataclass(frozen=True, slots=True)
class Gap:
    """Something the agent did that was not captured, so a rewind cannot take it back.

    Attributes:
        kind: ``shell`` and other words of the host, or ours: ``outside``, ``over_limit``, ``unreadable``,
            ``git``, ``store``, ``lost_records`` (of a diff), ``task`` (a background task whose edits are not
            captured), ``background_task`` (nothing is known of its process, so it was not stopped).
        paths: The paths it concerns, as shown to people; empty when nobody knows.
        turn: The message id of the turn's prompt.
        what: A name for it, such as a task's id; may be empty.
    """

    kind: str
    paths: tuple[str, ...]
    turn: str
    what: str = ""

    def to_json(self) -> dict[str, object]:
        """Return ``{"kind", "what", "paths", "turn"}``."""
        return {"kind": self.kind, "what": self.what, "paths": list(self.paths), "turn": self.turn}


@dataclass(frozen=True, slots=True)
class Mark:
    """A named point inside a turn, which one can go back to.

    Attributes:
        turn: The message id of the turn's prompt.
        name: What the host called it; several of a turn may have the same.
        timestamp: When it was made.
        seq: Which of them it is: its record on the timeline.
    """

    turn: str
    name: str
    timestamp: datetime | None = None
    seq: int = field(default=-1, repr=False)


@dataclass(frozen=True, slots=True)
class TouchedFile:
    """What a turn did to one file, net: ``path`` as shown to people, relative to the workdir where it lies inside."""

    path: str
    status: Status


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A turn one can go back to.

    Attributes:
        id: The message id of its prompt; stable for the life of the session.
        index: Its place among the visible checkpoints, from 1; changes with a rewind.
        prompt: What the user typed, whole.
        timestamp: When; None where the transcript does not say.
        files: What the turn did to files, net, sorted by path.
        insertions: Lines the turn added, over all its files; None when unknown.
        deletions: Lines the turn removed; None when unknown.
        before_compaction: Whether the model no longer sees it.
        compacted: Whether a compaction lies between this prompt and the next.
        gaps: What the turn did that was not captured.
        marks: Named points inside the turn.
        run_id: The run of the agent it belongs to; None where nothing said so.
    """

    id: str
    index: int
    prompt: str
    timestamp: datetime | None
    files: tuple[TouchedFile, ...] = ()
    insertions: int | None = 0
    deletions: int | None = 0
    before_compaction: bool = False
    compacted: bool = False
    gaps: tuple[Gap, ...] = ()
    marks: tuple[Mark, ...] = ()
    run_id: str | None = None

    @property
    def mark_names(self) -> tuple[str, ...]:
        """The names of its marks as ``TURN:MARK`` takes them."""
        return numbered([mark.name for mark in self.marks])


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Return names that tell all apart: where several are the same, ``name#1`` and so on."""
    times, seen = Counter(names), Counter[str]()
    told: list[str] = []
    for name in names:
        seen[name] += 1
        told.append(name if times[name] == 1 else f"{name}#{seen[name]}")
    return tuple(told)


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """What happens, or happened, to one file.

    Attributes:
        path: As shown to people: relative to the workdir where it lies inside, else absolute.
        action: ``restore`` (new content), ``recreate`` (it is missing), ``delete``, ``unchanged`` or ``skip``.
        reason: Why it is skipped, or what to know about the action; None where there is nothing to know.
        by: Who made the last captured edit: ``agent``, a subagent, or ``rewind``.
        insertions: Lines the action adds to the file on disk; None when unknown or binary.
        deletions: Lines the action removes from it; None when unknown or binary.
        note: A phrase for people that says more than ``reason``; may be empty.
    """

    path: str
    action: Action
    reason: Reason | None = None
    by: str | None = None
    insertions: int | None = None
    deletions: int | None = None
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """Return ``{"path", "action", "reason", "by", "insertions", "deletions", "note"}``."""
        return {
            "path": self.path,
            "action": self.action,
            "reason": self.reason,
            "by": self.by,
            "insertions": self.insertions,
            "deletions": self.deletions,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class StoppedTask:
    """A background task that is stopped.

    Attributes:
        id: The task.
        label: What it is called.
        proof: By what it is known that nobody of it is left, such as ``group, parentage and tag``; empty in a plan.
    """

    id: str
    label: str
    proof: str = ""

    def to_json(self) -> dict[str, object]:
        """Return ``{"id", "label", "proof"}``."""
        return {"id": self.id, "label": self.label, "proof": self.proof or None}


@dataclass(frozen=True, slots=True)
class Conflict:
    """A file that is not what the agent left: ``found`` says in a phrase what it is instead."""

    path: str
    found: str
    by: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return ``{"path", "found", "by"}``."""
        return {"path": self.path, "found": self.found, "by": self.by}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rewind would do. Made by ``Session.plan_rewind``; nothing was changed by making it.

    Attributes:
        to: Message id of the target prompt; of a mark, of its turn's; of a run, of its first turn's.
        index: Its checkpoint index, from 1; None for the prompt of a removed turn.
        mark: The name of the mark gone back to, with ``#2`` where its turn has several of that name; None for a prompt.
        run: The run that is taken back; None where all since ``to`` is.
        on_conflict: What becomes of files somebody else changed; ``exceptions`` names paths for which it is another.
        prompt: The prompt that returns to the input box; empty for scope ``code`` and for a mark.
        removed_messages: How many messages leave the conversation.
        files: A verdict for every file concerned, sorted by path.
        conflicts: The files among them that somebody else changed.
        gaps: What the removed turns did that cannot be taken back.
        tasks: The background tasks that would be cancelled.
        of: Of an undo or a redo: the rewind it concerns.
        notes: What else is to be known, in sentences for people.
        refused: Why it would be refused as it stands, in a sentence; None where it can be carried out.
        basis: What the plan was made from; compared before anything is changed. Opaque.
    """

    session_id: str
    to: str
    index: int | None
    scope: Scope
    history: History
    on_conflict: OnConflict
    on_running: OnRunning
    prompt: str
    removed_messages: int
    files: tuple[FileVerdict, ...]
    conflicts: tuple[Conflict, ...]
    gaps: tuple[Gap, ...]
    tasks: tuple[StoppedTask, ...] = ()
    paths: tuple[str, ...] | None = None
    mark: str | None = None
    run: str | None = None
    exceptions: tuple[tuple[str, OnConflict], ...] = ()
    of: RewindRecord | None = None
    notes: tuple[str, ...] = ()
    refused: str | None = None
    basis: object = field(default=None, repr=False, compare=False)

    @property
    def partial(self) -> bool:
        """Whether some file of the plan would not be restored."""
        return any(file.action == "skip" and file.reason is not None for file in self.files)

    @property
    def changes_files(self) -> bool:
        """Whether some file would be restored, recreated or deleted."""
        return any(file.action in {"restore", "recreate", "delete"} for file in self.files)

    def to_json(self) -> dict[str, object]:
        """Return the shape of a report, with ``"rewind_id": null`` and ``"dry_run": true``."""
        return _shape(self, rewind_id=None, session=self.session_id, cancelled=self.tasks, dry_run=True)


class Going(Protocol):
    """A session to go on with, a ``Session``."""

    id: str
    workdir: str | None

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a rewind, an undo or a redo did.

    Attributes:
        rewind_id: Names the rewind for ``undo_rewind``; for an undo or redo, the rewind it concerns.
        session: The session to go on with (a ``Session``; its id in JSON). With ``history="fork"`` it is a new one,
            open for writing beside the one that was rewound: close both.
        notes: Sentences for people: a command to go on with, a file left alone by recovery.
        scope: What went back.
        history: What became of the removed messages.
        run: The run that was taken back; None where all since a place was.
        mark: The mark that was gone back to; None for a prompt.

    The other attributes are those of the plan, as they came true.
    """

    rewind_id: str
    session: Going
    session_id: str
    prompt: str
    removed_messages: int
    files: tuple[FileVerdict, ...]
    conflicts: tuple[Conflict, ...]
    gaps: tuple[Gap, ...]
    cancelled: tuple[StoppedTask, ...] = ()
    partial: bool = False
    notes: tuple[str, ...] = ()
    history: History = "rewrite"
    scope: Scope = "both"
    run: str | None = None
    mark: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return ``{"rewind_id", "session", "removed_messages", "files", "conflicts", "cancelled", "gaps", …}``."""
        return _shape(
            self, rewind_id=self.rewind_id, session=self.session_id, cancelled=list(self.cancelled), dry_run=False
        )


def _shape(
    said: Plan | Report, *, rewind_id: str | None, session: str, cancelled: Sequence[StoppedTask], dry_run: bool
) -> dict[str, object]:
    return {
        "rewind_id": rewind_id,
        "session": session,
        "removed_messages": said.removed_messages,
        "files": [file.to_json() for file in said.files],
        "conflicts": [conflict.to_json() for conflict in said.conflicts],
        "cancelled": [task.to_json() for task in cancelled],
        "gaps": [gap.to_json() for gap in said.gaps],
        "prompt": said.prompt,
        "partial": said.partial,
        "dry_run": dry_run,
        "scope": said.scope,
        "history": said.history,
        "run": said.run,
        "mark": said.mark,
        "notes": list(said.notes),
    }


@dataclass(frozen=True, slots=True)
class RewindRecord:
    """One entry of the undo stack: ``done`` can be undone, ``undone`` redone.

    A new turn or rewind ends the redo, and so does a task, a subagent or an edit begun since in what it takes back.

    ``to`` is the message id of the prompt gone back to, or of the mark's turn; ``run`` the run that was taken back, if
    it was one. With history ``fork`` the scope is ``code``: this session's conversation stayed.
    What it would take to undo or redo one that is ``pruned`` was removed by the limits.

    Attributes:
        history: What became of the removed part of the conversation.
        mark: The name of the mark gone back to; None for a prompt, and for a mark whose turn is removed.
        prompt: What the prompt gone back to says, where that was asked for and is still known; else empty.
        of: Of an undo of single files: the rewind they were taken back of. It is undone from the start; a redo repeats
            that rewind for these files.
    """

    id: str
    to: str
    scope: Scope
    timestamp: datetime | None
    state: RewindState
    run: str | None = None
    history: History = "rewrite"
    mark: str | None = None
    prompt: str = ""
    of: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return ``{"id", "timestamp", "scope", "to", "state", "run", "mark", "history", "prompt", "of"}``."""
        return {
            "id": self.id,
            "timestamp": clock.timestamp(self.timestamp) if self.timestamp is not None else None,
            "scope": self.scope,
            "to": self.to,
            "state": self.state,
            "run": self.run,
            "mark": self.mark,
            "history": self.history,
            "prompt": self.prompt or None,
            "of": self.of,
        }
