"""Which prompt, or which mark inside a turn, is meant, and where that is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sessions import clock
from sessions.errors import AmbiguousError, NotFoundError, RequestError
from sessions.rewind.needs import Places
from sessions.rewind.plan import Checkpoint, Mark, Scope, numbered
from sessions.rewind.recorded import MarkRecord, Order, Span
from sessions.rewind.timeline import Timeline
from sessions.transcript.outline import Prompt

Reference = Checkpoint | Mark | str | int
"""A checkpoint, a mark, the message id of a prompt or the beginning of one, an index from 1, or ``TURN:MARK``."""


@dataclass(frozen=True, slots=True)
class Target:
    """A prompt, or a mark, to go back to.

    Attributes:
        id: The message id of the prompt; of a mark, of its turn's.
        prompt: Its line; None for a prompt that left the conversation and is still on the timeline.
        index: Its index from 1; None likewise.
        order: The place on the timeline gone back to.
        mark: The mark; None for the prompt itself.
        cut: Where the transcript is cut, in bytes; None where the prompt is not in it, and for a mark until it is found
            there.
    """

    id: str
    prompt: Prompt | None
    index: int | None
    order: Order
    mark: MarkRecord | None = None
    cut: int | None = None

    def span(self, timeline: Timeline) -> Span:
        """Return what lies behind it and goes."""
        return timeline.span(self.order, within=self.mark.turn if self.mark is not None else None)

    @property
    def end(self) -> Order:
        """The place on the timeline in front of which all stays, the mark too."""
        return self.order if self.mark is None else (self.mark.seq, 1, 0, 0)


def mark_from(record: MarkRecord) -> Mark:
    """Return a mark as the public API has it."""
    return Mark(record.message_id, record.name, clock.parse(record.at), record.seq)


def written(mark: MarkRecord, timeline: Timeline) -> str:
    """Return a mark's name as ``TURN:MARK`` has it: numbered where its turn has several of that name."""
    marks = _marks_of(mark.message_id, timeline)
    return numbered([each.name for each in marks])[marks.index(mark)]


def resolve(to: Reference, prompts: Sequence[Prompt], timeline: Timeline, scope: Scope) -> Target:
    """Find the prompt, or the mark, that is meant.

    Raises:
        NotFoundError: There is none; a removed prompt, and a mark in its turn, is only found for scope ``code``.
        AmbiguousError: Several are meant.
    """
    if isinstance(to, bool) or not isinstance(to, Reference):
        raise RequestError(f"not a checkpoint, a mark, a message id or an index: {to!r}")
    if isinstance(to, Mark):
        return _marked(_prompt(to.turn, prompts, timeline, scope), to.name, to.seq, timeline)
    if isinstance(to, str) and ":" in to and not any(prompt.id == to for prompt in prompts):
        turn, _, name = to.partition(":")
        return _marked(_prompt(turn, prompts, timeline, scope), name, None, timeline)
    return _prompt(to, prompts, timeline, scope)


def which_runs(timeline: Timeline) -> str:
    """Say which runs there are, for an error about one there is not."""
    runs = list(dict.fromkeys(turn.run_id for turn in timeline.turns.values() if turn.run_id))
    return f"the session has the runs {', '.join(map(repr, runs[-8:]))}" if runs else "the session has no labelled run"


def _prompt(to: Checkpoint | str | int, prompts: Sequence[Prompt], timeline: Timeline, scope: Scope) -> Target:
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


def _marked(turn: Target, name: str, seq: int | None, timeline: Timeline) -> Target:
    marks = _marks_of(turn.id, timeline)
    found = [mark for mark in marks if mark.name == name]
    if seq is not None and any(mark.seq == seq for mark in found):
        found = [mark for mark in found if mark.seq == seq]
    if not found:
        told_apart = numbered([mark.name for mark in marks])
        found = [mark for mark, told in zip(marks, told_apart, strict=True) if told == name]
    if not found:
        raise NotFoundError("mark", name, hint=_which_marks(marks))
    if len(found) > 1:
        raise AmbiguousError("mark", name, [f"{name}#{number + 1}" for number in range(len(found))])
    return replace(turn, order=found[0].order, mark=found[0], cut=None)


def _marks_of(turn: str, timeline: Timeline) -> list[MarkRecord]:
    return [mark for mark in timeline.marks if mark.message_id == turn]


def _which_marks(marks: Sequence[MarkRecord]) -> str:
    named = ", ".join(repr(mark.name) for mark in marks[:8])
    return f"the turn has the marks {named}" if marks else "the turn has no mark"


def _place_of(index: str) -> int | None:
    """Return the list position an index means, written as a number; None where it is none."""
    return int(index) - 1 if index.isascii() and index.isdecimal() and len(index) < 10 else None


def _visible(place: int, prompts: Sequence[Prompt], places: Places) -> Target:
    prompt = prompts[place]
    return Target(prompt.id, prompt, place + 1, places.of_prompt(place), cut=prompt.offset)


def _how_many(count: int) -> str:
    return (
        f"the session has {count} checkpoint{'' if count == 1 else 's'}" if count else "the session has no checkpoint"
    )
