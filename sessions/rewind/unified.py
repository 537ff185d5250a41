r"""A change of one file as a patch: unified, in the spelling of git, so that ``git apply`` takes it. Pure.

What cannot be shown line by line (binary, too large, not kept) is one line with sizes and hashes; it begins and ends as
git's own line for it does, so ``git apply`` refuses the whole patch instead of making an empty file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sessions.rewind.lines import Match, is_binary, matches, split_lines

CONTEXT = 3
_NOTHING = b"/dev/null"
_KIND = 0o170000
_UNENDED = b"\n\\ No newline at end of file\n"
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", ord('"'): '"', ord("\\"): "\\"}
_PLAIN = re.compile(r'[^\x00-\x1f\x7f"\\\ud800-\udfff]*')


@dataclass(frozen=True, slots=True)
class Side:
    """A file before or after a change.

    Attributes:
        mode: As git has it (0o100644, 0o120000 for a link); None where there is no file, or nobody knows its mode.
        content: Its bytes, of a link its target; None where they cannot be shown.
        facts: A phrase with size and hash, for where the content is not shown.
        exists: Whether there is a file.
    """

    mode: int | None = None
    content: bytes | None = b""
    facts: str = ""
    exists: bool = True


NO_FILE = Side(exists=False)


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch: its bytes, and how many lines it inserts and deletes; None where that is unknown.

    Attributes:
        applies: Whether ``git apply`` takes it: all of it is shown line by line.
    """

    raw: bytes
    insertions: int | None = 0
    deletions: int | None = 0
    binary: bool = False
    applies: bool = True

    def __add__(self, other: Patch) -> Patch:
        known = self.insertions is not None and other.insertions is not None
        return Patch(
            self.raw + other.raw,
            (self.insertions or 0) + (other.insertions or 0) if known else None,
            (self.deletions or 0) + (other.deletions or 0) if known else None,
            self.binary or other.binary,
            self.applies and other.applies,
        )


def patch(path: str, old: Side, new: Side, *, moved_from: str | None = None, similarity: int = 100) -> Patch:
    """Return what takes ``old`` to ``new``.

    Args:
        path: As people read it.
        moved_from: The path of ``old``, where that is another one.
        similarity: How much of a moved file stayed, in percent.
    """
    if old.mode is not None and new.mode is not None and (old.mode ^ new.mode) & _KIND:
        return patch(moved_from or path, old, NO_FILE) + patch(path, NO_FILE, new)
    names = _prefixed("a", moved_from or path), _prefixed("b", path)
    head = [b"diff --git %s %s\n" % (_quoted(names[0]), _quoted(names[1])), *_modes(old, new)]
    if moved_from is not None:
        head.append(b"similarity index %d%%\n" % similarity)
        head.append(b"rename from %s\nrename to %s\n" % (_quoted(moved_from), _quoted(path)))
    ends = _quoted(names[0]) if old.exists else _NOTHING, _quoted(names[1]) if new.exists else _NOTHING
    if old.content is None or new.content is None or is_binary(old.content) or is_binary(new.content):
        return _opaque(b"".join(head), ends, old, new)
    lines = split_lines(old.content), split_lines(new.content)
    found = matches(*lines)
    kept = sum(match.size for match in found)
    if any(len(side) > kept for side in lines):
        head.append(b"--- %s\n+++ %s\n" % (_ended(ends[0]), _ended(ends[1])))
        head.extend(_hunks(*lines, found))
    return Patch(b"".join(head), len(lines[1]) - kept, len(lines[0]) - kept)


def _modes(old: Side, new: Side) -> Iterator[bytes]:
    if not old.exists and new.mode is not None:
        yield b"new file mode %06o\n" % new.mode
    elif not new.exists and old.mode is not None:
        yield b"deleted file mode %06o\n" % old.mode
    elif old.mode != new.mode and old.mode is not None and new.mode is not None:
        yield b"old mode %06o\nnew mode %06o\n" % (old.mode, new.mode)


def _opaque(head: bytes, ends: tuple[bytes, bytes], old: Side, new: Side) -> Patch:
    known = old.content is not None and new.content is not None
    binary = any(side.content is not None and is_binary(side.content) for side in (old, new))
    if known and old.content == new.content:
        return Patch(head, binary=True)
    one, other = (
        end + (b" (%s)" % side.facts.encode() if side.exists else b"")
        for end, side in zip(ends, (old, new), strict=True)
    )
    said = b"%s %s and %s differ\n" % (b"Binary files" if binary else b"Files", one, other)
    unknown = None if not binary else 0
    return Patch(head + said, unknown, unknown, binary, applies=False)


def _hunks(old: Sequence[bytes], new: Sequence[bytes], found: Sequence[Match]) -> Iterator[bytes]:
    changes = list(_changes(len(old), len(new), found))
    first = 0
    for place, (_, end, _, _) in enumerate(changes):
        if place + 1 == len(changes) or changes[place + 1][0] - end > 2 * CONTEXT:
            yield from _hunk(old, new, changes[first : place + 1])
            first = place + 1


def _changes(old: int, new: int, found: Sequence[Match]) -> Iterator[tuple[int, int, int, int]]:
    """Yield what lies between matches: from and to in the old text, from and to in the new one."""
    at_old = at_new = 0
    for match in (*found, Match(old, new, 0)):
        if match.old > at_old or match.new > at_new:
            yield at_old, match.old, at_new, match.new
        at_old, at_new = match.old + match.size, match.new + match.size


def _hunk(old: Sequence[bytes], new: Sequence[bytes], changes: Sequence[tuple[int, int, int, int]]) -> Iterator[bytes]:
    before = min(CONTEXT, changes[0][0])
    after = min(CONTEXT, len(old) - changes[-1][1])
    start, new_start = changes[0][0] - before, changes[0][2] - before
    end, new_end = changes[-1][1] + after, changes[-1][3] + after
    yield b"@@ -%s +%s @@\n" % (_range(start, end - start), _range(new_start, new_end - new_start))
    at = start
    for old_from, old_to, new_from, new_to in changes:
        yield from _marked(b" ", old[at:old_from])
        yield from _marked(b"-", old[old_from:old_to])
        yield from _marked(b"+", new[new_from:new_to])
        at = old_to
    yield from _marked(b" ", old[at:end])


def _range(start: int, size: int) -> bytes:
    if size == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if size else start, size)


def _marked(mark: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line if line.endswith(b"\n") else mark + line + _UNENDED


def _prefixed(side: str, path: str) -> str:
    return side + path if path.startswith("/") else f"{side}/{path}"


def _ended(name: bytes) -> bytes:
    """End a name that holds a space as git does, so that it is not taken for a time."""
    return name + b"\t" if b" " in name and not name.startswith(b'"') else name


def _quoted(path: str) -> bytes:
    """Spell a path as git does: in quotes where it holds control characters, quotes, or bytes that are not UTF-8."""
    if _PLAIN.fullmatch(path):
        return path.encode()
    return b'"%s"' % "".join(map(_escaped, path)).encode()


def _escaped(char: str) -> str:
    if ord(char) in _ESCAPES:
        return "\\" + _ESCAPES[ord(char)]
    if _PLAIN.fullmatch(char):
        return char
    lone = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", lone))
