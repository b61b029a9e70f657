"""Token buckets: what is allowed, to whom, and what is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core import rate_limit
from ec2spawner.core.rate_limit import Rate, RateLimit, Share, TokenBucket

RATE = Rate(burst=3, per_second=2.0)


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 10), st.floats(0.1, 50))
def test_never_more_than_burst_plus_refill(
    pauses: list[float], burst: int, per_second: float
) -> None:
    limit, now, taken = RateLimit(Rate(burst, per_second)), 0.0, 0
    for pause in pauses:
        now += pause
        taken += limit.take("one", now)
        assert taken <= burst + now * per_second + 1e-6


@given(st.integers(1, 20), st.floats(0, 3))
def test_a_token_is_available_after_the_reported_wait(takes: int, pause: float) -> None:
    limit, now = RateLimit(RATE), 0.0
    for _ in range(takes):
        limit.take("one", now)
        now += pause / 10
    wait = limit.wait_seconds("one", now)
    assert (wait == 0) == limit.take("one", now + wait * 0.5)
    assert limit.take("one", now + wait + 1 / RATE.per_second)


def test_keys_have_separate_buckets() -> None:
    limit = RateLimit(RATE)
    assert [limit.take("one", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert limit.take("other", 0.0)


def test_a_clock_that_goes_back_changes_no_tokens() -> None:
    limit = RateLimit(RATE)
    for _ in range(3):
        assert limit.take("one", 100.0)
    assert not limit.take("one", 50.0)
    assert limit.take("one", 101.0)


def test_the_number_of_remembered_keys_is_bounded() -> None:
    limit = RateLimit(RATE)
    for _ in range(3):
        limit.take("spent", 0.0)
    for number in range(rate_limit.MAX_BUCKETS * 3):
        limit.take(number, 0.0)
    assert len(limit) <= rate_limit.MAX_BUCKETS
    assert not limit.take("spent", 0.0), "the key that has spent most is remembered"


# --- one bucket ---

STEPS = st.lists(st.tuples(st.floats(0, 5), st.integers(1, 4)), max_size=60)


@given(STEPS, st.integers(4, 10), st.floats(0.1, 50))
def test_takes_of_several_tokens_never_exceed_burst_plus_refill(
    steps: list[tuple[float, int]], burst: int, per_second: float
) -> None:
    bucket, now, taken = TokenBucket(Rate(burst, per_second)), 0.0, 0
    for pause, tokens in steps:
        now += pause
        taken += tokens * bucket.take(now, tokens)
        assert taken <= burst + now * per_second + 1e-4


@given(STEPS, st.integers(1, 10))
def test_several_tokens_are_available_after_the_reported_wait_and_not_before(
    steps: list[tuple[float, int]], wanted: int
) -> None:
    bucket, now = TokenBucket(Rate(10, 2.0)), 0.0
    for pause, tokens in steps:
        now += pause / 10
        bucket.take(now, tokens)
    wait = bucket.wait_seconds(now, wanted)
    if wait > 1e-3:
        assert not bucket.take(now + wait * 0.9, wanted)
    assert bucket.take(now + wait, wanted)


def test_a_wait_for_more_than_the_bucket_holds_is_that_of_takes_one_after_the_other() -> None:
    bucket = TokenBucket(RATE)
    assert bucket.wait_seconds(0.0, 13) == 5.0
    assert not bucket.take(100.0, 13)


def test_an_emptied_bucket_recovers_by_its_refill() -> None:
    bucket = TokenBucket(RATE)
    bucket.empty(10.0)
    assert [bucket.take(now) for now in (10.0, 10.5, 10.6)] == [False, True, False]


def test_what_is_given_back_is_available_again_and_does_not_overfill() -> None:
    bucket = TokenBucket(RATE)
    assert bucket.take(0.0, 3)
    bucket.give_back(0.0, 2)
    assert [bucket.take(0.0) for _ in range(3)] == [True, True, False]
    bucket.give_back(0.0, 100)
    assert bucket.tokens(0.0) == 3


def test_a_bucket_without_refill_stays_empty() -> None:
    bucket = TokenBucket(Rate(1, 0))
    assert bucket.take(0.0)
    assert bucket.wait_seconds(1e9) == float("inf")


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.floats(0, 2)), max_size=80),
    st.integers(1, 20),
)
def test_shares_never_take_more_than_the_half_that_is_theirs(
    takes: list[tuple[int, int, float]], burst: int
) -> None:
    """And each of them has half the rate, whoever else takes."""
    limit, now, taken = RateLimit(Rate(burst, 2.0)), 0.0, dict.fromkeys(range(6), 0)
    for part, tokens, pause in takes:
        if limit.take(Share("one", part), now, tokens):
            taken[part] += tokens
        assert sum(taken.values()) <= burst - burst // 2 + now * 2 + 1e-3
        assert taken[part] <= max(burst // 2, 1) + now + 1e-3
        now += pause
    assert not burst // 2 or limit.take("one", now, burst // 2)


def test_a_share_that_waits_as_long_as_reported_is_served() -> None:
    limit = RateLimit(Rate(burst=8, per_second=2.0))
    shares = [Share("one", part) for part in range(3)]
    for share in shares:
        while limit.take(share, 0.0):
            pass
    assert limit.take("one", 0.0, 4)
    wait = limit.wait_seconds(shares[2], 0.0)
    assert wait == 2.5
    assert not limit.take(shares[2], wait - 0.1)
    assert limit.take(shares[2], wait)


def test_what_bought_nothing_is_returned() -> None:
    limit, share = RateLimit(Rate(burst=8, per_second=0.0)), Share("one", 1)
    for _ in range(20):
        assert limit.take(share, 0.0)
        with pytest.raises(ValueError, match="refused"), limit.returned_on_error(share, 0.0):
            raise ValueError("refused")
    assert limit.take("one", 0.0, 8)
