"""``sessions tasks``."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import click

from sessions.cli import following, options, output, render
from sessions.errors import ConflictError, LockedError, NotFoundError, RequestError, UnstoppableError
from sessions.picker import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sessions.picker.text import Line
    from sessions.session import Session
    from sessions.store import SessionStore
    from sessions.task import Task


@click.command("tasks")
@options.reference
@click.option("--cancel", "doomed", multiple=True, metavar="TASK", shell_complete=options.complete_tasks,
              help="Stop this task for good, with all it started; given again, several.")  # fmt: skip
@click.option("--follow", metavar="TASK", shell_complete=options.complete_tasks,
              help="Print what this task prints, from its start until it ends. Ctrl-C leaves it running.")  # fmt: skip
@options.dry_run
@options.yes
@options.as_json
def command(
    reference: str, doomed: tuple[str, ...], follow: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """List the background tasks of a session, oldest first; stop some, or follow what one prints.

    Of each is shown: its id, its state, how long it ran, its label; which process it is and how many there are of it,
    and the prompt that started it; where its output lies. TASK is an id or the beginning of one. All this works
    while an agent has the session open, too.
    """
    if follow is not None and doomed:
        raise click.UsageError("give --cancel or --follow, not both")
    if follow is not None and as_json:
        raise click.UsageError("--follow prints what the task prints: leave --json out")
    if (dry_run or yes) and not doomed:
        raise click.UsageError("--dry-run and --yes belong to --cancel")
    if doomed:
        options.require_answer(yes=yes, dry_run=dry_run)
    store = options.store()
    with _opened(store, options.find(store, reference), read_only=dry_run or not doomed) as session:
        output.Findings().warn(session)
        if doomed:
            _cancel(session, doomed, dry_run=dry_run, yes=yes, as_json=as_json)
        elif follow is not None:
            _follow(session, follow)
        else:
            _list(session, as_json=as_json)


def _opened(store: SessionStore, transcript: Path, *, read_only: bool) -> Session:
    """Open a session for writing where nobody else has it, else read-only: tasks can be stopped, and that recorded."""
    if not read_only:
        with suppress(LockedError):
            return store.open(transcript)
    return store.open(transcript, read_only=True)


def _list(session: Session, *, as_json: bool) -> None:
    tasks = session.tasks.list()
    if as_json:
        output.structured([task.to_json() for task in tasks])
        return
    if not tasks:
        output.text("this session started no background task", error_stream=True)
    output.lines(render.task_table(tasks, output.columns(), session=session.id))


# -- following -----------------------------------------------------------------------------------------------------


def _follow(session: Session, reference: str) -> None:
    task = session.tasks.get(reference)
    if task.log is None:
        raise RequestError(f"{render.task_name(task)} has no log here: it was not started by this library")

    def is_running() -> bool:
        with suppress(NotFoundError):  # the session was deleted
            return session.tasks.is_running(task.id)
        return False

    following.follow(task.log, is_running)
    output.text(f"{render.task_name(task)}: {_how_it_ended(session, task)}", error_stream=True)


def _how_it_ended(session: Session, task: Task) -> str:
    try:
        ended = session.tasks.get(task.id)
    except NotFoundError:
        return "removed, with what started it"
    return f"{render.task_state(ended)} after {words.lasted(ended.runtime_s)}"


# -- stopping ------------------------------------------------------------------------------------------------------


def _cancel(session: Session, references: Sequence[str], *, dry_run: bool, yes: bool, as_json: bool) -> None:
    named = {task.id: task for task in map(session.tasks.get, references)}
    going, refused = _planned(session, named)
    before = {**named, **going}
    if dry_run or (going and not yes):
        if not (dry_run and as_json):
            verb = "would stop" if dry_run else "stops"
            said = (_announced(task, verb, task.id in going) for task in before.values() if task.id not in refused)
            output.lines(said, error_stream=as_json)
        if not dry_run:
            output.ask("Stop it?" if len(going) == 1 else f"Stop these {len(going)} tasks?", error_stream=as_json)
            _, refused = _planned(session, named)  # the answer may have taken long
    if not dry_run:
        _stop(session, [task for task in named.values() if task.id in going and task.id not in refused], refused)
    elif refused:
        raise _joined([*refused.values()])
    after = [session.tasks.get(task) for task in before]
    with output.after("what was to be stopped was stopped") if going and not dry_run else nullcontext():
        if as_json:
            output.structured([task.to_json() for task in after])
        elif not dry_run:
            output.lines(_became(before[task.id], task, task.id in going) for task in after)


def _planned(session: Session, tasks: Iterable[str]) -> tuple[dict[str, Task], dict[str, ConflictError]]:
    """Return what cancelling the tasks would stop, and which of them would be refused, and why."""
    going: dict[str, Task] = {}
    refused: dict[str, ConflictError] = {}
    for name in tasks:
        try:
            going |= {task.id: task for task in session.tasks.plan_cancel([name])}
        except ConflictError as error:
            refused[name] = error
    return going, refused


def _announced(task: Task, verb: str, goes: bool) -> Line:  # noqa: FBT001 - a column of a table
    if not goes:
        return _had_ended(task)
    return ("strong", verb), ("", f" {render.task_name(task)}"), ("dim", f"  {render.task_processes(task)}")


def _became(before: Task, after: Task, stopped: bool) -> Line:  # noqa: FBT001 - likewise
    if not stopped or (before.state == "running" and after.state != "cancelled"):
        return _had_ended(after)
    if before.state == "running":
        return ("strong", "stopped"), ("", f" {render.task_name(after)}")
    left = words.count(before.processes, "process")
    return ("strong", "stopped"), ("", f" {left} that {render.task_name(after)} had left: {render.task_state(after)}")


def _had_ended(task: Task) -> Line:
    how = render.task_state(task) if task.state != "running" else "nobody knows yet how"
    return (("", f"{render.task_name(task)} had ended: {how}"),)


def _stop(session: Session, tasks: Sequence[Task], refused: Mapping[str, ConflictError]) -> None:
    """Stop tasks, all at once; one that cannot be stopped does not keep the others alive.

    Raises:
        ConflictError: Some could not be, or others were refused; the message says which, and names those that were
            stopped.
    """
    failed = [*refused.values()]
    try:
        if tasks:
            session.tasks.cancel_all([task.id for task in tasks])
    except UnstoppableError as error:  # it names those that were stopped itself
        raise _joined([error, *failed]) from None
    if failed:
        joined = _joined(failed)
        if tasks:
            joined.add(f"stopped: {', '.join(map(render.task_name, tasks))}")
        raise joined


def _joined(failed: Sequence[ConflictError]) -> ConflictError:
    """Return one error that says what several say; its kind and its details are those of the first."""
    first = failed[0]
    for error in failed[1:]:
        first.add(error.message)
    return first
