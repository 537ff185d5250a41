"""A plan changes nothing and says everything; one that no longer holds is refused."""

import os

import pytest
from agent import Agent, make, tree, verdicts

from sessions import AmbiguousError, NotFoundError, RequestError, StaleError, assistant_message
from sessions.rewind.background import Stopped


@pytest.fixture
def worked(agent):
    make(agent.project / "f", "one\ntwo\nthree\n")
    agent.turn("one")
    agent.turn("two", {"f": "one\n2\nthree\nfour\n", "g": "made\n"})
    agent.turn("three")
    return agent


def _everything(agent):
    times = {}
    for top in (agent.root, agent.project):
        for parent, _, names in os.walk(top):
            for name in names:
                times[os.path.join(parent, name)] = os.lstat(os.path.join(parent, name)).st_mtime_ns
    return tree(agent.root), tree(agent.project), times


def test_a_plan_changes_no_byte_and_no_time(worked):
    before = _everything(worked)
    for scope in ("both", "conversation", "code"):
        for on_conflict in ("overwrite", "keep", "refuse"):
            worked.session.plan_rewind(2, scope=scope, on_conflict=on_conflict)
    assert _everything(worked) == before


def test_a_plan_says_what_will_be(worked):
    plan = worked.session.plan_rewind(2)
    assert plan.to_json() == {
        "rewind_id": None,
        "session": worked.session.id,
        "removed_messages": 4,
        "files": [
            _file("f", "restore", 1, 2),
            _file("g", "delete", 0, 1),
        ],
        "conflicts": [],
        "cancelled": [],
        "gaps": [],
        "prompt": "two",
        "partial": False,
        "dry_run": True,
        "scope": "both",
        "history": "rewrite",
        "run": None,
        "mark": None,
        "notes": [],
    }
    assert plan.changes_files
    report = worked.session.rewind(plan)
    assert report.to_json() == plan.to_json() | {"rewind_id": report.rewind_id, "dry_run": False}


def _file(path, action, insertions, deletions):
    counts = {"insertions": insertions, "deletions": deletions}
    return {"path": path, "action": action, "reason": None, "by": "agent", **counts, "note": ""}


def test_what_was_asked_for_is_said_of_a_plan_its_report_and_their_undo(worked):
    with worked.session.begin_turn("marked", run_id="nightly") as turn, turn.edit("f"):
        make(worked.project / "f", "later")
    with worked.session.begin_turn("more") as turn:
        turn.mark("here")
    for asked in (
        {"to": 2, "history": "hide"},
        {"to": f"{turn.index}:here"},
        {"run": "nightly"},
        {"to": 2, "scope": "code"},
    ):
        plan = worked.session.plan_rewind(**asked)
        report = worked.session.rewind(plan)
        undo = worked.session.undo_rewind()
        said = [
            {key: each.to_json()[key] for key in ("scope", "history", "run", "mark")} for each in (plan, report, undo)
        ]
        assert said[0] == said[1] == said[2]
        assert said[0] == {"scope": "both", "history": "rewrite", "run": None, "mark": None} | {
            key: value for key, value in asked.items() if key != "to"
        } | ({"scope": "code"} if "run" in asked else {}) | ({"mark": "here"} if ":" in str(asked.get("to")) else {})


def test_the_notes_of_a_report_are_in_its_json(worked):
    report = worked.session.rewind(2, scope="conversation")
    assert report.to_json()["notes"] == list(report.notes) != []


def test_the_options_of_a_plan_count_and_not_those_given_with_it(worked):
    make(worked.project / "f", "by hand")
    plan = worked.session.plan_rewind(2, scope="code", on_conflict="keep")
    report = worked.session.rewind(plan, scope="both", on_conflict="refuse")
    assert verdicts(report) == {"f": ("skip", "conflict"), "g": ("delete", None)}
    assert len(worked.session.checkpoints()) == 3


STALE = {
    "a message came": lambda agent: agent.session.append(assistant_message("more")),
    "a turn came": lambda agent: agent.turn("four"),
    "a file of the plan was changed": lambda agent: make(agent.project / "f", "by hand"),
    "a file of the plan was deleted": lambda agent: make(agent.project / "g", None),
    "a file of the plan is as it was": lambda agent: make(agent.project / "f", "one\ntwo\nthree\n"),
    "another rewind came": lambda agent: agent.session.rewind(3),
}


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
@pytest.mark.parametrize("change", STALE.values(), ids=STALE.keys())
def test_a_plan_that_no_longer_holds_is_refused_and_nothing_changes(worked, change, restart):
    plan = worked.session.plan_rewind(2)
    change(worked)
    if restart:
        worked.reopen()
    before = worked.files, worked.transcript
    with pytest.raises(StaleError) as stale:
        worked.session.rewind(plan)
    assert stale.value.exit_code == 5
    assert "plan again" in str(stale.value)
    assert (worked.files, worked.transcript) == before
    worked.session.rewind(worked.session.plan_rewind(2))


