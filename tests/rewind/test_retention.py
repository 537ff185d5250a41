"""The laws of what goes, for any turns, undo records and limits."""

from hypothesis import given
from hypothesis import strategies as st

from sessions.rewind.retention import Holding, Stored, Tally, evict
from sessions.settings import UNLIMITED, Limits

SIZES = st.lists(st.integers(0, 50), min_size=1, max_size=6)
PICKS = st.lists(st.dictionaries(st.integers(0, 5), st.integers(1, 3), max_size=3), max_size=6)
LIMITS = st.builds(Limits, st.integers(0, 4), st.integers(0, 4), st.integers(0, 150))


@st.composite
def sessions(draw, *, linked=1):
    """Undo records and turns, each oldest first, whose files are names of a few inodes."""
    sizes, undo, turns = draw(SIZES), draw(PICKS), draw(PICKS)
    names = dict.fromkeys(range(6), 0)
    for pick in (*undo, *turns):
        for inode, here in pick.items():
            names[inode] += here
    elsewhere = [draw(st.integers(0, linked)) for _ in names]

    def directory(pick):
        return {
            (1, inode): Stored(sizes[inode % len(sizes)], here, names[inode] + elsewhere[inode])
            for inode, here in pick.items()
        }

    def holding(picks, place):
        needed = place == len(picks) - 1 or draw(st.booleans())
        return {"newer": len(picks) - 1 - place, "needed": needed, "directories": (directory(picks[place]),)}

    return (
        [Holding(record=f"r{place}", **holding(undo, place)) for place in range(len(undo))],
        [Holding(turns=(place,), **holding(turns, place)) for place in range(len(turns))],
    )


def total(holdings):
    """What they take, counted anew."""
    return sum(
        {inode: stored.size_bytes for each in holdings for inode, stored in each.directories[0].items()}.values()
    )


def split(session, limits):
    undo, turns = session
    eviction = evict(undo, turns, limits)
    gone = {id(each) for each in eviction.going}
    return eviction, [each for each in (*undo, *turns) if id(each) not in gone]


@given(sessions(), LIMITS)
def test_what_is_needed_never_goes_and_the_rest_goes_in_order(session, limits):
    eviction, _ = split(session, limits)
    assert not any(each.needed for each in eviction.going)
    places = [[id(each) for each in (*session[0], *session[1])].index(id(each)) for each in eviction.going]
    assert places == sorted(places)


@given(sessions(), LIMITS)
def test_what_stays_fits_or_is_needed(session, limits):
    _, stays = split(session, limits)
    if 0 < limits.quota_bytes < total(stays):
        assert all(each.needed for each in stays)
    for listed, retained in ((session[0], limits.retain_rewinds), (session[1], limits.retain_turns)):
        over = [each for each in listed if retained and each.newer >= retained and each in stays]
        assert all(each.needed for each in over)


@given(sessions(), LIMITS)
def test_it_stops_as_soon_as_the_rest_fits(session, limits):
    eviction, stays = split(session, limits)
    within = [
        each
        for each in eviction.going
        for retained in [limits.retain_rewinds if each.record is not None else limits.retain_turns]
        if not retained or each.newer < retained
    ]
    if within:
        assert total([*stays, within[-1]]) > limits.quota_bytes > 0


@given(sessions(), LIMITS)
def test_the_quota_takes_undo_records_before_turns(session, limits):
    eviction, stays = split(session, limits)
    by_quota = [each for each in eviction.going if each.turns and each.newer < (limits.retain_turns or len(session[1]))]
    if by_quota:
        assert all(each.needed for each in stays if each.record is not None)


@given(sessions())
def test_without_limits_nothing_goes(session):
    assert split(session, UNLIMITED)[0].going == ()


@given(sessions(), LIMITS)
def test_what_is_freed_is_what_has_no_other_name(session, limits):
    eviction, stays = split(session, limits)
    everything = total([*session[0], *session[1]])
    assert eviction.freed_bytes + total(stays) <= everything


@given(sessions(linked=0), LIMITS)
def test_without_links_elsewhere_all_that_goes_is_freed(session, limits):
    eviction, stays = split(session, limits)
    assert eviction.freed_bytes + total(stays) == total([*session[0], *session[1]])


@given(sessions(), st.data())
def test_a_tally_is_the_sum_of_what_is_there(session, data):
    tally, there = Tally(), []
    for each in (*session[0], *session[1]):
        tally.add(each.directories[0])
        there.append(each)
        while there and data.draw(st.booleans()):
            tally.remove(there.pop(data.draw(st.integers(0, len(there) - 1))).directories[0])
        assert tally.total_bytes == total(there)
