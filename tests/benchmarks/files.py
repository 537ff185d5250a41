"""How fast files are kept and restored: ratios to a floor taken in the same run. ``python tests/benchmarks/files.py``.

Floors: of an edit, copying the file and syncing the copy; of a restore, writing the same files, each synced and renamed
into place; of a plan, asking the system once about each file. Every figure is a median, floor and subject in turn.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sessions import SessionStore

MB = 1_000_000


@contextlib.contextmanager
def scratch() -> Iterator[tuple[SessionStore, Path]]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as directory:
        project = Path(directory) / "project"
        project.mkdir()
        yield SessionStore(Path(directory) / "root"), project


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def copy_and_sync(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb+") as copy:
        os.fsync(copy.fileno())


def edits(paths: list[str], what: str, size: int = MB) -> None:
    """Edit files in one turn: what ``turn.edit`` costs around a body that is not counted."""
    with scratch() as (store, project), store.create(project) as session:
        for path in set(paths):
            (project / path).write_bytes(os.urandom(size))
        floors, taken = [], []
        with session.begin_turn("edit") as turn:
            for number, path in enumerate(paths):
                content = os.urandom(size)
                floors.append(
                    timed(lambda path=path, number=number: copy_and_sync(project / path, project / f"floor{number}"))
                )
                start = time.perf_counter()
                edit = turn.edit(path)
                begun = time.perf_counter() - start
                with edit:
                    (project / path).write_bytes(content)
                    start = time.perf_counter()
                taken.append(begun + time.perf_counter() - start)
    print(f"an edit of a {size // 1000} KB file, {what}; floor: copy + fsync, {show(floors)}")
    print(f"  begin and end       {show(taken)}  ratio {ratio(taken, floors):.2f}")


def write_all(project: Path, contents: dict[str, bytes]) -> None:
    for path, content in contents.items():
        temporary = project / f"{path}.floor"
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(project / path)


def restore(count: int = 1000, size: int = 10_000, runs: int = 5) -> None:
    """Rewind and undo an edit of many files."""
    with scratch() as (store, project), store.create(project) as session:
        contents = {f"file{number}": os.urandom(size) for number in range(count)}
        (project / "floor").mkdir()
        for path, content in contents.items():
            (project / path).write_bytes(content)
        with session.begin_turn("edit") as turn, turn.edit(*contents):
            for path in contents:
                (project / path).write_bytes(os.urandom(size))
        floors, rewinds, undos = [], [], []
        for _ in range(runs):
            os.sync()
            floors.append(timed(lambda: write_all(project / "floor", contents)))
            os.sync()
            plan = session.plan_rewind(1)
            rewinds.append(timed(lambda plan=plan: session.rewind(plan)))
            os.sync()
            undos.append(timed(session.undo_rewind))
    print(f"restoring {count} files of {size // 1000} KB; floor: write + fsync + rename, {show(floors)}")
    print(f"  rewind              {show(rewinds)}  ratio {ratio(rewinds, floors):.2f}")
    print(f"  undo                {show(undos)}  ratio {ratio(undos, floors):.2f}")


def plan(count: int = 10_000, size: int = 10_000, runs: int = 5) -> None:
    """Plan for many files whose identity says that they are what the agent left."""
    with scratch() as (store, project), store.create(project) as session:
        paths = [f"{number // 100}/file{number}" for number in range(count)]
        for path in paths:
            (project / path).parent.mkdir(exist_ok=True)
            (project / path).write_bytes(os.urandom(size))
        with session.begin_turn("edit") as turn:
            with turn.edit(*paths):
                for path in paths:
                    (project / path).write_bytes(os.urandom(size))
            time.sleep(1.2)  # an identity speaks for a file once it has settled
        session.plan_rewind(1)  # the snapshots are verified once
        floors, taken = [], []
        for _ in range(runs):
            floors.append(timed(lambda: [os.lstat(project / path) for path in paths]))
            taken.append(timed(lambda: session.plan_rewind(1)))
    print(f"planning for {count} files; floor: asking once about each, {show(floors)}")
    print(f"  plan                {show(taken)}  ratio {ratio(taken, floors):.2f}")


def show(times: list[float]) -> str:
    return f"{statistics.median(times) * 1000:8.1f} ms"


def ratio(times: list[float], floors: list[float]) -> float:
    return statistics.median(times) / statistics.median(floors)


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["edits", "restore", "plan"]
    if "edits" in chosen:
        edits([f"file{number}" for number in range(20)], "20 of them, each once")
        edits(["file"] * 20, "the same 20 times")
    if "restore" in chosen:
        restore()
    if "plan" in chosen:
        plan()
