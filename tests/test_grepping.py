"""Full text: what is found in the messages of a transcript, however they are spelled."""

from __future__ import annotations

import itertools
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions import RequestError, assistant_message, grepping
from sessions.grepping import hits_in, pattern_of
from sessions.transcript import codec, lines

NUMBERS = itertools.count()


def message(*blocks, role="assistant", message_id=None, **more):
    name = message_id or f"msg-{next(NUMBERS)}"
    return {"timestamp": "2026-03-01T09:00:00.000Z", "id": name, "role": role, "blocks": list(blocks), **more}


def text(content, kind="text"):
    return {"type": kind, "content": content}


def tool(parameters="{}", result="", error=None, name="Edit"):
    block = {"type": "tool", "id": "t", "name": name, "parameters": parameters, "result": result, "stage": "end"}
    return block if error is None else {**block, "error": error}


@pytest.fixture
def transcript(tmp_path):
    path = tmp_path / "transcript.jsonl"

    def write(*records):
        path.write_bytes(b"".join((each if isinstance(each, bytes) else codec.dumps(each)) + b"\n" for each in records))
        return path

    return write


def found(path, wanted):
    return [hit.line for hit in hits_in(path, pattern_of(wanted))]


def marked(hit):
    return [hit.line[start:end] for start, end in hit.spans]


def test_everything_people_read_is_searched(transcript):
    path = transcript(
        {"type": "metadata", "workdir": "/needle"},
        message(text("a needle"), role="user"),
        message(text("b needle", "reasoning"), text("c needle", "compact"), text("d needle", "compress")),
        message(tool('{"path":"e needle","n":[{"deep":"f needle"}]}', "g needle", "h needle")),
        message({"type": "bang", "command": "i needle", "output": "j needle", "exitCode": 0}, role="user"),
        message(text("k needle", "error"), text("l needle", "info"), text("m needle", "of the future")),
        message({"type": "task_notification", "taskId": "needle", "status": "completed", "summary": "n needle"}),
        message(tool(name="o needle")),
        message({"type": "image", "mediaType": "image/needle", "data": "needle"}, role="user"),
        {"type": "custom-title", "customTitle": "needle", "sessionId": "needle"},
        b"damaged needle",
    )
    assert found(path, "needle") == [f"{letter} needle" for letter in "abcdefghijklmno"]
    assert [hit.part for hit in hits_in(path, pattern_of("needle"))] == [
        *("text", "reasoning", "summary", "summary", "parameters", "parameters", "result", "error"),
        *("command", "output", "error", "info", "of the future", "notice", "tool"),
    ]


def test_a_hit_is_the_line_around_it_with_the_places_in_it(transcript):
    path = transcript(message(text("before\nsome code, more code\r\nno\ncode"), message_id="msg-1"))
    first, second = hits_in(path, pattern_of("code"))
    assert (first.line, first.spans, marked(first)) == ("some code, more code", ((5, 9), (16, 20)), ["code", "code"])
    assert (second.line, second.message_id, second.role) == ("code", "msg-1", "assistant")


def test_of_a_long_line_the_part_around_the_first_place_is_given(transcript):
    (hit,) = hits_in(transcript(message(text("x" * 5_000_000 + "needle" + "y" * 5_000_000))), pattern_of("needle"))
    assert marked(hit) == ["needle"]
    assert len(hit.line) == grepping.BEFORE_CHARACTERS + len("needle") + grepping.BEHIND_CHARACTERS


@pytest.mark.parametrize(
    ("wanted", "finds"),
    [("return", {"return", "Return", "RETURN"}), ("Return", {"Return"}), ("é", {"é", "É"}), ("É", {"É"})],
)
def test_a_pattern_without_capitals_is_found_in_any_case(transcript, wanted, finds):
    path = transcript(*(message(text(each)) for each in ("return", "Return", "RETURN", "é", "É", "other")))
    assert set(found(path, wanted)) == finds


