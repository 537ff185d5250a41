"""Prints the messages of a session as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions import catalog
from sessions.cli import following, output
from sessions.errors import NotFoundError
from sessions.picker import words
from sessions.picker.text import one_line
from sessions.transcript.growing import Came, CameBack, Event, Growing, WentBack

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.picker.text import Line
    from sessions.transcript.entry import Entry

_PROMPT_CELLS = 60


def follow(transcript: Path, last: int, *, history: bool, as_json: bool) -> None:
    """Print the last messages of a transcript, then each that is appended, until the session is deleted.

    As text a rewind is one line, and so is its undo. In JSON each line is a message as it stands in the transcript, a
    rewind the event that hides what it removed, and what an undo brings back is printed again: read as a transcript,
    the output is the conversation.

    Raises:
        NotFoundError: The session is gone.
        BrokenPipeError: Whoever reads the output has seen enough; noticed also while nothing is printed.
    """
    growing = Growing(transcript)
    say = _say_json if as_json else _say
    try:
        for entry in growing.begin(last, history=history):
            say(Came(entry))
        while True:
            for event in growing.look():
                say(event)
            following.wait()
    except FileNotFoundError:
        gone = "it was deleted, or went with what started it"
        raise NotFoundError("session", catalog.id_of(transcript), hint=gone) from None


def _say(event: Event) -> None:
    match event:
        case Came(entry, again=False):
            _show(entry)
        case Came():
            pass
        case WentBack():
            output.lines([_went_back(event)])
        case CameBack():
            there = "message is" if event.messages == 1 else "messages are"
            output.lines(
                [(("warn", "↪ the rewind was taken back"), ("dim", f": {event.messages} {there} there again"))]
            )


def _say_json(event: Event) -> None:
    match event:
        case Came(entry):
            output.json_bytes(entry.raw.strip())
        case WentBack():
            output.json_bytes(event.to_line())
        case CameBack():
            pass


def _show(entry: Entry) -> None:
    from sessions.cli.messages import message_lines  # noqa: PLC0415 - JSON needs no pydantic models
    from sessions.transcript.messages import Message  # noqa: PLC0415 - likewise

    output.lines(message_lines(Message.from_entry(entry)))


def _went_back(event: WentBack) -> Line:
    if event.prompt is not None:
        where = f"to before prompt {event.turn}: {one_line(event.prompt, _PROMPT_CELLS)}"
    else:
        where = f"to a place inside turn {event.turn}" if event.turn else "to its beginning"
    return ("warn", f"↩ the conversation went back {where}"), (
        "dim",
        f" ({words.count(event.messages, 'message')} gone)",
    )
