import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from transcript_shorthand import line, script

from sessions.errors import RequestError
from sessions.transcript import codec
from sessions.transcript.entry import Kind
from sessions.transcript.messages import (
    BangBlock,
    CompactBlock,
    Message,
    Messages,
    OtherBlock,
    TaskNotificationBlock,
    TextBlock,
    ToolBlock,
    assistant_message,
    message_of,
    user_message,
)


def entries(words):
    return [codec.decode(raw) for raw in script(words)]


def test_a_message_of_the_user_is_written_in_the_order_the_format_has():
    record = json.loads(user_message("Fix it").to_line())
    assert list(record) == ["timestamp", "id", "role", "blocks"]
    assert record["role"] == "user"
    assert record["blocks"] == [{"type": "text", "content": "Fix it"}]
    assert record["id"].startswith("msg-")
    assert record["timestamp"].endswith("Z")


def test_a_message_of_the_model_has_text_blocks_and_usage():
    call = ToolBlock(id="t", name="Bash", parameters='{"command":"ls"}', stage="end", background_task_id="b1")
    message = assistant_message(
        "Running", blocks=[call, {"type": "hologram", "depth": 2**70}], usage={"total_tokens": 7}
    )
    assert json.loads(message.to_line()) == {
        "timestamp": message.timestamp,
        "id": message.id,
        "role": "assistant",
        "blocks": [
            {"type": "text", "content": "Running"},
            {
                "type": "tool",
                "id": "t",
                "name": "Bash",
                "parameters": '{"command":"ls"}',
                "stage": "end",
                "backgroundTaskId": "b1",
            },
            {"type": "hologram", "depth": 2**70},
        ],
        "usage": {"total_tokens": 7},
    }
    assert message.text == "Running"


def test_meta_messages_and_those_of_hooks_say_so():
    assert json.loads(user_message("x", is_meta=True).to_line())["isMeta"] is True
    assert json.loads(user_message("x", source="hook").to_line())["blocks"][0]["source"] == "hook"


def test_id_and_timestamp_can_be_given():
    message = user_message("x", message_id="msg-1", timestamp="2026-03-01T09:00:00.000Z")
    assert (message.id, message.timestamp) == ("msg-1", "2026-03-01T09:00:00.000Z")


@pytest.mark.parametrize("word", "u1 a1 c1 k1 m1 h1 b1 n1 f1 u1=half\ud83d".split())  # noqa: SIM905
def test_a_message_that_was_read_is_written_as_it_was_read(word):
    raw = codec.dumps(json.loads(line(word))) + b" \r"
    assert Message.from_entry(codec.decode(raw)).to_line() == raw


def test_a_changed_copy_is_written_changed_and_keeps_what_nobody_knows():
    record = {
        "timestamp": "t",
        "id": "a1",
        "role": "assistant",
        "blocks": [{"type": "text", "content": "half", "mood": 1}],
        "zeal": 9,
    }
    message = Message.from_entry(codec.decode(codec.dumps(record)))
    assert json.loads(message.model_copy(update={"usage": {"total_tokens": 1}}).to_line()) == {
        **record,
        "usage": {"total_tokens": 1},
    }
    assert message.model_copy().to_line() == message.to_line()


KINDS = {
    "u1": TextBlock,
    "c1": CompactBlock,
    "k1": CompactBlock,
    "b1": BangBlock,
    "n1": TaskNotificationBlock,
}


@pytest.mark.parametrize(("word", "kind"), KINDS.items())
def test_blocks_are_typed(word, kind):
    assert type(Message.from_entry(entries(word)[0]).blocks[0]) is kind


def test_the_text_of_a_compact_message_is_its_summary():
    assert Message.from_entry(entries("c1=done")[0]).text == "done"


def test_a_notice_that_holds_markup_is_one_block():
    (block,) = Message.from_entry(entries("n1")[0]).blocks
    assert block.summary == "</summary>"


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["type", "content", "id", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
odd_blocks = st.one_of(
    json_values,
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["text", "tool", "bang", "compact", "task_notification", "file_history"]),
            "content": json_values,
        }
    ),
)


@given(
    st.lists(odd_blocks, max_size=4),
    st.dictionaries(st.sampled_from(["id", "timestamp", "usage", "isMeta", "additionalFields", "text"]), json_values),
)
def test_however_odd_a_stored_message_is_it_can_be_read(blocks, more):
    raw = codec.dumps({**more, "role": "user", "blocks": blocks})
    entry = codec.decode(raw)
    assert entry.kind is Kind.MESSAGE
    message = Message.from_entry(entry)
    assert message.to_line() == raw
    assert len(message.blocks) == sum(isinstance(block, dict) for block in blocks)
    assert isinstance(message.text, str)


REFUSED = {
    "no role": {"blocks": []},
    "another role": {"role": "system", "blocks": []},
    "a tool without a name": {
        "role": "assistant",
        "blocks": [{"type": "tool", "id": "t", "parameters": "{}", "stage": "end"}],
    },
    "a text without content": {"role": "user", "blocks": [{"type": "text"}]},
    "no block": {"role": "user", "blocks": ["text"]},
    "a stage nobody knows": {
        "role": "user",
        "blocks": [{"type": "tool", "id": "t", "name": "n", "parameters": "{}", "stage": "late"}],
    },
}


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED.keys())
def test_a_host_is_told_what_is_wrong_with_its_message(value):
    with pytest.raises(RequestError, match="not a message"):
        message_of(value)


def test_what_json_cannot_say_is_the_callers_mistake():
    with pytest.raises(RequestError, match="cannot be written"):
        assistant_message("x", usage={"cost": float("nan")}).to_line()


def test_a_message_without_id_and_timestamp_gets_them_in_front():
    assert list(json.loads(message_of({"role": "user", "blocks": [], "mood": 1}).to_line())) == [
        "timestamp",
        "id",
        "role",
        "blocks",
        "mood",
    ]


def test_messages_cannot_be_changed():
    message = user_message("x")
    with pytest.raises(ValidationError):
        message.role = "assistant"


def test_messages_are_a_sequence_that_builds_its_models_when_asked():
    messages = Messages(entries("u1 a1 u2"))
    assert [message.id for message in messages] == ["u1", "a1", "u2"]
    assert (len(messages), messages[-1].id, messages[0] is messages[0]) == (3, "u2", True)
    assert [message.id for message in messages[1:]] == ["a1", "u2"]
    with pytest.raises(IndexError):
        messages[3]
    assert not hasattr(messages, "append")
    assert isinstance(
        Message.from_entry(codec.decode(b'{"role":"user","blocks":[{"type":["x"]}]}')).blocks[0], OtherBlock
    )


def test_reading_and_writing_transcripts_does_not_import_pydantic():
    code = "import sys; from sessions.transcript import reader, writer, cut; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)
