"""Prints what lists of sessions cost, as ratios to floors taken in the same run.

    python tests/benchmarks/lists.py [--sessions 1000] [--mb 600] [--many 100000] [--sdk PYTHON]

A ratio is the best of several runs over the best of as many runs of the floor, interleaved; the page cache is warm.
``--sdk`` names a Python that has the package ``claude_agent_sdk``: its list of as many files with the same
conversations, in its own format, is timed between two of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from sessions import SessionStore
from sessions.overview import Overview

RUNS = 9
PROJECTS = 20
WORDS = [
    "the",
    "parser",
    "reads",
    "a",
    "line",
    "of",
    "the",
    "file",
    "and",
    "returns",
    "what",
    "it",
    "holds",
    "when",
    "there",
    "is",
    "nothing",
    "left",
    "to",
    "read",
    "we",
    "stop",
    "and",
    "say",
    "so",
    "please",
    "look",
    "at",
    "this",
    "function",
    "because",
    "it",
    "fails",
    "for",
    "an",
    "empty",
    "list",
    "def",
    "main",
    "self",
    "return",
    "value",
    "import",
    "path",
    "error",
    "test",
    "I",
    "changed",
    "three",
    "places",
    "and",
    "ran",
    "all",
    "tests",
    "they",
    "pass",
    "now",
    "the",
    "next",
    "step",
    "is",
    "to",
    "write",
    "down",
    "how",
    "it",
    "works",
    "in",
    "the",
    "manual",
]
STAMP = "2026-03-01T10:00:00.000Z"
SDK = """
import sys, time
from claude_agent_sdk import list_sessions
best = 9e9
for _ in range(int(sys.argv[1])):
    start = time.perf_counter(); rows = list_sessions(); best = min(best, time.perf_counter() - start)
