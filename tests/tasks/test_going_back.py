"""Going back past background work: it is dead before anything is changed, and nothing of it comes later."""

import contextlib
import fcntl
import functools
import os
import signal
import threading
import time

import pytest
from agent import verdicts
from programs import until
from workers import BLIND_WRITER, WRITER, alive, in_child, notices, stays

import sessions.stopping
from sessions import (
    ConflictError,
    LockedError,
    NothingToUndoError,
    SessionStore,
    StaleError,
    UnstoppableError,
    assistant_message,
)
from sessions.rewind.offshoots import Offshoots
from sessions.subagents.cancelling import stop
from sessions.subagents.roster import Roster

LOCK_AND_FREEZE = """
import fcntl, os, signal, sessions
from sessions import paths
from sessions.rewind.log import CaptureLog
child = sessions.subagent_from_env()
with child.begin_turn("hold"):
    root = child.path.with_name(f"{child.root_id}.jsonl")
    held = CaptureLog(paths.sidecar(root), make=False).locked()
    held.__enter__()
    open("frozen", "w").close()
    os.kill(os.getpid(), signal.SIGSTOP)
"""


MAKER = """
import os, time
def write(path):
    with open(path, "w") as file:
        file.write("m")
os.mkdir("build")
for path in ("build/0", "build/1", "ready"):
    write(path)
while not os.path.exists("go"):
    time.sleep(0.01)
for path in ("build/late", "done"):
    write(path)
time.sleep(1000)
"""


def test_a_subagent_that_writes_every_10_ms_and_ignores_sigterm_writes_nothing_later_50_times(agent):
    agent.turn("first", {"written.txt": "old"})
    for _ in range(50):
        task = agent.spawn("second", WRITER)
        agent.wait_for()
        report = agent.session.rewind(2)
        assert [(each.id, each.label) for each in report.cancelled] == [(task.id, "worker")]
        assert agent.written == "old"
        assert not alive(task.pid)
        assert stays(lambda: agent.written, 0.03)
    time.sleep(5)
    assert agent.written == "old"
    assert notices(agent.session) == []


def test_a_program_that_does_not_know_the_library_is_taken_back_where_its_files_were_named(agent):
    agent.turn("first", {"written.txt": "old"})
    agent.spawn("second", BLIND_WRITER, edits=["written.txt"])
    agent.wait_for()
    report = agent.session.rewind(2)
    assert verdicts(report) == {"written.txt": ("restore", None)}
    assert (agent.written, report.gaps) == ("old", ())
    assert stays(lambda: agent.written)


def test_what_a_program_makes_in_a_directory_named_for_it_goes_also_after_a_cancel(agent):
    code = "import os, time\nos.mkdir('out')\nopen('out/made', 'w').write('m')\nopen('ready', 'w')\ntime.sleep(1000)"
    task = agent.spawn("first", code, edits=["."])
    until((agent.project / "ready").exists, "the program")
    agent.session.tasks.cancel(task.id)
    assert verdicts(agent.session.plan_rewind(1)) == {
        "out": ("delete", None), "out/made": ("delete", None), "ready": ("delete", None),
    }  # fmt: skip
    agent.session.rewind(1)
    assert agent.files == {}


def test_a_program_without_edits_that_does_not_use_the_library_is_a_gap(agent):
    agent.spawn("first", "pass")
    agent.spawn("second", WRITER)
    agent.wait_for()
    assert [(gap.kind, gap.what.split()[0]) for gap in agent.session.plan_rewind(1).gaps] == [("task", "worker")]
    assert agent.session.plan_rewind(2).gaps == ()
    assert [len(each.gaps) for each in agent.session.checkpoints()] == [1, 0]


def test_a_task_that_cannot_be_stopped_leaves_everything_as_it_is(agent, monkeypatch):
    agent.turn("first", {"written.txt": "old"})
    task = agent.spawn("second", WRITER)
    agent.wait_for()
    refuses = functools.partial(stop, send=lambda identity, number: identity.pid != task.pid or refuse())
    monkeypatch.setattr(sessions.stopping, "stop", refuses)

    def refuse():
        raise PermissionError

    before = agent.transcript
    with pytest.raises(UnstoppableError, match=rf"could not stop 'worker' \({task.id}\): process {task.pid}") as caught:
        agent.session.rewind(2)
    assert caught.value.exit_code == 5
    assert caught.value.details["survivors"] == {f"'worker' ({task.id})": [task.pid]}
    assert (agent.transcript, alive(task.pid), agent.state(task)) == (before, True, "running")
    monkeypatch.undo()
    agent.session.rewind(2)
    assert not alive(task.pid)


