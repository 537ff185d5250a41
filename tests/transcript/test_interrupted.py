"""Tool calls that never returned: what the view makes of them, and that nothing else of it changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcript_shorthand import script

from sessions.transcript import codec, interrupted, reader
from sessions.transcript.messages import Message, Messages

scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=5))
stages = st.one_of(st.sampled_from(["start", "streaming", "running", "end", "later"]), scalars, st.just([1]))
calls = st.fixed_dictionaries(
    {"type": st.just("tool"), "id": st.text(max_size=3), "name": st.text(max_size=3), "stage": stages},
    optional={"parameters": st.one_of(scalars, st.just('{"a":1}'), st.just('{"a')), "result": scalars, "mood": scalars},
)
odd = st.one_of(scalars, st.fixed_dictionaries({"type": st.sampled_from(["text", "image"]), "stage": stages}))
messages = st.builds(
    lambda blocks, more: {**more, "role": "assistant", "blocks": blocks},
    st.lists(st.one_of(calls, odd), max_size=4),
    st.dictionaries(st.sampled_from(["id", "timestamp", "usage", "x"]), scalars),
)


def decoded(value):
    return codec.decode(codec.dumps(value))


@given(messages)
def test_the_view_of_a_message_has_no_unfinished_call_and_is_else_the_message(value):
    entry = decoded(value)
    shown = interrupted.ended(entry)
    assert not interrupted.is_unfinished(shown)
    assert interrupted.ended(shown) is shown
    assert codec.loads(shown.raw) == shown.data
    assert list(shown.data) == list(entry.data)
    assert {**shown.data, "blocks": 0} == {**entry.data, "blocks": 0}
    for before, after in zip(entry.data["blocks"], shown.data["blocks"], strict=True):
        if before == after:
            continue
        assert before["type"] == "tool"
        assert before.get("stage") in interrupted.UNFINISHED or before.get("result") is None
        changed = {key for key in after if after[key] != before.get(key, after)}
        assert changed <= {"stage", "success", "error", "parameters"}
        assert (after["stage"], after["success"]) == ("end", False)
    if not interrupted.is_unfinished(entry):
        assert shown is entry


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('{"command":"ls"}', '{"command":"ls"}'),
        ('{"comm', "{}"),
        ("", "{}"),
        ("[1]", "[1]"),
        ('{"a":"\ud83d"}', '{"a":"\ud83d"}'),
        (None, "{}"),
    ],
)
def test_parameters_that_broke_off_are_none(given, shown):
    call = {"type": "tool", "id": "t", "name": "Bash", "parameters": given, "stage": "streaming"}
    if given is None:
        del call["parameters"]
    (block,) = Message.from_entry(interrupted.ended(decoded({"role": "assistant", "blocks": [call]}))).blocks
    assert (block.parameters, block.stage, block.success) == (shown, "end", False)


def test_messages_keep_the_lines_of_the_file_beside_what_they_show():
    call = {"type": "tool", "id": "t", "name": "Bash", "parameters": "{}", "stage": "running", "result": "half"}
    entries = [decoded({"role": "user", "blocks": []}), decoded({"role": "assistant", "blocks": [call]})]
    shown = Messages(entries, seen_as=interrupted.ended)
    assert shown.entries == tuple(entries)
    assert shown.repaired == shown[1:].repaired == 1
    assert shown[:1].repaired == 0
    assert next(shown.lines()) == entries[0].raw
    assert json.loads(list(shown.lines())[1])["blocks"][0]["error"] == interrupted.ERROR
    assert shown[1].to_line() == next(shown[1:].lines())
    assert shown[1].blocks[0].result == "half"


words = st.lists(
    st.sampled_from(["u1", "a1", "u2", "a2", "u3", "a3", "c1", "c2", "m1", "x", "o", "T:t", "R:u2", "c3>a1"]),
    max_size=14,
)


@given(words, st.integers(1, 6))
def test_the_last_messages_are_the_end_of_the_view(memory_file, chosen, count):
    memory_file.write_bytes(b"".join(raw + b"\n" for raw in script(" ".join(chosen))))
    view = reader.read_view(memory_file)
    found = reader.read_end(memory_file, count)
    assert len(found) == min(count, len(view))
    assert {entry.raw for entry in found} <= {entry.raw for entry in view}
    if len({entry.id for entry in view}) == sum(word[0] in "uacm" for word in chosen):  # nothing was said twice
        assert found == view[-count:]


def test_the_end_of_a_long_file_is_read_and_no_more(memory_file, monkeypatch):
    memory_file.write_bytes(b"".join(raw + b"\n" for raw in script(" ".join(f"u{n} a{n}" for n in range(3000)))))
    decoded_lines = []
    decode = codec.decode
    monkeypatch.setattr(codec, "decode", lambda raw: decoded_lines.append(raw) or decode(raw))
    assert [entry.id for entry in reader.read_end(memory_file, 3)] == ["a2998", "u2999", "a2999"]
    assert len(decoded_lines) < 10


@pytest.fixture(scope="module")
def memory_file(tmp_path_factory):
    return tmp_path_factory.mktemp("end") / "s.jsonl"


@pytest.mark.parametrize("stage", [None, "waiting", ["running"], 7])
def test_a_call_in_a_stage_nobody_knows_ends_where_it_has_no_result(stage):
    call = {"type": "tool", "id": "t", "name": "Bash", "parameters": None, "stage": stage}
    (block,) = Message.from_entry(interrupted.ended(decoded({"role": "assistant", "blocks": [call]}))).blocks
    assert (block.parameters, block.stage, block.success) == ("{}", "end", False)
    told = decoded({"role": "assistant", "blocks": [call | {"result": "done"}]})
    assert interrupted.ended(told) is told
