"""What the agent did to files, net: by turn, by run, since a prompt; and nothing else."""

import os
import shutil
import subprocess

import pytest
from agent import make, tree

from sessions import Diff, FileDiff, NotFoundError, RequestError, SessionStore
from sessions.rewind import filediffs, moves
from sessions.rewind.unified import NO_FILE, Side, patch


def net(said: Diff) -> dict[str, tuple[str, int | None, int | None]]:
    """Return path → (status, insertions, deletions)."""
    return {file.path: (file.status, file.insertions, file.deletions) for file in said.files}


def only(said: Diff) -> FileDiff:
    [file] = said.files
    return file


def marked(file: FileDiff, mark: str) -> list[str]:
    """Return the lines a patch adds or removes."""
    return [line[1:] for line in file.text.split("\n") if line.startswith(mark) and not line.startswith(mark * 3)]


def run(agent, run_id, *edits):
    with agent.session.begin_turn(f"go on with {run_id}", run_id) as turn:
        for made in edits:
            for path, content in made.items():
                with turn.edit(path):
                    make(agent.project / path, content)
    return turn.message_id


# -- net ---------------------------------------------------------------------------------------------------------------


def test_a_turn_shows_what_it_created_changed_and_deleted(agent):
    agent.turn("begin", {"kept.txt": "one\ntwo\n", "gone.txt": "x\ny\n"})
    agent.turn("go on", {"kept.txt": "one\n2\nthree\n", "gone.txt": None, "new/made.txt": "a\n"})
    assert net(agent.session.diff(turn=2)) == {
        "gone.txt": ("deleted", 0, 2),
        "kept.txt": ("modified", 2, 1),
        "new/made.txt": ("created", 1, 0),
    }


def test_the_paths_are_in_order_and_directories_are_not_among_them(agent):
    agent.turn("make", {"b/c": "1\n", "a": "1\n", "b.txt": "1\n", "empty": lambda path: path.mkdir()})
    assert [file.path for file in agent.session.diff().files] == ["a", "b.txt", "b/c"]


def test_several_edits_of_a_turn_are_one_change(agent):
    agent.turn("edit", {"f": "1\n"}, {"f": "1\n2\n"}, {"f": "1\n2\n3\n"})
    file = only(agent.session.diff(turn=1))
    assert (file.status, file.insertions, file.deletions) == ("created", 3, 0)
    assert marked(file, "+") == ["1", "2", "3"]


def test_a_file_changed_and_changed_back_is_not_shown(agent):
    make(agent.project / "f", "old\n")
    agent.turn("there", {"f": "new\n"}, {"f": "old\n"})
    assert net(agent.session.diff(turn=1)) == {}
    agent.turn("there again", {"f": "new\n"})
    agent.turn("and back", {"f": "old\n"})
    assert net(agent.session.diff()) == {}
    assert net(agent.session.diff(turn=2)) == {"f": ("modified", 1, 1)}


def test_a_file_made_and_deleted_is_not_shown(agent):
    agent.turn("try", {"scratch/f": "x"}, {"scratch": None})
    agent.turn("make", {"g": "x"})
    agent.turn("delete", {"g": None})
    assert net(agent.session.diff()) == {}
    assert net(agent.session.diff(since=1)) == {}


def test_a_turn_without_edits_and_a_session_without_anything_show_nothing(agent):
    assert net(agent.session.diff()) == {}
    agent.turn("talk")
    assert net(agent.session.diff(turn=1)) == net(agent.session.diff()) == {}


def test_the_end_is_what_was_recorded_never_what_the_file_is_now(agent):
    agent.turn("write", {"f": "agent\n", "g": "agent\n"})
    make(agent.project / "f", "somebody\n")
    (agent.project / "g").unlink()
    make(agent.project / "users", "mine\n")
    assert marked(only_of(agent.session.diff(), "f"), "+") == ["agent"]
    assert net(agent.session.diff()) == {"f": ("created", 1, 0), "g": ("created", 1, 0)}


def only_of(said: Diff, path: str) -> FileDiff:
    [file] = [file for file in said.files if file.path == path]
    return file


# -- which edits -------------------------------------------------------------------------------------------------------


