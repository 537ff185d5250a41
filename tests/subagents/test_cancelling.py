"""Processes that do not want to end, and strangers that must not."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace

import programs
import pytest
from programs import living, python, until

from sessions.subagents.cancelling import Caught, Quarry, found, stop
from sessions.subagents.identity import identity_of, is_alive
from sessions.subagents.processes import Table, send

ALL_THREE = "group, parentage and tag"


def stopped(task, *, grace_s: float = 0.2) -> Caught:
    return stop([task.quarry], grace_s=grace_s)[task.tag]


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        pytest.param(
            ["sh", "-c", 'timeout 1000 "$@"; true', "sh", *python(programs.GRANDCHILD)],
            ["main", "grandchild"],
            id="a shell, timeout, python and its child",
        ),
        pytest.param(python(programs.IGNORES_TERM), ["main"], id="one that ignores SIGTERM"),
        pytest.param(python(programs.SETSID), ["main", "child"], id="a child with a session of its own"),
        pytest.param(python(programs.DAEMON), ["daemon"], id="a daemon whose parents have ended"),
        pytest.param(python(programs.HOLDS_OUTPUT), ["child"], id="a child that holds the output open"),
        pytest.param(python(programs.STOPPED), ["main"], id="one that is stopped"),
        pytest.param(python(programs.HOPPER), ["main"], id="one that forks and leaves all the time"),
        pytest.param(python(programs.FORKS_WHEN_ASKED_TO_END), ["main"], id="one that forks when it is asked to end"),
        pytest.param(python(programs.CLEARED), ["main", "child"], id="a child without environment"),
        pytest.param(python(programs.LEADER_THREAD_ENDED), ["main"], id="one whose first thread has ended"),
    ],
)
def test_nobody_is_left_of(lab, argv, names):
    task = lab.start(argv)
    pids = task.told(*names)
    assert stopped(task) == Caught((), ALL_THREE)
    assert living(pids) == []
    assert lab._left() == set()
    assert found([task.quarry]) == {task.tag: ()}


def test_a_stopped_process_gets_to_see_that_it_is_asked(lab):
    task = lab.start(python("signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))" + programs.STOPPED))
    task.told("main")
    until(lambda: programs.state(task.main.pid) == "T", "the stop")
    assert stopped(task, grace_s=programs.GIVE_UP_S) == Caught((), ALL_THREE)
    assert task.folder.exit().code == 5


def test_what_ended_by_itself_is_not_killed_and_nobody_waits_longer(lab):
    task = lab.start(python('signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); tell("main"); sleep()'))
    task.told("main")
    assert stopped(task, grace_s=1e6) == Caught((), ALL_THREE)
    assert (task.folder.exit().code, task.folder.exit().gone) == (3, True)


def test_the_second_cancel_finds_nobody_and_waits_for_nothing(lab):
    task = lab.start(["sleep", "1000"])
    assert stopped(task) == Caught((), ALL_THREE)
    assert stopped(task, grace_s=1e6) == Caught((), "group and tag")


def test_what_was_printed_before_the_cancel_stays(lab):
    task = lab.start(python('os.write(1, b"half a line"); tell(" main"); sleep()'))
    until(lambda: b"main" in task.folder.log.read_bytes(), "output")
    stopped(task)
    assert task.folder.log.read_bytes().startswith(b"half a line")
    assert task.folder.exit().signal == signal.SIGTERM


def test_the_supervisor_leaves_by_itself_and_says_that_nobody_is_left(lab):
    task = lab.start(python(programs.SETSID))
    task.told("main", "child")
    sent = []

    def noting(identity, number):
        sent.append((identity, number))
        return send(identity, number)

    stop([task.quarry], grace_s=0.2, send=noting)
    assert not is_alive(task.supervisor)
    assert task.folder.exit().gone
    assert {number for identity, number in sent if identity == task.supervisor} == {signal.SIGCONT}


def test_a_stopped_supervisor_is_woken(lab):
    task = lab.start(python(programs.CLEARED))
    task.told("main", "child")
    os.kill(task.supervisor.pid, signal.SIGSTOP)
    assert stopped(task) == Caught((), ALL_THREE)
    assert not is_alive(task.supervisor)
    assert task.folder.exit().gone


def test_a_supervisor_that_does_not_leave_is_ended(lab):
    task = lab.start(["sleep", "1000"])

    def never_waking(identity, number):
        if identity == task.supervisor and number == signal.SIGCONT:
            return send(identity, signal.SIGSTOP)
        return send(identity, number)

    assert stop([task.quarry], grace_s=0, send=never_waking) == {task.tag: Caught((), ALL_THREE)}
    assert not is_alive(task.supervisor)


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("GRANDCHILD", ["main", "grandchild"]),
        ("SETSID", ["main", "child"]),
        ("IGNORES_TERM", ["main"]),
        ("DAEMON", ["daemon"]),
    ],
)
def test_without_the_supervisor_group_and_tag_find_everybody(lab, program, names):
    task = lab.start(python(getattr(programs, program)))
    pids = task.told(*names)
    os.kill(task.supervisor.pid, signal.SIGKILL)
    task.gone()
    assert stopped(task) == Caught((), "group and tag")
    assert living(pids) == []


def test_without_the_supervisor_the_group_finds_who_cleared_its_environment(lab):
    task = lab.start(["sh", "-c", "env -i sleep 1000 & echo child $!"])
    [child] = task.told("child")
    task.ended()
    os.kill(task.supervisor.pid, signal.SIGKILL)
    task.gone()
    assert [identity.pid for identity in found([task.quarry])[task.tag]] == [child]
    assert stopped(task) == Caught((), "group and tag")
    assert living([child]) == []


@pytest.fixture
def stranger():
    """A process the test started, the leader of a group of its own, with a child in it."""
    process = subprocess.Popen(["sh", "-c", "sleep 1000 & echo; wait"], start_new_session=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("other", [{"ticks": 1}, {"boot": "another"}])
def test_a_number_that_belongs_to_a_stranger_now_is_left_alone(lab, stranger, other):
    then = replace(identity_of(stranger.pid), **other)
    quarry = Quarry("task", then, stranger.pid, None, lab.new_tag())
    assert found([quarry]) == {"task": ()}
    assert stop([quarry], grace_s=0) == {"task": Caught((), "group and tag")}
    assert stop([replace(quarry, supervisor=then)], grace_s=0) == {"task": Caught((), "group and tag")}
    assert stranger.poll() is None
    assert len(Table.read().in_group(stranger.pid)) == 2


def test_an_adopted_process_is_stopped_with_its_children_and_its_status_is_left_to_its_parent(stranger):
    quarry = Quarry("task", identity_of(stranger.pid), stranger.pid, None, None)
    assert len(found([quarry])["task"]) == 2
    assert stop([quarry], grace_s=0) == {"task": Caught((), "group and parentage")}
    assert found([quarry]) == {"task": ()}
    assert stranger.wait() in {0, -signal.SIGTERM, -signal.SIGKILL}  # 0: its child ended first


def test_the_children_of_an_adopted_process_are_found_though_it_ended_first(lab):
    tag = lab.new_tag()
    child = f"import os; os.setsid()\n{programs.HEAD}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN); tell('child'); sleep()"
    process = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"],
        stdout=subprocess.PIPE,
        env={**os.environ, "SESSIONS_TASKS": tag},
    )
    pid = int(process.stdout.readline().split()[1])
    quarry = Quarry("task", identity_of(process.pid), None, None, None)
    assert stop([quarry], grace_s=0.3) == {"task": Caught((), "parentage")}
    assert living([pid]) == []
    process.wait()
    process.stdout.close()


def test_a_zombie_nobody_reaped_counts_as_dead_and_keeps_its_status():
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    identity = identity_of(process.pid)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert stop([Quarry("task", identity, process.pid, None, None)], grace_s=1e6) == {
        "task": Caught((), "group and parentage")
    }
    assert process.wait() == 7


def test_the_group_of_the_host_is_never_taken_for_a_task():
    child = subprocess.Popen(["sleep", "1000"])
    sibling = subprocess.Popen(["sleep", "1000"])
    try:
        quarry = Quarry("task", identity_of(child.pid), os.getpgrp(), None, None)
        assert stop([quarry], grace_s=1e6) == {"task": Caught((), "group and parentage")}
        assert child.wait() == -signal.SIGTERM
        assert sibling.poll() is None
    finally:
        for process in (child, sibling):
            process.kill()
            process.wait()


def test_a_task_this_process_belongs_to_is_left_alone_and_named():
    child = subprocess.Popen(["sleep", "1000"])
    try:
        quarry = Quarry("task", identity_of(os.getpid()), None, None, None)
        assert {os.getpid(), child.pid} <= set(stop([quarry], grace_s=0)["task"].survivors)
        assert child.poll() is None
        parents = Quarry("task", identity_of(os.getppid()), None, None, None)
        assert os.getpid() in stop([parents], grace_s=0)["task"].survivors
    finally:
        child.kill()
        child.wait()


def test_who_cannot_be_killed_is_named(lab):
    task = lab.start(python(programs.GRANDCHILD))
    main, grandchild = task.told("main", "grandchild")

    def powerless(identity, number):
        return send(identity, number) if identity.pid != grandchild else True

    result = stop([task.quarry], grace_s=0, send=powerless)[task.tag]
    assert result == Caught((grandchild,), ALL_THREE)
    assert living([main]) == []
    assert is_alive(task.supervisor)  # or nobody would find the survivor again


def test_who_may_not_be_signalled_is_named_at_once(lab):
    task = lab.start(python(programs.GRANDCHILD))
    main, grandchild = task.told("main", "grandchild")

    def forbidden(identity, number):
        if identity.pid == grandchild:
            raise PermissionError
        return send(identity, number)

    assert stop([task.quarry], grace_s=1e6, send=forbidden)[task.tag] == Caught((grandchild,), ALL_THREE)
    assert living([main, grandchild]) == [grandchild]


def test_many_tasks_go_through_the_rounds_together(lab):
    tasks = [lab.start(python(programs.IGNORES_TERM)) for _ in range(43)]
    for task in tasks:
        task.told("main")
    rounds = []

    def noting(identity, number):
        if not rounds or rounds[-1] != number:
            rounds.append(number)
        return send(identity, number)

    results = stop([task.quarry for task in tasks], grace_s=0.1, send=noting)
    assert results == {task.tag: Caught((), ALL_THREE) for task in tasks}
    asked = [number for number in rounds if number != signal.SIGCONT]
    assert asked == [signal.SIGTERM] * 43 + [signal.SIGSTOP, signal.SIGKILL]


def test_a_task_inside_a_task_ends_with_it(lab):
    outer = lab.start(["sleep", "1000"])
    inner_tag = lab.new_tag()
    code = f"""
