"""What a rewind does to the transcript: which bytes stay, which go, what is said once more."""

import json
import os
import stat

import pytest
from agent import Agent, contents, make

from sessions import SessionStore, assistant_message, user_message


def _lines(agent) -> list[bytes]:
    return agent.transcript.split(b"\n")[:-1]


def _of(lines: list[bytes], kind: str) -> list[bytes]:
    return [line for line in lines if json.loads(line).get("type") == kind]


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        (5, ["summary two", "prompt 3", "done", "prompt 4", "done"]),
        (3, ["prompt 1", "done", "prompt 2", "done"]),
    ],
)
def test_a_rewind_after_two_compactions_keeps_header_and_titles_and_no_trace_of_the_prompt(agent, target, seen):
    """u1 a1 u2 a2 u3 a3 c1 u2 a2 u3 a3 u4 a4 c2 u3 a3 u4 a4 u5 a5, with titles between."""
    ids = {}
    for number in (1, 2, 3):
        ids[number] = agent.turn(f"prompt {number}", {"f": f"v{number}"})
    agent.session.set_title("First title")
    agent.session.compact("summary one")
    ids[4] = agent.turn("prompt 4", {"f": "v4"})
    agent.session.set_title("Second title · ähm \U0001f600")
    agent.session.compact("summary two")
    ids[5] = agent.turn("prompt 5", {"f": "v5"})
    agent.reopen()
    before = _lines(agent)
    report = agent.session.rewind(ids[target])
    after = _lines(agent)
    assert after[0] == before[0]
    assert _of(after, "metadata") == _of(before, "metadata")
    titles = _of(before, "custom-title")
    assert _of(after, "custom-title") == ([*titles, titles[-1]] if target == 5 else titles)
    assert after[-1] == titles[-1]
    cut = next(place for place, line in enumerate(before) if ids[target].encode() in line)
    assert after[:cut] == before[:cut]
    assert {line for line in after[cut:] if b"custom-title" not in line} == set()
    for number in range(target, 6):
        assert ids[number].encode() not in agent.transcript
        assert f"prompt {number}".encode() not in agent.transcript
    assert [message.text for message in agent.session.messages] == seen
    assert report.removed_messages == {5: 2, 3: 8}[target]
    assert contents(agent.project) == {"f": f"v{target - 1}".encode()}


def test_a_rewind_between_compactions_leaves_the_earlier_summary_in_charge(agent):
    for number in (1, 2, 3):
        agent.turn(f"prompt {number}")
    agent.session.compact("summary one")
    agent.turn("prompt 4")
    agent.session.compact("summary two")
    agent.turn("prompt 5")
    before = agent.transcript
    agent.session.rewind(5)
    texts = [message.text for message in agent.session.messages]
    assert texts == ["summary two", "prompt 3", "done", "prompt 4", "done"]
    agent.session.rewind(4)
    texts = [message.text for message in agent.session.messages]
    assert texts == ["summary one", "prompt 2", "done", "prompt 3", "done"]
    agent.session.rewind(2)
    assert [message.text for message in agent.session.messages] == ["prompt 1", "done"]
    for _undo in range(3):
        agent.session.undo_rewind()
    assert agent.transcript == before


def test_messages_said_again_by_a_compaction_count_once(agent):
    for number in (1, 2, 3):
        agent.turn(f"prompt {number}")
    agent.session.compact("summary")
    agent.turn("prompt 4")
    assert agent.session.plan_rewind(4).removed_messages == 2
    assert agent.session.plan_rewind(3).removed_messages == 2 + 1 + 2
    assert agent.session.plan_rewind(1).removed_messages == 6 + 1 + 2


def test_ten_rewinds_in_a_row_leave_one_header(agent):
    for number in range(11):
        agent.turn(f"prompt {number}")
    header = _lines(agent)[0]
    for target in range(11, 1, -1):
        agent.session.rewind(target)
        assert [line for line in _lines(agent) if b'"metadata"' in line] == [header]
        assert _lines(agent)[0] == header


def test_ten_rewinds_of_a_headerless_file_leave_it_headerless(agent):
    for number in range(11):
        agent.turn(f"prompt {number}")
    headless = _headless(agent)
    for target in range(11, 0, -1):
        headless.rewind(target)
        assert b'"metadata"' not in headless.path.read_bytes()
    assert headless.path.read_bytes() == b""
    with headless.begin_turn("again"):
        pass
    assert b'"metadata"' not in headless.path.read_bytes()
    headless.close()


