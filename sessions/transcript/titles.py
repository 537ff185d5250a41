"""Title lines: how one is written, and when the last one has to be said again. Pure."""

from __future__ import annotations

from sessions.errors import RequestError
from sessions.transcript import codec
from sessions.transcript.outline import Title

MAX_CHARACTERS = 1_000
WINDOW_BYTES = 64 * 1024  # lists read so much of a file's end where they need it


def title_line(text: str, session_id: str) -> bytes:
    """Return the line that gives a session its title, without a newline.

    Raises:
        RequestError: The title is blank or longer than 1 000 characters.
    """
    if not isinstance(text, str) or not text.strip():
        raise RequestError("a title cannot be empty")
    if len(text) > MAX_CHARACTERS:
        raise RequestError(f"a title has at most {MAX_CHARACTERS} characters, this one has {len(text)}")
    return codec.dumps({"type": "custom-title", "customTitle": text, "sessionId": session_id})


def falls_out(title: Title, size: int) -> bool:
    """Tell whether the title of a file of ``size`` bytes starts before the final 64 KiB, and saying it again helps."""
    return size - title.offset > WINDOW_BYTES and len(title.raw) < WINDOW_BYTES


def restated(kept: bytes, title: Title | None, cut: int) -> bytes:
    """Return what follows a transcript's first ``cut`` bytes after a rewind.

    Args:
        kept: The lines from behind the cut that stay, each with its newline.
        title: The last title of the whole transcript; None if it has none.
        cut: Where the kept part ends, at the start of a line.

    Returns:
        ``kept``, and behind it the title once more unless it already is the last line.
    """
    if title is None:
        return kept
    line = title.raw + b"\n"
    last = kept.endswith(b"\n" + line) or kept == line if kept else title.end == cut
    return kept if last else kept + line
