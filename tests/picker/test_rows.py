"""The lines the picker draws: they fit, they stand in columns, and a click finds the row that is under it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.picker import rows, text
from sessions.picker.state import (
    Click,
    Key,
    PickerState,
    measured,
    opened,
    opening,
    planned,
    press,
    resize,
    shown,
    wanted,
)
from sessions.rewind.plan import Checkpoint, Conflict, FileVerdict, Gap, Mark, Plan, StoppedTask, TouchedFile

Make = Callable[..., Checkpoint]
MakePlan = Callable[..., Plan]


def start(checkpoints: list[Checkpoint], title: str = "") -> PickerState:
    return shown(opened(opening(title=title), checkpoints))


def drawn(state: PickerState, now: datetime) -> list[str]:
    return [text.plain(line) for line in rows.screen(state, now, rows.plan_lines(state))]


def looked(state: PickerState, make_plan: MakePlan, **more: object) -> PickerState:
    while (wish := wanted(state)) is not None:
        state = planned(state, wish[1], make_plan(wish[0], wish[1], **more))
    return shown(measured(state, len(rows.plan_lines(state))))


def test_a_wide_screen(checkpoint: Make, now: datetime) -> None:
    checkpoints = [
        checkpoint(1, "first\nprompt", timestamp=now - timedelta(days=3), compacted=True, before_compaction=True),
        checkpoint(2, "日本語のプロンプト", gaps=(Gap("shell", (), "msg-2"),), insertions=120, deletions=0),
        checkpoint(3, "touched nothing", files=(), insertions=0, deletions=0),
        checkpoint(4, "binary", files=(TouchedFile("a.png", "created"), TouchedFile("b", "deleted")), insertions=None),
        checkpoint(5, "no time", timestamp=None),
    ]
    state = resize(start(checkpoints, title="My \x1b session"), 80, 12)
    assert [line.rstrip() for line in drawn(state, now)] == [
        r"Rewind · My \x1b session                                               5 prompts",
        "Type to filter",
        "",
        "  1 ⊟  3d ago      first prompt                                1 file      +3 -1",
        "  2  ! 5m ago      日本語のプロンプト                          1 file       +120",
        "  3    5m ago      touched nothing",
        "  4    5m ago      binary                                     2 files         -1",
        "❯ 5                no time                                     1 file      +3 -1",
        "",
        "",
        "  modified src/a.py",
        "↑↓ PgUp PgDn Home End choose · Enter look · type to filter · Esc leave",
    ]


def test_the_details_name_the_run_and_the_marks_of_the_chosen_prompt(checkpoint: Make, now: datetime) -> None:
    marks = tuple(Mark("msg-1", name) for name in ("tests green", "twice", "twice", "\x1b"))
    state = resize(start([checkpoint(1, marks=marks, run_id="nightly", timestamp=None)]), 120, 12)
    assert drawn(state, now)[-2].strip() == (
        r"▸ run nightly · • tests green · • twice#1 · • twice#2 · • \x1b · modified src/a.py"
    )


def test_a_narrow_screen(checkpoint: Make, now: datetime) -> None:
    checkpoints = [checkpoint(n, f"a prompt that is rather long, number {n}") for n in range(98, 101)]
    state = press(resize(start(checkpoints), 40, 8), "NUMBER")
    assert drawn(state, now)[:4] == [
        "Filter NUMBER▏  3 prompts",
        "   98    5m    a prompt that is …  +3 -1",
        "   99    5m    a prompt that is …  +3 -1",
        "❯ 100    5m    a prompt that is …  +3 -1",
    ]


def test_a_filter_without_a_match_says_so(checkpoint: Make, now: datetime) -> None:
    shown = drawn(press(start([checkpoint(1)]), "zzz"), now)
    assert shown[0].endswith("0 of 1")
    assert shown[3] == "  No prompt holds that."


def test_the_confirm_screen_says_what_happens_to_every_file_and_why(
    checkpoint: Make, plan: MakePlan, now: datetime
) -> None:
    files = (
        FileVerdict("a.txt", "restore", insertions=2, deletions=1, by="agent"),
        FileVerdict(
            "b.txt", "recreate", insertions=4, by="agent, subagent-0a1b2c3d-0000-4000-8000-0123456789ab, task-7"
        ),
        FileVerdict("c.txt", "delete"),
        FileVerdict("d.txt", "unchanged"),
        FileVerdict("e.txt", "skip", "lost"),
        FileVerdict("f.txt", "restore", "conflict"),
        FileVerdict("g\x1b[2J.txt", "skip", "outside"),
    )
    state = looked(
        press(start([checkpoint(7, "go")]), Key.ENTER),
        plan,
        files=files,
        conflicts=(Conflict("f.txt", "changed since"),),
        gaps=(Gap("shell", ("build",), "msg-7"),),
        tasks=(StoppedTask("task-1a2b3c4d", "dev \x07server"), StoppedTask("task-5e6f7a8b", "日本")),
    )
    state = measured(resize(state, 100, 30), len(rows.plan_lines(resize(state, 100, 30))))
    assert [line.rstrip() for line in drawn(state, now)] == [
        "Rewind to before prompt 7: go",
        "7 files: 1 conflict, 2 cannot be restored · 2 tasks to be stopped",
        "",
        "❯ code and conversation",
        "  conversation",
        "  code",
        "  cancel",
        "",
        "conversation loses 4 messages; the prompt returns to the input box",
        "background tasks",
        r"  stop         dev \x07server  task-1a2b3c4d",
        "  stop         日本            task-5e6f7a8b",
        "files the agent touched",
        "  restore      f.txt                changed since the agent's edit; undo brings that back",
        "  leave alone  e.txt                cannot be restored: what it was is no longer stored",
        r"  leave alone  g\x1b[2J.txt         cannot be restored: it lies outside the directories of this",
        "                                    session",
        "  restore      a.txt         +2 -1",
        "  recreate     b.txt         +4     is missing now; edited by the agent, subagent-0a1b2c3d and",
        "                                    task-7",
        "  delete       c.txt                did not exist then",
        "  unchanged    d.txt                is as it was then",
        "not captured, so it stays as it is",
        "  shell commands: build",
        *[""] * 4,
        "↑↓ choose · Enter do it · PgUp PgDn scroll the plan · Esc back",
    ]


@pytest.mark.parametrize("height", [7, 12, 24])
def test_how_many_tasks_stop_is_on_the_smallest_screen(
    checkpoint: Make, plan: MakePlan, now: datetime, height: int
) -> None:
    tasks = (StoppedTask("task-1a2b3c4d", "dev server"),)
    files = tuple(FileVerdict(f"f{n}", "restore") for n in range(40))
    state = looked(press(resize(start([checkpoint(1)]), 60, height), Key.ENTER), plan, tasks=tasks, files=files)
    assert "40 files · 1 task to be stopped" in drawn(state, now)
    refused = looked(press(start([checkpoint(1)]), Key.ENTER), plan, tasks=tasks, on_running="refuse", refused="no")
    assert "refused · 1 file · 1 task running" in drawn(refused, now)


def test_a_plan_that_does_nothing_says_so(checkpoint: Make, plan: MakePlan, now: datetime) -> None:
    state = looked(press(start([checkpoint(1)]), Key.ENTER), plan, files=(), removed_messages=0)
    lines = drawn(state, now)
    assert lines[1] == "Going back here would change nothing."
    assert lines[3:5] == ["❯ cancel", "  (no file to restore, no message to remove)"]


def test_the_choices_stand_where_they_stood_whatever_is_selected(
    checkpoint: Make, plan: MakePlan, now: datetime
) -> None:
    state = press(start([checkpoint(1)]), Key.ENTER)
    places = []
    for _ in range(4):
        state = looked(state, lambda to, scope, **_: plan(to, scope, gaps=(Gap(scope, (), "m"),) * len(scope)))
        places.append([line[2:] for line in drawn(state, now)].index("cancel"))
        state = press(state, Key.DOWN)
    assert len(set(places)) == 1


def test_a_long_plan_says_how_much_is_above_and_below(checkpoint: Make, plan: MakePlan, now: datetime) -> None:
    files = tuple(FileVerdict(f"f{n:02}", "restore") for n in range(40))
    state = looked(press(start([checkpoint(1)]), Key.ENTER), plan, files=files)
    page = state.plan_page
    assert f"  ↓ {42 - page} more lines below" in drawn(state, now)
    state = press(state, Key.PAGE_DOWN)
    assert f"  ↑ {page} more lines above · ↓ {42 - 2 * page} more lines below" in drawn(state, now)
    assert f"  ↑ {42 - page} more lines above" in drawn(press(state, Key.END), now)
    assert "  ↑ 1 more line above" not in drawn(press(state, Key.HOME), now)


@pytest.mark.parametrize("height", range(1, 30))
def test_the_chosen_choice_is_visible_in_every_height(
    checkpoint: Make, plan: MakePlan, now: datetime, height: int
) -> None:
    state = press(resize(start([checkpoint(1)]), 20, height), Key.ENTER)
    for choice in ("code and convers…", "conversation", "code", "cancel"):
        state = looked(state, plan)
        assert sum(line.startswith("❯ " + choice[:14]) for line in drawn(state, now)) == 1
        state = press(state, Key.DOWN)


def test_a_compaction_that_goes_with_the_conversation_is_named(checkpoint: Make, plan: MakePlan, now: datetime) -> None:
    state = start([checkpoint(1), checkpoint(2, compacted=True), checkpoint(3)])
    said = "a compaction goes with it: the model sees the messages in front of it again"
    assert said not in drawn(looked(press(state, Key.ENTER), plan), now)
    assert said in drawn(looked(press(press(state, Key.UP), Key.ENTER), plan), now)


@pytest.mark.parametrize("height", [6, 12, 24, 40])
def test_a_click_finds_what_is_drawn_there(checkpoint: Make, plan: MakePlan, now: datetime, height: int) -> None:
    state = resize(start([checkpoint(n) for n in range(1, 31)]), 80, height)
    for y, line in enumerate(drawn(state, now)):
        clicked = rows.hit(state, y)
        number = line.removeprefix("❯").split()[:1]
        if clicked is None:
            assert not (number and number[0].isdigit() and "prompt number" in line)
        else:
            entered = press(state, clicked)
            assert entered.confirm is not None
            assert number == [str(entered.confirm.checkpoint.index)]
    state = looked(press(state, Key.ENTER), plan)
    words = ["code and conversation", "conversation", "code", "cancel"]
    found = [(line[2:], rows.hit(state, y)) for y, line in enumerate(drawn(state, now)) if line[2:] in words]
    assert found == [(word, Click(row)) for row, word in enumerate(words[: state.choice_page])]


@settings(deadline=None)
@given(
    prompts=st.lists(st.text(st.characters(), max_size=60), max_size=12),
    paths=st.lists(st.text(st.characters(), min_size=1, max_size=40), max_size=6),
    size=st.tuples(st.integers(1, 120), st.integers(1, 40)),
    typed=st.text(max_size=5),
    keys=st.lists(st.sampled_from(list(Key)), max_size=5),
)
def test_every_line_fits_and_holds_nothing_hostile(
    prompts: list[str], paths: list[str], size: tuple[int, int], typed: str, keys: list[Key]
) -> None:
    now = datetime.fromisoformat("2026-03-01T12:00:00+00:00")
    files = tuple(TouchedFile(path, "modified") for path in paths)
    checkpoints = [Checkpoint(f"m{n}", n, prompt, now, files, n, None) for n, prompt in enumerate(prompts, 1)]

    def make_plan(to: Checkpoint, scope: str, **_: object) -> Plan:
        verdicts = tuple(FileVerdict(path, "skip", "lost", note=path) for path in paths)
        conflicts = tuple(Conflict(path, path, path) for path in paths)
        gaps = (Gap("what" + "".join(paths), tuple(paths), "m"),)
        tasks = tuple(StoppedTask(path, path, path) for path in paths)
        return Plan("s", to.id, 1, scope, "rewrite", "overwrite", "cancel", "", 1, verdicts, conflicts, gaps, tasks)  # type: ignore[arg-type]

    state = resize(press(start(checkpoints, title="".join(paths)), typed), *size)
    for key in [*keys, Key.ENTER]:
        state = looked(press(state, key), make_plan)
        lines = drawn(state, now)
        assert len(lines) <= size[1]
        for line in lines:
            assert text.width(line) <= size[0]
            assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in line)
            line.encode()
        for y in range(-1, size[1] + 1):
            rows.hit(state, y)
