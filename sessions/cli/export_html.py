"""A conversation as one HTML file that needs nothing else. Pure; a message is in memory at a time.

Whatever a transcript holds is text here: it is escaped, there is no script, and a policy in the page forbids what could
be fetched or run, should an escape ever be missing. Images are embedded where the transcript holds them.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, assert_never

from sessions import clock
from sessions.cli import export_about
from sessions.cli.export_images import Image, images_of
from sessions.cli.export_text import parameters, readable, sections
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

    from sessions.cli.export_about import About, Head

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LINE_CELLS = 200
_SHORT_CHARACTERS = 100
_STYLE = """
:root{color-scheme:light dark;--text:#1f2328;--page:#fff;--dim:#59636e;--line:#d1d9e0;--code:#f6f8fa;--user:#ddf4ff;
--mark:#8250df}
@media(prefers-color-scheme:dark){:root{--text:#f0f6fc;--page:#0d1117;--dim:#9198a1;--line:#3d444d;--code:#151b23;
--user:#10233a;--mark:#ab7df8}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:54rem;padding:1rem;font:16px/1.5 system-ui,sans-serif;color:var(--text);
background:var(--page);overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem;margin:0 0 1.5rem;color:var(--dim);font-size:.875rem}
dd{margin:0}
article{border-top:1px solid var(--line);padding:.75rem 0;content-visibility:auto;contain-intrinsic-size:auto 12rem}
article:target{outline:2px solid var(--mark);outline-offset:.25rem}
article>header{display:flex;flex-wrap:wrap;gap:0 .75rem;align-items:baseline;color:var(--dim);font-size:.875rem}
article>header b{color:var(--text)}
article>header a{color:inherit;text-decoration:none}
article.user>.said{background:var(--user);border-radius:.5rem;padding:.5rem .75rem}
article.summary{border-top:2px dashed var(--mark)}
article.summary>header i{color:var(--mark)}
.said{white-space:pre-wrap;margin:.5rem 0}
.note{color:var(--dim);margin:.5rem 0 0;font-size:.875rem}
pre{margin:.5rem 0;padding:.625rem .75rem;overflow-x:auto;background:var(--code);border-radius:.375rem;
font:13px/1.45 ui-monospace,monospace;tab-size:4;white-space:pre;overflow-wrap:normal}
details{margin:.5rem 0;border-inline-start:3px solid var(--line);padding-inline-start:.75rem}
summary{cursor:pointer;color:var(--dim);font-size:.875rem}
summary code,.note code,dd code{font:.8125rem ui-monospace,monospace;color:var(--text)}
img{display:block;max-width:100%;height:auto;margin:.5rem 0}
@media print{body{max-width:none;padding:0;font-size:11pt}article{content-visibility:visible}
pre{white-space:pre-wrap;overflow-wrap:anywhere}details::details-content{content-visibility:visible;display:block;
block-size:auto}}
"""


def html(about: About, messages: Iterable[Message]) -> Iterator[str]:
    """Yield the page in pieces. Each message has an anchor: its id, as far as an address can hold that."""
    title = _safe(about.title)
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY, quote=False)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<header>\n<h1 dir="auto">{title}</h1>\n<dl>\n'
    )
    for name, said, is_name in about.facts():
        shown = f"<code>{_safe(said)}</code>" if is_name else _safe(said)
        yield f"<dt>{name}</dt><dd>{shown}</dd>\n"
    yield "</dl>\n</header>\n<main>\n"
    anchors = _Anchors()
    for number, message in enumerate(messages, 1):
        head = export_about.head(message, number)
        yield _opened(head, anchors.of(message.id, number), is_summary=_is_summary(message))
        for block in message.blocks:
            yield from _parts(block)
        yield "</article>\n"
    yield "</main>\n</body>\n</html>\n"


class _Anchors:
    """Names for messages in a page: each once, and the same whenever the conversation is exported again."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, message_id: str | None, number: int) -> str:
        name = _NOT_IN_A_NAME.sub("_", message_id or "")[:_SHORT_CHARACTERS] or f"message-{number}"
        anchor, copy = name, 1
        while anchor in self._taken:
            copy += 1
            anchor = f"{name}-{copy}"
        self._taken.add(anchor)
        return anchor


def _opened(head: Head, anchor: str, *, is_summary: bool) -> str:
    moment = f'<time datetime="{clock.timestamp(head.moment)}">{head.when}</time>' if head.moment is not None else ""
    notes = "".join(f"<i>{note}</i>" for note in head.notes)
    return (
        f'<article id="{anchor}" class="{head.speaker}{" summary" if is_summary else ""}">\n'
        f'<header><a href="#{anchor}">{head.number}</a><b>{head.speaker}</b>{moment}{notes}</header>\n'
    )


def _is_summary(message: Message) -> bool:
    return any(isinstance(block, CompactBlock) for block in message.blocks)


def _parts(block: Block) -> Iterator[str]:
    match block:
        case TextBlock():
            if block.source == "hook":
                yield '<p class="note">a hook said</p>\n'
            yield from _text(block.content)
        case ReasoningBlock():
            yield from _folded("reasoning", _text(block.content))
        case CompactBlock():
            yield from _text(block.content)
        case ToolBlock():
            yield from _tool(block)
        case BangBlock():
            exited = f" · exit {block.exit_code}" if block.exit_code else ""
            yield f'<p class="note">the user ran <code>{_safe(block.command)}</code>{exited}</p>\n'
            yield from _folded("output", [_code(block.output)] if block.output else [])
        case TaskNotificationBlock():
            yield f'<p class="note">task <code>{_safe(block.task_id)}</code> {block.status}</p>\n'
            yield from _text(block.summary)
            yield from _folded("result", [_code(block.result)] if block.result else [])
        case OtherBlock() if block.type == "image":
            yield from map(_image, images_of(block))
        case OtherBlock():
            named, said, is_json = export_about.odd(block)
            yield f'<p class="note">{_safe(named)}</p>\n'
            yield from [_code(said)] if is_json else _text(said)
        case _:
            assert_never(block)


def _tool(block: ToolBlock) -> Iterator[str]:
    called, _ = parameters(block.parameters)
    named = f"tool <code>{_safe(block.name)}</code> {_safe(one_line(block.parameters, _SHORT_CHARACTERS))}"
    inside = [_code(called)] if called.strip() else []
    for name, said in (("error", block.error), ("result", block.result)):
        if said:
            inside += [f'<p class="note">{name}</p>\n', _code(said)]
    yield from _folded(named + how_it_ended(block), inside)
    yield from map(_image, images_of(block))


def _folded(summary: str, inside: Iterable[str]) -> Iterator[str]:
    """Yield what is folded below a line, which is HTML already; the line alone where there is nothing."""
    parts = list(inside)
    if not parts:
        yield f'<p class="note">{summary}</p>\n'
        return
    yield f"<details>\n<summary>{summary}</summary>\n"
    yield from parts
    yield "</details>\n"


def _image(image: Image) -> str:
    kind = one_line(image.media_type or "image", _SHORT_CHARACTERS)
    held = "" if image.size_bytes is None else f", {words.size(image.size_bytes)}"
    if (address := image.data_url()) is not None:
        return f'<img src="{address}" alt="{_safe(kind)}{held}" loading="lazy">\n'
    at = f" <code>{_safe(one_line(image.address, _LINE_CELLS))}</code>" if image.address is not None else ""
    return f'<p class="note">[{_safe(kind)}{held}]{at}</p>\n'


def _text(said: str) -> Iterator[str]:
    for section in sections(readable(said)):
        if section.is_code:
            yield _pre(section.text)
        elif section.text.strip():
            yield f'<div class="said" dir="auto">{escape(section.text.strip(chr(10)))}</div>\n'


def _code(said: str) -> str:
    return _pre(readable(said))


def _pre(text: str) -> str:
    return f'<pre dir="auto">\n{escape(text)}</pre>\n'  # a parser drops the newline behind the tag


def _safe(text: str) -> str:
    return escape(readable(text))
