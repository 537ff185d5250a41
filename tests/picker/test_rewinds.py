"""How the rewinds one can take back are named."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from sessions.picker import rewinds
from sessions.picker.text import plain
from sessions.rewind.plan import RewindRecord


def record(now: datetime, **more: Any) -> RewindRecord:
    values: dict[str, Any] = {"id": "rw-1", "to": "msg-1", "scope": "both", "timestamp": now, "state": "done"}
    return RewindRecord(**(values | more))


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (timedelta(seconds=1), "the rewind of conversation and files to before 'fix it', just now"),
        (timedelta(minutes=5), "the rewind of conversation and files to before 'fix it', 5m ago"),
        (timedelta(days=300), "the rewind of conversation and files to before 'fix it', 2025-05-05"),
        (None, "the rewind of conversation and files to before 'fix it'"),
    ],
)
def test_how_long_ago_it_was_is_said_where_it_is_known(now: datetime, age: timedelta | None, said: str) -> None:
    assert rewinds.named(record(now, prompt="fix it", timestamp=now - age if age else None), now) == said


def test_texts_from_outside_are_made_safe_and_a_long_prompt_is_cut(now: datetime) -> None:
    said = rewinds.named(record(now, prompt="\x1b[31m " + "long " * 50, mark="\x1b\n", to="\x1b"), now)
    assert said.isprintable()
    assert "…" in said
    assert rewinds.named(record(now, run="\x1b[31m"), now).isprintable()
    assert rewinds.named(record(now, to="\x1b[31m"), now).isprintable()
    assert all(plain(line).isprintable() for line in rewinds.stack_lines([record(now, id="\x1b", to="\n")], now))


def test_columns_of_the_stack_stand(now: datetime) -> None:
    stack = [record(now, id="rw-long", prompt="fix it"), record(now, state="undone", scope="code")]
    assert [plain(line) for line in rewinds.stack_lines(stack, now)] == [
        "rw-long  now         done    conversation and files to before 'fix it'",
        "rw-1     now         undone  files to before msg-1",
    ]