def test_since_a_prompt_starts_in_front_of_it_and_the_default_is_everything(agent):
    make(agent.project / "f", "0\n")
    ids = [agent.turn(f"to {number}", {"f": f"{number}\n", str(number): "x\n"}) for number in (1, 2, 3)]
    assert set(net(agent.session.diff(since=2))) == {"f", "2", "3"}
    assert marked(only_of(agent.session.diff(since=ids[1]), "f"), "-") == ["1"]
    assert marked(only_of(agent.session.diff(), "f"), "-") == ["0"]
    assert net(agent.session.diff()) == net(agent.session.diff(since=1))


def test_a_prompt_is_named_by_index_id_its_beginning_or_a_checkpoint(agent):
    agent.turn("one", {"f": "1\n"})
    name = agent.turn("two", {"g": "2\n"})
    said = [agent.session.diff(turn=each) for each in (2, name, name[:12], agent.session.checkpoints()[1])]
    assert [set(net(each)) for each in said] == [{"g"}] * 4


def test_a_run_shows_its_turns_wherever_they_are(agent):
    make(agent.project / "f", "0\n")
    run(agent, "a", {"f": "1\n", "a": "x\n"})
    run(agent, "b", {"b": "x\n", "f": "1\n2\n"})
    run(agent, "a", {"f": "1\n2\n3\n"})
    assert set(net(agent.session.diff(run="b"))) == {"f", "b"}
    said = agent.session.diff(run="a")
    assert set(net(said)) == {"f", "a"}
    assert marked(only_of(said, "f"), "+") == ["1", "3"], "what the other run did in between is not its doing"


@pytest.mark.parametrize(
    "asked", [{"turn": 7}, {"since": 7}, {"turn": "msg-nobody"}, {"run": "nobody"}, {"run": ""}, {"turn": 0}]
)
def test_what_is_not_there_is_an_error(agent, asked):
    run(agent, "a", {"f": "1\n"})
    with pytest.raises(NotFoundError):
        agent.session.diff(**asked)


@pytest.mark.parametrize("asked", [{"turn": 1, "run": "a"}, {"turn": 1, "since": 1}, {"run": "a", "since": 1}])
def test_two_selections_at_once_are_an_error(agent, asked):
    run(agent, "a", {"f": "1\n"})
    with pytest.raises(RequestError, match="one of them"):
        agent.session.diff(**asked)


def test_since_a_mark_is_what_came_behind_it_and_a_mark_has_no_turn_of_its_own(agent):
    agent.turn("begin", {"f": "1\n"})
    with agent.session.begin_turn("go on") as turn:
        with turn.edit("f"):
            make(agent.project / "f", "1\n2\n")
        mark = turn.mark("half")
        with turn.edit("f"):
            make(agent.project / "f", "1\n2\n3\n")
    for since in (mark, "2:half"):
        assert marked(only(agent.session.diff(since=since)), "+") == ["3"]
        with pytest.raises(RequestError, match="a mark has no turn of its own"):
            agent.session.diff(turn=since)


def test_single_files_and_directories_can_be_asked_for(agent):
    agent.turn("begin", {"a": "1\n", "sub/b": "1\n", "sub/c": "1\n", "back": "1\n"}, {"back": None})
    with agent.session.begin_turn("gaps") as turn:
        turn.gap("shell", ["sub/built"])
        turn.gap("shell")
    assert net(agent.session.diff(paths=["sub"])) == {"sub/b": ("created", 1, 0), "sub/c": ("created", 1, 0)}
    assert [gap.paths for gap in agent.session.diff(paths=["sub"]).gaps] == [("sub/built",)]
    said = agent.session.diff(turn=1, paths=["a", agent.project / "sub" / "b", "nobody"])
    assert (list(net(said)), said.gaps) == (["a", "sub/b"], ())
    assert list(agent.session.diff(paths=["back"]).files) == []
    with pytest.raises(NotFoundError, match="nobody"):
        agent.session.diff(paths=["nobody"])


def test_a_run_there_is_not_is_an_error_that_names_those_there_are(agent):
    run(agent, "nightly", {"f": "1\n"})
    with pytest.raises(NotFoundError, match="the session has the runs 'nightly'"):
        agent.session.diff(run="nope")


def test_a_move_of_which_one_side_is_asked_for_is_a_creation_or_a_deletion(agent):
    agent.turn("begin", {"old": "1\n2\n3\n"})
    move(agent, ("old", "new"))
    assert net(agent.session.diff(turn=2, paths=["old", "new"])) == {"new": ("moved", 0, 0)}
    assert net(agent.session.diff(turn=2, paths=["old"])) == {"old": ("deleted", 0, 3)}
    assert net(agent.session.diff(turn=2, paths=["new"])) == {"new": ("created", 3, 0)}