import os, sys
sys.path.insert(0, {os.getcwd()!r}); sys.path[:0] = {sys.path!r}
from pathlib import Path
from sessions.subagents.folder import TaskFolder
from sessions.subagents.launching import launch
from sessions.subagents.tagging import tagged
started = launch(["sleep", "1000"], TaskFolder(Path({str(lab.directory / inner_tag)!r})), cwd="/", env=tagged(os.environ, {inner_tag!r}))
print("inner", started.main.pid, flush=True)
print("its-supervisor", started.supervisor.pid, flush=True)
import time; time.sleep(1000)
"""
    task = lab.start([sys.executable, "-c", code])
    inner, its_supervisor = task.told("inner", "its-supervisor")
    results = stop([task.quarry, outer.quarry], grace_s=0.2)
    assert {result.survivors for result in results.values()} == {()}
    assert living([inner, its_supervisor]) == []


def test_interrupted_while_freezing_nobody_stays_frozen(lab):
    task = lab.start(python(programs.GRANDCHILD))
    pids = task.told("main", "grandchild")
    frozen = []

    def interrupted(identity, number):
        if number == signal.SIGSTOP and frozen:
            raise KeyboardInterrupt
        if number == signal.SIGSTOP:
            frozen.append(identity)
        return send(identity, number) if number != signal.SIGTERM else True

    with pytest.raises(KeyboardInterrupt):
        stop([task.quarry], grace_s=0, send=interrupted)
    until(lambda: not is_alive(frozen[0]), "the end of who was frozen")
    assert len(living(pids)) <= 1
