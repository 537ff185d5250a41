"""What a path may be while a transaction is under way, so that one a crash stopped goes on. Pure.

A directory that is made has ``NEW_DIRECTORY_MODE`` first, and one whose owner may not write gets what its owner needs
(``opened``) while something in it changes; all get their mode in the end, when everything in them is done. Where a
directory and something else take each other's place, there is nothing in between.
"""

from __future__ import annotations

from sessions.rewind.judge import Change
from sessions.rewind.states import Absent, Directory, FileState, same

NEW_DIRECTORY_MODE = 0o700
"""What a new directory has until it gets its own mode."""


def opened(mode: int) -> int:
    """Return the mode of a directory while something in it changes."""
    return mode | 0o700


def is_there(current: FileState, change: Change) -> bool:
    """Tell whether a path is what it is to be, but for a directory's mode, which comes last."""
    if isinstance(current, Directory) and isinstance(change.after.state, Directory):
        return is_own_mode(current.mode, change)
    return same(current, change.after.state)


def is_on_the_way(current: FileState, change: Change) -> bool:
    """Tell whether a path that is not there yet is what it was, or nothing in between. A directory goes in any mode."""
    before, after = change.before.state, change.after.state
    match current:
        case Directory():
            return isinstance(before, Directory) and not isinstance(after, Directory)
        case Absent() if not isinstance(after, Absent):
            return isinstance(before, Absent) or isinstance(before, Directory) != isinstance(after, Directory)
        case _:
            return same(current, before)


def is_own_mode(mode: int, change: Change) -> bool:
    """Tell whether a directory has its mode from the transaction, or from before it."""
    images = [each.mode for each in (change.before.state, change.after.state) if isinstance(each, Directory)]
    if len(images) == 1 and mode == NEW_DIRECTORY_MODE:
        return True
    return mode in {*images, *map(opened, images)}


def final_mode(change: Change) -> int | None:
    """Return the mode of a directory that stands there in the end, also if it could not go; None where none does."""
    for image in (change.after, change.before):
        if isinstance(image.state, Directory):
            return image.state.mode
    return None
