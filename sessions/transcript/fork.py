"""A fork's transcript: a header of its own, the visible lines of the parent, byte for byte, and a title of its own."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from sessions import files
from sessions.transcript import codec, lines, reader, scanning
from sessions.transcript.entry import Kind
from sessions.transcript.selection import HidesSomethingError, Range, Selection
from sessions.transcript.titles import MAX_CHARACTERS

_MARK = " (fork)"


@dataclass(frozen=True, slots=True)
class Copied:
    """What a fork copies of its parent; ``ended``: whether the last line ends with a newline."""

    ranges: tuple[Range, ...]
    ended: bool


def survey(descriptor: int, end: int) -> Copied:
    """Choose what is copied of an open transcript; see `selection`.

    One pass that parses only lines of an unusual shape; a second one that parses all where something is hidden. Memory
    does not grow with the file in the first, and with the number of messages in the second. The descriptor is moved.

    Args:
        end: The start of a visible line; lines from there on are not copied. The file's size: all are, but for a torn
            last line.
    """
    try:
        return _survey(descriptor, end, exactly=False)
    except HidesSomethingError:
        return _survey(descriptor, end, exactly=True)


def notices_behind(descriptor: int, end: int, size: int, notices: Container[str]) -> list[bytes]:
    """Return the lines of notices that lie behind the end of a fork and not in front, in order, without newlines.

    Args:
        end: As for ``survey``.
        size: The file's bytes.
        notices: The message ids of those that are looked for.
    """
    found: dict[str, bytes] = {}
    for _, _, entry in scanning.every_line(descriptor, end, size):
        if entry.kind is Kind.MESSAGE and entry.id is not None and entry.id in notices:
            found.setdefault(entry.id, entry.raw)
    return [raw for name, raw in found.items() if reader.place_of(descriptor, name, end=end) is None]


def write(
    source: int, target: int, copied: Copied, *, header: bytes | None, behind: bytes = b"", title: bytes | None
) -> None:
    """Write a fork's transcript.

    Args:
        source: The descriptor ``copied`` was made from.
        target: An empty file, at its start.
        header: Its first line, without a newline; None for none.
        behind: What follows the copied lines, each line with its newline.
        title: Its last line, as ``header``.

    Raises:
        OSError: It could not be written; the target holds a part.
    """
    if header is not None:
        files.write_all(target, header + b"\n")
    for each in copied.ranges:
        files.copy_range(source, target, each.start, each.end - each.start)
    if not copied.ended:
        files.write_all(target, b"\n")
    if behind:
        files.write_all(target, behind)
    if title is not None:
        files.write_all(target, title + b"\n")


def place_of(copied: Copied, offset: int, *, header: bytes | None) -> int:
    """Return where in a fork the byte ``offset`` of its parent lies, or what of that is copied next."""
    in_front = sum(max(min(each.end, offset) - each.start, 0) for each in copied.ranges)
    return in_front + (0 if header is None else len(header) + 1)


def read_before(source: int, copied: Copied, offset: int, count: int, *, header: bytes | None) -> bytes:
    """Return the last ``count`` bytes in front of that place in the fork; fewer where it begins there.

    Args:
        source: The descriptor ``copied`` was made from.
    """
    pieces: list[bytes] = []
    for each in reversed(copied.ranges):
        size = min(max(min(each.end, offset) - each.start, 0), count)
        pieces.append(lines.read(source, min(each.end, offset) - size, size) if size else b"")
        count -= size
        if not count:
            break
    start = b"" if header is None else header + b"\n"
    pieces.append(start[max(len(start) - count, 0) :] if count else b"")
    return b"".join(reversed(pieces))


def title_of(parent: str | None) -> str | None:
    """Return the title of a fork that was given none: its parent's, marked; None where that has none either."""
    return None if parent is None or not parent.strip() else parent[: MAX_CHARACTERS - len(_MARK)] + _MARK


def _survey(descriptor: int, end: int, *, exactly: bool) -> Copied:
    selection = Selection(noting=exactly)
    with open(descriptor, "rb", buffering=scanning.BUFFER, closefd=False) as file:
        start = file.seek(0)
        for line in file:
            if start >= end:
                break
            behind = start + len(line)
            if not exactly and line[-1] == 10 and scanning.is_usual_message(line) is not None:
                selection.keep(start, behind)
            else:
                _take(selection, line, start)
            start = behind
    last = selection.ranges[-1].end if selection.ranges else 0
    return Copied(tuple(selection.ranges), last == 0 or lines.read(descriptor, last - 1, 1) == b"\n")


def _take(selection: Selection, line: bytes, start: int) -> None:
    entry = codec.decode(line.removesuffix(b"\n"))
    if entry.kind is not Kind.OPAQUE or line.endswith(b"\n"):  # else it is torn
        selection.take(entry, start, start + len(line))