def test_gaps_come_with_the_turns_that_have_them(agent):
    agent.turn("one", {"f": "1\n"})
    with agent.session.begin_turn("two", "r") as turn:
        turn.gap("shell", [str(agent.project / "built")])
    agent.turn("three", {"f": "3\n"})
    [gap] = agent.session.diff(turn=2).gaps
    assert (gap.kind, gap.paths, gap.turn) == ("shell", ("built",), turn.message_id)
    assert agent.session.diff().gaps == agent.session.diff(run="r").gaps == agent.session.diff(since=2).gaps == (gap,)
    assert agent.session.diff(turn=1).gaps == agent.session.diff(since=3).gaps == ()


# -- others ------------------------------------------------------------------------------------------------------------


def test_what_another_session_did_is_not_in_it(agent, store):
    make(agent.project / "a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    other = store.create(agent.project)
    agent.turn("first", {"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n9\n", "c.txt": "c\n"})
    with other.begin_turn("theirs") as turn, turn.edit("b.txt", "a.txt"):
        make(agent.project / "b.txt", "b\n")
        make(agent.project / "a.txt", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n")
    agent.turn("second", {"a.txt": "one\n2\n3\n4\nfive\n6\n7\n8\nnine\n"})
    said = agent.session.diff()
    assert set(net(said)) == {"a.txt", "c.txt"}
    assert marked(only_of(said, "a.txt"), "+") == ["one", "five"]
    assert net(said)["a.txt"] == ("modified", 2, 2)
    assert net(other.diff()) == {"a.txt": ("modified", 1, 1), "b.txt": ("created", 1, 0)}
    other.close()


def test_edits_deletions_and_creations_of_the_user_between_two_edits_are_not_shown(agent):
    agent.turn("make", {"f": "agent\n", "g": "agent\n"})
    make(agent.project / "f", "user\nagent\n")
    (agent.project / "g").unlink()
    make(agent.project / "users", "user\n")
    agent.turn("go on", {"f": "user\nagent\nagent again\n", "g": "agent again\n"})
    said = agent.session.diff()
    assert set(net(said)) == {"f", "g"}
    assert marked(only_of(said, "f"), "+") == ["agent", "agent again"]
    assert marked(only_of(said, "g"), "+") == ["agent", "agent again"]
    assert net(said)["g"][0] == "created"


def test_what_the_agent_turned_back_to_how_it_was_is_not_shown_whoever_changed_it_in_between(agent):
    make(agent.project / "f", "old\n")
    agent.turn("change", {"f": "agent\n"})
    make(agent.project / "f", "user\n")
    agent.turn("back", {"f": "old\n"})
    assert net(agent.session.diff()) == {}


def test_an_edit_that_only_looked_is_not_shown(agent):
    make(agent.project / "f", "x\n")
    agent.turn("look", {"f": lambda path: path.read_bytes(), "missing": lambda _: None})
    make(agent.project / "missing", "the user's\n")
    assert net(agent.session.diff()) == {}


# -- rewinds -----------------------------------------------------------------------------------------------------------


def test_a_rewound_turn_is_not_shown_and_an_undone_rewind_is(agent):
    agent.turn("one", {"f": "1\n"})
    agent.turn("two", {"f": "1\n2\n", "g": "x\n"})
    whole = net(agent.session.diff())
    agent.session.rewind(2)
    assert net(agent.session.diff()) == {"f": ("created", 1, 0)}
    agent.session.undo_rewind()
    assert net(agent.session.diff()) == whole


def test_what_a_rewind_of_the_code_took_back_is_not_shown(agent):
    agent.turn("one", {"f": "1\n"})
    removed = agent.turn("two", {"f": "1\n2\n", "g": "x\n"})
    agent.session.rewind(2, scope="code")
    assert net(agent.session.diff()) == {"f": ("created", 1, 0)}
    assert only(agent.session.diff()).by == "agent"
    assert net(agent.session.diff(since=2)) == {}
    assert set(net(agent.session.diff(turn=removed))) == {"f", "g"}, "the turn did it all the same"
    agent.session.undo_rewind()
    assert set(net(agent.session.diff(since=2))) == {"f", "g"}
    agent.session.redo_rewind()
    assert net(agent.session.diff(since=2)) == {}


def test_a_rewind_of_the_code_over_edits_of_the_user_takes_back_the_agents(agent):
    agent.turn("one", {"f": "1\n"})
    agent.turn("two", {"f": "1\n2\n"})
    make(agent.project / "f", "user\n")
    agent.session.rewind(2, scope="code")
    agent.turn("three", {"f": "1\n3\n"})
    file = only(agent.session.diff())
    assert (marked(file, "+"), marked(file, "-")) == (["1", "3"], [])


def test_a_rewind_of_the_code_over_edits_of_the_user_on_both_sides_leaves_what_the_agent_did_before(agent):
    agent.turn("one", {"f": "1\n"})
    make(agent.project / "f", "1\nuser\n")
    agent.turn("two", {"f": "1\nuser\n2\n"})
    make(agent.project / "f", "user again\n")
    agent.session.rewind(2, scope="code")
    assert (agent.project / "f").read_text() == "1\nuser\n"
    file = only(agent.session.diff())
    assert (marked(file, "+"), marked(file, "-"), file.by) == (["1"], [], "agent")


def test_what_a_rewind_brought_back_from_before_the_checkpoint_is_shown_as_its_doing(agent):
    agent.turn("one", {"f": "1\n"})
    agent.turn("two", {"f": "2\n"})
    agent.turn("three", {"g": "3\n"})
    agent.session.rewind(2, scope="code")
    file = only(agent.session.diff(since=3))
    assert (file.path, file.by, marked(file, "+"), marked(file, "-")) == ("f", "rewind", ["1"], ["2"])


def test_a_prompt_that_left_the_conversation_alone_can_still_be_named(agent):
    agent.turn("one", {"f": "1\n"})
    removed = agent.turn("two", {"g": "x\n"})
    agent.session.rewind(2, scope="conversation")
    assert set(net(agent.session.diff(turn=removed))) == {"g"}
    assert set(net(agent.session.diff(since=removed))) == {"g"}
    assert set(net(agent.session.diff())) == {"f", "g"}
    agent.session.rewind(1)
    with pytest.raises(NotFoundError):
        agent.session.diff(turn=removed)


# -- unknown ends ------------------------------------------------------------------------------------------------------


@pytest.fixture
def died(store, project):
    """An agent that died while it edited ``f``, opened again."""
    from agent import Agent

    make(project / "f", "old\n")
    working = Agent(store.root, project)
    working.turn("one", {"f": "1\n"})
    working.session.close()
    pid = os.fork()
    if not pid:
        try:
            working.reopen()
            working.session.begin_turn("two").edit("f").__enter__()
            make(project / "f", "2\n")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    working.reopen()
    yield working
    working.close()


def test_a_file_whose_end_nobody_recorded_is_listed_without_a_patch(died):
    file = only(died.session.diff(turn=2))
    assert (file.path, file.status, file.unverified) == ("f", "modified", True)
    assert (file.text, file.insertions, file.deletions) == ("", None, None)


def test_what_was_recorded_next_stands_in_for_it(died):
    died.turn("three", {"f": "2\n3\n"})
    file = only(died.session.diff(turn=2))
    assert file.unverified
    assert (marked(file, "-"), marked(file, "+")) == (["1"], ["2"])
    assert not only(died.session.diff(turn=3)).unverified
    whole = only(died.session.diff())
    assert (marked(whole, "-"), marked(whole, "+"), whole.unverified) == (["old"], ["2", "3"], True)


def test_in_an_open_turn_the_file_itself_is_the_end(agent):
    agent.turn("one", {"f": "1\n", "g": "1\n"})
    with agent.session.begin_turn("two") as turn:
        with turn.edit("f"):
            make(agent.project / "f", "2\n")
            file = only(agent.session.diff(turn=2))
            assert (marked(file, "+"), file.unverified) == (["2"], False)
            make(agent.project / "f", "2\n3\n")
            assert net(agent.session.diff()) == {"f": ("created", 2, 0), "g": ("created", 1, 0)}
        make(agent.project / "f", "4\n")
        make(agent.project / "g", "by hand\n")
        assert marked(only(agent.session.diff(turn=2)), "+") == ["4"]
        assert marked(only_of(agent.session.diff(), "g"), "+") == ["1"], "the turn did not touch it"
    assert marked(only(agent.session.diff(turn=2)), "+") == ["2", "3"]


def test_a_reader_of_a_turn_open_elsewhere_sees_what_was_recorded(agent, store):
    with agent.session.begin_turn("one") as turn:
        with turn.edit("f"):
            make(agent.project / "f", "1\n")
        with SessionStore(store.root).open(agent.session.id, read_only=True) as reading:
            assert net(reading.diff()) == {"f": ("created", 1, 0)}


# -- another agent -----------------------------------------------------------------------------------------------------


@pytest.fixture
def wave(tmp_path):
    from pathlib import Path

    fixtures = Path(__file__).parents[2] / "fixtures" / "wave"
    shutil.copytree(fixtures / "root", tmp_path / "wave")
    with SessionStore(tmp_path / "wave").open("7d0c9a52", read_only=True) as session:
        yield session


def test_what_another_agent_recorded_is_shown_with_the_next_state_as_the_end(wave):
    said = {file.path: file for file in wave.diff().files}
    assert said
    assert all(file.unverified for file in said.values())
    listed = {each.path for checkpoint in wave.checkpoints() for each in checkpoint.files}
    assert set(said) == listed
    by_turn = [{file.path for file in wave.diff(turn=each.index).files} for each in wave.checkpoints()]
    assert by_turn == [{file.path for file in each.files} for each in wave.checkpoints()]


# -- moves -------------------------------------------------------------------------------------------------------------


def move(agent, *pairs: tuple[str, str], then=lambda: None) -> None:
    with agent.session.begin_turn("move") as turn, turn.edit(*(path for pair in pairs for path in pair)):
        for old, new in pairs:
            (agent.project / new).parent.mkdir(parents=True, exist_ok=True)
            os.rename(agent.project / old, agent.project / new)
        then()


def test_a_move_is_one_entry_and_shows_no_lines(agent):
    make(agent.project / "old.py", "code\n" * 30)
    move(agent, ("old.py", "pkg/new.py"))
    file = only(agent.session.diff())
    assert (file.status, file.moved_from, file.path) == ("moved", "old.py", "pkg/new.py")
    assert (file.insertions, file.deletions) == (0, 0)
    assert "rename from old.py\nrename to pkg/new.py\n" in file.text
    assert "similarity index 100%\n" in file.text
    assert "@@" not in file.text


def test_a_move_with_changes_shows_them(agent):
    make(agent.project / "old.py", "".join(f"{number}\n" for number in range(10)))
    move(agent, ("old.py", "new.py"), then=lambda: make(agent.project / "new.py", "".join(f"{n}\n" for n in range(9))))
    file = only(agent.session.diff())
    assert (file.status, file.moved_from, file.insertions, file.deletions) == ("moved", "old.py", 0, 1)
    assert "similarity index 90%\n" in file.text
    assert marked(file, "-") == ["9"]


def test_a_file_that_shares_less_than_half_is_another_one(agent):
    make(agent.project / "old.py", "".join(f"{number}\n" for number in range(10)))
    kept = "".join(f"{number}\n" for number in range(4)) + "other\n" * 6
    move(agent, ("old.py", "new.py"), then=lambda: make(agent.project / "new.py", kept))
    assert net(agent.session.diff()) == {"new.py": ("created", 10, 0), "old.py": ("deleted", 0, 10)}


def test_empty_files_are_not_moved_and_equal_ones_keep_their_names(agent):
    for path, content in {"a/one": "same\n", "a/two": "same\n", "empty": ""}.items():
        make(agent.project / path, content)
    move(agent, ("a/one", "b/one"), ("a/two", "b/two"), ("empty", "void"))
    said = {file.path: (file.status, file.moved_from) for file in agent.session.diff().files}
    assert said == {
        "b/one": ("moved", "a/one"),
        "b/two": ("moved", "a/two"),
        "empty": ("deleted", None),
        "void": ("created", None),
    }


def test_two_files_that_changed_places_are_two_changes(agent):
    make(agent.project / "a", "a\n")
    make(agent.project / "b", "b\n")
    move(agent, ("a", "c"), ("b", "a"), ("c", "b"))
    assert net(agent.session.diff()) == {"a": ("modified", 1, 1), "b": ("modified", 1, 1)}


def test_a_moved_link_is_a_move(agent):
    (agent.project / "old").symlink_to("somewhere")
    move(agent, ("old", "new"))
    assert (only(agent.session.diff()).status, only(agent.session.diff()).moved_from) == ("moved", "old")


def test_where_there_are_too_many_to_compare_only_equal_files_are_moves(agent, monkeypatch):
    monkeypatch.setattr(moves, "_MOST_PAIRS", 0)
    make(agent.project / "same", "same\n")
    make(agent.project / "alike", "a\nb\nc\n")
    changed = lambda: make(agent.project / "alike2", "a\nb\nd\n")  # noqa: E731
    move(agent, ("same", "same2"), ("alike", "alike2"), then=changed)
    assert {file.path: file.status for file in agent.session.diff().files} == {
        "alike": "deleted",
        "alike2": "created",
        "same2": "moved",
    }


# -- kinds of files ----------------------------------------------------------------------------------------------------


def test_a_change_of_mode_alone_is_two_lines(agent):
    make(agent.project / "run.sh", "x\n")
    (agent.project / "run.sh").chmod(0o644)
    agent.turn("mode", {"run.sh": lambda path: path.chmod(0o755)})
    file = only(agent.session.diff())
    assert (file.status, file.insertions, file.deletions) == ("modified", 0, 0)
    assert file.text == "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"


def test_a_link_is_its_target(agent):
    (agent.project / "link").symlink_to("a")

    def relink(path):
        path.unlink()
        path.symlink_to("b")

    agent.turn("relink", {"link": relink})
    file = only(agent.session.diff())
    assert "\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n" in file.text


def test_a_file_that_became_a_link_is_deleted_and_created(agent):
    make(agent.project / "f", "text\n")
    agent.turn("link", {"f": lambda path: (path.unlink(), path.symlink_to("g"))})
    file = only(agent.session.diff())
    assert (file.status, file.insertions, file.deletions) == ("modified", 1, 1)
    assert "deleted file mode 100644\n" in file.text
    assert "new file mode 120000\n" in file.text


def test_a_file_that_became_a_directory_is_deleted(agent):
    make(agent.project / "f", "text\n")
    agent.turn("directory", {"f": lambda path: (path.unlink(), path.mkdir(), make(path / "g", "x\n"))})
    assert net(agent.session.diff()) == {"f": ("deleted", 0, 1), "f/g": ("created", 1, 0)}


BINARY = {
    "random": bytes(range(256)) * 4,
    "utf-16": "text\n".encode("utf-16"),
    "nuls": b"\0" * 10,
}


@pytest.mark.parametrize("kind", BINARY)
def test_a_binary_file_is_shown_by_size_and_hash(agent, kind):
    make(agent.project / "f", BINARY[kind])
    agent.turn("change", {"f": BINARY[kind] + b"\0more"})
    file = only(agent.session.diff())
    assert (file.binary, file.insertions, file.deletions) == (True, 0, 0)
    last = file.text.split("\n")[-2]
    assert last.startswith("Binary files a/f (")
    assert f"{len(BINARY[kind])} bytes, sha256 " in last
    assert f"{len(BINARY[kind]) + 5} bytes, sha256 " in last


def test_text_in_any_encoding_is_shown_byte_for_byte(agent):
    old, new = "你好\n世界\n".encode("gb18030"), "你好\n\udc80\n".encode("gb18030", "surrogateescape")
    make(agent.project / "f", old)
    agent.turn("change", {"f": new})
    raw = only(agent.session.diff()).text.encode("utf-8", "surrogateescape")
    assert b"-" + old.split(b"\n")[1] + b"\n+" + new.split(b"\n")[1] + b"\n" in raw


def test_a_file_that_became_empty_and_one_made_empty_are_shown(agent):
    make(agent.project / "f", "x\n")
    agent.turn("empty", {"f": "", "g": ""})
    assert net(agent.session.diff()) == {"f": ("modified", 0, 1), "g": ("created", 0, 0)}


def test_a_file_too_large_to_compare_is_shown_by_size_and_hash(agent, monkeypatch):
    monkeypatch.setattr(filediffs, "MOST_BYTES", 3)
    make(agent.project / "f", "old\n")
    agent.turn("change", {"f": "newer\n", "mode": "longer\n"})
    agent.turn("mode", {"mode": lambda path: path.chmod(0o700)})
    file = only_of(agent.session.diff(), "f")
    assert (file.binary, file.insertions, file.deletions) == (False, None, None)
    assert "Files a/f (4 bytes, sha256 " in file.text
    assert only(agent.session.diff(turn=2)).text.endswith("\nnew mode 100700\n")


def test_a_file_over_the_capture_limit_is_listed_with_what_is_known(store, project):
    (store.root).mkdir()
    (store.root / "settings.toml").write_text("[checkpoints]\nmax_file_bytes = 10\n")
    from agent import Agent

    agent = Agent(store.root, project)
    make(project / "big", "x" * 20)
    agent.turn("append", {"big": "x" * 30})
    said = agent.session.diff()
    assert "Files a/big (20 bytes, not captured) and b/big (30 bytes, sha256 " in only(said).text
    assert [gap.kind for gap in said.gaps] == ["over_limit"]
    agent.close()


def test_a_lost_or_damaged_snapshot_costs_only_its_own_patch(agent):
    make(agent.project / "f", "old\n")
    make(agent.project / "g", "old\n or\n")
    agent.turn("change", {"f": "new\n", "g": "newer\n", "h": "x\n"})
    before = {path.name: path for path in (agent.sidecar / "turns").rglob("*.before")}
    os.truncate(before["0001.before"], 0)
    before["0002.before"].write_bytes(b"OLD\n or\n")
    said = {file.path: file for file in agent.session.diff().files}
    for path in ("f", "g"):
        assert said[path].insertions is None
        assert "not kept" in said[path].text
    assert said["h"].insertions == 1


# -- git ---------------------------------------------------------------------------------------------------------------

NAMES = ["plain", "with space", "tab\there", 'quo"te', "back\\slash", "名前", "new\nline", "*", "-dash", "\udcff\udcfe"]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to apply with")


def applied(said: Diff, directory) -> dict[str, tuple[str, object, int]]:
    """Let git apply a diff to a directory; return what it then is."""
    raw = b"".join(file.text.encode("utf-8", "surrogateescape") for file in said.files)
    environment = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(directory.parent), "LC_ALL": "C"}
    subprocess.run(["git", "apply", "-"], input=raw, cwd=directory, env=environment, check=True)
    return {path: state for path, state in tree(directory).items() if state[0] != "directory"}


@needs_git
def test_git_applies_it(agent, tmp_path):
    for place, name in enumerate(NAMES):
        make(agent.project / "changed" / name, "".join(f"{number}\n" for number in range(30)))
        make(agent.project / "deleted" / name, f"{name!r}\n")
        make(agent.project / "moved" / name, f"{place} unlike any other\n" * 3)
    make(agent.project / "latin", "ä\nö\n".encode("latin-1"))
    make(agent.project / "unended", "a\nb")
    make(agent.project / "run", "#!/bin/sh\n")
    (agent.project / "link").symlink_to("run")
    old = tmp_path / "old"
    shutil.copytree(agent.project, old, symlinks=True)
    changed = "".join(f"{number}\n" for number in range(30) if number not in {3, 9, 10, 28}) + "end"
    edits = {f"changed/{name}": changed for name in NAMES} | {f"deleted/{name}": None for name in NAMES}
    edits |= {f"created/{name}": f"new\n{name!r}" for name in NAMES}
    edits |= {"latin": "ü\nö\n".encode("latin-1"), "unended": "a\nb\n", "run": lambda path: path.chmod(0o755)}
    edits |= {"link": lambda path: (path.unlink(), path.symlink_to("latin")), "empty": ""}
    agent.turn("all", edits)
    move(agent, *((f"moved/{name}", f"to/{name}") for name in NAMES))
    said = agent.session.diff()
    assert {file.status for file in said.files} == {"created", "modified", "deleted", "moved"}
    new = {path: state for path, state in agent.files.items() if state[0] != "directory"}
    assert applied(said, old) == new


@needs_git
def test_git_refuses_a_patch_with_a_binary_file_whole(agent, tmp_path):
    (tmp_path / "old").mkdir()
    agent.turn("make", {"a.txt": "text\n", "b.bin": b"\0"})
    with pytest.raises(subprocess.CalledProcessError):
        applied(agent.session.diff(), tmp_path / "old")
    assert os.listdir(tmp_path / "old") == []
    assert [(file.path, file.applies) for file in agent.session.diff().files] == [("a.txt", True), ("b.bin", False)]


@needs_git
def test_git_skips_the_line_between_two_patches_of_a_file(agent, tmp_path):
    first, second = "".join(f"{number}\n" for number in range(20)), "".join(f"{number}\n" for number in range(-1, 20))
    (tmp_path / "old").mkdir()
    agent.turn("begin", {"f": first})
    make(agent.project / "f", second)
    agent.turn("go on", {"f": second + "end"})
    file = only(agent.session.diff())
    assert file.text.count("somebody else changed this file here") == 1
    assert applied(agent.session.diff(), tmp_path / "old")["f"][1] == (first + "end").encode()


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ("a b", b"--- a/a b\t\n"),
        ("a\tb", b'--- "a/a\\tb"\n'),
        ("\udcff", b'--- "a/\\377"\n'),
        ("\x7f", b'--- "a/\\177"\n'),
        ("é", "--- a/é\n".encode()),
        ('"', b'--- "a/\\""\n'),
        ("\ud83d", b'--- "a/\\355\\240\\275"\n'),
        ("/elsewhere/f", b"--- a/elsewhere/f\n"),
    ],
)
def test_a_path_is_spelled_as_git_spells_it(path, spelled):
    assert spelled in patch(path, Side(0o100644, b"x"), Side(0o100644, b"y")).raw


