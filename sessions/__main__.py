"""``python -m sessions`` and the console script ``sessions``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line with the process's arguments; return its exit code.

    Ctrl-C is 130 in one line from the first import on.
    """
    try:
        from sessions.cli.app import run  # noqa: PLC0415 - importing this module costs nothing

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        import signal  # noqa: PLC0415 - as above

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("sessions: interrupted", file=sys.stderr)  # noqa: T201 - click may not be there yet
        return 130


if __name__ == "__main__":
    sys.exit(main())
