"""Stop a program at its worst moment: before, or in the middle of, the N-th call that changes or needs the disk."""

import contextlib
import errno
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence

CHANGES = (
    "write", "fsync", "rename", "unlink", "mkdir", "rmdir", "link", "symlink", "copy_file_range", "sendfile",
    "ftruncate", "pwrite", "chmod", "fchmod", "fchown", "create",
)  # fmt: skip
"""The calls of ``os`` that change the disk; ``create`` is an ``open`` that may make a file."""

CALLS = (*CHANGES, "open")
"""Those and every other ``open``: what can fail."""


Strike = Callable[[], object]
Schedule = Callable[[int], Strike | None]
"""What happens at the n-th counted call, from 1; None: nothing."""


@contextlib.contextmanager
def at_calls(schedule: Schedule, *, names: Sequence[str] = CHANGES) -> Iterator[list[str]]:
    """Let things happen at counted calls; a write is half done by then.

    Yields:
        The names of the calls so far, in order.
    """
    patched = {name for name in names if name != "create"} | ({"open"} if "create" in names else set())
    originals = {name: getattr(os, name) for name in patched}
    made: list[str] = []

    def counted(name: str, original):
        def call(*args, **options):
            said = "create" if name == "open" and args[1] & os.O_CREAT else name
            if said not in names:
                return original(*args, **options)
            made.append(said)
            strike = schedule(len(made))
            if strike is not None:
                if name == "write":
                    original(args[0], bytes(args[1])[: len(args[1]) // 2])
                strike()
            return original(*args, **options)

        return call

    for name, original in originals.items():
        setattr(os, name, counted(name, original))
    try:
        yield made
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def counting(*, names: Sequence[str] = CHANGES) -> contextlib.AbstractContextManager[list[str]]:
    """Only count."""
    return at_calls(lambda _number: None, names=names)


def failing(
    number: int, error: int, *, once: bool = True, names: Sequence[str] = CALLS
) -> contextlib.AbstractContextManager[list[str]]:
    """Let the ``number``-th counted call fail with an errno, or with ``once=False`` every one from there on."""

    def fail() -> None:
        raise OSError(error, os.strerror(error))

    return at_calls(lambda at: fail if at == number or (at > number and not once) else None, names=names)


def killed_at(number: int, work: Callable[[], object], *, failed_at: int = 0) -> bool:
    """Do work in a child process that is SIGKILLed at its ``number``-th counted call.

    Args:
        failed_at: A call that fails with EIO first.

    Returns:
        False when the child did its work first. An error in the child is an error here, unless ``failed_at`` made it.
    """

    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        status = 1
        try:
            with at_calls({number: die, failed_at: fail}.get):
                work()
            status = 0
        except OSError as error:
            status = 0 if failed_at and error.errno == errno.EIO else 2
        except BaseException:  # noqa: BLE001 - the child must never go on as a second test run
            traceback.print_exc()
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL:
        return True
    assert os.waitstatus_to_exitcode(ended) == 0, "the child failed"
    return False
