"""Prompts and captures that only the transcript knows, recorded on the timeline before a rewind moves their lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from sessions.rewind.foreign import ForeignHistory
from sessions.rewind.needs import Places
from sessions.rewind.plan import Scope
from sessions.rewind.recorded import Touch
from sessions.rewind.targets import Target
from sessions.rewind.timeline import Timeline
from sessions.transcript.outline import Outline, Prompt


def adopted(
    target: Target,
    scope: Scope,
    prompts: Sequence[Prompt],
    timeline: Timeline,
    *,
    foreign: ForeignHistory,
    deep: Callable[[], Outline],
) -> tuple[dict[str, object], ...]:
    """Return records that give every visible prompt without a turn of its own its place on the timeline, for good.

    Else that place, in front of the next recorded prompt, would move when that prompt leaves, or when a rewind of the
    code alone adds its writes. With the conversation the snapshots in another agent's messages leave too: they are
    recorded for a later rewind of the code alone.

    Args:
        deep: Returns the transcript's deep outline; called only where it is needed.
    """
    recorded = timeline.first_turns()
    if all(prompt.id in recorded for prompt in prompts):
        return ()
    places = Places(prompts, timeline)
    touched = _leaving(target, places, deep(), foreign) if scope == "conversation" else {}
    records: list[dict[str, object]] = []
    number = timeline.next_turn
    for place, prompt in enumerate(prompts):
        if prompt.id in recorded:
            continue
        order = list(places.of_prompt(place))
        records.append({"kind": "turn", "turn": number, "message_id": prompt.id, "run_id": None, "order": order})
        records.extend(
            {"kind": "before", "turn": number, "edit": 0, "path": touch.path, "by": touch.by}
            | {"order": list(touch.order)}
            | touch.before.to_record()
            for touch in touched.get(prompt.id, {}).values()
        )
        number += 1
    return tuple(records)


def _leaving(target: Target, places: Places, outline: Outline, foreign: ForeignHistory) -> dict[str, dict[str, Touch]]:
    """Return by prompt and path the first touch another agent recorded in each turn from the target on."""
    assert target.cut is not None
    start = target.cut
    offsets = [prompt.offset for prompt in outline.prompts]
    behind = [each for each in outline.snapshots if each.offset >= start]
    touched: dict[str, dict[str, Touch]] = {}
    for snapshot, touch in foreign.touches(behind, places, since=target.order):
        prompt = outline.prompts[bisect_right(offsets, snapshot.offset) - 1]
        touched.setdefault(prompt.id, {}).setdefault(touch.path, touch)
    return touched
