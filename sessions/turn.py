"""A turn and its edits, as a host holds them while the agent works."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sessions.errors import ConflictError, RequestError, SessionsError
from sessions.rewind.capturing import OpenEdit
from sessions.rewind.edits import Recorder
from sessions.rewind.options import path_texts
from sessions.rewind.plan import Mark
from sessions.rewind.recorded import TurnRecord
from sessions.rewind.seam import Place
from sessions.rewind.targets import mark_from
from sessions.transcript import codec, turns
from sessions.transcript.outline import Prompt

if TYPE_CHECKING:
    from sessions.transcript.messages import Message

_LABEL_CHARACTERS = 200


def check_prompt(message: Message, known: Sequence[Prompt]) -> None:
    """Refuse what cannot begin a turn.

    Args:
        known: The prompts so far.

    Raises:
        RequestError: It is empty, no prompt of the user, or has the id of an earlier one.
    """
    if not turns.is_prompt(codec.decode(message.to_line())):
        raise RequestError("not a prompt: a turn begins with a message the user typed")
    if not message.text.strip() and all(block.type == "text" for block in message.blocks):
        raise RequestError("a prompt cannot be empty")
    if any(prompt.id == message.id for prompt in known):
        raise RequestError(f"a prompt with the id {message.id} is there already")


class Turn:
    """A turn while the agent works on it; a context manager.

    Attributes:
        message_id: The id of its prompt.
        index: Its checkpoint index, from 1.
        run_id: The label of the run it belongs to.
    """

    def __init__(
        self,
        recorder: Recorder,
        message_id: str,
        run_id: str | None,
        index: int,
        *,
        on_end: Callable[[Turn], None],
        is_open: Callable[[], bool],
        end_of_transcript: Callable[[], Place],
    ) -> None:
        self._on_end = on_end
        self._is_open = is_open
        self._end_of_transcript = end_of_transcript
        self._ended = False
        self._recorder = recorder
        self._record: TurnRecord | None = None
        self.message_id = message_id
        self.run_id = run_id
        self.index = index
        with contextlib.suppress(OSError):  # its prompt is written; the turn is recorded with its first capture at last
            self._recorded()

    def edit(self, *paths: str | os.PathLike[str]) -> Edit:
        """Keep what the paths are now, durably, before this returns; leaving the block records what they became.

        An edit may outlive its turn, or come late: it still belongs to it.

        A move names both sides; a directory may be named; naming a link keeps the link and its target. Relative paths
        start at the workdir.

        Raises:
            ConflictError: The turn was removed by a rewind: do not make the edit.
            OSError: A snapshot cannot be stored: do not make the edit.
        """
        if not paths:
            raise RequestError("an edit names at least one path")
        return Edit(self._recorder, self._recorder.begin_edit(self._recorded(), paths), is_open=self._is_open)

    def gap(self, kind: str, paths: Iterable[str | os.PathLike[str]] = ()) -> None:
        """Say that the agent did something that cannot be captured, and where, if known.

        Raises:
            RequestError: The kind is no word on one line of at most 200 characters, or a path is none.
            ConflictError: The turn was removed by a rewind.
        """
        check_label(kind, "a kind of gap")
        self._recorder.gap(self._recorded(), kind, path_texts(paths))

    def mark(self, name: str) -> Mark:
        """Name this point of the turn, to go back to it: ``session.rewind(mark)``; ``TURN:NAME`` on a command line.

        Durable on return, with every file as the turn left it here; a rewind to it keeps the lines appended so far.

        Args:
            name: At most 200 characters on one line; several marks may have the same.

        Raises:
            RequestError: The name is blank, too long, or holds control characters.
            ConflictError: The turn has ended or was removed by a rewind.
            OSError: It could not be kept; there is no mark.
        """
        check_label(name, "a name for a mark")
        if self._ended:
            raise ConflictError("the turn has ended: nothing can be marked in it any more")
        record, place = self._recorded(), self._end_of_transcript()
        return mark_from(self._recorder.mark(record, name, place))

    def end(self) -> None:
        """End the turn: what it left becomes durable. Ending twice changes nothing."""
        if self._ended:
            return
        if self._record is not None:
            self._recorder.end_turn(self._record)
        self._on_end(self)
        self._ended = True

    def _recorded(self) -> TurnRecord:
        """Return the turn's record, written now if it could not be before.

        Raises:
            ConflictError: The session is closed.
        """
        if not self._is_open():
            raise ConflictError("the session is closed")
        if self._record is None:
            self._record = self._recorder.begin_turn(self.message_id, self.run_id)
        return self._record

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        except (OSError, SessionsError):
            if error is None:  # the body's own error says more
                raise


def check_label(label: object, what: str) -> None:
    """Refuse what cannot be shown on one line and given again on a command line.

    Raises:
        RequestError: It is no text, blank, longer than 200 characters, or holds control characters.
    """
    if not isinstance(label, str) or not label.strip() or len(label) > _LABEL_CHARACTERS or not label.isprintable():
        limits = f"one line of at most {_LABEL_CHARACTERS} characters"
        raise RequestError(f"not {what}, which is {limits}: {label!r}"[:_LABEL_CHARACTERS])


class Edit:
    """An edit while it is made; a context manager.

    Attributes:
        gap: Why something of it could not be captured (``outside``, ``git``, ``store``, ``over_limit``,
            ``unreadable``); None when all was.
    """

    def __init__(self, recorder: Recorder, edit: OpenEdit, *, is_open: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._edit = edit
        self._is_open = is_open
        self.gap = edit.gaps[0][0] if edit.gaps else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._is_open():  # else closing it recorded what the edit had left by then
                self._recorder.end_edit(self._edit)
        except (OSError, SessionsError):
            if error is None:  # the body's own error says more
                raise
