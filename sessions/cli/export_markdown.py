"""A conversation as a Markdown file. Pure; a message is in memory at a time.

Text stands as it was written, unless it would hide or swallow what follows it (HTML, a fence that stays open): then,
as everything a program printed, it stands in a fence longer than any in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from sessions.cli import export_about
from sessions.cli.export_images import Image, images_of
from sessions.cli.export_text import fenced, parameters, readable, stands_alone
from sessions.cli.messages import how_it_ended
from sessions.picker import words
from sessions.picker.text import one_line
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
    from collections.abc import Iterable, Iterator

    from sessions.cli.export_about import About

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#&|~$!])")
_ADDRESS_CELLS = 200


def markdown(about: About, messages: Iterable[Message]) -> Iterator[str]:
    """Yield the file in pieces: title, facts, and a section for each message."""
    yield f"# {_plain(about.title)}\n\n"
    for name, said, is_name in about.facts():
        yield f"- {name}: {_code(said) if is_name else _plain(said)}\n"
    for number, message in enumerate(messages, 1):
        head = export_about.head(message, number)
        yield "\n## " + " · ".join([f"{number}", head.speaker, head.when, *head.notes]) + "\n"
        for block in message.blocks:
            for part in _parts(block):
                yield f"\n{part}\n"


def _parts(block: Block) -> Iterator[str]:  # noqa: C901, PLR0912 - a case for each kind of block
    match block:
        case TextBlock():
            if block.source == "hook":
                yield "*A hook said:*"
            if block.content.strip():
                yield _text(block.content)
        case ReasoningBlock():
            if block.content.strip():
                yield _quoted(_text(block.content))
        case CompactBlock():
            yield _text(block.content)
        case ToolBlock():
            yield from _tool(block)
        case BangBlock():
            yield "*The user ran a command*" + (f" · exit {block.exit_code}" if block.exit_code else "")
            yield fenced(readable(f"$ {block.command}\n{block.output}"), "console")
        case TaskNotificationBlock():
            yield f"*Task {_plain(block.task_id)} {block.status}:*"
            yield _text(block.summary)
            if block.result:
                yield fenced(readable(block.result))
        case OtherBlock() if block.type == "image":
            yield from map(_image, images_of(block))
        case OtherBlock():
            named, said, is_json = export_about.odd(block)
            yield _plain(named)
            if said.strip():
                yield fenced(readable(said), "json") if is_json else _text(said)
        case _:
            assert_never(block)


def _tool(block: ToolBlock) -> Iterator[str]:
    yield f"**Tool** {_code(readable(block.name))}{how_it_ended(block)}"
    called, is_json = parameters(block.parameters)
    if called.strip():
        yield fenced(readable(called), "json" if is_json else "")
    for name, said in (("Error", block.error), ("Result", block.result)):
        if said:
            yield f"{name}:"
            yield fenced(readable(said))
    yield from map(_image, images_of(block))


def _image(image: Image) -> str:
    if image.address is not None:
        return f"*Image* {_code(one_line(image.address, _ADDRESS_CELLS))}"
    said = [_plain(image.media_type or "image")] + ([] if image.size_bytes is None else [words.size(image.size_bytes)])
    return f"*Image: {', '.join(said)}*"


def _text(said: str) -> str:
    text = readable(said)
    return text if stands_alone(text) else fenced(text)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip(" ") for line in text.split("\n"))


def _plain(text: str) -> str:
    """Return a text on one line of which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(readable(text).split()))


def _code(text: str) -> str:
    """Return a text on one line as code, between more backticks than any run in it."""
    line = " ".join(text.split("\n"))
    marks = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if "`" in line or not line.strip() else ""
    return f"{marks}{space}{line}{space}{marks}"
