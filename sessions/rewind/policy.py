"""When a plan may not be carried out. Pure."""

from __future__ import annotations

from sessions.errors import ConflictError, StaleError
from sessions.rewind.plan import Plan

_NAMED = 3


def refuse_conflicts(plan: Plan) -> None:
    """Refuse a plan that asked for it.

    Raises:
        ConflictError: ``on_conflict`` is ``refuse``, and a file was changed by somebody else or nobody knows.
    """
    if plan.on_conflict != "refuse":
        return
    doubtful = [f"{each.path} ({each.found})" for each in plan.conflicts]
    doubtful += [f"{file.path} (unverified)" for file in plan.files if file.reason == "unverified"]
    if doubtful:
        more = f" and {len(doubtful) - _NAMED} more" if len(doubtful) > _NAMED else ""
        raise ConflictError(
            f"{len(doubtful)} file{'' if len(doubtful) == 1 else 's'} changed since the agent's last edit: "
            f"{', '.join(doubtful[:_NAMED])}{more}; nothing was changed",
            files=doubtful,
        )


def refuse_changed_files(given: Plan, fresh: Plan) -> None:
    """Refuse a plan whose verdict on a file no longer holds.

    Raises:
        StaleError: The same plan made now says something else of a file.
    """
    before = {(file.path, file.action, file.reason) for file in given.files}
    after = {(file.path, file.action, file.reason) for file in fresh.files}
    changed = sorted({path for path, _, _ in before ^ after})
    if changed:
        raise StaleError(f"{changed[0]} changed since" + (f", and {len(changed) - 1} more" if len(changed) > 1 else ""))