def test_on_running_refuse_changes_nothing_and_lists_them(agent):
    task = agent.spawn("first", WRITER)
    agent.wait_for()
    before = agent.transcript
    assert agent.session.plan_rewind(1, on_running="refuse").refused is not None
    with pytest.raises(
        ConflictError, match=rf"1 task is running: 'worker' \({task.id}\).*nothing was changed"
    ) as caught:
        agent.session.rewind(1, on_running="refuse")
    assert [each["id"] for each in caught.value.details["running"]] == [task.id]
    assert (agent.transcript, alive(task.pid)) == (before, True)


@pytest.mark.parametrize(
    "options",
    [{"scope": "both"}, {"scope": "code"}, {"scope": "conversation"}, {"history": "hide"}, {"history": "fork"}],
)
def test_every_scope_stops_what_was_started_from_there_on(agent, options):
    agent.turn("first", {"written.txt": "old"})
    task = agent.spawn("second", WRITER)
    agent.wait_for()
    plan = agent.session.plan_rewind(2, **options)
    assert [each.id for each in plan.tasks] == [task.id]
    report = agent.session.rewind(plan)
    assert [each.id for each in report.cancelled] == [task.id]
    assert not alive(task.pid)
    assert stays(lambda: agent.written)
    if report.session is not agent.session:
        report.session.close()


def test_a_fork_of_the_conversation_alone_leaves_the_work_alone(agent):
    task = agent.spawn("first", WRITER)
    agent.wait_for()
    report = agent.session.rewind(1, scope="conversation", history="fork")
    report.session.close()
    assert (report.cancelled, agent.state(task)) == ((), "running")


def test_tasks_of_turns_that_stay_keep_running_and_what_they_edit_is_a_conflict_that_names_them(agent):
    agent.turn("first", {"written.txt": "old"})
    task = agent.spawn("second", BLIND_WRITER, edits=["written.txt"])
    agent.wait_for()
    agent.turn("third", {"written.txt": "by the agent"})
    agent.wait_for()
    plan = agent.session.plan_rewind(3)
    assert plan.tasks == ()
    [conflict] = plan.conflicts
    assert (conflict.path, conflict.found) == ("written.txt", f"{task.id} (worker) may be editing it")
    agent.session.rewind(3, on_conflict="keep")
    assert agent.state(task) == "running"


def test_what_a_subagent_of_a_turn_that_stays_edits_later_is_not_taken_back(agent):
    agent.turn("first", {"f": "old"})
    with agent.session.begin_turn("second"):
        child = agent.session.subagent(label="helper")
    agent.turn("third", {"f": "third", "mine": "m"})
    with child, child.begin_turn("work") as turn:
        for path in ("f", "late"):
            with turn.edit(path):
                (agent.project / path).write_text("by the helper")
    plan = agent.session.plan_rewind(3)
    assert verdicts(plan) == {"f": ("restore", "conflict"), "mine": ("delete", None)}
    assert plan.conflicts[0].found == f"edited since by {child.id} (helper)"
    agent.session.rewind(3, on_conflict="keep")
    assert {path: state[1] for path, state in agent.files.items()} == {"f": b"by the helper", "late": b"by the helper"}
    agent.session.rewind(2)
    assert {path: state[1] for path, state in agent.files.items()} == {"f": b"old"}


def test_a_frozen_subagent_that_holds_the_lock_of_the_captures_does_not_block_the_rewind(agent):
    agent.turn("first", {"written.txt": "old"})
    task = agent.spawn("second", LOCK_AND_FREEZE)
    until((agent.project / "frozen").exists, "the lock")
    with open(agent.sidecar / "captures.lock") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    agent.session.rewind(2)
    assert not alive(task.pid)


def test_what_a_task_that_is_stopped_changes_meanwhile_makes_no_plan_stale_and_no_conflict(agent):
    agent.turn("first", {"written.txt": "old"})
    agent.spawn("second", WRITER)
    agent.wait_for()
    plan = agent.session.plan_rewind(2, on_conflict="refuse")
    assert plan.refused is None
    agent.wait_for("late 2")
    report = agent.session.rewind(plan)
    assert (report.conflicts, agent.written) == ((), "old")


