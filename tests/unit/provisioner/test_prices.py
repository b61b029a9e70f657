"""Prices: what is known, from where and since when; nothing stands in for what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_cloud import Clock, SimulatedCloud
from world import SETTINGS, World

from ec2spawner import data
from ec2spawner.provisioner.cloud import CloudError
from ec2spawner.provisioner.prices import PriceBook
from ec2spawner.wire import Market


@pytest.fixture
def cloud() -> SimulatedCloud:
    made = SimulatedCloud(Clock())
    made.prices = {
        ("g4dn.xlarge", "us-east-1a"): 0.21,
        ("g4dn.xlarge", "us-east-1b"): 0.19,
        ("g5.xlarge", "us-east-1b"): 0.50,
    }
    return made


def book(cloud: SimulatedCloud, region: str = "us-east-1", zones: str = "") -> PriceBook:
    settings = replace(SETTINGS, region=region)
    types = data.instance_types()
    return PriceBook(
        cloud, settings, types, now=cloud.clock, zones=zones.split, changed=lambda: None
    )


async def test_a_spot_price_is_of_its_zone_and_has_an_age(cloud: SimulatedCloud) -> None:
    prices = book(cloud)
    assert prices.price(Market.SPOT, "g4dn.xlarge", "us-east-1a") is None
    await prices.refresh()
    price = prices.price(Market.SPOT, "g4dn.xlarge", "us-east-1a")
    assert price is not None
    assert (price.usd_per_hour, price.read_at) == (0.21, cloud.clock())
    assert prices.price(Market.SPOT, "g5.xlarge", "us-east-1a") is None


async def test_the_cheapest_is_over_types_and_zones(cloud: SimulatedCloud) -> None:
    prices = book(cloud)
    await prices.refresh()
    spot = prices.cheapest(Market.SPOT, ("g5.xlarge", "g4dn.xlarge"))
    on_demand = prices.cheapest(Market.ON_DEMAND, ("g5.xlarge", "g4dn.xlarge"))
    assert spot is not None
    assert on_demand is not None
    assert (spot.usd_per_hour, on_demand.usd_per_hour) == (0.19, 0.526)
    assert prices.cheapest(Market.SPOT, ("p4d.24xlarge",)) is None


async def test_a_price_of_a_zone_without_a_subnet_is_nobodys(cloud: SimulatedCloud) -> None:
    prices = book(cloud, zones="us-east-1a us-east-1c")
    await prices.refresh()
    cheapest = prices.cheapest(Market.SPOT, ("g5.xlarge", "g4dn.xlarge"))
    assert cheapest is not None
    assert cheapest.usd_per_hour == 0.21
    assert prices.cheapest(Market.SPOT, ("g5.xlarge",)) is None


async def test_the_hub_reads_prices_of_the_zones_of_its_subnets(world: World) -> None:
    await world.complete_passes(1)
    zones = {call.arguments[1] for call in world.cloud.of("spot_prices")}
    assert zones == {("us-east-1a", "us-east-1b")}


async def test_no_price_of_another_region_stands_in(cloud: SimulatedCloud) -> None:
    assert book(cloud).on_demand("g4dn.xlarge") is not None
    assert book(cloud, "eu-west-1").on_demand("g4dn.xlarge") is None


async def test_a_failing_refresh_keeps_old_prices_with_their_age(cloud: SimulatedCloud) -> None:
    prices = book(cloud)
    await prices.refresh()
    read_at = cloud.clock()
    cloud.clock.advance(600)
    cloud.fail("spot_prices", CloudError("RequestLimitExceeded", "slow", retryable=True))
    await prices.refresh()
    price = prices.price(Market.SPOT, "g4dn.xlarge", "us-east-1b")
    assert price is not None
    assert (price.usd_per_hour, price.read_at) == (0.19, read_at)
