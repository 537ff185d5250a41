"""All sessions under one root: make, find, list, check, prune and delete them."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from sessions import catalog, finding, ids, paths
from sessions.errors import (
    AmbiguousError,
    ConflictError,
    IncompleteError,
    NotFoundError,
    RequestError,
    SessionsError,
)
from sessions.overview import ListScope, Overview
from sessions.row_cache import RowCaches

if TYPE_CHECKING:
    from sessions import leftovers
    from sessions.belonging import Belonging
    from sessions.grepping import Hit
    from sessions.listing import SessionInfo
    from sessions.place import Place
    from sessions.retiring import Pass
    from sessions.rewind.plan import StoppedTask
    from sessions.session import Session
    from sessions.settings import Retention
    from sessions.upkeep import Checked, Pruned

    Reference = str | SessionInfo | Path


class _Open:
    """The sessions that are open here."""

    def __init__(self) -> None:
        self.sessions: dict[Path, Session] = {}
        self.guard = threading.RLock()


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
        self._open = _Open()
        self._rows = RowCaches(self.root) if cache else None
        self._retains = retention
        self._retention: Retention | None = None  # as of the last session that was opened

    # -- making and opening ----------------------------------------------------------------------------------------

    def create(self, workdir: str | os.PathLike[str], add_dirs: Sequence[str | os.PathLike[str]] = ()) -> Session:
        """Begin a session. Nothing is written before its first message.

        Args:
            workdir: The directory the agent works in.
            add_dirs: Further directories it may change.
        """
        from sessions import clock
        from sessions.git import current_branch
        from sessions.place import Place
        from sessions.transcript.header import header_line
        from sessions.transcript.outline import Header

        directory, now = os.path.realpath(workdir), clock.now()
        if os.path.exists(directory) and not os.path.isdir(directory):
            raise RequestError(f"not a directory: {directory}")
        session_id, branch = ids.new_session_id(), current_branch(directory)
        line = header_line(directory, created_at=clock.timestamp(now), git_branch=branch)
        transcript = paths.transcript_path(self.root, directory, session_id)
        header = Header(line, 0, directory, clock.timestamp(now), branch)
        place = Place(session_id, self.root, transcript, header, line, directory, directory, now, _texts(add_dirs))
        session = self._begin(place)
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
        session = self._open_at(transcript, read_only=read_only, add_dirs=add_dirs)
        self._let_retire(session, begins=not read_only)
        return session

    def _meant(self, reference: Reference) -> Path:
        if not isinstance(reference, str):
            transcript = self._transcript_of(reference)
            _refuse_removed(transcript)
            return transcript
        with self._open.guard:
            here = next((path for path, each in self._open.sessions.items() if each.id == reference), None)
        return here or self.find(reference)

    def _transcript_of(self, reference: SessionInfo | Path) -> Path:
        """Return the transcript that a row of a list of this store, or its path, names.

        Raises:
            RequestError: It names none.
        """
        from sessions.listing import SessionInfo

        if not isinstance(reference, SessionInfo | Path):
            raise RequestError(f"a session is named by a text, a row of a list or a transcript, not by {reference!r}")
        path = reference if isinstance(reference, Path) else reference.path
        if not catalog.is_transcript(path.name):
            raise RequestError(f"this is no transcript: {path}")
        if path.parent.parent == self.root / "projects":
            return path
        projects, directory = os.path.realpath(self.root / "projects"), os.path.realpath(path.parent)
        if os.path.commonpath([projects, directory]) != projects:
            raise RequestError(f"session {catalog.id_of(path)} is of another store: {path}")
        return self.root / "projects" / os.path.relpath(directory, projects) / path.name  # by the one name it has here

    def _open_at(
        self,
        transcript: Path,
        *,
        read_only: bool,
        add_dirs: Sequence[str | os.PathLike[str]] = (),
        settle: bool = True,
    ) -> Session:
        while True:
            with self._open.guard:
                known = self._open.sessions.get(transcript)
                if known is None:
                    session = self._open_here(transcript, read_only=read_only, add_dirs=add_dirs)
                    break
                if known.hold.share():
                    return known
            known.close()  # somebody does: this waits for them, and goes on where Ctrl-C broke it off
            self._forget(known)
        try:
            if settle and not read_only:
                session.settle()
        except BaseException:  # Ctrl-C: nobody would ever close it
            session.close()
            raise
        return session

    def _open_here(self, transcript: Path, *, read_only: bool, add_dirs: Sequence[str | os.PathLike[str]]) -> Session:
        from sessions import leftovers

        try:
            place = self._place(transcript, add_dirs)
        except FileNotFoundError:
            raise _removed(transcript) from None
        session = self._session(place, read_only=read_only)
        try:
            if not read_only:
                session.hold.take()
                _refuse_removed(transcript)
                leftovers.unmark(paths.sidecar(transcript))
                self._open.sessions[transcript] = session
        except BaseException:
            session.close()
            raise
        return session

    def _begin(self, place: Place) -> Session:
        """Return a new session, open here; nothing of it is written yet."""
        session = self._session(place)
        with self._open.guard:
            self._open.sessions[place.transcript] = session
        return session

    def _session(self, place: Place, *, read_only: bool = False) -> Session:
        from sessions import settings as settings_module
        from sessions.session import Session

        settings = settings_module.load(self.root)
        self._retention = settings.retention
        return Session(
            place,
            settings,
            read_only=read_only,
            on_close=self._forget,
            begin=self._begin,
            drop=self._drop,
            opened=self._opened,
        )

    def _opened(self, transcript: Path) -> Session | None:
        with self._open.guard:
            return self._open.sessions.get(transcript)

    def subagent(self, transcript: str | os.PathLike[str], task: str, add_dirs: Sequence[str] = ()) -> Session:
        """Begin the session of a subagent in a process that a task of another session started.

        Raises:
            ConflictError: The task, or its session, is gone.
        """
        from sessions.rewind.log import CaptureLog
        from sessions.subagent_sessions import begun, task_of
        from sessions.transcript.outline import Link

        root = Path(transcript)
        if not root.is_file():
            raise ConflictError(f"the session that started this process is gone: {root}")
        log = CaptureLog(paths.sidecar(root), make=False)
        record = task_of(log, task)
        link = Link(catalog.id_of(root), record.session, record.spawned_by)
        place = self._place(root, add_dirs)
        return self._begin(begun(place, link, turn=record.turn, label=record.label, task=task, log=log))

    def latest(self, workdir: str | os.PathLike[str]) -> SessionInfo | None:
        """Return the session of a directory that was touched last; None where there is none."""
        return next(iter(self.list(workdir, limit=1)), None)

    def _place(self, transcript: Path, add_dirs: Sequence[str | os.PathLike[str]]) -> Place:
        from sessions.place import Place
        from sessions.transcript import reader

        summary = reader.summary(transcript, seeks_title=lambda: False)
        workdir = summary.header.workdir if summary.header is not None else None
        touches = workdir if workdir is not None and paths.resolved(workdir) is not None else None
        here = _here() if summary.header is None else None
        if here is not None and paths.project_directory(self.root, here) == transcript.parent:
            touches = here
        return Place(
            session_id=catalog.id_of(transcript),
            root=self.root,
            transcript=transcript,
            header=summary.header,
            new_header=summary.header.raw if summary.header is not None else None,
            workdir=workdir,
            touches=touches,
            created_at=summary.created_at,
            add_dirs=_texts(add_dirs),
        )

    def _forget(self, session: Session) -> None:
        with self._open.guard:
            if self._open.sessions.get(session.path) is session:
                del self._open.sessions[session.path]

    # -- finding ---------------------------------------------------------------------------------------------------

    def find(self, reference: str, *, workdir: str | os.PathLike[str] | None = None) -> Path:
        """Return the transcript a reference names; see ``open``.

        Args:
            workdir: The directory whose session is meant where several projects have one of that id, else that of
                another worktree of its repository, else the one touched last; default: the current directory.
        """
        here = os.path.realpath(workdir) if workdir is not None else _here()
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
        if not isinstance(reference, str):
            return self._drop(self._meant(reference), lambda: None, stopped)
        found = self.find(reference)
        self.refuse_twins(catalog.id_of(found))
        return self._drop(found, lambda: None, stopped)

    def refuse_twins(self, session_id: str) -> None:
        """Refuse an id that sessions of several projects have.

        Raises:
            AmbiguousError: It is one; the candidates are their transcripts.
        """
        twins = catalog.named(self.root, session_id)
        if len(twins) > 1:
            raise AmbiguousError("session", session_id, [str(path) for path in twins])

    def _drop(
        self,
        transcript: Path,
        refuse: Callable[[], object],
        stopped: builtins.list[StoppedTask] | None = None,
        *,
        stops: bool = True,
        families: leftovers.Families | None = None,
    ) -> str:
        """Remove a session; see ``delete``.

        Args:
            refuse: Raises where it is to stay; asked with the session's lock held.
            stopped: Gets the tasks that were stopped.
            stops: Whether background tasks are stopped. Else one that runs is a reason to stay, and where the session
                stays nothing of it was written.
            families: Knows the subagents' transcripts, where several sessions go.
        """
        from sessions import files, leftovers

        sidecar = paths.sidecar(transcript)
        leftovers.refuse_link(sidecar)
        with (
            self._open_at(transcript, read_only=False, settle=stops) as session,
            session.deleting(refuse, stopped, stops=stops),
        ):
            leftovers.mark(sidecar)
            os.unlink(transcript)
            files.sync_directory(transcript.parent)
            if self._rows is not None:
                self._rows.discard(str(transcript.parent))
            try:
                leftovers.remove(sidecar, families)
            except OSError as error:
                raise IncompleteError(f"the session is gone, some of its snapshots are not: {error}") from error
        return session.id

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
        if reference is not None:
            return [self._check(self._meant(reference))]
        from sessions import leftovers, upkeep

        chosen = catalog.transcripts(self.root, unread=unread)
        families = leftovers.Families()
        upkeep.tidy(self.root)
        return [*(self._check(transcript, families) for transcript in chosen), *upkeep.sweep(self.root)]

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
        from sessions import settings as settings_module
        from sessions import upkeep

        retention = settings_module.load(self.root).retention
        agreed = None if confirmed is None else [each for each in confirmed if each.skipped is None]
        whole = None if agreed is None else {each.path for each in agreed if each.removed}
        partly = None if agreed is None else {each.path for each in agreed if not each.removed}
        retired = builtins.list(self._retiring(retention, dry_run=dry_run, confirmed=whole)) if retention.is_on else []
        gone = {each.path for each in retired if dry_run and each.removed}
        stay = {each.path for each in retired if each.skipped is not None}
        chosen = [
            path
            for path in catalog.transcripts(self.root, unread=unread)
            if path not in gone and (partly is None or path in partly)
        ]
        if not dry_run:
            upkeep.tidy(self.root)
        left = None if whole is None or partly is None else whole | partly
        shown = None if agreed is None else {each.path: each for each in agreed}
        pruned = upkeep.prune(self.root, chosen, self._open_at, undo=undo, dry_run=dry_run, confirmed=left, shown=shown)
        return [*retired, *(each for each in pruned if each.skipped is None or each.path not in stay)]

    @property
    def retired(self) -> tuple[Pruned, ...]:
        """What retention removed so far in the background of this process, or could not, and why."""
        if not self._retains or self._retention is None or not self._retention.is_on:
            return ()
        from sessions import retiring

        return tuple(retiring.pass_over(self.root).done)

    def _spare(self, transcript: Path) -> Pass | None:
        """Tell the retention of this process, where there is one, that a session is opened here; return it."""
        from sessions import settings as settings_module

        if self._retention is None:  # another store may have begun it
            self._retention = settings_module.load(self.root).retention
        if not self._retention.is_on:
            return None
        from sessions import retiring

        mine = retiring.pass_over(self.root)
        mine.spare(transcript)
        return mine

    def _let_retire(self, session: Session, *, begins: bool) -> None:
        """Begin the retention of this process, where the settings want one, now that a session is open."""
        try:
            mine, retention = self._spare(session.path), self._retention
            if begins and self._retains and mine is not None and retention is not None:
                mine.begin(lambda: self._retiring_all(retention, mine.is_spared))
        except BaseException:  # Ctrl-C: nobody would ever close it
            session.close()
            raise

    def _retiring_all(self, retention: Retention, spared: Callable[[Path], bool]) -> Iterator[Pruned]:
        """Make the pass of a host, and remove what is left of one that was broken off when its process ended."""
        from sessions import leftovers

        yield from self._retiring(retention, spared=spared)
        leftovers.sweep_marked(self.root)

    def _retiring(
        self,
        retention: Retention,
        *,
        dry_run: bool = False,
        spared: Callable[[Path], bool] = lambda _: False,
        confirmed: Container[Path] | None = None,
    ) -> Iterator[Pruned]:
        from sessions import retiring

        # Another store: what this one has open is then locked, as for everybody else.
        remover = _Remover(SessionStore(self.root, retention=False))
        return retiring.retire(self.root, retention, remover, dry_run=dry_run, spared=spared, confirmed=confirmed)

    def _check(self, transcript: Path, families: leftovers.Families | None = None) -> Checked:
        from sessions.transcript.outline import Finding
        from sessions.upkeep import Checked

        session_id = catalog.id_of(transcript)
        recovered: tuple[str, ...] = ()
        findings: builtins.list[Finding] = []
        try:
            with self._checking(transcript) as session:
                recovered = tuple(
                    f"{note.where}: {note.action}" for note in session.findings if note.kind.startswith("unfinished")
                )
                findings += session.check(families=families)
        except IncompleteError as error:
            findings.append(Finding("unfinished_rewind", str(error), "left as it is"))
        except (SessionsError, OSError) as error:
            findings.append(Finding("not_checked", str(error), "left as it is"))
        return Checked(session_id, tuple(findings), recovered)

    def _checking(self, transcript: Path) -> Session:
        try:
            return self._open_at(transcript, read_only=False)
        except IncompleteError:
            raise
        except SessionsError:
            return self._open_at(transcript, read_only=True)


def _here() -> str | None:
    try:
        return os.path.realpath(os.curdir)
    except FileNotFoundError:  # it was removed under us
        return None


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


class _Remover:
    """Removes sessions for the retention."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def refuse_running(self, transcript: Path) -> None:
        with self._store._open_at(transcript, read_only=True) as session:  # noqa: SLF001 - its own module
            session.refuse_running()

    def remove(self, transcript: Path, refuse: Callable[[], object], families: leftovers.Families) -> None:
        self._store._drop(transcript, refuse, stops=False, families=families)  # noqa: SLF001 - likewise


def _refuse_removed(transcript: Path) -> None:
    """Refuse to open what was removed between finding it and taking its lock: its next line would begin another one.

    Raises:
        NotFoundError: It was.
    """
    if not transcript.exists():
        raise _removed(transcript)


def _removed(transcript: Path) -> NotFoundError:
    return NotFoundError("session", catalog.id_of(transcript), hint="it was removed meanwhile")


def _texts(given: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    return tuple(os.fspath(each) for each in given)
