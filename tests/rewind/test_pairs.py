"""Which deleted file a created one was, where several have the same content."""

from hypothesis import given
from hypothesis import strategies as st

from sessions.rewind import moves
from sessions.rewind.changes import NetChange, Part
from sessions.rewind.moves import with_moves
from sessions.rewind.states import Absent, Content, Image

PATHS = st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("xyz"), st.sampled_from("12")), unique=True)


def changes(deleted, created):
    gone = [NetChange(f"/old/{path}", (Part(content(digit), Image(Absent()), "agent"),)) for path, digit in deleted]
    come = [NetChange(f"/new/{path}", (Part(Image(Absent()), content(digit), "agent"),)) for path, digit in created]
    return sorted([*gone, *come], key=lambda change: change.path)


def content(digit: str) -> Image:
    return Image(Content(digit * 64, 3, 0o644))


def paired(deleted, created):
    """Pair as one would by hand: each in order takes the first left with its name, else the first left."""
    left, pairs = sorted(deleted), {}
    for path, digit in sorted(created):
        equal = [each for each in left if each[1] == digit]
        named = [each for each in equal if each[0].rpartition("/")[2] == path.rpartition("/")[2]]
        if equal:
            chosen = (named or equal)[0]
            left.remove(chosen)
            pairs[f"/new/{path}"] = f"/old/{chosen[0]}"
    return pairs


def unique(paths):
    return list({f"{directory}/{name}": digit for directory, name, digit in paths}.items())


@given(PATHS, PATHS)
def test_each_file_takes_the_first_left_of_its_content_and_before_that_the_first_of_its_name(deleted, created):
    deleted, created = unique(deleted), unique(created)
    moved = with_moves(changes(deleted, created), lambda _: None)
    assert {each.path: each.moved_from for each in moved if each.moved_from} == paired(deleted, created)


def test_many_files_of_one_content_are_not_compared_with_each_other(monkeypatch):
    named, name = [], moves._name
    monkeypatch.setattr(moves, "_name", lambda change: named.append(change.path) or name(change))
    deleted, created = ([(f"{side}{number:02d}", "1") for number in range(40)] for side in "ab")
    moved = with_moves(changes(deleted, created), lambda _: None)
    assert [each.moved_from for each in moved] == [f"/old/{path}" for path, _ in deleted]
    assert len(named) == len(deleted) + len(created)
