"""Who has which session open in this process; how one is opened, begun and removed.

A session that is open for writing is there once: whoever opens it again gets the same one, and the last one who closes
it closes it. Each reader has one of its own, of which nothing is known here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from sessions import catalog, clock, files, ids, leftovers, paths
from sessions import settings as settings_module
from sessions.errors import ConflictError, IncompleteError, NotFoundError, RequestError
from sessions.git import current_branch
from sessions.place import Place
from sessions.rewind.log import CaptureLog
from sessions.rewind.plan import StoppedTask
from sessions.session import Session
from sessions.settings import Retention, Settings
from sessions.subagent_sessions import begun, task_of
from sessions.transcript import reader
from sessions.transcript.header import header_line
from sessions.transcript.outline import Header, Link


class Opening:
    """Opens the sessions under one root, and knows those it has open for writing. Works from several threads.

    What one has open is locked for another one, as for another process.

    Args:
        root: The store's.
        gone: Told the directory of a transcript that was removed.

    Attributes:
        retention: What the settings said of it when they were last read here; None: they were not.
    """

    def __init__(self, root: Path, gone: Callable[[str], object]) -> None:
        self.retention: Retention | None = None
        self._root = root
        self._gone = gone
        self._sessions: dict[Path, Session] = {}
        self._guard = threading.RLock()

    def settings(self) -> Settings:
        """Read the settings of the store."""
        settings = settings_module.load(self._root)
        self.retention = settings.retention
        return settings

    # -- what is open ----------------------------------------------------------------------------------------------

    def named(self, session_id: str) -> Path | None:
        """Return the transcript of a session that is open for writing here; None where none of that id is."""
        with self._guard:
            return next((path for path, each in self._sessions.items() if each.id == session_id), None)

    def opened(self, transcript: Path) -> Session | None:
        """Return the session of a transcript where it is open for writing here."""
        with self._guard:
            return self._sessions.get(transcript)

    def _forget(self, session: Session) -> None:
        with self._guard:
            if self._sessions.get(session.path) is session:
                del self._sessions[session.path]

    # -- opening ---------------------------------------------------------------------------------------------------

    def open(
        self,
        transcript: Path,
        *,
        read_only: bool,
        add_dirs: Sequence[str | os.PathLike[str]] = (),
        settle: bool = True,
    ) -> Session:
        """Open the session of a transcript; see ``SessionStore.open``.

        Args:
            settle: Whether what ended without anybody there is settled; else nothing but what a crash left is written.
        """
        while True:
            with self._guard:
                known = self._sessions.get(transcript)
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
        try:
            place = self._place(transcript, add_dirs)
        except FileNotFoundError:
            raise _removed(transcript) from None
        session = self._session(place, read_only=read_only)
        try:
            if not read_only:
                session.hold.take()
                refuse_removed(transcript)
                leftovers.unmark(paths.sidecar(transcript))
                self._sessions[transcript] = session
        except BaseException:
            session.close()
            raise
        return session

    def _session(self, place: Place, *, read_only: bool = False) -> Session:
        return Session(
            place,
            self.settings(),
            read_only=read_only,
            on_close=self._forget,
            begin=self._begin,
            drop=self.delete,
            opened=self.opened,
        )

    def _place(self, transcript: Path, add_dirs: Sequence[str | os.PathLike[str]]) -> Place:
        summary = reader.summary(transcript, seeks_title=lambda: False)
        workdir = summary.header.workdir if summary.header is not None else None
        touches = workdir if workdir is not None and paths.resolved(workdir) is not None else None
        here = paths.current() if summary.header is None else None
        if here is not None and paths.project_directory(self._root, here) == transcript.parent:
            touches = here
        return Place(
            session_id=catalog.id_of(transcript),
            root=self._root,
            transcript=transcript,
            header=summary.header,
            new_header=summary.header.raw if summary.header is not None else None,
            workdir=workdir,
            touches=touches,
            created_at=summary.created_at,
            add_dirs=_texts(add_dirs),
        )

    # -- beginning -------------------------------------------------------------------------------------------------

    def create(self, workdir: str | os.PathLike[str], add_dirs: Sequence[str | os.PathLike[str]] = ()) -> Session:
        """Begin a session; see ``SessionStore.create``.

        Raises:
            RequestError: The directory is something else.
        """
        directory, now = os.path.realpath(workdir), clock.now()
        if os.path.exists(directory) and not os.path.isdir(directory):
            raise RequestError(f"not a directory: {directory}")
        session_id, branch = ids.new_session_id(), current_branch(directory)
        line = header_line(directory, created_at=clock.timestamp(now), git_branch=branch)
        transcript = paths.transcript_path(self._root, directory, session_id)
        header = Header(line, 0, directory, clock.timestamp(now), branch)
        place = Place(session_id, self._root, transcript, header, line, directory, directory, now, _texts(add_dirs))
        return self._begin(place)

    def subagent(self, root: Path, task: str, add_dirs: Sequence[str] = ()) -> Session:
        """Begin the session of a subagent; see ``SessionStore.subagent``.

        Args:
            root: The transcript of the session the user talks to.

        Raises:
            ConflictError: The task, or its session, is gone.
        """
        if not root.is_file():
            raise ConflictError(f"the session that started this process is gone: {root}")
        log = CaptureLog(paths.sidecar(root), make=False)
        record = task_of(log, task)
        link = Link(catalog.id_of(root), record.session, record.spawned_by)
        place = self._place(root, add_dirs)
        return self._begin(begun(place, link, turn=record.turn, label=record.label, task=task, log=log))

    def _begin(self, place: Place) -> Session:
        """Return a new session, open here; nothing of it is written yet."""
        session = self._session(place)
        with self._guard:
            self._sessions[place.transcript] = session
        return session

    # -- removing --------------------------------------------------------------------------------------------------

    def delete(
        self,
        transcript: Path,
        refuse: Callable[[], object] = lambda: None,
        stopped: list[StoppedTask] | None = None,
    ) -> None:
        """Remove a session, and stop its background tasks first; see ``SessionStore.delete``.

        Args:
            refuse: Raises where it is to stay; asked with the session's lock held.
            stopped: Gets the tasks that were stopped.
        """
        self._remove(transcript, refuse, stopped, stops=True)

    def remove(self, transcript: Path, refuse: Callable[[], object], families: leftovers.Families) -> None:
        """Remove a session, but stop nothing; see `retiring.Remover`. Where it stays, nothing of it was written.

        Args:
            refuse: As for ``delete``.
            families: Knows the subagents' transcripts, where several sessions go.
        """
        self._remove(transcript, refuse, stops=False, families=families)

    def refuse_running(self, transcript: Path) -> None:
        """Refuse to remove a session whose background work is not over; see `retiring.Remover`."""
        with self.open(transcript, read_only=True) as session:
            session.refuse_running()

    def _remove(
        self,
        transcript: Path,
        refuse: Callable[[], object],
        stopped: list[StoppedTask] | None = None,
        *,
        stops: bool,
        families: leftovers.Families | None = None,
    ) -> None:
        sidecar = paths.sidecar(transcript)
        leftovers.refuse_link(sidecar)
        with (
            self.open(transcript, read_only=False, settle=stops) as session,
            session.deleting(refuse, stopped, stops=stops),
        ):
            leftovers.mark(sidecar)
            os.unlink(transcript)
            files.sync_directory(transcript.parent)
            self._gone(str(transcript.parent))
            try:
                leftovers.remove(sidecar, families)
            except OSError as error:
                raise IncompleteError(f"the session is gone, some of its snapshots are not: {error}") from error


def refuse_removed(transcript: Path) -> None:
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