def test_a_plan_names_what_a_task_that_will_be_stopped_made_so_far_and_more_of_it_makes_it_not_stale(agent):
    agent.turn("first", {"mine": "1"})
    agent.spawn("second", MAKER, edits=["build"])
    until((agent.project / "ready").exists, "the program")
    plan = agent.session.plan_rewind(2)
    assert verdicts(plan) == dict.fromkeys(("build", "build/0", "build/1"), ("delete", None))
    (agent.project / "go").touch()
    until((agent.project / "done").exists, "the program")
    report = agent.session.rewind(plan)
    assert {file.path for file in report.files} == {"build", "build/0", "build/1", "build/late"}
    assert not (agent.project / "build").exists()
    agent.session.undo_rewind()
    assert (agent.project / "build/late").read_text() == "m"


def test_a_directory_a_task_that_is_stopped_has_something_in_makes_no_plan_stale(agent):
    agent.turn("first", {"d/s/file": "old"})
    code = """
import os, signal, time
def clean(*_):
    os.remove("d/s/file.tmp")
    raise SystemExit
signal.signal(signal.SIGTERM, clean)
open("d/s/file.tmp", "w").close()
time.sleep(1000)
"""
    agent.spawn("second", code, edits=["d/s/file"])
    until((agent.project / "d" / "s" / "file.tmp").exists, "the task")
    plan = agent.session.plan_rewind(1)
    assert verdicts(plan)["d/s"] == ("skip", None)
    report = agent.session.rewind(plan)
    assert (verdicts(report)["d/s"], agent.files) == (("delete", None), {})


def test_a_conflict_on_record_is_one_also_where_a_task_that_will_be_stopped_still_edits_it(agent):
    agent.turn("first", {"f": "old"})
    with agent.session.begin_turn("second"):
        child = agent.session.subagent(label="helper")
    task = agent.spawn("third", "import time; time.sleep(1000)", edits=["f"])
    with child, child.begin_turn("work") as turn, turn.edit("f"):
        (agent.project / "f").write_text("by the helper")
    plan = agent.session.plan_rewind(3, on_conflict="refuse")
    assert [conflict.path for conflict in plan.conflicts] == ["f"]
    with pytest.raises(ConflictError, match=r"f \(.*nothing was changed"):
        agent.session.rewind(3, on_conflict="refuse")
    assert agent.state(task) == "running"
    agent.session.rewind(3, on_conflict="keep")
    assert (agent.project / "f").read_text() == "by the helper"


def test_what_a_task_that_stays_writes_all_the_time_makes_no_plan_stale(agent):
    agent.turn("first", {"written.txt": "old"})
    task = agent.spawn("second", BLIND_WRITER, edits=["written.txt"])
    agent.wait_for()
    agent.turn("third", {"written.txt": "by the agent", "f": "1"})
    for _ in range(5):
        plan = agent.session.plan_rewind(3)
        assert [conflict.path for conflict in plan.conflicts] == ["written.txt"]
        _let_it_write(agent)
        agent.session.rewind(plan)
        assert not (agent.project / "f").exists()
        plan = agent.session.plan_undo(on_conflict="overwrite")
        _let_it_write(agent)
        agent.session.undo_rewind(plan)
        assert (agent.project / "f").exists()
    assert agent.state(task) == "running"


def _let_it_write(agent):
    seen = agent.written
    until(lambda: agent.written != seen, "the writer")


def test_a_change_of_somebody_else_is_a_conflict_also_behind_a_stopped_task(agent):
    agent.turn("first", {"written.txt": "old", "mine": "1"})
    agent.spawn("second", WRITER)
    agent.wait_for()
    agent.turn("third", {"mine": "2"})
    (agent.project / "mine").write_text("by hand")
    with pytest.raises(ConflictError, match="mine"):
        agent.session.rewind(2, on_conflict="refuse")


def test_a_plan_is_stale_when_a_task_began_since_but_not_when_one_ended(agent):
    agent.turn("first", {"f": "1"})
    plan = agent.session.plan_rewind(1)
    task = agent.python("import time; time.sleep(1000)")
    with pytest.raises(StaleError, match="tasks started since"):
        agent.session.rewind(plan)
    plan = agent.session.plan_rewind(1)
    agent.session.tasks.cancel(task.id)
    assert agent.session.rewind(plan).cancelled == ()


