"""How soon a diff shows something, how long and how large it gets. ``python tests/benchmarks/diff.py [FILES]``.

The floor is what nobody can avoid: reading the snapshots and splitting them into lines. Every figure is the median of
several runs, floor and subject in turn.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sessions import SessionStore

LINES = 1_000


def build(root: Path, workdir: Path, files: int) -> str:
    """Make a session whose one turn changed so many files, a line in fifty of each; return its id."""
    for number in range(files):
        (workdir / f"{number}.py").write_text("".join(f"value_{line} = {line} * {number}\n" for line in range(LINES)))
    with SessionStore(root).create(workdir) as session, session.begin_turn("change them all") as turn:
        with turn.edit(*(f"{number}.py" for number in range(files))):
            for number in range(files):
                path = workdir / f"{number}.py"
                text = path.read_text().split("\n")
                text[::50] = ["changed = True"] * len(text[::50])
                path.write_text("\n".join(text))
        return session.id


def floor(root: Path) -> float:
    start = time.perf_counter()
    for path in root.rglob("turns/*/files/*"):
        path.read_bytes().split(b"\n")
    return time.perf_counter() - start


def stream(command: list[str]) -> tuple[float, float, int]:
    """Return the seconds to the first byte and to the last, and how many there were."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        size = len(os.read(child.stdout.fileno(), 1))
        first = time.perf_counter() - start
        while block := child.stdout.read(1 << 16):
            size += len(block)
    return first, time.perf_counter() - start, size


def measure(root: Path, session_id: str, files: int, runs: int = 3) -> None:
    floors, firsts, totals, size = [], [], [], 0
    command = [sys.executable, "-m", "sessions", "--root", str(root), "diff", session_id]
    for _ in range(runs):
        floors.append(floor(root))
        first, total, size = stream(command)
        firsts.append(first)
        totals.append(total)
    share = statistics.median(total / floor for total, floor in zip(totals, floors, strict=True))
    print(f"diff of {files} files, {size / 1e6:.1f} MB of patches; floor: read and split, {show(floors)}")
    print(f"  the first byte  {show(firsts)}")
    print(f"  the last byte   {show(totals)}  ratio {share:.2f}")


def memory(root: Path, session_id: str) -> None:
    """Peak resident memory of a process that opens the session, and of one that goes through its diff. Linux only."""
    peaks = []
    for work in ("session.diff()", "sum(len(file.text) for file in session.diff().files)"):
        child = (
            "from sessions import SessionStore\n"
            f"with SessionStore({str(root)!r}).open({session_id!r}, read_only=True) as session: {work}\n"
            "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
        )
        said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
        peaks.append(int(said.stdout) / 1024)
    snapshots = sum(path.stat().st_size for path in root.rglob("turns/*/files/*"))
    print(
        f"  peak memory     {peaks[1]:.0f} MiB, {peaks[0]:.0f} MiB before the first file; snapshots {snapshots >> 20} MiB"
    )


def show(times: list[float]) -> str:
    return f"{statistics.median(times) * 1000:8.1f} ms"


if __name__ == "__main__":
    for count in [int(each) for each in sys.argv[1:]] or [200, 2_000]:
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as scratch:
            root, workdir = Path(scratch) / "root", Path(scratch) / "project"
            workdir.mkdir()
            name = build(root, workdir, count)
            measure(root, name, count)
            memory(root, name)
