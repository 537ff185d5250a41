"""Prints what reading a large transcript costs, as ratios to floors taken in the same run.

    python tests/benchmarks/transcript.py [--mb 100] [--big-mb 250]

A ratio is the best of several runs over the best of as many runs of the floor, interleaved; the page cache is warm.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

sys.path.insert(0, str(Path(__file__).parents[2]))

from sessions.transcript import codec, reader

RUNS = 7
STAMP = "2026-03-01T10:00:00.000Z"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--big-mb", type=int, default=250)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sessions-bench-") as directory:
        path = Path(directory) / "s.jsonl"
        compact_at = write_session(path, given.mb << 20)
        outline = reader.scan(path)
        print(f"{given.mb} MiB, {len(outline.prompts)} prompts, compaction at {compact_at / path.stat().st_size:.0%}")
        compare("model view", lambda: reader.read_view(path), "read + parse", lambda: parse_from(path, compact_at), 1.5)
        compare("deep scan", lambda: reader.scan(path), "read + split", lambda: split(path), 1.5)
        compare("light scan", lambda: reader.scan(path, deep=False), "copy + fsync", lambda: copy(path), None)
        compare("list row", lambda: reader.summary(path), "read 128 KiB", lambda: path.open("rb").read(1 << 17), None)
        path.unlink()
        write_session(path, given.big_mb << 20)
        for deep in (False, True):
            print(
                f"{'deep' if deep else 'light'} scan of {given.big_mb} MiB: peak memory grows by {growth_mb(path, deep=deep):.1f} MiB"
            )


def compare(
    name: str, work: Callable[[], object], floor_name: str, floor: Callable[[], object], limit: float | None
) -> None:
    ours, least = [], []
    for _ in range(RUNS):
        least.append(seconds(floor))
        ours.append(seconds(work))
    ratio = min(ours) / min(least)
    wanted = "" if limit is None else f"  (at most {limit}: {'yes' if ratio <= limit else 'NO'})"
    print(
        f"{name:12} {min(ours) * 1000:8.1f} ms   {floor_name:14} {min(least) * 1000:8.1f} ms   ratio {ratio:.2f}{wanted}"
    )


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def parse_from(path: Path, start: int) -> list[object]:
    with path.open("rb") as file:
        file.seek(start)
        return [orjson.loads(line) for line in file.read().split(b"\n") if line]


def split(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")


def copy(path: Path) -> None:
    target = path.with_suffix(".copy")
    with path.open("rb") as source, target.open("wb") as sink:
        os.copy_file_range(source.fileno(), sink.fileno(), path.stat().st_size)
        os.fsync(sink.fileno())
    target.unlink()


def growth_mb(path: Path, *, deep: bool) -> float:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from sessions.transcript import reader\n"
        "peak = lambda: int(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
        "before = peak(); reader.scan(Path(sys.argv[2]), deep=sys.argv[3] == 'deep'); print(peak() - before)"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, root, str(path), "deep" if deep else "light"],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout) / 1024


def write_session(path: Path, size: int) -> int:
    """Write a session of about ``size`` bytes, a compaction at a half; return where that starts."""
    chance = random.Random(7)
    written = compact_at = 0
    with path.open("wb") as file:
        written += file.write(
            codec.dumps({"type": "metadata", "workdir": "/home/user/shop", "createdAt": STAMP}) + b"\n"
        )
        for number in range(1, 10**9):
            if written > size:
                return compact_at
            if not compact_at and written > size // 2:
                compact_at = written
                block = {"type": "compact", "content": "What was done so far. " * 40}
                written += file.write(message("c1", "assistant", block))
            for record in turn(number, chance):
                written += file.write(record)
    return compact_at


def turn(number: int, chance: random.Random) -> Iterator[bytes]:
    yield message(f"u{number}", "user", {"type": "text", "content": words(chance, 30)})
    for step in range(chance.randint(1, 8)):
        call = {"type": "tool", "id": f"call_{number}_{step}", "name": "Read", "stage": "end", "success": True}
        call["parameters"] = json.dumps({"file_path": f"/home/user/shop/src/part{step}.py", "limit": 200})
        call["result"] = words(chance, chance.choice((20, 200, 2_000, 6_000)))
        yield message(f"a{number}-{step}", "assistant", {"type": "text", "content": words(chance, 60)}, call)


def message(message_id: str, role: str, *blocks: dict[str, object]) -> bytes:
    usage = (
        {} if role == "user" else {"usage": {"prompt_tokens": 9_000, "completion_tokens": 300, "total_tokens": 9_300}}
    )
    record = {"timestamp": STAMP, "id": message_id, "role": role, "blocks": list(blocks), **usage}
    return codec.dumps(record) + b"\n"


WORDS = [
    "def",
    "total(self):",
    '"compare"',
    "return",
    "sum(1234,",
    "x)",
    "#",
    "2026-03-01",
    "naïve",
    "用户\n",
    "import",
    "json;",
    "the",
    "order",
    "of",
    "lines",
]


def words(chance: random.Random, count: int) -> str:
    start = chance.randrange(len(WORDS))
    return " ".join(WORDS[(start + i * i) % len(WORDS)] for i in range(count))


if __name__ == "__main__":
    main()
