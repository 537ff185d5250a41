"""How a place in a transcript is known again: by the bytes in front of it."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

SEAM_BYTES = 4096


def seam_of(transcript: BinaryIO, keep: int) -> str:
    """Return the SHA-256 of the last bytes in front of byte ``keep``; of nothing where the file ends before it."""
    start = max(keep - SEAM_BYTES, 0)
    transcript.seek(start)
    return hashlib.sha256(transcript.read(keep - start)).hexdigest()
