"""What the picker knows and what a key does to it. Pure: ``press(state, key) -> state``; the screen shows the state.

Two screens: the list of checkpoints, oldest first, and the confirm screen of one of them. Every key costs at most one
screen of work; only a changed filter looks at the prompts, and a longer filter only at those that matched before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessions.picker.confirm import Choice, Confirm, choices_of
from sessions.picker.keys import Click, Key, Press, in_sight, moved, typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.rewind.plan import Checkpoint, Plan, Scope

ROOMY_LIST, ROOMY_CONFIRM = 10, 16
"""Lines from which on the screens have a frame; below, every line counts."""

FILTER_LIMIT = 200


@dataclass(frozen=True, slots=True)
class PickerState:
    """Everything the picker shows and decides by.

    Attributes:
        checkpoints: Oldest first; empty while ``reading``.
        reading: Whether the checkpoints are still being read.
        listed: Whether the list was on the screen.
        title: The session's title, for the first line.
        dry_run: Whether the chosen plan is only going to be shown.
        width: Cells of the terminal.
        height: Lines of the terminal.
        scopes: The scopes that may be offered.
        filter: What was typed; a prompt holds it, upper or lower case, whatever its white space.
        matches: Indexes of the checkpoints shown, ascending.
        selected: Index into ``matches``; 0 when it is empty.
        top: Index into ``matches`` of the first visible row.
        confirm: The confirm screen; None while the list is shown.
        left: Whether the picker is done.
        interrupted: Whether Ctrl-C ended it.
        outcome: The plan to execute; None until one was chosen, and when the picker was left without one.
    """

    checkpoints: Sequence[Checkpoint]
    reading: bool = False
    listed: bool = False
    title: str = ""
    dry_run: bool = False
    width: int = 80
    height: int = 24
    scopes: tuple[Scope, ...] = ("both", "conversation", "code")
    filter: str = ""
    matches: Sequence[int] = ()
    selected: int = 0
    top: int = 0
    confirm: Confirm | None = None
    left: bool = False
    interrupted: bool = False
    outcome: Plan | None = None

    @property
    def unseen(self) -> bool:
        """Whether what this state shows was not on the screen yet, so that no key can have been meant for it."""
        if self.confirm is None:
            return not self.listed
        scope = self.confirm.choice.scope
        return not self.confirm.seen if scope is None else scope not in self.confirm.seen

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
    def choice_page(self) -> int:
        """How many choices are visible; the chosen one is always among them."""
        choices = len(self.confirm.choices) if self.confirm else 0
        return choices if self.roomy else max(min(choices, self.height - 5), min(choices, 1))

    @property
    def plan_page(self) -> int:
        """How many lines of the plan are visible, perhaps none.

        Above it are title, counts, blank, choices, what is hidden, blank; below it what is scrolled away, blank, keys.
        Without room there are no blanks and no keys, and with none at all the choices alone.
        """
        frame = 8 if self.roomy else min(self.height - 1, 3)
        return max(self.height - self.choice_page - frame, 0)

    @property
    def current(self) -> Checkpoint | None:
        """The selected checkpoint; None when nothing matches."""
        return self.checkpoints[self.matches[self.selected]] if self.matches else None


def opening(
    *, title: str = "", scopes: tuple[Scope, ...] = ("both", "conversation", "code"), dry_run: bool = False
) -> PickerState:
    """Return the state before the checkpoints are known; give them to it with :func:`opened`."""
    return PickerState((), reading=True, title=title, scopes=scopes, dry_run=dry_run)


def opened(state: PickerState, checkpoints: Sequence[Checkpoint]) -> PickerState:
    """Return the list, unfiltered, the newest checkpoint selected."""
    state = replace(state, reading=False, checkpoints=checkpoints, matches=range(len(checkpoints)))
    return _select(state, len(checkpoints) - 1)


def shown(state: PickerState) -> PickerState:
    """Return ``state`` knowing that it is on the screen: from here on keys can be meant for it."""
    if state.reading or wanted(state) is not None:
        return state
    confirm = state.confirm
    if confirm is None:
        return state if state.listed else replace(state, listed=True)
    return replace(state, confirm=replace(confirm, seen=confirm.seen | {confirm.choice.scope}))


def resize(state: PickerState, width: int, height: int) -> PickerState:
    """Return ``state`` for a terminal of that size; the selected row stays visible."""
    if (state.width, state.height) == (width, height):
        return state
    return _scroll(_select(replace(state, width=max(width, 1), height=max(height, 1)), state.selected), 0)


def press(state: PickerState, key: Press) -> PickerState:
    """Return what ``key`` makes of ``state``. Never raises; a key that means nothing changes nothing.

    A key that cannot have been meant for what is shown (:attr:`PickerState.unseen`) moves or leaves, and does no more.
    A checkpoint that was entered has ``confirm`` without plans: give it one with :func:`planned` or :func:`failed`.
    """
    if state.left:
        return state
    if key is Key.LEAVE or key is Key.INTERRUPT:
        return replace(state, left=True, interrupted=key is Key.INTERRUPT)
    if state.unseen and (key is Key.ENTER or not isinstance(key, Key)):
        return state
    if not state.checkpoints:
        return replace(state, left=key is Key.ESCAPE or not state.unseen)
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
    """Return ``state`` with a plan it wanted; the first one settles the choices. One for another prompt is dropped."""
    confirm = state.confirm
    if confirm is None or plan.to != confirm.checkpoint.id or confirm.failure is not None:
        return state
    choices = confirm.choices or choices_of(plan, state.scopes)
    return replace(state, confirm=replace(confirm, plans={**confirm.plans, scope: plan}, choices=choices))


def failed(state: PickerState, why: str) -> PickerState:
    """Return ``state`` with the reason why there is no plan; only cancel is offered."""
    confirm = state.confirm
    if confirm is None:
        return state
    only = replace(confirm, failure=why, choices=(Choice.CANCEL,), chosen=0, scroll=0, seen=frozenset())
    return replace(state, confirm=only)


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
            return _filter(state, typed(state.filter, key, limit=FILTER_LIMIT))
        case _:
            return _select(state, moved(key, state.selected, len(state.matches), state.page))


def _press_confirm(state: PickerState, confirm: Confirm, key: Press) -> PickerState:
    match key:
        case Key.ESCAPE | Key.BACKSPACE:
            return replace(state, confirm=None)
        case Key.ENTER:
            return _take(state, confirm)
        case Click(row=row) if 0 <= row < len(confirm.choices):
            return _choose(state, confirm, row)
        case Key.UP | Key.DOWN:
            step = -1 if key is Key.UP else 1
            return _choose(state, confirm, min(max(confirm.chosen + step, 0), max(len(confirm.choices) - 1, 0)))
        case Key.PAGE_UP | Key.PAGE_DOWN | Key.HOME | Key.END | Key.WHEEL_UP | Key.WHEEL_DOWN:
            return _scroll(state, moved(key, confirm.scroll, confirm.length, max(state.plan_page, 1)) - confirm.scroll)
        case _:
            return state


def _enter(state: PickerState) -> PickerState:
    checkpoint = state.current
    if checkpoint is None:
        return state
    behind = range(state.matches[state.selected], len(state.checkpoints))
    uncompacts = any(state.checkpoints[at].compacted for at in behind)
    return replace(state, confirm=Confirm(checkpoint, uncompacts=uncompacts))


def _take(state: PickerState, confirm: Confirm) -> PickerState:
    if not confirm.choices:
        return state
    if confirm.choice is Choice.CANCEL:
        return replace(state, left=True)
    if confirm.plan is None or confirm.plan.refused is not None:
        return state
    return replace(state, left=True, outcome=confirm.plan)


def _choose(state: PickerState, confirm: Confirm, chosen: int) -> PickerState:
    moved = replace(confirm, chosen=chosen, scroll=0 if chosen != confirm.chosen else confirm.scroll)
    return replace(state, confirm=moved)


def _select(state: PickerState, at: int) -> PickerState:
    selected, top = in_sight(at, state.top, len(state.matches), state.page)
    return replace(state, selected=selected, top=top)


def _scroll(state: PickerState, by: int) -> PickerState:
    confirm = state.confirm
    if confirm is None:
        return state
    scroll = max(min(confirm.scroll + by, confirm.length - state.plan_page), 0)
    return replace(state, confirm=replace(confirm, scroll=scroll))


def _filter(state: PickerState, text: str) -> PickerState:
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
