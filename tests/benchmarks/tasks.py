"""How fast tasks are launched and cancelled. ``python tests/benchmarks/tasks.py [launch] [cancel]``.

Floors: of a launch, starting the same program with ``subprocess`` until it runs, and starting an interpreter that does
nothing; of a cancel, signalling the same processes and waiting for them where their parent does it, without looking for
anybody. Every figure is a median, floor and subject in turn.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from sessions.subagents.cancelling import Quarry, stop
from sessions.subagents.folder import TaskFolder
from sessions.subagents.launching import launch
from sessions.subagents.tagging import tagged

GRACE_S = 0.2
DIES = "import time\nprint('+', end='', flush=True)\ntime.sleep(1000)"
IGNORES = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{DIES}"
MANY = """
import os, sys
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        exec(sys.argv[1])
os.wait()
"""


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as directory:
        yield Path(directory)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def launches(runs: int = 40) -> None:
    """Launch a program that ends at once, and wait for the launch only."""
    bare, popen, taken = [], [], []
    with scratch() as directory:
        for number in range(runs):
            folder = TaskFolder(directory / str(number))
            bare.append(timed(lambda: subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)))
            started: list[subprocess.Popen[bytes]] = []
            popen.append(timed(lambda started=started: started.append(subprocess.Popen(["true"]))))
            started[0].wait()
            taken.append(timed(lambda folder=folder: launch(["true"], folder, cwd="/", env=os.environ)))
            until(lambda folder=folder: (end := folder.exit()) and end.gone)
    print(f"a launch; floors: Popen + exec {show(popen)}, python -I -S -c pass {show(bare)}")
    print(f"  launch              {show(taken)}  ratio {ratio(taken, popen):.1f} and {ratio(taken, bare):.2f}")


def cancels(count: int, runs: int = 5) -> None:
    """Cancel processes that end when asked and such that do not: each a task of its own, and all children of one."""
    for what, code, number in (("SIGTERM", DIES, signal.SIGTERM), ("SIGKILL", IGNORES, signal.SIGKILL)):
        floors = [floor(code, count, number) for _ in range(runs)]
        print(f"cancelling {count} that end at {what}; floor: signal + wait {show(floors)}")
        shapes = {"tasks of one": single_tasks, "one task": one_task}
        for shape, begin in shapes.items():
            taken = [cancel(begin, code, count) for _ in range(runs)]
            beyond = "" if number == signal.SIGTERM else f"  without the grace {show([t - GRACE_S for t in taken])}"
            print(f"  {shape:19} {show(taken)}{beyond}")


def floor(code: str, count: int, number: int) -> float:
    read, write = os.pipe()
    command = [sys.executable, "-I", "-S", "-c", code]
    processes = [subprocess.Popen(command, stdout=write) for _ in range(count)]
    seen = 0
    while seen < count:
        seen += len(os.read(read, 4096))
    os.close(read)
    os.close(write)

    def end() -> None:
        for process in processes:
            process.send_signal(number)
        for process in processes:
            process.wait()

    return timed(end)


def cancel(begin: Callable[[Path, str, int], list[Quarry]], code: str, count: int) -> float:
    with scratch() as directory:
        quarries = begin(directory, code, count)
        until(lambda: sum(log.stat().st_size for log in directory.glob("*/output.log")) == count)
        start = time.perf_counter()
        results = stop(quarries, grace_s=GRACE_S)
        taken = time.perf_counter() - start
    assert not any(result.survivors for result in results.values())
    return taken


def single_tasks(directory: Path, code: str, count: int) -> list[Quarry]:
    return [begin_task(directory, [sys.executable, "-I", "-S", "-c", code]) for _ in range(count)]


def one_task(directory: Path, code: str, count: int) -> list[Quarry]:
    return [begin_task(directory, [sys.executable, "-I", "-S", "-c", MANY, code, str(count)])]


def begin_task(directory: Path, argv: list[str]) -> Quarry:
    tag = uuid.uuid4().hex
    started = launch(argv, TaskFolder(directory / tag), cwd="/", env=tagged(os.environ, tag))
    return Quarry(tag, started.main, started.group, started.supervisor, tag)


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.002)


def show(times: list[float]) -> str:
    return f"{statistics.median(times) * 1000:8.1f} ms"


def ratio(times: list[float], floors: list[float]) -> float:
    return statistics.median(times) / statistics.median(floors)


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["launch", "cancel"]
    if "launch" in chosen:
        launches()
    if "cancel" in chosen:
        for size in (1, 43, 200):
            cancels(size)
