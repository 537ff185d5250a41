"""Stop a program at its worst moment: before, or in the middle of, the N-th call that changes or needs the disk."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

CHANGES = (
    "write", "fsync", "rename", "unlink", "mkdir", "rmdir", "link", "symlink", "copy_file_range", "sendfile", "open",
    "ftruncate", "pwrite", "chmod", "fchmod", "fchown",
)  # fmt: skip
"""The calls of ``os`` that are counted."""


@contextlib.contextmanager
def at_call(number: int, what_happens: Callable[[str], object]) -> Iterator[list[str]]:
    """Let something happen at the ``number``-th counted call, from 1; a write is half done by then.

    Yields:
        The names of the calls so far, in order.
    """
    originals = {name: getattr(os, name) for name in CHANGES}
    made: list[str] = []

    def counted(name: str, original):
        def call(*args, **options):
            made.append(name)
            if len(made) == number:
                if name == "write":
                    original(args[0], bytes(args[1])[: len(args[1]) // 2])
                what_happens(name)
            return original(*args, **options)

        return call

    for name, original in originals.items():
        setattr(os, name, counted(name, original))
    try:
        yield made
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do work in a child process that is SIGKILLed at its ``number``-th counted call.

    Returns:
        False when the child did its work first. An error in the child is an error here.
    """
    child = os.fork()
    if not child:
        status = 1
        try:
            with at_call(number, lambda _name: os.kill(os.getpid(), signal.SIGKILL)):
                work()
            status = 0
        except BaseException:  # noqa: BLE001 - the child must never go on as a second test run
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL:
        return True
    assert os.waitstatus_to_exitcode(ended) == 0, "the child failed"
    return False
