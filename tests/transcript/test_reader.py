import json
import os
import random
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from transcript_shorthand import Naive, dump, line, names, script

from sessions.transcript import codec, collapse, lines, reader, titles, turns
from sessions.transcript.entry import Kind
from sessions.transcript.summaries import TOKENS_WINDOW_BYTES

WORDS = st.sampled_from(
    [
        "H",
        "u1",
        "u2",
        "u3",
        "u1=again",
        "a1",
        "a2",
        "a3",
        "a1=more",
        "c1",
        "c2@9",
        "c3@2",
        "k1",
        "m1",
        "h1",
        "b1",
        "n1",
        "f1",
        "f2",
        "T:t",
        "T:s",
        "x",
        "o",
        "e",
    ]
)
RARE = st.sampled_from(["c4>a1", "c5>u2", "R:u1", "R:u2", "R:a1", "R:nobody"])
SCRIPTS = st.one_of(st.lists(WORDS, max_size=25), st.lists(st.one_of(WORDS, WORDS, RARE), max_size=25)).map(" ".join)
ENDS = st.sampled_from(
    [b"", b"torn", b"\0\0\0", b'{"timestamp":"2026', line("u9"), line("a9"), line("c9"), line("T:end"), line("R:u1")]
)


def spaced(raw: bytes) -> bytes:
    """The same record as nobody writes it: other spacing, other order of keys."""
    try:
        value = json.loads(raw)
    except ValueError:
        return raw
    return json.dumps(dict(reversed(value.items()))).encode()


@st.composite
def transcripts(draw):
    spell = st.sampled_from([lambda raw: raw, lambda raw: raw, spaced, lambda raw: raw + b"\r"])
    written = [draw(spell)(raw) for raw in script(draw(SCRIPTS))]
    return b"".join(raw + b"\n" for raw in written) + draw(ENDS)


def on_disk(data: bytes):
    file = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 - closed with the test
    file.write(data)
    file.flush()
    return file


@given(transcripts())
def test_a_scan_agrees_with_a_plain_reading_of_the_whole_file(data):
    naive = Naive(data)
    with on_disk(data) as file:
        outline = reader.scan(Path(file.name))
        light = reader.scan(Path(file.name), deep=False)
        assert (outline.size, outline.inode) == (len(data), os.stat(file.name).st_ino)
    assert [(prompt.id, prompt.offset) for prompt in outline.prompts] == naive.prompts()
    assert list(outline.compactions) == naive.compactions()
    assert (outline.title and outline.title.text) == naive.title()
    assert (outline.header and outline.header.offset) == naive.header()
    in_view = {name for name, piece in naive._view(len(naive.visible)) if name in dict(naive.prompts())}
    assert outline.in_view == in_view
    assert [finding.offset for finding in outline.findings if finding.kind == "opaque_line"] == naive.opaque()
    assert (light.prompts, light.title, light.header, light.findings) == (
        outline.prompts,
        outline.title,
        outline.header,
        outline.findings,
    )
    assert (light.compactions, light.in_view, light.snapshots) == ((), frozenset(), ())
    for prompt in outline.prompts:
        assert data[prompt.offset : prompt.end].count(b"\n") <= 1
        assert prompt.end == len(data) or data[prompt.end - 1 : prompt.end] == b"\n"
    if outline.title:
        assert data[outline.title.offset : outline.title.end].removesuffix(b"\n") == outline.title.raw


@given(transcripts())
def test_the_view_and_the_history_from_disk_are_those_of_all_entries(data):
    naive = Naive(data)
    with on_disk(data) as file:
        path = Path(file.name)
        entries = [entry for _, entry in reader.read_entries(path)]
        assert [entry.raw for entry in entries] == [piece for _, _, piece in naive.lines]
        assert reader.read_view(path) == collapse.model_view(entries)
        assert list(reader.read_history(path)) == collapse.history(entries)
        assert [entry.raw for entry in reader.read_history(path)] == naive.history()


@given(
    st.lists(st.binary(max_size=9).map(lambda piece: piece.replace(b"\n", b"")), max_size=12),
    st.integers(1, 30),
    st.booleans(),
)
def test_lines_from_the_end_are_the_lines_whatever_the_block_size(pieces, block, ended):
    data = b"\n".join(pieces) + (b"\n" if ended else b"")
    with on_disk(data) as file:
        found = list(lines.backward(file.fileno(), len(data), block=block))[::-1]
    assert [raw for _, raw in found] == data.split(b"\n")
    assert all(data[at : at + len(raw)] == raw for at, raw in found)


