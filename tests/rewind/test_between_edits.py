"""What somebody else does between two edits, an edit that outlives its turn, and what is no word or path."""

import pytest
from agent import contents, make, verdicts

from sessions import ConflictError, DataError, RequestError, StaleError


@pytest.fixture
def mixed(agent):
    """One turn edits ``f`` twice, and the user changes it in between."""
    make(agent.project / "f", "one\n")
    with agent.session.begin_turn("edit twice") as turn:
        with turn.edit("f"):
            make(agent.project / "f", "one\ntwo\n")
        make(agent.project / "f", "one\ntwo\nUSER\n")
        with turn.edit("f"):
            make(agent.project / "f", "one\ntwo\nUSER\nthree\n")
    return agent


def test_what_the_user_did_between_two_edits_of_a_turn_is_not_the_agents(mixed):
    patch = "".join(file.text for file in mixed.session.diff().files)
    assert "+two" in patch
    assert "+three" in patch
    assert "+USER" not in patch


def test_a_plan_says_that_somebody_changed_a_file_between_the_edits(mixed):
    [file] = mixed.session.plan_rewind(1).files
    assert (file.action, file.reason) == ("restore", None)
    assert "between the agent's edits" in file.note
    mixed.session.rewind(1)
    assert contents(mixed.project) == {"f": b"one\n"}
    mixed.session.undo_rewind()
    assert contents(mixed.project) == {"f": b"one\ntwo\nUSER\nthree\n"}


def test_an_edit_that_only_looks_does_not_make_the_users_change_the_agents(agent):
    make(agent.project / "f", "one\n")
    with agent.session.begin_turn("edit, then look") as turn:
        with turn.edit("f"):
            make(agent.project / "f", "two\n")
        make(agent.project / "f", "the user's\n")
        with turn.edit("f"):
            pass
    plan = agent.session.plan_rewind(1, on_conflict="refuse")
    assert verdicts(plan) == {"f": ("restore", "conflict")}
    with pytest.raises(ConflictError):
        agent.session.rewind(plan)
    assert "the user's" not in "".join(file.text for file in agent.session.diff().files)


def test_an_edit_that_outlives_its_turn_still_belongs_to_it(agent):
    turn = agent.session.begin_turn("slow")
    slow = turn.edit("slow")
    turn.end()
    agent.turn("next", {"other": "x"})
    with slow:
        make(agent.project / "slow", "done at last")
    late = turn.edit("late")
    with late:
        make(agent.project / "late", "x")
    assert [file.path for file in agent.session.checkpoints()[0].files] == ["late", "slow"]
    assert {file.path for file in agent.session.diff(turn=1).files} == {"slow", "late"}
    agent.session.rewind(1)
    assert contents(agent.project) == {}


def test_an_edit_left_open_in_a_removed_turn_is_no_obstacle(agent):
    turn = agent.session.begin_turn("slow")
    slow = turn.edit("slow")
    turn.end()
    agent.session.rewind(1)
    agent.turn("again", {"a": "a"})
    with pytest.raises(ConflictError, match="removed"), slow:
        make(agent.project / "slow", "too late")
    agent.session.rewind(1)
    assert contents(agent.project) == {"slow": b"too late"}


@pytest.mark.parametrize("kind", [None, 5, "", " ", "two\nlines", "x" * 201])
def test_a_kind_of_gap_is_a_word_and_a_wrong_one_leaves_the_timeline_whole(agent, kind):
    with agent.session.begin_turn("go") as turn:
        with turn.edit("f"):
            make(agent.project / "f", "x")
        with pytest.raises(RequestError):
            turn.gap(kind)
        with pytest.raises(RequestError):
            turn.gap("shell", [5])
        turn.gap("shell", [b"bytes"])
    assert [gap.paths for gap in agent.session.plan_rewind(1).gaps] == [("bytes",)]
    agent.session.rewind(1)
    assert contents(agent.project) == {}


@pytest.mark.parametrize("run", ["", " ", 5, "a\nb"])
def test_a_run_is_labelled_with_what_can_be_asked_for_again(agent, run):
    with pytest.raises(RequestError):
        agent.session.begin_turn("go", run_id=run)


def test_one_path_is_one_path_and_not_its_letters(agent):
    agent.turn("go", {"a.txt": "a", "b.txt": "b"})
    assert verdicts(agent.session.plan_rewind(1, scope="code", paths="a.txt")) == {"a.txt": ("delete", None)}
    agent.session.rewind(1, scope="code", paths=agent.project / "a.txt")
    assert contents(agent.project) == {"b.txt": b"b"}
    agent.session.undo_rewind(paths="a.txt")
    assert contents(agent.project) == {"a.txt": b"a", "b.txt": b"b"}
    for paths in (5, [5], [None]):
        with pytest.raises(RequestError):
            agent.session.plan_rewind(1, scope="code", paths=paths)


def test_a_policy_for_a_path_that_is_not_concerned_is_refused(agent):
    agent.turn("go", {"dir/a.txt": "a"})
    make(agent.project / "dir/a.txt", "by hand")
    for path in ("dir/b.txt", "di", "elsewhere"):
        with pytest.raises(RequestError, match="on_conflict names it"):
            agent.session.rewind(1, on_conflict={path: "keep"})
    assert agent.session.rewind(1, on_conflict={"dir": "keep"}).partial
    assert contents(agent.project) == {"dir/a.txt": b"by hand"}


def test_a_conflict_that_changed_once_more_since_the_plan_makes_it_stale(agent):
    agent.turn("go", {"f": "agent"})
    make(agent.project / "f", "by hand")
    plan = agent.session.plan_rewind(1)
    make(agent.project / "f", "by hand, and more of it")
    with pytest.raises(StaleError):
        agent.session.rewind(plan)
    assert contents(agent.project) == {"f": b"by hand, and more of it"}


