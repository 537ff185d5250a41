"""The transcript's part of a transaction: its tail is cut off and another one put in its place, forth and back.

Which of the two stands in the file is read from its bytes, never guessed from its inode: a store may have been copied
since the crash.
"""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sessions import files
from sessions.rewind.journal import Cut
from sessions.rewind.payloads import Payloads
from sessions.rewind.seam import seam_of
from sessions.rewind.states import Payload
from sessions.rewind.worktree import CHUNK_BYTES
from sessions.transcript.writer import Writer

Part = bytes | tuple[str, int, int]
"""Bytes, or ``(file, offset, size)`` of a file that holds them."""


@dataclass(frozen=True, slots=True)
class Splice:
    """What is to happen to the transcript: keep the first ``keep`` bytes, then come the parts of the new tail."""

    keep: int
    tail: tuple[Part, ...]


class Splicer:
    """Cuts and mends one transcript.

    Args:
        writer: Rewrites it.
        payloads: Where the staged tails lie.
    """

    def __init__(self, writer: Writer, payloads: Payloads) -> None:
        self._writer = writer
        self._payloads = payloads

    def stage(self, splice: Splice, fd: int, place: str) -> Cut:
        """Append both tails to the stage: the one that goes and the one that comes.

        Args:
            fd: The stage, written up to its end.
            place: The stage's name, for the record.
        """
        with open(self._writer.path, "rb") as transcript:
            status, seam = os.fstat(transcript.fileno()), seam_of(transcript, splice.keep)
            start, gone = os.lseek(fd, 0, os.SEEK_CUR), hashlib.sha256()
            _copy(transcript.fileno(), fd, splice.keep, status.st_size - splice.keep, gone)
        middle, come = os.lseek(fd, 0, os.SEEK_CUR), hashlib.sha256()
        for part in splice.tail:
            if isinstance(part, bytes):
                files.write_all(fd, part)
                come.update(part)
            else:
                with open(part[0], "rb") as source:
                    _copy(source.fileno(), fd, part[1], part[2], come)
        end = os.lseek(fd, 0, os.SEEK_CUR)
        removed, tail = Payload(place, start, middle - start), Payload(place, middle, end - middle)
        digests = gone.hexdigest(), come.hexdigest()
        return Cut(splice.keep, status.st_size, status.st_ino, removed, tail, seam, digests)

    def apply(self, cut: Cut) -> bool:
        """Put the new tail behind the kept bytes; what another program appended since stays behind it.

        Returns:
            False where the transcript is neither the old nor the new one; it was left alone.
        """
        stands = self._stands(cut)
        if stands == "old":
            self._replace(cut.keep, cut.removed, cut.tail)
        return stands != "other"

    def take_back(self, cut: Cut) -> bool:
        """Put the old tail back; otherwise as ``apply``."""
        stands = self._stands(cut)
        if stands == "new":
            self._replace(cut.keep, cut.tail, cut.removed)
        return stands != "other"

    def copy_as_before(self, cut: Cut, copy: Path) -> bool:
        """Write what the transcript was before the cut to another file, for a reader of an unfinished rewind.

        Returns:
            False where it still is that, or is neither; nothing was written.
        """
        if self._stands(cut) != "new":
            return False
        with (
            open(self._writer.path, "rb") as transcript,
            open(self._payloads.locate(cut.removed), "rb") as stage,
            open(copy, "wb") as target,
        ):
            files.copy_range(transcript.fileno(), target.fileno(), 0, cut.keep)
            files.copy_range(stage.fileno(), target.fileno(), cut.removed.offset, cut.removed.size or 0)
        return True

    def _stands(self, cut: Cut) -> Literal["old", "new", "other"]:
        with open(self._writer.path, "rb") as transcript:
            status = os.fstat(transcript.fileno())
            if (status.st_ino, status.st_size) == (cut.inode, cut.size):
                return "old"
            if seam_of(transcript, cut.keep) != cut.seam:
                return "other"
        tails: list[tuple[Literal["old", "new"], Payload]] = [("old", cut.removed), ("new", cut.tail)]
        # A tail may begin like the other one: the longer of those that are there is the one that was put there.
        for name, tail in sorted(tails, key=lambda each: each[1].size or 0, reverse=True):
            if self._holds(cut.keep, tail):
                return name
        return "other"

    def _replace(self, keep: int, tail: Payload, other: Payload) -> None:
        behind = keep + (tail.size or 0)
        size = os.stat(self._writer.path).st_size

        def write(fd: int) -> None:
            with open(self._payloads.locate(other), "rb") as stage:
                files.copy_range(stage.fileno(), fd, other.offset, other.size or 0)
            if size > behind:
                with open(self._writer.path, "rb") as transcript:
                    files.copy_range(transcript.fileno(), fd, behind, size - behind)

        self._writer.rewrite(keep, write)

    def _holds(self, keep: int, tail: Payload) -> bool:
        """Tell whether that tail stands behind the kept bytes."""
        left = tail.size or 0
        with open(self._writer.path, "rb") as transcript, open(self._payloads.locate(tail), "rb") as stage:
            transcript.seek(keep)
            stage.seek(tail.offset)
            while left:
                chunk = stage.read(min(left, CHUNK_BYTES))
                if not chunk or transcript.read(len(chunk)) != chunk:
                    return False
                left -= len(chunk)
        return True


def _copy(source_fd: int, target_fd: int, offset: int, size: int, digest: hashlib._Hash) -> None:
    """Copy a range, and take its digest on the way."""
    end = offset + size
    while offset < end:
        chunk = os.pread(source_fd, min(CHUNK_BYTES, end - offset), offset)
        if not chunk:
            raise OSError(errno.EIO, "a file ended early while it was copied")
        files.write_all(target_fd, chunk)
        digest.update(chunk)
        offset += len(chunk)
