"""How fast tasks are started and cancelled. ``python tests/benchmarks/tasks.py [launch] [cancel]``.

Floors: of a launch, starting the same program with ``subprocess`` until it runs, and starting an interpreter that does
nothing; of a cancel, signalling the same processes and waiting for them where their parent does it, without looking for
anybody. Every figure is a median, floor and subject in turn. The whole takes less than a minute; what it starts is
stopped when it is interrupted or terminated, and ends by itself within a minute when it is killed.
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

from sessions import SessionStore
from sessions.subagents.cancelling import Quarry, stop
from sessions.subagents.folder import TaskFolder
from sessions.subagents.launching import launch
from sessions.subagents.tagging import tagged

GRACE_S = 0.2
RUNS = {1: 9, 43: 3, 200: 1}
DIES = "import time\nprint('+', end='', flush=True)\ntime.sleep(60)"
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
    """Launch a program that ends at once, and spawn it as a task of a session; wait for that only."""
    bare, popen, taken, spawned = [], [], [], []
    with scratch() as directory, SessionStore(directory / "store").create(directory) as session:
        session.begin_turn("start").end()
        for number in range(runs):
            folder = TaskFolder(directory / str(number))
            bare.append(timed(lambda: subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)))
            started: list[subprocess.Popen[bytes]] = []
            popen.append(timed(lambda started=started: started.append(subprocess.Popen(["true"]))))
            started[0].wait()
            taken.append(timed(lambda folder=folder: launch(["true"], folder, cwd="/", env=os.environ)))
            until(lambda folder=folder: (end := folder.exit()) and end.gone)
            spawned.append(timed(lambda: session.tasks.spawn(["true"])))
            until(lambda: session.tasks.list()[-1].state != "running")
    print(f"a launch; floors: Popen + exec {show(popen)}, python -I -S -c pass {show(bare)}")
    for what, times in (("launch", taken), ("session.tasks.spawn", spawned)):
        print(f"  {what:19} {show(times)}  ratio {ratio(times, popen):.1f} and {ratio(times, bare):.2f}")


def cancels(count: int, runs: int) -> None:
    """Cancel processes that end when asked and such that do not: each a task of its own, and all children of one."""
    for what, code, number in (("SIGTERM", DIES, signal.SIGTERM), ("SIGKILL", IGNORES, signal.SIGKILL)):
        floors, single, together = [], [], []
        for _ in range(runs):
            floors.append(floor(code, count, number))
            single.append(cancel(single_tasks, code, count))
            together.append(cancel(one_task, code, count))
        print(f"cancelling {count} that end at {what}, median of {runs}; floor: signal + wait {show(floors)}")
        for shape, taken in (("tasks of one", single), ("one task", together)):
            beyond = "" if number == signal.SIGTERM else f"  without the grace {show([t - GRACE_S for t in taken])}"
            print(f"  {shape:19} {show(taken)}{beyond}", flush=True)


def floor(code: str, count: int, number: int) -> float:
    read, write = os.pipe()
    command = [sys.executable, "-I", "-S", "-c", code]
    processes: list[subprocess.Popen[bytes]] = []

    def end(number: int) -> None:
        for process in processes:
            process.send_signal(number)
        for process in processes:
            process.wait()

    try:
        processes.extend(subprocess.Popen(command, stdout=write) for _ in range(count))
        seen = 0
        while seen < count:
            seen += len(os.read(read, 4096))
        return timed(lambda: end(number))
    finally:
        end(signal.SIGKILL)
        os.close(read)
        os.close(write)


def cancel(begin: Callable[[Path, str, int], Iterator[Quarry]], code: str, count: int) -> float:
    quarries: list[Quarry] = []
    with scratch() as directory:
        try:
            quarries.extend(begin(directory, code, count))
            until(lambda: sum(log.stat().st_size for log in directory.glob("*/output.log")) == count)
            start = time.perf_counter()
            results = stop(quarries, grace_s=GRACE_S)
            taken = time.perf_counter() - start
        finally:
            stop(quarries, grace_s=0)
    assert not any(result.survivors for result in results.values())
    return taken


def single_tasks(directory: Path, code: str, count: int) -> Iterator[Quarry]:
    for _ in range(count):
        yield begin_task(directory, [sys.executable, "-I", "-S", "-c", code])


def one_task(directory: Path, code: str, count: int) -> Iterator[Quarry]:
    yield begin_task(directory, [sys.executable, "-I", "-S", "-c", MANY, code, str(count)])


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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = sys.argv[1:] or ["launch", "cancel"]
    if "launch" in chosen:
        launches()
    if "cancel" in chosen:
        for size, runs in RUNS.items():
            cancels(size, runs)
