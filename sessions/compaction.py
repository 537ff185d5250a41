"""Compacting: a summary stands for what the model saw; the file keeps everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sessions import clock
from sessions.transcript import codec, collapse
from sessions.transcript.entry import Entry

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did; ``compacted`` is False when there was nothing to compact, and nothing was written then.

    Attributes:
        summary_id: The message id of the summary; None when nothing was compacted.
        kept_messages: How many messages the model still sees verbatim.
        tokens_before: What the model saw, as last reported, else estimated at four characters a token.
        tokens_after: Likewise, estimated.
    """

    compacted: bool
    summary_id: str | None
    kept_messages: int
    tokens_before: int
    tokens_after: int

    def to_json(self) -> dict[str, object]:
        """Return ``{"compacted", "summary_id", "kept_messages", "tokens_before", "tokens_after"}``."""
        return {
            "compacted": self.compacted,
            "summary_id": self.summary_id,
            "kept_messages": self.kept_messages,
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
        }


def compact(
    seen: Sequence[Entry], summary: str, *, keep_rounds: int, append: Callable[[Sequence[bytes]], None]
) -> Compaction:
    """Append a compact message and the last rounds once more.

    Args:
        seen: What the model sees now.
        summary: What replaces it; nothing is written if it is blank.
        keep_rounds: How many API rounds stay verbatim.
        append: Writes lines, all or none.

    Raises:
        RequestError: The summary is blank.
    """
    lines = collapse.compaction_lines(seen, summary, keep_rounds=keep_rounds, now=clock.timestamp())
    before = tokens(seen)
    if len(lines) > len(seen):
        return Compaction(False, None, len(seen), before, before)
    append(lines)
    written = [codec.decode(line) for line in lines]
    return Compaction(True, written[0].id, len(written) - 1, before, _estimate(written))


def tokens(seen: Sequence[Entry]) -> int:
    """Return the size of what the model sees: as last reported, else estimated at four characters a token."""
    reported = (entry.total_tokens for entry in reversed(seen))
    return next((count for count in reported if count is not None), _estimate(seen))


def _estimate(seen: Sequence[Entry]) -> int:
    return sum(len(entry.raw) for entry in seen) // _CHARACTERS_PER_TOKEN
