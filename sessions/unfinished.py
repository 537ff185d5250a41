"""Which tool calls without a result are still going to get one, and so how a view shows them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

from sessions.transcript import codec, interrupted
from sessions.transcript.entry import Entry


class Unfinished:
    """The calls of one session that somebody is going to end: its host here, or whoever has it open.

    Args:
        is_owned_by_another: Tells whether somebody else writes the session right now.
    """

    def __init__(self, is_owned_by_another: Callable[[], bool]) -> None:
        self.is_owned_by_another = is_owned_by_another
        self.ended: dict[str, float] = {}  # by message: the number of the look it ended behind; infinite while it runs
        self.looks = 0

    @contextlib.contextmanager
    def writing(self, message_id: str, line: bytes) -> Iterator[None]:
        """Take note of a message while it is written; if that fails, it never was.

        A call runs from before it is in the file, and until its result is: whoever reads meanwhile sees it run.
        """
        before = self.ended.get(message_id)
        if b'"tool"' in line and interrupted.is_unfinished(codec.decode(line)):
            self.ended[message_id] = math.inf
            try:
                yield
            except BaseException:
                del self.ended[message_id]
                if before is not None:
                    self.ended[message_id] = before
                raise
        else:
            yield
            if before is not None:
                self.ended[message_id] = self.looks

    def look(self) -> Look:
        """Begin to read the session."""
        return Look(self)


class Look:
    """One reading of a session's messages: begun before the first one is read."""

    def __init__(self, unfinished: Unfinished) -> None:
        unfinished.looks += 1
        self._unfinished = unfinished
        self._began = unfinished.looks
        self._owned = unfinished.is_owned_by_another()

    def shown(self, entry: Entry) -> Entry:
        """Return a message that was just read as it is shown: with every call ended that nobody is going to end."""
        if not interrupted.is_unfinished(entry) or self._is_owned() or self._runs(entry.id):
            return entry
        return interrupted.ended(entry)

    def settled(self) -> Callable[[Entry], Entry]:
        """Return what shows all that was read so far, whatever happens from now on."""
        if self._is_owned():
            return lambda entry: entry
        running = frozenset(filter(self._runs, list(self._unfinished.ended)))
        return lambda entry: entry if entry.id in running else interrupted.ended(entry)

    def _is_owned(self) -> bool:
        """Tell whether somebody else wrote it meanwhile; asked anew, as they may have come."""
        self._owned = self._owned or self._unfinished.is_owned_by_another()
        return self._owned

    def _runs(self, message_id: str | None) -> bool:
        return message_id is not None and self._unfinished.ended.get(message_id, -1) >= self._began
