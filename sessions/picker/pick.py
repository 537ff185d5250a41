"""The picker as a function of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from sessions.rewind.plan import Checkpoint, History, OnConflicts, OnRunning, Plan, Scope

SCOPES: tuple[Scope, ...] = ("both", "conversation", "code")


class Rewindable(Protocol):
    """What the picker needs of a session."""

    @property
    def title(self) -> str | None:
        """Its custom title, if it has one."""
        ...

    def checkpoints(self) -> list[Checkpoint]:
        """Return its checkpoints, oldest first."""
        ...

    def plan_rewind(
        self,
        to: Checkpoint,
        *,
        scope: Scope,
        history: History,
        on_conflict: OnConflicts,
        on_running: OnRunning,
        paths: Sequence[str] | None,
    ) -> Plan:
        """Return what going back to ``to`` would do; changes nothing."""
        ...


def pick_rewind(
    session: Rewindable,
    *,
    scopes: tuple[Scope, ...] = SCOPES,
    history: History = "rewrite",
    on_conflict: OnConflicts = "overwrite",
    on_running: OnRunning = "cancel",
    paths: Sequence[str] | None = None,
    dry_run: bool = False,
    interruptible: bool = False,
    input: Input | None = None,  # noqa: A002 - prompt_toolkit's word for it
    output: Output | None = None,
) -> Plan | None:
    """Let the user choose a checkpoint of ``session`` and what of it to bring back, on the whole terminal.

    Nothing is changed: execute the plan with ``session.rewind(plan)`` and put ``report.prompt`` into the input box.
    The screen is there at once; the session is read, and plans are made, in a thread of their own. Enter and clicks
    count only when the screen they are meant for was drawn before, and a click selects and never carries out.
    Inside a running asyncio loop it blocks the loop until the user is done; its own loop runs in a thread.

    Args:
        session: An open session (a ``Session``).
        scopes: The scopes offered, widest first.
        history: As in ``plan_rewind``; so are ``on_conflict``, ``on_running`` and ``paths``.
        on_conflict: What becomes of files somebody else changed.
        on_running: What becomes of background tasks.
        paths: Restricts the files of scope ``code``.
        dry_run: Says on the screen that nothing is going to be changed.
        interruptible: Raises ``KeyboardInterrupt`` on Ctrl-C, which else leaves the picker as Esc does.
        input: Where keys come from; None is the terminal.
        output: Where the screen goes; None is the terminal.

    Returns:
        The plan the user chose, or None when they left or had nothing to choose; never one that would be refused.
    """
    from sessions.picker.rewind_app import pick  # noqa: PLC0415 - nobody else pays for prompt_toolkit
    from sessions.picker.state import opening  # noqa: PLC0415 - as above

    def plan(checkpoint: Checkpoint, scope: Scope) -> Plan:
        return session.plan_rewind(
            checkpoint, scope=scope, history=history, on_conflict=on_conflict, on_running=on_running, paths=paths
        )

    first = opening(title=session.title or "", scopes=scopes, dry_run=dry_run)
    last = pick(session.checkpoints, plan, first, input=input, output=output)
    if last.interrupted and interruptible:
        raise KeyboardInterrupt
    return last.outcome
