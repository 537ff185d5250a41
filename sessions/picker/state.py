"""What the picker knows and what a key does to it. Pure: ``press(state, key) -> state``; the screen shows the state.

Two screens: the list of checkpoints, oldest first, and the confirm screen of one of them. Every key costs at most one
screen of work; only a changed filter looks at the prompts, and a longer filter only at those that matched before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessions.rewind.plan import Checkpoint, Plan, Scope

ROOMY_LIST, ROOMY_CONFIRM = 10, 16
"""Lines from which on the screens have a frame; below, every line counts."""

FILTER_LIMIT = 200


class Key(Enum):
    """A key with a name. A typed character is a ``str``, a click a :class:`Click`."""

    UP = "up"
    DOWN = "down"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    HOME = "home"
    END = "end"
    ENTER = "enter"
    ESCAPE = "escape"
    BACKSPACE = "backspace"
    WHEEL_UP = "wheel up"
    WHEEL_DOWN = "wheel down"
    CLEAR = "clear the filter"
    LEAVE = "leave at once"


@dataclass(frozen=True, slots=True)
class Click:
    """A click on the ``row``-th line of the list, or of the choices on the confirm screen, counted from 0."""

    row: int


Press = Key | Click | str


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
        plans: The plans made so far; the app makes the one of the chosen scope before it draws.
        scroll: How many lines of the plan are scrolled away, at most ``length - 1``.
        length: Lines of the shown plan at the current width; the app sets it when it draws.
        taking: Whether the chosen plan is to be taken as soon as it is made.
        failure: Why there is no plan; None where all is well.
    """

    checkpoint: Checkpoint
    choices: tuple[Choice, ...] = ()
    chosen: int = 0
    plans: Mapping[Scope, Plan] = field(default_factory=dict)
    scroll: int = 0
    length: int = 0
    taking: bool = False
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


@dataclass(frozen=True, slots=True)
class PickerState:
    """Everything the picker shows and decides by.

    Attributes:
        checkpoints: Oldest first.
        title: The session's title, for the first line.
        width: Cells of the terminal.
        height: Lines of the terminal.
        scopes: The scopes that may be offered.
        filter: What was typed; a prompt holds it, upper or lower case, whatever its white space.
        matches: Indexes of the checkpoints shown, ascending.
        selected: Index into ``matches``; 0 when it is empty.
        top: Index into ``matches`` of the first visible row.
        confirm: The confirm screen; None while the list is shown.
        left: Whether the picker is done.
        outcome: The plan to execute; None until one was chosen, and when the picker was left without one.
    """

    checkpoints: Sequence[Checkpoint]
    title: str = ""
    width: int = 80
    height: int = 24
    scopes: tuple[Scope, ...] = ("both", "conversation", "code")
    filter: str = ""
    matches: Sequence[int] = ()
    selected: int = 0
    top: int = 0
    confirm: Confirm | None = None
    left: bool = False
    outcome: Plan | None = None

    @property
    def roomy(self) -> bool:
        """Whether there is room for a frame around rows or plan."""
        return self.height >= (ROOMY_CONFIRM if self.confirm else ROOMY_LIST)

    @property
    def page(self) -> int:
        """How many rows of the list are visible, at least one.

        The frame is title, filter and blank above, blank, details and keys below; without room the title alone.
        """
        return max(self.height - (6 if self.height >= ROOMY_LIST else 1), 1)

    @property
    def plan_page(self) -> int:
        """How many lines of the plan are visible, perhaps none.

        The frame is title and blank above; what is hidden, choices, blank, keys below; without room no blanks or keys.
        """
        choices = len(self.confirm.choices) if self.confirm else 0
        return max(self.height - choices - (5 if self.height >= ROOMY_CONFIRM else 2), 0)

    @property
    def current(self) -> Checkpoint | None:
        """The selected checkpoint; None when nothing matches."""
        return self.checkpoints[self.matches[self.selected]] if self.matches else None


def start(
    checkpoints: Sequence[Checkpoint],
    *,
    title: str = "",
    scopes: tuple[Scope, ...] = ("both", "conversation", "code"),
) -> PickerState:
    """Return the first state: the list, unfiltered, the newest checkpoint selected."""
    state = PickerState(checkpoints, title=title, scopes=scopes, matches=range(len(checkpoints)))
    return _select(state, len(checkpoints) - 1)


def resize(state: PickerState, width: int, height: int) -> PickerState:
    """Return ``state`` for a terminal of that size; the selected row stays visible."""
    if (state.width, state.height) == (width, height):
        return state
    return _scroll(_select(replace(state, width=max(width, 1), height=max(height, 1)), state.selected), 0)


def press(state: PickerState, key: Press) -> PickerState:
    """Return what ``key`` makes of ``state``. Never raises; a key that means nothing changes nothing.

    A checkpoint that was entered has ``confirm`` without plans: give it one with :func:`planned` or :func:`failed`.
    """
    if state.left:
        return state
    if key is Key.LEAVE or not state.checkpoints:
        return replace(state, left=True)
    return _press_confirm(state, state.confirm, key) if state.confirm else _press_list(state, key)


def wanted(state: PickerState) -> tuple[Checkpoint, Scope] | None:
    """Return the plan that is missing for what is shown; None if nothing is missing.

    The first one asked for is that of the widest scope offered: it decides which choices there are.
    """
    confirm = state.confirm
    if confirm is None or confirm.failure is not None:
        return None
    scope = confirm.choice.scope if confirm.choices else state.scopes[0]
    return None if scope is None or scope in confirm.plans else (confirm.checkpoint, scope)