@given(st.lists(st.binary(max_size=40).map(lambda piece: piece.replace(b"\n", b"")), max_size=12), st.integers(1, 30))
def test_lines_from_the_start_are_the_lines_and_of_a_long_one_only_the_beginning_is_held(pieces, block):
    data = b"\n".join(pieces)
    *whole, rest = data.split(b"\n")
    whole += [rest] if rest else []
    with on_disk(data) as file:
        found = list(lines.forward(file.fileno(), len(data), block=block))
        short = list(lines.forward(file.fileno(), len(data), block=block, longest=5))
    assert [raw for _, raw in found] == whole
    assert [at for at, _ in short] == [at for at, _ in found]
    assert all(data[at : at + len(raw)] == raw for at, raw in found)
    assert all(raw[:5] == cut[:5] for raw, (_, cut) in zip(whole, short, strict=True))


@given(
    st.lists(st.sampled_from([b"", b"needle", b"xneedlex", b"need", b"le", b"needneedlele"]), max_size=9),
    st.integers(1, 30),
)
def test_the_last_line_with_a_needle_is_found_whatever_the_block_size(pieces, block):
    data = b"\n".join(pieces)
    holding = [place for place, piece in enumerate(pieces) if b"needle" in piece]
    with on_disk(data) as file:
        found = lines.find_last(file.fileno(), len(data), b"needle", block=block)
    if not holding:
        assert found is None
    else:
        assert found == (len(b"\n".join(pieces[: holding[-1]])) + (holding[-1] > 0), pieces[holding[-1]])


@given(st.integers(0, 2**32), st.integers(1_000, 300_000))
def test_blocks_of_any_alignment_give_the_same_view(seed, longest):
    chance = random.Random(seed)
    words = " ".join(f"u{n} a{n}={'x' * chance.randint(1, longest)}" for n in range(5))
    data = b"".join(raw + b"\n" for raw in script(f"H {words} c1 u4 {words}"))
    with on_disk(data) as file:
        assert names(reader.read_view(Path(file.name))) == "c1 u4 u0 a0 u1 a1 u2 a2 u3 a3 a4"


def test_entries_can_be_read_from_a_line_to_a_line(write):
    path = write("H u1 a1 u2 a2")
    outline = reader.scan(path)
    first, second = (prompt.offset for prompt in outline.prompts)
    assert names(entry for _, entry in reader.read_entries(path, first, second)) == "u1 a1"
    assert next(reader.read_entries(path, second))[0] == second


def test_a_long_prompt_is_shortened_in_the_outline_and_read_whole(write):
    text = "😀" * 2500 + "\ud83d"
    path = write(
        [
            line("H"),
            codec.dumps({"timestamp": "t", "id": "u1", "role": "user", "blocks": [{"type": "text", "content": text}]}),
        ]
    )
    (prompt,) = reader.scan(path).prompts
    assert (prompt.preview, prompt.truncated) == ("😀" * 1000, True)
    assert reader.read_prompt(path, prompt) == text


