"""The rows of a list of sessions, and how one is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sessions import catalog, clock

_NS = 1_000_000_000
_CHANGING = (1 << 63) - 1  # when no file was changed: what is read of one while a line is appended is kept by nobody


class Facts(NamedTuple):
    """What is known of a transcript: where it lies, which state of it was read, and what a row shows of it.

    Plain values. The numbers among the first six fields are the state: while the system says the same
    of the file, nothing else of it has changed.

    Attributes:
        mtime_ns: When it was last written, in nanoseconds since the epoch; ``ctime_ns``: when anything of it changed.
        directory: The project's directory it lies in.
        created: As written in the file; None where nothing there says it.
    """

    mtime_ns: int
    name: str
    directory: str
    size: int
    inode: int
    ctime_ns: int
    workdir: str | None
    title: str | None
    first_prompt: str | None
    first_summary: str | None
    git_branch: str | None
    created: str | None
    total_tokens: int | None
    forked_from: str | None
    parent: str | None
    root: str | None
    damaged: bool


assert Facts._fields[: len(catalog.STATE)] == catalog.STATE


class SessionInfo:
    """A row of a list. Cheap to make by the thousand: what it says is looked up when asked for.

    Args:
        known: The fields of the facts of its transcript.
    """

    __slots__ = ("_known",)

    def __init__(self, known: Sequence[Any]) -> None:
        self._known = known

    @property
    def _facts(self) -> Facts:
        return Facts._make(self._known)

    @property
    def id(self) -> str:
        """The session's."""
        return self._facts.name.removesuffix(".jsonl")

    @property
    def title(self) -> str | None:
        """The title given, else the beginning of the first prompt, else of the first summary, else None."""
        facts = self._facts
        return next((said for said in (facts.title, facts.first_prompt) if said and said.strip()), facts.first_summary)

    @property
    def given_title(self) -> str | None:
        """The title given; None where there is none."""
        return self._facts.title

    @property
    def first_prompt(self) -> str | None:
        """The beginning of the first prompt that has a text; empty where none of those looked at has one.

        None where there is no prompt.
        """
        return self._facts.first_prompt

    @property
    def workdir(self) -> str | None:
        """Where it works; None for a headerless file."""
        return self._facts.workdir

    @property
    def project(self) -> str:
        """The name of the directory its transcript lies in: all that is known of a headerless file's project."""
        return self._facts.directory.rpartition("/")[2]

    @property
    def git_branch(self) -> str | None:
        """The branch it began on."""
        return self._facts.git_branch

    @property
    def created_at(self) -> datetime:
        """When it began: as the header says, else the first message, else the time of the last change."""
        return clock.parse(self._facts.created or "") or self.last_active_at

    @property
    def last_active_at(self) -> datetime:
        """When its file was last written."""
        return clock.from_epoch(self._facts.mtime_ns / _NS)

    @property
    def total_tokens(self) -> int | None:
        """The size of the model's context as last reported; None when never."""
        return self._facts.total_tokens

    @property
    def path(self) -> Path:
        """Its transcript."""
        return Path(catalog.path_of(self._known))

    @property
    def forked_from(self) -> str | None:
        """The id of the session it is a fork of."""
        return self._facts.forked_from

    @property
    def parent_id(self) -> str | None:
        """Of a subagent's session: the session that started it, else None."""
        return self._facts.parent

    @property
    def root_id(self) -> str | None:
        """Of a subagent's session: the session the user talks to, else None."""
        return self._facts.root

    @property
    def damaged(self) -> bool:
        """Whether something in what was read for this cannot be read."""
        return self._facts.damaged

    def __eq__(self, other: object) -> bool:
        return self._facts == other._facts if isinstance(other, SessionInfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._facts)

    def __repr__(self) -> str:
        return f"SessionInfo(id={self.id!r}, title={self.title!r}, path={str(self.path)!r})"

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
            "parent_id": self.parent_id,
            "damaged": self.damaged,
        }


def row_of(path: Path) -> SessionInfo:
    """Return the row of one transcript; see ``read``."""
    return SessionInfo(read(str(path.parent), path.name))


def read(directory: str, name: str) -> Facts:
    """Return what is known of a transcript, from its two ends.

    Raises:
        OSError: It cannot be read.
    """
    from sessions.transcript import summaries, untitled  # noqa: PLC0415 - what is kept need not be read

    is_growing = False

    def grows() -> bool:
        from sessions.ownership import is_owned  # noqa: PLC0415 - a torn line is seldom met

        nonlocal is_growing
        is_growing = is_owned(Path(directory, name))
        return is_growing

    descriptor = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        beside = untitled.Beside(f"{directory}/{name.removesuffix('.jsonl')}.ckpt", status)
        summary = summaries.summary(
            descriptor,
            status=status,
            seeks_title=beside.may_have_title,
            seeks_hidden=beside.may_hide,
            is_growing=grows,
        )
    finally:
        os.close(descriptor)
    header, link = summary.header, summary.header.link if summary.header is not None else None
    return Facts(
        mtime_ns=status.st_mtime_ns,
        name=name,
        directory=directory,
        size=status.st_size,
        inode=status.st_ino,
        ctime_ns=_CHANGING if is_growing else status.st_ctime_ns,
        workdir=header.workdir if header is not None else None,
        title=summary.title,
        first_prompt=summary.first_prompt,
        first_summary=summary.first_summary,
        git_branch=header.git_branch if header is not None else None,
        created=summary.created,
        total_tokens=summary.total_tokens,
        forked_from=header.forked_from if header is not None else None,
        parent=link.parent if link is not None else None,
        root=link.root if link is not None else None,
        damaged=summary.damaged,
    )