@pytest.mark.parametrize(
    ("old", "new", "head"),
    [
        (b"", b"a\n", b"@@ -0,0 +1 @@"),
        (b"a\n", b"", b"@@ -1 +0,0 @@"),
        (b"a\n", b"a\nb\n", b"@@ -1 +1,2 @@"),
        (b"1\n2\n3\n4\n5\n", b"1\n2\n3\n4\n5\n6\n", b"@@ -3,3 +3,4 @@"),
    ],
)
def test_the_ranges_of_a_hunk(old, new, head):
    assert head in patch("f", Side(0o100644, old), Side(0o100644, new)).raw.split(b"\n")


def test_changes_are_one_hunk_up_to_six_lines_apart():
    old = [b"%d\n" % number for number in range(40)]
    for apart, hunks in ((7, 1), (8, 2)):
        new = list(old)
        new[10] = new[10 + apart] = b"x\n"
        raw = patch("f", Side(0o100644, b"".join(old)), Side(0o100644, b"".join(new))).raw
        assert raw.count(b"\n@@ ") == hunks


def test_nothing_to_a_file_and_back_are_the_same_lines():
    there, back = patch("f", NO_FILE, Side(0o100644, b"a\nb")), patch("f", Side(0o100644, b"a\nb"), NO_FILE)
    assert (there.insertions, there.deletions) == (back.deletions, back.insertions) == (2, 0)


