"""One line of a transcript: its bytes and a view of them. It and `blocks` know how the format spells its keys."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Kind(enum.Enum):
    """What a line is. ``OTHER`` is readable but unknown; ``OPAQUE`` is not one readable JSON object."""

    HEADER = "header"
    TITLE = "title"
    MESSAGE = "message"
    ROLLBACK = "rollback"
    OTHER = "other"
    OPAQUE = "opaque"


class Entry(NamedTuple):
    """A line. ``raw`` is what is written back; ``data`` is a view of it and never changed.

    Attributes:
        raw: The line without its newline.
        kind: What it is.
        data: Its parsed object; None exactly if ``kind`` is ``OPAQUE``.
    """

    raw: bytes
    kind: Kind
    data: dict[str, object] | None

    @property
    def id(self) -> str | None:
        """The message id; None where there is none."""
        value = self.data.get("id") if self.data is not None else None
        return value if isinstance(value, str) else None

    @property
    def role(self) -> str | None:
        """``user`` or ``assistant`` for a message."""
        value = self.data.get("role") if self.data is not None else None
        return value if isinstance(value, str) else None

    @property
    def timestamp(self) -> str | None:
        """The time as it is written there."""
        value = self.data.get("timestamp") if self.data is not None else None
        return value if isinstance(value, str) else None

    @property
    def blocks(self) -> list[dict[str, object]]:
        """The blocks of a message that are objects, in order; empty for everything else."""
        blocks = self.data.get("blocks") if self.data is not None else None
        return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []

    @property
    def is_meta(self) -> bool:
        """Whether a message is for the model only."""
        return self.data is not None and bool(self.data.get("isMeta"))

    @property
    def is_compact(self) -> bool:
        """Whether a message holds a summary that replaces what came before it."""
        if self.kind is Kind.MESSAGE:
            for block in self.blocks:
                if block.get("type") in COMPACT:
                    return True
        return False

    @property
    def after(self) -> str | None:
        """Of a compact message: the id up to which the earlier view stays."""
        return self._text("after")

    @property
    def hides_from(self) -> str | None:
        """Of a rollback event: the id of the first message it hides."""
        return self._text("messageId") if self.kind is Kind.ROLLBACK else None

    @property
    def title(self) -> str | None:
        """Of a title line: the title."""
        return self._text("customTitle") if self.kind is Kind.TITLE else None

    @property
    def total_tokens(self) -> int | None:
        """What the model reported for a message, prompt and answer together."""
        usage = self.data.get("usage") if self.data is not None else None
        total = usage.get("total_tokens") if isinstance(usage, dict) else None
        return total if isinstance(total, int) and not isinstance(total, bool) and total >= 0 else None

    def _text(self, key: str) -> str | None:
        value = self.data.get(key) if self.data is not None else None
        return value if isinstance(value, str) else None


COMPACT = ("compact", "compress")  # the second is the older spelling; a tuple, as a value may be unhashable


def kind_of(data: dict[str, object]) -> Kind:
    """Tell what a parsed line is. A message has a role we know and a list of blocks, whatever else it holds."""
    if isinstance(data.get("blocks"), list) and data.get("role") in ("user", "assistant"):
        return Kind.MESSAGE
    match data.get("type"):
        case "metadata":
            return Kind.HEADER
        case "custom-title" if isinstance(data.get("customTitle"), str):
            return Kind.TITLE
        case "rollback":
            return Kind.ROLLBACK
        case _:
            return Kind.HEADER if data.get("__meta__") is True else Kind.OTHER
