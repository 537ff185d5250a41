"""One streaming pass over a transcript. Most of its bytes are assistant messages, and most of those need no parsing."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sessions.transcript import blocks, codec, collapse, lines, turns
from sessions.transcript.entry import Entry, Kind
from sessions.transcript.header import header_of
from sessions.transcript.outline import Finding, ForeignSnapshot, Header, Outline, Prompt, Title

PREVIEW_CHARACTERS = 1_000
MAX_FINDINGS = 100
BUFFER = 1 << 20
ANCHOR_BYTES = 256

# The keys and the spacing every writer of this format uses. A line that starts like this is an assistant message;
# nobody has to read on, unless it holds what is searched for by name. These needles are the fastest that miss
# nothing: the search skips further the longer a needle is, and costs more than all the rest of the pass.
_ASSISTANT = re.compile(rb'\{"timestamp":"[^"\\]*","id":"[^"\\]*","role":"assistant",').match
is_usual_message = re.compile(rb'\{"timestamp":"[^"\\]*","id":"([^"\\]*)","role":"(?:user|assistant)",').match
_COMPACT, _FILES = b'"type":"comp', b'"type":"file_history"'


class Place(NamedTuple):
    """What the rules of `collapse` need to know of a line, and where it lies; ``prompt`` is set for a prompt."""

    kind: Kind
    id: str | None
    timestamp: str | None
    is_compact: bool
    after: str | None
    hides_from: str | None
    offset: int
    end: int
    prompt: Prompt | None


class NeedsEveryLineError(Exception):
    """A pass with short cuts cannot answer: a rollback event or ``after`` names a message it may have passed over."""


class Scan:
    """What a pass has found so far. Give it lines in order; ``deep`` also collects compactions and file snapshots."""

    def __init__(self, *, deep: bool) -> None:
        self.deep = deep
        self.header: Header | None = None
        self.title: Title | None = None
        self.findings: list[Finding] = []
        self.snapshots: list[ForeignSnapshot] = []
        self.prompts: dict[str, Prompt] = {}
        self.compactions: list[int] = []
        self.in_view: set[str] = set()
        self._opaque = 0
        self._snapshot_keys: set[tuple[object, ...]] = set()
        self._last_compact: Entry | None = None  # None as soon as a message follows it

    def note(self, entry: Entry, offset: int, end: int) -> None:
        """Take in everything about a line that does not depend on what is visible."""
        match entry.kind:
            case Kind.HEADER if self.header is None:
                self.header = header_of(entry, offset)
            case Kind.TITLE:
                self.title = Title(entry.title or "", entry.raw, offset, end)
            case Kind.OPAQUE if entry.raw.strip():
                self._note_opaque(entry, offset)
            case Kind.MESSAGE if self.deep:
                for key, snapshot in blocks.snapshots_of(entry, offset):
                    if key not in self._snapshot_keys:
                        self._snapshot_keys.add(key)
                        self.snapshots.append(snapshot)

    def pass_message(self, entry: Entry, offset: int, end: int) -> None:
        """Take in a message in a file where nothing is hidden.

        Raises:
            NeedsEveryLineError: Something is hidden, or a compact message keeps a part of the view.
        """
        if entry.kind is Kind.ROLLBACK:
            raise NeedsEveryLineError
        if entry.kind is not Kind.MESSAGE:
            return
        if b'"comp' in entry.raw and entry.is_compact:
            if self.deep:
                self._pass_compact(entry, offset)
            return
        self._last_compact = None
        if (text := turns.typed(entry)) is not None:
            self.pass_prompt(_prompt(entry, offset, end, text))

    def pass_prompt(self, prompt: Prompt) -> None:
        """Take in a prompt in a file where nothing is hidden."""
        self._last_compact = None
        self.in_view.add(prompt.id)
        self.prompts.setdefault(prompt.id, prompt)

    def pass_over(self) -> None:
        """Take in that an assistant message without a summary was passed over."""
        self._last_compact = None

    def conclude(self, places: Iterable[Place]) -> None:
        """Derive from notes on all messages and rollback events what depends on what is visible."""
        places = list(places)
        shown = collapse.messages(places)
        for place in shown:
            if place.prompt is not None:
                self.prompts.setdefault(place.prompt.id, place.prompt)
        if self.deep:
            self.compactions = [place.offset for place in shown if place.is_compact]
            self.in_view = {place.prompt.id for place in collapse.model_view(places) if place.prompt is not None}

    def outline(self, path: Path, size: int, inode: int, torn: Sequence[Finding] = ()) -> Outline:
        """Return the result so far."""
        findings = [*self.findings, *torn]
        if self._opaque > MAX_FINDINGS:
            more = self._opaque - MAX_FINDINGS
            findings.append(Finding("opaque_line", f"{more} more lines cannot be read", "kept"))
        return Outline(
            path=path,
            size=size,
            inode=inode,
            header=self.header,
            prompts=tuple(self.prompts.values()),
            compactions=tuple(self.compactions),
            in_view=frozenset(self.in_view) if self.deep else frozenset(),
            title=self.title,
            snapshots=tuple(self.snapshots),
            findings=tuple(findings),
        )

    def _note_opaque(self, entry: Entry, offset: int) -> None:
        self._opaque += 1
        if self._opaque <= MAX_FINDINGS:
            self.findings.append(opaque_finding(entry.raw, offset))

    def _pass_compact(self, entry: Entry, offset: int) -> None:
        if entry.after is not None:
            raise NeedsEveryLineError
        if self._last_compact is None:
            self.compactions.append(offset)
            self._last_compact = entry
        elif collapse.newer(self._last_compact, entry) is entry:
            self.compactions[-1] = offset
            self._last_compact = entry
        self.in_view.clear()


def scan(path: Path, *, deep: bool) -> Outline:
    """See `reader.scan`."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return Follower(path, deep=deep).outline()


