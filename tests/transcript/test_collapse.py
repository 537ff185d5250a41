import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcript_shorthand import Naive, names, script

from sessions.errors import RequestError
from sessions.transcript import codec, collapse, turns
from sessions.transcript.entry import Kind


def entries(words):
    return [codec.decode(line) for line in script(words)]


VIEWS = {
    "": "",
    "H u1 a1": "u1 a1",
    "u1 a1 u2 a2 u3 a3 c1 u2 a2 u3 a3 u4 a4 c2 u3 a3 u4 a4 u5 a5": "c2 u3 a3 u4 a4 u5 a5",
    "u1 a1 k1 u1 a1 u2": "k1 u1 a1 u2",
    "u1 c1@9 c2@8 u2": "c1 u2",
    "u1 c1@8 c2@9 u2": "c2 u2",
    "u1 c1@8 c2@8 u2": "c2 u2",
    "u1 c1@9 x o T:t c2@8 c3@7 u2": "c1 u2",
    "u1 a1 c1@9 u2 c2@8 u3": "c2 u3",  # a message between: the last rules, whatever the clock says
    "u1 a1 u2 a2 c1>a1 u3": "u1 a1 c1 u3",
    "u1 a1 u2 a2 c1>nowhere u3": "c1 u3",
    "u1 a1 c1 u2 a2 u3 c2>a2 u4": "c1 u2 a2 c2 u4",
    "u1 a1 c1 u2 a2 u3 c2>a1 u4": "c2 u4",  # a1 was no longer in view
    "u1 a1 u2 c1>a1 u3 a3 u4 c2>a3 u5": "u1 a1 c1 u3 a3 c2 u5",
    "u1 a1 a2 a1=done": "u1 a1 a2",
    "u1 a1 u2 R:u2 u3": "u1 a1 u3",
    "u1 a1 c1 u1 a1 u2 R:u1 u3": "u3",
    "u1 a1 u2 a2 R:u2 u2 a2 R:u2 u3": "u1 a1 u3",
    "u1 R:nobody u2": "u1 u2",
    "m1 h1 u1 b1 n1": "m1 h1 u1 b1 n1",
}


@pytest.mark.parametrize(("words", "seen"), VIEWS.items())
def test_the_model_sees(words, seen):
    assert names(collapse.model_view(entries(words))) == seen


HISTORIES = {
    "u1 a1 u2 a2 u3 a3 c1 u2 a2 u3 a3 u4 a4 c2 u3 a3 u4 a4 u5 a5": "u1 a1 u2 a2 u3 a3 c1 u2 a2 u3 a3 u4 a4 c2 u3 a3 u4 a4 u5 a5",
    "u1 a1=half a2 a1=done u2": "u1 a1 a2 u2",
    "u1 c1@9 c2@8 u2": "u1 c1 u2",
    "u1 u2 a2 R:u2 u3": "u1 u3",
    "H T:t x o u1 e a1": "u1 a1",
}


@pytest.mark.parametrize(("words", "seen"), HISTORIES.items())
def test_history_shows(words, seen):
    assert names(collapse.history(entries(words))) == seen


def test_a_message_saved_while_streaming_is_read_back_finished():
    finished = collapse.history(entries("u1 a1=half a2 a1=whole"))[1]
    assert finished.blocks[0]["content"] == "whole"


def test_header_and_titles_are_never_hidden():
    shown = collapse.visible(entries("H u1 T:t x u2 R:u1 u3"))
    assert [entry.kind for entry in shown] == [Kind.HEADER, Kind.TITLE, Kind.MESSAGE]


def test_messages_without_an_id_are_never_taken_for_one_another():
    anonymous = codec.decode(b'{"role":"user","blocks":[]}')
    assert collapse.model_view([anonymous, anonymous]) == [anonymous, anonymous]


ROUNDS = {
    "u1 a1 u2 a2": "u1 a1 | u2 a2",
    "u1 a1 a2 a3 u2": "u1 a1 | a2 | a3 | u2",
    "u1 a1 a1=more a2": "u1 a1 a1 | a2",
    "a1 u1 u2 a2": "a1 | u1 | u2 a2",
    "c1 a1 u1 a2": "c1 | a1 | u1 a2",
    "u1 a1 c1 a1 u1": "u1 a1 | c1 | a1 | u1",
    "m1 h1 u1 a1 n1 a2": "m1 | h1 | u1 a1 | n1 a2",
    "H x T:t u1 o a1": "u1 a1",
}


@pytest.mark.parametrize(("words", "rounds"), ROUNDS.items())
def test_messages_fall_into_api_rounds(words, rounds):
    assert " | ".join(names(step) for step in turns.api_rounds(entries(words))) == rounds


COMPACTIONS = {
    "u1 a1 u2 a2 u3 a3": "u2 a2 u3 a3",
    "u1 a1 a2 a3": "a2 a3",
    "c1 u1 a1": "u1 a1",
    "c1": "",
    "u1": "u1",
    "u1 a1 c1 u2": "u1 a1 u2",
}


