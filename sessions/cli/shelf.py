"""The sessions of a store, as the resume picker shows and changes them."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from sessions import paths, searching
from sessions.cli.excerpt import excerpt
from sessions.picker.resume_state import Listing, ResumeState
from sessions.picker.words import away_text, count
from sessions.searching import Searchable
from sessions.transcript import reader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from sessions.listing import SessionInfo
    from sessions.picker.resume_state import Scope
    from sessions.picker.text import Line
    from sessions.rewind.plan import StoppedTask
    from sessions.store import SessionStore

_SWITCH_S = 0.0005  # reading prompts never waits: who does would have to wait for it after each byte of a file
_LOOKED_AT = 20  # messages of a preview
_LESSON_BYTES, _LESSON_ROWS = 16 << 20, 100  # read while nothing else is done


class StoreShelf:
    """What ``resume_app`` needs of a store; see ``resume_app.Shelf``.

    Args:
        store: Where the sessions are.
        candidates: Only the sessions with these ids; None: those of the scope that is asked for.
    """

    def __init__(self, store: SessionStore, candidates: Collection[str] | None = None) -> None:
        self._store = store
        self._candidates = candidates
        self._here = paths.current()

    def list(self, scope: Scope) -> Listing:
        """Return the sessions of a scope, and where those of other directories belong."""
        if self._candidates is not None or self._here is None:
            scope = "all"
        unread: list[OSError] = []
        rows = self._store.list(self._here or os.sep, scope=scope, unread=unread)
        if self._candidates is not None:
            rows = [row for row in rows if row.id in self._candidates]
        return _listing(rows, unread, self._store.root, self._here)

    def look(self, row: SessionInfo) -> Sequence[Line]:
        """Return its last messages; reads the end of the file."""
        with self._store.open(row, read_only=True) as session:
            return excerpt(session.recent(_LOOKED_AT))

    def weigh(self, row: SessionInfo) -> str:
        """Return what a deletion would remove and stop besides the transcript."""
        with self._store.open(row, read_only=True) as session:
            tasks = sum(1 for task in session.tasks.list() if task.state == "running" or task.processes)
            children, has_records = len(session.subagents()), session.has_records
        goes = [count(children, "subagent")] if children else []
        goes += ["snapshots and undo records"] if has_records else []
        said = [f"{' and '.join(goes)} go with it"] if goes else []
        said += [f"{count(tasks, 'task')} {'is' if tasks == 1 else 'are'} stopped"] if tasks else []
        return ", ".join(said)

    def rename(self, row: SessionInfo, title: str) -> None:
        """Give it a title."""
        with self._store.open(row, read_only=False) as session:
            session.set_title(title)

    def delete(self, row: SessionInfo) -> str:
        """Delete it; return how many tasks were stopped for it, if any were."""
        stopped: list[StoppedTask] = []
        self._store.delete(row, stopped=stopped)
        return f"{count(len(stopped), 'task')} stopped" if stopped else ""


def choose(
    store: SessionStore,
    *,
    everywhere: bool = False,
    worktrees: bool = False,
    search: str = "",
    candidates: Collection[str] | None = None,
) -> ResumeState:
    """Let the user choose a session on the whole terminal; return the last state of the picker.

    Args:
        store: Where the sessions are.
        everywhere: Whether the sessions of all projects are shown first.
        worktrees: Whether those of all worktrees are.
        search: The filter it opens with.
        candidates: Only the sessions with these ids.
    """
    from sessions.picker.resume_app import pick  # noqa: PLC0415 - prompt_toolkit is paid for by who sees it

    here = paths.current()
    state = ResumeState(
        everywhere=everywhere or candidates is not None or here is None,
        worktrees=worktrees,
        several=here is not None and len(store.worktrees(here)) > 1,
        fixed=candidates is not None,
        filter=search,
    )
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        return pick(StoreShelf(store, candidates), state)
    finally:
        sys.setswitchinterval(usual)


def _listing(rows: Sequence[SessionInfo], unread: Sequence[OSError], root: Path, here: str | None) -> Listing:
    project = paths.project_directory(root, here) if here is not None else None
    known: dict[str, tuple[str | None, bool]] = {}  # many sessions, few directories
    away: dict[Path, str] = {}
    gone: set[Path] = set()
    for row in rows:
        if row.workdir is None:
            if row.path.parent != project:
                away[row.path] = away_text(row)
            continue
        if row.workdir not in known:
            directory = paths.resolved(row.workdir)
            known[row.workdir] = directory, directory is not None and os.path.isdir(directory)
        directory, there = known[row.workdir]
        if here is None or directory != here:
            away[row.path] = away_text(row)
        if not there:
            gone.add(row.path)
    found = Searchable(rows)
    places = {id(row): at for at, row in enumerate(rows)}

    def search(typed: str) -> list[int]:
        return [places[id(row)] for row in found.matching(typed)]

    return Listing(rows, search, away, frozenset(gone), _unread(unread), _lessons(rows, found))


def _unread(errors: Sequence[OSError]) -> str:
    sessions = sum(str(error.filename).endswith(".jsonl") for error in errors)
    counted = [count(sessions, "session")] if sessions else []
    counted += [count(len(errors) - sessions, "project")] if len(errors) > sessions else []
    return f"{' and '.join(counted)} cannot be read" if counted else ""


def _lessons(rows: Sequence[SessionInfo], found: Searchable[SessionInfo]) -> Callable[[], Callable[[], bool]]:
    """Return what reads the prompts of some more rows each time, the first ones first, and then lets them be found."""
    rest = iter(rows)

    def lesson() -> Callable[[], bool]:
        read: list[tuple[SessionInfo, searching.Prompts]] = []
        size = 0
        for row in rest:
            with contextlib.suppress(OSError):  # it is gone, or cannot be read: it is found by what the list knows
                read.append((row, searching.read(reader.prompt_texts(row.path))))
                size += row.path.stat().st_size
            if size >= _LESSON_BYTES or len(read) >= _LESSON_ROWS:
                break

        def take() -> bool:
            for row, prompts in read:
                found.learn(row, prompts)
            return bool(read)

        return take

    return lesson
