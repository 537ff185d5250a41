"""A diff as lines for people: patches, a table of counts, what is not in it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.picker import verdicts, words
from sessions.picker.text import Fragment, Line, clip_start, pad, pad_start, visible, visible_path, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sessions.rewind.diff import FileDiff
    from sessions.rewind.plan import Gap

UNSHOWN = "it may be missing here, or a part of it"
_BODY = {" ": "", "+": "add", "-": "remove", "\\": "dim"}
_LEAST_PATH, _LEAST_GRAPH = 20, 10


def patch_lines(files: Iterable[FileDiff]) -> Iterator[Line]:
    """Yield the patches of files with control characters made visible, and notes where something is not certain."""
    for file in files:
        if file.unverified:
            yield ("warn", "unverified"), ("", f" {doubt(file)}")
        yield from _styled_patch(file.text)


def doubt(file: FileDiff) -> str:
    """Return why a file is ``unverified``, in a phrase."""
    told = "what is shown was recorded later" if file.text else "how it ended up is not known"
    return f"{visible_path(file.path)}: nobody recorded what an edit left; {told}"


def refusal(files: int) -> str:
    """Return a warning that so many files keep ``git apply`` from taking the patch."""
    which = "is binary, too large or no longer kept" if files == 1 else "are binary, too large or no longer kept"
    return f"'git apply' refuses this patch: {words.count(files, 'file')} in it {which}"


def gap_lines(gaps: Sequence[Gap]) -> Iterator[Line]:
    """Yield what was not captured; nothing where all was."""
    if gaps:
        yield ("warn", "not captured"), ("", f", so {UNSHOWN}")
        yield from verdicts.gap_lines(gaps)


def stat_lines(files: Iterable[FileDiff], columns: int) -> Iterator[Line]:
    """Yield a line a file with how many lines changed, as a number and as a bar, and a last line that counts."""
    rows = [(_name(file), _amount(file), file.insertions or 0, file.deletions or 0, file.unverified) for file in files]
    if not rows:
        return
    amount_cells = max(width(row[1]) for row in rows)
    path_cells = min(max(width(row[0]) for row in rows), max(columns - amount_cells - _LEAST_GRAPH - 6, _LEAST_PATH))
    room = max(columns - path_cells - amount_cells - 6, _LEAST_GRAPH)
    most = max(row[2] + row[3] for row in rows)
    for name, amount, added, removed, unverified in rows:
        yield (
            ("", f" {pad(clip_start(name, path_cells), path_cells)} | {pad_start(amount, amount_cells)} "),
            *_bar(added, removed, most, room),
            ("warn", " unverified" if unverified else ""),
        )
    yield (("", f" {_total(len(rows), sum(row[2] for row in rows), sum(row[3] for row in rows))}"),)


def _styled_patch(text: str) -> Iterator[Line]:
    in_body = False
    for line in text.removesuffix("\n").split("\n") if text else ():
        if line.startswith("@@"):
            in_body = True
            yield (("restore", line),)
        elif in_body and line[:1] in _BODY:
            yield ((_BODY[line[:1]], _safe(line)),)
        else:  # a header begins where a body cannot go on
            in_body = False
            yield (("strong", _safe(line)),)


def _safe(line: str) -> str:
    return "\t".join(map(visible_path, line.split("\t")))


def _name(file: FileDiff) -> str:
    path = visible_path(file.path)
    return path if file.moved_from is None else f"{visible_path(file.moved_from)} => {path}"


def _amount(file: FileDiff) -> str:
    if file.binary:
        return "Bin"
    return "?" if file.insertions is None or file.deletions is None else str(file.insertions + file.deletions)


def _bar(added: int, removed: int, most: int, room: int) -> tuple[Fragment, Fragment]:
    """Return ``+`` and ``-`` for lines, fewer for all files where the longest would not fit; one at least for any."""
    scale = min(room / most, 1) if most else 1
    plus, minus = (max(int(each * scale), 1) if each else 0 for each in (added, removed))
    return ("add", "+" * plus), ("remove", "-" * minus)


def _total(files: int, added: int, removed: int) -> str:
    said = [f"{words.count(files, 'file')} changed"]
    if added or not removed:
        said.append(f"{words.count(added, 'insertion')}(+)")
    if removed or not added:
        said.append(f"{words.count(removed, 'deletion')}(-)")
    return visible(", ".join(said))
