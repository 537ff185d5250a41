import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.transcript import codec
from sessions.transcript.entry import Kind

surrogates = st.integers(0xD800, 0xDFFF).map(chr)
texts = st.text(st.one_of(st.characters(), surrogates), max_size=30).map(
    lambda text: text.encode("utf-16", "surrogatepass").decode(
        "utf-16", "surrogatepass"
    )  # JSON cannot keep a pair apart
)
integers = st.one_of(
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
)
scalars = st.one_of(st.none(), st.booleans(), integers, st.floats(allow_nan=False, allow_infinity=False), texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


@given(st.one_of(st.binary(), st.text().map(str.encode), values.map(lambda value: json.dumps(value).encode())))
def test_any_line_is_written_as_it_was_read(raw):
    assert codec.encode(codec.decode(raw)) == raw


@given(values)
def test_what_is_dumped_is_loaded_again_exactly(value):
    loaded = codec.loads(codec.dumps(value))
    assert loaded == value
    assert repr(loaded) == repr(value)  # 1 is not 1.0, and not True


@given(values, st.sampled_from([True, False]))
def test_loads_agrees_with_the_standard_library(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    raw = text.encode("utf-8", "surrogatepass")
    try:
        raw.decode()
    except UnicodeDecodeError:
        with pytest.raises(ValueError):
            codec.loads(raw)
    else:
        assert repr(codec.loads(raw)) == repr(json.loads(raw))


@given(values)
def test_dumped_json_is_one_line_of_utf8_without_spaces(value):
    raw = codec.dumps({"value": value})
    assert b"\n" not in raw
    raw.decode()
    assert raw.startswith(b'{"value":')


def test_non_ascii_is_raw_and_half_surrogate_pairs_are_escapes():
    assert codec.dumps({"a": "用户\u2028\u2029\u0085😀\ud83d"}) == '{"a":"用户\u2028\u2029\u0085😀\\ud83d"}'.encode()


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"])
@pytest.mark.parametrize("shape", ["{}", '{{"a":{}}}', "[1,{}]", '{{"a":[{{"b": {} }}]}}'])
def test_integers_beyond_64_bits_stay_integers(number, shape):
    text = shape.format(number)
    assert repr(codec.loads(text.encode())) == repr(json.loads(text))


def test_a_long_run_of_digits_in_a_text_changes_nothing():
    assert codec.loads(b'{"a":"' + b"7" * 9000 + b'","b":1.5,"c":1e300}') == {"a": "7" * 9000, "b": 1.5, "c": 1e300}


UNREADABLE = {
    "empty": b"",
    "null": b"null",
    "an array": b"[1]",
    "a text": b'"a"',
    "a number": b"1",
    "cut": b'{"timestamp":"20',
    "NULs": b"\0" * 100,
    "NULs in front of a record": b"\0\0" + b'{"a":1}',
    "invalid UTF-8": b'{"a":"\xff"}',
    "a surrogate in UTF-8": b'{"a":"\xed\xa0\xbd"}',
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "a float out of range": b'{"a":1e999}',
    "a raw control character": b'{"a":"\x01"}',
    "two records": b'{"a":1}{"b":2}',
    "200 000 arrays deep": b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "200 000 objects deep": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "deep with half a surrogate pair": b'{"b":"\\ud83d","a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "an integer of 5 000 digits": b'{"a":' + b"7" * 5000 + b"}",
    "5 000 digits beside half a pair": b'{"b":"\\ud83d","a":-' + b"7" * 5000 + b"}",
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_line_that_cannot_be_read_is_opaque_and_kept(raw):
    entry = codec.decode(raw)
    assert (entry.kind, entry.data) == (Kind.OPAQUE, None)
    assert codec.encode(entry) == raw
    assert (entry.id, entry.role, entry.blocks, entry.is_compact, entry.after, entry.title) == (
        None,
        None,
        [],
        False,
        None,
        None,
    )


KINDS = {
    b'{"type":"metadata","workdir":"/a"}': Kind.HEADER,
    b'{"__meta__":true}': Kind.HEADER,
    b'{"__meta__":1}': Kind.OTHER,
    b'{"type":"custom-title","customTitle":"a"}': Kind.TITLE,
    b'{"type":"custom-title","customTitle":7}': Kind.OTHER,
    b'{"type":"rollback","messageId":"u1"}': Kind.ROLLBACK,
    b'{"role":"user","blocks":[]}': Kind.MESSAGE,
    b'{"role":"assistant","blocks":[7,null,{"type":["compact"]}],"type":"metadata"}': Kind.MESSAGE,
    b'{"role":["user"],"blocks":[]}': Kind.OTHER,
    b'{"role":"system","blocks":[]}': Kind.OTHER,
    b'{"role":"user","blocks":{}}': Kind.OTHER,
    b'{"type":["metadata"]}': Kind.OTHER,
    b"{}": Kind.OTHER,
    b'{"role":"user","blocks":[]}\r': Kind.MESSAGE,
}


@pytest.mark.parametrize(("raw", "kind"), KINDS.items())
def test_a_line_is_known_by_what_it_holds(raw, kind):
    entry = codec.decode(raw)
    assert entry.kind is kind
    assert (entry.is_compact, entry.is_meta, entry.total_tokens) == (False, False, None)


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": object()}, {"a": -math.inf, "b": "\ud83d"}, b"bytes"])
def test_what_json_cannot_say_is_an_error_and_not_a_null(value):
    with pytest.raises(ValueError):
        codec.dumps(value)


def test_nesting_beyond_what_orjson_writes_is_written():
    value = None
    for _ in range(600):
        value = [value]
    assert codec.loads(codec.dumps(value)) == value


def test_nesting_nobody_can_write_is_a_value_error():
    value = None
    for _ in range(200_000):
        value = [value]
    try:
        with pytest.raises(ValueError):
            codec.dumps(value)
    finally:
        while value is not None:  # taken apart by hand: the interpreter would recurse
            value = value[0]
