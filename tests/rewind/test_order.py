"""Touches that name their place on the timeline: each gets it, whatever stands around them."""

from hypothesis import given
from hypothesis import strategies as st

from sessions.rewind.folding import Folding
from sessions.rewind.states import Absent, Content, Image

ORDERS = st.none() | st.tuples(*[st.integers(0, 6)] * 4)
STEPS = st.one_of(
    st.tuples(st.just("turn"), st.integers(1, 3), ORDERS),
    st.tuples(st.just("before"), st.integers(1, 3), ORDERS),
    st.tuples(st.just("before"), st.integers(1, 3), ORDERS),
    st.tuples(st.just("after"), st.integers(1, 3), st.none()),
    st.tuples(st.just("again"), st.integers(1, 3), st.none()),
    st.tuples(st.just("rewind"), st.integers(1, 2), ORDERS),
    st.tuples(st.sampled_from(["undo", "redo"]), st.integers(1, 2), st.none()),
)


def record(seq, kind, number, order, path="f"):
    state = Content(str(seq % 10) * 64, 3, 0o644) if kind == "after" else Absent()
    place = {} if order is None else {"order": list(order), "from": list(order)}
    facts = {"edit": 1, "path": path, "by": "agent", "message_id": f"m{number}", "run_id": None}
    step = {"rewind": f"r{number}", "record": f"u{seq}", "scope": "both", "to": "m", "at": ""}
    return {"v": 1, "seq": seq, "kind": kind, "turn": number} | facts | step | place | Image(state).to_record()


@given(st.lists(STEPS, max_size=14))
def test_records_read_together_come_to_the_same_as_one_by_one(steps):
    records = [record(seq, *step) for seq, step in enumerate(steps)]
    together, apart = Folding(), Folding()
    together.extend(records)
    for each in records:
        apart.extend([each])
    assert together == apart
    for turn in range(1, 4):
        of_turn = together.timeline.touches_of(turn)
        assert together.timeline.last_touch(turn, "f") is (of_turn[-1] if of_turn else None)


def test_touches_recorded_after_the_fact_are_put_in_order_once(monkeypatch):
    indexed, index = [], Folding._index
    monkeypatch.setattr(Folding, "_index", lambda self: indexed.append(len(self.timeline.touches)) or index(self))
    folding = Folding()
    late = [record(seq, "before", 1, (0, 0, 0, 50 - seq), f"f{seq}") for seq in range(1, 50)]
    folding.extend([record(0, "turn", 1, None), *late])
    assert [touch.path for touch in folding.timeline.touches] == [f"f{seq}" for seq in range(49, 0, -1)]
    assert indexed == [49]
