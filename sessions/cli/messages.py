"""How the messages of a session read. Pure; loaded only by the command that shows them, as pydantic comes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from sessions import clock
from sessions.picker import words
from sessions.picker.text import Line, visible
from sessions.transcript.messages import (
    BangBlock,
    Block,
    CompactBlock,
    Message,
    OtherBlock,
    ReasoningBlock,
    TaskNotificationBlock,
    TextBlock,
    ToolBlock,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_RESULT_LINES = 12
_PARAMETER_CHARACTERS = 500


def message_lines(message: Message) -> Iterator[Line]:
    """Yield a head with role and time, the blocks indented by two, and an empty line."""
    when = clock.parse(message.timestamp or "")
    meta = " · for the model only" if message.is_meta else ""
    yield (("strong", message.role), ("dim", f" · {words.exactly(when)} · {visible(message.id or '-', keep='')}{meta}"))
    for block in message.blocks:
        yield from ((("", "  "), *line) for line in _block(block))
    yield ()


def _block(block: Block) -> Iterator[Line]:
    match block:
        case TextBlock():
            yield from _text(block.content, "dim" if block.source == "hook" else "")
        case ReasoningBlock():
            yield from _text(block.content, "dim")
        case CompactBlock():
            yield (("mark", "⊟ summary of what came before"),)
            yield from _text(block.content, "")
        case ToolBlock():
            yield from _tool(block)
        case BangBlock():
            yield (("mark", "! "), ("", visible(block.command, keep="")), ("dim", _exit(block.exit_code)))
            yield from _text(block.output, "dim", limit=_RESULT_LINES)
        case TaskNotificationBlock():
            yield (("mark", f"task {block.status}: "), ("", visible(block.summary, keep="")))
        case OtherBlock():
            yield (("dim", f"[{visible(str(block.type), keep='')}]"),)
        case _:
            assert_never(block)


def _tool(block: ToolBlock) -> Iterator[Line]:
    ended = (
        {None: "", True: " · ok", False: " · failed"}[block.success] if block.stage == "end" else f" · {block.stage}"
    )
    parameters = visible(block.parameters[:_PARAMETER_CHARACTERS], keep="")
    more = "…" if len(block.parameters) > _PARAMETER_CHARACTERS else ""
    yield (("restore", visible(block.name, keep="")), ("", f" {parameters}{more}"), ("dim", ended))
    yield from _text(block.error or block.result or "", "dim", limit=_RESULT_LINES)


def _text(text: str, style: str, limit: int | None = None) -> Iterator[Line]:
    lines = text.split("\n")
    for line in lines[:limit]:
        yield ((style, visible(line, keep="\t")),)
    if limit is not None and len(lines) > limit:
        yield (("dim", f"… {words.count(len(lines) - limit, 'more line')}"),)


def _exit(code: int | None) -> str:
    return "" if code in {0, None} else f" · exit {code}"
