"""What the picker's tests are made of: checkpoints and plans as the facade makes them, and a fake session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessions.rewind.plan import Checkpoint, FileVerdict, Plan, Scope, TouchedFile

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def checkpoint() -> Callable[..., Checkpoint]:
    def make(index: int, prompt: str = "", **more: object) -> Checkpoint:
        values: dict[str, object] = {
            "timestamp": NOW - timedelta(minutes=5),
            "files": (TouchedFile("src/a.py", "modified"),),
            "insertions": 3,
            "deletions": 1,
        }
        return Checkpoint(f"msg-{index}", index, prompt or f"prompt number {index}", **(values | more))  # type: ignore[arg-type]

    return make


@dataclass(frozen=True)
class Row:
    """What a picker asks of a row of a list."""

    id: str
    title: str | None
    last_active_at: datetime
    path: Path
    workdir: str | None = "/home/user/shop"
    git_branch: str | None = None
    total_tokens: int | None = None
    first_prompt: str | None = None
    forked_from: str | None = None
    damaged: bool = False
    given_title: str | None = None


@pytest.fixture(scope="session")
def session_row() -> Callable[..., Row]:
    def make(number: int, title: str | None = "", **more: object) -> Row:
        name = f"{number:08d}-session"
        title = f"session number {number}" if title == "" else title
        return Row(name, title, NOW - timedelta(minutes=5 * number), Path(f"/s/{name}.jsonl"), **more)  # type: ignore[arg-type]

    return make


@pytest.fixture
def plan() -> Callable[..., Plan]:
    def make(to: Checkpoint, scope: Scope = "both", **more: object) -> Plan:
        values: dict[str, object] = {
            "removed_messages": 0 if scope == "code" else 4,
            "files": ()
            if scope == "conversation"
            else (FileVerdict("src/a.py", "restore", insertions=1, deletions=3),),
            "conflicts": (),
            "gaps": (),
            "tasks": (),
            "on_running": "cancel",
        }
        return Plan(
            session_id="session-1",
            to=to.id,
            index=to.index,
            scope=scope,
            history="rewrite",
            on_conflict="overwrite",
            prompt=to.prompt,
            **(values | more),  # type: ignore[arg-type]
        )

    return make
