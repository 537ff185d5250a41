"""The rows of a list of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sessions import clock, paths
from sessions.transcript import reader


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A row of a list.

    Attributes:
        title: The title given, else the beginning of the first prompt, else of the first summary, else None.
        workdir: Where it works; None for a headerless file.
        last_active_at: When its file was last written.
        total_tokens: The size of the model's context as last reported; None when never.
        damaged: Whether something in what was read for this cannot be read.
        parent_id: Of a subagent's session: the session that started it, else None.
    """

    id: str
    title: str | None
    workdir: str | None
    git_branch: str | None
    created_at: datetime
    last_active_at: datetime
    total_tokens: int | None
    first_prompt: str | None
    path: Path
    forked_from: str | None = None
    damaged: bool = False
    parent_id: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the shape ``sessions list --json`` prints."""
        return {
            "id": self.id,
            "title": self.title,
            "workdir": self.workdir,
            "git_branch": self.git_branch,
            "created_at": clock.timestamp(self.created_at),
            "last_active_at": clock.timestamp(self.last_active_at),
            "total_tokens": self.total_tokens,
            "first_prompt": self.first_prompt,
            "path": str(self.path),
            "forked_from": self.forked_from,
        }


def row_of(path: Path) -> SessionInfo | None:
    """Return the row of a transcript, from its two ends; None where it cannot be read."""
    try:
        summary, status = reader.summary(path), path.stat()
    except OSError:
        return None
    header = summary.header
    return SessionInfo(
        id=path.name.removesuffix(".jsonl"),
        title=summary.title or summary.first_prompt or summary.first_summary,
        workdir=header.workdir if header is not None else None,
        git_branch=header.git_branch if header is not None else None,
        created_at=summary.created_at,
        last_active_at=clock.from_epoch(status.st_mtime),
        total_tokens=summary.total_tokens,
        first_prompt=summary.first_prompt,
        path=path,
        forked_from=header.forked_from if header is not None else None,
        damaged=summary.damaged,
    )


def belongs(row: SessionInfo, directory: str) -> bool:
    """Tell whether a session of the project's directory is the project's: the encoded name alone proves nothing."""
    return row.workdir is None or paths.resolved(row.workdir) == directory


def mentions(row: SessionInfo, search: str) -> bool:
    """Tell whether a session holds a text in title, id, branch or first prompt, in any case."""
    wanted = search.casefold()
    return any(wanted in text.casefold() for text in (row.title, row.id, row.git_branch, row.first_prompt) if text)
