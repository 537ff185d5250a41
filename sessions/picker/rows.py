"""What the picker shows: a state becomes the lines of one screen. Pure, and never more work than one screen of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.picker import verdicts, words
from sessions.picker.confirm import Confirm, hidden
from sessions.picker.keys import Click
from sessions.picker.state import PickerState
from sessions.picker.text import Line, fit, one_line, pad, pad_start, plain, visible, visible_path, width, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from sessions.rewind.plan import Checkpoint, Plan, TouchedFile

POINTER = "❯"  # noqa: RUF001 - no greater-than sign: it must not look like quoted text
COMPACTED = "⊟"
GAP = "!"
CURSOR = "▏"
_NAMED = 12  # files named in the details of a row
_WIDE = 64  # cells from which on words fit where narrow screens get letters

_KEYS_LIST = ("↑↓ PgUp PgDn Home End choose · Enter look · type to filter · Esc leave", "Enter look · Esc leave")
_KEYS_CONFIRM = ("↑↓ choose · Enter do it · PgUp PgDn scroll the plan · Esc back", "Enter do it · Esc back")
_KEYS_DRY = ("↑↓ choose · Enter print it · PgUp PgDn scroll the plan · Esc back", "Enter print it · Esc back")
_KEYS_STUCK = ("↑↓ choose · PgUp PgDn scroll · Esc back", "Esc back")
_EMPTY = "This session has no prompts to go back to."


def screen(state: PickerState, now: datetime, plan: Sequence[Line] = ()) -> list[Line]:
    """Return the lines to draw, at most ``state.height``, each at most ``state.width`` cells.

    Args:
        state: For the confirm screen it has to be measured (``state.measured``).
        now: What relative times are relative to.
        plan: What :func:`plan_lines` returns for ``state``.
    """
    if state.reading:
        lines = [_title(state, ""), *([()] if state.roomy else []), (("dim", "reading the session …"),)]
    elif not state.checkpoints:
        lines = [_title(state, ""), (), (("", _EMPTY),), (("dim", "Press any key to leave."),)]
    elif state.confirm:
        lines = _confirm_screen(state, state.confirm, plan)
    else:
        lines = _list_screen(state, now)
    return [fit(line, state.width) for line in lines[: state.height]]


def hit(state: PickerState, y: int) -> Click | None:
    """Return what a click on line ``y`` of the screen means, counted from 0; None where there is nothing to click."""
    if not state.checkpoints:
        return Click(0)
    if state.confirm is None:
        row = y - (3 if state.roomy else 1)
        return Click(row) if 0 <= row < min(state.page, len(state.matches) - state.top) else None
    row = y - _choices_at(state)
    return Click(row + _first_choice(state, state.confirm)) if 0 <= row < state.choice_page else None


def plan_lines(state: PickerState) -> list[Line]:
    """Return the lines of the plan on the confirm screen, wrapped to the width, all of them; empty without one."""
    confirm = state.confirm
    if confirm is None:
        return []
    cells = max(state.width, 1)
    if confirm.failure is not None:
        return list(wrap((("warn", "cannot rewind: "), ("", visible(confirm.failure, keep=""))), cells, indent=4))
    if confirm.plan is None:
        return []
    return verdicts.plan_lines(confirm.plan, cells=cells, counted=False, uncompacts=confirm.uncompacts)


def _list_screen(state: PickerState, now: datetime) -> list[Line]:
    total, shown = len(state.checkpoints), len(state.matches)
    counted = words.count(total, "prompt") if shown == total else f"{shown} of {total}"
    rows = _rows(state, now)
    rows += [()] * (state.page - len(rows))
    if not state.roomy:
        return [_filter(state, counted) if state.filter else _title(state, counted), *rows]
    return [_title(state, counted), _filter(state, ""), (), *rows, (), _details(state), _keys(_KEYS_LIST, state.width)]


def _rows(state: PickerState, now: datetime) -> list[Line]:
    if not state.matches:
        return [(("dim", "  No prompt holds that."),)]
    shown = range(state.top, min(state.top + state.page, len(state.matches)))
    digits = len(str(state.checkpoints[-1].index))
    return [
        _row(state.checkpoints[state.matches[at]], digits, state.width, now, selected=at == state.selected)
        for at in shown
    ]


def _row(checkpoint: Checkpoint, digits: int, cells: int, now: datetime, *, selected: bool) -> Line:
    wide = cells >= _WIDE
    age = words.ago(checkpoint.timestamp, now) if wide else words.relative(checkpoint.timestamp, now)
    age_cells = 10 if wide else 4
    age = age if len(age) <= age_cells else age[2:]  # a date without its century
    left: Line = (
        ("pointer" if selected else "", f"{POINTER} " if selected else "  "),
        ("dim", pad_start(str(checkpoint.index), digits)),
        ("mark", f" {COMPACTED}" if checkpoint.compacted else "  "),
        ("warn", f"{GAP} " if checkpoint.gaps else "  "),
        ("dim", pad(age, age_cells) + "  "),
    )
    right = _changes(checkpoint, wide=wide)
    room = cells - width(plain(left)) - width(plain(right)) - (2 if right else 0)
    style = "selected" if selected else "dim" if checkpoint.before_compaction else ""
    return (*left, (style, pad(one_line(checkpoint.prompt, room), room)), ("", "  " if right else ""), *right)


def _changes(checkpoint: Checkpoint, *, wide: bool) -> Line:
    lines = words.changed_lines(checkpoint.insertions, checkpoint.deletions)
    files = len(checkpoint.files)
    if not files:
        return ()
    if not wide:
        return lines or (("dim", f"{files}f"),)
    spaces = " " * max(11 - width(plain(lines)), 1)
    return (("dim", pad_start(words.count(files, "file"), 8)), ("", spaces), *lines)


def _details(state: PickerState) -> Line:
    checkpoint = state.current
    if checkpoint is None:
        return ()
    parts = [
        words.exactly(checkpoint.timestamp) if checkpoint.timestamp else "",
        f"{COMPACTED} compacted after this" if checkpoint.compacted else "",
        f"{GAP} something was not captured" if checkpoint.gaps else "",
        words.run_label(checkpoint.run_id) if checkpoint.run_id else "",
        *(f"• {visible(name, keep='')}" for name in checkpoint.mark_names),
        *_touched(checkpoint.files),
    ]
    return (("dim", "  " + " · ".join(filter(None, parts))),)


def _touched(files: Sequence[TouchedFile]) -> Iterator[str]:
    if not files:
        yield "no files touched"
    for status in ("created", "modified", "deleted"):
        names = [visible_path(file.path) for file in files[:_NAMED] if file.status == status]
        if names:
            yield f"{status} {', '.join(names)}"
    if len(files) > _NAMED:
        yield f"and {len(files) - _NAMED} more"


def _confirm_screen(state: PickerState, confirm: Confirm, lines: Sequence[Line]) -> list[Line]:
    body = list(lines[confirm.scroll : confirm.scroll + state.plan_page])
    more = _more(confirm.scroll, len(lines) - confirm.scroll - len(body))
    first = _first_choice(state, confirm)
    choices = [_choice(confirm, at) for at in range(first, first + state.choice_page)]
    title = f"Rewind to before prompt {confirm.checkpoint.index}: "
    head: Line = (("title", title), ("", one_line(confirm.checkpoint.prompt, max(state.width - width(title), 0))))
    if not state.roomy:
        above = [head, _counts(state, confirm)][: max(state.height - state.choice_page, 0)]
        return [*above, *choices, *body, more]
    body += [()] * (state.plan_page - len(body))
    why = hidden(widest) if (widest := confirm.plans.get(state.scopes[0])) is not None else ""
    choices += [(("dim", f"  ({why})"),)] if why else []
    return [head, _counts(state, confirm), (), *choices, (), *body, more, (), _confirm_keys(state, confirm)]


def _choices_at(state: PickerState) -> int:
    return 3 if state.roomy else min(2, max(state.height - state.choice_page, 0))


def _first_choice(state: PickerState, confirm: Confirm) -> int:
    return max(confirm.chosen - state.choice_page + 1, 0)


def _counts(state: PickerState, confirm: Confirm) -> Line:
    """Return the line under the title: what the plan amounts to, or what is going on."""
    if confirm.failure is not None:
        return ()
    if confirm.plan is None:
        return (("dim", "planning …"),)
    dry: Line = (("warn", "dry run"), ("", " · ")) if state.dry_run else ()
    if len(confirm.choices) == 1:
        return (*dry, ("strong", "Going back here would change nothing."))
    if confirm.plan.refused is not None:
        dry = (*dry, ("warn", "refused"), ("", " · "))
    return (*dry, *verdicts.counted_files(confirm.plan.files), *_counted_tasks(confirm.plan))


def _counted_tasks(plan: Plan) -> Line:
    """Return how many tasks go, so that it is said on the smallest screen."""
    if not plan.tasks:
        return ()
    verb = "to be stopped" if plan.on_running == "cancel" else "running"
    return ("", " · "), ("warn", f"{words.count(len(plan.tasks), 'task')} {verb}")


def _more(above: int, below: int) -> Line:
    said = [
        f"↑ {words.count(above, 'more line')} above" if above > 0 else "",
        f"↓ {words.count(below, 'more line')} below" if below > 0 else "",
    ]
    return (("dim", "  " + " · ".join(filter(None, said))),) if any(said) else ()


def _confirm_keys(state: PickerState, confirm: Confirm) -> Line:
    if confirm.plan is None or (confirm.plan.refused is not None and confirm.choice.scope is not None):
        return _keys(_KEYS_STUCK, state.width)
    return _keys(_KEYS_DRY if state.dry_run else _KEYS_CONFIRM, state.width)


def _choice(confirm: Confirm, at: int) -> Line:
    chosen = at == confirm.chosen
    return ("pointer" if chosen else "", f"{POINTER} " if chosen else "  "), (
        "selected" if chosen else "",
        confirm.choices[at].value,
    )


def _title(state: PickerState, counted: str) -> Line:
    title = one_line(state.title, 200)
    kind = "Rewind (dry run)" if state.dry_run else "Rewind"
    name: Line = (("title", kind), ("dim", f" · {title}" if title else ""))
    room = state.width - width(counted) - 1
    return (*fit(name, room), ("", " " * max(room + 1 - width(plain(fit(name, room))), 1)), ("dim", counted))


def _filter(state: PickerState, counted: str) -> Line:
    if not state.filter:
        return (("dim", "Type to filter"),)
    return ("dim", "Filter "), ("strong", visible(state.filter, keep="")), ("", CURSOR), ("dim", f"  {counted}")


def _keys(texts: tuple[str, str], cells: int) -> Line:
    return (("dim", texts[0] if width(texts[0]) <= cells else texts[1]),)
