"""Retention: the sessions that go because the settings say so. Off until set.

What goes is decided from times alone (`sessions.expiry`); each is looked at again right before it is removed, with its
lock held, and removed as every deletion does it:

===  ================================================  ================================================================
 #   step                                              what a crash after it leaves
===  ================================================  ================================================================
 1   look at the times of all transcripts; decide      nothing
 2   of each that goes: what keeps it?                 nothing
 3   take its lock, ask again                          nothing
 4   delete it (`SessionStore.delete`)                 the whole session, or leftovers that ``check`` removes
 5   remove the project's directory if it is empty     an empty directory
===  ================================================  ================================================================

A session stays, and it is said why, while somebody has it or one of its subagents' sessions open for writing (a reader
takes no lock, so nobody knows of one in another process), while its background work runs, while a rewind in it is
unfinished, when it or its subagent was written meanwhile, and when it lies behind a symbolic link: what a link names is
not ours to remove. All other files stay, whatever they are.

In a host this is done once in a process and root, on a thread that nobody waits for: when the process ends, it ends
between two sessions or with a crash's leftovers. It opens sessions for itself, so no lock of the host's objects is ever
held by it, and a forked child finds none taken.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from sessions import catalog, clock, leftovers, listing, paths, resumed
from sessions.errors import ConflictError, IncompleteError, SessionsError
from sessions.expiry import Expired, Kept, expired
from sessions.ownership import is_owned
from sessions.rewind.journal import Journal
from sessions.rewind.retention import Directory, Stored, freed
from sessions.rewind.usage import measured
from sessions.settings import Retention
from sessions.transcript import reader
from sessions.upkeep import Pruned

_NS = 1_000_000_000
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system


class Remover(Protocol):
    """Removes sessions, as a store does."""

    def refuse_running(self, transcript: Path) -> None:
        """Refuse to remove a session whose background work is not over.

        Raises:
            ConflictError: It is not.
        """

    def remove(self, transcript: Path, refuse: Callable[[], object], families: leftovers.Families) -> None:
        """Remove a session, unless ``refuse`` raises when its lock is held; stops and settles nothing.

        Raises:
            ConflictError: Its background work is not over.
            LockedError: Somebody has it open.
            IncompleteError: It is gone, but not all that belonged to it.
        """


def retire(
    root: Path,
    policy: Retention,
    remover: Remover,
    *,
    dry_run: bool = False,
    spared: Callable[[Path], bool] = lambda _: False,
    confirmed: Container[Path] | None = None,
) -> Iterator[Pruned]:
    """Remove the sessions under a root that are kept for too long or are too many, the one written longest ago first.

    Only times are looked at, but for what goes, and for the headers in a directory with too many sessions.

    Args:
        dry_run: Only say what would go.
        spared: Tells whether a transcript stays whatever its age; asked right before it goes.
        confirmed: The transcripts of those that may go; None: all.

    Yields:
        A value for each session that goes, as soon as it is gone, or that cannot be removed now.
    """
    if not policy.is_on:
        return
    work = _Work(root, policy, remover, dry_run=dry_run, spared=spared)
    now_ns = clock.epoch_ns()
    for each in expired(_rows(root, policy.max_count, now_ns), policy, now_ns):
        if confirmed is not None and each.path not in confirmed:
            continue
        done = work.retire(each, now_ns)
        if done is not None:
            yield done
        if not dry_run and (done is None or done.removed):  # where another process did: it may have met us there
            _remove_emptied(root, each.path.parent)


class _Work:
    def __init__(
        self, root: Path, policy: Retention, remover: Remover, *, dry_run: bool, spared: Callable[[Path], bool]
    ) -> None:
        self._root = root
        self._floor_ns = policy.min_retention_s * _NS
        self._remover = remover
        self._dry_run = dry_run
        self._spared = spared
        self._families = leftovers.Families()

    def retire(self, each: Expired, now_ns: int) -> Pruned | None:
        """Remove a session; None where somebody else did, or where nothing says that the file is one."""
        sidecar = paths.sidecar(each.path)
        try:
            if not _is_session(each.path):
                return None
            children = self._refuse(each, now_ns)
            if (sidecar / "tasks").is_dir():
                self._remover.refuse_running(each.path)
            if self._dry_run and is_owned(each.path):
                raise ConflictError("it is open")
            said = _described(each, children)
            if not self._dry_run:
                self._remover.remove(each.path, lambda: self._refuse(each, now_ns), self._families)
        except IncompleteError as error:
            return Pruned(catalog.id_of(each.path), each.path, skipped=str(error))
        except (SessionsError, OSError) as error:
            gone = not os.path.lexists(each.path)
            return None if gone else Pruned(catalog.id_of(each.path), each.path, skipped=str(error))
        return said

    def _refuse(self, each: Expired, now_ns: int) -> list[Path]:
        """Refuse to remove a session that is not what was decided about; return the transcripts of its subagents.

        Raises:
            ConflictError: It is not, or something of it is needed.
            OSError: It is gone, or cannot be looked at.
        """
        if self._spared(each.path):
            raise ConflictError("it was opened meanwhile")
        if resumed.is_noted(self._root, each.path):
            raise ConflictError("somebody resumed it within a day")
        if paths.sidecar(each.path).is_symlink():
            raise ConflictError("its sidecar is a symbolic link, which is left alone")
        status = os.lstat(each.path)
        if stat.S_ISLNK(status.st_mode) or each.path.parent.is_symlink():
            raise ConflictError("it lies behind a symbolic link, which is left alone")
        if status.st_mtime_ns != each.written_ns:
            raise ConflictError("it was written meanwhile")
        if Journal(paths.sidecar(each.path)).intent.exists():
            raise ConflictError("a rewind in it is not finished")
        children = self._families.of(each.path)
        for child in children:
            if is_owned(child):
                raise ConflictError(f"its subagent {catalog.id_of(child)} is open")
            if now_ns - os.stat(child).st_mtime_ns <= self._floor_ns:
                raise ConflictError(f"its subagent {catalog.id_of(child)} was active")
        return children


def _described(each: Expired, children: Iterable[Path]) -> Pruned:
    transcripts = [each.path, *children]
    takes = [_measured_file(path) for path in transcripts] + [measured(paths.sidecar(path)) for path in transcripts]
    return Pruned(
        catalog.id_of(each.path),
        each.path,
        listing.row_of(each.path).title,
        freed_bytes=freed(takes),
        reason=each.reason,
        last_active_at=clock.from_epoch(each.written_ns / _NS),
    )


def _rows(root: Path, max_count: int, now_ns: int) -> list[Kept]:
    """Return the sessions under a root; their projects are known where one of them may have too many."""
    rows = []
    for path in catalog.transcripts(root):
        with contextlib.suppress(OSError):
            rows.append(Kept(path, os.stat(path).st_mtime_ns))
    if not max_count:
        return rows
    counts = Counter(row.path.parent for row in rows if row.written_ns <= now_ns)
    return list(_with_projects(rows, {directory for directory, count in counts.items() if count > max_count}))


def _with_projects(rows: Iterable[Kept], crowded: set[Path]) -> Iterator[Kept]:
    for row in rows:
        if row.path.parent not in crowded:
            yield row
            continue
        with contextlib.suppress(OSError):  # what cannot be read stays, and does not count
            header = reader.head(row.path)
            if header is None and not _is_session(row.path):
                continue
            workdir = header.workdir if header is not None else None
            yield replace(row, project=paths.resolved(workdir) if workdir is not None else None)


def _is_session(transcript: Path) -> bool:
    """Tell whether a file is a session: it holds a line of one, or a sidecar lies beside it. Others have such names."""
    return paths.sidecar(transcript).is_dir() or reader.begins_session(transcript)


def _measured_file(path: Path) -> Directory:
    status = os.lstat(path)
    return {(status.st_dev, status.st_ino): Stored(status.st_blocks * _BLOCK_BYTES, 1, status.st_nlink)}


def _remove_emptied(root: Path, directory: Path) -> None:
    """Remove the directory of a project if nothing is left in it. Whoever needs it just now makes it again."""
    if directory != root / "projects":
        with contextlib.suppress(OSError):
            os.rmdir(directory)


# -- in a host -----------------------------------------------------------------------------------------------------


class Pass:
    """The one pass of this process over one root.

    Attributes:
        done: What it did so far.
    """

    def __init__(self) -> None:
        self.done: list[Pruned] = []
        self._spared: set[Path] = set()
        self._begun = False
        self._guard = threading.Lock()

    def spare(self, transcript: Path) -> None:
        """Leave a session alone: it is being opened here. Who looks into one and closes it again finds it again."""
        self._spared.add(Path(os.path.realpath(transcript)))

    def is_spared(self, transcript: Path) -> bool:
        """Tell whether a session is left alone."""
        return Path(os.path.realpath(transcript)) in self._spared

    def begin(self, work: Callable[[], Iterator[Pruned]]) -> None:
        """Let the pass be made in the background, unless it was begun. Never fails and never waits.

        Args:
            work: Makes it, session by session.
        """
        with self._guard:
            if self._begun:
                return
            self._begun = True
        with contextlib.suppress(RuntimeError):  # no thread can be begun any more: another process will do it
            threading.Thread(target=self._run, args=(work,), name="sessions-retention", daemon=True).start()

    def _run(self, work: Callable[[], Iterator[Pruned]]) -> None:
        with contextlib.suppress(Exception):  # nobody asked for it, so it has nobody to complain to
            for each in work():
                self.done.append(each)
                if _ending.is_set():
                    return


_passes: dict[Path, Pass] = {}
_ending = threading.Event()


def pass_over(root: Path) -> Pass:
    """Return the pass of this process over a root, begun or not. A forked child has its own."""
    return _passes.setdefault(Path(os.path.realpath(root)), Pass())


atexit.register(_ending.set)
os.register_at_fork(after_in_child=_passes.clear)
