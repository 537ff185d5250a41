"""The last messages of a session in few lines. Pure; loaded only where they are shown, as pydantic comes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.cli.messages import message_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sessions.picker.text import Line
    from sessions.transcript.messages import Block, Message

HEAD, TAIL = 1500, 500
_TEXTS = ("content", "result", "error", "output", "summary")


def excerpt(messages: Iterable[Message]) -> list[Line]:
    """Return what messages say: of long texts beginning and end. What is for the model only is left out."""
    shown = (message for message in messages if not message.is_meta)
    return [line for message in shown for line in message_lines(_short(message))]


def last_lines(messages: Sequence[Message], limit: int) -> list[Line]:
    """Return the end of what :func:`excerpt` says, at most so many lines: whole messages, or the end of one."""
    lines: list[Line] = []
    for message in reversed(messages):
        more = excerpt([message])
        if lines and len(lines) + len(more) > limit:
            break
        lines = more + lines
    return lines[-limit:]


def _short(message: Message) -> Message:
    return message.model_copy(update={"blocks": tuple(map(_short_block, message.blocks))})


def _short_block(block: Block) -> Block:
    said = {name: getattr(block, name, None) for name in _TEXTS}
    long = {name: _cut(text) for name, text in said.items() if isinstance(text, str) and len(text) > HEAD + TAIL}
    return block.model_copy(update=long) if long else block


def _cut(text: str) -> str:
    return f"{text[:HEAD]}\n… {len(text) - HEAD - TAIL} more characters …\n{text[-TAIL:]}"
