"""What can go wrong, by whose move it is next.

Four families, and nothing else leaves the public API besides ``OSError``. Front ends map families, never leaves:

===================  ====  ======  ==========================================================
family               exit  HTTP    whose move
===================  ====  ======  ==========================================================
``RequestError``     3     404/400 the caller's: no such thing, ambiguous, nothing to undo
``DataError``        4     422     the file's: damaged so that the job cannot be done
``ConflictError``    5     409/423 somebody else's: locked, busy, stale, changed meanwhile
``IncompleteError``  6     500     ours: stopped half-way; ``sessions check`` finishes it
===================  ====  ======  ==========================================================

Errors take data and build their message: one line, no trailing period, ready for a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class SessionsError(Exception):
    """The base of all errors of this package.

    Attributes:
        code: A stable word for programs (``{"error": {"code": …}}``).
        exit_code: What the command line exits with.
        details: Plain data a program may want, shown in JSON beside ``code`` and ``message``.
    """

    code = "error"
    exit_code = 1

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return self.message

    def add(self, said: str, **details: object) -> None:
        """Say more: what became of things before it failed."""
        self.message = f"{self.message}; {said}"
        self.details |= details


class RequestError(SessionsError):
    """What was asked for does not exist, is not unique, or makes no sense."""

    code = "bad_request"
    exit_code = 3


class NotFoundError(RequestError):
    """Nothing matches the given session, checkpoint, rewind or run."""

    code = "not_found"

    def __init__(self, what: str, given: object, *, hint: str = "") -> None:
        super().__init__(f"no {what} matches {given!r}" + (f"; {hint}" if hint else ""), what=what, given=given)


class AmbiguousError(RequestError):
    """Several things match; the candidates are listed."""

    code = "ambiguous"

    def __init__(self, what: str, given: str, candidates: Sequence[str]) -> None:
        shown = ", ".join(candidates[:8]) + (f" and {len(candidates) - 8} more" if len(candidates) > 8 else "")
        super().__init__(f"{given!r} matches {len(candidates)} {what}s: {shown}", candidates=list(candidates))


class NothingToUndoError(RequestError):
    """There is no rewind left to take back, or none to redo."""

    code = "nothing_to_undo"

    def __init__(self, what: str = "undo", why: str = "") -> None:
        super().__init__(f"nothing to {what}" + (f": {why}" if why else ""))


class DataError(SessionsError):
    """A file is damaged so that the job cannot be done; it was left as it is."""

    code = "damaged"
    exit_code = 4


class ConflictError(SessionsError):
    """Somebody else's work stands in the way; nothing was changed."""

    code = "conflict"
    exit_code = 5


class LockedError(ConflictError):
    """Another process writes this session."""

    code = "locked"

    def __init__(self, session_id: str, pid: int | None, command: str | None) -> None:
        owner = "another process" if pid is None else f"process {pid}" + (f" ({command})" if command else "")
        super().__init__(f"session {session_id} is open in {owner}", pid=pid, command=command)


class BusyError(ConflictError):
    """The session is inside an open turn."""

    code = "busy"

    def __init__(self, what: str) -> None:
        super().__init__(f"cannot {what} while a turn is open; end the turn first")


class UnstoppableError(ConflictError):
    """Background work could not be stopped for certain."""

    code = "unstoppable"

    def __init__(self, survivors: Mapping[str, Sequence[int]]) -> None:
        named = "; ".join(
            name + (f": process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids))}" if pids else "")
            for name, pids in survivors.items()
        )
        super().__init__(f"could not stop {named}", survivors={name: list(pids) for name, pids in survivors.items()})


class StaleError(ConflictError):
    """The plan no longer describes what is there."""

    code = "stale"

    def __init__(self, what_changed: str) -> None:
        super().__init__(f"the plan is stale: {what_changed}; plan again")


class IncompleteError(SessionsError):
    """A step stopped half-way and could neither be finished nor taken back."""

    code = "incomplete"
    exit_code = 6