def test_keeping_a_named_file_keeps_it_although_nobody_knows_what_the_agent_left(agent):
    for name in ("a", "b"):
        make(agent.project / name, "0")
    turn = agent.session.begin_turn("crashes")
    turn.edit("a", "b")
    for name in ("a", "b"):
        make(agent.project / name, "1")
    agent.session._turn = None  # as after a crash
    agent.reopen()
    report = agent.session.rewind(1, on_conflict={"b": "keep"})
    assert verdicts(report) == {"a": ("restore", "unverified"), "b": ("skip", "unverified")}
    assert contents(agent.project) == {"a": b"0", "b": b"1"}


def test_a_directory_something_comes_back_into_stays(agent):
    agent.turn("one", {"n/a": "1"})
    make(agent.project / "n/user", "the user's")
    agent.turn("two", {"n": None})
    agent.turn("three", {"n/a": "3"})
    plan = agent.session.plan_rewind(1)
    assert verdicts(plan) == {"n": ("skip", None), "n/a": ("delete", None), "n/user": ("recreate", None)}
    agent.session.rewind(plan)
    assert contents(agent.project) == {"n/user": b"the user's"}
    agent.session.undo_rewind()
    assert contents(agent.project) == {"n/a": b"3"}


@pytest.mark.parametrize("instead", ["a file", "a link"])
def test_a_directory_the_agent_replaced_comes_back_whole_without_a_conflict(agent, instead):
    make(agent.project / "s/x", "x")
    made = (lambda path: path.write_text("s")) if instead == "a file" else (lambda path: path.symlink_to("elsewhere"))
    with agent.session.begin_turn("replace") as turn:
        with turn.edit("s/new"):
            make(agent.project / "s/new", "new")
        with turn.edit("s"):
            make(agent.project / "s", None)
            made(agent.project / "s")
    shown = {file.path: file.status for file in agent.session.diff().files}
    assert shown == {"s": "created", "s/x": "deleted"}
    plan = agent.session.plan_rewind(1, on_conflict="refuse")
    assert plan.refused is None
    assert not plan.partial
    agent.session.rewind(plan)
    assert contents(agent.project) == {"s/x": b"x"}
    agent.session.undo_rewind()
    assert not (agent.project / "s").is_dir() or (agent.project / "s").is_symlink()


def test_what_is_in_a_directory_that_stands_in_a_files_way_is_named_and_new_things_in_it_make_the_plan_stale(agent):
    agent.turn("go", {"a": "a1"})
    agent.turn("on", {"a": "a2"})
    (agent.project / "a").unlink()
    make(agent.project / "a/u", "the user's")
    plan = agent.session.plan_rewind(2)
    assert verdicts(plan) == {"a": ("restore", "conflict"), "a/u": ("delete", None)}
    make(agent.project / "a/u2", "one more")
    with pytest.raises(StaleError):
        agent.session.rewind(plan)
    agent.session.rewind(2)
    assert contents(agent.project) == {"a": b"a1"}
    agent.session.undo_rewind()
    assert contents(agent.project) == {"a/u": b"the user's", "a/u2": b"one more"}


@pytest.mark.parametrize("lost", [b"{", b"\0\0", b""])
def test_without_the_record_of_a_turn_no_rewind_guesses_where_it_was(agent, lost):
    for number in (1, 2, 3):
        with agent.session.begin_turn(f"turn {number}", run_id="r") as turn, turn.edit("f"):
            make(agent.project / "f", f"f{number}")
    agent.close()
    log = agent.sidecar / "timeline.jsonl"
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join(lost if b'"kind":"turn","turn":2' in line else line for line in lines if line) + b"\n")
    agent.reopen()
    for to, options in ((1, {}), (2, {}), (None, {"run": "r"})):
        with pytest.raises(DataError, match="damaged"):
            agent.session.rewind(to, **options)
    assert contents(agent.project) == {"f": b"f3"}
    for selected in ({"run": "r"}, {"turn": 3}, {}):
        assert "lost_records" in [gap.kind for gap in agent.session.diff(**selected).gaps]
    agent.session.rewind(3)
    assert contents(agent.project) == {"f": b"f2"}


def test_a_file_that_was_only_looked_at_in_front_of_a_mark_is_nobodys_to_put_back(agent):
    make(agent.project / "a", "a")
    with agent.session.begin_turn("look") as turn:
        with turn.edit("a"):
            pass
        turn.mark("here")
    make(agent.project / "a", "the user's")
    assert agent.session.plan_rewind("1:here").files == ()


@pytest.mark.parametrize("policy", ["refuse", "keep", "overwrite"])
def test_what_somebody_put_into_a_directory_the_agent_made_of_a_file_is_a_conflict(agent, policy):
    make(agent.project / "d", "a file")
    agent.turn("make it a directory", {"d": lambda path: (path.unlink(), make(path / "x", "x"))})
    make(agent.project / "d/user", "the user's")
    plan = agent.session.plan_rewind(1, on_conflict=policy)
    assert [conflict.path for conflict in plan.conflicts] == ["d"]
    if policy == "refuse":
        with pytest.raises(ConflictError):
            agent.session.rewind(plan)
        return
    report = agent.session.rewind(plan)
    assert report.partial is (policy == "keep")
    kept = {"d/user": b"the user's"} if policy == "keep" else {"d": b"a file"}
    assert contents(agent.project) == kept
    agent.session.undo_rewind()
    assert contents(agent.project) == {"d/x": b"x", "d/user": b"the user's"}
