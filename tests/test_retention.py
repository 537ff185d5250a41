"""Retention: which sessions go, which stay whatever the settings say, and what a host notices of it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sessions import (
    NotFoundError,
    SessionStore,
    assistant_message,
    hosts,
    leftovers,
    paths,
    resumed,
    retiring,
    user_message,
)
from sessions import settings as settings_module
from sessions.expiry import Kept, expired
from sessions.opening import Opening
from sessions.ownership import Ownership
from sessions.settings import DAY_S, Retention
from sessions.transcript import reader

sys.path.insert(0, str(Path(__file__).parent / "rewind"))

from worst_moments import killed_at

NOW_S = 1_000 * DAY_S
NS = 1_000_000_000
P = Path("/r/projects/p")


def row(name, days, project=None, directory=P):
    return Kept(directory / f"{name}.jsonl", int((NOW_S - days * DAY_S) * NS), project)


def going(rows, now_s=NOW_S, **policy):
    policy = Retention(**{name: value * DAY_S if name.endswith("_s") else value for name, value in policy.items()})
    return [(each.path.stem, each.reason) for each in expired(rows, policy, int(now_s * NS))]


# -- the decision --------------------------------------------------------------------------------------------------


def test_nothing_goes_while_nothing_is_set():
    assert going([row("old", 900)]) == []


def test_what_was_not_written_for_longer_goes_the_oldest_first():
    rows = [row("new", 2), row("older", 40), row("old", 31), row("just", 30)]
    assert going(rows, cleanup_period_s=30) == [("older", "age"), ("old", "age")]


def test_of_each_project_those_written_last_stay():
    rows = [row(f"a{days}", days) for days in (2, 3, 4)] + [row("b9", 9, directory=Path("/r/projects/q"))]
    assert going(rows, max_count=2) == [("a4", "count")]


def test_age_is_the_reason_of_what_is_beyond_both_limits():
    rows = [row(f"a{days}", days) for days in (2, 5, 60)]
    assert going(rows, max_count=1, cleanup_period_s=30) == [("a60", "age"), ("a5", "count")]


def test_what_was_touched_within_the_floor_never_goes():
    rows = [row("a", 0.1), row("b", 0.5), row("c", 1), row("d", 1.1)]
    assert going(rows, max_count=1) == [("d", "count")]
    assert going(rows, max_count=1, min_retention_s=2) == []
    assert going(rows, max_count=1, min_retention_s=0) == [("d", "count"), ("c", "count"), ("b", "count")]


def test_what_was_written_in_the_future_stays_and_pushes_nothing_out():
    rows = [row("later", -4000), row("much later", -5000), row("a", 2), row("b", 3)]
    assert going(rows, max_count=2, cleanup_period_s=30) == []
    assert going([*rows, row("c", 4)], max_count=2) == [("c", "count")]


def test_a_clock_that_went_back_makes_nothing_older():
    rows = [row(f"a{days}", days) for days in range(1, 90)]
    assert going(rows, now_s=NOW_S - 50 * DAY_S, cleanup_period_s=45) == []
    assert len(going(rows, now_s=NOW_S - 50 * DAY_S, max_count=30)) == 10


def test_projects_with_one_encoded_name_do_not_push_out_each_others_sessions():
    rows = [row("a1", 2, "/x/a-b"), row("a2", 3, "/x/a-b"), row("b1", 4, "/x/a/b"), row("a3", 5, "/x/a-b")]
    assert going(rows, max_count=2) == [("a3", "count")]


def test_a_session_that_may_be_of_either_project_goes_only_where_it_is_too_much_for_both():
    rows = [row("a1", 2, "/x/a-b"), row("a2", 3, "/x/a-b"), row("any", 4), row("b1", 5, "/x/a/b"), row("any2", 6)]
    assert going(rows, max_count=2) == [("any2", "count")]


def test_of_two_written_at_once_the_one_that_a_list_shows_first_stays():
    assert going([row("b", 5), row("a", 5)], max_count=1) == [("a", "count")]


# -- the settings --------------------------------------------------------------------------------------------------


def loaded(root, text):
    root.mkdir(exist_ok=True)
    (root / "settings.toml").write_text(text)
    return settings_module.load(root)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("'12h'", 43200),
        ("'7d'", 7 * DAY_S),
        ("'30m'", 1800),
        ("'1.5d'", 1.5 * DAY_S),
        ("'2 w'", 14 * DAY_S),
        ("3", 3 * DAY_S),
        ("0.5", DAY_S / 2),
        ("'0d'", 0),
    ],
)
def test_a_floor_is_a_time_or_a_number_of_days(root, said, seconds):
    found = loaded(root, f"[retention]\nmin_retention = {said}\nmax_count = 3\n")
    assert (found.retention.min_retention_s, found.retention.max_count, list(found.troubles())) == (seconds, 3, [])
    assert found.retention.is_on


def test_it_is_off_until_set(root):
    for text in ("", "[retention]\n", "[retention]\nmin_retention = '9d'\ncleanup_period_days = 0\nmax_count = 0\n"):
        found = loaded(root, text)
        assert not found.retention.is_on
        assert list(found.troubles()) == []


WRONG = [
    "cleanup_period_days = -1",
    "cleanup_period_days = '30'",
    "cleanup_period_days = true",
    "cleanup_period_days = nan",
    "cleanup_period_days = inf",
    "cleanup_period_days = 1979-05-27",
    "max_count = -1",
    "max_count = 1.5",
    "max_count = '3'",
    "min_retention = '1 month'",
    "min_retention = 'd'",
    "min_retention = '-1d'",
    "min_retention = '\\u0661d'",
    "min_retention = '99999999999d'",
    "min_retention = '999999999w'",
    "min_retention = []",
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_damaged_value_removes_nothing_and_is_said(root, wrong):
    others = {"cleanup_period_days = 2", "max_count = 1", "min_retention = 0"}
    lines = [wrong, *(each for each in sorted(others) if each.split()[0] != wrong.split()[0])]
    found = loaded(root, "\n".join(["[retention]", *lines]))
    assert not found.retention.is_on
    ((what, _),) = found.troubles()
    assert wrong.split()[0] in what


@pytest.mark.parametrize(
    "text",
    ["[retention", "retention = 3", "[[retention]]\n", "[retention]\nmax_count = 1\n[checkpoints]\nretain_turns = 'x'"],
)
def test_a_damaged_file_removes_nothing_and_is_said(root, text):
    found = loaded(root, text)
    assert not found.retention.is_on
    assert len(list(found.troubles())) == 1


def test_a_period_shorter_than_the_floor_removes_nothing_and_the_other_limits_hold(root):
    found = loaded(
        root, "[retention]\ncleanup_period_days = 2\nmin_retention = '7d'\n[checkpoints]\nretain_turns = 3\n"
    )
    assert (found.retention.is_on, found.limits.retain_turns) == (False, 3)
    assert list(found.troubles()) == [
        (
            "settings.toml: [retention] cleanup_period_days is 2, shorter than min_retention (7d)",
            "no session is removed until one of them is changed",
        )
    ]
    ((what, _),) = loaded(root, "[retention]\ncleanup_period_days = 0.5\n").troubles()
    assert what.endswith("cleanup_period_days is 0.5, shorter than min_retention (1d, the default)")


def test_a_misspelt_name_removes_nothing_for_it_may_be_the_one_that_keeps(root):
    found = loaded(root, "[retention]\ncleanup_period_days = 2\nmin_retentoin = '90d'\n")
    assert not found.retention.is_on
    assert list(found.troubles()) == [
        (
            "settings.toml: [retention] has no setting 'min_retentoin'",
            "no session is removed until it is mended; is min_retention meant?",
        )
    ]


@pytest.mark.parametrize(
    ("text", "what", "meant"),
    [
        ("[retension]\nmin_retention = '90d'\n", "there is no table [retension]", "is [retention] meant?"),
        ("[Retention]\nmin_retention = '90d'\n", "there is no table [Retention]", "is [retention] meant?"),
        ("retension = 4\n", "'retension' stands in no table", "is [retention] meant?"),
        ("[[retension]]\nmin_retention = '90d'\n", "there is no table [retension]", "is [retention] meant?"),
        ("min_retention = '90d'\n", "'min_retention' stands in no table", "is [retention] meant?"),
        ("min_retentoin = '90d'\n", "'min_retentoin' stands in no table", "is [retention] meant?"),
    ],
)
def test_a_misspelt_table_removes_nothing_for_it_may_be_the_one_that_keeps(root, text, what, meant):
    found = loaded(root, f"{text}[tasks]\ngrace_s = 3\n[retention]\ncleanup_period_days = 2\n")
    assert (found.retention.is_on, found.grace_s) == (False, 3)
    assert list(found.troubles()) == [
        (f"settings.toml: {what}", f"no session is removed until it is mended; {meant}"),
    ]


def test_other_tables_nobody_knows_are_said_and_ignored(root):
    found = loaded(
        root,
        "quota_bytes = 3\nwhatever = 1\n[retention]\ncleanup_period_days = 2\n"
        "[checkpoint]\nretain_turns = 1\n[colours]\n[resume]\ncommand = ['agent', '{id}']\n",
    )
    assert found.retention.is_on
    assert list(found.troubles()) == [
        ("settings.toml: 'quota_bytes' stands in no table", "ignored; is [checkpoints] meant?"),
        ("settings.toml: 'whatever' stands in no table", "ignored"),
        ("settings.toml: there is no table [checkpoint]", "ignored; is [checkpoints] meant?"),
        ("settings.toml: there is no table [colours]", "ignored"),
    ]


def test_the_program_that_resumes_is_read_from_the_same_file_and_needs_only_its_own_table(root):
    loaded(root, "[resume]\ncommand = ['agent', '{id}']\n[retention]\nmax_count = 'x'\n")
    assert hosts.resume_command(root) == ("agent", "{id}")
    for text in ("[resume", "a = " + "[" * 100_000, "[resume]\ncommand = 3\n", "resume = 3"):
        loaded(root, text)
        with pytest.raises(ValueError, match=r"settings\.toml: "):
            hosts.resume_command(root)


# -- removing ------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet(root):
    """A store that removes nothing in the background."""
    return SessionStore(root, retention=False)


def aged(path, days):
    """Make a transcript one that was last written so many days ago."""
    stamp = int((time.time() - days * DAY_S) * NS)
    os.utime(path, ns=(stamp, stamp))
    return path


def kept(store, project, days, prompt="hello"):
    """Make a session with a message that was written so many days ago; return its transcript."""
    with store.create(project) as session:
        session.append(user_message(prompt))
    return aged(session.path, days)


def set_(root, **values):
    lines = [f"{name} = {value!r}" for name, value in values.items()]
    (root / "settings.toml").write_text("\n".join(["[retention]", *lines]) + "\n")


def everything(directory):
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino, path.read_bytes() if path.is_file() else None)
        for path in sorted(directory.rglob("*"))
    }


def said_of(pruned):
    return [(each.session, each.reason, each.skipped) for each in pruned]


def test_prune_removes_what_is_too_old_and_too_much_and_says_why(quiet, root, project):
    old, surplus, last = (kept(quiet, project, days) for days in (40, 5, 3))
    set_(root, cleanup_period_days=30, max_count=1)
    before = everything(root)
    seen = quiet.prune(dry_run=True)
    assert everything(root) == before
    assert said_of(seen) == [(old.stem, "age", None), (surplus.stem, "count", None)]
    assert all(each.freed_bytes > 0 and each.title == "hello" for each in seen)
    assert quiet.prune() == seen
    assert [path.name for path in last.parent.iterdir()] == [last.name]
    assert seen[0].to_json()["removed"] is True
    assert seen[0].to_json()["reason"] == "age"
    assert quiet.prune() == []


def test_what_was_not_shown_does_not_go_and_of_what_was_only_what_is_still_due(quiet, root, project):
    old, resumed, young = (kept(quiet, project, days) for days in (50, 40, 5))
    set_(root, cleanup_period_days=30)
    seen = quiet.prune(dry_run=True)
    assert said_of(seen) == [(old.stem, "age", None), (resumed.stem, "age", None)]
    aged(young, 60)
    with quiet.open(resumed.stem) as session:
        session.append(user_message("more"))
    assert quiet.prune(confirmed=seen) == seen[:1]
    assert (old.exists(), resumed.exists(), young.exists()) == (False, True, True)
    assert quiet.prune(confirmed=[]) == []
    assert said_of(quiet.prune()) == [(young.stem, "age", None)]


def with_much(store, project, days):
    """Make a session with more snapshots than settings of one turn keep; return its transcript."""
    with store.create(project) as session:
        for number in range(3):
            with session.begin_turn(f"prompt {number}") as turn, turn.edit("a.txt"):
                (project / "a.txt").write_text(f"{number}\n")
    return aged(session.path, days)


def test_a_session_of_which_only_snapshots_were_shown_does_not_go_as_a_whole(quiet, root, project):
    path = with_much(quiet, project, 20)
    limits = "[checkpoints]\nretain_turns = 1\n"
    (root / "settings.toml").write_text(f"[retention]\ncleanup_period_days = 30\n{limits}")
    (seen,) = quiet.prune(dry_run=True)
    assert (seen.removed, seen.turns) == (False, (1, 2))
    aged(path, 40)
    (done,) = quiet.prune(confirmed=[seen])
    assert (done.removed, done.turns, path.exists()) == (False, (1, 2), True)
    assert [each.removed for each in quiet.prune(dry_run=True)] == [True]


def test_of_a_session_shown_as_a_whole_that_is_due_no_more_nothing_goes(quiet, root, project):
    path = with_much(quiet, project, 40)
    (root / "settings.toml").write_text("[retention]\ncleanup_period_days = 30\n[checkpoints]\nretain_turns = 1\n")
    (seen,) = quiet.prune(dry_run=True)
    assert seen.removed
    aged(path, 20)
    before = everything(root)
    assert quiet.prune(confirmed=[seen]) == []
    assert everything(root) == before


def test_of_what_is_left_of_deleted_sessions_only_what_was_shown_goes(quiet, root, project):
    left = [paths.sidecar(kept(quiet, project, days)) for days in (50, 40)]
    for sidecar in left:
        sidecar.mkdir(exist_ok=True)
        leftovers.mark(sidecar)
        leftovers.transcript_of(sidecar).unlink()
    seen = quiet.prune(dry_run=True)
    assert {(each.session, each.leftovers) for each in seen} == {(sidecar.stem, 1) for sidecar in left}
    assert quiet.prune(confirmed=[]) == []
    assert quiet.prune(confirmed=seen[:1]) == seen[:1]
    assert [sidecar.stem for sidecar in left if sidecar.exists()] == [seen[1].session]


def test_a_dry_run_shows_the_twin_of_a_session_that_goes(quiet, root, project, tmp_path):
    twin = with_much(quiet, project, 2)
    other = root / "projects" / "other"
    shutil.copytree(twin.parent, other)
    goes = aged(other / twin.name, 40)
    (root / "settings.toml").write_text("[retention]\ncleanup_period_days = 30\n[checkpoints]\nretain_turns = 1\n")
    seen = quiet.prune(dry_run=True)
    assert [(each.path, each.removed) for each in seen] == [(goes, True), (twin, False)]
    assert quiet.prune(confirmed=seen[:1]) == seen[:1]
    assert quiet.prune(confirmed=seen[1:]) == seen[1:]
    assert (goes.exists(), twin.exists()) == (False, True)


def test_damaged_settings_never_shorten_it(quiet, root, project):
    kept(quiet, project, 400)
    (root / "settings.toml").write_text("[retention]\ncleanup_period_days = 30\nmax_count = -1\n")
    before = everything(root)
    assert quiet.prune() == []
    assert everything(root) == before
    set_(root, cleanup_period_days=0)
    assert quiet.prune() == []


def test_all_that_belongs_to_a_session_goes_with_it_and_nothing_of_another(quiet, root, project):
    other = kept(quiet, project, 2)
    with quiet.create(project) as stays, stays.begin_turn("one"), stays.subagent() as its:
        its.append(user_message("stays too"))
    with quiet.create(project) as session:
        with session.begin_turn("work") as turn, turn.edit("f"):
            (project / "f").write_text("made")
        with session.begin_turn("more") as turn, session.subagent() as child, child.subagent() as below:
            for each in (child, below):
                each.append(user_message("sub"))
            with turn.edit("f"):
                (project / "f").write_text("changed")
        with session.begin_turn("then") as turn, turn.edit("f"):
            (project / "f").write_text("again")
        session.rewind(3)
    aged(session.path, 40)
    for each in (child, below):
        aged(each.path, 40)
    set_(root, cleanup_period_days=30)
    (done,) = quiet.prune()
    assert (done.session, done.reason) == (session.id, "age")
    names = {path.name for path in other.parent.iterdir()}
    assert names == {other.name, stays.path.name, stays.path.with_suffix(".ckpt").name, its.path.name}
    assert (project / "f").read_text() == "changed"
    assert [each.findings for each in quiet.check()] == [(), ()]


def test_a_fork_keeps_what_it_uses(quiet, root, project):
    with quiet.create(project) as parent:
        for number in range(3):
            with parent.begin_turn(f"turn {number}") as turn, turn.edit("f"):
                (project / "f").write_text(f"f{number}")
            parent.append(assistant_message("done"))
        with parent.fork() as fork:
            pass
    aged(parent.path, 40)
    set_(root, cleanup_period_days=30)
    assert said_of(quiet.prune()) == [(parent.id, "age", None)]
    with quiet.open(fork.id) as opened:
        opened.rewind(2)
    assert (project / "f").read_text() == "f0"


def test_foreign_files_stay_and_so_does_their_directory(quiet, root, project):
    old = kept(quiet, project, 40)
    for name in ("notes.md", "other.json", ".hidden", "x.jsonl.bak"):
        (old.parent / name).write_text("mine")
    (old.parent / "sub.ckpt").mkdir()
    (old.parent / "sub.ckpt" / "file").write_text("mine")
    set_(root, cleanup_period_days=30)
    assert len(quiet.prune()) == 1
    assert sorted(path.name for path in old.parent.iterdir()) == [
        ".hidden",
        "notes.md",
        "other.json",
        "sub.ckpt",
        "x.jsonl.bak",
    ]


def test_a_directory_that_was_emptied_goes_and_no_other(quiet, root, project):
    old = kept(quiet, project, 40)
    at_root = kept(quiet, "/", 40)
    (root / "projects" / "empty").mkdir()
    set_(root, cleanup_period_days=30)
    assert len(quiet.prune()) == 2
    assert not old.parent.exists()
    assert at_root.parent == root / "projects"
    assert [path.name for path in (root / "projects").iterdir()] == ["empty"]


def test_a_session_of_another_tool_goes_like_ours(quiet, root, project):
    ours = kept(quiet, project, 2)
    shutil.copy(Path(__file__).parents[1] / "fixtures" / "plain.jsonl", ours.parent / "theirs.jsonl")
    aged(ours.parent / "theirs.jsonl", 40)
    set_(root, cleanup_period_days=30)
    assert said_of(quiet.prune()) == [("theirs", "age", None)]
    assert [path.name for path in ours.parent.iterdir()] == [ours.name]


def test_the_most_recent_of_each_of_two_projects_in_one_directory_stay(quiet, root, tmp_path):
    one, two = tmp_path / "a-b" / "c", tmp_path / "a" / "b-c"
    for directory in (one, two):
        directory.mkdir(parents=True)
    first, second = kept(quiet, one, 9), kept(quiet, two, 5)
    assert first.parent == second.parent
    set_(root, max_count=1)
    assert quiet.prune() == []
    gone = kept(quiet, two, 7)
    assert said_of(quiet.prune()) == [(gone.stem, "count", None)]


# -- what stays ----------------------------------------------------------------------------------------------------


def refused(store, root, why, *, real=None):
    """Look that the one session that is too old stays: in a dry run, and in earnest, with no byte of it changed."""
    before = everything(root)
    for dry_run in (True, False):
        (done,) = store.prune(dry_run=dry_run)
        assert done.reason is None
        assert (why if dry_run or real is None else real) in done.skipped
        assert everything(root) == before


def test_a_session_that_is_open_stays_here_and_elsewhere(quiet, root, project):
    old = kept(quiet, project, 40)
    set_(root, cleanup_period_days=30)
    other = SessionStore(root, retention=False)
    for store in (quiet, other):
        with store.open(old.stem):
            refused(quiet, root, "it is open", real=f"is open in process {os.getpid()}")
    assert said_of(quiet.prune()) == [(old.stem, "age", None)]


def test_a_session_whose_task_runs_stays_and_so_does_the_task(quiet, root, project):
    with quiet.create(project) as session:
        session.append(user_message("hello"))
        task = session.tasks.spawn([sys.executable, "-c", "import time; time.sleep(1000)"], label="sleeper")
    aged(session.path, 40)
    set_(root, cleanup_period_days=30)
    refused(quiet, root, "its background work is not over: sleeper")
    with quiet.open(session.id) as opened:
        assert opened.tasks.list()[0].state == "running"
        opened.tasks.cancel(task.id)
    aged(session.path, 40)
    assert said_of(quiet.prune()) == [(session.id, "age", None)]


def test_a_task_that_ended_while_nobody_was_there_keeps_nothing(quiet, root, project):
    with quiet.create(project) as session:
        session.append(user_message("hello"))
        task = session.tasks.spawn([sys.executable, "-c", "import time; time.sleep(1000)"], label="sleeper")
    os.kill(task.pid, signal.SIGKILL)
    with quiet.open(session.id, read_only=True) as looked:
        deadline = time.monotonic() + 60
        while looked.tasks.list()[0].state == "running" or looked.tasks.list()[0].processes:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    aged(session.path, 40)
    set_(root, cleanup_period_days=30)
    deadline = time.monotonic() + 60
    while not (done := quiet.prune())[0].removed:  # its supervisor is the last to leave
        assert "background work" in done[0].skipped
        assert time.monotonic() < deadline
    assert not session.path.exists()


def test_a_session_with_an_unfinished_rewind_stays_and_it_is_not_finished(quiet, root, project):
    old = kept(quiet, project, 40)
    old.with_suffix(".ckpt").mkdir()
    (old.with_suffix(".ckpt") / "intent.json").write_text("{}")
    set_(root, cleanup_period_days=30)
    refused(quiet, root, "a rewind in it is not finished")


def test_a_session_whose_subagent_is_open_or_was_active_stays(quiet, root, project):
    with quiet.create(project) as session, session.begin_turn("work"):
        child = session.subagent()
        child.append(user_message("sub"))
    aged(session.path, 40)
    set_(root, cleanup_period_days=30)
    aged(child.path, 40)
    refused(quiet, root, f"its subagent {child.id} is open")
    child.close()
    aged(session.path, 40)
    aged(child.path, 0.5)
    refused(quiet, root, f"its subagent {child.id} was active")
    aged(child.path, 40)
    assert said_of(quiet.prune()) == [(session.id, "age", None)]


def test_what_a_symbolic_link_names_is_left_alone(quiet, root, project, tmp_path):
    old = kept(quiet, project, 40)
    there = tmp_path / "elsewhere.jsonl"
    old.rename(there)
    old.symlink_to(there)
    set_(root, cleanup_period_days=30)
    refused(quiet, root, "behind a symbolic link")
    old.unlink()
    there.rename(old)
    old.parent.rename(tmp_path / "moved")
    old.parent.symlink_to(tmp_path / "moved")
    refused(quiet, root, "behind a symbolic link")
    assert (tmp_path / "moved" / old.name).exists()


class Before:
    """Removes sessions as a store does, but lets something happen first: after all was looked at, before the lock."""

    def __init__(self, store, happens):
        self._store = store
        self._happens = happens

    def refuse_running(self, transcript):
        pass

    def remove(self, transcript, refuse, families):
        self._happens(transcript)
        self._store._opening.remove(transcript, refuse, families)


def test_a_session_that_was_resumed_meanwhile_stays(quiet, root, project):
    old = kept(quiet, project, 40)

    def resume(_):
        with SessionStore(root, retention=False).open(old.stem) as session:
            session.append(user_message("here I am"))

    (done,) = retiring.retire(root, Retention(30 * DAY_S), Before(quiet, resume))
    assert (done.reason, done.skipped) == (None, "it was written meanwhile")
    assert len(SessionStore(root).open(old.stem, read_only=True).messages) == 2


def test_a_session_that_is_being_opened_here_stays_though_nothing_is_written(quiet, root, project):
    old = kept(quiet, project, 40)
    mine = retiring.Pass()
    (done,) = retiring.retire(root, Retention(30 * DAY_S), Before(quiet, mine.spare), spared=mine.is_spared)
    assert (done.reason, done.skipped) == (None, "it was opened meanwhile")
    assert old.exists()


def test_one_that_somebody_else_removed_meanwhile_is_not_spoken_of(quiet, root, project):
    kept(quiet, project, 40)
    other = SessionStore(root, retention=False)
    removed = retiring.retire(root, Retention(30 * DAY_S), Before(quiet, lambda path: other.delete(path.stem)))
    assert list(removed) == []


def test_a_session_removed_between_finding_and_opening_is_not_begun_anew(quiet, root, project, monkeypatch):
    old = kept(quiet, project, 40)
    real = reader.summary

    def found_and_gone(path, **how):
        summary = real(path, **how)
        os.unlink(path)
        return summary

    monkeypatch.setattr(reader, "summary", found_and_gone)
    with pytest.raises(NotFoundError, match="removed meanwhile"):
        quiet.open(old.stem)
    assert list(old.parent.iterdir()) == []


def test_a_directory_that_is_removed_just_when_a_session_begins_in_it_is_made_again(tmp_path):
    project, done = tmp_path / "projects" / "p", threading.Event()

    def remove():
        removed = 0
        while removed < 900 and not done.is_set():  # fewer than are put up with: the two may go in step
            with contextlib.suppress(OSError):
                os.rmdir(project)
                removed += 1

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        for number in range(300):
            owner = Ownership(project / f"{number}.ckpt")
            owner.take(str(number), then=lambda: None)
            owner.give_back()
    finally:
        done.set()
        remover.join()


def test_the_subagents_of_a_directory_are_read_once_for_all_sessions_that_go(quiet, root, project, monkeypatch):
    sessions = []
    for _ in range(6):
        with quiet.create(project) as session, session.begin_turn("work"):
            for _ in range(4):
                with session.subagent() as child:
                    child.append(user_message("sub"))
                aged(child.path, 40)
        sessions.append(aged(session.path, 40))
    with quiet.create(project) as session, session.begin_turn("work"):
        for _ in range(40):
            with session.subagent() as child:
                child.append(user_message("sub"))
    read = []
    real = reader.head

    def counted(path):
        read.append(path)
        return real(path)

    monkeypatch.setattr(reader, "head", counted)
    set_(root, cleanup_period_days=30)
    assert len(quiet.prune()) == 6
    others = [path for path in read if path.name.startswith("subagent-")]
    stay = set(session.path.parent.glob("subagent-*.jsonl"))
    assert len(stay) == 40
    assert sum(path in stay for path in others) == 40


def test_a_subagent_that_came_after_the_directory_was_read_is_seen(quiet, project):
    families = leftovers.Families()
    with quiet.create(project) as session, session.begin_turn("work"):
        with session.subagent() as first:
            first.append(user_message("sub"))
        assert families.of(session.path) == [first.path]
        with session.subagent() as second:
            second.append(user_message("sub"))
        assert families.of(session.path) == sorted([first.path, second.path])
    first.path.unlink()
    assert families.of(session.path) == [second.path]


# -- crashes and crowds --------------------------------------------------------------------------------------------


def test_sigkill_at_any_step_leaves_the_whole_session_or_leftovers_that_check_removes(memory_path):
    root, project = memory_path / "root", memory_path / "project"
    project.mkdir()
    store = SessionStore(root, retention=False)
    with store.create(project) as session:
        with session.begin_turn("work") as turn, turn.edit("f"):
            (project / "f").write_text("made")
        with session.begin_turn("more"), session.subagent() as child:
            child.append(user_message("sub"))
        session.rewind(2, scope="code")
    aged(session.path, 40)
    aged(child.path, 40)
    set_(root, cleanup_period_days=30)
    shutil.copytree(root, memory_path / "before")
    number, sides = 1, []
    while True:
        shutil.rmtree(root)
        shutil.copytree(memory_path / "before", root)
        if not killed_at(number, lambda: SessionStore(root, retention=False).prune()):
            break
        listed = [each.id for each in SessionStore(root).list(project)]
        sides.append(bool(listed))
        if listed:
            (checked,) = SessionStore(root, retention=False).check()
            assert checked.findings == ()
            with SessionStore(root).open(session.id, read_only=True) as opened:
                assert len(opened.checkpoints()) == 2
            assert child.path.exists()
        elif number % 2:
            SessionStore(root, retention=False).check()
        else:
            leftovers.sweep_marked(root)
        SessionStore(root, retention=False).prune()
        assert [path.name for path in root.rglob("*") if path.is_file()] == ["settings.toml"]
        number += 1
    assert set(sides) == {True, False}
    assert sides == sorted(sides, reverse=True)


PRUNE = "import json, sys; from sessions import SessionStore\nprint(json.dumps([each.to_json() for each in SessionStore(sys.argv[1], retention=False).prune()]))"


def test_processes_that_do_it_at_once_share_the_work(quiet, root, project):
    old = {kept(quiet, project, 40 + number).stem for number in range(30)}
    set_(root, cleanup_period_days=30)
    running = [
        subprocess.Popen([sys.executable, "-c", PRUNE, root], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    ends = [each.communicate(timeout=120) for each in running]
    assert [each.returncode for each in running] == [0, 0, 0], ends
    gone = [each["session"] for out, _ in ends for each in json.loads(out) if each.get("removed")]
    assert sorted(gone) == sorted(old)
    assert [path for path in root.rglob("*") if path.is_file()] == [root / "settings.toml"]


# -- in a host -----------------------------------------------------------------------------------------------------


def waited(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def over():
    waited(lambda: not any(each.name == "sessions-retention" for each in threading.enumerate()), "the end of the pass")


@pytest.mark.parametrize("how", ["create", "open"])
def test_the_first_session_of_a_host_lets_the_old_ones_go(quiet, root, project, how):
    old, last = kept(quiet, project, 40), kept(quiet, project, 2)
    set_(root, cleanup_period_days=30)
    store = SessionStore(root)
    with store.create(project) if how == "create" else store.open(last.stem):
        waited(lambda: store.retired, "the removal")
        assert said_of(store.retired) == [(old.stem, "age", None)]
        assert not old.exists()
    over()
    second = kept(quiet, project, 50)
    with SessionStore(root).create(project):
        over()
    assert second.exists(), "one pass in a process is enough"


def test_looking_lets_nothing_go(quiet, root, project):
    old = kept(quiet, project, 40)
    set_(root, cleanup_period_days=30)
    store = SessionStore(root)
    store.list(project)
    store.latest(project)
    store.open(old.stem, read_only=True).close()
    store.check()
    over()
    assert old.exists()
    assert store.retired == ()


def test_a_session_that_is_looked_into_and_left_is_there_afterwards(quiet, root, project):
    old = kept(quiet, project, 40)
    others = [kept(quiet, project, 41 + number) for number in range(10)]
    set_(root, cleanup_period_days=30)
    before = old.stat().st_mtime_ns, old.read_bytes()
    store = SessionStore(root)
    store.open(old.stem).close()
    waited(lambda: len(store.retired) >= len(others), "the removal of the others")
    over()
    assert (old.stat().st_mtime_ns, old.read_bytes()) == before
    assert not any(each.exists() for each in others)


@pytest.mark.parametrize("retention", [True, False])
def test_the_first_session_a_store_opens_is_left_alone_by_the_pass_that_another_began(
    quiet, root, project, monkeypatch, retention
):
    old, other = kept(quiet, project, 40), kept(quiet, project, 50)
    set_(root, cleanup_period_days=30)
    go, real_retire, real_open = threading.Event(), retiring.retire, Opening.open
    second = SessionStore(root, retention=retention)

    def retire(*args, **more):
        assert go.wait(60)
        yield from real_retire(*args, **more)

    def open_(opening, *args, **more):  # the pass comes between finding the session and opening it
        if opening is second._opening:
            go.set()
            over()
        return real_open(opening, *args, **more)

    monkeypatch.setattr(retiring, "retire", retire)
    monkeypatch.setattr(Opening, "open", open_)
    with SessionStore(root).create(project), second.open(old.stem, read_only=True) as session:
        assert len(session.messages) == 1
    assert (old.exists(), other.exists()) == (True, False)


def test_a_store_may_leave_it(quiet, root, project):
    old = kept(quiet, project, 40)
    set_(root, cleanup_period_days=30)
    with quiet.create(project):
        over()
    assert old.exists()


def test_where_nothing_is_set_nothing_of_it_is_loaded_or_begun(root, project):
    code = (
        "import sys, threading; from sessions import SessionStore\n"
        "with SessionStore(sys.argv[1]).create(sys.argv[2]): pass\n"
        "print('sessions.retiring' in sys.modules, threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", code, root, project], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "1"]
    assert not root.exists()


def test_an_error_in_the_pass_is_nobodys_business(monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    def work():
        raise OSError("no disk")
        yield

    retiring.Pass().begin(work)
    over()
    assert raised == []


LEAVES = (
    "import sys, time; from sessions import SessionStore\n"
    "with SessionStore(sys.argv[1]).create(sys.argv[2]): time.sleep(float(sys.argv[3]))\n"
)


def test_a_host_that_ends_leaves_each_session_whole_or_gone(quiet, root, project):
    old = [kept(quiet, project, 40 + number) for number in range(60)]
    set_(root, cleanup_period_days=30)
    for number in range(12):
        done = subprocess.run(
            [sys.executable, "-c", LEAVES, root, project, str(number / 200)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
    for path in old:
        assert path.exists() or not reader_sees(quiet, path)
    assert all(each.findings == () for each in quiet.check())
    assert all(path.exists() or not path.with_suffix(".ckpt").exists() for path in old)


def reader_sees(store, path):
    return any(each.path == path for each in store.list(scope="all"))


def test_a_pass_that_never_ends_keeps_no_process_alive(root, project):
    code = (
        "import sys, time; from sessions import retiring\n"
        "def work():\n"
        "    time.sleep(1000)\n"
        "    yield\n"
        "retiring.Pass().begin(work)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


FORKS = """
import os, sys, warnings
warnings.simplefilter("ignore")
from sessions import SessionStore, user_message
store = SessionStore(sys.argv[1])
session = store.create(sys.argv[2])
for _ in range(20):
    child = os.fork()
    if not child:
        with store.create(sys.argv[2]) as begun:
            begun.append(user_message("in the child"))
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("a child failed")
session.append(user_message("in the parent"))
session.close()
"""


def test_a_host_that_forks_meanwhile_goes_on_in_both(quiet, root, project):
    for number in range(40):
        kept(quiet, project, 40 + number)
    set_(root, cleanup_period_days=30)
    done = subprocess.run(
        [sys.executable, "-c", FORKS, root, project], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len([each for each in quiet.list(project) if "in the" in each.title]) == 21


def test_a_forked_child_makes_a_pass_of_its_own(quiet, root, project):
    first, second = kept(quiet, project, 40), kept(quiet, project, 2)
    set_(root, cleanup_period_days=30)
    code = (
        "import os, sys, time, warnings; warnings.simplefilter('ignore')\n"
        "from sessions import SessionStore, retiring\n"
        "store = SessionStore(sys.argv[1])\n"
        "def begin():\n"
        "    with store.create(sys.argv[2]):\n"
        "        while not retiring.pass_over(store.root).done: time.sleep(0.01)\n"
        "begin()\n"
        "os.utime(sys.argv[3], (1, 1))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    begin(); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    command = [sys.executable, "-c", code, root, project, second]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert (first.exists(), second.exists()) == (False, False)


def test_ctrl_c_comes_to_the_host(quiet, root, project):
    for number in range(40):
        kept(quiet, project, 40 + number)
    set_(root, cleanup_period_days=30)
    code = (
        "import os, signal, sys, time; from sessions import SessionStore\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever runs this may ignore it
        "with SessionStore(sys.argv[1]).create(sys.argv[2]):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT); time.sleep(60)\n"
        "    except KeyboardInterrupt: print('here')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, root, project], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("here\n", "")


def test_an_open_session_is_never_in_the_way_of_its_own_host(quiet, root, project):
    last = kept(quiet, project, 40)
    set_(root, cleanup_period_days=30)
    store = SessionStore(root)
    with store.open(last.stem) as session:
        over()
        session.append(user_message("more"))
    assert len(quiet.open(last.stem, read_only=True).messages) == 2


def test_a_file_that_is_no_session_stays_whatever_it_is_called(quiet, root, project):
    old = kept(quiet, project, 40)
    others = {
        "training-data.jsonl": b'{"prompt":"a","completion":"b"}\n' * 3,
        "binary.jsonl": bytes(range(256)) * 100,
        "empty.jsonl": b"",
        "meta.jsonl": b'{"type":"metadata","name":"dataset"}\n',
        "mid.jsonl": b'{"a":1}\n{"role":"user","blocks":[]}\n',
    }
    for name, content in others.items():
        path = old.with_name(name)
        path.write_bytes(content)
        os.utime(path, ns=(path.stat().st_mtime_ns, old.stat().st_mtime_ns))
    set_(root, cleanup_period_days=30)
    assert [each.session for each in quiet.prune()] == [old.stem]
    assert {path.name: path.read_bytes() for path in old.parent.glob("*.jsonl")} == others


def test_files_that_are_no_sessions_push_none_out(quiet, root, project):
    session = kept(quiet, project, 40)
    for number in range(3):
        session.with_name(f"data-{number}.jsonl").write_bytes(b'{"prompt":"a"}\n')
    set_(root, max_count=1, min_retention="0m")
    assert quiet.prune() == []
    assert session.exists()


def test_a_session_that_somebody_just_resumed_stays_until_its_host_has_it(quiet, root, project):
    old, older = kept(quiet, project, 40), kept(quiet, project, 50)
    set_(root, cleanup_period_days=30)
    resumed.note(root, old)
    pruned = {each.session: each.skipped for each in quiet.prune()}
    assert set(pruned) == {old.stem, older.stem}
    assert "resumed" in pruned[old.stem]
    assert (old.exists(), older.exists()) == (True, False)
    (note,) = (root / "cache" / "resumed").iterdir()
    os.utime(note, (0, 0))
    resumed.sweep(root)
    assert not note.exists()
    assert [each.session for each in quiet.prune()] == [old.stem]


def test_a_root_under_another_name_is_the_same_root(quiet, root, project, tmp_path):
    old = kept(quiet, project, 40)
    set_(root, cleanup_period_days=30)
    (tmp_path / "link").symlink_to(root)
    with SessionStore(tmp_path / "link").open(old.stem, read_only=True) as looked, SessionStore(root).create(project):
        over()
        assert len(looked.messages) == 1


def test_a_sidecar_that_is_a_link_keeps_its_session_and_what_it_leads_to(quiet, root, project, tmp_path):
    old = kept(quiet, project, 40)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"mine")
    shutil.rmtree(paths.sidecar(old), ignore_errors=True)
    paths.sidecar(old).symlink_to(outside)
    set_(root, cleanup_period_days=30)
    (pruned,) = quiet.prune()
    assert "symbolic link" in pruned.skipped
    assert (old.exists(), (outside / "precious").read_bytes()) == (True, b"mine")