print(best, len(rows))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--mb", type=int, default=600)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--sdk")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sessions-bench-") as directory:
        lists(Path(directory), given.sessions, given.mb * 1_000_000 // given.sessions, given.sdk)
    with tempfile.TemporaryDirectory(prefix="sessions-bench-") as directory:
        many(Path(directory), given.many)


def lists(directory: Path, number: int, size: int, sdk: str | None) -> None:
    for named in (True, False):
        root = directory / ("titled" if named else "untitled")
        paths = write_store(root, number, size, named=named)
        store, said = SessionStore(root), f"{number} sessions of {size // 1000} kB, {root.name}"

        def without(root: Path = root) -> object:
            return Overview(root).rows("", "all")

        def first(root: Path = root) -> object:
            shutil.rmtree(root / "cache", ignore_errors=True)
            return SessionStore(root).list(scope="all")

        def cached(store: SessionStore = store) -> object:
            return store.list(scope="all")

        def from_disk(root: Path = root) -> object:
            return SessionStore(root).list(scope="all")

        assert len(cached()) == number
        ends = interleaved(lambda paths=paths: read_ends(paths), without, first)
        show(said, "without the cache", "stat + two reads", ends[1], ends[0], 3)
        show(said, "making the cache", "stat + two reads", ends[2], ends[0], None)
        looks = interleaved(lambda root=root: look(root / "projects"), cached, from_disk)
        show(said, "with the cache", "scandir + stat", looks[1], looks[0], 1.5)
        show(said, "with the cache, of a new store", "scandir + stat", looks[2], looks[0], None)
        if named and sdk is not None:
            theirs = write_theirs(directory / "theirs", number, size)
            environment = dict(os.environ, CLAUDE_CONFIG_DIR=str(theirs))
            done = subprocess.run(
                [sdk, "-c", SDK, str(RUNS)], env=environment, capture_output=True, check=True, text=True
            )
            seconds, rows = done.stdout.split()
            assert int(rows) == number, rows
            again = interleaved(without)
            show(said, "claude_agent_sdk", "ours, without the cache", float(seconds), min(ends[1], again[0]), None)
    fresh(directory / "titled")


def fresh(root: Path) -> None:
    """Time whole commands."""
    floor = [sys.executable, "-c", "import click, orjson"]
    sessions = str(Path(sys.executable).with_name("sessions"))
    for words in (["list"], ["list", "--all", "--limit", "20"], ["list", "--all"]):
        ours = [sessions, "--root", str(root), *words]
        best = interleaved(lambda: command(floor), lambda ours=ours: command(ours))
        limit = 1.5 if words == ["list"] else None
        show("a fresh process", f"sessions {' '.join(words)}", "import click, orjson", best[1], best[0], limit)


def many(directory: Path, number: int) -> None:
    projects = write_store(directory, 20, 1000, named=True)
    for at in range(number):
        shutil.copyfile(projects[at % 20], projects[at % 20].with_name(f"{uuid.UUID(int=at)}.jsonl"))
    code = (
        "import resource, sys, time\nfrom sessions import SessionStore\nstore = SessionStore(sys.argv[1])\n"
        "start = time.perf_counter(); rows = store.list(scope='all'); end = time.perf_counter()\n"
        "print(len(rows), end - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    for name in ("first", "second"):
        done = subprocess.run([sys.executable, "-c", code, directory], capture_output=True, check=True, text=True)
        rows, seconds, megabytes = done.stdout.split()
        print(f"{rows} files, {name} list: {float(seconds):.2f} s, at most {megabytes} MiB in memory")
    print(f"scandir + stat of them: {min(timed(lambda: look(directory / 'projects')) for _ in range(3)):.2f} s")


# -- floors ------------------------------------------------------------------------------------------------------------


def read_ends(paths: list[Path]) -> None:
    for path in paths:
        status = os.stat(path)
        descriptor = os.open(path, os.O_RDONLY)
        os.pread(descriptor, 65536, 0)
        os.pread(descriptor, 65536, max(0, status.st_size - 65536))
        os.close(descriptor)


def look(projects: Path) -> None:
    for directory in os.scandir(projects):
        for entry in os.scandir(directory.path):
            entry.stat()


def command(words: list[str]) -> None:
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(words, env=compiled, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


# -- measuring ---------------------------------------------------------------------------------------------------------


def interleaved(*works: Callable[[], object]) -> list[float]:
    """Return the best time of each, in seconds."""
    best = [float("inf")] * len(works)
    for _ in range(RUNS):
        for place, work in enumerate(works):
            best[place] = min(best[place], timed(work))
    return best


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def show(said: str, name: str, floor_name: str, seconds: float, floor: float, limit: float | None) -> None:
    wanted = f" (at most {limit})" if limit is not None else ""
    print(f"{said}: {name} {seconds * 1e3:.1f} ms = {seconds / floor:.2f} x {floor_name} {floor * 1e3:.1f} ms{wanted}")


# -- samples -----------------------------------------------------------------------------------------------------------


def conversation(size: int) -> Iterator[tuple[str, str]]:
    """Yield questions and answers of about so many bytes together."""
    choice = random.Random(1)
    while size > 0:
        question, answer = (" ".join(choice.choices(WORDS, k=number)) for number in (20, 600))
        size -= len(question) + len(answer) + 600
        yield question, answer


def write_store(root: Path, number: int, size: int, *, named: bool) -> list[Path]:
    body = b"".join(line for question, answer in conversation(size) for line in ours(question, answer))
    paths = []
    for at in range(number):
        name, directory = str(uuid.uuid4()), root / "projects" / f"home-user-p{at % PROJECTS}"
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{name}.jsonl"
        header = {
            "type": "metadata",
            "workdir": f"/home/user/p{at % PROJECTS}",
            "createdAt": STAMP,
            "gitBranch": "main",
        }
        title = dump({"type": "custom-title", "customTitle": f"Number {at}", "sessionId": name}) if named else b""
        path.write_bytes(dump(header) + body + title)
        age(path, at)
        if not named:
            note_untitled(path)
        paths.append(path)
    return paths


def note_untitled(path: Path) -> None:
    """Leave behind what a session that had no title leaves when it is closed."""
    from sessions.transcript import untitled

    sidecar = path.with_suffix(".ckpt")
    sidecar.mkdir()
    untitled.note(sidecar, path.stat())


def age(path: Path, at: int) -> None:
    written = 1_700_000_000 + at * 7919 % 100_003  # in no order
    os.utime(path, (written, written))


def ours(question: str, answer: str) -> Iterator[bytes]:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    yield dump(
        {
            "timestamp": STAMP,
            "id": f"msg-{uuid.uuid4()}",
            "role": "user",
            "blocks": [{"type": "text", "content": question}],
        }
    )
    tool = {"type": "tool", "id": "t", "name": "read", "parameters": "{}", "result": answer, "stage": "end"}
    blocks = [{"type": "text", "content": "I look at it."}, tool]
    yield dump({"timestamp": STAMP, "id": f"msg-{uuid.uuid4()}", "role": "assistant", "blocks": blocks, "usage": usage})


def write_theirs(root: Path, number: int, size: int) -> Path:
    for at in range(number):
        name, directory = str(uuid.uuid4()), root / "projects" / f"-home-user-p{at % PROJECTS}"
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / f"{name}.jsonl").open("wb") as file:
            for question, answer in conversation(size):
                common = {
                    "sessionId": name,
                    "cwd": f"/home/user/p{at % PROJECTS}",
                    "gitBranch": "main",
                    "timestamp": STAMP,
                }
                file.write(
                    dump(common | {"type": "user", "uuid": name, "message": {"role": "user", "content": question}})
                )
                content = [{"type": "text", "text": "I look at it."}, {"type": "tool_use", "id": "t", "input": answer}]
                said = {"role": "assistant", "content": content, "usage": {"input_tokens": 1000, "output_tokens": 100}}
                file.write(dump(common | {"type": "assistant", "uuid": name, "message": said}))
            file.write(dump({"type": "custom-title", "customTitle": f"Number {at}", "sessionId": name}))
    return root


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


if __name__ == "__main__":
    main()
