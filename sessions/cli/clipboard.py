"""The clipboard of whoever sits at the terminal, also over ssh: the terminal is asked to keep a text (OSC 52)."""

from __future__ import annotations

import base64
import os
import sys


def copy(text: str) -> bool:
    """Ask the terminal to copy a text; tell whether one was there to ask. It does not say whether it did."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return False
    coded = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
    sys.stdout.write(f"\x1b]52;c;{coded}\x07")
    sys.stdout.flush()
    return True