@pytest.mark.parametrize("which", ["goes", "stays"])
def test_the_notice_of_a_task_that_ends_while_a_plan_is_looked_at_makes_it_not_stale(agent, which):
    agent.turn("first", {"s": "old"})
    code = "import os, time\nwhile not os.path.exists('../go'): time.sleep(0.01)\nopen('s', 'w').write('late')"
    stays = agent.python(code, edits=["s"])
    task = agent.spawn("second", code, edits=["s"]) if which == "goes" else stays
    if which == "goes":
        agent.session.tasks.cancel(stays)
    agent.turn("third", {"f": "1"})
    plan = agent.session.plan_rewind(2)
    (agent.project.parent / "go").touch()
    until(lambda: (task.id, "completed") in notices(agent.session), "the notice")
    report = agent.session.rewind(plan)
    assert report.cancelled == ()
    assert notices(agent.session) == ([] if which == "goes" else [(task.id, "completed")])


def test_a_notice_that_comes_while_the_plan_of_an_undo_is_looked_at_makes_it_not_stale(agent):
    agent.turn("first", {"f": "1"})
    task = agent.python("import os, time\nwhile not os.path.exists('../go'): time.sleep(0.01)")
    agent.turn("second", {"f": "2"})
    agent.session.rewind(2)
    plan = agent.session.plan_undo()
    (agent.project.parent / "go").touch()
    until(lambda: notices(agent.session), "the notice")
    agent.session.undo_rewind(plan)
    assert (agent.project / "f").read_text() == "2"
    assert notices(agent.session) == [(task.id, "completed")]


def test_what_a_task_started_while_it_was_stopped_is_stopped_too(agent):
    code = """
import signal, sys, time, sessions
child = sessions.subagent_from_env()
turn = child.begin_turn("go on")
def again(*_):
    child.tasks.spawn(["sleep", "1000"], label="another")
    open("again", "w").close()
    time.sleep(1000)
signal.signal(signal.SIGTERM, again)
open("ready", "w").close()
time.sleep(1000)
"""
    agent.spawn("first", code)
    until((agent.project / "ready").exists, "the program")
    (agent.root / "settings.toml").write_text("[tasks]\ngrace_s = 3\n")
    agent.reopen()
    report = agent.session.rewind(1)
    assert (agent.project / "again").exists()
    assert sorted(task.label for task in report.cancelled) == ["another", "worker"]
    assert agent.session.tasks.list() == []


def test_an_error_after_the_tasks_were_stopped_says_which_are_gone(agent, monkeypatch):
    agent.turn("first", {"f": "1"})
    task = agent.spawn("second", "import time; time.sleep(1000)")
    rewinder = agent.session._going_back._rewinder

    def fails(*_, **__):
        raise StaleError("something changed")

    monkeypatch.setattr(rewinder, "carry_out", fails)
    with pytest.raises(StaleError, match="something changed; plan again; stopped meanwhile: worker") as caught:
        agent.session.rewind(2)
    assert [each["id"] for each in caught.value.details["cancelled"]] == [task.id]


def test_nothing_can_be_begun_while_work_is_being_stopped(agent, monkeypatch):
    agent.spawn("first", "import time; time.sleep(1000)")
    found = []

    def tries(quarries, **options):
        import threading

        def begin():
            for attempt in (
                lambda: agent.session.begin_turn("meanwhile"),
                lambda: agent.session.tasks.spawn(["sleep", "1000"]),
                agent.session.subagent,
                lambda: agent.session.rewind(1),
                lambda: agent.session.compact("s"),
            ):
                with pytest.raises(ConflictError, match="while the session goes back"):
                    attempt()
                found.append(True)
            agent.session.append(assistant_message("said meanwhile"))

        other = threading.Thread(target=begin)
        other.start()
        other.join()
        return stop(quarries, **options)

    monkeypatch.setattr(sessions.stopping, "stop", tries)
    report = agent.session.rewind(1)
    assert (len(found), report.removed_messages) == (5, 3)
    agent.turn("again")


def test_undo_says_that_processes_do_not_come_back_and_there_is_no_redo_once_others_were_started(agent):
    agent.turn("first", {"written.txt": "old"})
    agent.spawn("second", WRITER)
    agent.wait_for()
    agent.session.rewind(2)
    report = agent.session.undo_rewind()
    assert report.notes == ("processes do not come back: worker",)
    assert [task.state for task in agent.session.tasks.list()] == ["cancelled"]
    agent.session.redo_rewind()
    agent.session.undo_rewind()
    task = agent.python("import time; time.sleep(1000)", label="since", edits=["made"])
    with pytest.raises(NothingToUndoError):
        agent.session.redo_rewind()
    assert alive(task.pid)


