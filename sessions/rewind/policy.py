"""When a plan may not be carried out. Pure."""

from __future__ import annotations

from sessions.errors import ConflictError, StaleError
from sessions.rewind.plan import Plan

_NAMED = 3


def objection(plan: Plan, *, since: str) -> str | None:
    """Say why a plan that asked to be refused is; None where nothing stands against it.

    Args:
        since: What a file must not have changed after, such as ``the agent's last edit``.
    """
    if plan.on_conflict != "refuse":
        return None
    changed = [f"{each.path} ({each.found})" for each in plan.conflicts]
    unknown = [file.path for file in plan.files if file.reason == "unverified"]
    if changed:
        return f"{_count(changed)} not as {since} left {'it' if len(changed) == 1 else 'them'}: {_named(changed)}"
    if unknown:
        return f"nobody recorded what {since} left of {_count(unknown)}: {_named(unknown)}"
    return None


def incomplete(plan: Plan) -> str | None:
    """Say which files an undo could not put back; None where it puts back all."""
    lost = [f"{file.path} ({file.note or file.reason})" for file in plan.files if file.action == "skip" and file.reason]
    return f"{_count(lost)} cannot be put back: {_named(lost)}" if lost else None


def refuse(why: str | None) -> None:
    """Refuse what there is an objection against.

    Raises:
        ConflictError: There is one.
    """
    if why is not None:
        raise ConflictError(f"{why}; nothing was changed")


def _count(files: list[str]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}"


def _named(files: list[str]) -> str:
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return ", ".join(files[:_NAMED]) + more


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
