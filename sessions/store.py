"""All sessions under one root: make, find, list, check, prune and delete them."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from sessions import catalog, finding, paths
from sessions.errors import AmbiguousError, NotFoundError, RequestError
from sessions.listing import SessionInfo
from sessions.overview import ListScope, Overview
from sessions.row_cache import RowCaches

if TYPE_CHECKING:
    from sessions.belonging import Belonging
    from sessions.grepping import Hit
    from sessions.opening import Opening
    from sessions.rewind.plan import StoppedTask
    from sessions.session import Session
    from sessions.settings import Retention
    from sessions.upkeep import Checked, Pruned

Reference = str | SessionInfo | Path


class SessionStore:
    """The sessions under one root. Works from several threads; makes nothing on disk before a session does.

    Args:
        root: Default: ``$SESSIONS_HOME``, else the platform's user data directory. A relative one is made absolute at
            once: that the process changes its directory later changes nothing.
        retention: Whether the first session that is begun, or opened for writing, lets the sessions go that the
            settings keep no longer: in the background, once in a process, and only where the settings say so.
        cache: Whether rows of lists are kept below the root, so that a file that did not change is not read again.
    """

    def __init__(
        self, root: str | os.PathLike[str] | None = None, *, retention: bool = True, cache: bool = True
    ) -> None:
        self.root = paths.absolute(root) if root is not None else paths.default_root()
        self._rows = RowCaches(self.root) if cache else None
        self._retains = retention
        self._guard = threading.Lock()
        self._opened: Opening | None = None  # made by who needs it first: a list does not pay for it

    # -- making and opening ----------------------------------------------------------------------------------------

    def create(self, workdir: str | os.PathLike[str], add_dirs: Sequence[str | os.PathLike[str]] = ()) -> Session:
        """Begin a session. Nothing is written before its first message.

        Args:
            workdir: The directory the agent works in.
            add_dirs: Further directories it may change.
        """
        session = self._opening.create(workdir, add_dirs)
        self._let_retire(session, begins=True)
        return session

    def open(
        self,
        reference: Reference,
        *,
        read_only: bool = False,
        add_dirs: Sequence[str | os.PathLike[str]] = (),
    ) -> Session:
        """Open a session: one this store has open already is returned as it is.

        Args:
            reference: Its id, the beginning of its id, or its title; tried in this order. Where several projects have
                that id, the one ``find`` means. Or a row of a list, or a transcript: then exactly that session.
            read_only: Change nothing: no byte, no time, no lock, but for what cancelling a task records. Never fails
                for damage or a lock.

        Raises:
            NotFoundError: There is no such session.
            AmbiguousError: There are several; the candidates are listed.
            LockedError: Another process writes it.
            IncompleteError: A rewind stopped half-way in it and cannot be finished.
        """
        transcript = self._meant(reference)
        self._spare(transcript)
        session = self._opening.open(transcript, read_only=read_only, add_dirs=add_dirs)
        self._let_retire(session, begins=not read_only)
        return session

    def subagent(self, transcript: str | os.PathLike[str], task: str, add_dirs: Sequence[str] = ()) -> Session:
        """Begin the session of a subagent in a process that a task of another session started.

        Raises:
            ConflictError: The task, or its session, is gone.
        """
        return self._opening.subagent(Path(transcript), task, add_dirs)

    def latest(self, workdir: str | os.PathLike[str]) -> SessionInfo | None:
        """Return the session of a directory that was touched last; None where there is none."""
        return next(iter(self.list(workdir, limit=1)), None)

    @property
    def _opening(self) -> Opening:
        from sessions.opening import Opening

        with self._guard:
            if self._opened is None:
                self._opened = Opening(self.root, self._rows.discard if self._rows is not None else lambda _: None)
            return self._opened

    def _meant(self, reference: Reference) -> Path:
        if isinstance(reference, str):
            here = self._opened.named(reference) if self._opened is not None else None
            return here or self.find(reference)
        transcript = self._transcript_of(reference)
        if self._opened is None or self._opened.opened(transcript) is None:  # nothing of it may be written yet
            from sessions.opening import refuse_removed

            refuse_removed(transcript)
        return transcript

    def _transcript_of(self, reference: SessionInfo | Path) -> Path:
        """Return the transcript that a row of a list of this store, or its path, names.

        Raises:
            RequestError: It names none.
        """
        if not isinstance(reference, SessionInfo | Path):
            raise RequestError(f"a session is named by a text, a row of a list or a transcript, not by {reference!r}")
        path = reference if isinstance(reference, Path) else reference.path
        if not catalog.is_transcript(path.name) or (path.exists() and not path.is_file()):
            raise RequestError(f"this is no transcript: {path}")
        if path.parent.parent == self.root / "projects" and ".." not in path.parts:
            return path
        projects, directory = os.path.realpath(self.root / "projects"), os.path.realpath(path.parent)
        if os.path.commonpath([projects, directory]) != projects:
            raise RequestError(f"session {catalog.id_of(path)} is of another store: {path}")
        return self.root / "projects" / os.path.relpath(directory, projects) / path.name  # by the one name it has here

    # -- finding ---------------------------------------------------------------------------------------------------

    def find(self, reference: str, *, workdir: str | os.PathLike[str] | None = None) -> Path:
        """Return the transcript a reference names; see ``open``.

        Args:
            workdir: The directory whose session is meant where several projects have one of that id, else that of
                another worktree of its repository, else the one touched last; default: the current directory.
        """
        here = os.path.realpath(workdir) if workdir is not None else paths.current()
        return finding.find(self.root, reference, self._overview(), here=here)

    def belonging(self, row: SessionInfo, workdir: str | os.PathLike[str] | None = None) -> Belonging:
        """Say where a session belongs, seen from a directory.

        Args:
            row: A row of a list.
            workdir: The directory; None: none, so that every session is one of elsewhere.
        """
        from sessions.belonging import belonging

        return belonging(self.root, row, os.path.realpath(workdir) if workdir is not None else None)

    def list(
        self,
        workdir: str | os.PathLike[str] | None = None,
        scope: ListScope = "project",
        search: str | None = None,
        limit: int | None = None,
        *,
        children: bool = False,
        unread: builtins.list[OSError] | None = None,
    ) -> builtins.list[SessionInfo]:
        """Return the sessions, the one touched last first.

        Args:
            workdir: Whose sessions; default: the current directory.
            scope: ``project``; ``worktrees``: those of all worktrees of the same repository; or ``all``.
            search: Only those that hold each of its words in title, id, branch or any prompt (its first 8 192
                characters), the best first instead; see `searching` and, for very many prompts, `reader.prompt_texts`.
            limit: At most so many.
            children: Whether the sessions of subagents follow the session they belong to; they do not count, unless
                they are searched, too.
            unread: Gets why a transcript, or a directory of transcripts, cannot be read and is left out.
        """
        if scope not in get_args(ListScope):
            raise RequestError(f"scope is {scope!r}, not one of {', '.join(get_args(ListScope))}")
        if limit is not None and limit < 1:
            return []
        directory = _resolved(workdir) if scope != "all" else ""
        overview = self._overview(unread)
        rows = overview.rows(directory, scope, limit=limit if search is None else None)
        if children:
            rows = [*overview.with_children(rows)]
        if search is not None:
            from sessions import searching

            rows = searching.matching(rows, search, _prompts)[:limit]
        return rows

    def resuming(self, row: SessionInfo) -> None:
        """Note that somebody goes on with a session: no retention takes it within a day, though nobody has it open yet.

        Nothing of the session changes. Where it cannot be noted, nothing happens.
        """
        from sessions import resumed

        resumed.note(self.root, row.path)

    def grep(
        self,
        text: str,
        workdir: str | os.PathLike[str] | None = None,
        scope: ListScope = "project",
        limit: int | None = None,
        *,
        rows: Sequence[SessionInfo] | None = None,
        looking: Callable[[int], object] = lambda _: None,
        unread: builtins.list[OSError] | None = None,
    ) -> Iterator[tuple[SessionInfo, Iterator[Hit]]]:
        """Return the sessions with a text in their messages, in list order, and the lines it stands in, as found.

        Everything people read of what their files keep is searched; see `grepping`. One session is read at a time, as
        far as its hits are asked for.

        Args:
            text: As it stands; without capitals, in any case.
            workdir: As for ``list``, as ``scope`` is.
            limit: At most so many sessions.
            rows: The sessions to search, in this order, instead of those of a directory.
            looking: Told of each session, before it is read, how many were read.
            unread: Gets why a transcript, or a directory of transcripts, cannot be read and is left out.

        Raises:
            RequestError: The text is empty.
        """
        if not text:
            raise RequestError("an empty text stands everywhere")
        from sessions import grepping

        chosen = self.list(workdir, scope, unread=unread) if rows is None else rows
        return grepping.among(chosen, text, limit, looking=looking, unread=unread)

    def row(self, session: Session) -> SessionInfo:
        """Return what a list shows of a session, as its file is now.

        Raises:
            NotFoundError: It was removed, or nothing of it is written yet.
        """
        from sessions.listing import row_of

        try:
            return row_of(session.path)
        except FileNotFoundError:
            raise NotFoundError("session", session.id, hint=f"its transcript is gone: {session.path}") from None

    def worktrees(self, workdir: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
        """Return the worktrees of the repository a directory lies in, its own first; alone outside a repository."""
        from sessions.worktrees import Worktrees

        return Worktrees(_resolved(workdir)).roots

    def _overview(self, unread: builtins.list[OSError] | None = None) -> Overview:
        return Overview(self.root, caches=self._rows, unread=unread)

    # -- keeping in order ------------------------------------------------------------------------------------------

    def delete(self, reference: Reference, *, stopped: builtins.list[StoppedTask] | None = None) -> str:
        """Remove a session: transcript, snapshots and undo records. Return its id.

        Its background tasks are stopped first, also where an error follows. A crash meanwhile leaves the whole session,
        or leftovers that ``check`` removes and no list shows.

        Args:
            reference: As for ``open``; an id that two projects have names none.
            stopped: Gets the tasks that were stopped.

        Raises:
            AmbiguousError: Two projects have a session of that id; nothing was removed.
            LockedError: Somebody writes it, or one of its subagents' sessions; nothing was removed.
            ConflictError: Its sidecar is a symbolic link; nothing was removed.
            IncompleteError: The session is gone, but not all that belonged to it; ``check`` removes the rest.
        """
        if isinstance(reference, str):
            transcript = self.find(reference)
            self.refuse_twins(catalog.id_of(transcript))
        else:
            transcript = self._meant(reference)
        self._opening.delete(transcript, stopped=stopped)
        return catalog.id_of(transcript)

    def refuse_twins(self, session_id: str) -> None:
        """Refuse an id that sessions of several projects have.

        Raises:
            AmbiguousError: It is one; the candidates are their transcripts.
        """
        twins = catalog.named(self.root, session_id)
        if len(twins) > 1:
            raise AmbiguousError("session", session_id, [str(path) for path in twins])

    def recover(self) -> builtins.list[Checked]:
        """Finish what crashes left, in every session nobody has open."""
        return [checked for checked in self.check() if checked.recovered]

    def check(
        self, reference: Reference | None = None, *, unread: builtins.list[OSError] | None = None
    ) -> builtins.list[Checked]:
        """Look at every byte of one session, or of all, and finish what a crash left where nobody has it open.

        Args:
            reference: One session, as for ``open``; None: all.
            unread: Gets why a directory of transcripts, or what is called like one, cannot be looked at.

        Returns:
            A value for each session, in list order; damage is kept as it is and named.
        """
        meant = self._meant(reference) if reference is not None else None
        from sessions import upkeep

        if meant is not None:
            return [upkeep.check(meant, self._opening)]
        return upkeep.check_all(self.root, self._opening, unread=unread)

    def prune(
        self,
        *,
        undo: bool = False,
        dry_run: bool = False,
        confirmed: Iterable[Pruned] | None = None,
        unread: builtins.list[OSError] | None = None,
    ) -> builtins.list[Pruned]:
        """Remove what is beyond the limits: sessions the retention keeps no longer, bytes of the others, leftovers.

        Whole sessions go only where the settings say so. One that is open for writing, by whomever, stays.

        Args:
            undo: Whether of the undo records only the newest of a session stays, whatever the limits.
            dry_run: Only say what would go.
            confirmed: What a dry run said and somebody agreed to: what goes as a whole, or goes from others, is only
                what was said to, and of that only what still is beyond the limits; from a session of which more is
                beyond them by now nothing goes. None: all that is.
            unread: Gets why a directory of transcripts, or what is called like one, cannot be looked at, and stays.

        Returns:
            A value for each session that goes as a whole, or cannot, the one written longest ago first; then one for
            each that something goes from, or that cannot be pruned now, in list order.
        """
        from sessions import keeping

        return keeping.prune(self.root, self._opening, undo=undo, dry_run=dry_run, confirmed=confirmed, unread=unread)

    @property
    def retired(self) -> tuple[Pruned, ...]:
        """What retention removed so far in the background of this process, or could not, and why."""
        retention = self._opened.retention if self._opened is not None else None
        if not self._retains or retention is None or not retention.is_on:
            return ()
        from sessions import retiring

        return tuple(retiring.pass_over(self.root).done)

    def _spare(self, transcript: Path) -> Retention | None:
        """Tell the retention of this process, where the settings want one, that a session is opened here; return it."""
        opening = self._opening
        retention = opening.retention or opening.settings().retention  # another store may have begun it
        if not retention.is_on:
            return None
        from sessions import retiring

        retiring.pass_over(self.root).spare(transcript)
        return retention

    def _let_retire(self, session: Session, *, begins: bool) -> None:
        """Begin the retention of this process, where the settings want one, now that a session is open."""
        try:
            retention = self._spare(session.path)
            if begins and self._retains and retention is not None:
                from sessions import keeping

                keeping.let_retire(self.root, retention)
        except BaseException:  # Ctrl-C: nobody would ever close it
            session.close()
            raise


def _resolved(workdir: str | os.PathLike[str] | None) -> str:
    """Return the real path of a directory, of the current one where none is given.

    Raises:
        RequestError: The current directory was removed.
    """
    try:
        return os.path.realpath(workdir if workdir is not None else os.curdir)
    except FileNotFoundError:
        raise RequestError("the current directory was removed; sessions of all projects can be listed") from None


def _prompts(row: SessionInfo) -> builtins.list[str]:
    from sessions.transcript import reader

    try:
        return reader.prompt_texts(row.path)
    except OSError:  # it went, or may not be read: what the row says is all there is
        return []
