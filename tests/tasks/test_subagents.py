"""Subagents: sessions of their own, whose edits belong to the turn of the message that started them."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest
from agent import contents, verdicts
from programs import until
from workers import alive, notices

import sessions
from sessions import ConflictError, NotFoundError, RequestError, SessionStore, assistant_message, user_message

NESTED = """
import sys, sessions
depth = int(sys.argv[1])
with sessions.subagent_from_env() as child, child.begin_turn(f"depth {depth}") as turn:
    with turn.edit(f"depth-{depth}"):
        open(f"depth-{depth}", "w").write("made")
    if depth:
        child.tasks.spawn([sys.executable, "-c", sys.stdin.read() if False else open(sys.argv[2]).read(),
                           str(depth - 1), sys.argv[2]], label=f"depth {depth - 1}")
    with turn.edit("shared"):
        with open("shared", "a") as file:
            file.write(f"{depth} ")
print("done", flush=True)
import time
time.sleep(1000)
"""


def work(child, made):
    """Let a subagent take a turn in which it edits files, one after the other."""
    with child.begin_turn("work") as turn:
        for path, content in made.items():
            with turn.edit(path):
                if content is None:
                    os.unlink(os.path.join(child.workdir, path))
                else:
                    with open(os.path.join(child.workdir, path), "w") as file:
                        file.write(content)
        child.append(assistant_message("worked"))


def test_edits_of_nested_subagents_go_with_the_turn_that_started_them_and_the_plan_says_who_made_each(agent):
    agent.turn("first", {"f1": "one", "f2": "two"})
    with agent.session.begin_turn("second"):
        first = agent.session.subagent(label="A")
        with first, first.begin_turn("a") as turn:
            second = first.subagent(label="B")
            with turn.edit("f1"):
                (agent.project / "f1").write_text("by A")
            first.close()
        work(second, {"f1": "by B", "f2": "by B", "f3": "by B"})
        second.close()
    plan = agent.session.plan_rewind(2)
    assert verdicts(plan) == {"f1": ("restore", None), "f2": ("restore", None), "f3": ("delete", None)}
    assert {file.path: file.by for file in plan.files} == {
        "f1": f"{first.id}, {second.id}",
        "f2": second.id,
        "f3": second.id,
    }
    agent.session.rewind(2)
    assert contents(agent.project) == {"f1": b"one", "f2": b"two"}


def test_nesting_is_unlimited_also_in_processes(agent, tmp_path):
    (tmp_path / "nested.py").write_text(NESTED)
    agent.turn("first", {"shared": ""})
    with agent.session.begin_turn("second"):
        agent.session.tasks.spawn([sys.executable, "-c", NESTED, "3", str(tmp_path / "nested.py")], label="depth 3")
    until(lambda: len((agent.project / "shared").read_text().split()) == 4, "the deepest")
    tasks = agent.session.tasks.list()
    assert sorted(task.label for task in tasks) == [f"depth {number}" for number in range(4)]
    assert sum(name.startswith("subagent-") and name.endswith(".jsonl") for name in agent.names) == 4
    report = agent.session.rewind(2)
    assert len(report.cancelled) == 4
    assert not any(alive(task.pid) for task in tasks)
    assert contents(agent.project) == {"shared": b""}
    assert not any(name.startswith("subagent-") for name in agent.names)


def test_edits_are_in_their_true_order_across_all_writers(agent):
    agent.turn("first", {"f": "0"})
    with agent.session.begin_turn("second") as turn:
        with agent.session.subagent() as child:
            work(child, {"f": "1"})
        with turn.edit("f"):
            (agent.project / "f").write_text("2")
    with agent.session.begin_turn("third"), agent.session.subagent() as child:
        work(child, {"f": "3"})
    for place, expected in ((3, b"2"), (2, b"0")):
        agent.session.rewind(place)
        assert contents(agent.project) == {"f": expected}
    agent.session.undo_rewind()
    assert contents(agent.project) == {"f": b"2"}


def test_transcripts_of_removed_subagents_go_with_the_undo_record_and_come_back_byte_for_byte(agent):
    with agent.session.begin_turn("first"), agent.session.subagent() as stays:
        work(stays, {"a": "a"})
    with agent.session.begin_turn("second"), agent.session.subagent() as child, child.subagent() as grandchild:
        work(child, {"b": "b"})
        work(grandchild, {"c": "c"})
    before = {each.id: each.path.read_bytes() for each in (stays, child, grandchild)}
    names = agent.names
    for _ in range(2):
        agent.session.rewind(2)
        assert {name for name in agent.names if name.endswith(".jsonl")} == {agent.session.path.name, stays.path.name}
        agent.reopen()
        agent.session.undo_rewind()
        assert {each.id: each.path.read_bytes() for each in (stays, child, grandchild)} == before
        assert agent.names == names
        agent.session.redo_rewind()
        assert not child.path.exists()
        agent.session.undo_rewind()
        assert {each.id: each.path.read_bytes() for each in (stays, child, grandchild)} == before


@pytest.mark.parametrize("options", [{"scope": "code"}, {"history": "fork"}, {"history": "hide"}])
def test_where_the_conversation_stays_in_the_file_so_do_its_subagents(agent, options):
    with agent.session.begin_turn("first"), agent.session.subagent() as child:
        work(child, {"a": "a"})
    report = agent.session.rewind(1, **options)
    assert child.path.exists()
    assert contents(agent.project) == {}
    if report.session is not agent.session:
        report.session.close()


def test_late_captures_and_messages_of_a_removed_subagent_are_refused(agent):
    with agent.session.begin_turn("first"):
        child = agent.session.subagent()
    turn = child.begin_turn("work")
    edit = turn.edit("late")
    agent.session.rewind(1)
    (agent.project / "late").write_text("too late")
    with edit:
        pass
    for late in (
        lambda: turn.edit("later"),
        lambda: turn.gap("shell"),
        lambda: child.append(assistant_message("too late")),
        child.subagent,
        lambda: child.tasks.spawn(["true"]),
    ):
        with pytest.raises(ConflictError):
            late()
    assert agent.session.checkpoints() == []
    assert not any(name.startswith("subagent-") for name in agent.names)


def test_a_subagent_in_another_process_is_refused_after_a_rewind_of_the_code_alone_too(agent):
    with agent.session.begin_turn("first"):
        child = agent.session.subagent()
    turn = child.begin_turn("work")
    agent.session.rewind(1, scope="code")
    with pytest.raises(ConflictError):
        turn.edit("late")


def test_a_removed_subagent_that_another_process_has_open_stops_the_rewind(agent):
    with agent.session.begin_turn("first"), agent.session.subagent() as child:
        work(child, {"a": "a"})
    code = "import sys, sessions\nwith sessions.SessionStore(sys.argv[1]).open(sys.argv[2]):\n print(1, flush=True)\n input()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, agent.root, child.id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "1\n"
    before = agent.transcript, agent.files
    with pytest.raises(ConflictError, match=rf"{child.id} is open in process {other.pid}"):
        agent.session.rewind(1)
    assert (agent.transcript, agent.files) == before
    other.communicate("\n")
    agent.session.rewind(1)
    assert not child.path.exists()


def test_a_subagent_does_not_go_back_itself(agent):
    with agent.session.begin_turn("first"), agent.session.subagent() as child:
        work(child, {"a": "a"})
        for refused in (
            lambda: child.plan_rewind(1),
            lambda: child.rewind(1),
            child.undo_rewind,
            child.redo_rewind,
            child.plan_undo,
        ):
            with pytest.raises(RequestError, match=f"does not go back by itself: session {agent.session.id} does"):
                refused()
        for forks in (child.fork, child.plan_fork):
            with pytest.raises(RequestError, match=f"is not forked by itself: fork session {agent.session.id}"):
                forks()
        with pytest.raises(RequestError, match=f"has no diff of its own: session {agent.session.id} has it"):
            child.diff()
        with pytest.raises(RequestError, match="no marks"), child.begin_turn("mark") as turn:
            turn.mark("here")
        assert [each.prompt for each in child.checkpoints()] == ["work", "mark"]
        assert (child.root_id, child.parent_id) == (agent.session.id, agent.session.id)


def test_a_subagent_is_found_by_its_id_and_listed_nowhere(agent):
    with agent.session.begin_turn("first"), agent.session.subagent() as child:
        work(child, {"a": "a"})
    child_id = child.id
    agent.reopen()
    assert [row.id for row in agent.store.list(agent.project)] == [agent.session.id]
    with agent.store.open(child_id) as again:
        assert (again.root_id, again.parent_id) == (agent.session.id, agent.session.id)
        work(again, {"a": "again"})
    assert {file.path: file.by for file in agent.session.plan_rewind(1).files} == {"a": child_id}
    assert agent.session.check() == []


def test_a_subagent_whose_root_is_gone_can_be_read_and_edits_nothing(agent):
    with agent.session.begin_turn("first"), agent.session.subagent() as child:
        work(child, {"a": "a"})
    agent.session.close()
    agent.session.path.unlink()
    shutil.rmtree(agent.sidecar)
    with SessionStore(agent.root).open(child.id) as alone:
        assert len(alone.history()) == 2
        with pytest.raises(ConflictError, match=r"removed by a rewind|is gone"), alone.begin_turn("more") as turn:
            turn.edit("b")
    assert not agent.sidecar.exists()


def test_a_message_that_nobody_wrote_starts_nothing(agent):
    with pytest.raises(RequestError, match="no prompt"):
        agent.session.subagent()
    agent.turn("first")
    with pytest.raises(NotFoundError, match="msg-none"):
        agent.session.subagent("msg-none")
    with agent.session.begin_turn("second") as turn, agent.session.subagent("msg-to-be-written") as child:
        assert child.spawned_by == "msg-to-be-written"
        work(child, {"a": "a"})
        assert turn.index == 2
    assert verdicts(agent.session.plan_rewind(2)) == {"a": ("delete", None)}


def test_a_prompt_that_was_only_appended_gets_a_turn_when_it_starts_something(agent):
    agent.session.append(user_message("first"))
    agent.session.append(user_message("second"))
    with agent.session.subagent() as child:
        work(child, {"a": "a"})
    agent.session.append(user_message("third"))
    assert [len(agent.session.plan_rewind(place).files) for place in (1, 2, 3)] == [1, 1, 0]
    agent.session.rewind(2)
    assert contents(agent.project) == {}


def test_outside_a_task_there_is_no_parent_and_a_removed_task_has_none_any_more(agent, monkeypatch):
    monkeypatch.delenv("SESSIONS_SUBAGENT", raising=False)
    assert sessions.subagent_from_env() is None
    monkeypatch.setenv("SESSIONS_SUBAGENT", "nonsense")
    with pytest.raises(RequestError, match="names no parent"):
        sessions.subagent_from_env()
    task = agent.spawn("first", "import os; print(os.environ['SESSIONS_SUBAGENT'])")
    until(lambda: notices(agent.session), "that its end is on record")
    monkeypatch.setenv("SESSIONS_SUBAGENT", task.log.read_text().strip())
    with pytest.raises(ConflictError, match="has ended"):
        sessions.subagent_from_env()
    agent.session.rewind(1)
    with pytest.raises(ConflictError, match="removed by a rewind"):
        sessions.subagent_from_env()


def test_two_who_edit_one_file_at_the_same_time_are_a_conflict(agent):
    agent.turn("first", {"f": "old"})
    with agent.session.begin_turn("second"):
        one, two = agent.session.subagent(), agent.session.subagent()
    with one.begin_turn("1") as first, two.begin_turn("2") as second, first.edit("f"), second.edit("f"):
        (agent.project / "f").write_text("both")
    one.close()
    two.close()
    assert [each.found for each in agent.session.plan_rewind(2).conflicts] == ["edited by two at the same time"]


def test_many_threads_with_a_subagent_each_record_all_they_do(agent):
    with agent.session.begin_turn("first"):
        children = [agent.session.subagent() for _ in range(8)]

    def works(number, child):
        for step in range(5):
            work(child, {f"{number}-{step}": "made", f"own-{number}": f"{step}"})

    threads = [threading.Thread(target=works, args=each) for each in enumerate(children)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child in children:
        child.close()
    assert len(agent.session.plan_rewind(1).files) == 48
    agent.session.rewind(1)
    assert contents(agent.project) == {}


def test_a_fork_carries_what_subagents_did_and_no_task(agent):
    task = agent.spawn("first", "import time; time.sleep(1000)")
    with agent.session.begin_turn("second"), agent.session.subagent() as child:
        work(child, {"a": "a"})
    with agent.session.fork() as fork:
        assert fork.tasks.list() == []
        plan = fork.plan_rewind(1)
        assert {file.path: file.by for file in plan.files} == {"a": child.id}
        assert [gap.kind for gap in plan.gaps] == ["task"]
        fork.rewind(1)
    assert alive(task.pid)
    assert json.loads(agent.transcript.splitlines()[0])["type"] == "metadata"


DIES_IN_AN_EDIT = """
import os, signal, sessions
with sessions.subagent_from_env() as child, child.begin_turn("work") as turn, turn.edit("f"):
    open("f", "w").write("half an edit")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_user_writes_where_a_subagent_died_in_an_edit_is_not_the_agents(agent):
    agent.turn("first", {})
    task = agent.spawn("second", DIES_IN_AN_EDIT)
    agent.session.close()
    with SessionStore(agent.root).open(agent.session.id, read_only=True) as reading:
        until(lambda: reading.tasks.get(task.id).state == "failed", "its end")
    time.sleep(0.02)  # the system stamps files that finely
    (agent.project / "f").write_text("by the user")
    agent.reopen()
    plan = agent.session.plan_rewind(2, on_conflict="refuse")
    assert verdicts(plan) == {"f": ("delete", "unverified")}
    with pytest.raises(ConflictError, match="nobody recorded"):
        agent.session.rewind(plan)