def test_a_short_prompt_is_read_whole_even_without_its_newline(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(line("u1=short"))
    (prompt,) = reader.scan(path).prompts
    assert (prompt.end, reader.read_prompt(path, prompt)) == (path.stat().st_size, "short")


def test_damage_inside_an_assistant_message_is_found_by_a_check_and_stops_nothing(write):
    cut = line("a1")[:-9]
    path = write([line("u1"), cut, b"", b" \r", *script("u2 a2")])
    assert [(f.kind, f.offset, f.action) for f in reader.check(path)] == [("opaque_line", len(line("u1")) + 1, "kept")]
    assert names(reader.read_view(path)) == "u1 u2 a2"
    assert names(reader.read_history(path)) == "u1 u2 a2"


def test_thousands_of_unreadable_lines_are_counted_not_listed(write):
    findings = reader.scan(write([b"x"] * 5000)).findings
    assert len(findings) == 101
    assert findings[-1].where == "4900 more lines cannot be read"


TAILS = {
    "inside a key": (b'{"timest', True),
    "inside a character": ('{"timestamp":"用'.encode()[:-1], True),
    "NULs": (b"\0" * 5000, True),
    "no object": (b"17", True),
    "complete": (line("u3"), False),
    "complete but for carriage return": (line("u3") + b"\r", False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize(("tail", "torn"), TAILS.values(), ids=TAILS.keys())
def test_an_unended_last_line_is_torn_unless_it_is_complete(tmp_path, tail, torn):
    path = tmp_path / "s.jsonl"
    start = b"".join(raw + b"\n" for raw in script("H u1 a1"))
    path.write_bytes(start + tail)
    assert reader.torn_tail(path) == ((len(start), tail) if torn else None)
    expected = [("torn_tail", len(start), "ignored")] if torn else []
    for findings in (reader.scan(path).findings, reader.scan(path, deep=False).findings, tuple(reader.check(path))):
        assert [(f.kind, f.offset, f.action) for f in findings] == expected
    assert names(reader.read_view(path)) == ("u1 a1 u3" if tail.startswith(line("u3")) else "u1 a1")


REMOVED = {
    "u1 a1 | u2 a2": 2,
    "| u1 a1 u2": 3,
    "u1 a1 u2 a2 | u3 a3 c1 u2 a2 u3 a3 u4": 4,  # u3 a3 c1 u4; u2 and a2 are copies
    "u1 a1 | u2 a2 u3 a3 c1 u2 a2 u3 a3 u4 c2 u3 a3 u4": 7,
    "u1 a1 x T:t o e | u2 x c1 a1 u2 a2": 3,
    "u1 a1 | u2 c1@3 u3 a3": 4,  # nothing said again: u3 is new
    "u1 c1 a1 | u2 c2 a1 u2 u3": 3,
    "u1 a1 u2 a2 R:u2 | u3 c1 u1 a1 u3 a4": 3,
    "u1 a1 u2 a2 a1=more | u3 c1 u2 a2 u3 u4": 3,
    "u1 a1 | u2 a2 a2=more H T:t": 2,
    "u1 a1 a2 a3 | u4 a4 c1 a3 u4 a4": 3,
    "u1 a1 |": 0,
}


@pytest.mark.parametrize(("words", "count"), REMOVED.items())
def test_a_cut_counts_the_messages_that_leave_and_not_their_copies(write, words, count):
    path = write(words.replace("| ", "").replace("|", ""))
    kept = words.partition("|")[0]
    place = sum(len(raw) + 1 for raw in script(words.replace("|", ""))[: len(kept.split())])
    tail = reader.survey_tail(path, place, header=reader.scan(path).header)
    assert (tail.removed_messages, tail.size) == (count, path.stat().st_size)


def test_what_stays_behind_a_cut_is_the_header_and_the_titles_byte_for_byte(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\r\n".join(script("u1 T:one x H u2 T:two H a2")) + b"\r\n" + line("T:three"))
    first, _ = reader.scan(path).prompts
    kept = b"\r\n".join(script("T:one H T:two")) + b"\r\n" + line("T:three") + b"\n"
    assert reader.survey_tail(path, first.offset, header=reader.scan(path).header).kept == kept


def test_a_second_header_behind_a_cut_does_not_stay(write):
    path = write("H u1 H u2")
    assert reader.survey_tail(path, reader.scan(path).prompts[0].offset, header=reader.scan(path).header).kept == b""


CUTS = {
    ("H h1 m1 u1 x a1 T:t u2 o a2 x H T:s", "u2"): ("H h1 m1 u1 x a1 T:t", "T:s"),
    ("T:t u1 H u2 x T:s", "u1"): ("T:t", "H T:s"),
    ("u1 a1 c1 u1 a1 u2", "u1"): ("", ""),
    ("u1 a1 u2 a2 c1 u2 a2", "u2"): ("u1 a1", ""),
    ("u1 u2 R:u2 u2 a2", "u2"): ("u1 u2 R:u2", ""),
}


@pytest.mark.parametrize(("asked", "kept"), CUTS.items())
def test_the_cut_lies_in_front_of_the_first_visible_line_of_the_prompt(write, asked, kept):
    words, target = asked
    assert cut_before(write(words), target) == tuple(b"".join(raw + b"\n" for raw in script(part)) for part in kept)


@given(SCRIPTS, st.sampled_from(["u1", "u2", "u3"]))
def test_a_cut_keeps_what_belongs_to_the_session_and_leaves_nothing_of_the_target_to_be_seen(words, target):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "s.jsonl"
        path.write_bytes(b"".join(raw + b"\n" for raw in script(words)))
        cut = cut_before(path, target)
        lines_ = [codec.decode(raw) for raw in path.read_bytes().split(b"\n")[:-1]]
    if cut is None:
        return
    in_front, behind = ([codec.decode(raw) for raw in part.split(b"\n")[:-1]] for part in cut)
    assert in_front == lines_[: len(in_front)]
    assert lines_[len(in_front)].id == target
    assert target not in names(collapse.history([*in_front, *behind])).split()
    titles_ = [entry for entry in lines_[len(in_front) :] if entry.kind is Kind.TITLE]
    assert [entry for entry in behind if entry.kind is Kind.TITLE] == titles_
    header = [entry for entry in lines_ if entry.kind is Kind.HEADER][:1]
    assert [entry for entry in [*in_front, *behind] if entry.kind is Kind.HEADER][:1] == header
    assert {entry.kind for entry in behind} <= {Kind.TITLE, Kind.HEADER}


def cut_before(path, target):
    """Return what stays of a transcript in front of a prompt and behind it; None where there is no such prompt."""
    outline = reader.scan(path)
    place = next((prompt.offset for prompt in outline.prompts if prompt.id == target), None)
    if place is None:
        return None
    return path.read_bytes()[:place], reader.survey_tail(path, place, header=outline.header).kept


NOTICES = {
    "u1 a1 | u2 n1 a2 n2": ("n1", "n1", 3),
    "u1 a1 | u2 n1 a2 T:t n1 n1": ("n1", "n1 T:t", 2),
    "u1 n1 a1 | u2 a2 c1 n1 u2 a2": ("", "", 3),
    "u1 a1 | u2 n1 a2 c1 n1 u2": ("n1", "n1", 3),
    "u1 | u2 u3 n1 R:u3 n1": ("n1", "n1", 2),
}


@pytest.mark.parametrize(("words", "said"), NOTICES.items())
def test_the_notice_of_a_task_that_stays_stays_behind_a_cut_once_and_is_no_message_that_leaves(write, words, said):
    notices, kept, count = said
    path = write(words.replace("| ", ""))
    place = sum(len(raw) + 1 for raw in script(words.partition("|")[0]))
    tail = reader.survey_tail(path, place, header=None, notices={"n1"})
    assert tail.kept == b"".join(raw + b"\n" for raw in script(kept))
    assert tail.notices == b"".join(raw + b"\n" for raw in script(notices))
    assert tail.removed_messages == count


def test_a_torn_last_line_counts_into_the_size(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(line("u1") + b"\n" + b"torn")
    assert reader.survey_tail(path, 0, header=None).size == path.stat().st_size


TITLES = {
    "u1 a1 |": "",
    "u1 T:t |": "",
    "u1 T:t a1 |": "T:t",
    "u1 T:s T:t | u2 T:t a2": "T:t",
    "u1 T:t a1 | T:s H": "T:s H T:s",
    "H u1 T:t a1 | T:s H": "T:s",
    "u1 | H": "H",
    "|": "",
}


@pytest.mark.parametrize(("words", "tail"), TITLES.items())
def test_the_title_is_said_once_more_unless_it_is_the_last_line(write, words, tail):
    kept = words.partition("|")[0].split()
    path = write(words.replace("|", ""))
    cut = sum(len(raw) + 1 for raw in script(words.replace("|", ""))[: len(kept)])
    outline = reader.scan(path, deep=False)
    survey = reader.survey_tail(path, cut, header=outline.header)
    assert titles.restated(survey.kept, outline.title, cut) == b"".join(raw + b"\n" for raw in script(tail))


def summary_of(path):
    found = reader.summary(path)
    return (found.title, found.first_prompt, found.first_summary, found.total_tokens, found.damaged)


SUMMARIES = {
    "": (None, None, None, None, False),
    "H": (None, None, None, None, False),
    "H u1=hello a7 u2": (None, "hello", None, 700, False),
    "H h1 m1 c1=before u1 T:t": ("t", "u1", "before", None, False),
    "T:a u1 T:b a3": ("b", "u1", None, 300, False),
    "u1 a3 x": (None, "u1", None, 300, True),
    "u1 a1 u2 a2 R:u2": (None, "u1", None, 100, False),
    "u1 a1 R:u1 u2 a5": (None, "u2", None, 500, False),
    "u1 a1 R:u1 T:t": ("t", None, None, None, False),
}


@pytest.mark.parametrize(("words", "expected"), SUMMARIES.items())
def test_a_list_shows(write, words, expected):
    assert summary_of(write(words)) == expected


def test_a_list_row_survives_long_records_at_both_ends(write):
    long = "y" * 3_000_000
    path = write([*script(f"H h1={long} u1={long} a1 T:late a2={long}")])
    assert summary_of(path) == ("late", "y" * 200, None, 200, False)


def test_a_list_row_of_a_long_session_does_not_read_its_bodies(write):
    path = write([line("H"), line("u1"), *[line(f"a{n}=" + "z" * 5000) for n in range(2000)], line("T:t")])
    with open(path, "r+b") as file:  # what nobody reads may be anything
        file.seek(3_000_000)
        file.write(b"\n" * 1_000_000)
    assert summary_of(path) == ("t", "u1", None, 199900, False)


LONG = st.sampled_from([0, 0, 2_000, 6_000, 9_000, 30_000, 70_000, 140_000])


@given(st.lists(st.tuples(st.sampled_from("uuaaaTRo"), LONG, st.integers(0, 9)), max_size=12))
@example([("u", 0, 0), ("a", 0, 0), ("u", 0, 0), ("a", 0, 0), ("R", 0, 2), ("u", 140_000, 0)])
def test_however_long_its_lines_a_row_shows_the_title_and_the_tokens_that_a_plain_reading_finds(drawn):
    said = ["H"]
    for number, (kind, size, back) in enumerate(drawn, 1):
        name = {"T": f"T:{'t' * (size // 200)}{number}", "R": f"R:u{max(1, number - back)}"}.get(
            kind, f"{kind}{number}"
        )
        said.append(name + (f"={'w' * size}" if kind in "ua" else ""))
    data = b"".join(raw + b"\n" for raw in script(" ".join(said)))
    titled = [value["customTitle"] for _, value, _ in Naive(data).lines if value.get("type") == "custom-title"]
    counts = [value["usage"]["total_tokens"] for _, value, _ in Naive(data).visible if "usage" in value]
    with on_disk(data) as file:
        found = reader.summary(file.fileno())
    assert found.title == (titled[-1] if titled else None)
    if len(data) < TOKENS_WINDOW_BYTES:
        assert found.total_tokens == (counts[-1] if counts else None)
    if len(data) <= titles.WINDOW_BYTES:
        prompts = [value["blocks"][0]["content"] for _, value, _ in Naive(data).visible if value["role"] == "user"]
        assert found.first_prompt == (prompts[0][:200] if prompts else None)


def test_a_count_of_tokens_is_found_behind_a_long_answer_whatever_follows_it(write):
    path = write("u1 a5=" + "w" * 70_000 + " u2 f1")  # the last answer reports none
    assert reader.summary(path).total_tokens == 500


def test_a_prompt_of_images_or_blanks_alone_leaves_the_name_to_the_next_one_with_a_text(write, tmp_path):
    image = line("u1").replace(b'"type":"text"', b'"type":"image"')
    blank = line("u2").replace(b'"content":"u2"', b'"content":" \\n"')
    path = tmp_path / "s.jsonl"
    path.write_bytes(image + b"\n" + blank + b"\n" + line("a1") + b"\n")
    assert reader.summary(path).first_prompt == ""
    for hidden in (b"", line("u9") + b"\n" + line("R:u9") + b"\n"):
        path.write_bytes(hidden + image + b"\n" + blank + b"\n" + line("a1") + b"\n" + line("u3") + b"\n")
        assert reader.summary(path).first_prompt == "u3"


def test_of_images_alone_not_the_whole_file_is_read_for_a_text(tmp_path, monkeypatch):
    path = tmp_path / "s.jsonl"
    with path.open("wb") as file:
        for number in range(100):
            file.write(line(f"u{number}=" + "w" * 100_000).replace(b'"type":"text"', b'"type":"image"') + b"\n")
    read, real = [], lines.read
    monkeypatch.setattr(lines, "read", lambda fd, at, size: read.append(size) or real(fd, at, size))
    assert reader.summary(path, seeks_title=lambda: False).first_prompt == ""
    assert sum(read) < 6_000_000


@pytest.mark.parametrize("body", [b'{"timestamp":"2026', b"x" * 100_000])
@pytest.mark.parametrize("front", ["", "H", "u1 a1", "u1 a1=" + "w" * 100_000])
def test_a_torn_last_line_is_damage_unless_somebody_is_appending_it(write, front, body):
    path = write(front)
    with path.open("ab") as file:
        file.write(body)
    assert reader.summary(path).damaged
    assert not reader.summary(path, is_growing=lambda: True).damaged
    with path.open("ab") as file:
        file.write(b"\n")
    assert reader.summary(path, is_growing=lambda: True).damaged


def test_a_title_near_the_end_of_a_long_file_is_shown_without_asking_whether_to_search(write):
    path = write("u1 a5=" + "w" * 70_000 + " T:near a7")
    assert reader.summary(path, seeks_title=lambda: pytest.fail("asked")).title == "near"


def test_a_summary_is_no_prompt_whoever_it_is_from(tmp_path):
    said = line("c1").replace(b'"role":"assistant"', b'"role":"user"')
    path = tmp_path / "s.jsonl"
    for hidden in (b"", line("u1") + b"\n" + line("R:u1") + b"\n"):  # each way to read
        path.write_bytes(hidden + said + b"\n" + line("u2") + b"\n")
        assert [prompt.id for prompt in reader.scan(path).prompts] == ["u2"]
        found = reader.summary(path)
        assert (found.first_summary, found.first_prompt) == ("summary c1", "u2")


@pytest.mark.parametrize("word", ["u1", "u1=two", "m1", "h1", "b1", "n1", "a1", "c1", "f1"])
def test_what_was_typed_is_the_text_of_a_prompt_and_of_nothing_else(word):
    entry = codec.decode(line(word))
    assert turns.typed(entry) == (turns.prompt_text(entry) if word[0] == "u" else None)


def test_a_session_was_made_when_its_header_says_else_at_its_first_message_else_when_written(write):
    assert reader.summary(write("H u1@7")).created_at == datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
    assert reader.summary(write("m1@7 u1@8")).created_at == datetime(2026, 3, 1, 9, 7, tzinfo=UTC)
    path = write("x")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert reader.summary(path).created_at == datetime.fromtimestamp(1_700_000_000, UTC)


def test_the_header_is_found_in_front_of_the_first_message(write):
    assert reader.head(write("x H u1")).workdir == "/home/user/shop"
    assert reader.head(write("u1 H")) is None
    assert reader.head(write([dump({"type": "metadata", "workdir": 7}), line("u1")])).workdir is None


@pytest.mark.parametrize(
    "read",
    [
        reader.scan,
        reader.read_view,
        reader.summary,
        reader.head,
        reader.torn_tail,
        lambda path: list(reader.read_history(path)),
    ],
)
def test_reading_changes_nothing_and_a_missing_file_is_an_os_error(tmp_path, write, read):
    path = write("H u1 a1 R:u1 x")
    path.write_bytes(path.read_bytes() + b"torn")
    os.chmod(path, 0o400)
    before = (path.read_bytes(), path.stat().st_mtime_ns, os.listdir(tmp_path))
    read(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns, os.listdir(tmp_path)) == before
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing.jsonl")


def test_a_scan_of_a_large_file_needs_memory_for_its_longest_line_only(tmp_path):
    path = tmp_path / "s.jsonl"
    with path.open("wb") as file:
        for number in range(40):
            file.write(line(f"u{number}") + b"\n" + line(f"a{number}=" + "w" * 1_000_000) + b"\n")
    code = (
        "import sys; from pathlib import Path; from sessions.transcript import reader\n"
        "peak = lambda: int(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
        "before = peak(); reader.scan(Path(sys.argv[1])); print(peak() - before)"
    )
    root = Path(__file__).parents[2]
    grown = subprocess.run(
        [sys.executable, "-c", code, path], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    assert int(grown) < 12 * 1024  # KiB; the file has 40 MB
