"""How plans and reports read: what went wrong first, everything said once, and in the right tense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sessions.picker import text, verdicts, words
from sessions.rewind.plan import Checkpoint, Conflict, FileVerdict, Gap, Plan, Report, StoppedTask

Make = Callable[..., Checkpoint]
MakePlan = Callable[..., Plan]


def report(*files: FileVerdict, **more: Any) -> Report:
    values: dict[str, Any] = {"conflicts": (), "gaps": (), "partial": any(file.action == "skip" for file in files)}
    return Report("r1", None, "s1", "", 4, files, **(values | more))


def said(lines: list[text.Line]) -> list[str]:
    return [text.plain(line).rstrip() for line in lines]


@pytest.fixture
def of(checkpoint: Make, plan: MakePlan) -> Callable[..., list[str]]:
    def plan_of(*files: FileVerdict, undo: bool = False, cells: int | None = None, **more: object) -> list[str]:
        return said(verdicts.plan_lines(plan(checkpoint(1), files=files, **more), undo=undo, cells=cells))

    return plan_of


CONFLICT = FileVerdict("m.txt", "restore", "conflict", "agent", note="changed since")


def test_of_a_file_nothing_is_done_to_only_the_reason_is_said(of: Callable[..., list[str]]) -> None:
    note = "the agent did not touch it since then"
    lines = of(FileVerdict("a.txt", "unchanged", note=note), FileVerdict("b.txt", "unchanged"))
    assert [line.split("  ")[-1] for line in lines if ".txt" in line] == [note, "is as it was then"]


def test_what_went_wrong_comes_first_and_is_counted(of: Callable[..., list[str]]) -> None:
    lines = of(
        FileVerdict("a.txt", "restore"),
        FileVerdict("b.txt", "unchanged"),
        FileVerdict("k.txt", "restore", "unverified"),
        FileVerdict("l.txt", "skip", "lost"),
        CONFLICT,
        conflicts=(Conflict("m.txt", "changed since", "agent"),),
    )
    assert lines[0] == "5 files: 1 conflict, 1 cannot be restored, 1 unverified"
    assert [line.split()[-1] for line in lines if ".txt" in line][3:] == ["a.txt", "then"]
    assert [word for line in lines for word in line.split() if word.endswith(".txt")] == [
        "m.txt", "l.txt", "k.txt", "a.txt", "b.txt",
    ]  # fmt: skip


def test_a_plan_without_trouble_is_not_counted(of: Callable[..., list[str]]) -> None:
    assert of(FileVerdict("a.txt", "restore"))[0].startswith("conversation loses")


def test_a_refused_plan_says_so_first(of: Callable[..., list[str]]) -> None:
    assert of(CONFLICT, refused="m.txt changed \x1b")[0] == r"refused: m.txt changed \x1b"


@pytest.mark.parametrize(
    ("file", "conflict", "why"),
    [
        (FileVerdict("f", "skip", "outside", note="it lies outside the directories of this session"), None,
         "cannot be restored: it lies outside the directories of this session"),
        (FileVerdict("f", "skip", "lost", note="its snapshot is gone"), None,
         "cannot be restored: its snapshot is gone"),
        (FileVerdict("f", "skip", "over_limit", note="it was 9 bytes, too large to be captured"), None,
         "cannot be restored: it was 9 bytes, too large to be captured"),
        (FileVerdict("f", "skip", "over_limit"), None, "cannot be restored: it was too big to be captured"),
        (FileVerdict("f", "restore", "unverified", note="nobody recorded what the agent left"), None,
         "nobody recorded what the agent left; undo brings back what is there now"),
        (FileVerdict("f", "restore", "conflict", "agent", note="changed since"), Conflict("f", "changed since", "agent"),
         "changed since the agent's edit; undo brings that back"),
        (FileVerdict("f", "restore", "conflict", "sub-7", note="deleted since"), Conflict("f", "deleted since", "sub-7"),
         "deleted since the edit by sub-7; undo brings that back"),
        (FileVerdict("f", "delete", "conflict", "rewind", note="changed since"), Conflict("f", "changed since", "rewind"),
         "changed since the rewind; undo brings that back"),
        (FileVerdict("f", "skip", "conflict", "agent", note="kept: changed since"), Conflict("f", "changed since", "agent"),
         "changed since the agent's edit; it is kept"),
        (FileVerdict("f", "skip", "conflict", "agent", note="a directory stands in its way and cannot be kept whole"),
         Conflict("f", "replaced by a directory since", "agent"),
         "replaced by a directory since the agent's edit; a directory stands in its way and cannot be kept whole"),
        (FileVerdict("f", "skip", None, note="not empty: it stays"), None, "not empty: it stays"),
    ],
)  # fmt: skip
def test_a_reason_is_said_once(
    of: Callable[..., list[str]], file: FileVerdict, conflict: Conflict | None, why: str
) -> None:
    lines = of(file, conflicts=(conflict,) if conflict else ())
    assert lines[-1].split("  f", 1)[1].strip() == why


def test_a_report_speaks_of_the_past() -> None:
    lines = said(verdicts.report_lines(report(FileVerdict("f", "restore", "unverified"))))
    assert lines[-1].endswith("nobody recorded what the agent left; undo brings back what was there")
    kept = FileVerdict("f", "skip", "conflict", note="kept: changed since")
    lines = said(verdicts.report_lines(report(kept, conflicts=(Conflict("f", "changed since"),))))
    assert lines[-1].endswith("changed since the agent's edit; kept")


@pytest.mark.parametrize(
    ("files", "more", "head"),
    [
        ([FileVerdict("f", "skip", "lost")], {}, "rewound: 4 messages removed; not everything could be put back"),
        ([FileVerdict("f", "skip", "conflict", note="kept: changed since")], {},
         "rewound: 4 messages removed; 1 file kept as asked"),
        ([FileVerdict("f", "skip", "conflict", note="kept: changed since"), FileVerdict("g", "skip", "lost")], {},
         "rewound: 4 messages removed; not everything could be put back"),
        ([FileVerdict("f", "skip", "conflict", note="edited while the rewind ran: left alone")], {},
         "rewound: 4 messages removed; not everything could be put back"),
        ([FileVerdict("f", "restore")], {"partial": True}, "rewound: 4 messages removed; not everything could be put back"),
        ([FileVerdict("f", "restore")], {}, "rewound: 4 messages removed"),
    ],
)  # fmt: skip
def test_what_the_user_chose_to_keep_did_not_fail(files: list[FileVerdict], more: dict[str, Any], head: str) -> None:
    assert said(verdicts.report_lines(report(*files, **more)))[0] == head


def test_an_undo_says_what_the_rewind_did(of: Callable[..., list[str]]) -> None:
    files = (FileVerdict("a", "delete"), FileVerdict("b", "recreate"), FileVerdict("c", "unchanged"))
    assert [line.split("  ")[-1] for line in of(*files, undo=True)[-3:]] == [
        "the rewind recreated it", "the rewind deleted it", "is so already",
    ]  # fmt: skip
    lines = said(verdicts.report_lines(report(*files), "undone"))
    assert [line.split("  ")[-1] for line in lines[-3:]] == [
        "the rewind had recreated it", "the rewind had deleted it", "was so already",
    ]  # fmt: skip
    assert said(verdicts.report_lines(report(*files), "redone"))[-3].endswith("did not exist then")


def test_an_undo_says_what_comes_back_and_what_it_costs(of: Callable[..., list[str]]) -> None:
    assert of(undo=True, removed_messages=0)[0] == "conversation gets back what the rewind removed"
    assert of(undo=True, removed_messages=1)[0] == (
        "conversation loses 1 message that came since, and gets back what the rewind removed"
    )


def test_gaps_are_said_once_and_single_files_bring_only_their_own(of: Callable[..., list[str]]) -> None:
    gaps = (Gap("shell", (), "m1"), Gap("shell", (), "m2"), Gap("git", (".git/x",), "m2"), Gap("shell", ("f",), "m2"))
    file = FileVerdict("f", "restore")
    assert of(file, gaps=gaps)[-3:] == ["  shell commands", "  edits inside .git: .git/x", "  shell commands: f"]
    assert of(file, gaps=gaps, paths=("./f",))[-2:] == ["not captured, so it stays as it is", "  shell commands: f"]


def test_a_long_name_has_a_line_of_its_own_and_a_long_reason_hangs_in_its_column(of: Callable[..., list[str]]) -> None:
    lines = of(
        FileVerdict("short.txt", "skip", "outside"),
        FileVerdict("a/" + "very/" * 12 + "long.txt", "restore", insertions=1),
        cells=72,
    )
    assert lines[3:5] == [
        "  leave alone  short.txt      cannot be restored: it lies outside the",
        "                              directories of this session",
    ]
    assert all(text.width(line) <= 72 for line in lines)
    assert lines[-1].strip() == "+1"
    assert lines[-1].index("+1") == lines[3].index("short.txt") + len("short.txt") + 2


CHILD = "subagent-0a1b2c3d-1111-4222-8333-0123456789ab"
TASKS = (StoppedTask("task-1a2b3c4d", "dev \x1b server"), StoppedTask("task-5e6f7a8b", "テスト"))


def test_tasks_come_before_the_files_and_stand_in_columns(of: Callable[..., list[str]]) -> None:
    assert of(FileVerdict("f", "restore"), tasks=TASKS)[1:5] == [
        "background tasks",
        r"  stop         dev \x1b server  task-1a2b3c4d",
        "  stop         テスト           task-5e6f7a8b",
        "files the agent touched",
    ]
    assert "  is running   テスト           task-5e6f7a8b" in of(tasks=TASKS, on_running="refuse", refused="they run")


@pytest.mark.parametrize(
    ("proof", "why"),
    [
        ("group, parentage and tag", ""),
        ("group and tag", "  looked for by group and tag only"),
        ("parentage", "  looked for by parentage only"),
    ],
)
def test_a_report_says_how_the_end_of_a_task_was_proven_where_not_everything_could_be_asked(
    proof: str, why: str
) -> None:
    lines = said(verdicts.report_lines(report(cancelled=(StoppedTask("task-1a2b3c4d", "server", proof),))))
    assert lines[1:3] == ["background tasks", f"  stopped      server  task-1a2b3c4d{why}"]


@pytest.mark.parametrize(
    ("by", "who"),
    [
        ("agent", ""),
        ("rewind", ""),
        ("task-1a2b3c4d", "edited by task-1a2b3c4d"),
        (CHILD, "edited by subagent-0a1b2c3d"),
        (f"agent, {CHILD}, task-1a2b3c4d", "edited by the agent, subagent-0a1b2c3d and task-1a2b3c4d"),
        ("agent, an\x1b other", r"edited by the agent and an\x1b other"),
    ],
)
def test_who_edited_a_file_is_said_in_few_words(of: Callable[..., list[str]], by: str, who: str) -> None:
    assert of(FileVerdict("f", "restore", by=by))[-1].split("  f")[1].strip() == who


def test_of_a_file_that_is_as_it_was_only_the_note_is_said(of: Callable[..., list[str]]) -> None:
    file = FileVerdict("f", "unchanged", by="task-1a2b3c4d", note="a task that will be stopped may edit it")
    assert of(file)[-1].split("  f")[1].strip() == "a task that will be stopped may edit it"


@pytest.mark.parametrize(
    ("found", "by", "why"),
    [
        ("changed since", f"agent, {CHILD}", "changed since the edits by the agent and subagent-0a1b2c3d"),
        ("changed since", CHILD, "changed since the edit by subagent-0a1b2c3d"),
        (f"edited since by {CHILD} (docs)", "agent", "edited since by subagent-0a1b2c3d (docs)"),
        (f"replaced by a link to {CHILD} since", "agent", f"replaced by a link to {CHILD} since the agent's edit"),
    ],
)
def test_a_conflict_names_subagents_shortly_and_paths_whole(
    of: Callable[..., list[str]], found: str, by: str, why: str
) -> None:
    lines = of(FileVerdict("f", "restore", "conflict", by, note=found), conflicts=(Conflict("f", found, by),))
    assert lines[-1].split("  f", 1)[1].strip() == f"{why}; undo brings that back"


def test_a_task_that_is_a_gap_is_named(of: Callable[..., list[str]]) -> None:
    gaps = (Gap("task", (), "m", "dev server (task-1a2b3c4d)"), Gap("background_task", (), "m", "bash_1"))
    assert of(FileVerdict("f", "restore"), gaps=gaps)[-3:] == [
        "not captured, so it stays as it is",
        "  what a background task changed: dev server (task-1a2b3c4d)",
        "  a background task nothing is known of, so it was not stopped: bash_1",
    ]


def test_many_tasks_that_are_gaps_have_one_line_that_names_three_and_counts_the_rest(
    of: Callable[..., list[str]],
) -> None:
    tasks = [Gap("task", (), "m", f"server {number} (task-0000000{number})") for number in range(5)]
    others = [Gap("background_task", (), "m", f"bash_{number}") for number in range(2)]
    named = "server 0 (task-00000000), server 1 (task-00000001), server 2 (task-00000002) and 2 more"
    assert of(gaps=(tasks[0], Gap("shell", (), "m"), *tasks, *others))[-4:] == [
        "not captured, so it stays as it is",
        f"  what background tasks changed: {named}",
        "  shell commands",
        "  background tasks nothing is known of, so they were not stopped: bash_0, bash_1",
    ]
    long = Gap("task", (), "m", f"{'word ' * 16}(task-1a2b3c4d)")
    assert of(gaps=(long,))[-1] == f"  what a background task changed: {'word ' * 7}word… (task-1a2b3c4d)"


def test_forty_tasks_of_which_nothing_was_captured_fit_a_small_terminal(of: Callable[..., list[str]]) -> None:
    names = [
        (f"task-000000{number:02}", f"python -m http.server --bind 127.0.0.1 80{number:02}") for number in range(43)
    ]
    gaps = tuple(Gap("task", (), "m", f"{label} ({name})") for name, label in names)
    lines = of(tasks=tuple(StoppedTask(*each) for each in names), gaps=gaps, cells=50)
    stopped = [line for line in lines if line.startswith("  stop ")]
    assert [line.split()[-1] for line in stopped] == [name for name, _ in names]
    assert stopped[0] == "  stop         python -m http.serv…  task-00000000"
    assert len(lines) < 43 + 12
    assert all(text.width(line) <= 50 for line in lines)


def test_a_plan_ends_with_what_else_is_to_be_known(of: Callable[..., list[str]]) -> None:
    assert of(undo=True, notes=("processes do not come back: dev \x1b server",))[-1] == (
        r"processes do not come back: dev \x1b server"
    )


@pytest.mark.parametrize(
    ("seconds", "lasted"),
    [(None, "-"), (0.04, "0.0s"), (9.94, "9.9s"), (9.96, "9.9s"), (59.9, "59s"), (60, "1m 00s"), (3599, "59m 59s"),
     (3600, "1h 00m"), (86_399, "23h 59m"), (86_400, "1d 00h"), (99 * 86_400, "99d 00h")],
)  # fmt: skip
def test_how_long_something_took_is_short(seconds: float | None, lasted: str) -> None:
    assert words.lasted(seconds) == lasted


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1536, "1.5 KiB"),
        (1024 * 1023, "1023.0 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 51, "2048.0 TiB"),
    ],
)
def test_a_size_is_said_in_the_unit_that_fits(number: int, said: str) -> None:
    assert words.size(number) == said
