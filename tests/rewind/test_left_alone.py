"""What a rewind must not touch: files nobody edited, turns that only looked, snapshots that are gone."""

import os
from pathlib import Path

import pytest
from agent import contents, make, verdicts

from sessions.rewind.payloads import Payloads


def _times(project: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for parent, _, names in os.walk(project):
        for name in names:
            status = os.lstat(os.path.join(parent, name))
            found[os.path.join(parent, name)] = status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    return found


def test_a_missing_file_the_agent_only_looked_for_and_the_user_made_is_not_deleted(agent):
    agent.turn("read it", {"config.toml": lambda _path: None})
    make(agent.project / "config.toml", "the user's")
    before = _times(agent.project)
    report = agent.session.rewind(1)
    assert _times(agent.project) == before
    assert report.files == ()
    assert report.conflicts == ()
    assert not report.partial


def test_a_file_the_agent_only_looked_at_and_the_user_changed_is_not_touched(agent):
    make(agent.project / "f", "v1")
    agent.turn("read it", {"f": lambda _path: None})
    agent.turn("read it again", {"f": lambda _path: None})
    make(agent.project / "f", "the user's")
    before = _times(agent.project)
    report = agent.session.rewind(1, on_conflict="refuse")
    assert _times(agent.project) == before
    assert report.files == ()


def test_a_turn_without_edits_touches_nothing_and_stores_no_snapshot(agent):
    make(agent.project / "f", "v1")
    before = _times(agent.project)
    agent.turn("just talk")
    assert not (agent.sidecar / "turns").exists()
    assert agent.session.plan_rewind(1).files == ()
    agent.session.rewind(1)
    assert _times(agent.project) == before


def test_a_rewind_writes_only_the_files_that_differ(agent):
    for name in ("same", "edited", "other"):
        make(agent.project / name, f"{name} v1")
    agent.turn("edit", {"edited": "v2"}, {"same": "v2"}, {"same": "same v1"})
    before = _times(agent.project)
    report = agent.session.rewind(1)
    after = _times(agent.project)
    assert verdicts(report) == {"edited": ("restore", None)}
    assert {os.path.basename(path) for path in after if after[path] != before[path]} == {"edited"}


@pytest.mark.parametrize("damage", ["deleted", "shortened", "garbled"])
def test_a_lost_snapshot_names_the_file_and_the_rest_is_restored(agent, damage):
    make(agent.project / "lost", "lost v1")
    make(agent.project / "kept", "kept v1")
    agent.turn("edit", {"lost": "lost v2", "kept": "kept v2"})
    agent.reopen()
    (snapshot,) = [path for path in agent.sidecar.glob("turns/1/files/*.before") if path.read_bytes() == b"lost v1"]
    if damage == "deleted":
        snapshot.unlink()
    else:
        snapshot.write_bytes(b"los" if damage == "shortened" else b"l0st v1")
    before = _times(agent.project)
    plan = agent.session.plan_rewind(1)
    assert verdicts(plan) == {"kept": ("restore", None), "lost": ("skip", "lost")}
    assert plan.partial
    report = agent.session.rewind(plan)
    assert verdicts(report) == verdicts(plan)
    assert report.partial
    assert contents(agent.project) == {"lost": b"lost v2", "kept": b"kept v1"}
    lost = str(agent.project / "lost")
    assert _times(agent.project)[lost] == before[lost]


def test_many_lost_snapshots_of_one_content_ask_each_place_once_and_find_one_that_came_back(agent, monkeypatch):
    names = [f"f{number}" for number in range(40)]
    for name in names:
        make(agent.project / name, "the same")
    agent.turn("edit", {name: f"{name} v2" for name in names})
    agent.reopen()
    snapshots = list(agent.sidecar.glob("turns/1/files/*.before"))
    for snapshot in snapshots:
        snapshot.unlink()
    asked, intact = [], Payloads.intact
    monkeypatch.setattr(Payloads, "intact", lambda self, image: asked.append(image) or intact(self, image))
    assert set(verdicts(agent.session.plan_rewind(1)).values()) == {("skip", "lost")}
    assert len(names) < len(asked) <= 3 * len(names)
    make(snapshots[7], "the same")
    assert set(verdicts(agent.session.plan_rewind(1)).values()) == {("restore", None)}


def test_a_lost_snapshot_of_a_file_that_is_as_it_was_is_no_loss(agent):
    make(agent.project / "f", "v1")
    agent.turn("edit", {"f": "v2"})
    for snapshot in agent.sidecar.glob("turns/1/files/*"):
        snapshot.unlink()
    make(agent.project / "f", "v1")
    report = agent.session.rewind(1)
    assert verdicts(report) == {"f": ("unchanged", None)}
    assert not report.partial


def test_check_names_the_file_of_a_lost_snapshot(agent):
    make(agent.project / "f", "v1")
    agent.turn("edit", {"f": "v2"})
    next(agent.sidecar.glob("turns/1/files/*.before")).unlink()
    findings = [finding for finding in agent.session.check() if finding.kind == "lost_snapshot"]
    assert len(findings) == 1
    assert str(agent.project / "f") in findings[0].where


def test_an_unnamed_neighbour_in_the_same_directory_survives_everything(agent):
    make(agent.project / "d" / "users.txt", "the user's")
    agent.turn("make", {"d/made.txt": "made"})
    agent.turn("delete", {"d/made.txt": None})
    agent.session.rewind(2)
    agent.session.rewind(1)
    assert contents(agent.project) == {"d/users.txt": b"the user's"}


def test_our_own_store_inside_the_project_is_never_captured(store, tmp_path):
    from agent import Agent

    agent = Agent(tmp_path / "root", tmp_path)
    agent.turn("hello")
    with agent.session.begin_turn("meddle") as turn, turn.edit(agent.session.path) as edit:
        assert edit.gap == "store"
    assert [gap.kind for gap in agent.session.plan_rewind(2).gaps] == ["store"]
    report = agent.session.rewind(2)
    assert [(file.action, file.reason) for file in report.files] == [("skip", "outside")]
    assert report.partial
    agent.close()


def test_a_file_inside_a_git_directory_is_a_gap_and_left_alone(agent):
    make(agent.project / ".git" / "config", "v1")
    with agent.session.begin_turn("configure") as turn, turn.edit(".git/config") as edit:
        assert edit.gap == "git"
        make(agent.project / ".git" / "config", "v2")
    report = agent.session.rewind(1)
    assert verdicts(report) == {".git/config": ("skip", "outside")}
    assert [gap.kind for gap in report.gaps] == ["git"]
    assert contents(agent.project) == {".git/config": b"v2"}


@pytest.mark.parametrize("swap", ["a link to elsewhere", "a link to a secret"])
def test_a_link_swapped_in_after_the_edit_leads_nowhere(agent, tmp_path, swap):
    outside = tmp_path / "outside"
    make(outside / "f", "secret")
    make(agent.project / "d" / "f", "v1")
    agent.turn("edit", {"d/f": "v2"})
    if swap == "a link to elsewhere":
        make(agent.project / "d", None)
        (agent.project / "d").symlink_to(outside)
    else:
        (agent.project / "d" / "f").unlink()
        (agent.project / "d" / "f").symlink_to(outside / "f")
    before = _times(outside)
    agent.session.rewind(1)
    agent.session.undo_rewind()
    agent.session.redo_rewind()
    assert _times(outside) == before
    assert contents(outside) == {"f": b"secret"}


def test_an_added_directory_is_only_written_when_it_is_given_again(agent, tmp_path):
    beside = tmp_path / "beside"
    make(beside / "f", "v1")
    agent.turn("start")
    agent.reopen(add_dirs=[beside])
    agent.turn("edit", {str(beside / "f"): "v2"})
    agent.reopen()
    report = agent.session.plan_rewind(2)
    assert verdicts(report) == {str(beside / "f"): ("skip", "outside")}
    agent.reopen(add_dirs=[beside])
    agent.session.rewind(2)
    assert contents(beside) == {"f": b"v1"}
