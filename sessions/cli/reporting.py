"""What ``rewind`` and ``undo`` say: the plan before, the question, the report after."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sessions import catalog, clock
from sessions.cli import options, output
from sessions.errors import ConflictError
from sessions.picker import rewinds, verdicts, words
from sessions.picker.text import Line, visible, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sessions.rewind.plan import Going, Plan, Report
    from sessions.session import Session

_PROMPT_LINES = 20
_FILES_STAY = "files stay as they are"  # how the note of a rewind of the conversation alone begins


def show_plan(plan: Plan, *, as_json: bool, undo: bool = False) -> None:
    """Print a plan that is not going to be executed.

    Raises:
        click.exceptions.Exit: It would be refused; the exit code is that of the refusal.
    """
    if as_json:
        output.warn_gaps(verdicts.gaps_of(plan))
        output.structured(plan.to_json() | ({"refused": plan.refused} if plan.refused is not None else {}))
    else:
        output.lines(_plan_lines(plan, undo=undo))
    if plan.refused is not None:
        output.text(f"sessions: refused: {visible(plan.refused, keep='')}", error_stream=True)
        raise click.exceptions.Exit(ConflictError.exit_code)


def confirm(plan: Plan, question: str, *, as_json: bool, undo: bool = False) -> None:
    """Show ``plan`` and ask, on stderr where stdout is for JSON.

    A plan that will be refused is not asked about: executing it says why.

    Raises:
        click.Abort: The answer was not yes.
    """
    if plan.refused is not None:
        return
    output.lines(_plan_lines(plan, undo=undo), error_stream=as_json)
    output.ask(question, error_stream=as_json)


def _plan_lines(plan: Plan, *, undo: bool) -> list[Line]:
    cells = output.wrapping()
    first = list(rewinds.taken_back(plan, clock.now(), undo=undo))
    if cells is not None:
        first = [part for line in first for part in wrap(line, cells, indent=4)]
    return [*first, *verdicts.plan_lines(plan, undo=undo, cells=cells)]


@contextmanager
def interruptible(session: Session, what: str, *, add_dirs: Sequence[str]) -> Iterator[None]:
    """Carry out a rewind or an undo in this; Ctrl-C that comes when it is committed waits until it is done.

    Raises:
        output.TooLateError: It was done when Ctrl-C was heeded.
    """
    before = session.rewinds()
    try:
        yield
    except KeyboardInterrupt:
        if session.rewinds() == before:
            raise
        words_ = output.add_dir_words(add_dirs)
        undo = output.command("undo", session.id, *words_, directory=_means(session, session.id))
        raise output.TooLateError(f"the {what} was done before Ctrl-C could stop it; see {undo!r}") from None


def close_fork(report: Report, session: Session) -> None:
    """Close the fork the conversation goes on in; this process does not go on."""
    if report.session is not session:
        report.session.close()


def show_report(report: Report, plan: Plan, did: str, *, as_json: bool, asked: bool, add_dirs: Sequence[str]) -> None:
    """Print what was done, how to take it back, and the prompt that belongs into the input box.

    Args:
        did: ``rewound``, ``undone`` or ``redone``.
        asked: The plan, with its gaps, was shown before.
        add_dirs: The directories given for it; a command to go on with names them too.
    """
    if not asked:
        output.warn_gaps(verdicts.gaps_of(plan))
    if as_json:
        output.structured(report.to_json())
        return
    report = in_our_words(report, plan, add_dirs=add_dirs)
    output.lines(verdicts.report_lines(report, did, with_gaps=False, cells=output.wrapping()))
    more = (*(("--redo",) if did == "undone" else ()), *output.add_dir_words(add_dirs))
    again = output.command("undo", plan.session_id, *more, directory=_means(report.session, plan.session_id))
    output.lines([(("dim", "to take this back: "), ("", again))])
    if report.prompt:
        _show_prompt(report.prompt)


def in_our_words(report: Report, plan: Plan, *, add_dirs: Sequence[str] = (), root: Path | None = None) -> Report:
    """Return ``report`` with the command that takes files back as it can be pasted here."""
    to = plan.to if plan.mark is None else f"{plan.to}:{plan.mark}"
    more = ("--scope", "code", "--to", to, *output.add_dir_words(add_dirs))
    where = _means(report.session, plan.session_id) if root is None else None
    again = output.command("rewind", plan.session_id, *more, root=root, directory=where)
    own = f"{_FILES_STAY}; to take them back: {again}"
    return replace(report, notes=tuple(own if note.startswith(_FILES_STAY) else note for note in report.notes))


def _means(session: Going, session_id: str) -> str | None:
    """Return where an id means the session at hand; None: anywhere, as no other project has one of that id."""
    return session.workdir if len(catalog.named(options.store().root, session_id)) > 1 else None


def _show_prompt(prompt: str) -> None:
    lines = prompt.split("\n")
    output.lines([(("dim", "the prompt, to type again or to change:"),)])
    output.lines((("", "  " + visible(line, keep="\t")),) for line in lines[:_PROMPT_LINES])
    if len(lines) > _PROMPT_LINES:
        output.lines([(("dim", f"  … {words.count(len(lines) - _PROMPT_LINES, 'more line')}; --json has all"),)])
