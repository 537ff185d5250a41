"""Going back with a session, in two steps: first its work is stopped, then all is changed at once.

===  ======================================  ===========================================================================
 #   step                                    the session meanwhile
===  ======================================  ===========================================================================
 1   plan, and refuse what must be           locked
 2   stop the tasks that go, until nobody    free: work inside the host may need it to end. Nothing can be begun
     is left; end the subagents' sessions
 3   plan again, compare, carry out          locked
===  ======================================  ===========================================================================

Processes are not transactional: what fails in 3 says which tasks are gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from sessions.errors import ConflictError, SessionsError, UnstoppableError
from sessions.hold import Hold
from sessions.rewind.background import NOTHING_STOPPED, Background, Stopped
from sessions.rewind.basis import planned_work
from sessions.rewind.engine import Engine
from sessions.rewind.offshoots import Forks
from sessions.rewind.options import Options
from sessions.rewind.plan import Going, OnConflicts, Plan, Report, StoppedTask
from sessions.rewind.relocating import Children
from sessions.rewind.rewinder import Rewinder
from sessions.rewind.targets import Reference
from sessions.rewind.undoer import Undoer
from sessions.work import Work


class GoingBack:
    """Rewinds, undoes and redoes; a session that is deleted goes back to nothing.

    Args:
        session: What a report gives to go on with.
        children: The sessions of its subagents.
        dismiss: Ends those that are open in this process; returns which were.
        after: Done, with the session locked, when something was changed.
    """

    def __init__(
        self,
        hold: Hold,
        engine: Engine,
        rewinder: Rewinder,
        undoer: Undoer,
        work: Work,
        *,
        session: Going,
        forks: Forks,
        children: Children,
        dismiss: Callable[[Sequence[str]], list[str]],
        after: Callable[[], None],
    ) -> None:
        self._hold = hold
        self._engine = engine
        self._rewinder = rewinder
        self._undoer = undoer
        self._work = work
        self._session = session
        self._forks = forks
        self._children = children
        self._dismiss = dismiss
        self._after = after

    def rewind(self, to: Plan | Reference | None, options: Options) -> Report:
        """Carry out a rewind; see ``Session.rewind``."""
        return self._go("rewind", self._rewinder, lambda: self._rewinder.prepare(to, options))

    def reverse(
        self, kind: str, what: str | Plan | None, paths: Sequence[str] | None, on_conflict: OnConflicts
    ) -> Report:
        """Carry out an undo or a redo; see ``Session.undo_rewind``."""
        return self._go(
            kind, self._undoer, lambda: self._undoer.prepare(kind, what, on_conflict=on_conflict, paths=paths)
        )

    def _go(self, what: str, doer: Rewinder | Undoer, prepare: Callable[[], Plan]) -> Report:
        with self._hold.alone(what):
            with self._hold.ready(what):
                plan = prepare()
                work = planned_work(plan)
                self._refuse_written(work)
                if work.is_empty:  # then nobody needs the session meanwhile
                    return self._carry_out(doer, plan, NOTHING_STOPPED)
            try:
                stopped = self._stop(lambda: doer.work(plan))
            except UnstoppableError as error:
                error.add("conversation and files are as they were")
                raise
            with _saying(stopped.tasks), self._hold.ready(what):
                return self._carry_out(doer, plan, stopped)

    @contextlib.contextmanager
    def leaving(
        self,
        what: str,
        going: Callable[[], Background],
        *,
        refuse: Callable[[], object],
        done: list[StoppedTask] | None = None,
        stops: bool = True,
    ) -> Iterator[None]:
        """Give the session, locked, to be removed: all that goes with it was stopped, and nobody begins anything.

        Args:
            going: Returns what of the background goes, as of now.
            refuse: Raises where the session is to stay; asked before anything is stopped, and once more at the end.
            done: Gets the tasks that were stopped, also where an error follows.
            stops: Whether tasks are stopped; else one that runs is a reason to stay, and nothing is settled either.

        Raises:
            BusyError: A turn is open.
            ConflictError: A task runs that is not to be stopped.
            LockedError: Another process has the session of one of its subagents open.
            UnstoppableError: A task of it cannot be stopped.
        """
        with self._hold.alone(what):
            refuse()
            self._refuse_written(going())
            if not stops:
                refuse_running(going())
            stopped = self._stop(going, done) if stops else NOTHING_STOPPED
            with _saying(stopped.tasks), self._hold.ready(what), self._children.claimed(going().children):
                refuse()
                yield

    def _refuse_written(self, work: Background) -> None:
        """Refuse to end the session of a subagent that another process writes and that no task takes along.

        Raises:
            LockedError: There is one.
        """
        with self._children.claimed((each for each in work.children if each not in work.authors), but_own=True):
            pass

    def _carry_out(self, doer: Rewinder | Undoer, plan: Plan, stopped: Stopped) -> Report:
        report = doer.carry_out(self._engine, plan, self._session, stopped=stopped, forks=self._forks)
        self._after()
        return report

    def _stop(self, going: Callable[[], Background], done: list[StoppedTask] | None = None) -> Stopped:
        """Stop what goes, until nothing is left: what is being stopped may still start something."""
        stopped = done if done is not None else []
        ended: list[str] = []
        with _saying(stopped):
            while True:
                work = going()
                self._work.stopping.cancel(work.tasks, done=stopped)
                dismissed = self._dismiss(work.children)
                ended += dismissed
                if not (work.tasks or dismissed):  # one that was still open may have started something
                    break
            settled = self._work.settle_gone(work.ended)
        return Stopped(tuple(stopped), tuple(ended), tuple(settled))


def refuse_running(work: Background) -> None:
    """Refuse to remove what is needed by background work that is still there.

    Raises:
        ConflictError: There is some; it is named.
    """
    if work.tasks:
        raise ConflictError(f"its background work is not over: {', '.join(task.label for task in work.tasks)}")


@contextlib.contextmanager
def _saying(stopped: Sequence[StoppedTask]) -> Iterator[None]:
    """Let an error say which tasks are gone all the same."""
    try:
        yield
    except KeyboardInterrupt as error:
        if error.args or not stopped:  # else it came between two steps, and nobody said so yet
            raise
        raise KeyboardInterrupt(f"interrupted; ended: {', '.join(task.label for task in stopped)}") from error
    except SessionsError as error:
        if stopped:
            gone = ", ".join(task.label for task in stopped)
            if "cancelled" not in error.details:  # else it says so itself
                error.add(f"stopped meanwhile: {gone}")
            error.details["cancelled"] = [task.to_json() for task in stopped]
        raise
    except OSError as error:
        if not stopped or error.errno is None:
            raise
        gone = ", ".join(task.label for task in stopped)
        raise OSError(error.errno, f"{error.strerror}; stopped meanwhile: {gone}", error.filename) from error
