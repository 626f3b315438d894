"""What connections may hold of requests: each a little, and all together no more than there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trikubelet.httpd.request_bytes import ConnectionShare, RequestByteBudget

OWN, SHARED = 10, 100


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 150)), max_size=60))
def test_no_more_is_held_than_there_is_and_what_each_may_hold_is_never_refused(wishes: list[tuple[int, int]]) -> None:
    budget = RequestByteBudget(SHARED)
    shares = [ConnectionShare(budget, OWN) for _ in range(5)]
    for number, size in wishes:
        share = shares[number]
        before, others = share.held, sum(max(0, one.held - OWN) for one in shares if one is not share)
        had_room = share.hold(size)
        assert (max(0, size - OWN) <= SHARED - others) == had_room
        assert (size if had_room else before) == share.held
        assert SHARED - sum(max(0, one.held - OWN) for one in shares) == budget.left

    for share in shares:
        assert share.hold(0)
    assert SHARED == budget.left
