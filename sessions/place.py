"""Where a session lies, and what it may touch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sessions.transcript.outline import Header, Link


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session lies and what it may touch; made by the store.

    Attributes:
        root: The store's root.
        transcript: The session's file.
        header: Its header line; None for a headerless file.
        new_header: What a file that does not exist yet begins with.
        workdir: What the header says; None for a headerless file.
        touches: The directory its edits are relative to; None where nobody knows: then no file is touched.
    """

    session_id: str
    root: Path
    transcript: Path
    header: Header | None
    new_header: bytes | None
    workdir: str | None
    touches: str | None
    created_at: datetime
    add_dirs: tuple[str, ...] = ()

    @property
    def link(self) -> Link | None:
        """What a subagent's session hangs on; None for any other."""
        return self.header.link if self.header is not None else None