def places_in(numbered: Iterable[tuple[int, int, Entry]]) -> Iterator[Place]:
    """Yield notes on the messages and rollback events among ``numbered``."""
    for offset, end, entry in numbered:
        if entry.kind is Kind.MESSAGE or entry.kind is Kind.ROLLBACK:
            yield Place(
                kind=entry.kind,
                id=entry.id,
                timestamp=entry.timestamp,
                is_compact=entry.is_compact,
                after=entry.after,
                hides_from=entry.hides_from,
                offset=offset,
                end=end,
                prompt=None if (text := turns.typed(entry)) is None else _prompt(entry, offset, end, text),
            )


def every_line(
    source: Path | int, start: int = 0, end: int | None = None, *, buffer: int = BUFFER
) -> Iterator[tuple[int, int, Entry]]:
    """Yield every line that starts in the range: offset, end, entry. A torn last line is not yielded.

    Args:
        source: The file, or a descriptor of it, which stays open and is moved.
    """
    with open(source, "rb", buffering=buffer, closefd=not isinstance(source, int)) as file:
        offset = file.seek(start)
        for line in file:
            if end is not None and offset >= end:
                return
            behind = offset + len(line)
            if line.endswith(b"\n"):
                yield offset, behind, codec.decode(line[:-1])
            elif (entry := codec.decode(line)).kind is not Kind.OPAQUE:
                yield offset, behind, entry
            offset = behind


def entry_at(descriptor: int, offset: int, end: int) -> Entry:
    """Return the line that lies there in an open file."""
    return codec.decode(lines.read(descriptor, offset, end - offset).removesuffix(b"\n"))


def message_ids(path: Path, end: int) -> Iterator[str]:
    """Yield the id of every message that starts in front of ``end``. Like a scan, this parses only odd spellings."""
    offset = 0
    with path.open("rb", buffering=BUFFER) as file:
        for line in file:
            if offset >= end:
                return
            offset += len(line)
            if (canonical := is_usual_message(line)) is not None:
                yield canonical[1].decode(errors="replace")
            elif (entry := codec.decode(line)).kind is Kind.MESSAGE and entry.id is not None:
                yield entry.id


def last_title(descriptor: int, size: int) -> Title | None:
    """Return the last title line of the first ``size`` bytes of an open file, searched from their end."""
    end = size
    while (found := lines.find_last(descriptor, end, b'"custom-title"')) is not None:
        end, raw = found
        entry = codec.decode(raw)
        if entry.kind is Kind.TITLE:
            return Title(entry.title or "", raw, end, min(end + len(raw) + 1, size))
    return None


def _prompt(entry: Entry, offset: int, end: int, text: str) -> Prompt:
    return Prompt(
        id=entry.id or "",
        offset=offset,
        end=end,
        timestamp=entry.timestamp,
        preview=text[:PREVIEW_CHARACTERS],
        truncated=len(text) > PREVIEW_CHARACTERS,
    )


def _plain_prompt(line: bytes, offset: int) -> Prompt | None:
    """Return a note on a prompt of the usual shape, one text and nothing else; None for any other line.

    It says what `_prompt` says; it only takes fewer steps, and prompts are most of what a pass has to parse.
    """
    if b'"role":"user"' not in line[:200]:
        return None
    try:
        data = codec.loads(line)
    except ValueError:
        return None
    if not isinstance(data, dict) or len(data) != 4 or data.get("role") != "user":
        return None
    timestamp, name, said = data.get("timestamp"), data.get("id"), data.get("blocks")
    block = said[0] if isinstance(said, list) and len(said) == 1 else None
    text = block.get("content") if isinstance(block, dict) and len(block) == 2 and block.get("type") == "text" else None
    if not (isinstance(timestamp, str) and isinstance(name, str) and isinstance(text, str)):
        return None
    end = offset + len(line)
    return Prompt(name, offset, end, timestamp, text[:PREVIEW_CHARACTERS], len(text) > PREVIEW_CHARACTERS)


