"""Failing and dying at a chosen system call.

As a module: ``failing(number, error)`` raises at the n-th call. As a program: does what its arguments say to a transcript and
kills itself with SIGKILL at the n-th call: ``before`` it, ``after`` it, or with ``half`` of a write done.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

CALLS = ("open", "write", "fsync", "rename", "ftruncate", "copy_file_range", "fchmod", "unlink", "mkdir", "close")
CHANGING = ("write", "fsync", "rename", "ftruncate", "copy_file_range", "fchmod")


@contextlib.contextmanager
def counting(names, at_call):
    """Let ``at_call(number, name, call)`` make every call of the named functions of ``os``; ``call`` is it, ready."""
    originals = {name: getattr(os, name) for name in names}
    number = 0

    def wrap(name, original):
        def called(*args, **kwargs):
            nonlocal number
            number += 1
            return at_call(number, name, args, lambda *given: original(*(given or args), **kwargs))

        return called

    for name, original in originals.items():
        setattr(os, name, wrap(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


@contextlib.contextmanager
def failing(number, error, *, names=CHANGING, half=False):
    """Raise ``OSError(error)`` at the n-th call, with half of a write done or with nothing done. Yields what was called."""
    called = []

    def at_call(count, name, args, call):
        called.append(name)
        if count == number:
            if half and name == "write":
                call(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise OSError(error, os.strerror(error))
        return call()

    with counting(names, at_call):
        yield called


def die_at(number, moment, what, path):
    """Run this file in another process; return whether it died before it was done."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, __file__, str(number), moment, what, path]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode != 0


def main():
    from sessions.transcript.writer import Writer

    number, moment, what, path = int(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])

    def at_call(count, name, args, call):
        if count == number and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if count == number and moment == "half" and name == "write":
            call(args[0], bytes(args[1])[: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return call()
        finally:
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    writer = Writer(path, sidecar=path.with_suffix(".ckpt"), session_id="s", header=b'{"type":"metadata"}')
    with counting(CALLS, at_call):
        match what.split(":"):
            case ["append", *words]:
                writer.append([word.encode() for word in words])
            case ["rewrite", keep, tail]:
                writer.rewrite(int(keep), tail.encode())


if __name__ == "__main__":
    main()