def planned(state: PickerState, scope: Scope, plan: Plan) -> PickerState:
    """Return ``state`` with a plan it wanted; the first one settles the choices."""
    confirm = state.confirm
    if confirm is None:
        return state
    choices = confirm.choices or _choices(plan, state.scopes)
    known = replace(confirm, plans={**confirm.plans, scope: plan}, choices=choices)
    state = replace(state, confirm=known)
    return _take(state, known) if known.taking and known.plan else state


def failed(state: PickerState, why: str) -> PickerState:
    """Return ``state`` with the reason why there is no plan; only cancel is offered."""
    if state.confirm is None:
        return state
    return replace(state, confirm=replace(state.confirm, failure=why, choices=(Choice.CANCEL,), chosen=0, scroll=0))


def measured(state: PickerState, length: int) -> PickerState:
    """Return ``state`` knowing that the shown plan has ``length`` lines at this width; the scroll stays in range."""
    if state.confirm is None or state.confirm.length == length:
        return state
    return _scroll(replace(state, confirm=replace(state.confirm, length=length)), 0)


def _press_list(state: PickerState, key: Press) -> PickerState:
    match key:
        case Key.ESCAPE:
            return replace(state, left=True)
        case Key.ENTER:
            return _enter(state)
        case Click(row=row):
            at = state.top + row
            return _enter(_select(state, at)) if 0 <= row < state.page and at < len(state.matches) else state
        case Key.BACKSPACE | Key.CLEAR | str():
            return _filter(state, _edited(state.filter, key))
        case _:
            return _select(state, _moved(key, state.selected, len(state.matches), state.page))


def _press_confirm(state: PickerState, confirm: Confirm, key: Press) -> PickerState:
    match key:
        case Key.ESCAPE | Key.BACKSPACE:
            return replace(state, confirm=None)
        case Key.ENTER:
            return _take(state, confirm)
        case Click(row=row) if 0 <= row < len(confirm.choices):
            return _choose(state, confirm, row, take=True)
        case Key.UP | Key.DOWN:
            step = -1 if key is Key.UP else 1
            return _choose(state, confirm, min(max(confirm.chosen + step, 0), max(len(confirm.choices) - 1, 0)))
        case Key.PAGE_UP | Key.PAGE_DOWN | Key.HOME | Key.END | Key.WHEEL_UP | Key.WHEEL_DOWN:
            return _scroll(state, _moved(key, confirm.scroll, confirm.length, state.plan_page) - confirm.scroll)
        case _:
            return state


def _enter(state: PickerState) -> PickerState:
    return replace(state, confirm=Confirm(state.current)) if state.current else state


def _take(state: PickerState, confirm: Confirm) -> PickerState:
    if not confirm.choices:
        return state
    if confirm.choice is Choice.CANCEL:
        return replace(state, confirm=None)
    if confirm.plan is None:
        return replace(state, confirm=replace(confirm, taking=True))
    return replace(state, left=True, outcome=confirm.plan)


def _choose(state: PickerState, confirm: Confirm, chosen: int, *, take: bool = False) -> PickerState:
    moved = replace(confirm, chosen=chosen, scroll=0 if chosen != confirm.chosen else confirm.scroll, taking=False)
    state = replace(state, confirm=moved)
    return _take(state, moved) if take else state


def _choices(plan: Plan, scopes: tuple[Scope, ...]) -> tuple[Choice, ...]:
    code = plan.scope != "conversation" and bool(plan.changes_files or plan.tasks)
    conversation = plan.scope != "code" and plan.removed_messages > 0
    does = {Choice.BOTH: code and conversation, Choice.CONVERSATION: conversation, Choice.CODE: code}
    return (*(choice for choice, something in does.items() if something and choice.scope in scopes), Choice.CANCEL)


def _edited(text: str, key: Press) -> str:
    if isinstance(key, str):
        return text + key
    return text[:-1] if key is Key.BACKSPACE else ""


def _moved(key: Press, at: int, length: int, page: int) -> int:
    steps = {Key.UP: -1, Key.WHEEL_UP: -1, Key.DOWN: 1, Key.WHEEL_DOWN: 1, Key.PAGE_UP: -page, Key.PAGE_DOWN: page}
    if not isinstance(key, Key):
        return at
    return {Key.HOME: 0, Key.END: length - 1}.get(key, at + steps.get(key, 0))


def _select(state: PickerState, at: int) -> PickerState:
    last = max(len(state.matches) - 1, 0)
    selected = min(max(at, 0), last)
    top = min(max(state.top, selected - state.page + 1), selected)
    return replace(state, selected=selected, top=max(min(top, last - state.page + 1), 0))


def _scroll(state: PickerState, by: int) -> PickerState:
    confirm = state.confirm
    if confirm is None:
        return state
    scroll = max(min(confirm.scroll + by, confirm.length - state.plan_page), 0)
    return replace(state, confirm=replace(confirm, scroll=scroll))


def _filter(state: PickerState, text: str) -> PickerState:
    text = "".join(char for char in text if char.isprintable())[:FILTER_LIMIT]
    if text == state.filter:
        return state
    among = state.matches if text.startswith(state.filter) else range(len(state.checkpoints))
    sought = _folded(text)
    matches = [at for at in among if sought in _folded(state.checkpoints[at].prompt)] if sought else among
    newest = replace(state, filter=text, matches=matches, top=0)
    return _select(newest, _nearest(matches, state.matches[state.selected] if state.matches else None))


def _nearest(matches: Sequence[int], wished: int | None) -> int:
    if wished in matches:
        return matches.index(wished)
    return len(matches) - 1


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
