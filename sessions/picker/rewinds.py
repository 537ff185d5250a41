"""How the rewinds one can take back are named: in a plan, in a question, in a list. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.picker import words
from sessions.picker.text import Line, one_line, pad, visible, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from sessions.rewind.plan import Plan, RewindRecord

_PROMPT_CELLS = 40
_WHEN_CELLS, _STATE_CELLS = 10, 6
_WHAT = {"both": "conversation and files", "conversation": "the conversation", "code": "files"}


def named(rewind: RewindRecord, now: datetime) -> str:
    """Return ``the rewind of files to before 'Add a logo', 5m ago``."""
    when = words.ago(rewind.timestamp, now)
    return f"the rewind of {_to(rewind)}" + (f", {'just now' if when == 'now' else when}" if when else "")


def taken_back(plan: Plan, now: datetime, *, undo: bool) -> Iterator[Line]:
    """Yield a line that says which rewind a plan takes back, or repeats; nothing for a plan of a rewind."""
    if plan.of is not None:
        what = named(plan.of, now)
        verb = "takes back" if undo else "repeats"
        yield ("strong", verb), ("", f" single files of {what}" if plan.paths is not None else f" {what}")


def stack_lines(rewinds: Sequence[RewindRecord], now: datetime) -> Iterator[Line]:
    """Yield a line a rewind, in the order given: its id, when, done, undone or pruned, and what went back to where."""
    ids = [visible(rewind.id, keep="") for rewind in rewinds]
    id_cells = max(map(width, ids), default=0)
    for rewind, name in zip(rewinds, ids, strict=True):
        yield (
            ("strong", pad(name, id_cells)),
            ("dim", f"  {pad(words.ago(rewind.timestamp, now), _WHEN_CELLS)}"),
            ("" if rewind.state == "done" else "dim", f"  {pad(rewind.state, _STATE_CELLS)}"),
            ("", f"  {_to(rewind)}"),
        )


def _to(rewind: RewindRecord) -> str:
    """Return what went back, and to where."""
    if rewind.run is not None:
        return f"what {words.run_label(rewind.run).removeprefix('▸ ')} did to files"
    if rewind.of is not None:
        return f"single files of {visible(rewind.of, keep='')}"
    what = _WHAT[rewind.scope] + (", with a fork," if rewind.history == "fork" else "")
    place = f"'{one_line(rewind.prompt, _PROMPT_CELLS)}'" if rewind.prompt.strip() else visible(rewind.to, keep="")
    if rewind.mark is not None:
        return f"{what} to the mark {visible(rewind.mark, keep='')!r} of {place}"
    return f"{what} to before {place}"