def test_there_is_no_redo_once_a_subagent_was_started(agent):
    agent.turn("first", {"f": "1"})
    agent.turn("second", {"f": "2"})
    agent.session.rewind(2)
    agent.session.undo_rewind()
    with agent.session.subagent() as child, child.begin_turn("work") as turn, turn.edit("kid"):
        (agent.project / "kid").write_text("k")
    with pytest.raises(NothingToUndoError):
        agent.session.redo_rewind()
    agent.session.rewind(2)
    assert {path: state[1] for path, state in agent.files.items()} == {"f": b"1"}


def test_an_undo_that_removes_new_turns_stops_what_they_started(agent):
    agent.turn("first", {"f": "1"})
    agent.session.rewind(1)
    task = agent.spawn("instead", "import time; time.sleep(1000)")
    assert [each.id for each in agent.session.plan_undo(on_conflict="overwrite").tasks] == [task.id]
    agent.session.undo_rewind(on_conflict="overwrite")
    assert not alive(task.pid)


def test_the_run_that_is_taken_back_is_stopped_and_no_other(agent):
    with agent.session.begin_turn("one", run_id="r1"):
        one = agent.python("import time; time.sleep(1000)", label="one")
    with agent.session.begin_turn("two", run_id="r2") as turn, turn.edit("f"):
        (agent.project / "f").write_text("f")
        two = agent.python("import time; time.sleep(1000)", label="two")
    report = agent.session.rewind(run="r2")
    assert [each.label for each in report.cancelled] == ["two"]
    assert (alive(one.pid), alive(two.pid)) == (True, False)


def test_a_mark_stops_what_was_started_behind_it(agent):
    with agent.session.begin_turn("one") as turn:
        before = agent.python("import time; time.sleep(1000)", label="before")
        mark = turn.mark("here")
        behind = agent.python("import time; time.sleep(1000)", label="behind")
    assert [each.label for each in agent.session.rewind(mark).cancelled] == ["behind"]
    assert (alive(before.pid), alive(behind.pid)) == (True, False)


def test_a_message_of_an_earlier_turn_may_start_a_task_which_then_belongs_there(agent):
    messages = []
    agent.working("first", messages.append)
    agent.turn("second")
    agent.python("import time; time.sleep(1000)", spawned_by=messages[0])
    assert [len(agent.session.plan_rewind(place).tasks) for place in (1, 2)] == [1, 0]


