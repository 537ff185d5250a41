"""What is visible, what the model sees, and how a compaction is written. Pure; takes lines or notes about lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from sessions import clock, ids
from sessions.errors import RequestError
from sessions.transcript import codec, turns
from sessions.transcript.entry import Entry, Kind


class Line(Protocol):
    """What these rules look at; an `Entry` is one."""

    @property
    def kind(self) -> Kind: ...  # noqa: D102
    @property
    def id(self) -> str | None: ...  # noqa: D102
    @property
    def timestamp(self) -> str | None: ...  # noqa: D102
    @property
    def is_compact(self) -> bool: ...  # noqa: D102
    @property
    def after(self) -> str | None: ...  # noqa: D102
    @property
    def hides_from(self) -> str | None: ...  # noqa: D102


L = TypeVar("L", bound=Line)


def visible(lines: Iterable[L]) -> list[L]:
    """Return the lines no rollback event hides, in order, without those events.

    An event hides from the first line still visible with its id up to itself. Header and title lines belong to the
    session and are never hidden. An event whose id is not visible hides nothing.
    """
    shown: list[L] = []
    for line in lines:
        if line.kind is not Kind.ROLLBACK:
            shown.append(line)
            continue
        start = next(
            (i for i, seen in enumerate(shown) if seen.kind is Kind.MESSAGE and seen.id == line.hides_from), None
        )
        if start is not None and line.hides_from is not None:
            shown[start:] = [kept for kept in shown[start:] if kept.kind in {Kind.HEADER, Kind.TITLE}]
    return shown


def messages(lines: Iterable[L]) -> list[L]:
    """Return the visible messages. Of compact ones with none between, only the newest counts; of equals, the last."""
    shown: list[L] = []
    for line in visible(lines):
        if line.kind is not Kind.MESSAGE:
            continue
        if line.is_compact and shown and shown[-1].is_compact:
            shown[-1] = newer(shown[-1], line)
        else:
            shown.append(line)
    return shown


def model_view(lines: Iterable[L]) -> list[L]:
    """Return the messages the model sees: those from the last compact message on.

    If that one says ``after``, the view before it, up to and including that id, comes first; where that id is not in
    it, it counts as not said. A repeated id is one message, at its first place with its last content.
    """
    view: list[L] = []
    segment: list[L] = []
    for line in messages(lines):
        if line.is_compact:
            view = _up_to(view + once(segment), line.after)
            segment = []
        segment.append(line)
    return view + once(segment)


def history(lines: Iterable[L]) -> list[L]:
    """Return every visible message in file order. Between two compact messages a repeated id is one message."""
    return [line for segment in segments(messages(lines)) for line in once(segment)]


def told(lines: Iterable[L]) -> list[L]:
    """Return every visible message once, at its first place with its last content, as people read a conversation.

    What a compaction keeps word for word does not stand behind it again.
    """
    return once(messages(lines))


def segments(shown: Iterable[L]) -> Iterator[list[L]]:
    """Split messages in front of each compact one."""
    segment: list[L] = []
    for line in shown:
        if line.is_compact and segment:
            yield segment
            segment = []
        segment.append(line)
    if segment:
        yield segment


def once(segment: Iterable[L]) -> list[L]:
    """Return each id once, at its first place with its last content; messages without an id stay apart."""
    placed: dict[object, L] = {}
    for line in segment:
        placed[object() if line.id is None else line.id] = line
    return list(placed.values())


def newer(first: L, second: L) -> L:
    """Return the compact message with the newer timestamp; the second where they do not differ or do not say."""
    return first if _moment(first) > _moment(second) else second


def compaction_lines(
    view: Sequence[Entry], summary: str, *, keep_rounds: int = 2, now: str, after: str | None = None
) -> list[bytes]:
    """Return the lines that compact ``view``, without newlines: the compact message, then its last rounds verbatim.

    Args:
        view: What the model sees now.
        summary: What replaces it.
        keep_rounds: How many API rounds are said again; an old compact message never is.
        now: The timestamp of the compact message.
        after: The id up to which the earlier view stays, if it does.

    Raises:
        RequestError: The summary is blank.
    """
    if not summary.strip():
        raise RequestError("the summary is empty; nothing was compacted")
    compact: dict[str, object] = {
        "timestamp": now,
        "id": ids.new_message_id(),
        "role": "assistant",
        "blocks": [{"type": "compact", "content": summary}],
    }
    if after is not None:
        compact["after"] = after
    rounds = [step for step in turns.api_rounds(view) if not step[0].is_compact]
    kept = rounds[max(0, len(rounds) - keep_rounds) :]
    return [codec.dumps(compact), *(entry.raw for step in kept for entry in step)]


def _up_to(view: list[L], last: str | None) -> list[L]:
    place = next((i for i, line in enumerate(view) if last is not None and line.id == last), None)
    return [] if place is None else view[: place + 1]


def _moment(line: Line) -> datetime:
    return clock.parse(line.timestamp or "") or datetime.min.replace(tzinfo=UTC)
