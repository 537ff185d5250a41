"""How fast and how large a rewind is: ratios to a floor taken in the same run. ``python tests/benchmarks/rewind.py [MB]``.

The floor of a rewind of the last turn is what nobody can avoid: copy the kept bytes, fsync, rename. Every figure is the
median of several runs, floor and subject in turn.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sessions import SessionStore, assistant_message

MB = 1_000_000


def build(root: Path, workdir: Path, size_mb: int) -> tuple[str, Path]:
    """Make a session of the given size whose last turn edited one file; return its id and transcript."""
    store = SessionStore(root)
    (workdir / "a.py").write_text("before\n")
    with store.create(workdir) as session:
        with session.begin_turn("the first prompt"):
            session.append(assistant_message("done"))
        path = session.path
    turn = b"".join(
        [
            b'{"timestamp":"2026-01-01T00:00:00.000Z","id":"msg-%s-u","role":"user","blocks":[{"type":"text","content":"next"}]}\n',
            *(
                b'{"timestamp":"2026-01-01T00:00:00.000Z","id":"msg-%%s-a%d","role":"assistant","blocks":[{"type":"tool",'
                b'"id":"t","name":"read","parameters":"{}","result":"%s","stage":"end","success":true}]}\n'
                % (place, b"def answer(question):\\n    return 42  # a line of some source file\\n" * 30)
                for place in range(8)
            ),
        ]
    )
    with path.open("ab") as transcript:
        number = 0
        while transcript.tell() < size_mb * MB:
            transcript.write(turn.replace(b"%s", b"%08d" % number))
            number += 1
    with store.open(session.id) as session, session.begin_turn("the last prompt") as last:
        with last.edit("a.py"):
            (workdir / "a.py").write_text("after\n")
        session.append(assistant_message("done"))
    return session.id, path


def floor(path: Path) -> float:
    """Copy, fsync, rename over an older copy."""
    target = path.with_name("floor.bin")
    shutil.copyfile(path, path.with_name("floor.done"))
    os.sync()
    start = time.perf_counter()
    shutil.copyfile(path, target)
    with target.open("rb+") as copy:
        os.fsync(copy.fileno())
    target.rename(path.with_name("floor.done"))
    took = time.perf_counter() - start
    path.with_name("floor.done").unlink()
    return took


def small_syncs(directory: Path) -> float:
    start = time.perf_counter()
    for number in range(10):
        with (directory / f"small-{number}").open("wb") as small:
            small.write(b"x")
            small.flush()
            os.fsync(small.fileno())
    return time.perf_counter() - start


def measure(size_mb: int, runs: int = 5) -> None:
    """Rewind as the picker does (the checkpoints are known), and by message id in a store that was just opened."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as scratch:
        root, workdir = Path(scratch) / "root", Path(scratch) / "project"
        workdir.mkdir()
        session_id, path = build(root, workdir, size_mb)
        floors, listed, picked, fresh = [], [], [], []
        for _ in range(runs):
            extra = small_syncs(path.parent) if size_mb < 100 else 0.0
            floors.append(floor(path) + extra)
            with SessionStore(root).open(session_id) as session:
                start = time.perf_counter()
                last = session.checkpoints()[-1]
                listed.append(time.perf_counter() - start)
                os.sync()
                start = time.perf_counter()
                session.rewind(last)
                picked.append(time.perf_counter() - start)
                session.undo_rewind()
            os.sync()
            start = time.perf_counter()
            session = SessionStore(root).open(session_id)
            session.rewind(last.id)
            fresh.append(time.perf_counter() - start)
            session.undo_rewind()
            session.close()
        print(f"rewind of the last turn, {size_mb} MB; floor: copy + fsync + rename, {show(floors)}")
        print(f"  from the picker     {show(picked)}  ratio {ratio(picked, floors):.2f}  (its list: {show(listed)})")
        print(f"  open, then by id    {show(fresh)}  ratio {ratio(fresh, floors):.2f}")


def show(times: list[float]) -> str:
    return f"{statistics.median(times) * 1000:8.1f} ms"


def ratio(times: list[float], floors: list[float]) -> float:
    return statistics.median(time / floor for time, floor in zip(times, floors, strict=True))


def memory(size_mb: int) -> None:
    """Peak resident memory of a process that opens, lists the checkpoints, rewinds and undoes. Linux only."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as scratch:
        root, workdir = Path(scratch) / "root", Path(scratch) / "project"
        workdir.mkdir()
        session_id, _ = build(root, workdir, size_mb)
        child = (
            "from sessions import SessionStore\n"
            f"with SessionStore({str(root)!r}).open({session_id!r}) as s:\n"
            "    s.rewind(s.checkpoints()[-1]); s.undo_rewind()\n"
            "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
        )
        said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
        print(f"peak memory of open + rewind + undo, {size_mb} MB: {int(said.stdout) / 1024:.0f} MiB")


if __name__ == "__main__":
    for size in [int(each) for each in sys.argv[1:]] or [1, 10, 100, 250]:
        measure(size)
    memory(250)
