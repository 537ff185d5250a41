"""The journal of one transaction: everything it needs to be finished or taken back, in two files.

``undo/<record>/stage.bin``
    The bytes, in one file with one sync: the content of every file that will be changed (the *guards*), the
    transcript's removed tail, and the tail that takes its place.
``intent.json``
    The record, behind a line with its SHA-256. **Its appearance is the commit point.** When all is done it is renamed
    to
    ``undo/<record>/record.json``, where an undo finds it.
``abort-<record>``
    An empty file, prepared before the commit and renamed here when the transaction must be put back.

What a crash leaves: before the commit a directory under ``undo`` without ``record.json``, which is dead and swept;
after it the intent, which is completed, or put back where the abort mark lies beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sessions import files
from sessions.errors import IncompleteError
from sessions.ids import is_safe
from sessions.rewind.judge import Change
from sessions.rewind.offshoots import Offshoot, offshoot_from
from sessions.rewind.relocating import Move, move_from
from sessions.rewind.states import Content, Image, Payload, image_from, payload_from
from sessions.transcript.codec import dumps, loads

VERSION = 1
_ABORT = "abort-"


@dataclass(frozen=True, slots=True)
class Cut:
    """What happens to the transcript: its first ``keep`` bytes stay, ``removed`` makes place for ``tail``.

    Attributes:
        size: Bytes of the transcript before.
        inode: Its inode before; afterwards it has another one.
        seam: The SHA-256 of the last bytes that stay, at most ``SEAM_BYTES``: an undo finds its place by it.
        digests: The SHA-256 of the removed tail and of the new one.
    """

    keep: int
    size: int
    inode: int
    removed: Payload
    tail: Payload
    seam: str
    digests: tuple[str, str]

    @property
    def tails(self) -> tuple[Image, Image]:
        """The removed tail and the new one, as contents whose bytes can be checked."""
        removed, tail = self.digests
        return (
            Image(Content(removed, self.removed.size or 0, 0), self.removed),
            Image(Content(tail, self.tail.size or 0, 0), self.tail),
        )

    def to_record(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "keep": self.keep,
            "size": self.size,
            "inode": self.inode,
            "removed": self.removed.to_record(),
            "tail": self.tail.to_record(),
            "seam": self.seam,
            "digests": list(self.digests),
        }


@dataclass(frozen=True, slots=True)
class Record:
    """A transaction.

    Attributes:
        id: Names the record; for a rewind, also the rewind.
        kind: ``rewind``, ``undo`` or ``redo``.
        rewind: The rewind it makes true, takes back or makes true again.
        changes: In the order they are made; put back in the opposite order.
        log: Records appended to the timeline when all else is done.
        removed_messages: For the report of an undo's redo.
        length: Bytes of the transcript before, where the transaction leaves it alone.
        captures: The paths whose new state counts as captured on the timeline: those of a rewind of the code alone, and
            what an undo or redo overwrites of somebody else.
        fork: The session in which the conversation goes on; None where it goes on in this one.
        children: The sessions of subagents that leave or come back.
        stopped: What the tasks are called that were stopped for it.
    """

    id: str
    kind: str
    rewind: str
    scope: str
    to: str
    at: str
    changes: tuple[Change, ...]
    cut: Cut | None
    log: tuple[dict[str, object], ...]
    removed_messages: int = 0
    prompt: str = ""
    length: int = 0
    captures: tuple[str, ...] = ()
    fork: Offshoot | None = None
    children: tuple[Move, ...] = ()
    stopped: tuple[str, ...] = ()

    def to_record(self) -> dict[str, object]:
        """Return plain data; ``record_from(r.to_record()) == r``."""
        return {
            "v": VERSION,
            "id": self.id,
            "kind": self.kind,
            "rewind": self.rewind,
            "scope": self.scope,
            "to": self.to,
            "at": self.at,
            "changes": [
                {"path": change.path, "before": change.before.to_record(), "after": change.after.to_record()}
                | ({"in_place": list(change.in_place)} if change.in_place else {})
                for change in self.changes
            ],
            "cut": self.cut.to_record() if self.cut else None,
            "log": list(self.log),
            "removed_messages": self.removed_messages,
            "prompt": self.prompt,
            "length": self.length,
            "captures": list(self.captures),
            "fork": self.fork.to_record() if self.fork else None,
            "children": [move.to_record() for move in self.children],
            "stopped": list(self.stopped),
        }


def record_from(data: Mapping[str, object]) -> Record:
    """Return the transaction a journal describes.

    Raises:
        ValueError: It describes none.
    """
    try:
        texts = {name: data[name] for name in ("id", "kind", "rewind", "scope", "to", "at", "prompt")}
        removed, length = data["removed_messages"], data.get("length", 0)
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("a field is not text")
        if not is_safe(str(texts["id"])) or not is_safe(str(texts["rewind"])):
            raise ValueError("its id is no name")
        if not isinstance(removed, int) or not isinstance(length, int):
            raise ValueError("a field is not a number")
        return Record(
            **cast("dict[str, str]", texts),
            changes=tuple(_change_from(each) for each in cast("list[dict[str, dict[str, object]]]", data["changes"])),
            cut=_cut_from(data["cut"]),
            log=tuple(cast("list[dict[str, object]]", data["log"])),
            removed_messages=removed,
            length=length,
            captures=tuple(str(path) for path in cast("list[object]", data.get("captures", []))),
            fork=offshoot_from(data.get("fork")),
            children=tuple(move_from(each) for each in cast("list[object]", data.get("children", []))),
            stopped=tuple(str(label) for label in cast("list[object]", data.get("stopped", []))),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a transaction: {error!r}") from error


def _path(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("a path is none")
    return value


def _change_from(each: Mapping[str, Mapping[str, object]]) -> Change:
    return Change(
        _path(each["path"]), image_from(each["before"]), image_from(each["after"]), _inode(each.get("in_place"))
    )


def _inode(value: object) -> tuple[int, int] | None:
    match value:
        case None:
            return None
        case [int(device), int(inode)]:
            return device, inode
        case _:
            raise ValueError("a file's device and inode are none")


def _cut_from(data: object) -> Cut | None:
    match data:
        case None:
            return None
        case {"keep": int(keep), "size": int(size), "inode": int(inode), "seam": str(seam), **rest}:
            removed, tail = payload_from(rest.get("removed")), payload_from(rest.get("tail"))
            match rest.get("digests"):
                case [str(first), str(second)] if removed is not None and tail is not None:
                    return Cut(keep, size, inode, removed, tail, seam, (first, second))
    raise ValueError("not a cut")


class Journal:
    """The journal of one session.

    Args:
        sidecar: The session's ``.ckpt`` directory.
    """

    def __init__(self, sidecar: Path) -> None:
        self.sidecar = sidecar
        self.intent = sidecar / "intent.json"

    def directory(self, record_id: str) -> Path:
        """Return where a transaction's files lie."""
        return self.sidecar / "undo" / record_id

    def stage_place(self, record_id: str) -> str:
        """Return the stage, relative to the sidecar."""
        return f"undo/{record_id}/stage.bin"

    @contextlib.contextmanager
    def staging(self, record_id: str) -> Iterator[int]:
        """Give a descriptor to write the stage to; durable when left. On an error nothing stays."""
        directory = self.directory(record_id)
        files.make_directory(directory)
        try:
            fd = os.open(directory / "stage.bin", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                yield fd
                os.fsync(fd)
            finally:
                os.close(fd)
            os.close(os.open(directory / "abort", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            files.sync_directory(directory)
        except BaseException:
            self.discard(record_id)
            raise

    def commit(self, record: Record) -> None:
        """Write the intent: from here on the transaction happens.

        Raises:
            OSError: It does not; nothing but the stage was made.
            IncompleteError: Likewise: another one is not finished.
        """
        if self.intent.exists():
            raise IncompleteError(f"an earlier rewind is not finished: {self.intent}")
        text = dumps(record.to_record())
        digest = hashlib.sha256(text).hexdigest().encode()
        with contextlib.suppress(files.DurabilityUnknownError):  # the intent is live: from here on it is carried out
            files.rewrite(self.intent, lambda fd: files.write_all(fd, digest + b"\n" + text))

    def pending(self) -> Record | None:
        """Return the transaction a crash left unfinished, None where there is none.

        Raises:
            IncompleteError: There is one and it cannot be read; nothing is known to be safe.
        """
        try:
            return self._read(self.intent)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise IncompleteError(f"an unfinished rewind cannot be read: {self.intent}: {error}") from error

    def done(self, record_id: str) -> Record:
        """Return a finished transaction.

        Raises:
            FileNotFoundError: Its files are gone.
            ValueError: They cannot be read.
        """
        if not is_safe(record_id):
            raise ValueError(f"not a record: {record_id!r}")
        return self._read(self.directory(record_id) / "record.json")

    def mark_aborted(self, record: Record) -> None:
        """Decide, durably, that the transaction is put back."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.directory(record.id) / "abort", self._abort_mark(record))
        files.sync_directory(self.sidecar)

    def is_aborted(self, record: Record) -> bool:
        """Tell whether the transaction is to be put back."""
        return self._abort_mark(record).exists()

    def finish(self, record: Record) -> None:
        """Turn the intent into the record an undo finds. A crash before it is durable repeats work already done."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.directory(record.id) / "abort")
        os.rename(self.intent, self.directory(record.id) / "record.json")

    def withdraw(self, record: Record) -> None:
        """Remove the intent of a transaction that was put back, and what it staged."""
        os.unlink(self.intent)
        files.sync_directory(self.sidecar)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._abort_mark(record))
        self.discard(record.id)

    def discard(self, record_id: str) -> None:
        """Remove a transaction's files."""
        shutil.rmtree(self.directory(record_id), ignore_errors=True)
        for directory in (self.sidecar / "undo", self.sidecar):
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    def sweep(self) -> None:
        """Remove what transactions left that never came true, or were put back; the caller holds the session."""
        if self.intent.exists():
            return
        for name in _names_in(self.sidecar):
            if name.startswith(_ABORT):
                os.unlink(self.sidecar / name)
        for name in _names_in(self.sidecar / "undo"):
            if not (self.directory(name) / "record.json").exists():
                self.discard(name)

    def _abort_mark(self, record: Record) -> Path:
        return self.sidecar / f"{_ABORT}{record.id}"

    def _read(self, path: Path) -> Record:
        digest, _, text = path.read_bytes().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != digest:
            raise ValueError("its checksum is wrong")
        data = loads(text)
        if not isinstance(data, dict):
            raise ValueError("it holds no record")
        return record_from(data)


def _names_in(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