def test_leftovers_of_a_task_that_ended_are_stopped_too(agent):
    task = agent.spawn("first", "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
    until(lambda: agent.state(task) == "completed", "its end")
    assert agent.session.tasks.get(task.id).processes == 1
    assert [each.id for each in agent.session.plan_rewind(1).tasks] == [task.id]
    agent.session.rewind(1)
    assert agent.session.tasks.list() == []


def test_deleting_a_session_stops_its_tasks_and_removes_its_subagents(agent):
    task = agent.spawn("first", WRITER)
    agent.wait_for()
    with agent.session.begin_turn("second"), agent.session.subagent() as child:
        child.append(assistant_message("hello"))
    directory = agent.session.path.parent
    agent.session.close()
    agent.store.delete(agent.session.id)
    assert not alive(task.pid)
    assert list(directory.iterdir()) == []


def test_ctrl_c_and_signals_for_the_terminal_reach_no_task(agent):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    assert os.getsid(task.pid) == task.pid
    assert os.getsid(task.pid) != os.getsid(0)
    assert os.getpgid(task.pid) != os.getpgid(0)


def test_a_session_that_could_not_be_deleted_is_free_again(agent, monkeypatch):
    monkeypatch.setattr(sessions.stopping, "_SETTLING_S", 0.1)
    ended = threading.Event()
    with agent.session.begin_turn("first"):
        agent.session.tasks.attach(cancel=lambda: None, wait=ended.wait, label="stubborn")
    agent.session.close()
    with pytest.raises(UnstoppableError):
        agent.store.delete(agent.session.id)
    ended.set()
    agent.reopen()
    agent.turn("second")


def test_an_undo_leaves_a_fork_in_which_background_work_was_begun(agent):
    agent.turn("first", {"f": "1"})
    agent.turn("second", {"f": "2"})
    fork = agent.session.rewind(2, history="fork").session
    task = fork.tasks.spawn(["sleep", "1000"], label="worker")
    report = agent.session.undo_rewind()
    assert f"the fork {fork.id} has gone on and stays" in report.notes
    assert fork.tasks.get(task).state == "running"
    fork.tasks.cancel(task)
    fork.close()


def test_an_undo_stops_nothing_in_a_fork_in_which_work_is_begun_while_it_looks(agent, monkeypatch):
    agent.turn("first", {"f": "1"})
    agent.turn("second", {"f": "2"})
    fork = agent.session.rewind(2, history="fork").session
    begun = []

    def beginning(offshoots, made, look=Offshoots.is_as_made):
        found = look(offshoots, made)
        if not begun:
            begun.append(fork.tasks.spawn(["sleep", "1000"], label="worker"))
        return found

    monkeypatch.setattr(Offshoots, "is_as_made", beginning)
    assert f"the fork {fork.id} stays: somebody went on in it" in agent.session.undo_rewind().notes
    assert fork.tasks.get(begun[0]).state == "running"
    fork.tasks.cancel(begun[0])
    fork.close()


def test_what_an_open_subagent_still_starts_while_its_session_is_deleted_is_stopped_too(agent):
    for _ in range(5):
        with agent.session.begin_turn("first"):
            child = agent.session.subagent()
        begun = [child.tasks.spawn(["sleep", "1000"], label="early")]

        def goes_on(child=child, begun=begun):
            with contextlib.suppress(ConflictError, ChildProcessError):  # the latter: stopped while it began
                while True:
                    begun.append(child.tasks.spawn(["sleep", "1000"], label="late"))

        thread = threading.Thread(target=goes_on)
        thread.start()
        until(lambda begun=begun: len(begun) > 2, "its work")
        agent.store.delete(agent.session.id)
        thread.join()
        assert [task.pid for task in begun if task.pid is not None and alive(task.pid)] == []
        agent.session = agent.store.create(agent.project)


@pytest.fixture
def written_elsewhere(agent):
    """A turn with a task, and with a subagent whose session another process has open."""
    agent.turn("first", {"f": "1"})
    agent.turn("second", {"f": "2"})
    agent.session.rewind(2)
    task = agent.spawn("third", "import time; time.sleep(1000)")
    with agent.session.subagent() as child:
        child.append(assistant_message("hello"))
    pid = in_child(lambda: SessionStore(agent.root).open(child.id))
    yield task, child
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    "goes",
    [
        lambda agent: agent.session.rewind(2),
        lambda agent: agent.session.undo_rewind(on_conflict="overwrite"),
        lambda agent: agent.store.delete(agent.session.id),
    ],
    ids=["rewind", "undo", "delete"],
)
def test_nothing_is_stopped_or_removed_where_another_process_writes_in_a_subagents_session(
    agent, written_elsewhere, goes
):
    task, child = written_elsewhere
    before = agent.names
    with pytest.raises(LockedError, match=child.id):
        goes(agent)
    assert (agent.state(task), agent.names) == ("running", before)


def test_what_a_subagent_starts_while_a_cancel_looks_is_stopped_too(agent, monkeypatch):
    with agent.session.begin_turn("first"):
        child = agent.session.subagent()
    over = threading.Event()
    work = agent.session.tasks.attach(cancel=over.set, wait=over.wait, subagent=child)
    late = []

    def starting(roster, *given, look=Roster.to_stop):
        found = look(roster, *given)
        if not late:
            late.append(child.tasks.spawn(["sleep", "1000"]))
        return found

    monkeypatch.setattr(Roster, "to_stop", starting)
    agent.session.tasks.cancel(work)
    assert agent.state(late[0]) == "cancelled"
    child.close()


def test_two_who_cannot_cancel_one_task_leave_it_as_if_nothing_had_been_asked(agent, monkeypatch):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    both, failed = threading.Barrier(2), []

    def unable(*_):
        raise PermissionError

    def stopped(quarries, *, grace_s):
        found = stop(quarries, grace_s=grace_s, send=unable)
        both.wait(30)
        return found

    def cancel():
        try:
            agent.session.tasks.cancel(task)
        except UnstoppableError as error:
            failed.append(error)

    monkeypatch.setattr(sessions.stopping, "stop", stopped)
    threads = [threading.Thread(target=cancel) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    agent.reopen()
    assert (len(failed), agent.state(task)) == (2, "running")
