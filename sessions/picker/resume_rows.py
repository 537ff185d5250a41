"""What the resume picker shows: a state becomes the lines of one screen. Pure, and no more work than one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.picker import words
from sessions.picker.keys import Click
from sessions.picker.rows import CURSOR, POINTER
from sessions.picker.text import (
    Line,
    clip,
    clip_start,
    fit,
    one_line,
    pad,
    pad_start,
    plain,
    visible,
    width,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sessions.listing import SessionInfo
    from sessions.picker.resume_state import Doomed, Preview, Renaming, ResumeState, Wish

FORK = "⑂"
DAMAGED = "!"
_WIDE = 64  # cells from which on words fit where narrow screens get letters
_BRANCH_CELLS = 18
_NAMED_CELLS = 40

_SCOPES = {"project": "this project", "worktrees": "all worktrees", "all": "all projects"}
_NOTHING = "(nothing in it)"
_RENAMING = "Enter rename · Esc leave it"
_DOOMED = "Ctrl+D delete · any other key: do not"


def screen(state: ResumeState, now: datetime, preview: Sequence[Line] = ()) -> list[Line]:
    """Return the lines to draw, at most ``state.height``, each at most ``state.width`` cells.

    Args:
        state: With a preview it has to be measured (``resume_state.measured``).
        now: What relative times are relative to.
        preview: What :func:`preview_lines` returns for ``state``.
    """
    lines = _preview_screen(state, state.preview, preview) if state.preview is not None else _list_screen(state, now)
    return [fit(line, state.width) for line in lines[: state.height]]


def hit(state: ResumeState, y: int) -> Click | None:
    """Return what a click on line ``y`` of the screen means, counted from 0; None where there is nothing to click."""
    row = y - (3 if state.roomy else 1)
    if state.preview is not None or not 0 <= row < min(state.page, len(state.matches) - state.top):
        return None
    return Click(row)


def preview_lines(state: ResumeState) -> list[Line]:
    """Return the lines of the preview, wrapped to the width, all of them; empty without one."""
    preview = state.preview
    if preview is None or preview.lines is None:
        return []
    return [part for line in preview.lines for part in wrap(line, max(state.width, 1))]


def _list_screen(state: ResumeState, now: datetime) -> list[Line]:
    rows = _rows(state, now)
    rows += [()] * (state.page - len(rows))
    if not state.roomy:
        return [_news(state) or _typed(state) or _title(state), *rows]
    filtering = _typed(state) or (("dim", "Type to filter"),)
    return [_title(state), filtering, (), *rows, (), _news(state) or _details(state), (("dim", _keys(state)),)]


def _title(state: ResumeState) -> Line:
    total, found = len(state.listing.rows) - len(state.deleted), len(state.matches)
    counted = "" if state.reading else words.count(total, "session") if found == total else f"{found} of {total}"
    name: Line = (
        ("title", "Resume"),
        ("dim", f" · {'candidates' if state.fixed else _SCOPES[state.scope]}"),
    )
    name = fit(name, state.width - width(counted) - 1)
    return (*name, ("", " " * max(state.width - width(plain(name)) - width(counted), 1)), ("dim", counted))


def _typed(state: ResumeState) -> Line:
    """Return the line that is typed: a title, or a filter; empty where there is none."""
    if state.renaming is not None:
        return _renaming(state.renaming, state.width)
    if not state.filter:
        return ()
    found = "" if state.roomy or state.reading else f"  {len(state.matches)} of {len(state.listing.rows)}"
    found += "  reading prompts …" if state.learning and state.filter.strip() else ""
    return ("dim", "Filter "), ("strong", visible(state.filter, keep="")), ("", CURSOR), ("dim", found)


def _renaming(renaming: Renaming, cells: int) -> Line:
    """Return the title that is typed, with its cursor in sight."""
    before, behind = visible(renaming.text[: renaming.at], keep=""), visible(renaming.text[renaming.at :], keep="")
    room = max(cells - len("Title ") - 1, 1)
    before = clip_start(before, room - min(width(behind), room // 3))
    return ("dim", "Title "), ("strong", before), ("", CURSOR), ("strong", clip(behind, room - width(before)))


def _rows(state: ResumeState, now: datetime) -> list[Line]:
    if state.reading:
        return [(("dim", "  listing the sessions …"),)]
    if not state.matches:
        return [(("dim", f"  {_none(state)}"),)]
    places = range(state.top, min(state.top + state.page, len(state.matches)))
    rows = [state.listing.rows[state.matches[at]] for at in places]
    branch_cells = max((width(_branch(row)) for row in rows), default=0)
    counted = any(row.total_tokens is not None for row in rows)
    return [
        _row(state, row, now, branch_cells, counted=counted, selected=at == state.selected)
        for at, row in zip(places, rows, strict=True)
    ]


def _none(state: ResumeState) -> str:
    if state.filter:
        return "No session mentions that." + ("" if state.everywhere or state.fixed else " Ctrl+A: all projects")
    return "There are no sessions." if state.everywhere else "There are none here. Ctrl+A: all projects"


def _row(
    state: ResumeState, row: SessionInfo, now: datetime, branch_cells: int, *, counted: bool, selected: bool
) -> Line:
    wide = state.width >= _WIDE
    age = words.ago(row.last_active_at, now) if wide else words.relative(row.last_active_at, now)
    age_cells = 10 if wide else 5
    age = age if len(age) <= age_cells else age[2:7]  # of a date year and month
    left: Line = (
        ("pointer" if selected else "", f"{POINTER} " if selected else "  "),
        ("dim", pad(age, age_cells) + " "),
        ("mark", f"{FORK} " if row.forked_from is not None else ""),
        ("warn", f"{DAMAGED} " if row.damaged else ""),
    )
    room = state.width - width(plain(left))
    right: Line = ()
    if wide:
        right = (("mark", f"  {pad(_branch(row), branch_cells)}" if branch_cells else ""),)
        right += (("dim", f" {pad_start(words.tokens(row.total_tokens), 6)}" if counted else ""),)
        room -= width(plain(right))
    away = _away(state, row, room * 2 // 5)
    room = max(room - width(plain(away)), 1)
    style = "selected" if selected else ""
    title = one_line(row.title or "", room)
    return (*left, (style if title else "dim", pad(title or words.UNTITLED, room)), *away, *right)


def _away(state: ResumeState, row: SessionInfo, cells: int) -> Line:
    """Return where a session belongs that is not of the current directory, marked where that is gone."""
    directory = state.listing.away.get(row.path)
    if directory is None or cells < 4:
        return ()
    gone = row.path in state.listing.gone
    mark = "gone " if gone and cells >= 12 else "✗ " if gone else ""
    return ("", "  "), ("warn", mark), ("dim", clip_start(directory, cells - 2 - width(mark)))


def _branch(row: SessionInfo) -> str:
    return one_line(row.git_branch or "", _BRANCH_CELLS)


def _news(state: ResumeState) -> Line:
    """Return what is asked, being done or was done; empty where nothing is."""
    if state.doomed is not None:
        return _question(state.doomed)
    if state.busy is not None:
        return _doing(state.busy)
    return (("warn" if state.failed else "strong", visible(state.said, keep="")),) if state.said else ()


def _question(doomed: Doomed) -> Line:
    if doomed.note is None:
        return (("dim", "looking what belongs to it …"),)
    return (
        ("warn", "press Ctrl+D again to delete "),
        ("strong", one_line(doomed.row.title or doomed.row.id, _NAMED_CELLS)),
        ("", f"; {doomed.note}" if doomed.note else ""),
    )


def _doing(wish: Wish) -> Line:
    assert wish.row is not None
    named = one_line(wish.row.title or wish.row.id, _NAMED_CELLS)
    return (("dim", f"{'deleting' if wish.what == 'delete' else 'renaming'} {named} …"),)


def _details(state: ResumeState) -> Line:
    unread = state.listing.unread
    row = state.current
    if row is None:
        return (("warn", f"  {unread}"),) if unread else ()
    where = state.listing.away.get(row.path, "")
    parts = [
        visible(row.id[:8], keep=""),
        words.exactly(row.last_active_at),
        f"fork of {visible(row.forked_from[:8], keep='')}" if row.forked_from is not None else "",
        "damaged" if row.damaged else "",
        where,
        "its directory is gone" if row.path in state.listing.gone else "",
    ]
    said = " · ".join(filter(None, parts))
    return ("warn", f"  {unread}" if unread else ""), ("dim", f" · {said}" if unread else f"  {said}")


def _keys(state: ResumeState) -> str:
    """Return what the keys do, as much of it as fits."""
    if state.renaming is not None:
        return _RENAMING
    if state.doomed is not None:
        return _DOOMED
    look, leave = ("Tab", "clear") if state.filter else ("Space", "leave")
    scopes = [] if state.fixed else ["Ctrl+A this project" if state.everywhere else "Ctrl+A all projects"]
    few = [] if state.fixed else ["^A project" if state.everywhere else "^A all"]
    if state.several and not state.fixed and not state.everywhere:
        scopes.append("Ctrl+W this worktree" if state.worktrees else "Ctrl+W worktrees")
        few.append("^W trees")
    full = " · ".join([f"Enter resume · {look} look", *scopes, "Ctrl+R rename · Ctrl+D delete", f"Esc {leave}"])
    short = full.replace("Ctrl+", "^")
    tight = f"Enter · {look} look · {' '.join([*few, '^R rename ^D delete'])} · Esc"
    least = f"{look} {' '.join([*few, '^R name ^D del'])}"
    texts = (full, short, tight, f"Enter {least} Esc", least)
    return next((text for text in texts if width(text) <= state.width), "Enter resume")


def _preview_screen(state: ResumeState, preview: Preview, lines: Sequence[Line]) -> list[Line]:
    head: Line = (("title", one_line(preview.row.title or preview.row.id, state.width)),)
    end = max(len(lines) - preview.up, 0)
    start = max(end - state.preview_page, 0)
    body = list(lines[start : max(end, min(state.preview_page, len(lines)))])
    if preview.lines is None:
        body = [(("dim", "reading the last messages …"),)]
    elif not lines:
        body = [(("dim", _NOTHING),)]
    if not state.roomy:
        return [head, *body]
    body += [()] * (state.preview_page - len(body))
    full = "↑↓ PgUp PgDn scroll · Enter resume · Esc back"
    keys = full if width(full) <= state.width else "Enter resume · Esc back"
    keys = keys if preview.lines is not None else "Esc back"
    return [head, (), *body, (), (("dim", keys),)]