@pytest.mark.parametrize(("view", "kept"), COMPACTIONS.items())
def test_a_compaction_says_the_last_rounds_again_verbatim_and_no_old_summary(view, kept):
    compact, *again = collapse.compaction_lines(entries(view), "what happened", now="2026-03-01T10:00:00.000Z")
    assert names(map(codec.decode, again)) == kept
    assert set(again) <= set(script(view))
    record = json.loads(compact)
    assert list(record) == ["timestamp", "id", "role", "blocks"]
    assert record["blocks"] == [{"type": "compact", "content": "what happened"}]
    assert record["role"] == "assistant"
    assert record["id"].startswith("msg-")


@pytest.mark.parametrize(("rounds", "kept"), [(0, ""), (1, "u2 a2"), (9, "u1 a1 u2 a2")])
def test_as_many_rounds_are_kept_as_asked_for(rounds, kept):
    _, *again = collapse.compaction_lines(entries("u1 a1 u2 a2"), "s", keep_rounds=rounds, now="")
    assert names(map(codec.decode, again)) == kept


@pytest.mark.parametrize("summary", ["", " \n"])
def test_an_empty_summary_compacts_nothing(summary):
    with pytest.raises(RequestError, match="empty"):
        collapse.compaction_lines(entries("u1"), summary, now="")


def test_a_compaction_can_keep_the_view_up_to_a_message():
    lines = script("u1 a1 u2 a2")
    lines += collapse.compaction_lines([*map(codec.decode, lines)], "s", keep_rounds=0, now="", after="a1")
    assert names(collapse.model_view(map(codec.decode, lines)))[:6] == "u1 a1 "


def test_compacting_again_and_again_grows_by_one_round_trip_each_time():
    lines = script("u1 a1 u2 a2 u3 a3")
    sizes = []
    for turn in range(4, 40, 3):
        view = collapse.model_view(map(codec.decode, lines))
        lines += collapse.compaction_lines(view, f"summary before {turn}", now=f"2026-03-01T10:00:{turn}.000Z")
        lines += script(" ".join(f"u{n} a{n}" for n in range(turn, turn + 3)))
        sizes.append(len(lines))
    assert {after - before for before, after in itertools.pairwise(sizes)} == {1 + 4 + 6}
    history = collapse.history(map(codec.decode, lines))
    assert [entry.raw for entry in history] == lines


def test_compacting_twice_with_nothing_between_lets_the_second_summary_rule():
    lines = script("u1 a1")
    for summary in ("first", "second"):
        view = collapse.model_view(map(codec.decode, lines))
        lines += collapse.compaction_lines(view, summary, keep_rounds=0, now="2026-03-01T10:00:00.000Z")
    (compact,) = collapse.model_view(map(codec.decode, lines))
    assert compact.blocks[0]["content"] == "second"


WORDS = st.sampled_from(
    [
        "H",
        "u1",
        "u2",
        "u3",
        "a1",
        "a2",
        "a3",
        "a1=more",
        "c1",
        "c2@9",
        "c3@2",
        "c4>a1",
        "c5>u2",
        "k1",
        "m1",
        "h1",
        "b1",
        "n1",
        "f1",
        "R:u1",
        "R:u2",
        "R:a1",
        "T:t",
        "T:s",
        "x",
        "o",
        "e",
    ]
)
SCRIPTS = st.lists(WORDS, max_size=25).map(" ".join)


@given(SCRIPTS)
def test_view_and_history_agree_with_a_plain_reading_of_the_contract(words):
    naive = Naive(b"".join(line + b"\n" for line in script(words)))
    assert [entry.raw for entry in collapse.history(entries(words))] == naive.history()
    assert [entry.raw for entry in collapse.model_view(entries(words))] == naive.view()


PROMPTS = {
    "u1": True,
    "a1": False,
    "m1": False,
    "h1": False,
    "b1": False,
    "n1": False,
    "c1": False,
    "H": False,
    "x": False,
    "f1": False,
}


@pytest.mark.parametrize(("word", "is_one"), PROMPTS.items())
def test_a_prompt_is_what_the_user_typed(word, is_one):
    assert turns.is_prompt(entries(word)[0]) is is_one


def test_a_prompt_has_an_id_and_keeps_what_was_typed():
    command = {"type": "text", "content": "/review", "customCommandContent": "Review it all.", "source": "user"}
    record = {
        "id": "u1",
        "role": "user",
        "blocks": [command, {"type": "image", "url": "x"}, {"type": "text", "content": "now"}],
    }
    entry = codec.decode(codec.dumps(record))
    assert turns.is_prompt(entry)
    assert turns.prompt_text(entry) == "/review\nnow"
    assert not turns.is_prompt(codec.decode(b'{"role":"user","blocks":[]}'))
