"""What a rewind says of files while background work goes with it."""

import pytest

from sessions import assistant_message


@pytest.fixture
def running(session):
    """A task that runs; it is stopped at the end."""
    with session.begin_turn("serve") as turn:
        task = session.tasks.spawn(["sleep", "1000"], label="server")
        yield session, turn, task
    session.tasks.cancel(task.id)


def test_a_file_of_a_subagent_that_is_done_is_a_conflict_where_somebody_changed_it_though_a_task_goes(running, project):
    session, turn, _ = running
    with session.subagent() as child, child.begin_turn("write") as its, its.edit("f"):
        (project / "f").write_text("the subagent's")
    turn.end()
    (project / "f").write_text("mine")
    plan = session.plan_rewind(1)
    assert [task.label for task in plan.tasks] == ["server"]
    assert [(file.path, file.reason) for file in plan.files] == [("f", "conflict")]


def test_a_file_of_a_subagent_inside_attached_work_is_no_conflict(running, project):
    session, turn, _ = running
    done = []
    session.tasks.attach(cancel=lambda: done.append(1), wait=lambda _: bool(done), label="inside")
    child = session.subagent()
    child.append(assistant_message("on it"))
    with child.subagent() as nested, nested.begin_turn("write") as its, its.edit("f"):
        (project / "f").write_text("the subagent's")
    turn.end()
    (project / "f").write_text("still being written")
    assert [(file.path, file.reason) for file in session.plan_rewind(1).files] == [("f", None)]
    child.close()
