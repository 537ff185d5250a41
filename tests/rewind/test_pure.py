"""The deciding parts alone: verdicts, the timeline's fold, targets, records."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions import AmbiguousError, NotFoundError, RequestError
from sessions.rewind.folding import Folding
from sessions.rewind.journal import Cut, Record, record_from
from sessions.rewind.judge import Change, judge
from sessions.rewind.needs import Need, needs_after
from sessions.rewind.recorded import Span
from sessions.rewind.states import (
    Absent,
    Content,
    Directory,
    Image,
    Link,
    OverLimit,
    Payload,
    Unreadable,
    from_record,
    image_from,
    same,
    to_record,
)
from sessions.rewind.targets import resolve
from sessions.rewind.timeline import Timeline
from sessions.rewind.worktree import Identity
from sessions.transcript.outline import Prompt

# -- verdicts ----------------------------------------------------------------------------------------------------------

V1, V2, V3 = (Content(digit * 64, 3, 0o644) for digit in "123")
EXECUTABLE = Content("1" * 64, 3, 0o755)
STATES = {
    "absent": Absent(),
    "v1": V1,
    "v2": V2,
    "v3": V3,
    "executable": EXECUTABLE,
    "directory": Directory(0o755),
    "link": Link("there"),
    "unreadable": Unreadable("Permission denied"),
    "over limit": OverLimit(10**9, 0o644),
}
VERDICTS = [
    # current, target, left: action, reason
    ("v2", "v1", "v2", "restore", None),
    ("v1", "v1", "v2", "unchanged", None),
    ("v3", "v1", "v2", "restore", "conflict"),
    ("absent", "v1", "v2", "recreate", "conflict"),
    ("absent", "v1", "absent", "recreate", None),
    ("v2", "absent", "v2", "delete", None),
    ("v3", "absent", "v2", "delete", "conflict"),
    ("absent", "absent", "v2", "unchanged", None),
    ("executable", "v1", "executable", "restore", None),
    ("executable", "v1", "v2", "restore", "conflict"),
    ("directory", "v1", "v2", "restore", "conflict"),
    ("directory", "directory", "v2", "unchanged", None),
    ("link", "v1", "link", "restore", None),
    ("link", "v1", "v2", "restore", "conflict"),
    ("v2", "v1", None, "restore", "unverified"),
    ("absent", "v1", None, "recreate", "unverified"),
    ("v2", "absent", None, "delete", "unverified"),
    ("unreadable", "v1", "v2", "skip", "unreadable"),
    ("unreadable", "unreadable", "v2", "skip", "unreadable"),
    ("v2", "unreadable", "v2", "skip", "unreadable"),
    ("v2", "over limit", "v2", "skip", "over_limit"),
    ("v2", "v1", "over limit", "restore", "conflict"),
]


def _need(target: str, left: str | None, *, contested: str = "") -> Need:
    image = Image(STATES[left]) if left is not None else None
    return Need("/p/f", Image(STATES[target]), image, "agent", contested=contested)


def _judge(need: Need, current: str, *, on_conflict="overwrite", forbidden=False, kept=True):
    return judge(need, STATES[current], shown="f", on_conflict=on_conflict, forbidden=forbidden, kept=kept)


@pytest.mark.parametrize(("current", "target", "left", "action", "reason"), VERDICTS)
def test_a_verdict_follows_from_what_is_what_must_be_and_what_the_agent_left(current, target, left, action, reason):
    verdict = _judge(_need(target, left), current).verdict
    assert (verdict.action, verdict.reason) == (action, reason)


@pytest.mark.parametrize(("current", "target", "left", "action", "reason"), VERDICTS)
def test_keeping_skips_conflicts_and_nothing_else(current, target, left, action, reason):
    judged = _judge(_need(target, left), current, on_conflict="keep")
    expected = ("skip", "conflict") if reason == "conflict" else (action, reason)
    assert (judged.verdict.action, judged.verdict.reason) == expected
    assert (judged.change is None) == (expected[0] in {"skip", "unchanged"})


def test_for_every_combination_the_parts_of_a_judgement_agree():
    count = 0
    for current, target, left, overlap, on_conflict, forbidden, kept in itertools.product(
        STATES, STATES, [None, *STATES], [False, True], ["overwrite", "keep", "refuse"], [False, True], [False, True]
    ):
        count += 1
        need = _need(target, left, contested="edited by two at the same time" if overlap else "")
        judged = _judge(need, current, on_conflict=on_conflict, forbidden=forbidden, kept=kept)
        action, reason = judged.verdict.action, judged.verdict.reason
        assert (judged.change is not None) == (action in {"restore", "recreate", "delete"})
        if judged.change is not None:
            assert judged.change == Change("/p/f", Image(STATES[current]), need.target)
            assert not same(STATES[current], STATES[target])
            assert kept or not isinstance(STATES[target], Content)
        if forbidden:
            assert (action, reason) == ("skip", "outside")
        elif same(STATES[current], STATES[target]):
            assert (action, reason, judged.conflict) == ("unchanged", None, None)
        elif reason is None:
            assert left is not None
            assert same(STATES[current], STATES[left])
            assert not overlap
        assert (reason == "conflict") <= (judged.conflict is not None)
        assert (action == "delete") <= (target == "absent")
        assert (action == "recreate") == (action in {"restore", "recreate"} and current == "absent")
    assert count > 10_000


def test_edits_at_the_same_time_are_a_conflict_whatever_was_left():
    judged = _judge(_need("v1", "v2", contested="edited by two at the same time"), "v2")
    assert judged.verdict.reason == "conflict"
    assert "same time" in judged.conflict.found


# -- the timeline ------------------------------------------------------------------------------------------------------


def log(script: str) -> list[dict]:
    """Return records in shorthand.

    ``t1`` turn 1 · ``b1f:v1`` turn 1 finds f as v1 · ``a1f:v2`` and leaves it as v2 · ``g1`` a gap · ``R1@4`` rewind 1 of
    both from seq 4 · ``C1`` of the conversation · ``F1f:v2>v1`` of code, which made f v1 · ``U1`` undo · ``Y1`` redo.
    """
    states = {"-": Absent(), "v1": V1, "v2": V2, "v3": V3, "v4": Content("4" * 64, 3, 0o644)}
    records = []
    for seq, word in enumerate(script.split()):
        kind, number, rest = word[0], int(word[1]), word[2:]
        record: dict[str, object] = {"v": 1, "seq": seq, "turn": number}
        match kind:
            case "t":
                record |= {"kind": "turn", "message_id": f"m{number}", "run_id": None}
            case "b" | "a":
                path, _, state = rest.partition(":")
                record |= {"kind": {"b": "before", "a": "after"}[kind], "edit": 1, "path": path, "by": "agent"}
                record |= Image(states[state]).to_record()
            case "g":
                record |= {"kind": "gap", "gap": "shell", "paths": []}
            case "R":
                record |= {"kind": "rewind", "rewind": f"r{number}", "scope": "both", "to": "m", "at": ""}
                record |= {"from": [int(rest[1:]), 0, 0, 0]}
            case "C":
                record |= {"kind": "rewind", "rewind": f"r{number}", "scope": "conversation", "to": "m", "at": ""}
            case "F":
                path, _, change = rest.partition(":")
                before, after = (Image(states[each]).to_record() for each in change.split(">"))
                record |= {"kind": "rewind", "rewind": f"r{number}", "scope": "code", "to": "m", "at": ""}
                record |= {"touches": [{"path": path, "before": before, "after": after}]}
            case "U" | "Y":
                kind = {"U": "undo", "Y": "redo"}[kind]
                record |= {"kind": kind, "rewind": f"r{number}", "record": f"{kind}{seq}", "at": ""}
        records.append(record)
    return records


def folding_of(script: str) -> Folding:
    folding = Folding()
    folding.extend(log(script))
    assert folding.timeline.damaged == 0
    assert folding.timeline.missing == []
    return folding


def fold(script: str) -> Timeline:
    return folding_of(script).timeline


def needs(script: str, seq: int) -> dict[str, tuple[str, str]]:
    """Return path → (target, what the agent left), both as a digit."""

    def said(image: Image) -> str:
        return image.state.sha256[0] if isinstance(image.state, Content) else "-"

    return {
        need.path: (said(need.target), said(need.left) if need.left else "?")
        for need in needs_after(fold(script).touches, Span((seq, 0, 0, 0)), lambda touch: touch.by)
    }


ONE = "t1 b1f:v1 a1f:v2"
TWO = f"{ONE} t2 b2f:v2 a2f:v3 b2g:- a2g:v1"


@pytest.mark.parametrize(
    ("script", "seq", "expected"),
    [
        (ONE, 0, {"f": ("1", "2")}),
        (ONE, 3, {}),
        (TWO, 0, {"f": ("1", "3"), "g": ("-", "1")}),
        (TWO, 3, {"f": ("2", "3"), "g": ("-", "1")}),
        ("t1 b1f:v1", 0, {"f": ("1", "?")}),
        ("t1 b1f:v1 a1f:v1", 0, {}),
        (f"{TWO} R1@3", 0, {"f": ("1", "2")}),
        (f"{TWO} R1@3", 3, {}),
        (f"{TWO} R1@3 U1", 0, {"f": ("1", "3"), "g": ("-", "1")}),
        (f"{TWO} R1@3 U1 Y1", 0, {"f": ("1", "2")}),
        (f"{TWO} R1@3 t3 b3f:v2 a3f:v4", 0, {"f": ("1", "4")}),
        (f"{TWO} R1@3 t3 b3f:v2 a3f:v4 U1 Y1", 9, {"f": ("2", "4")}),
        (f"{TWO} C1", 3, {"f": ("2", "3"), "g": ("-", "1")}),
        (f"{TWO} C1 U1 Y1", 3, {"f": ("2", "3"), "g": ("-", "1")}),
        (f"{TWO} F1f:v3>v2", 3, {"f": ("2", "2"), "g": ("-", "1")}),
        (f"{TWO} F1f:v3>v2", 8, {"f": ("3", "2")}),
        (f"{TWO} F1f:v3>v2 U1", 8, {}),
        (f"{TWO} F1f:v3>v2 U1 Y1", 8, {"f": ("3", "2")}),
        (f"{TWO} F1f:v3>v2 R2@3", 0, {"f": ("1", "2")}),
        (f"{TWO} F1f:v3>v2 R2@3 U2", 8, {"f": ("3", "2")}),
        (f"{TWO} F1f:v3>v2 R2@3 U2 U1", 3, {"f": ("2", "3"), "g": ("-", "1")}),
    ],
)
def test_the_fold_of_a_log_says_what_every_path_needs(script, seq, expected):
    assert needs(script, seq) == expected


@pytest.mark.parametrize(
    ("script", "turns", "gaps"),
    [
        ("t1 g1 t2 g2", {1, 2}, 2),
        ("t1 g1 t2 g2 R1@2", {1}, 1),
        ("t1 g1 t2 g2 R1@2 U1", {1, 2}, 2),
        ("t1 g1 t2 g2 R1@2 U1 Y1", {1}, 1),
        ("t1 g1 t2 g2 C1", {1, 2}, 2),
    ],
)
def test_turns_and_gaps_go_and_come_with_their_rewind(script, turns, gaps):
    timeline = fold(script)
    assert set(timeline.turns) == turns
    assert len(timeline.gaps) == gaps
    assert timeline.next_turn == 3


@pytest.mark.parametrize(
    ("script", "done", "undone"),
    [
        ("t1", None, None),
        ("t1 R1@0", "r1", None),
        ("t1 R1@0 U1", None, "r1"),
        ("t1 R1@0 R2@0", "r2", None),
        ("t1 R1@0 R2@0 U2", "r1", "r2"),
        ("t1 R1@0 R2@0 U2 U1", None, "r1"),
        ("t1 R1@0 R2@0 U2 U1 Y1", "r1", "r2"),
        ("t1 R1@0 R2@0 U2 U1 Y1 Y2", "r2", None),
        ("t1 R1@0 U1 t2", None, None),
        ("t1 R1@0 U1 R2@0", "r2", None),
        ("t1 R1@0 U1 R2@0 U2", None, "r2"),
        ("t1 R1@0 U1 t2 R2@3 U2", None, "r2"),
    ],
)
def test_the_stack_says_what_undo_and_redo_come_to_next(script, done, undone):
    timeline = fold(script)
    assert getattr(timeline.newest_done(), "rewind", None) == done
    assert getattr(timeline.newest_undone(), "rewind", None) == undone


@given(st.lists(st.sampled_from(log(f"{TWO} g1 R1@3 U1 Y1")), max_size=12), st.data())
def test_a_log_in_any_disorder_is_read_without_an_error_and_in_any_number_of_pieces(records, data):
    cut = data.draw(st.integers(0, len(records)))
    whole, pieces = Folding(), Folding()
    whole.extend(records)
    pieces.extend(records[:cut])
    pieces.extend(records[cut:])
    assert whole == pieces


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_a_record_that_is_none_is_counted_and_skipped(record):
    folding = folding_of(ONE)
    timeline = folding.timeline
    touches = list(timeline.touches)
    folding.extend([record])
    assert timeline.damaged == 1
    assert timeline.touches == touches


def test_a_kind_of_record_from_the_future_is_skipped():
    folding = folding_of(ONE)
    folding.extend([{"v": 1, "seq": 3, "kind": "from the future", "x": 1}])
    assert folding.timeline.damaged == 0
    assert folding.timeline.next_seq == 4


# -- targets -----------------------------------------------------------------------------------------------------------


def _prompts(*ids: str) -> list[Prompt]:
    return [Prompt(each, place * 10, place * 10 + 9, None, each, False) for place, each in enumerate(ids)]


@pytest.mark.parametrize(
    ("to", "index"),
    [(1, 1), (3, 3), ("abc", 1), ("ab", 1), ("b", 3), ("bcd", 3), ("2", 2), ("22", 2), ("3", 3), ("03", 3)],
)
def test_a_prompt_is_found_by_index_id_or_the_beginning_of_its_id(to, index):
    assert resolve(to, _prompts("abc", "22", "bcd"), Timeline(), "both").index == index


@pytest.mark.parametrize("to", [0, -1, 4, "x", "abcd", "-1", "1.0", " 1", "①", "1" * 20, "٣"])
def test_what_names_no_prompt_is_not_found(to):
    with pytest.raises(NotFoundError):
        resolve(to, _prompts("abc", "22", "bcd"), Timeline(), "both")


@pytest.mark.parametrize("to", ["", None, True, 1.0, b"abc", ["abc"]])
def test_what_can_name_no_prompt_is_refused(to):
    with pytest.raises(RequestError):
        resolve(to, _prompts("abc"), Timeline(), "both")


def test_a_whole_id_wins_over_an_index_and_both_over_a_beginning():
    prompts = _prompts("x1", "2", "2-more", "x3")
    assert resolve("2", prompts, Timeline(), "both").id == "2"
    with pytest.raises(AmbiguousError):
        resolve("x", prompts, Timeline(), "both")
    assert resolve("3", _prompts("31", "32", "33"), Timeline(), "both").id == "33"


def test_a_detached_prompt_is_a_place_for_code_alone():
    timeline = fold(f"{TWO} C1")
    assert resolve("m2", _prompts("m1"), timeline, "code").index is None
    for scope in ("both", "conversation"):
        with pytest.raises(NotFoundError):
            resolve("m2", _prompts("m1"), timeline, scope)


def test_a_prompt_without_a_turn_stands_in_front_of_the_next_that_has_one():
    timeline = fold("t1 b1f:v1 a1f:v2 t3 b3f:v2 a3f:v3")
    places = [resolve(number, _prompts("m0", "m1", "m2", "m3", "m4"), timeline, "both").order for number in range(1, 6)]
    assert places == sorted(places)
    assert places[1] == (0, 0, 0, 0)
    assert (2, 9, 9, 9) < places[2] < places[3] == (3, 0, 0, 0)
    assert places[4] > (5, 9, 9, 9)


# -- records -----------------------------------------------------------------------------------------------------------

SIZES = st.integers(0, 2**62)
MODES = st.integers(0, 0o7777)
HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
FILE_STATES = st.one_of(
    st.just(Absent()),
    st.builds(Content, HEX, SIZES, MODES),
    st.builds(Directory, MODES),
    st.builds(Link, st.text(st.characters(exclude_characters="\0"), min_size=1)),
    st.builds(Unreadable, st.text()),
    st.builds(OverLimit, SIZES, MODES),
)
PATHS = st.text(st.characters(exclude_characters="\0"), min_size=1)
PAYLOADS = st.builds(Payload, st.from_regex(r"[a-z]+/[0-9]+\.before", fullmatch=True), SIZES, SIZES)
IMAGES = st.builds(Image, FILE_STATES, st.none() | PAYLOADS)


@given(FILE_STATES)
def test_a_state_survives_its_record(state):
    assert from_record(to_record(state)) == state


@given(IMAGES)
def test_an_image_survives_its_record(image):
    assert image_from(image.to_record()) == image


@given(FILE_STATES, FILE_STATES)
def test_two_states_are_the_same_both_ways_and_nobody_is_the_same_as_what_could_not_be_read(one, other):
    assert same(one, other) == same(other, one)
    assert same(one, one) == (not isinstance(one, Unreadable | OverLimit))
    if same(one, other):
        assert type(one) is type(other)


@pytest.mark.parametrize(
    "record",
    [None, 1, "absent", [], {}, {"is": "new kind"}, {"is": "content"}, {"is": "content", "sha256": 1, "size": 1, "mode": 1},
     {"is": "content", "sha256": "x", "size": -1, "mode": 1}, {"is": "link", "target": "a\0b"}, {"is": "directory"}],
)  # fmt: skip
def test_what_is_no_state_is_refused(record):
    with pytest.raises(ValueError, match="not a file state"):
        from_record(record)


@given(st.lists(st.builds(Change, PATHS, IMAGES, IMAGES)), PAYLOADS, PAYLOADS, SIZES)
def test_a_transaction_survives_its_record(changes, removed, tail, keep):
    for cut in (None, Cut(keep, keep, 3, removed, tail, "seam", ("1", "2"))):
        record = Record(
            "rw-1", "rewind", "rw-1", "both", "m", "at", tuple(changes), cut, ({"kind": "rewind"},), 4, "prompt"
        )
        assert record_from(record.to_record()) == record


def test_an_identity_stands_for_the_content_only_when_it_was_recorded_a_second_later():
    second = 10**9
    facts = (1, 2, 3, 0o100644, 10 * second, 10 * second)
    now = Identity(*facts, 99 * second)
    for recorded, stands in ((10 * second, False), (11 * second, False), (11 * second + 1, True), (9 * second, False)):
        assert Identity(*facts, recorded).matches(now) is stands
    settled = Identity(*facts, 20 * second)
    for place in range(6):
        other = list(facts)
        other[place] += 1
        assert not settled.matches(Identity(*other, 99 * second))
