"""How the messages of a session read. Pure; loaded only by the command that shows them, as pydantic comes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from sessions import clock
from sessions.picker import words
from sessions.picker.text import Line, one_line, visible, visible_path
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
_ONE_LINE_CELLS = 500


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
            yield other(block)
        case _:
            assert_never(block)


def other(block: OtherBlock) -> Line:
    """Return what a block of no kind of its own is and, on one line, what it says."""
    named = ("warn" if block.type == "error" else "dim", f"[{visible(str(block.type), keep='')}]")
    extra = block.model_extra or {}
    content = extra.get("content")
    if block.type == "file_history":
        said = ", ".join(_snapshots(extra.get("snapshots")))
    else:
        said = one_line(content, _ONE_LINE_CELLS) if isinstance(content, str) else ""
    return (named, ("", f" {said}")) if said else (named,)


def _snapshots(snapshots: object) -> Iterator[str]:
    """Yield ``modify src/a.py`` for each snapshot of another agent's record."""
    for each in snapshots if isinstance(snapshots, list) else ():
        operation, path = (each.get("operation"), each.get("filePath")) if isinstance(each, dict) else (None, None)
        if isinstance(path, str):
            yield (
                f"{visible(operation, keep='')} {visible_path(path)}"
                if isinstance(operation, str)
                else (visible_path(path))
            )


def how_it_ended(block: ToolBlock) -> str:
    """Return what became of a tool call, to stand behind its name; nothing where nobody said."""
    if block.stage != "end":
        return f" · {block.stage}"
    return {None: "", True: " · ok", False: " · failed"}[block.success]


def _tool(block: ToolBlock) -> Iterator[Line]:
    parameters = visible(block.parameters[:_PARAMETER_CHARACTERS], keep="")
    more = "…" if len(block.parameters) > _PARAMETER_CHARACTERS else ""
    yield (("restore", visible(block.name, keep="")), ("", f" {parameters}{more}"), ("dim", how_it_ended(block)))
    yield from _text(block.error or block.result or "", "dim", limit=_RESULT_LINES)


def _text(text: str, style: str, limit: int | None = None) -> Iterator[Line]:
    lines = text.split("\n")
    for line in lines[:limit]:
        yield ((style, visible(line, keep="\t")),)
    if limit is not None and len(lines) > limit:
        yield (("dim", f"… {words.count(len(lines) - limit, 'more line')}"),)


def _exit(code: int | None) -> str:
    return "" if code in {0, None} else f" · exit {code}"
