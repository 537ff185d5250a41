"""The header: the first line of a transcript, written once. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from sessions.ids import is_safe
from sessions.transcript import codec
from sessions.transcript.entry import Entry
from sessions.transcript.outline import Header, Link


def header_line(
    workdir: str | None,
    *,
    created_at: str,
    git_branch: str | None,
    forked_from: str | None = None,
    link: Link | None = None,
) -> bytes:
    """Return the header of a new session, without a newline.

    Args:
        workdir: The session's directory, resolved; None, and the key absent, where nobody knows it.
        created_at: ISO 8601, milliseconds, ``Z``.
        git_branch: None outside a repository, on a detached HEAD, or when git did not answer: the key is then absent.
        forked_from: The id of the session it is a fork of; None, and the key absent, for no fork.
        link: What a subagent's session hangs on (``rootSession``, ``parentSession``, ``spawnedBy``).
    """
    said: dict[str, object] = {"type": "metadata"}
    if workdir is not None:
        said["workdir"] = workdir
    said["createdAt"] = created_at
    if git_branch is not None:
        said["gitBranch"] = git_branch
    if forked_from is not None:
        said["forkedFrom"] = forked_from
    if link is not None:
        said |= {"rootSession": link.root, "parentSession": link.parent, "spawnedBy": link.spawned_by}
    return codec.dumps(said)


def header_of(entry: Entry, offset: int) -> Header:
    """Return what a header line says; the older spelling says less."""
    data = entry.data or {}
    return Header(
        raw=entry.raw,
        offset=offset,
        workdir=_text(data, "workdir"),
        created_at=_text(data, "createdAt"),
        git_branch=_text(data, "gitBranch"),
        forked_from=_text(data, "forkedFrom"),
        link=_link_of(data),
    )


def _text(data: Mapping[str, object], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) else None


def _link_of(data: Mapping[str, object]) -> Link | None:
    if "rootSession" not in data:
        return None
    match data:
        case {"rootSession": str(root), "parentSession": str(parent), "spawnedBy": str(message)} if is_safe(root):
            return Link(root, parent, message)
        case _:
            return None
