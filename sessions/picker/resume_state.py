"""What the resume picker knows and what a key does to it. Pure: ``press(state, key) -> state``.

Two screens: the list of sessions, the one touched last first, and the last messages of one of them. In the list a title
can be typed and a deletion asked for. Every key costs at most one screen of work; only a changed filter asks for the
rows it means.

What takes long is wished for (:func:`wanted`), done elsewhere, and put in with the function named after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from sessions.picker.keys import Click, Key, Press, in_sight, moved, pasted, typed
from sessions.transcript.titles import MAX_CHARACTERS

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.listing import SessionInfo
    from sessions.picker.text import Line

ROOMY = 10
"""Lines from which on the screens have a frame; below, every line counts."""

FILTER_LIMIT = 200
Scope = Literal["project", "worktrees", "all"]
_ON_A_ROW = (Key.ENTER, Key.PREVIEW, Key.RENAME, Key.DELETE)


@dataclass(frozen=True, slots=True)
class Listing:
    """The sessions of a scope.

    Attributes:
        rows: The one touched last first.
        search: Returns the indexes of the rows a filter means, the best first; asked only for one with words.
        away: For rows of another directory than the current one: the directory, as it is shown.
        gone: The rows whose directory is gone.
        unread: What is left out because it cannot be read, as a phrase; empty for nothing.
        learn: Reads what else some more of the rows say; what it returns lets ``search`` know that, and tells whether
            there is more to read. None where ``search`` knows all.
    """

    rows: Sequence[SessionInfo] = ()
    search: Callable[[str], Sequence[int]] = lambda _: ()
    away: Mapping[Path, str] = field(default_factory=dict)
    gone: frozenset[Path] = frozenset()
    unread: str = ""
    learn: Callable[[], Callable[[], bool]] | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """Something to be done: list a scope, learn what its rows say; look at a row, weigh it, rename it, delete it."""

    what: Literal["list", "learn", "look", "weigh", "rename", "delete"]
    row: SessionInfo | None = None
    scope: Scope | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """The last messages of a session.

    Attributes:
        lines: What they say; None while they are read.
        up: How many lines it is scrolled up from the end.
        length: Lines at the current width; the app sets it when it draws.
        seen: Whether it was on the screen.
    """

    row: SessionInfo
    lines: Sequence[Line] | None = None
    up: int = 0
    length: int = 0
    seen: bool = False


@dataclass(frozen=True, slots=True)
class Renaming:
    """A title that is typed; ``at``: where the cursor stands."""

    row: SessionInfo
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Doomed:
    """A session whose deletion was asked for.

    Attributes:
        note: What would go with it; None while that is looked for.
        seen: Whether the question was on the screen.
    """

    row: SessionInfo
    note: str | None = None
    seen: bool = False


@dataclass(frozen=True, slots=True)
class ResumeState:
    """Everything the picker shows and decides by.

    Attributes:
        everywhere: Whether the sessions of all projects are shown; wins over ``worktrees``.
        worktrees: Whether those of all worktrees of the repository are.
        several: Whether there are several worktrees.
        fixed: Whether the sessions to choose from are settled, so that no other scope is offered.
        listing: What there is to choose from.
        listed: The scope ``listing`` is for; None while there is none.
        stale: Whether it is to be read again; what it says is shown meanwhile.
        learning: Whether there is more to learn about its rows; that is done as soon as a filter is typed.
        deleted: Rows of it that are no more.
        seen: Whether the list was on the screen.
        keep: The transcript to select in the next listing.
        width: Cells of the terminal.
        height: Lines of the terminal.
        filter: What was typed.
        matches: Indexes of the rows shown: in their order, or the best first.
        selected: Index into ``matches``; 0 when it is empty.
        top: Index into ``matches`` of the first visible row.
        preview: The preview; None while the list is shown.
        renaming: The title that is typed; None while none is.
        doomed: What Ctrl-D is to delete when it is pressed again.
        busy: What is being carried out.
        said: What became of the last thing that was done.
        failed: Whether it failed.
        changed: Whether anything was renamed or deleted.
        leaving: Whether to leave as soon as what is carried out is done.
        left: Whether the picker is done.
        interrupted: Whether Ctrl-C ended it.
        outcome: The session to resume; None until one was chosen, and when the picker was left without one.
    """

    everywhere: bool = False
    worktrees: bool = False
    several: bool = False
    fixed: bool = False
    listing: Listing = Listing()
    listed: Scope | None = None
    stale: bool = False
    learning: bool = False
    deleted: frozenset[Path] = frozenset()
    seen: bool = False
    keep: Path | None = None
    width: int = 80
    height: int = 24
    filter: str = ""
    matches: Sequence[int] = ()
    selected: int = 0
    top: int = 0
    preview: Preview | None = None
    renaming: Renaming | None = None
    doomed: Doomed | None = None
    busy: Wish | None = None
    said: str = ""
    failed: bool = False
    changed: bool = False
    leaving: bool = False
    left: bool = False
    interrupted: bool = False
    outcome: SessionInfo | None = None

    @property
    def scope(self) -> Scope:
        """Whose sessions are shown."""
        return "all" if self.everywhere else "worktrees" if self.worktrees and self.several else "project"

    @property
    def reading(self) -> bool:
        """Whether there is no list of this scope yet."""
        return self.listed != self.scope

    @property
    def unseen(self) -> bool:
        """Whether what this state shows was not on the screen yet, so that no key can have been meant for it."""
        if self.busy is not None or self.reading:
            return True
        if self.doomed is not None:
            return not self.doomed.seen
        return not (self.preview.seen if self.preview is not None else self.seen)

    @property
    def roomy(self) -> bool:
        """Whether there is room for a frame."""
        return self.height >= ROOMY

    @property
    def page(self) -> int:
        """How many rows of the list are visible, at least one.

        The frame is title, filter and blank above, blank, details and keys below; without room the title alone.
        """
        return max(self.height - (6 if self.roomy else 1), 1)

    @property
    def preview_page(self) -> int:
        """How many lines of the preview are visible: all but title, blanks and keys, or but the title."""
        return max(self.height - (4 if self.roomy else 1), 1)

    @property
    def current(self) -> SessionInfo | None:
        """The selected session; None when nothing matches."""
        return self.listing.rows[self.matches[self.selected]] if self.matches else None


def resize(state: ResumeState, width: int, height: int) -> ResumeState:
    """Return ``state`` for a terminal of that size; the selected row stays visible."""
    if (state.width, state.height) == (width, height):
        return state
    return _select(replace(state, width=max(width, 1), height=max(height, 1)), state.selected)


def shown(state: ResumeState) -> ResumeState:
    """Return ``state`` knowing that it is on the screen: from here on keys can be meant for it."""
    if state.busy is not None or state.reading:
        return state
    if state.doomed is not None:
        return replace(state, doomed=replace(state.doomed, seen=state.doomed.note is not None))
    if state.preview is not None:
        return replace(state, preview=replace(state.preview, seen=state.preview.lines is not None))
    return state if state.seen else replace(state, seen=True)


def measured(state: ResumeState, length: int) -> ResumeState:
    """Return ``state`` knowing that the preview has ``length`` lines at this width; the scroll stays in range."""
    preview = state.preview
    if preview is None:
        return state
    if preview.length != length:
        preview = replace(preview, length=length)
        state = replace(state, preview=preview)
    return _scrolled(state, preview, preview.up)


def wanted(state: ResumeState) -> Wish | None:
    """Return what is to be done next; None if nothing is."""
    if state.busy is not None:
        return state.busy
    if state.reading or state.stale:
        return Wish("list", scope=state.scope)
    if state.doomed is not None and state.doomed.note is None:
        return Wish("weigh", state.doomed.row)
    if state.preview is not None and state.preview.lines is None:
        return Wish("look", state.preview.row)
    return Wish("learn") if state.learning and state.filter.strip() else None


def listed(state: ResumeState, scope: Scope, listing: Listing) -> ResumeState:
    """Return ``state`` with the sessions of a scope; of one that is not shown any more: as it was."""
    if scope != state.scope:
        return state
    keep = state.current.path if state.current is not None else state.keep
    fresh = replace(state, listing=listing, listed=scope, stale=False, learning=listing.learn is not None)
    fresh = replace(fresh, deleted=frozenset(), seen=False, keep=None, matches=())
    fresh = replace(fresh, matches=_matches(fresh))
    at = next((at for at, row in enumerate(fresh.matches) if listing.rows[row].path == keep), 0)
    return _select(fresh, at)


def learnt(state: ResumeState, listing: Listing, *, more: bool) -> ResumeState:
    """Return ``state`` after ``listing.learn`` did a part.

    After the last one more rows may match, and the selected one stays selected; till then the next key that is typed
    asks anew: to search so often would be felt.
    """
    if state.listing is not listing:
        return state
    if more:
        return replace(state, learning=True)
    row = state.current
    found = replace(state, learning=False, matches=_matches(state))
    at = next((at for at, each in enumerate(found.matches) if listing.rows[each] is row), None)
    return _select(found, at) if at is not None else _select(replace(found, seen=state.seen and row is None), 0)


def looked(state: ResumeState, row: SessionInfo, lines: Sequence[Line]) -> ResumeState:
    """Return ``state`` with the last messages of a session, if they are still looked at."""
    if state.preview is None or state.preview.row is not row:
        return state
    return replace(state, preview=replace(state.preview, lines=lines))


def weighed(state: ResumeState, row: SessionInfo, note: str) -> ResumeState:
    """Return ``state`` knowing what would go with a session, if its deletion is still asked for."""
    if state.doomed is None or state.doomed.row is not row:
        return state
    return replace(state, doomed=replace(state.doomed, note=note))


def renamed(state: ResumeState, row: SessionInfo, said: str, *, failed: bool) -> ResumeState:
    """Return ``state`` after a renaming: what became of it is said, and the list read again."""
    return _done(replace(state, stale=True, keep=row.path), said, failed=failed)


def deleted(state: ResumeState, row: SessionInfo, said: str, *, failed: bool) -> ResumeState:
    """Return ``state`` after a deletion: what became of it is said, and the session is not in the list any more."""
    if failed:
        return _done(replace(state, stale=True), said, failed=True)
    fewer = replace(state, deleted=state.deleted | {row.path})
    at = state.selected
    return _done(_select(replace(fewer, matches=_matches(fewer)), at), said, failed=False)


def press(state: ResumeState, key: Press) -> ResumeState:
    """Return what ``key`` makes of ``state``. Never raises; a key that means nothing changes nothing.

    A key that cannot have been meant for what is shown (:attr:`ResumeState.unseen`) moves, types or leaves, and never
    acts on a row. While something is carried out Ctrl-C leaves when it is done.
    """
    if state.left or state.busy is not None:
        return replace(state, leaving=True) if key is Key.INTERRUPT and not state.left else state
    if key is Key.INTERRUPT:
        return replace(state, left=True, interrupted=True)
    state = replace(state, said="", failed=False) if state.said else state
    if state.doomed is not None:
        return _press_doomed(state, state.doomed, key)
    if state.renaming is not None:
        return _press_renaming(state, state.renaming, key)
    if state.unseen and (key in _ON_A_ROW or isinstance(key, Click) or (key == " " and not state.filter)):
        return state
    return _press_preview(state, state.preview, key) if state.preview is not None else _press_list(state, key)


def _press_list(state: ResumeState, key: Press) -> ResumeState:
    key = Key.PREVIEW if key == " " and not state.filter else key
    match key:
        case Key.ENTER | Key.PREVIEW | Key.RENAME | Key.DELETE:
            return _on_row(state, state.current, key)
        case Key.ALL | Key.WORKTREES:
            return _toggled(state, key)
        case Key.ESCAPE:
            return _filter(state, "") if state.filter else replace(state, left=True)
        case Key.BACKSPACE | Key.CLEAR | str():
            return _filter(state, typed(state.filter, key, limit=FILTER_LIMIT))
        case Click(row=row):
            at = state.top + row
            return _select(state, at) if 0 <= row < state.page and at < len(state.matches) else state
        case _:
            return _select(state, moved(key, state.selected, len(state.matches), state.page))


def _on_row(state: ResumeState, row: SessionInfo | None, key: Key) -> ResumeState:
    if row is None:
        return state
    match key:
        case Key.PREVIEW:
            return replace(state, preview=Preview(row))
        case Key.RENAME:
            text = _on_one_line(row.title)
            return replace(state, renaming=Renaming(row, text, len(text)))
        case Key.DELETE:
            return replace(state, doomed=Doomed(row))
        case _:
            return replace(state, outcome=row, left=True)


def _press_preview(state: ResumeState, preview: Preview, key: Press) -> ResumeState:
    match key:
        case Key.ESCAPE | Key.BACKSPACE | Key.PREVIEW | " ":
            return replace(state, preview=None)
        case Key.ENTER:
            return replace(state, outcome=preview.row, left=True)
        case Key.HOME | Key.END:
            return _scrolled(state, preview, preview.length if key is Key.HOME else 0)
        case _:
            return _scrolled(state, preview, preview.up - moved(key, 0, 0, state.preview_page))


def _press_renaming(state: ResumeState, renaming: Renaming, key: Press) -> ResumeState:
    text, at = renaming.text, renaming.at
    match key:
        case Key.ESCAPE:
            return replace(state, renaming=None)
        case Key.ENTER:
            return _renamed_to(state, renaming)
        case str():
            added = pasted(key)
            text = (text[:at] + added + text[at:])[:MAX_CHARACTERS]
            at = min(at + len(added), len(text))
        case Key.BACKSPACE if at:
            text, at = text[: at - 1] + text[at:], at - 1
        case Key.ERASE:
            text = text[:at] + text[at + 1 :]
        case Key.CLEAR:
            text, at = "", 0
        case Key.LEFT | Key.RIGHT:
            at = min(max(at + (1 if key is Key.RIGHT else -1), 0), len(text))
        case Key.HOME | Key.END:
            at = len(text) if key is Key.END else 0
        case _:
            pass
    return replace(state, renaming=Renaming(renaming.row, text, at))


def _on_one_line(title: str | None) -> str:
    return " ".join((title or "").split())[:MAX_CHARACTERS]


def _renamed_to(state: ResumeState, renaming: Renaming) -> ResumeState:
    """Give the title that stands there, be it the prompt that was shown for one; the title it has already: nothing."""
    title = renaming.text.strip()
    if not title:
        return replace(state, said="a title cannot be empty", failed=True)
    closed = replace(state, renaming=None)
    if title == _on_one_line(renaming.row.given_title):
        return closed
    return replace(closed, busy=Wish("rename", renaming.row, title=title))


def _press_doomed(state: ResumeState, doomed: Doomed, key: Press) -> ResumeState:
    if key is not Key.DELETE:
        return replace(state, doomed=None, said="nothing was deleted")
    return replace(state, doomed=None, busy=Wish("delete", doomed.row)) if doomed.seen else state


def _done(state: ResumeState, said: str, *, failed: bool) -> ResumeState:
    return replace(
        state,
        busy=None,
        said=said,
        failed=failed,
        changed=state.changed or not failed,
        seen=False,
        left=state.leaving,
        interrupted=state.leaving,
    )


def _toggled(state: ResumeState, key: Key) -> ResumeState:
    if state.fixed or (key is Key.WORKTREES and not state.several):
        return state
    if key is Key.ALL:
        other = replace(state, everywhere=not state.everywhere)
    else:
        other = replace(state, worktrees=not state.worktrees)
    if other.scope == state.scope:
        return other
    keep = state.current.path if state.current is not None else state.keep
    return replace(other, listing=Listing(), listed=None, matches=(), selected=0, top=0, seen=False, keep=keep)


def _scrolled(state: ResumeState, preview: Preview, up: int) -> ResumeState:
    up = max(min(up, preview.length - state.preview_page), 0)
    return state if up == preview.up else replace(state, preview=replace(preview, up=up))


def _select(state: ResumeState, at: int) -> ResumeState:
    selected, top = in_sight(at, state.top, len(state.matches), state.page)
    return replace(state, selected=selected, top=top)


def _filter(state: ResumeState, text: str) -> ResumeState:
    if text == state.filter:
        return state
    row = state.current if not text else None  # what was found stays selected when the filter goes
    filtered = replace(state, filter=text, top=0)
    filtered = replace(filtered, matches=_matches(filtered))
    at = next((at for at, each in enumerate(filtered.matches) if state.listing.rows[each] is row), 0) if row else 0
    return _select(filtered, at)


def _matches(state: ResumeState) -> Sequence[int]:
    rows = state.listing.rows
    found = state.listing.search(state.filter) if state.filter.strip() else range(len(rows))
    return [at for at in found if rows[at].path not in state.deleted] if state.deleted else found