# -- size --------------------------------------------------------------------------------------------------------------


def test_sixty_thousand_lines_are_shown_exactly(agent):
    old = [f"line {number}\n" for number in range(60_000)]
    new = [line for place, line in enumerate(old) if place % 100] + ["one more\n"] * 50
    make(agent.project / "long", "".join(old))
    agent.turn("change", {"long": "".join(new)})
    file = only(agent.session.diff())
    assert (file.insertions, file.deletions) == (50, 600)
    assert (len(marked(file, "+")), len(marked(file, "-"))) == (50, 600)


def test_sixty_thousand_new_lines_are_shown(agent):
    agent.turn("make", {"long": "".join(f"{number}\n" for number in range(60_000))})
    assert len(marked(only(agent.session.diff()), "+")) == 60_000


def test_a_file_called_star_is_one_file(agent):
    make(agent.project / "other", "x\n")
    agent.turn("make", {"*": "star\n"})
    assert net(agent.session.diff()) == {"*": ("created", 1, 0)}


def test_many_files_made_in_one_turn_are_all_there_and_come_one_by_one(agent, monkeypatch):
    def fill(path):
        for number in range(20_000):
            make(path / f"{number % 100}" / f"{number}.txt", f"{number}\n")

    agent.turn("make", {"many": fill})
    read = []
    real = filediffs.Contents.of
    monkeypatch.setattr(filediffs.Contents, "of", lambda self, image: read.append(image) or real(self, image))
    files = iter(agent.session.diff().files)
    assert not read
    first = next(files)
    assert (first.path, len(read)) == ("many/0/0.txt", 1)
    assert sum(1 for file in files if (file.status, file.insertions) == ("created", 1)) == 19_999


# -- nothing is written ------------------------------------------------------------------------------------------------


def test_a_reader_can_diff_without_the_project_and_changes_nothing(agent):
    agent.turn("make", {"f": "1\n"})
    agent.turn("change", {"f": "2\n"})
    name = agent.session.id
    agent.close()
    shutil.rmtree(agent.project)
    before = tree(agent.root)
    with SessionStore(agent.root).open(name, read_only=True) as session:
        assert net(session.diff(turn=2)) == {"f": ("modified", 1, 1)}
        files = session.diff().files
        assert [file.text for file in files] == [file.text for file in files], "it can be gone through twice"
    assert tree(agent.root) == before