@pytest.mark.parametrize(
    "wanted",
    [
        "plain words",
        'say "hello"',
        'say "hi"/',
        "\\",
        "a/b",
        "/",
        '"',
        "<&>'",
        "tab\there",
        "修复解析器",
        "修",
        "äöü",
        "ÄÖÜ",
        "парсер",
        "🚀",
        "a 修",
        "straße",
        "K\u2028\u0085",
        "\ud83d",
        "half \ud83d",
        "\u0001",
        "two\nlines",
        ".*",
        "[a-z]",
        "^-]",
        "ſ",
        "k",
        "ı",
    ],
)
def test_however_json_spells_it_it_is_found(transcript, wanted):
    record = message(text(f"<< {wanted} >>"))
    inside = message(tool(json.dumps({"new": f"<< {wanted} >>"})))
    everything = "".join(f"\\u{ord(unit):04x}" for unit in _utf16_units(f"<< {wanted} >>"))
    escaped = json.dumps(message(text("HERE"))).replace("HERE", everything).encode()
    slashed = json.dumps(record).replace("/", "\\/").encode()
    nothing = message(text("nothing of it"))
    for spelled in (codec.dumps(record), json.dumps(record).encode(), escaped, slashed, codec.dumps(inside)):
        (hit,) = hits_in(transcript(nothing, spelled, nothing), pattern_of(wanted))
        assert marked(hit) == [wanted], spelled


def _utf16_units(said):
    raw = said.encode("utf-16-be", errors="surrogatepass")
    return [chr(int.from_bytes(raw[at : at + 2], "big")) for at in range(0, len(raw), 2)]


WANTED = st.text(st.sampled_from('ab AB/\\"\n<é É修ſkK\u212aİıß\ud83d🚀\x1b'), min_size=1, max_size=3)


@settings(max_examples=300)
@given(st.lists(WANTED, min_size=1, max_size=6), WANTED, st.booleans())
def test_what_the_short_cut_passes_over_does_not_hold_it(said, wanted, ascii_only):
    pattern = pattern_of(wanted)
    spelled = [
        json.dumps(message(text(each))).encode() if ascii_only else codec.dumps(message(text(each))) for each in said
    ]
    run = b"".join(raw + b"\n" for raw in spelled)
    decoded = {raw for _, raw in pattern.may_be_in(run)}
    for each, raw in zip(said, spelled, strict=True):
        assert raw in decoded or pattern.find.search(each) is None


def test_a_line_without_the_text_is_not_decoded(transcript):
    run = b"".join(codec.dumps(message(text(each))) + b"\n" for each in ("one \x1b[31m", "two needle", "three"))
    (line,) = pattern_of("needle").may_be_in(run)
    assert (b"two needle" in line[1], run[line[0] :].startswith(line[1])) == (True, True)


def test_lines_of_any_length_are_searched_whatever_block_they_begin_in(transcript):
    path = transcript(*(message(text("x" * size + " needle")) for size in (10, 1 << 20, 100, 3 << 20, 5)))
    path.write_bytes(path.read_bytes() + codec.dumps(message(text("needle without an end"))))
    assert len(found(path, "needle")) == 6
    with lines.opened(path) as (descriptor, size):
        for block in (7, 4096, 1 << 20):
            runs = list(lines.runs(descriptor, size if block > 7 else 500, block=block))
            assert b"".join(run for _, run in runs) == path.read_bytes()[: size if block > 7 else 500]
            assert all(run.endswith(b"\n") for _, run in runs[:-1])
            assert [at for at, _ in runs] == list(itertools.accumulate([0, *(len(run) for _, run in runs[:-1])]))


