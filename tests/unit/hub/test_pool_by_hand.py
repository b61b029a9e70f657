"""For which market a number that is set by hand holds."""

from __future__ import annotations

import pytest
from tornado.web import HTTPError

from ec2spawner.config import Profile
from ec2spawner.core.pool.rules import PoolRule
from ec2spawner.hub.api.pool import ByHand, market_of
from ec2spawner.wire import Market

SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND


def of_rule(market: Market) -> list[PoolRule]:
    return [PoolRule("other", 1, ON_DEMAND), PoolRule("t4", 2, market)]


def test_by_default_it_is_that_of_the_first_rule_or_of_the_profile(profile: Profile) -> None:
    for market in Market:
        assert market_of(ByHand(running=3), of_rule(market), profile) is market
    assert market_of(ByHand(running=3), [], profile) is profile.markets[0]
    assert market_of(ByHand(running=3, stopped=5), of_rule(ON_DEMAND), profile) is ON_DEMAND


@pytest.mark.parametrize("stopped", [0, 5])
def test_stopped_ones_move_no_running_ones_to_another_market(
    profile: Profile, stopped: int
) -> None:
    with pytest.raises(HTTPError, match="--market=on-demand") as refused:
        market_of(ByHand(running=20, stopped=stopped), of_rule(SPOT), profile)
    assert refused.value.status_code == 409
    named = ByHand(running=20, stopped=stopped, market=ON_DEMAND)
    assert market_of(named, of_rule(SPOT), profile) is ON_DEMAND


def test_spot_ones_never_wait_stopped(profile: Profile) -> None:
    with pytest.raises(HTTPError):
        market_of(ByHand(running=1, stopped=1, market=SPOT), of_rule(ON_DEMAND), profile)
    none = ByHand(running=1, stopped=0, market=SPOT)
    assert market_of(none, of_rule(ON_DEMAND), profile) is SPOT
