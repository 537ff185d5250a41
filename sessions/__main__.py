"""``python -m sessions`` and the console script ``sessions``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line with the process's arguments; return its exit code.

    Ctrl-C is 130 in one line from the first import on; behind this it is ignored, for the process is to end.
    """
    try:
        from sessions.cli.app import run  # noqa: PLC0415 - importing this module costs nothing

        code = run(sys.argv[1:])
        _ignore_ctrl_c()
    except KeyboardInterrupt:
        _ignore_ctrl_c()
        print("sessions: interrupted", file=sys.stderr)  # noqa: T201 - click may not be there yet
        return 130
    return code


def _ignore_ctrl_c() -> None:
    """Let nothing come between what was said and the end of the process, or its exit code would say another thing."""
    import signal  # noqa: PLC0415 - as above

    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
