"""What ``rewind`` and ``undo`` say: the plan before, the question, the report after."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sessions.cli import output
from sessions.picker import words
from sessions.picker.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.rewind.plan import Plan, Report
    from sessions.session import Session

_PROMPT_LINES = 20


def show_plan(plan: Plan, *, as_json: bool, undo: bool = False) -> None:
    """Print a plan that is not going to be executed."""
    if as_json:
        output.warn_gaps(plan.gaps)
        output.structured(plan.to_json())
    else:
        output.lines(words.plan_lines(plan, undo=undo))


def confirm(plan: Plan, question: str, *, as_json: bool, undo: bool = False) -> None:
    """Show ``plan`` and ask, on stderr where stdout is for JSON.

    A plan that will be refused is not asked about: executing it says why.

    Raises:
        click.Abort: The answer was not yes.
    """
    if plan.on_conflict == "refuse" and plan.conflicts:
        return
    output.lines(words.plan_lines(plan, undo=undo), error_stream=as_json)
    output.ask(question, error_stream=as_json)


@contextmanager
def interruptible(session: Session, what: str) -> Iterator[None]:
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
        undo = output.command("undo", session.id)
        raise output.TooLateError(f"the {what} was done before Ctrl-C could stop it; see {undo!r}") from None


def show_report(report: Report, did: str, *, as_json: bool) -> None:
    """Print what was done, how to take it back, and the prompt that belongs into the input box."""
    output.warn_gaps(report.gaps)
    if as_json:
        output.structured(report.to_json())
        return
    output.lines(words.report_lines(report, did, with_gaps=False))
    again = ("undo", report.session_id, "--redo") if did == "undone" else ("undo", report.session_id)
    output.lines([(("dim", "to take this back: "), ("", output.command(*again)))])
    if report.prompt:
        _show_prompt(report.prompt)


def _show_prompt(prompt: str) -> None:
    lines = prompt.split("\n")
    output.lines([(("dim", "the prompt, to type again or to change:"),)])
    output.lines((("", "  " + visible(line, keep="\t")),) for line in lines[:_PROMPT_LINES])
    if len(lines) > _PROMPT_LINES:
        output.lines([(("dim", f"  … {words.count(len(lines) - _PROMPT_LINES, 'more line')}; --json has all"),)])
