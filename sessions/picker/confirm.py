"""The confirm screen of one checkpoint: its plans, and what of them is offered. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions.rewind.plan import Checkpoint, Plan, Scope


class Choice(Enum):
    """What the confirm screen offers."""

    BOTH = "code and conversation"
    CONVERSATION = "conversation"
    CODE = "code"
    CANCEL = "cancel"

    @property
    def scope(self) -> Scope | None:
        """The scope of its plan; None for cancel."""
        return _SCOPES.get(self)


_SCOPES: dict[Choice, Scope] = {Choice.BOTH: "both", Choice.CONVERSATION: "conversation", Choice.CODE: "code"}


@dataclass(frozen=True, slots=True)
class Confirm:
    """The confirm screen of one checkpoint.

    Attributes:
        checkpoint: Where to go back to.
        choices: What is offered, ``CANCEL`` always and last; empty while the first plan is missing.
        chosen: Index into ``choices``.
        plans: The plans made so far; the app makes the one of the chosen scope when it is missing.
        seen: The scopes whose plan was on the screen; None stands for a screen on which there is only ``CANCEL``.
        scroll: How many lines of the plan are scrolled away, at most ``length - 1``.
        length: Lines of the shown plan at the current width; the app sets it when it draws.
        uncompacts: Whether a compaction lies behind the checkpoint, so that it goes with the conversation.
        failure: Why there is no plan; None where all is well.
    """

    checkpoint: Checkpoint
    choices: tuple[Choice, ...] = ()
    chosen: int = 0
    plans: Mapping[Scope, Plan] = field(default_factory=dict)
    seen: frozenset[Scope | None] = frozenset()
    scroll: int = 0
    length: int = 0
    uncompacts: bool = False
    failure: str | None = None

    @property
    def choice(self) -> Choice:
        """What Enter would do."""
        return self.choices[self.chosen] if self.choices else Choice.CANCEL

    @property
    def plan(self) -> Plan | None:
        """The plan of the chosen scope, for cancel the first one made; None if it is not made yet."""
        scope = self.choice.scope
        return next(iter(self.plans.values()), None) if scope is None else self.plans.get(scope)


def choices_of(plan: Plan, scopes: tuple[Scope, ...]) -> tuple[Choice, ...]:
    """Return what is offered for a checkpoint, given the plan of its widest scope: what would do something."""
    code, conversation = _does(plan)
    does = {Choice.BOTH: code and conversation, Choice.CONVERSATION: conversation, Choice.CODE: code}
    return (*(choice for choice, something in does.items() if something and choice.scope in scopes), Choice.CANCEL)


def hidden(plan: Plan) -> str:
    """Return in a phrase why choices are missing that the plan of the widest scope asked for; empty where none is."""
    code, conversation = _does(plan)
    missing = []
    if plan.scope != "conversation" and not code:
        skipped = any(file.action == "skip" for file in plan.files)
        missing.append("no file can be restored" if skipped else "no file to restore")
    if plan.scope != "code" and not conversation:
        missing.append("no message to remove")
    return ", ".join(missing)


def _does(plan: Plan) -> tuple[bool, bool]:
    """Return whether ``plan`` changes files or tasks, and whether it changes the conversation."""
    code = plan.scope != "conversation" and bool(plan.changes_files or plan.tasks)
    return code, plan.scope != "code" and plan.removed_messages > 0
