"""The bytes of snapshots: raw files under ``turns/<turn>/files`` in the sidecar, equal content once on disk.

``NNNN.before`` is durable before anybody is told; ``NNNN.after`` becomes durable when its turn ends. What a record
says of a payload (its SHA-256 and size) is checked whenever the bytes are used, so one that a crash cut short is
*lost*, never restored.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from sessions import files
from sessions.rewind.states import Content, Image, Payload
from sessions.rewind.worktree import CHUNK_BYTES, read_content
from sessions.transcript.codec import dumps


class Payloads:
    """The payload files of one session.

    Args:
        sidecar: The session's ``.ckpt`` directory.
        root: The store's root.
    """

    def __init__(self, sidecar: Path, *, root: Path) -> None:
        self.sidecar = sidecar
        self._foreign = os.path.realpath(root / "file-history")
        self._by_digest: dict[str, str] = {}
        self._verified: dict[tuple[Payload, str], tuple[int, ...]] = {}

    def open_turn(self, turn: int, meta: dict[str, object]) -> None:
        """Make the turn's directory, marker first; durable on return. Doing it again changes nothing."""
        directory = self.sidecar / "turns" / str(turn) / "files"
        if directory.is_dir():
            return
        files.make_directory(self.sidecar)
        marker = self.sidecar / f"turn-{turn}.json"
        files.rewrite(marker, lambda fd: files.write_all(fd, dumps({"v": 1, "turn": turn})))
        files.make_directory(directory)
        files.rewrite(
            directory.parent / "meta.json", lambda fd: files.write_all(fd, dumps({"v": 1, "turn": turn, **meta}))
        )

    def store(self, turn: int, name: str, source_fd: int, *, durable: bool) -> Image:
        """Keep what an open file holds.

        Args:
            name: ``NNNN.before`` or ``NNNN.after``; an ``after`` may replace an earlier one of the same name.
            durable: Return only when the bytes survive a power loss; the caller syncs the directory, once for many.

        Raises:
            OSError: Nothing was kept (a full disk, a failing read).
        """
        place = f"turns/{turn}/files/{name}"
        target = self.sidecar / place
        known = self._copy(source_fd, target, durable=durable)
        self._by_digest[known.sha256] = place
        return Image(known, Payload(place, 0, known.size))

    def remember(self, image: Image) -> None:
        """Learn that a content is kept, so that it is not kept twice."""
        if isinstance(image.state, Content) and image.payload is not None and image.payload.file.startswith("turns/"):
            self._by_digest[image.state.sha256] = image.payload.file  # the newest: it stays longest

    def sync(self, payload: Payload) -> None:
        """Make a payload's bytes durable."""
        fd = os.open(self.locate(payload), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sweep(self) -> None:
        """Remove the temporaries a crash left in the sidecar; the caller holds the log's lock."""
        files.sweep_temporaries(self.sidecar)
        turns = self.sidecar / "turns"
        try:
            newest = max(os.listdir(turns), key=lambda name: (len(name), name), default=None)
        except FileNotFoundError:
            return
        if newest is not None:  # a crash stops the newest turn, and the next opening comes here
            files.sweep_temporaries(turns / newest)
            files.sweep_temporaries(turns / newest / "files")

    def locate(self, payload: Payload) -> Path:
        """Return the file a payload lies in: in the sidecar, or another agent's below ``<root>/file-history``.

        Raises:
            FileNotFoundError: A record names any other file.
        """
        if os.path.isabs(payload.file) and not payload.file.startswith(f"{self._foreign}/"):
            raise FileNotFoundError(errno.ENOENT, "a record names a file outside the store", payload.file)
        return self.sidecar / payload.file

    def exists(self, image: Image) -> bool:
        """Tell, without reading them, whether an image's bytes are there in full length."""
        if not isinstance(image.state, Content):
            return True
        if image.payload is None:
            return False
        try:
            return os.stat(self.locate(image.payload)).st_size >= image.payload.offset + image.state.size
        except OSError:
            return False

    def intact(self, image: Image) -> bool:
        """Tell whether an image's bytes are there and are the recorded ones; reads them once while nothing changes."""
        if not isinstance(image.state, Content):
            return True
        if image.payload is None or not self.exists(image):
            return False
        asked = image.payload, image.state.sha256
        digest = hashlib.sha256()
        try:
            facts = _facts(self.locate(image.payload))
            if self._verified.get(asked) == facts:
                return True
            for chunk in self.chunks(image):
                digest.update(chunk)
        except OSError:
            return False
        if digest.hexdigest() != image.state.sha256:
            return False
        self._verified[asked] = facts
        return True

    def chunks(self, image: Image) -> Iterator[bytes]:
        """Yield an image's bytes."""
        if not isinstance(image.state, Content) or image.payload is None:
            raise FileNotFoundError(errno.ENOENT, "no bytes were kept")
        with open(self.locate(image.payload), "rb") as source:
            source.seek(image.payload.offset)
            left = image.state.size
            while left and (chunk := source.read(min(left, CHUNK_BYTES))):
                left -= len(chunk)
                yield chunk

    def whole(self, image: Image) -> bytes | None:
        """Return an image's bytes; None where they are not there in full length, or cannot be read."""
        try:
            return b"".join(self.chunks(image)) if self.exists(image) else None
        except OSError:
            return None

    def writer(self, image: Image) -> Callable[[int], None]:
        """Return what fills a descriptor with an image's bytes.

        The returned function raises ``OSError`` when they are not the recorded ones: nothing wrong is ever put in
        place.
        """

        def write(fd: int) -> None:
            digest = hashlib.sha256()
            for chunk in self.chunks(image):
                digest.update(chunk)
                files.write_all(fd, chunk)
            if not isinstance(image.state, Content) or digest.hexdigest() != image.state.sha256:
                raise OSError(errno.EIO, "a snapshot is damaged", str(image.payload))

        return write

    def _copy(self, source_fd: int, target: Path, *, durable: bool) -> Content:
        """Copy and digest in one pass; where equal bytes are kept already, the copy gives way to a second name."""
        temporary = _temporary(target)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            content = read_content(source_fd, copy_to=fd)
            kept = self._link_known(content, target)
            if durable:
                os.fsync(fd) if kept is None else self.sync(kept)
            if kept is None:
                os.rename(temporary, target)
            else:
                os.unlink(temporary)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            os.close(fd)
        return content

    def _link_known(self, content: Content, target: Path) -> Payload | None:
        """Make the target one more name of kept bytes; None where none are kept or they can have no more names."""
        place = self._by_digest.get(content.sha256)
        kept = Payload(place, 0, content.size) if place is not None else None
        if kept is None or not self.intact(Image(content, kept)):
            return None
        temporary = _temporary(target.with_name(f"{target.name}-link"))
        try:
            os.link(self.locate(kept), temporary)
            os.rename(temporary, target)
        except OSError:
            return None
        finally:
            with contextlib.suppress(OSError):  # two names of the same bytes: a rename leaves both
                os.unlink(temporary)
        return kept


def _temporary(target: Path) -> Path:
    return target.with_name(f"{files.TEMP_PREFIX}{target.name}{files.TEMP_SUFFIX}")


def _facts(path: Path) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
