"""Sessions with limits, and what is kept of them."""

import os

from agent import make

KIB = 1024


def limit(root, **numbers):
    root.mkdir(exist_ok=True)
    lines = [f"{name} = {number}" for name, number in numbers.items()]
    (root / "settings.toml").write_text("\n".join(["[checkpoints]", *lines]))


def turns_kept(agent):
    """The numbers of the turns whose snapshots are there; directories and markers agree."""
    numbers = sorted(int(name) for name in names_in(agent.sidecar / "turns"))
    assert sorted(agent.sidecar.glob("turn-*.json")) == sorted(agent.sidecar / f"turn-{n}.json" for n in numbers)
    return numbers


def records_kept(agent):
    return names_in(agent.sidecar / "undo")


def names_in(directory):
    return sorted(os.listdir(directory)) if directory.exists() else []


def on_disk(directory):
    """What the files below a directory take, those of one inode counted once."""
    found = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            status = os.lstat(os.path.join(parent, name))
            found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def kept_bytes(agent):
    return on_disk(agent.sidecar / "turns") + on_disk(agent.sidecar / "undo")


def content(number, size=64 * KIB):
    return (f"content {number}\n".encode() * size)[:size]


def rewound(agent, times):
    """Rewind the code that often, each time past a different content."""
    agent.turn("start", {"f": "start"})
    agent.turn("work", {"f": "work"})
    for number in range(times):
        make(agent.project / "f", f"by hand {number}")
        agent.session.rewind(2, scope="code")
