"""Writes a transcript: appends, and the one rewrite a rewind needs. The caller holds the session's lock.

No descriptor is kept open between two calls, and what is known about the file is checked against it before each: a
rename by somebody else must not send a record into a file nobody can see.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sessions import files
from sessions.transcript import codec, lines, scanning, titles, untitled
from sessions.transcript.entry import Kind
from sessions.transcript.outline import Finding, Title


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known about the file: valid while size and inode are these. ``torn`` is the incomplete last line."""

    size: int
    inode: int
    ended: bool
    torn: tuple[int, bytes] | None
    title: Title | None


class Writer:
    """Appends to and rewrites one transcript.

    Args:
        path: The transcript; it need not exist.
        sidecar: The session's directory beside it, for lines that are set aside.
        session_id: Written into title lines.
        header: The first line of a new file, without its newline; None for none.
    """

    def __init__(self, path: Path, *, sidecar: Path, session_id: str, header: bytes | None) -> None:
        self.path = path
        self._sidecar = sidecar
        self._session_id = session_id
        self._header = header
        self._known: _Known | None = None
        self._findings: list[Finding] = []

    @property
    def size(self) -> int:
        """The file's bytes now; 0 if it does not exist."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def title(self) -> str | None:
        """The last title; None if there is none."""
        known = self._look()
        return known.title.text if known is not None and known.title is not None else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What this writer mended, in order."""
        return tuple(self._findings)

    def append(self, records: Sequence[bytes]) -> None:
        """Append lines, each with or without its newline, in one write that is durable when this returns.

        A missing file is made in one step, with the header. A torn last line is moved to the sidecar's ``torn/`` first,
        durably; a complete last line without a newline is ended. If the last title would come to start before the final
        64 KiB, it is said again in the same write.

        Raises:
            OSError: Nothing was appended; the file is as before (but for a torn line, which may be set aside already).
        """
        body = b"".join(record if record.endswith(b"\n") else record + b"\n" for record in records)
        if not body:
            return
        known = self._look()
        self._known = None  # until the file is known to have changed as intended
        if known is None:
            self._create(body)
            return
        if known.torn is not None:
            self._set_aside(known.torn)
            known = _Known(known.torn[0], known.inode, True, None, known.title)
        data = body if known.ended else b"\n" + body
        title = _last_title_in(data, known.size) or known.title
        if title is not None and titles.falls_out(title, known.size + len(data)):
            line = title.raw + b"\n"
            title = Title(title.text, title.raw, known.size + len(data), known.size + len(data) + len(line))
            data += line
        files.append(self.path, data)
        self._known = _Known(known.size + len(data), known.inode, True, None, title)

    def set_title(self, text: str) -> None:
        """Append a title line.

        Raises:
            RequestError: The title is blank or longer than 1 000 characters.
        """
        self.append([titles.title_line(text, self._session_id)])

    def rewrite(self, keep: int, tail: bytes | Callable[[int], None]) -> None:
        """Replace the file by its first ``keep`` bytes followed by ``tail``, in one step.

        Args:
            keep: How many bytes stay, copied in the kernel; memory does not grow with them.
            tail: What follows: bytes, or a function that writes it to the descriptor it is given.

        Raises:
            DurabilityUnknownError: The new file is live but might not survive a power loss.
            OSError: The old file is whole, and nothing is left beside it.
        """
        self._known = None

        def write(target: int) -> None:
            if keep:
                with lines.opened(self.path) as (source, _):
                    files.copy_range(source, target, 0, keep)
            if isinstance(tail, bytes):
                files.write_all(target, tail)
            else:
                tail(target)

        files.rewrite(self.path, write, temp_name=self._temp_name())

    def note_untitled(self) -> None:
        """Spare lists the search for a title where it is known that there is none; the caller holds the lock.

        Of a file that lists read whole, and of one somebody else changed since, nothing is noted.
        """
        known = self._known
        if known is None or known.title is not None or known.size <= titles.WINDOW_BYTES:
            return
        with contextlib.suppress(OSError):
            status = os.stat(self.path)
            if (status.st_size, status.st_ino) == (known.size, known.inode):
                untitled.note(self._sidecar, status)

    def sweep(self) -> list[str]:
        """Remove the temporaries a crash of this session's writer left beside the transcript; return their names."""
        prefix = self._temp_prefix()
        return files.sweep_temporaries(
            os.path.dirname(os.path.realpath(self.path)), among=lambda name: name.startswith(prefix)
        )

    def _temp_prefix(self) -> str:
        # An id may be as long as a name can be: the temporary's is made of its checksum.
        return f"{files.TEMP_PREFIX}{zlib.crc32(os.fsencode(self.path.name)):08x}."

    def _temp_name(self) -> str:
        return f"{self._temp_prefix()}{secrets.token_hex(4)}{files.TEMP_SUFFIX}"

    def _look(self) -> _Known | None:
        try:
            with lines.opened(self.path) as (descriptor, size):
                status = os.fstat(descriptor)
                if self._known is None or (self._known.size, self._known.inode) != (size, status.st_ino):
                    is_untitled = not untitled.Beside(str(self._sidecar), status).may_have_title()
                    self._known = _survey(descriptor, size, status.st_ino, is_untitled=is_untitled)
        except FileNotFoundError:
            self._known = None
        return self._known

    def _create(self, body: bytes) -> None:
        content = body if self._header is None else self._header.removesuffix(b"\n") + b"\n" + body
        title = _last_title_in(content, 0)
        if title is not None and titles.falls_out(title, len(content)):
            content += title.raw + b"\n"
        files.make_directory(self.path.parent)
        files.rewrite(self.path, lambda target: files.write_all(target, content), temp_name=self._temp_name())

    def _set_aside(self, torn: tuple[int, bytes]) -> None:
        offset, raw = torn
        directory = self._sidecar / "torn"
        files.make_directory(directory)
        number = 1
        while (place := directory / f"{offset}-{number}").exists():
            number += 1
        files.rewrite(place, lambda target: files.write_all(target, raw))
        files.truncate(self.path, offset)
        self._findings.append(scanning.torn_finding(raw, offset, f"set aside in {place}"))


def _survey(descriptor: int, size: int, inode: int, *, is_untitled: bool) -> _Known:
    offset, raw = lines.unterminated(descriptor, size)
    torn = (offset, raw) if raw and codec.decode(raw).kind is Kind.OPAQUE else None
    title = None if is_untitled else scanning.last_title(descriptor, size if torn is None else offset)
    return _Known(size, inode, not raw, torn, title)


def _last_title_in(data: bytes, offset: int) -> Title | None:
    """Return the last title among the lines of ``data``, which starts at ``offset`` of the file."""
    end = len(data)
    while (place := data.rfind(b'"custom-title"', 0, end)) >= 0:
        start = data.rfind(b"\n", 0, place) + 1
        behind = data.index(b"\n", place) + 1
        entry = codec.decode(data[start : behind - 1])
        if entry.kind is Kind.TITLE:
            return Title(entry.title or "", entry.raw, offset + start, offset + behind)
        end = start
    return None
