"""What a search costs, beside a bare loop that reads the same files: ``python tests/benchmarks/search.py [MB [FILES]]``.

All figures are processor time, files in the page cache, the best of three.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import time
import uuid
from pathlib import Path

from sessions import SessionStore, assistant_message, grepping, user_message
from sessions.searching import Searchable
from sessions.transcript.reader import prompt_texts

WORDS = [
    "add",
    "basket",
    "build",
    "class",
    "error",
    "file",
    "handler",
    "import",
    "list",
    "parser",
    "price",
    "return",
    "server",
    "session",
    "slow",
    "test",
    "value",
]
CHOICE = random.Random(7)  # the same files every time


def main() -> None:
    megabytes, count = (int(each) for each in (*sys.argv[1:], *("600", "1000")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        paths = made(root, count, megabytes * 1_000_000 // count)
        store = SessionStore(root)
        bare = timed("bare read loop", lambda: sum(map(read, paths)))
        store.list(scope="all")
        timed("list(search='basket')", lambda: len(store.list(scope="all", search="basket")), bare)
        timed("list(search='xyzzy')", lambda: len(store.list(scope="all", search="xyzzy")), bare)
        for wanted in ("Xyzzy", "xyzzy", "修复", "é"):
            pattern = grepping.pattern_of(wanted)
            timed(
                f"grep {wanted!r}",
                lambda pattern=pattern: sum(1 for p in paths for _ in grepping.hits_in(p, pattern)),
                bare,
            )
        for rows in (store.list(scope="all"), [row for _ in range(3000 // count) for row in store.list(scope="all")]):
            index = Searchable(rows)
            learnt = [(row, prompt_texts(row.path)) for row in rows]
            size = sum(len(text) for _, texts in learnt for text in texts)
            print(f"{len(index)} rows with {size / 1e6:.1f} million characters of prompts")
            timed("learning them", lambda index=index, learnt=learnt: [index.learn(*each) for each in learnt] and None)
            for word in ("basket slow", "baskte", "xyzzy"):
                type_out(index, word)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


def type_out(index: Searchable, word: str) -> None:
    """Say what the letters of a word cost that is typed for the first time."""
    index.learn(index.matching("")[0], ["so that it forgets what was typed before"])
    index.matching("none of these")  # collects the words of all rows
    took = []
    for end in range(1, len(word) + 1):
        before = time.process_time()
        index.matching(word[:end])
        took.append((time.process_time() - before) * 1000)
    print(f"typing {word!r:33} {sum(took) / len(took):8.1f} ms a letter, at most {max(took):.1f} ms")


def made(root: Path, count: int, size: int) -> list[Path]:
    project = root / "projects" / "home-user-shop"
    project.mkdir(parents=True)
    paths = []
    for _ in range(count):
        path = project / f"{uuid.UUID(int=CHOICE.getrandbits(128))}.jsonl"
        with path.open("wb") as file:
            while file.tell() < size:
                file.write(user_message(said(CHOICE.choice((25, 25, 25, 400)))).to_line() + b"\n")
                for _ in range(4):
                    tool = {"type": "tool", "id": "t", "name": "Read", "parameters": "{}", "stage": "end"}
                    answer = assistant_message(said(30), blocks=[{**tool, "result": f"{said(12)}\n" * 100}])
                    file.write(answer.to_line() + b"\n")
        paths.append(path)
    return paths


def said(words: int) -> str:
    return " ".join(CHOICE.choices(WORDS, k=words))


def read(path: Path) -> int:
    descriptor, size = os.open(path, os.O_RDONLY), 0
    while block := os.read(descriptor, 1 << 20):
        size += len(block)
    os.close(descriptor)
    return size


def timed(name, work, bare=None):
    best = float("inf")
    for _ in range(3):
        before = time.process_time()
        found = work()
        best = min(best, time.process_time() - before)
    ratio = f"  {best / bare:5.1f} x bare" if bare else ""
    print(f"{name:40} {best * 1000:8.1f} ms{ratio}  ({found})", flush=True)
    return best


if __name__ == "__main__":
    main()
