"""``sessions demo``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessions.cli import options, output, reporting
from sessions.picker import verdicts
from sessions.picker.text import visible

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
        rewound, left = _pick(made)
    else:
        output.lines(demo.tell(made))
        rewound, left = False, demo.PROMPTS
    _go_on(made, rewound=rewound, left=left)


def _pick(made: Demo) -> tuple[bool, int]:
    """Let the user choose; return whether there was a rewind, and how many prompts are left."""
    from sessions.picker import pick_rewind  # noqa: PLC0415 - only on a terminal
    from sessions.store import SessionStore  # noqa: PLC0415 - as above

    with SessionStore(made.root).open(made.session_id) as session:
        plan = pick_rewind(session, interruptible=True)
        if plan is None:
            output.text("left without a rewind: nothing was changed")
            return False, len(session.checkpoints())
        report = reporting.in_our_words(session.rewind(plan), plan, root=made.root)
        left = len(session.checkpoints())
    with output.after("the rewind was done"):
        output.lines([(), *verdicts.report_lines(report, cells=output.wrapping())])
        if report.prompt:
            output.text(f"the prompt, for the input box: {visible(report.prompt, keep='')}")
    return True, left


def _go_on(made: Demo, *, rewound: bool, left: int) -> None:
    """Print commands to go on with, that work one after the other from here."""
    from sessions.demo import TARGET, TITLE  # noqa: PLC0415 - as above

    chosen: list[tuple[str, ...]] = [("checkpoints", TITLE)]
    if rewound:
        chosen += [("undo", TITLE), ("undo", TITLE, "--redo")]
    if left:
        chosen.append(("rewind", TITLE))
    if left >= TARGET:
        chosen.append(("rewind", TITLE, "--to", str(TARGET)))
    if left >= TARGET and not rewound:
        chosen.append(("undo", TITLE))
    commands = [output.command(*each, root=made.root) for each in chosen]
    output.lines([(), (("title", "To go on by hand"),), *((("", f"  {each}"),) for each in commands)])
