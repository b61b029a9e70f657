"""What one user may hold of what all share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.concurrency_limit import ConcurrencyLimit, TooManyAtOnce
from ec2spawner.core.fair_share import share


def test_a_single_user_has_a_fifth() -> None:
    assert share(10_000, 0) == 2000
    assert share(3, 0) == 1
    assert share(3, 3) == share(3, 7) == 0


@given(total=st.integers(1, 10**6), users=st.integers(1, 40))
def test_greedy_users_never_take_more_than_all_and_leave_something_for_the_next(
    total: int, users: int
) -> None:
    held = 0
    for _ in range(users):
        left = total - held
        mine = share(total, held)
        assert (mine > 0) == (left > 0)
        assert mine <= left
        held += mine


def test_calls_of_all_have_a_bound_of_which_each_key_has_a_share() -> None:
    limit = ConcurrencyLimit(at_once=2, in_all=6)
    held = [limit.hold(key) for key in ("ann", "ann", "bob", "eve", "joe", "kim")]
    for each in held:
        each.__enter__()
    with pytest.raises(TooManyAtOnce), limit.hold("zoe"):
        pass
    held[0].__exit__(None, None, None)
    with limit.hold("zoe"):
        pass
