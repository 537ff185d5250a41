"""Sessions of coding agents: kept, listed, and taken back to any prompt.

The design in a page
====================

**Data first.** A session is a transcript, ``<root>/projects/<encoded workdir>/<id>.jsonl``, one JSON object a line,
and a sidecar ``<id>.ckpt`` beside it::

    lock                     held while the session is open for writing; who holds it
    timeline.jsonl           the code timeline: turns, captures, rewinds; only appended to (`sessions.rewind.timeline`)
    captures.lock            held for each append to it
    turn-<n>.json, turns/    snapshots of files before and after edits (`sessions.rewind.payloads`)
    tasks/<task>/            a task's processes, output and end (`sessions.subagents.folder`)
    undo/<record>/           what a rewind replaced (`sessions.rewind.journal`)
    intent.json              a rewind that is being carried out; gone when it is done
    torn/                    fragments a crash left at the end of the transcript
    untitled                 the transcript, in the state named there, has no title (`sessions.transcript.untitled`)
    deleted                  without a transcript beside it, all this goes (`sessions.leftovers`)

**Who may touch them.** Readers touch nothing. One writer at a time holds ``lock``. Only a rewind and its undo rewrite a
transcript; all else appends. Files of the user are changed by `sessions.rewind.changing` alone, below the directories
the session was opened with, and only those an edit captured.

**One timeline, one transaction, one lock rule.** Edits of all writers are captured in one log, in order. Going back to
a prompt means: every path captured after it gets the state before its first capture after it. The transaction
(`sessions.rewind.engine`) stages what it will replace, then writes its intent in one rename: before that nothing
happened, after it everything will. The session's lock guards transcript and rewind; the captures' lock, taken second
and for short, guards the log.

**Places on it.** A prompt is a place; a mark is one inside its turn, and ends the touches so far, so that what a path
was there is on record. A run is a label on turns: taking it back means the state before its first touch of each path,
and what others edited since is a conflict. A diff is the same log read forward: from the state before the first edit
to the one recorded after the last (`sessions.rewind.changes`), never the working tree, but for what is being edited
right now (`sessions.rewind.ongoing`).

**Background work.** A task is a real process under a supervisor of its own (`sessions.subagents.supervising`), a
process the host owns, or work inside the host. That it was started, in which turn, and how it ended stands on the
timeline; what runs is computed when somebody asks (`sessions.subagents.roster`), so no manager needs to have been
there. A subagent has a session beside its root's: its own transcript and lock, but its edits are captured on the
root's timeline, in the turn whose message started it. Going back (`sessions.going_back`) first stops what was started
from there on, with the session free, until nobody of it is found (`sessions.subagents.cancelling`); then it plans
again, and the transaction moves the subagents' sessions into the undo record. What a turn that stays still does later,
by a task of its own, is not taken back.

**Lists** (`sessions.overview`) read names, what the system says of each file, and the two ends of those that changed
since the last list: the rows of the others lie in ``<root>/cache`` (`sessions.row_cache`), which anybody may remove,
with notes of what was resumed within a day (`sessions.resumed`), which spare it from retention. Which project a session
belongs to is what its header says; the name of its directory proves nothing.

**Forks** (`sessions.forks`) carry lines, timeline and linked snapshots of their parent, and need it no more. One that a
rewind goes on in is made where nobody sees it and published by the transaction (`sessions.rewind.offshoots`).

**Layers.** ``cli`` > ``picker`` > ``store`` > ``session`` > ``tasks`` > ``forks`` > ``rewind`` > ``subagents`` >
``transcript`` > ``files``, ``paths`` > ``errors``, ``ids``, ``clock``; an import points down. ``import sessions`` alone
loads none.

**Limits.** Snapshots of old turns and old undo records, with the logs of tasks that only those could bring back, are
removed when a turn or a rewind ends (`sessions.rewind.pruning`). The timeline goes on knowing of them: a file that
would need one is left alone, and named. Whole sessions go only where the settings say so (`sessions.retiring`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessions.belonging import Belonging as Belonging
    from sessions.belonging import Where as Where
    from sessions.compaction import Compaction as Compaction
    from sessions.errors import AmbiguousError as AmbiguousError
    from sessions.errors import BusyError as BusyError
    from sessions.errors import ConflictError as ConflictError
    from sessions.errors import DataError as DataError
    from sessions.errors import IncompleteError as IncompleteError
    from sessions.errors import LockedError as LockedError
    from sessions.errors import NotFoundError as NotFoundError
    from sessions.errors import NothingToUndoError as NothingToUndoError
    from sessions.errors import RequestError as RequestError
    from sessions.errors import SessionsError as SessionsError
    from sessions.errors import StaleError as StaleError
    from sessions.errors import UnstoppableError as UnstoppableError
    from sessions.forks import ForkPlan as ForkPlan
    from sessions.grepping import Hit as Hit
    from sessions.joining import subagent_from_env as subagent_from_env
    from sessions.listing import SessionInfo as SessionInfo
    from sessions.rewind.diff import Diff as Diff
    from sessions.rewind.diff import FileDiff as FileDiff
    from sessions.rewind.plan import Checkpoint as Checkpoint
    from sessions.rewind.plan import Conflict as Conflict
    from sessions.rewind.plan import FileVerdict as FileVerdict
    from sessions.rewind.plan import Gap as Gap
    from sessions.rewind.plan import Mark as Mark
    from sessions.rewind.plan import Plan as Plan
    from sessions.rewind.plan import Report as Report
    from sessions.rewind.plan import RewindRecord as RewindRecord
    from sessions.rewind.plan import StoppedTask as StoppedTask
    from sessions.rewind.plan import TouchedFile as TouchedFile
    from sessions.session import Session as Session
    from sessions.store import SessionStore as SessionStore
    from sessions.task import Task as Task
    from sessions.tasks import Tasks as Tasks
    from sessions.transcript.messages import Message as Message
    from sessions.transcript.messages import assistant_message as assistant_message
    from sessions.transcript.messages import user_message as user_message
    from sessions.transcript.outline import Finding as Finding
    from sessions.turn import Edit as Edit
    from sessions.turn import Turn as Turn
    from sessions.upkeep import Checked as Checked
    from sessions.upkeep import Pruned as Pruned

if sys.platform == "win32":
    raise ImportError("sessions does not run on Windows yet: it needs flock, fsync of directories and POSIX signals")

_HOMES = {
    "sessions.compaction": ("Compaction",),
    "sessions.joining": ("subagent_from_env",),
    "sessions.errors": (
        "AmbiguousError", "BusyError", "ConflictError", "DataError", "IncompleteError", "LockedError", "NotFoundError",
        "NothingToUndoError", "RequestError", "SessionsError", "StaleError", "UnstoppableError",
    ),
    "sessions.forks": ("ForkPlan",),
    "sessions.belonging": ("Belonging", "Where"),
    "sessions.grepping": ("Hit",),
    "sessions.listing": ("SessionInfo",),
    "sessions.rewind.diff": ("Diff", "FileDiff"),
    "sessions.rewind.plan": (
        "Checkpoint", "Conflict", "FileVerdict", "Gap", "Mark", "Plan", "Report", "RewindRecord", "StoppedTask",
        "TouchedFile",
    ),
    "sessions.session": ("Session",),
    "sessions.store": ("SessionStore",),
    "sessions.task": ("Task",),
    "sessions.tasks": ("Tasks",),
    "sessions.transcript.messages": ("Message", "assistant_message", "user_message"),
    "sessions.transcript.outline": ("Finding",),
    "sessions.turn": ("Edit", "Turn"),
    "sessions.upkeep": ("Checked", "Pruned"),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - a table says it once


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sessions' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
