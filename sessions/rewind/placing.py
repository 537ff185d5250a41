"""Giving prompts and captures that only the transcript knows their place on the timeline, for good."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sessions.rewind.foreign import ForeignHistory
from sessions.rewind.needs import Places
from sessions.rewind.plan import Scope
from sessions.rewind.recorded import Touch
from sessions.rewind.targets import Target
from sessions.rewind.timeline import Timeline
from sessions.transcript.outline import Outline, Prompt

_NOTHING: Mapping[str, Mapping[str, Touch]] = MappingProxyType({})


def placed(
    target: Target,
    scope: Scope,
    prompts: Sequence[Prompt],
    timeline: Timeline,
    *,
    foreign: ForeignHistory,
    deep: Callable[[], Outline],
) -> tuple[dict[str, object], ...]:
    """Return records for a rewind to append: of the turns of ``turns_for``, and of what leaves with the conversation.

    With it the snapshots in another agent's messages leave: they are recorded for a later rewind of the code alone.

    Args:
        deep: Returns the transcript's deep outline; called only where it is needed.
    """
    if scope != "conversation" or _have_turns(prompts, timeline):
        return turns_for(prompts, timeline)
    return turns_for(prompts, timeline, _leaving(target, Places(prompts, timeline), deep(), foreign))


def turns_for(
    prompts: Sequence[Prompt], timeline: Timeline, touched: Mapping[str, Mapping[str, Touch]] = _NOTHING
) -> tuple[dict[str, object], ...]:
    """Return records that give every visible prompt without a turn of its own one, at its place on the timeline.

    Else that place, in front of the next recorded prompt, would move when that prompt leaves, or when a rewind of the
    code alone adds its writes.

    Args:
        touched: What is recorded with them: by prompt and path the first touch of another agent.
    """
    if _have_turns(prompts, timeline):
        return ()
    recorded, places = timeline.first_turns(), Places(prompts, timeline)
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


def _have_turns(prompts: Sequence[Prompt], timeline: Timeline) -> bool:
    recorded = timeline.first_turns()
    return all(prompt.id in recorded for prompt in prompts)


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