def _headless(agent):
    session = agent.session
    session.close()
    session.path.write_bytes(session.path.read_bytes().split(b"\n", 1)[1])
    return SessionStore(agent.root).open(session.id)


def test_a_title_is_said_once_more_only_where_it_is_not_the_last_line_already(agent):
    agent.turn("one")
    agent.session.set_title("A title")
    agent.turn("two")
    before = _lines(agent)
    agent.session.rewind(2)
    assert _lines(agent) == before[: len(before) - 2]
    agent.turn("two")
    agent.turn("three")
    agent.session.rewind(3)
    assert len(_of(_lines(agent), "custom-title")) == 2
    agent.session.rewind(2)
    assert len(_of(_lines(agent), "custom-title")) == 2


def test_without_a_title_none_is_invented(agent):
    agent.turn("one")
    agent.turn("two")
    before = _lines(agent)
    agent.session.rewind(2)
    assert _lines(agent) == before[:-2]


def test_back_to_the_first_prompt_clears_the_conversation_and_reverts_every_edit(agent):
    make(agent.project / "f", "v0")
    before = agent.files
    agent.turn("one", {"f": "v1", "g": "made"})
    agent.turn("two", {"f": None, "d/h": "made"})
    agent.session.set_title("Kept")
    report = agent.session.rewind(1)
    assert agent.files == before
    assert list(agent.session.messages) == list(agent.session.history()) == []
    assert report.prompt == "one"
    assert agent.session.checkpoints() == []
    assert [json.loads(line)["type"] for line in _lines(agent)] == ["metadata", "custom-title"]
    agent.reopen()
    (row,) = agent.store.list(agent.project)
    assert (row.id, row.title, row.first_prompt) == (agent.session.id, "Kept", None)
    agent.turn("one again")
    assert [message.text for message in agent.session.messages] == ["one again", "done"]


def test_what_a_hook_said_before_the_first_prompt_stays(agent):
    agent.session.append(user_message("rules of the house", source="hook"))
    agent.session.append(user_message("only for the model", is_meta=True))
    before = agent.transcript
    agent.turn("one")
    agent.session.rewind(1)
    assert agent.transcript == before
    agent.session.close()
    assert [row.id for row in SessionStore(agent.root).list(agent.project)] == [agent.session.id]
    SessionStore(agent.root).open(agent.session.id).close()
    assert agent.transcript == before


def test_an_edit_followed_by_a_message_of_a_hook_is_taken_back(agent):
    make(agent.project / "f", "v1")
    with agent.session.begin_turn("change") as turn:
        agent.session.append(assistant_message("editing"))
        with turn.edit("f"):
            make(agent.project / "f", "v2")
        agent.session.append(assistant_message("edited"))
        agent.session.append(user_message("formatted f", source="hook"))
    agent.session.append(user_message("another hook", source="hook"))
    assert [each.prompt for each in agent.session.checkpoints()] == ["change"]
    report = agent.session.rewind(1)
    assert contents(agent.project) == {"f": b"v1"}
    assert report.removed_messages == 5


def test_lines_nobody_can_read_go_with_their_turn_and_return_with_undo(agent):
    agent.turn("one")
    with open(agent.session.path, "ab") as file:
        file.write(b'{"type":"from the future","x":1}\n\0\0\0\nnot json\n')
    agent.reopen()
    before = agent.transcript
    agent.turn("two")
    with open(agent.session.path, "ab") as file:
        file.write(b"\xff\xfe\n[]\n")
    agent.reopen()
    full = agent.transcript
    agent.session.rewind(2)
    assert agent.transcript == before
    agent.session.undo_rewind()
    assert agent.transcript == full
    agent.session.rewind(1)
    assert len(_lines(agent)) == 1
    agent.session.undo_rewind()
    agent.session.undo_rewind() if agent.session.rewinds()[0].state == "done" else None
    assert agent.transcript == full


@pytest.mark.parametrize("torn", [b'{"timestamp":"torn', b'{"id":"msg-x","timestamp":"t","role":"user","blocks":[]}'])
def test_a_last_line_that_was_not_ended_goes_and_returns_with_its_turn(agent, torn):
    agent.turn("one")
    agent.turn("two")
    agent.session.close()
    with open(agent.session.path, "ab") as file:
        file.write(torn)
    agent.reopen()
    before = agent.transcript
    agent.session.rewind(2)
    assert torn not in agent.transcript
    assert agent.transcript.endswith(b"\n")
    agent.session.undo_rewind()
    assert agent.transcript == before