def test_a_plan_of_code_alone_is_stale_too_when_messages_came(worked):
    plan = worked.session.plan_rewind(2, scope="code")
    worked.session.append(assistant_message("more"))
    with pytest.raises(StaleError, match="transcript"):
        worked.session.rewind(plan)
    worked.session.rewind(2, scope="code")
    assert set(worked.files) == {"f"}


@pytest.mark.parametrize("stopped", [Stopped(), Stopped(settled=("task-0",))])
def test_messages_that_came_are_only_expected_where_something_was_stopped_or_settled(agent, stopped):
    agent.turn("one", {"f": "1"})
    plan = agent.session.plan_rewind(1)
    agent.session.append(assistant_message("more"))
    again = agent.session._going_back._rewinder._planner.again
    if stopped.is_empty:
        with pytest.raises(StaleError, match="transcript"):
            again(plan, stopped=stopped)
    else:
        assert again(plan, stopped=stopped).removed_messages == plan.removed_messages + 1


def test_a_plan_of_the_conversation_alone_does_not_mind_files(worked):
    plan = worked.session.plan_rewind(2, scope="conversation")
    make(worked.project / "f", "by hand")
    worked.session.rewind(plan)
    assert len(worked.session.checkpoints()) == 1


def test_a_file_the_plan_does_not_name_may_change(worked):
    plan = worked.session.plan_rewind(2)
    make(worked.project / "other", "by hand")
    worked.session.rewind(plan)
    assert set(worked.files) == {"f", "other"}


def test_a_plan_for_another_session_is_refused(worked, store, project):
    other = Agent(store.root, project)
    other.turn("one")
    with pytest.raises(RequestError):
        other.session.rewind(worked.session.plan_rewind(1))
    other.close()


def test_a_target_can_be_named_in_every_way(worked):
    checkpoint = worked.session.checkpoints()[1]
    for to in (2, checkpoint, checkpoint.id, checkpoint.id[:-3], "2"):
        plan = worked.session.plan_rewind(to)
        assert (plan.to, plan.index) == (checkpoint.id, 2)


@pytest.mark.parametrize("to", [0, -1, 4, 10**9, "4", "msg-nobody", "two", "-1"])
def test_a_target_that_is_not_there_is_an_error_that_says_how_many_there_are(worked, to):
    with pytest.raises(NotFoundError, match="3 checkpoints") as missing:
        worked.session.plan_rewind(to)
    assert missing.value.exit_code == 3


def test_the_beginning_of_several_ids_is_ambiguous(worked):
    with pytest.raises(AmbiguousError) as several:
        worked.session.plan_rewind("msg-")
    assert len(several.value.details["candidates"]) == 3


def test_an_empty_target_is_no_target(worked):
    with pytest.raises(RequestError):
        worked.session.plan_rewind("")


def test_a_session_without_a_prompt_has_nowhere_to_go(agent):
    for work in (agent.session.plan_rewind, agent.session.rewind):
        with pytest.raises(NotFoundError, match="no checkpoint"):
            work(1)
    assert agent.session.checkpoints() == []
    agent.session.close()
    assert not agent.root.exists() or list(agent.root.rglob("*.ckpt")) == []


def test_lines_are_counted_both_ways_for_an_undo(worked):
    worked.session.rewind(2)
    plan = worked.session.plan_undo()
    assert [(file.path, file.insertions, file.deletions) for file in plan.files] == [("f", 2, 1), ("g", 1, 0)]


def test_a_file_that_changes_while_the_rewind_looks_is_refused_and_nothing_changes(worked, monkeypatch):
    from sessions.rewind.payloads import Payloads

    real = Payloads.intact

    def intact(self, image):
        make(worked.project / "f", "in between")
        return real(self, image)

    transcript = worked.transcript
    monkeypatch.setattr(Payloads, "intact", intact)
    with pytest.raises(StaleError):
        worked.session.rewind(2)
    assert worked.transcript == transcript
    assert (worked.project / "f").read_text() == "in between"
    assert (worked.project / "g").exists()


def test_a_file_that_changes_after_the_commit_is_left_alone_and_said(worked, monkeypatch):
    from sessions.rewind.journal import Journal

    real = Journal.commit

    def commit(self, record):
        real(self, record)
        make(worked.project / "f", "in between")

    monkeypatch.setattr(Journal, "commit", commit)
    report = worked.session.rewind(2)
    assert verdicts(report) == {"f": ("skip", "conflict"), "g": ("delete", None)}
    assert report.partial
    assert (worked.project / "f").read_text() == "in between"
    monkeypatch.undo()
    worked.session.undo_rewind()
    assert (worked.project / "f").read_text() == "in between"
    assert (worked.project / "g").read_text() == "made\n"
