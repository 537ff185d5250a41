"""When a plan may not be carried out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from sessions.errors import ConflictError, NotFoundError, RequestError, StaleError
from sessions.rewind.files_plan import FilesPlan
from sessions.rewind.needs import above_and_itself
from sessions.rewind.plan import Conflict, OnConflict, OnConflicts, Plan
from sessions.subagents.record import TaskRecord

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Policies:
    """What becomes of the files somebody else changed: ``default``, and by identity what differs from it."""

    default: OnConflict
    by_path: Mapping[str, OnConflict] = field(default_factory=dict)

    def of(self, path: str) -> OnConflict:
        """Return the policy for an identity: its own, else that of the nearest directory above that has one."""
        while self.by_path and len(path) > 1:
            if path in self.by_path:
                return self.by_path[path]
            path = path.rpartition("/")[0]
        return self.default

    def names(self, path: str) -> bool:
        """Tell whether the policy for an identity is not just the default."""
        return any(above in self.by_path for above in above_and_itself(path))

    def refuse_unknown(self, known: Iterable[str], shown: Callable[[str], str]) -> None:
        """Refuse paths with a policy of their own that are none of those known, nor above one: a slip costs a file.

        Raises:
            NotFoundError: There are such.
        """
        if not self.by_path:
            return
        there = {above for path in known for above in above_and_itself(path)}
        if missing := [shown(path) for path in self.by_path if path not in there]:
            raise NotFoundError("file concerned", ", ".join(missing), hint="on_conflict names it; nothing was changed")


def policies(given: OnConflicts, *, identify: Callable[[str], str], default: OnConflict) -> Policies:
    """Return the policies a host asked for.

    Args:
        identify: Turns a path as given into an identity.
        default: For the paths nothing is said of.

    Raises:
        RequestError: Something is no policy.
    """
    said = given if isinstance(given, Mapping) else {None: given}
    for policy in said.values():
        if policy not in get_args(OnConflict):
            raise RequestError(f"on_conflict is {policy!r}, not one of {', '.join(get_args(OnConflict))}")
    by_path = {identify(path): policy for path, policy in said.items() if path is not None}
    return Policies(said.get(None, default), by_path)


def objection(conflicts: Sequence[Conflict], unverified: Sequence[str], *, since: str) -> str | None:
    """Say why a plan is refused; None where nothing stands against it.

    Args:
        conflicts: Those for which the policy is ``refuse``.
        unverified: The paths, as shown, of files nobody knows the agent's end state of; likewise.
        since: What a file must not have changed after, such as ``the agent's last edit``.
    """
    changed = [f"{each.path} ({each.found})" for each in conflicts]
    if changed:
        them = "it" if len(changed) == 1 else "them"
        said = f"{_count(changed)} not as {since} left {them}: {_named(changed)}"
        return f"{said}; on conflict 'keep' leaves {them} alone, and 'overwrite' replaces {them}"
    if unverified:
        said = f"nobody recorded what {since} left of {_count(unverified)}: {_named(unverified)}"
        return f"{said}; on conflict 'overwrite' replaces {'it' if len(unverified) == 1 else 'them'} all the same"
    return None


def running(tasks: Sequence[TaskRecord]) -> str | None:
    """Say which tasks run, where they are not to be stopped; None where none does."""
    if not tasks:
        return None
    named = _named([f"{task.label!r} ({task.id})" for task in tasks])
    are, them = (" is", "it") if len(tasks) == 1 else ("s are", "them")
    return f"{len(tasks)} task{are} running: {named}; on running 'cancel' stops {them}"


def still_running(tasks: Sequence[TaskRecord]) -> str | None:
    """Say which tasks began while others were stopped; None where none did."""
    named = _named([f"{task.label!r} ({task.id})" for task in tasks])
    return f"work was started meanwhile: {named}; try again" if tasks else None


def incomplete(plan: Plan) -> str | None:
    """Say which files an undo could not put back; None where it puts back all."""
    lost = [
        f"{file.path} ({file.note or file.reason})"
        for file in plan.files
        if file.action == "skip" and file.reason and not file.note.startswith("kept")
    ]
    said = f"{_count(lost)} cannot be put back: {_named(lost)}"
    return f"{said}; on conflict 'keep' or 'overwrite' the rest is put back all the same" if lost else None


def refuse(plan: Plan, *, left: Sequence[TaskRecord] = (), stopped: bool = False) -> None:
    """Refuse a plan there is an objection against.

    Args:
        left: Tasks that are to be gone by now.
        stopped: Whether tasks were stopped for it already.

    Raises:
        ConflictError: There is one.
    """
    why = plan.refused or still_running(left)
    if why is not None:
        error = ConflictError(
            f"{why}; {'conversation and files are as they were' if stopped else 'nothing was changed'}"
        )
        if plan.on_running == "refuse" and plan.tasks:
            error.details["running"] = [task.to_json() for task in plan.tasks]
        raise error


def _count(files: Sequence[str]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}"


def _named(files: Sequence[str]) -> str:
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return ", ".join(files[:_NAMED]) + more


def refuse_changed_files(
    given: FilesPlan, fresh: FilesPlan, shown: Callable[[str], str], *, stopping: Collection[str] = ()
) -> None:
    """Refuse a plan whose verdict on a file no longer holds, or that would overwrite something else now.

    Args:
        stopping: The files that background work edits which the plan stops. Of these nothing is said, nor of those that
            work which goes on may write at any moment, nor of the directories they lie in.

    Raises:
        StaleError: The same plan made now says something else of a file.
    """
    before = {(file.path, file.action, file.reason) for file in given.verdicts}
    after = {(file.path, file.action, file.reason) for file in fresh.verdicts}
    found = {(change.path, change.before.state) for change in given.changes}
    finds = {(change.path, change.before.state) for change in fresh.changes}
    written = {change.path for change in (*given.changes, *fresh.changes) if change.unsteady}.union(stopping)
    quiet = {above for path in written for above in above_and_itself(path)}  # a directory goes if nothing is in it
    verdicts = {path for path, _, _ in before ^ after} - {shown(path) for path in quiet}
    changed = sorted(verdicts or {shown(path) for path, _ in found ^ finds if path not in quiet})
    if changed:
        raise StaleError(f"{changed[0]} changed since" + (f", and {len(changed) - 1} more" if len(changed) > 1 else ""))
