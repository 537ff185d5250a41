"""The header: the first line of a transcript, written once. Pure."""

from __future__ import annotations

from sessions.transcript import codec


def header_line(workdir: str, *, created_at: str, git_branch: str | None, forked_from: str | None = None) -> bytes:
    """Return the header of a new session, without a newline.

    Args:
        workdir: The session's directory, resolved.
        created_at: ISO 8601, milliseconds, ``Z``.
        git_branch: None outside a repository, on a detached HEAD, or when git did not answer: the key is then absent.
        forked_from: The id of the session it is a fork of; None, and the key absent, for no fork.
    """
    said: dict[str, object] = {"type": "metadata", "workdir": workdir, "createdAt": created_at}
    if git_branch is not None:
        said["gitBranch"] = git_branch
    if forked_from is not None:
        said["forkedFrom"] = forked_from
    return codec.dumps(said)
