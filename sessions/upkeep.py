"""Keeping the sessions under one root in order: what a check says, what is pruned, what deletions left."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sessions import catalog, clock, leftovers, paths, resumed, row_cache
from sessions.errors import IncompleteError, SessionsError
from sessions.expiry import Reason
from sessions.rewind.pruning import KEPT_IN, Pruning
from sessions.rewind.retention import freed
from sessions.rewind.usage import measured
from sessions.transcript.outline import Finding

if TYPE_CHECKING:
    from sessions.opening import Opening
    from sessions.session import Session


@dataclass(frozen=True, slots=True)
class Checked:
    """What ``check`` found in one session, and what it recovered."""

    session: str
    findings: tuple[Finding, ...] = ()
    recovered: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return ``{"session", "findings": [{"kind", "where", "action"}], "recovered"}``."""
        findings = [{"kind": each.kind, "where": each.where, "action": each.action} for each in self.findings]
        return {"session": self.session, "findings": findings, "recovered": list(self.recovered)}


@dataclass(frozen=True, slots=True)
class Pruned:
    """What goes, or went, from one session.

    Attributes:
        path: Its transcript.
        title: The title given; None where there is none. Of a session that goes as a whole else its first prompt.
        turns: The numbers of the turns whose snapshots go.
        rewinds: The undo records that go, by name; what those rewinds removed from the conversation goes with them.
        tasks: The removed tasks whose logs go, by id: nothing brings them back.
        leftovers: How many turns and rewinds go of which a crash left something that nothing needs.
        freed_bytes: What the disk gets back; what a fork of the session uses too stays.
        skipped: Why nothing could be removed; None where it could.
        reason: Why the session goes as a whole: its ``age``, or the ``count`` of newer ones in its project; else None.
        last_active_at: Of one that does: when its transcript was last written.
    """

    session: str
    path: Path
    title: str | None = None
    turns: tuple[int, ...] = ()
    rewinds: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    leftovers: int = 0
    freed_bytes: int = 0
    skipped: str | None = None
    reason: Reason | None = None
    last_active_at: datetime | None = None

    @property
    def removed(self) -> bool:
        """Whether the session goes as a whole."""
        return self.reason is not None

    def to_json(self) -> dict[str, object]:
        """Return ``{"session", "turns", "rewinds", "tasks", "leftovers", "freed_bytes", "skipped"}``.

        Of a session that goes as a whole also ``"removed": true``, ``"reason": "age"|"count"``, ``"title"`` and
        ``"last_active_at"``.
        """
        whole: dict[str, object] = {}
        if self.reason is not None:
            active = clock.timestamp(self.last_active_at) if self.last_active_at is not None else None
            whole = {"removed": True, "reason": self.reason, "title": self.title, "last_active_at": active}
        return {
            "session": self.session,
            "turns": list(self.turns),
            "rewinds": list(self.rewinds),
            "tasks": list(self.tasks),
            "leftovers": self.leftovers,
            "freed_bytes": self.freed_bytes,
            "skipped": self.skipped,
            **whole,
        }


def check_all(root: Path, opening: Opening, *, unread: list[OSError] | None = None) -> list[Checked]:
    """Check all sessions, and remove what is left of others; see ``SessionStore.check``."""
    chosen = catalog.transcripts(root, unread=unread)
    families = leftovers.Families()
    tidy(root)
    return [*(check(transcript, opening, families) for transcript in chosen), *sweep(root)]


def check(transcript: Path, opening: Opening, families: leftovers.Families | None = None) -> Checked:
    """Look at every byte of a session, and finish what a crash left where nobody else has it open. Never fails.

    Args:
        families: Spares reading all subagents' transcripts again where several sessions are looked at.
    """
    recovered: tuple[str, ...] = ()
    findings: list[Finding] = []
    try:
        with _open(transcript, opening) as session:
            recovered = tuple(
                f"{note.where}: {note.action}" for note in session.findings if note.kind.startswith("unfinished")
            )
            findings += session.check(families=families)
    except IncompleteError as error:
        findings.append(Finding("unfinished_rewind", str(error), "left as it is"))
    except (SessionsError, OSError) as error:
        findings.append(Finding("not_checked", str(error), "left as it is"))
    return Checked(catalog.id_of(transcript), tuple(findings), recovered)


