"""Making paths what a transaction says, one after the other; doing it again, after a crash, goes on where it stopped.

A path that is new already is left, one that is still old is changed, one half-way between is finished. One that is
neither was edited meanwhile: it is left alone and reported.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Sequence

from sessions import files
from sessions.rewind.half_written import could_be_half_written, is_mixture
from sessions.rewind.judge import Change
from sessions.rewind.payloads import Payloads
from sessions.rewind.states import Absent, Content, Directory, FileState, same
from sessions.rewind.worktree import NEW_DIRECTORY_MODE, ChangedError, Identity, Worktree, chunks_of

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
        left = [change.path for change in changes if not self._make(change, temp_name(record_id, change.path))]
        for path in sorted({os.path.dirname(change.path): change.path for change in changes}.values()):
            self._worktree.sync_parent(path)
        return tuple(left)

    def _make(self, change: Change, temporary: str) -> bool:
        """Make a path be its ``after``; False where it was left alone."""
        self._worktree.sweep(change.path, temporary)
        found = self._worktree.look(change.path)
        if same(found[0], change.after.state) and not _half_made(found[0], change):
            if change.in_place is not None:  # a crash may have come before the disk had it
                self._worktree.sync(change.path)
            return True
        if same(found[0], change.before.state) or _half_made(found[0], change) or self._is_half_written(change, found):
            return self._put(change, found, temporary)
        return False

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


def _is_the_file(change: Change, found: Found) -> bool:
    """Tell whether what was found is the file to be written in place.

    The plan asked for its device too; after a restart, which may come before a recovery, some have another number.
    """
    return change.in_place is not None and found[1] is not None and found[1].inode == change.in_place[1]


def _half_made(current: FileState, change: Change) -> bool:
    """Tell whether a crash stopped between making a directory and giving it its mode."""
    match current, change.before.state, change.after.state:
        case Directory(), Directory(), _:
            return False
        case Directory(mode), _, Directory(wanted):
            return mode == NEW_DIRECTORY_MODE != wanted
        case _:
            return False


def temp_name(record_id: str, path: str) -> str:
    """Return the name a record's temporary beside a path has: recovery derives it again."""
    return f"{files.TEMP_PREFIX}{record_id}-{zlib.crc32(os.fsencode(path)):08x}{files.TEMP_SUFFIX}"
