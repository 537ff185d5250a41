"""Stop a program at its worst moment: before, or in the middle of, the N-th call that changes or needs the disk."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence

CHANGES = (
    "write", "fsync", "rename", "unlink", "mkdir", "rmdir", "link", "symlink", "copy_file_range", "sendfile", "open",
    "ftruncate", "pwrite", "chmod", "fchmod", "fchown",
)  # fmt: skip
"""The calls of ``os`` that are counted."""


@contextlib.contextmanager
def at_call(
    number: int, what_happens: Callable[[str], object], *, once: bool = True, names: Sequence[str] = CHANGES
) -> Iterator[list[str]]:
    """Let something happen at the ``number``-th counted call, from 1; a write is half done by then.

    Args:
        once: Only there; else at every call from there on.
        names: Which calls are counted.

    Yields:
        The names of the calls so far, in order.
    """
    originals = {name: getattr(os, name) for name in names}
    made: list[str] = []

    def counted(name: str, original):
        def call(*args, **options):
            made.append(name)
            if len(made) == number or (len(made) > number and not once):
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


@contextlib.contextmanager
def failing(number: int, error: int, *, once: bool = True, names: Sequence[str] = CHANGES) -> Iterator[list[str]]:
    """Let the ``number``-th counted call fail with an errno, or with ``once=False`` every one from there on."""

    def fail(_name: str) -> None:
        raise OSError(error, os.strerror(error))

    with at_call(number, fail, once=once, names=names) as made:
        yield made