def test_mode_owner_and_a_link_at_the_path_survive(agent, tmp_path):
    agent.turn("one")
    agent.turn("two")
    agent.session.close()
    elsewhere = tmp_path / "elsewhere.jsonl"
    os.rename(agent.session.path, elsewhere)
    agent.session.path.symlink_to(elsewhere)
    elsewhere.chmod(0o640)
    agent.reopen()
    agent.session.rewind(2)
    assert agent.session.path.is_symlink()
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o640
    assert b'"two"' not in elsewhere.read_bytes()
    agent.session.undo_rewind()
    assert b'"two"' in elsewhere.read_bytes()


def test_every_derived_figure_is_that_of_the_rewound_transcript(agent):
    agent.turn("one")
    agent.session.append(assistant_message("short", usage={"total_tokens": 100}))
    agent.turn("two")
    agent.session.append(assistant_message("long", usage={"total_tokens": 9000}))
    assert agent.store.list(agent.project)[0].total_tokens == 9000
    agent.session.rewind(2)
    (row,) = agent.store.list(agent.project)
    assert row.total_tokens == 100
    assert row.first_prompt == row.title == "one"
    assert len(agent.session.messages) == len(agent.session.history()) == 3
    assert [each.index for each in agent.session.checkpoints()] == [1]
    assert agent.session.title is None
    agent.session.rewind(1)
    (row,) = agent.store.list(agent.project)
    assert (row.total_tokens, row.first_prompt, row.title) == (None, None, None)
    assert len(agent.session.messages) == 0


def test_a_rewind_counts_as_touching_and_latest_is_the_one_touched_last(store, project):
    first, second = Agent(store.root, project), Agent(store.root, project)
    for number, agent in enumerate((first, second), 1):
        agent.turn("one")
        agent.turn("two")
        os.utime(agent.session.path, ns=(number * 10**9, number * 10**9))
    assert store.latest(project).id == second.session.id
    first.session.rewind(2)
    assert store.latest(project).id == first.session.id
    os.utime(first.session.path, ns=(10**9, 10**9))
    first.session.undo_rewind()
    assert store.latest(project).id == first.session.id
    first.close()
    second.close()


def test_a_prompt_listed_twice_is_cut_at_its_first_place(agent):
    first = agent.turn("one")
    agent.turn("two")
    again = user_message("one", message_id=first)
    agent.session.append(again)
    agent.session.append(assistant_message("answer"))
    assert [each.prompt for each in agent.session.checkpoints()] == ["one", "two"]
    agent.session.rewind(first)
    assert first.encode() not in agent.transcript


def test_the_prompt_comes_back_whole_however_long_it_is(agent):
    long = "wörter \U0001f600 " * 5000
    agent.turn("short")
    agent.turn(long)
    assert agent.session.plan_rewind(2).prompt == long
    assert agent.session.checkpoints()[1].prompt == long
    assert agent.session.rewind(2).prompt == long


def test_a_lone_half_of_a_surrogate_pair_is_no_reason_to_fail(agent):
    agent.turn("one \ud83d", {"f": "v1"}, answer="\ud83d")
    agent.session.set_title("half \ude00")
    agent.turn("two \ud83d")
    before = agent.transcript
    assert agent.session.plan_rewind(2).to_json()["prompt"] == "two \ud83d"
    agent.session.rewind(2)
    agent.session.undo_rewind()
    assert agent.transcript == before
    assert agent.session.rewind(1).prompt == "one \ud83d"


def test_a_rewind_says_which_messages_are_gone_only_by_number(agent):
    agent.turn("one")
    agent.turn("two")
    report = agent.session.rewind(2)
    assert set(report.to_json()) == {
        "rewind_id", "session", "removed_messages", "files", "conflicts", "cancelled", "gaps", "prompt", "partial",
        "dry_run", "scope", "history", "run", "mark", "notes",
    }  # fmt: skip
    assert report.session is agent.session
    assert report.to_json()["session"] == agent.session.id


def test_the_transcript_can_be_far_larger_than_what_is_read_at_once(agent):
    agent.turn("one")
    for _number in range(6):
        agent.session.append(assistant_message("x" * 1_500_000))
    agent.session.set_title("Big")
    agent.turn("two", answer="y" * 3_000_000)
    before = agent.transcript
    agent.session.rewind(2)
    assert agent.session.title == "Big"
    agent.session.undo_rewind()
    assert agent.transcript == before
    agent.session.rewind(1)
    agent.session.undo_rewind()
    assert agent.transcript == before
