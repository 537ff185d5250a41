"""What a session can do about forks of itself: make one, make one as part of a rewind, remove one nobody went on in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sessions import forks, paths
from sessions.errors import ConflictError, SessionsError
from sessions.hold import Hold
from sessions.place import Place
from sessions.rewind.offshoots import Offshoot, Offshoots
from sessions.rewind.recorded import Step
from sessions.rewind.targets import Reference, Target
from sessions.transcript.writer import Writer


class Child(Protocol):
    """A session that is being made."""

    id: str
    hold: Hold

    def close(self) -> None:
        """Give the lock back."""


S = TypeVar("S", bound=Child)


class Offspring(Generic[S]):
    """The forks of one session.

    Args:
        begin: Opens a session of which nothing is written yet.
        drop: Removes a session, unless what it is given raises when the session's lock is held.
    """

    def __init__(
        self,
        parent: forks.Parent,
        place: Place,
        *,
        begin: Callable[[Place], S],
        drop: Callable[[Path, Callable[[], None]], object],
    ) -> None:
        self._parent = parent
        self._place = place
        self._begin = begin
        self._drop = drop
        self._offshoots = Offshoots(place.transcript.parent)

    def fork(self, at: Reference | None, *, title: str | None, workdir: str | os.PathLike[str] | None) -> S:
        """Make a fork; see ``Session.fork``."""
        with forks.reading(self._parent) as source:
            end, design = forks.after(source, at), forks.design(source, title=title, workdir=workdir)
            with self._begun(design) as child:
                forks.build(source, end, design, self._writer(design))
                return child

    def plan(
        self, at: Reference | None, *, title: str | None, workdir: str | os.PathLike[str] | None
    ) -> forks.ForkPlan:
        """Say what ``fork`` would make."""
        with forks.reading(self._parent) as source:
            end, design = forks.after(source, at), forks.design(source, title=title, workdir=workdir)
            return forks.ForkPlan(design.title, design.workdir, forks.count_messages(source, end))

    @contextlib.contextmanager
    def off(self, target: Target) -> Iterator[tuple[S, Offshoot]]:
        """Give a fork up to a place, as the transaction of a rewind publishes it; it is closed where that fails."""
        with self._staged(lambda source: forks.at_target(source, target)) as staged:
            yield staged

    @contextlib.contextmanager
    def again(self, step: Step) -> Iterator[tuple[S, Offshoot]]:
        """Give the fork of a rewind once more, for its redo."""
        with self._staged(lambda source: forks.before(source, step.to, mark=step.mark)) as staged:
            yield staged

    def remove(self, fork: Offshoot) -> str | None:
        """Remove a fork in which nobody went on; say in a sentence that it went or why it stays; None: it was gone."""
        transcript = self._offshoots.transcript(fork)
        if not transcript.exists():
            return None
        if not self._offshoots.is_as_made(fork):
            return f"the fork {fork.id} has gone on and stays"
        try:
            self._drop(transcript, lambda: self._refuse_gone_on(fork))
        except (SessionsError, OSError) as error:
            return f"the fork {fork.id} stays: {error}"
        return f"the fork {fork.id} was removed"

    def _refuse_gone_on(self, fork: Offshoot) -> None:
        if not self._offshoots.is_as_made(fork):
            raise ConflictError("somebody went on in it")

    @contextlib.contextmanager
    def _staged(self, end_in: Callable[[forks.Source], forks.End]) -> Iterator[tuple[S, Offshoot]]:
        with forks.reading(self._parent) as source:
            end, design = end_in(source), forks.design(source)
            with self._begun(design) as child:
                yield child, forks.stage(source, end, design)

    @contextlib.contextmanager
    def _begun(self, design: forks.Design) -> Iterator[S]:
        child = self._begin(
            replace(
                self._place,
                session_id=design.session_id,
                transcript=design.transcript,
                header=design.header,
                new_header=design.header.raw if design.header is not None else None,
                workdir=design.workdir,
                touches=design.touches,
                created_at=design.created_at,
            )
        )
        try:
            child.hold.take()
            yield child
        except BaseException:
            child.close()
            raise

    def _writer(self, design: forks.Design) -> Writer:
        header = design.header.raw if design.header is not None else None
        sidecar = paths.sidecar(design.transcript)
        return Writer(design.transcript, sidecar=sidecar, session_id=design.session_id, header=header)
