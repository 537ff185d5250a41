"""``sessions title``."""

from __future__ import annotations

import click

from sessions.cli import options, output
from sessions.picker.text import visible
from sessions.transcript.titles import MAX_CHARACTERS


@click.command("title")
@options.reference
@click.argument("text", required=False)
@options.dry_run
@options.as_json
def command(reference: str, text: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Print the title of a session; with TEXT, change it."""
    if text is not None:
        refuse_as_title(text)
    changing = text is not None and not dry_run
    store, findings = options.store(), output.Findings()
    with store.open(options.find(store, reference), read_only=not changing) as session:
        findings.warn(session)
        if text is None or dry_run:
            _say(session.id, session.title if text is None else text, would=text is not None, as_json=as_json)
            return
        session.set_title(text)
        with output.after("the title was changed"):
            _say(session.id, text, would=False, as_json=as_json)
            findings.warn(session)


def refuse_as_title(text: str) -> None:
    """Refuse what cannot be a title.

    Raises:
        click.UsageError: It is blank or too long.
    """
    if not text.strip():
        raise click.UsageError("the title is empty")
    if len(text) > MAX_CHARACTERS:
        raise click.UsageError(f"a title has at most {MAX_CHARACTERS} characters, this one has {len(text)}")


def _say(session_id: str, title: str | None, *, would: bool, as_json: bool) -> None:
    if as_json:
        said: dict[str, object] = {"session": session_id, "title": title}
        output.structured({**said, "dry_run": True} if would else said)
    elif title is not None:
        output.text(("would be called " if would else "") + visible(title, keep=""))
    else:
        output.text("this session has no title", error_stream=True)
