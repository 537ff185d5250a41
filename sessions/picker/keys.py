"""Keys as the pickers know them, and where they move a selection. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Key(Enum):
    """A key with a name. A typed character is a ``str``, a click a :class:`Click`."""

    UP = "up"
    DOWN = "down"
    LEFT = "left"
    RIGHT = "right"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    HOME = "home"
    END = "end"
    ENTER = "enter"
    ESCAPE = "escape"
    BACKSPACE = "backspace"
    ERASE = "remove the character under the cursor"
    WHEEL_UP = "wheel up"
    WHEEL_DOWN = "wheel down"
    CLEAR = "clear the line that is typed"
    PREVIEW = "look into what is selected"
    ALL = "all projects, or not"
    WORKTREES = "all worktrees, or not"
    RENAME = "rename what is selected"
    DELETE = "delete what is selected"
    LEAVE = "leave at once"
    INTERRUPT = "leave at once, as Ctrl-C does"


@dataclass(frozen=True, slots=True)
class Click:
    """A click on the ``row``-th line of the list, or of the choices on the confirm screen, counted from 0."""

    row: int


Press = Key | Click | str


def moved(key: Press, at: int, length: int, page: int) -> int:
    """Return where a key moves a place in a list, not kept inside it; where it stands if the key moves nothing."""
    steps = {Key.UP: -1, Key.WHEEL_UP: -1, Key.DOWN: 1, Key.WHEEL_DOWN: 1, Key.PAGE_UP: -page, Key.PAGE_DOWN: page}
    if not isinstance(key, Key):
        return at
    return {Key.HOME: 0, Key.END: length - 1}.get(key, at + steps.get(key, 0))


def in_sight(at: int, top: int, length: int, page: int) -> tuple[int, int]:
    """Return a place kept inside a list, and the first visible row, moved no further than needed to show it."""
    last = max(length - 1, 0)
    selected = min(max(at, 0), last)
    top = min(max(top, selected - page + 1), selected)
    return selected, max(min(top, last - page + 1), 0)


def pasted(text: str) -> str:
    """Return what is typed or pasted as it comes into a line: tabs and line ends are spaces, the unseen is left out."""
    return "".join(char for char in " ".join(text.splitlines()).replace("\t", " ") if char.isprintable())


def typed(text: str, key: Press, *, limit: int) -> str:
    """Return what a key makes of a filter: characters are added, Backspace takes the last one, Ctrl-U all."""
    if isinstance(key, str):
        return (text + pasted(key))[:limit]
    return text[:-1] if key is Key.BACKSPACE else ""