def test_turns_are_those_of_checkpoints_and_copies_behind_a_compaction_are_not_said_again(session):
    session.append(assistant_message("needle before the first turn"))
    for word in ("one", "two", "three"):
        with session.begin_turn(f"needle {word}"):
            session.append(assistant_message(f"needle answer {word}"))
    session.compact(summary="needle summary", keep_rounds=2)
    with session.begin_turn("needle four"):
        pass
    hits = list(hits_in(session.path, pattern_of("needle")))
    assert [(hit.turn, hit.line) for hit in hits] == [
        (None, "needle before the first turn"),
        (1, "needle one"),
        (1, "needle answer one"),
        (2, "needle two"),
        (2, "needle answer two"),
        (3, "needle three"),
        (3, "needle answer three"),
        (3, "needle summary"),
        (4, "needle four"),
    ]


def test_hidden_turns_are_searched_and_said_to_be_hidden(session):
    for word in ("one", "two"):
        with session.begin_turn(f"needle {word}"):
            pass
    session.rewind(2, history="hide")
    with session.begin_turn("needle three"):
        pass
    hits = list(hits_in(session.path, pattern_of("needle")))
    assert [(hit.line, hit.turn, hit.hidden) for hit in hits] == [
        ("needle one", 1, False),
        ("needle two", None, True),
        ("needle three", 2, False),
    ]


def test_a_message_saved_again_is_said_once_and_two_without_an_id_twice(transcript):
    again = message(text("needle"), message_id="msg-1")
    grown = message(text("needle"), text("more needle"), message_id="msg-1")
    nameless = {key: value for key, value in message(text("a needle")).items() if key != "id"}
    assert found(transcript(again, grown, nameless, nameless), "needle") == [
        "needle",
        "more needle",
        "a needle",
        "a needle",
    ]


def test_parameters_that_are_no_json_are_searched_as_they_are(transcript):
    path = transcript(
        message(tool('{"torn":"needle')), message(tool('{"number":4711}')), message(tool('{"n":"\ud83d needle"}'))
    )
    assert found(path, "needle") == ['{"torn":"needle', '{"n":"\ud83d needle"}']
    assert found(path, "4711") == ['{"number":4711}']


def test_the_first_hit_comes_before_the_rest_is_searched(transcript, monkeypatch):
    path = transcript(*(message(text("x" * (1 << 20) + " needle")) for _ in range(8)))
    searched, runs = [], lines.runs
    monkeypatch.setattr(lines, "runs", lambda *file: (searched.append(run) or run for run in runs(*file)))
    hits = hits_in(path, pattern_of("needle"))
    next(hits)
    assert len(searched) == 1
    assert len(list(hits)) == 7


def test_a_store_finds_the_sessions_with_a_text_in_list_order_and_where_it_stands(store, project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    made = []
    for number, (where, said) in enumerate(
        [(project, "a needle"), (other, "needle"), (project, "hay"), (project, "Needle")]
    ):
        with store.create(where) as session:
            session.append(assistant_message(f"{said} and\n{said} again"))
        made.append(session.id)
        os.utime(session.path, (number, number))
    looked = []
    found = [(row.id, [hit.line for hit in hits]) for row, hits in store.grep("needle", project, looking=looked.append)]
    assert found == [(made[3], ["Needle and", "Needle again"]), (made[0], ["a needle and", "a needle again"])]
    assert looked == [0, 1, 2]
    assert [row.id for row, _ in store.grep("Needle", scope="all")] == [made[3]]
    assert [row.id for row, _ in store.grep("needle", scope="all", limit=2)] == [made[3], made[1]]
    rows = store.list(scope="all")[::-1]
    assert [row.id for row, _ in store.grep("needle", rows=rows)] == [made[0], made[1], made[3]]
    with pytest.raises(RequestError, match="an empty text"):
        store.grep("")


def test_what_cannot_be_read_is_said_and_what_went_meanwhile_is_not(store, project):
    for _ in range(3):
        with store.create(project) as session:
            session.append(assistant_message("needle"))
    rows, unread = store.list(project), []
    rows[0].path.unlink()
    rows[1].path.unlink()
    rows[1].path.mkdir()
    assert [row for row, _ in store.grep("needle", rows=rows, unread=unread)] == [rows[2]]
    assert [error.filename for error in unread] == [str(rows[1].path)]
