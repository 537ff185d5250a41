"""The resume picker on a terminal: what ``resume_rows`` says is drawn, ``resume_state`` hears the keys; see ``screen``.

Listing, looking into a session, renaming and deleting run in a thread; what a listing learns in another one, so that
nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sessions import clock
from sessions.errors import SessionsError
from sessions.picker import resume_rows as rows
from sessions.picker import resume_state as states
from sessions.picker import screen
from sessions.picker.keys import Key, Press
from sessions.picker.resume_state import Listing, ResumeState, Scope, Wish
from sessions.picker.text import Line, one_line, visible

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from sessions.listing import SessionInfo

Step = Callable[[ResumeState], ResumeState]
_NAMED_CELLS = 60


class Shelf(Protocol):
    """What the picker needs of a store. All of it is called in a thread, one call at a time.

    What a listing learns is read in another thread, meanwhile.

    A ``SessionsError`` or ``OSError`` is shown, and nothing changed by it; what ``list`` raises ends the picker.
    """

    def list(self, scope: Scope) -> Listing:
        """Return the sessions of a scope."""
        ...

    def look(self, row: SessionInfo) -> Sequence[Line]:
        """Return the last messages of a session, not wrapped."""
        ...

    def weigh(self, row: SessionInfo) -> str:
        """Return what would be deleted with a session, as a phrase; empty for nothing."""
        ...

    def rename(self, row: SessionInfo, title: str) -> None:
        """Give a session a title."""
        ...

    def delete(self, row: SessionInfo) -> str:
        """Delete a session; return what else happened, as a phrase; empty for nothing."""
        ...


def pick(
    shelf: Shelf,
    state: ResumeState,
    *,
    input: Input | None = None,  # noqa: A002 - prompt_toolkit's word for it
    output: Output | None = None,
) -> ResumeState:
    """Show sessions until one is chosen or the picker is left.

    Args:
        shelf: Where they are.
        state: The first state, without a listing.
        input: Where keys come from; None is the terminal.
        output: Where the screen goes; None is the terminal.

    Returns:
        The last state; its ``outcome`` is the session to resume.
    """
    return screen.run(_ResumePicker(shelf), state, input=input, output=output)


class _ResumePicker:
    """The sessions of a shelf, and the last messages of one of them."""

    keys: Mapping[str, Key] = {
        **screen.MOVING,
        "left": Key.LEFT,
        "right": Key.RIGHT,
        "delete": Key.ERASE,
        "tab": Key.PREVIEW,
        "c-a": Key.ALL,
        "c-w": Key.WORKTREES,
        "c-r": Key.RENAME,
        "c-d": Key.DELETE,
    }

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._lines: tuple[object, int, list[Line]] = (None, 0, [])

    def draw(self, state: ResumeState, width: int, height: int) -> tuple[ResumeState, list[Line]]:
        state = states.resize(state, width, height)
        preview = self._preview_lines(state)
        state = states.measured(state, len(preview))
        return state, rows.screen(state, clock.now(), preview)

    def press(self, state: ResumeState, key: Press) -> ResumeState:
        return states.press(state, key)

    def shown(self, state: ResumeState) -> ResumeState:
        return states.shown(state)

    def hit(self, state: ResumeState, y: int) -> Press | None:
        return rows.hit(state, y)

    def work(self, state: ResumeState) -> Callable[[], Step] | None:
        wish = states.wanted(state)
        return (lambda: self._done(wish)) if wish is not None and wish.what != "learn" else None

    def idle(self, state: ResumeState) -> Callable[[], Step] | None:
        wish, listing = states.wanted(state), state.listing
        return (lambda: self._learnt(listing)) if wish is not None and wish.what == "learn" else None

    def _preview_lines(self, state: ResumeState) -> list[Line]:
        """Return the lines of the preview; a key that only scrolls does not make them again."""
        said = state.preview.lines if state.preview is not None else None
        if not (self._lines[0] is said and self._lines[1] == state.width):
            self._lines = (said, state.width, rows.preview_lines(state))
        return self._lines[2]

    def _done(self, wish: Wish) -> Step:
        if wish.scope is not None:
            scope, listing = wish.scope, self._shelf.list(wish.scope)
            return lambda state: states.listed(state, scope, listing)
        row = wish.row
        assert row is not None
        match wish.what:
            case "look":
                lines = self._looked(row)
                return lambda state: states.looked(state, row, lines)
            case "weigh":
                note = self._weighed(row)
                return lambda state: states.weighed(state, row, note)
            case "rename":
                said, failed = _outcome(lambda: self._renamed(row, wish.title))
                return lambda state: states.renamed(state, row, said, failed=failed)
            case _:
                said, failed = _outcome(lambda: self._deleted(row))
                return lambda state: states.deleted(state, row, said, failed=failed)

    def _learnt(self, listing: Listing) -> Step:
        assert listing.learn is not None
        take = listing.learn()
        return lambda state: states.learnt(state, listing, more=take())

    def _looked(self, row: SessionInfo) -> Sequence[Line]:
        try:
            return self._shelf.look(row)
        except (SessionsError, OSError) as error:
            return [(("warn", "cannot be read: "), ("", _why(error)))]

    def _weighed(self, row: SessionInfo) -> str:
        try:
            return self._shelf.weigh(row)
        except (SessionsError, OSError):
            return ""

    def _renamed(self, row: SessionInfo, title: str) -> str:
        self._shelf.rename(row, title)
        return f"it is called {one_line(title, _NAMED_CELLS)} now"

    def _deleted(self, row: SessionInfo) -> str:
        also = self._shelf.delete(row)
        return f"{one_line(row.title or row.id, _NAMED_CELLS)} was deleted" + (f"; {also}" if also else "")


def _outcome(act: Callable[[], str]) -> tuple[str, bool]:
    """Return what became of something that was done, and whether it failed."""
    try:
        return act(), False
    except (SessionsError, OSError) as error:
        return _why(error), True


def _why(error: SessionsError | OSError) -> str:
    return visible(error.message if isinstance(error, SessionsError) else str(error), keep="")
