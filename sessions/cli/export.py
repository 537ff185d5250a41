"""``sessions export``."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Literal

import click

from sessions.cli import options, output
from sessions.errors import ConflictError
from sessions.picker.text import visible_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sessions.listing import SessionInfo
    from sessions.session import Session
    from sessions.store import SessionStore
    from sessions.transcript.entry import Entry
    from sessions.transcript.messages import Message

Format = Literal["md", "html", "json"]

_PART_BYTES = 1 << 16
_ENDINGS: dict[str, Format] = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".json": "json"}


@click.command("export")
@options.reference
@click.option("--format", "-f", "form", type=click.Choice(["md", "html", "json"]),
              help="Markdown, one HTML page that needs nothing else, or the messages as the file has them, in JSON."
              "  [default: what FILE ends in, else md]")  # fmt: skip
@click.option("--output", "-o", "target", metavar="FILE", type=click.Path(),
              help="Write to FILE, which is complete or not there; - is standard output.  [default: -]")  # fmt: skip
@click.option("--history/--view", "whole", default=True, help="The whole conversation, also what a compaction replaced,"
              " or only what the model sees of it, from the last compaction on.  [default: --history]")  # fmt: skip
@click.option("--yes", "-y", is_flag=True, help="Replace FILE where it is there already, without asking.")
@options.root
def command(reference: str, form: Format | None, target: str | None, *, whole: bool, yes: bool) -> None:
    """Write the conversation of a session to a file for people, or for programs.

    Unlike ``show``, which shows what the model sees now, this is what was said: an export is made to be read by
    somebody who was not there. It is also made to be passed on, so FILE gets the permissions any new file gets here,
    while the session itself stays private: look at what is in it. It is made while the session is read, so its size
    does not matter. The session is not changed, and may be in use.
    """
    target = None if target == "-" else target
    form = form or _ENDINGS.get(os.path.splitext(target or "")[1].lower(), "md")
    store = options.store()
    with store.open(options.find(store, reference), read_only=True) as session:
        output.Findings().warn(session)
        rendered = _chunks(_rendered(store, session, form, whole=whole))
        if target is None:
            output.raw_bytes(rendered)
            return
        _refuse_among_sessions(target, store.root)
        _write(target, rendered, yes=yes)
        said = f"the conversation was written to {visible_path(target)}"
        with output.after(said):
            output.text(said)


def _rendered(store: SessionStore, session: Session, form: Format, *, whole: bool) -> Iterator[bytes]:
    row = store.row(session)
    entries = session.lines(history=whole)
    if form == "json":
        yield from _json(row, entries)
        return
    from sessions.cli.export_about import about  # noqa: PLC0415 - JSON needs no pydantic models

    render: Callable[..., Iterator[str]]
    if form == "md":
        from sessions.cli.export_markdown import markdown as render  # noqa: PLC0415 - likewise
    else:
        from sessions.cli.export_html import html as render  # noqa: PLC0415 - likewise
    for text in render(about(row, whole=whole), _messages(entries)):
        yield text.encode()


def _messages(entries: Iterable[Entry]) -> Iterator[Message]:
    from sessions.transcript.messages import Message  # noqa: PLC0415 - pydantic

    return map(Message.from_entry, entries)


def _json(row: SessionInfo, entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield an object with the row of a list and the lines of the messages: as they are, one a line."""
    yield b'{"session":' + output.encoded(row.to_json()) + b',\n"messages":['
    between = b"\n"
    for entry in entries:
        yield between + output.legal(entry.raw.strip())
        between = b",\n"
    yield b"\n]}\n"


def _chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces that are worth a system call."""
    waiting = bytearray()
    for part in parts:
        waiting += part
        if len(waiting) >= _PART_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


# -- writing to a file ---------------------------------------------------------------------------------------------


def _refuse_among_sessions(target: str, root: os.PathLike[str]) -> None:
    """Refuse a file in the store: it could replace a transcript, or be taken for one."""
    kept = os.path.realpath(os.path.join(root, "projects"))
    if os.path.join(os.path.realpath(target), "").startswith(os.path.join(kept, "")):
        raise click.UsageError(f"sessions are kept in {visible_path(kept)}: write the export elsewhere")


def _write(target: str, chunks: Iterable[bytes], *, yes: bool) -> None:
    """Write a file in one step; what is no regular file (a pipe, a terminal, /dev/null) is written to as it stands.

    Raises:
        click.UsageError: It is there already, and nobody can be asked; or it is a directory.
        click.Abort: Somebody was asked, and did not want it replaced.
        ConflictError: Somebody else made it meanwhile.
    """
    try:
        status = os.stat(target)
    except FileNotFoundError:
        _make(target, chunks)
        return
    if stat.S_ISDIR(status.st_mode):
        raise click.UsageError(f"{visible_path(target)} is a directory")
    if not stat.S_ISREG(status.st_mode):
        with open(target, "wb") as stream:
            stream.writelines(chunks)
        return
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{visible_path(target)} is there already: --yes replaces it")
        output.ask(f"{visible_path(target)} is there already. Replace it?")
    _rewrite(target, chunks, mode=None)


def _make(target: str, chunks: Iterable[bytes]) -> None:
    def refuse() -> None:
        if os.path.exists(target):
            raise ConflictError(f"{target} was made meanwhile, and was left as it is")

    umask = os.umask(0o077)  # there is no other way to ask for it; this process has one thread
    os.umask(umask)
    _rewrite(target, chunks, mode=0o666 & ~umask, before_rename=refuse)


def _rewrite(
    target: str, chunks: Iterable[bytes], *, mode: int | None, before_rename: Callable[[], None] | None = None
) -> None:
    from sessions import files  # noqa: PLC0415 - standard output needs no file

    def write(descriptor: int) -> None:
        for chunk in chunks:
            files.write_all(descriptor, chunk)

    files.rewrite(target, write, mode=mode, before_rename=before_rename)