def _open(transcript: Path, opening: Opening) -> Session:
    try:
        return opening.open(transcript, read_only=False)
    except IncompleteError:
        raise
    except SessionsError:
        return opening.open(transcript, read_only=True)


def prune(
    root: Path,
    transcripts: Iterable[Path],
    opening: Opening,
    *,
    undo: bool,
    dry_run: bool,
    shown: Mapping[Path, Pruned] | None = None,
) -> list[Pruned]:
    """Prune sessions, and remove what is left of deleted ones; see ``SessionStore.prune``.

    A session is opened for writing only where something goes from it. Opening is refused while somebody else has it
    open, so nothing is removed under a running agent. (A dry run does not ask for the lock.)

    Args:
        shown: What somebody agreed to, by transcript, or where it was: a session of which more would go is skipped,
            and what is left of a deleted session goes only where it is among them. None: all goes.
    """
    pruned = [
        _prune(transcript, opening, undo=undo, dry_run=dry_run, shown=None if shown is None else shown.get(transcript))
        for transcript in transcripts
    ]
    return [*(each for each in pruned if each is not None), *_prune_leftovers(root, shown, dry_run=dry_run)]


def tidy(root: Path) -> None:
    """Remove what counts no more of what may be removed at any time: kept rows, notes of what was resumed."""
    row_cache.sweep(root)
    resumed.sweep(root)


def sweep(root: Path) -> Iterator[Checked]:
    """Remove what a crash left of sessions that were being made or deleted."""
    families = leftovers.Families()
    for sidecar in leftovers.nobodys(root):
        session = leftovers.session_of(sidecar)
        try:
            if leftovers.sweep(sidecar, families):
                yield Checked(session, (), ("what a crash left of it was removed",))
        except OSError as error:
            yield Checked(session, (Finding("not_deleted", str(error), "left as it is"),))


def _prune(transcript: Path, opening: Opening, *, undo: bool, dry_run: bool, shown: Pruned | None) -> Pruned | None:
    sidecar = paths.sidecar(transcript)
    if not any(os.path.isdir(sidecar / name) for name in KEPT_IN):
        return None
    try:
        with opening.open(transcript, read_only=True) as session:
            seen = session.prune(undo=undo, dry_run=True)
        if seen.is_empty:
            return None
        said = _said(session, seen, seen)
        if dry_run:
            return said
        if shown is not None and not _is_within(said, shown):
            return Pruned(said.session, transcript, skipped="more of it is beyond the limits by now than was shown")
        with opening.open(transcript, read_only=False) as session:
            return _said(session, seen, session.prune(undo=undo))
    except (SessionsError, OSError) as error:
        return Pruned(leftovers.session_of(sidecar), transcript, skipped=str(error))


def _is_within(now: Pruned, shown: Pruned) -> bool:
    pairs = ((now.turns, shown.turns), (now.rewinds, shown.rewinds), (now.tasks, shown.tasks))
    return all(set(some) <= set(all_) for some, all_ in pairs)


def _said(session: Session, seen: Pruning, done: Pruning) -> Pruned:
    """Say what was done; what a crash left, opening the session may have removed already."""
    return Pruned(
        session.id,
        session.path,
        session.title,
        done.eviction.turns,
        done.eviction.records,
        seen.tasks,
        len(seen.dead_turns) + len(seen.dead_records),
        done.eviction.freed_bytes + seen.dead_bytes,
    )


def _prune_leftovers(root: Path, shown: Container[Path] | None, *, dry_run: bool) -> Iterator[Pruned]:
    families = leftovers.Families()
    for sidecar in leftovers.nobodys(root):
        session, path = leftovers.session_of(sidecar), leftovers.transcript_of(sidecar)
        if shown is not None and path not in shown:
            continue
        freed_bytes = freed([measured(sidecar)])
        try:
            if dry_run or leftovers.sweep(sidecar, families):
                yield Pruned(session, path, leftovers=1, freed_bytes=freed_bytes)
        except OSError as error:
            yield Pruned(session, path, skipped=str(error))