def opaque_finding(raw: bytes, offset: int) -> Finding:
    """Return what there is to say about a line that cannot be read."""
    what = "is all NUL bytes" if not raw.strip(b"\0") else "cannot be read"
    return Finding("opaque_line", f"the line at byte {offset} ({len(raw)} bytes) {what}", "kept", offset)


def torn_finding(raw: bytes, offset: int, action: str = "ignored") -> Finding:
    """Return what there is to say about a last line that was not written to its end."""
    return Finding("torn_tail", f"the last line, at byte {offset} ({len(raw)} bytes), is incomplete", action, offset)


class Follower:
    """Outlines of one transcript while it grows: only what was appended since the last pass is read.

    A file with another inode, a shorter one, and one that differs where the last pass ended, was rewritten and is read
    anew: an inode alone proves nothing, the next file may get it. Where something is hidden, every change costs a whole
    pass.
    """

    def __init__(self, path: Path, *, deep: bool) -> None:
        self.path = path
        self._deep = deep
        self._outline: Outline | None = None
        self._found = Scan(deep=deep)
        self._offset = 0
        self._anchor = b""  # the bytes in front of the offset
        self._written = 0  # when the file was last written, before it was read
        self._ended = True  # no complete line without newline was taken in, which may yet become another line

    @property
    def started(self) -> bool:
        """Whether the file was read already."""
        return self._outline is not None

    def outline(self) -> Outline:
        """Return the outline as of now; an empty one for a missing file."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._restart()
            return Outline(self.path, 0, 0)
        known, written = self._outline, status.st_mtime_ns
        if known is not None and (known.inode, known.size, self._written) == (status.st_ino, status.st_size, written):
            return known
        if known is None or known.inode != status.st_ino or status.st_size <= known.size or not self._ended:
            self._restart()
        self._written = written
        try:
            self._outline = self._go_on()
        except NeedsEveryLineError:
            self._restart()
            self._outline = _scan_every_line(self.path, deep=self._deep)
        return self._outline

    def _restart(self) -> None:
        self._outline = None
        self._ended = True
        self._found = Scan(deep=self._deep)
        self._offset = 0
        self._anchor = b""

    def _go_on(self) -> Outline:
        found, deep, is_assistant, offset = self._found, self._deep, _ASSISTANT, self._offset
        torn: list[Finding] = []
        with self.path.open("rb", buffering=BUFFER) as file:
            inode = os.fstat(file.fileno()).st_ino
            file.seek(offset - len(self._anchor))
            if file.read(len(self._anchor)) != self._anchor:
                self._restart()
                return self._go_on()
            last, passed = self._anchor, False
            for line in file:
                if (
                    line[-1] == 10
                    and is_assistant(line) is not None
                    and not (deep and (_COMPACT in line or _FILES in line))
                ):
                    offset += len(line)
                    last, passed = line, True
                    continue
                if passed:
                    found.pass_over()
                    passed = False
                if line[-1] == 10 and (plain := _plain_prompt(line, offset)) is not None:
                    found.pass_prompt(plain)
                    offset += len(line)
                    last = line
                    continue
                entry = codec.decode(line[:-1] if line[-1] == 10 else line)
                if line[-1] != 10:  # an unended line is looked at whole, now and when it has grown
                    if entry.kind is Kind.OPAQUE:
                        torn.append(torn_finding(line, offset))
                        break
                    self._ended = False
                found.note(entry, offset, offset + len(line))
                found.pass_message(entry, offset, offset + len(line))
                offset += len(line)
                last = line
        if passed:
            found.pass_over()
        self._offset, self._anchor = offset, last[-ANCHOR_BYTES:]
        return found.outline(self.path, offset + len(line) if torn else offset, inode, torn)


def _scan_every_line(path: Path, *, deep: bool) -> Outline:
    found = Scan(deep=deep)
    places: list[Place] = []
    torn: list[Finding] = []
    offset = 0
    with path.open("rb", buffering=BUFFER) as file:
        inode = os.fstat(file.fileno()).st_ino
        for line in file:
            start = offset
            offset += len(line)
            entry = codec.decode(line.removesuffix(b"\n"))
            if entry.kind is Kind.OPAQUE and line[-1] != 10:
                torn.append(torn_finding(line, start))
                continue
            found.note(entry, start, offset)
            places.extend(places_in([(start, offset, entry)]))
    found.conclude(places)
    return found.outline(path, offset, inode, torn)
