"""Touches that name their place on the timeline: each gets it, whatever stands around them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.rewind.folding import Folding
from sessions.rewind.states import Absent, Content, Image

NUMBERS = st.integers(1, 3)
ORDERS = st.none() | st.tuples(st.integers(0, 20), st.just(0), st.just(0), st.integers(0, 2))
KINDS = ("after", "again", "gap", "gap of task", "mark", "end", "task", "ended", "withdrawn", "child", "wrote")
STEPS = st.one_of(
    st.tuples(st.just("turn"), NUMBERS, ORDERS),
    st.tuples(st.just("before"), NUMBERS, ORDERS),
    st.tuples(st.just("before"), NUMBERS, ORDERS),
    st.tuples(st.sampled_from(KINDS), NUMBERS, st.none()),
    st.tuples(st.just("rewind"), st.integers(1, 2), ORDERS),
    st.tuples(st.just("undo of"), st.integers(1, 2), st.none()),
    st.tuples(st.sampled_from(["undo", "redo"]), st.integers(1, 4), st.none()),
)


def record(seq, kind, number, order, path="f"):
    """Return a record; of the rewinds r1 and r2 only files are undone as r3 and r4."""
    state = Content(str(seq % 10) * 64, 3, 0o644) if kind == "after" else Absent()
    place = {} if order is None else {"order": list(order), "from": list(order)}
    facts = {"edit": 1, "path": path, "by": "agent", "message_id": f"m{number}", "run_id": None, "files": []}
    facts |= {"gap": "shell", "paths": [], "name": "here", "at": "", "offset": 0, "seam": ""}
    work = {"session": f"subagent-{number}", "spawned_by": "m", "parent": "s", "label": "", "argv": [], "edits": []}
    work |= {"how": "attach", "captured": False, "tag": "", "state": "completed", "code": None}
    work |= {"task": f"task-{number}"} if kind in WITH_TASK else {}
    step = {"rewind": f"r{number}", "record": f"u{seq}", "scope": "both", "to": "m"}
    step |= {"rewind": f"r{number + 2}", "of": f"r{number}"} if kind == "undo of" else {}
    nothing = Image(Absent()).to_record()
    wrote = {"before": nothing, "after": Image(Content("f" * 64, 3, 0o644)).to_record()}
    step |= {"touches": [{"path": path, **wrote}]} if kind in {"rewind", "undo", "undo of", "redo"} else wrote
    numbered = {"v": 1, "seq": seq, "kind": kind.partition(" ")[0], "turn": number}
    return numbered | facts | work | step | place | (Image(state).to_record() if kind != "ended" else {})


WITH_TASK = {"gap of task", "task", "ended", "withdrawn", "child"}


@settings(max_examples=400)
@given(st.lists(STEPS, max_size=14))
def test_records_read_together_come_to_the_same_as_one_by_one(steps):
    records = [record(seq, *step) for seq, step in enumerate(steps)]
    together, apart = Folding(), Folding()
    together.extend(records)
    for each in records:
        apart.extend([each])
    assert together == apart
    orders = [touch.order for touch in together.timeline.touches]
    assert orders == sorted(orders)
    for turn in range(1, 4):
        of_turn = together.timeline.touches_of(turn)
        assert together.timeline.last_touch(turn, "f") is (of_turn[-1] if of_turn else None)


@pytest.mark.parametrize(
    "kind", ["turn", "after", "again", "gap", "mark", "task", "ended", "withdrawn", "child", "wrote", "undo of"]
)
def test_every_kind_of_record_that_is_drawn_makes_sense(kind):
    begun = [record(seq, each, 1, None) for seq, each in enumerate(["turn", "task", "before", "after"])]
    folding = Folding()
    folding.extend([*begun, record(4, kind, 1, None)])
    assert folding.timeline.damaged == 0


def test_touches_recorded_after_the_fact_are_put_in_order_once(monkeypatch):
    indexed, index = [], Folding._index
    monkeypatch.setattr(Folding, "_index", lambda self: indexed.append(len(self.timeline.touches)) or index(self))
    folding = Folding()
    late = [record(seq, "before", 1, (0, 0, 0, 50 - seq), f"f{seq}") for seq in range(1, 50)]
    folding.extend([record(0, "turn", 1, None), *late])
    assert [touch.path for touch in folding.timeline.touches] == [f"f{seq}" for seq in range(49, 0, -1)]
    assert indexed == [49]
