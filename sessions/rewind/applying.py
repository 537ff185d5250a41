"""Making paths what a transaction says, one after the other; doing it again, after a crash, goes on where it stopped.

A path that is new already is left, one that is still old is changed, one half-way between is finished. One that is
neither was edited meanwhile: it is left alone and reported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import zlib
from collections.abc import Sequence

from sessions import files
from sessions.rewind.half_written import could_be_half_written, is_mixture
from sessions.rewind.judge import Change
from sessions.rewind.midway import final_mode, is_on_the_way, is_own_mode, is_there, opened
from sessions.rewind.payloads import Payloads
from sessions.rewind.states import Absent, Content, Directory, FileState, Unreadable, same
from sessions.rewind.worktree import ChangedError, Identity, Worktree, chunks_of

Found = tuple[FileState, Identity | None]


class Applier:
    """Makes changes in the directories a session may touch."""

    def __init__(self, worktree: Worktree, payloads: Payloads) -> None:
        self._worktree = worktree
        self._payloads = payloads

    def apply(self, record_id: str, changes: Sequence[Change]) -> tuple[str, ...]:
        """Make each path be its ``after``, durably; return the paths that were neither image and were left alone.

        Args:
            record_id: Names the temporaries.

        Raises:
            OSError: The system refused; some paths may be new. Nobody but the caller can say what now.
            OutsideError: A directory was replaced meanwhile; likewise.
        """
        directories = sorted((each for each in changes if final_mode(each) is not None), key=lambda each: each.path)
        self._open({os.path.dirname(change.path) for change in changes}, directories)
        left = [change.path for change in changes if not self._make(change, temp_name(record_id, change.path))]
        for path in sorted({os.path.dirname(change.path): change.path for change in changes}.values()):
            self._worktree.sync_parent(path)
        left.extend(change.path for change in reversed(directories) if not self._give_mode(change))
        return tuple(dict.fromkeys(left))

    def _make(self, change: Change, temporary: str) -> bool:
        """Make a path be its ``after``; False where it was left alone."""
        self._worktree.sweep(change.path, temporary)
        found = self._worktree.look(change.path)
        if isinstance(change.after.state, Absent) and isinstance(found[0], Unreadable):
            return self._worktree.is_below_a_file(change.path)
        if is_there(found[0], change):
            if change.in_place is not None:  # a crash may have come before the disk had it
                self._worktree.sync(change.path)
            return True
        if is_on_the_way(found[0], change) or self._is_half_written(change, found):
            return self._put(change, found, temporary)
        return False

    def _open(self, parents: set[str], directories: Sequence[Change]) -> None:
        """Let their owner into the directories something changes in; where that fails, the change itself says why."""
        for change in directories:
            if change.path not in parents:
                continue
            state, _ = self._worktree.look(change.path)
            if isinstance(state, Directory) and state.mode != opened(state.mode) and _may_open(state.mode, change):
                with contextlib.suppress(PermissionError, ChangedError):
                    self._worktree.set_mode(change.path, opened(state.mode), instead_of=state.mode)

    def _give_mode(self, change: Change) -> bool:
        """Give a directory in which all is done its mode; False where somebody gave it another one meanwhile."""
        state, _ = self._worktree.look(change.path)
        wanted = final_mode(change)
        if not isinstance(state, Directory) or wanted is None:
            return True
        if state.mode == wanted:  # a crash may have come before the disk had it
            if not same(change.before.state, state):
                self._worktree.sync(change.path)
            return True
        if not is_own_mode(state.mode, change):
            return not isinstance(change.after.state, Directory)
        try:
            self._worktree.set_mode(change.path, wanted, instead_of=state.mode)
        except ChangedError:
            return False
        return True

    def _put(self, change: Change, found: Found, temporary: str) -> bool:
        """Make a path be its ``after``; False where somebody changed it in the last moment and it was left alone."""
        in_place = _is_the_file(change, found)
        if in_place and not self._payloads.intact(change.after):
            raise OSError(errno.EIO, "a snapshot is damaged", change.path)
        write = self._payloads.writer(change.after) if isinstance(change.after.state, Content) else None
        try:
            self._worktree.put(
                change.path,
                change.after.state,
                instead_of=found,
                write=write,
                temp_name=temporary,
                in_place=in_place,
            )
        except ChangedError:
            return False
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST} and isinstance(change.after.state, Absent):
                return False  # a directory in which somebody made a file meanwhile: it stays
            raise
        return True

    def _is_half_written(self, change: Change, found: Found) -> bool:
        """Tell whether a crash stopped while the file was written in place."""
        match found[0], change.before.state, change.after.state:
            case Content() as here, Content() as before, Content() as after if _is_the_file(change, found):
                if not could_be_half_written(here, before, after):
                    return False
            case _:
                return False
        with self._worktree.reading(change.path) as fd:
            before_bytes, after_bytes = self._payloads.chunks(change.before), self._payloads.chunks(change.after)
            return is_mixture(chunks_of(fd), before_bytes, after_bytes)


def _may_open(mode: int, change: Change) -> bool:
    return is_own_mode(mode, change) or not isinstance(change.after.state, Directory)


def _is_the_file(change: Change, found: Found) -> bool:
    """Tell whether what was found is the file to be written in place.

    The plan asked for its device too; after a restart, which may come before a recovery, some have another number.
    """
    return change.in_place is not None and found[1] is not None and found[1].inode == change.in_place[1]


def temp_name(record_id: str, path: str) -> str:
    """Return the name a record's temporary beside a path has: recovery derives it again."""
    return f"{files.TEMP_PREFIX}{record_id}-{zlib.crc32(os.fsencode(path)):08x}{files.TEMP_SUFFIX}"
