"""``python -m sessions`` and the console script ``sessions``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line with the process's arguments; return its exit code."""
    from sessions.cli.app import run  # noqa: PLC0415 - importing this module costs nothing

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
