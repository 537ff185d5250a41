"""Ctrl-C at every place where it can come: wherever Python looks for signals."""

from __future__ import annotations

import contextlib
import dis
import itertools
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import CodeType, FrameType, ModuleType

_AT_LEAST = 20


def interruptions(work: Callable[[], object], within: Iterable[ModuleType]) -> Iterator[None]:
    """Call ``work`` again and again, each time interrupted one place later, until it comes through.

    Args:
        within: The modules in whose code it is interrupted: where a function begins or goes on, behind each call of
            what is not written in Python (or elsewhere), and where a loop begins anew. In between no signal is seen:
            ``with`` and ``return`` build on that.

    Yields:
        After each interruption. The exception is gone then, as where a host went on.
    """
    files = frozenset(module.__file__ for module in within)
    for number in itertools.count():
        with contextlib.suppress(KeyboardInterrupt):
            _interrupted(number, work, files)
            assert number > _AT_LEAST, "hardly anything was interrupted"
            return
        yield


def _interrupted(number: int, work: Callable[[], object], files: frozenset[str | None]) -> None:
    left = number
    returned: FrameType | None = None

    def trace(frame: FrameType, event: str, _arg: object) -> object:
        nonlocal left, returned
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        back, returned = frame is returned, frame.f_back if event == "return" else None
        if event == "call" or (event == "opcode" and not back and frame.f_lasti in _looks(frame.f_code)):
            left -= 1
            if left < 0:
                sys.settrace(None)
                handler = signal.getsignal(signal.SIGINT)
                assert callable(handler)
                handler(signal.SIGINT, frame)  # raises it, unless it is held back just here
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)


@cache
def _looks(code: CodeType) -> frozenset[int]:
    instructions = list(dis.get_instructions(code))
    return frozenset(
        each.offset
        for before, each in itertools.pairwise(instructions)
        if before.opname.startswith("CALL") or each.opname == "JUMP_BACKWARD"
    )
