"""Which prompt is meant, and where that is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessions.errors import AmbiguousError, NotFoundError, RequestError
from sessions.rewind.needs import Places
from sessions.rewind.plan import Checkpoint, Scope
from sessions.rewind.timeline import Order, Timeline
from sessions.transcript.outline import Prompt

Reference = Checkpoint | str | int
"""A checkpoint, the message id of a prompt or the beginning of one, or an index from 1."""


@dataclass(frozen=True, slots=True)
class Target:
    """A prompt to go back to.

    Attributes:
        id: Its message id.
        prompt: Its line; None for a prompt that left the conversation and is still on the timeline.
        index: Its index from 1; None likewise.
        order: Its place on the timeline.
    """

    id: str
    prompt: Prompt | None
    index: int | None
    order: Order


def resolve(to: Reference, prompts: Sequence[Prompt], timeline: Timeline, scope: Scope) -> Target:
    """Find the prompt that is meant.

    Raises:
        NotFoundError: None is; a removed prompt is only found for scope ``code``.
        AmbiguousError: Several are.
    """
    if isinstance(to, bool) or not isinstance(to, Reference):
        raise RequestError(f"not a checkpoint, a message id or an index: {to!r}")
    places = Places(prompts, timeline)
    if isinstance(to, int):
        if not 1 <= to <= len(prompts):
            raise NotFoundError("checkpoint", to, hint=_how_many(len(prompts)))
        return _visible(to - 1, prompts, places)
    wanted = to.id if isinstance(to, Checkpoint) else to
    if not wanted:
        raise RequestError("an empty checkpoint was given")
    detached = timeline.turn_of(wanted) if scope == "code" else None
    exact = next((place for place, prompt in enumerate(prompts) if prompt.id == wanted), None)
    if exact is None and detached is not None:
        return Target(wanted, None, None, detached.order)
    if exact is None and (place := _place_of(wanted)) in range(len(prompts)):
        exact = place
    matching = [place for place, prompt in enumerate(prompts) if exact is None and prompt.id.startswith(wanted)]
    if exact is None and len(matching) == 1:
        exact = matching[0]
    if exact is not None:
        return _visible(exact, prompts, places)
    if matching:
        raise AmbiguousError("checkpoint", wanted, [prompts[place].id for place in matching])
    raise NotFoundError("checkpoint", wanted, hint=_how_many(len(prompts)))


def _place_of(index: str) -> int | None:
    """Return the list position an index means, written as a number; None where it is none."""
    return int(index) - 1 if index.isascii() and index.isdecimal() and len(index) < 10 else None


def _visible(place: int, prompts: Sequence[Prompt], places: Places) -> Target:
    prompt = prompts[place]
    return Target(prompt.id, prompt, place + 1, places.of_prompt(place))


def _how_many(count: int) -> str:
    return (
        f"the session has {count} checkpoint{'' if count == 1 else 's'}" if count else "the session has no checkpoint"
    )
