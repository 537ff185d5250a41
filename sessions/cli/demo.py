"""``sessions demo``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessions.cli import options, output
from sessions.picker import words

if TYPE_CHECKING:
    from sessions.demo import Demo


@click.command("demo")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to make it: a new or empty directory.  [default: a temporary one]",
)
@options.as_json
def command(directory: Path | None, *, as_json: bool) -> None:
    """Make a small project with a session, and rewind it.

    On a terminal the picker opens; choose a prompt. Else it goes back to the second prompt, shows what that did, and
    takes it back. Nothing outside the directory is touched, and the directory stays.
    """
    from sessions import demo  # noqa: PLC0415 - the help needs none

    if directory is not None and directory.is_dir() and any(directory.iterdir()):
        raise click.UsageError(f"{directory} is not empty: give a new directory")
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="sessions-demo-"))
    else:
        directory.mkdir(parents=True, exist_ok=True)
    made = demo.build(directory.resolve())
    if as_json:
        output.structured(demo.rehearse(made))
        return
    output.lines(demo.places(made))
    if options.on_terminal():
        _pick(made)
    else:
        output.lines(demo.tell(made))
    _go_on(made)


def _pick(made: Demo) -> None:
    from sessions.picker import pick_rewind  # noqa: PLC0415 - only on a terminal
    from sessions.store import SessionStore  # noqa: PLC0415 - as above

    with SessionStore(made.root).open(made.session_id) as session:
        plan = pick_rewind(session)
        if plan is None:
            output.text("left without a rewind: nothing was changed")
            return
        report = session.rewind(plan)
    output.lines([(), *words.report_lines(report)])
    if report.prompt:
        output.text(f"the prompt, for the input box: {report.prompt}")


def _go_on(made: Demo) -> None:
    from sessions.demo import TARGET, TITLE  # noqa: PLC0415 - as above

    commands = [
        output.command(*words, root=made.root)
        for words in (
            ("checkpoints", TITLE),
            ("rewind", TITLE),
            ("rewind", TITLE, "--to", str(TARGET)),
            ("undo", TITLE),
        )
    ]
    output.lines([(), (("title", "To go on by hand"),), *((("", f"  {each}"),) for each in commands)])
