"""Prices: what is known, from where and since when; nothing stands in for what is not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

import pytest

from ec2spawner import data
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.core.pricing.price_history import WEEK, PricePoint, steadiness
from ec2spawner.core.pricing.resource_prices import ResourcePrices
from ec2spawner.core.tags import STORE
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import Instance, InstanceState
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.offers.prices import Price, PriceCache
from ec2spawner.wire import Market
from tests.bare_state import STORE_ID, bare_state
from tests.simulated_cloud import Clock, SimulatedCloud
from tests.unit.provisioner.world import SPEC, World

T4, A10G = "g4dn.xlarge", "g5.xlarge"
A, B = "us-east-1a", "us-east-1b"
THROTTLE = CloudError("RequestLimitExceeded", "slow down", retryable=True)
FORBIDDEN = CloudError("AccessDeniedException", "pricing:GetProducts", retryable=False)


@pytest.fixture
def cloud() -> SimulatedCloud:
    made = SimulatedCloud(Clock())
    made.prices = {(T4, A): 0.21, (T4, B): 0.19, (A10G, B): 0.50}
    made.list_prices = {T4: 0.55}
    return made


@pytest.fixture
def running() -> dict[str, Instance]:
    return {}


def registry(
    cloud: SimulatedCloud,
    running: Mapping[str, Instance] = MappingProxyType({}),
    *discounts: Discount,
    region: str = "us-east-1",
    zones: Sequence[str] = (A, B),
    want: Sequence[str] = (T4, A10G),
) -> PriceCache:
    settings = Settings(
        hub="hub",
        region=region,
        subnets=(),
        want_types=tuple(want),
        price_interval=3600,
        discounts=discounts,
    )
    state = bare_state(settings, cloud.clock, zones)
    state.instances.listed = running
    return PriceCache(state, cloud, data.instance_types())


def usd(price: Price | None) -> float | None:
    return price.usd_per_hour if price else None


# --- spot ------------------------------------------------------------------------------------


async def test_a_spot_price_is_of_its_zone_and_has_an_age(cloud: SimulatedCloud) -> None:
    prices = registry(cloud)
    assert prices.price(Market.SPOT, T4, A) is None
    await prices.refresh()
    price = prices.price(Market.SPOT, T4, A)
    assert price == Price(0.21, "EC2 spot price history", cloud.clock())
    assert prices.price(Market.SPOT, A10G, A) is None


async def test_the_first_prices_of_a_type_are_awaited_until_they_were_asked_for(
    cloud: SimulatedCloud,
) -> None:
    prices = registry(cloud, want=(A10G,))
    gate = cloud.hold("spot_history")
    refresh = asyncio.create_task(prices.refresh())
    await asyncio.sleep(0.01)
    prices.want([A10G, T4])
    gate.set()
    await refresh
    assert prices.price(Market.SPOT, A10G, B)
    assert prices.first_readings.awaited([T4])
    await prices.refresh()
    assert not prices.first_readings.awaited([T4])
    assert usd(prices.price(Market.SPOT, T4, A)) == 0.21


async def test_prices_of_zones_without_a_subnet_are_ignored(cloud: SimulatedCloud) -> None:
    prices = registry(cloud, zones=(A, "us-east-1c"))
    await prices.refresh()
    assert usd(prices.price(Market.SPOT, T4, A)) == 0.21
    assert prices.price(Market.SPOT, T4, B) is None
    assert prices.price(Market.SPOT, A10G, B) is None


async def test_seven_days_are_read_once_and_then_only_what_is_new(cloud: SimulatedCloud) -> None:
    start = cloud.clock()
    cloud.histories[T4, A] = [
        PricePoint(start - timedelta(days=30), 0.18),
        PricePoint(start - timedelta(days=3), 0.20),
        PricePoint(start + timedelta(hours=5), 0.30),
    ]
    prices = registry(cloud, want=[T4])
    await prices.refresh()
    assert [point.usd_per_hour for point in prices.history(T4, A)] == [0.18, 0.20]
    cloud.clock.advance(6 * 3600)
    await prices.refresh()
    assert [point.usd_per_hour for point in prices.history(T4, A)] == [0.18, 0.20, 0.30]
    assert usd(prices.price(Market.SPOT, T4, A)) == 0.30
    assert steadiness(prices.history(T4, A), cloud.clock()).percent == 67
    first, second = (call.arguments[2] for call in cloud.of("spot_history"))
    assert first == start - WEEK
    assert start - timedelta(hours=2) < second < start

    cloud.clock.advance(WEEK.total_seconds())
    cloud.histories[T4, A] = [*cloud.histories[T4, A], PricePoint(cloud.clock(), 0.31)]
    await prices.refresh()
    assert [point.usd_per_hour for point in prices.history(T4, A)] == [0.30, 0.31]


async def test_a_price_that_ec2_lists_late_is_not_missed(cloud: SimulatedCloud) -> None:
    cloud.histories[T4, A] = [PricePoint(cloud.clock() - WEEK, 0.20)]
    prices = registry(cloud, want=[T4])
    await prices.refresh()
    late = cloud.clock() - timedelta(minutes=10)
    cloud.histories[T4, A] = [*cloud.histories[T4, A], PricePoint(late, 0.40)]
    cloud.clock.advance(300)
    await prices.refresh()
    assert prices.history(T4, A)[-1] == PricePoint(late, 0.40)


async def test_a_pool_no_longer_listed_has_no_price(cloud: SimulatedCloud) -> None:
    prices = registry(cloud)
    await prices.refresh()
    del cloud.prices[T4, A]
    cloud.clock.advance(300)
    await prices.refresh()
    assert prices.price(Market.SPOT, T4, A) is None
    assert prices.history(T4, A) == ()
    assert usd(prices.price(Market.SPOT, T4, B)) == 0.19


async def test_a_failing_refresh_keeps_old_prices_with_their_age(cloud: SimulatedCloud) -> None:
    prices = registry(cloud)
    await prices.refresh()
    read_at = cloud.clock()
    cloud.clock.advance(600)
    cloud.prices[T4, B] = 0.90
    cloud.fail("spot_history", THROTTLE)
    await prices.refresh()
    price = prices.price(Market.SPOT, T4, B)
    assert price is not None
    assert (price.usd_per_hour, price.read_at) == (0.19, read_at)
    await prices.refresh()
    price = prices.price(Market.SPOT, T4, B)
    assert price is not None
    assert (price.usd_per_hour, price.read_at) == (0.90, cloud.clock())


async def test_failing_types_do_not_block_others(cloud: SimulatedCloud) -> None:
    prices = registry(cloud, want=[T4])
    await prices.refresh()
    prices.want([A10G])
    cloud.clock.advance(300)
    cloud.hold("spot_history").set()  # the first call goes through, the second one fails
    cloud.fail("spot_history", THROTTLE)
    await prices.refresh()
    price = prices.price(Market.SPOT, T4, A)
    assert price is not None
    assert price.read_at == cloud.clock()
    assert prices.price(Market.SPOT, A10G, B) is None
    await prices.refresh()
    assert usd(prices.price(Market.SPOT, A10G, B)) == 0.50


async def test_new_types_are_read_at_once(cloud: SimulatedCloud) -> None:
    prices = registry(cloud, want=[])
    running = asyncio.create_task(prices.run())
    async with asyncio.timeout(90):
        while not cloud.of("reservations"):
            await asyncio.sleep(0)
        assert not cloud.of("spot_history")
        prices.want([T4])
        while prices.price(Market.SPOT, T4, A) is None:  # the interval is an hour
            await asyncio.sleep(0)
        reads = len(cloud.of("spot_history"))
        prices.want([T4])
        for _ in range(20):
            await asyncio.sleep(0)
    assert len(cloud.of("spot_history")) == reads
    running.cancel()


# --- on demand -------------------------------------------------------------------------------


async def test_list_prices_are_read_for_the_region(cloud: SimulatedCloud) -> None:
    prices = registry(cloud, region="eu-west-1")
    assert prices.on_demand(T4) is None
    await prices.refresh()
    assert prices.on_demand(T4) == Price(0.55, "the AWS price list", cloud.clock())
    assert prices.price(Market.ON_DEMAND, T4, A) == prices.on_demand(T4)
    assert prices.on_demand(A10G) is None


async def test_the_bundled_table_serves_for_its_own_region_only(cloud: SimulatedCloud) -> None:
    cloud.fail("on_demand_prices", FORBIDDEN, times=2)
    here, elsewhere = registry(cloud), registry(cloud, region="eu-west-1")
    await here.refresh()
    await elsewhere.refresh()
    price = here.on_demand(T4)
    assert price is not None
    assert (price.usd_per_hour, price.read_at) == (0.526, None)
    assert "table of 20" in price.source
    assert elsewhere.on_demand(T4) is None


async def test_the_bundled_table_fills_gaps_of_the_price_list(
    cloud: SimulatedCloud,
) -> None:
    prices = registry(cloud)
    await prices.refresh()
    assert [usd(prices.on_demand(name)) for name in (T4, A10G)] == [0.55, 1.006]


async def test_list_prices_are_read_once_a_day(cloud: SimulatedCloud) -> None:
    prices = registry(cloud)
    for _ in range(50):
        await prices.refresh()
        cloud.clock.advance(3600)
    assert len(cloud.of("on_demand_prices")) == 3
    assert len(cloud.of("reservations")) == 3
    assert len(cloud.of("spot_history")) == 50


async def test_prices_of_disks_are_the_regions_and_bundled_in_one_region_only(
    cloud: SimulatedCloud,
) -> None:
    here, elsewhere = registry(cloud), registry(cloud, region="eu-west-1")
    assert here.resources == ResourcePrices(0.08, 0.05, 0.005, 0.10)
    assert elsewhere.resources == ResourcePrices(address_usd_per_hour=0.005), "the same everywhere"
    assert registry(cloud, region="cn-north-1").resources == ResourcePrices(), "in CNY"
    cloud.resources = ResourcePrices(disk_usd_per_gib_month=0.09)
    await here.refresh()
    await elsewhere.refresh()
    assert here.resources == ResourcePrices(0.09, 0.05, 0.005, 0.10)
    assert elsewhere.resources == ResourcePrices(0.09, address_usd_per_hour=0.005)
    cloud.fail("resource_prices", THROTTLE)
    cloud.clock.advance(25 * 3600)
    await elsewhere.refresh()
    assert elsewhere.resources.disk_usd_per_gib_month == 0.09, "a failure keeps the old price"


async def test_a_failed_price_list_is_retried_soon_and_keeps_the_old_price(
    cloud: SimulatedCloud,
) -> None:
    prices = registry(cloud)
    await prices.refresh()
    read_at = cloud.clock()
    cloud.clock.advance(25 * 3600)
    cloud.list_prices[T4] = 0.60
    cloud.fail("on_demand_prices", THROTTLE)
    await prices.refresh()
    assert prices.on_demand(T4) == Price(0.55, "the AWS price list", read_at)
    await prices.refresh()
    assert len(cloud.of("on_demand_prices")) == 2
    cloud.clock.advance(600)
    await prices.refresh()
    assert prices.on_demand(T4) == Price(0.60, "the AWS price list", cloud.clock())


async def test_a_lasting_failure_is_logged_once(
    cloud: SimulatedCloud, caplog: pytest.LogCaptureFixture
) -> None:
    prices = registry(cloud)
    cloud.fail("spot_history", THROTTLE, times=3)
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            await prices.refresh()
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == 2
    assert "keeping the old" in logged[0]
    assert "works again" in logged[1]


async def test_hanging_spot_prices_block_nothing_else(cloud: SimulatedCloud) -> None:
    cloud.hold("spot_history")
    prices = registry(cloud)
    await prices.refresh()
    assert usd(prices.on_demand(T4)) == 0.55


# --- what is paid for ------------------------------------------------------------------------


def instance(
    number: int,
    launched_at: datetime,
    *,
    market: Market = Market.ON_DEMAND,
    state: InstanceState = InstanceState.RUNNING,
    instance_type: str = A10G,
    zone: str = A,
) -> Instance:
    tags = {STORE: STORE_ID}
    return Instance(f"i-{number}", state, instance_type, zone, market, launched_at, tags=tags)


@pytest.mark.parametrize(
    ("state", "usd_per_hour"),
    [
        (InstanceState.PENDING, None),
        (InstanceState.RUNNING, 0.0),
        (InstanceState.STOPPING, 0.0),
        (InstanceState.STOPPED, 0.0),
        (InstanceState.SHUTTING_DOWN, None),
        (InstanceState.TERMINATED, None),
    ],
)
def test_a_missing_address_costs_nothing_only_where_ec2_would_show_it(
    cloud: SimulatedCloud, state: InstanceState, usd_per_hour: float | None
) -> None:
    shown = instance(1, cloud.clock(), state=state)
    segment = registry(cloud).segment(shown, cloud.clock())
    assert segment.address_usd_per_hour == usd_per_hour


def show(running: dict[str, Instance], *instances: Instance) -> None:
    running.clear()
    running.update({each.instance_id: each for each in instances})


async def test_a_discount_pays_for_the_oldest_and_the_others_pay_in_full(
    cloud: SimulatedCloud, running: dict[str, Instance]
) -> None:
    prices = registry(cloud, running, Discount(A10G, 0.63, count=1))
    cloud.list_prices[A10G] = 1.01
    await prices.refresh()
    assert prices.paid(A10G, A) == Price(0.63, "the configured discounts", None)
    assert prices.paid_left(A10G, B) == 1
    old, new = instance(1, cloud.clock()), instance(2, cloud.clock() + timedelta(seconds=1))
    show(running, new, old)
    assert [usd(prices.price_of(each)) for each in (old, new)] == [0.63, 1.01]
    assert prices.paid(A10G, A) is None
    assert prices.paid_left(A10G, A) == 0
    assert usd(prices.on_demand(A10G)) == 1.01, "what anybody pays stays what it is"

    show(running, new, replace(old, state=InstanceState.SHUTTING_DOWN))
    assert usd(prices.price_of(new)) == 0.63


async def test_a_segment_is_at_the_rate_of_its_discount(
    cloud: SimulatedCloud, running: dict[str, Instance]
) -> None:
    prices = registry(cloud, running, Discount(A10G, 0.63, count=1))
    show(running, instance(1, cloud.clock()))
    segment = prices.segment(running["i-1"], cloud.clock())
    assert (segment.usd_per_hour, segment.source) == (0.63, "the configured discounts")


async def test_a_discount_never_pays_for_spot_nor_for_another_type_or_zone(
    cloud: SimulatedCloud, running: dict[str, Instance]
) -> None:
    prices = registry(cloud, running, Discount(A10G, 0.63, count=9, zone=B))
    await prices.refresh()
    at = cloud.clock()
    show(
        running,
        instance(1, at, market=Market.SPOT, zone=B),
        instance(2, at, instance_type=T4, zone=B),
        instance(3, at, zone=A),
    )
    assert [usd(prices.price_of(each)) for each in running.values()] == [0.50, 0.55, 1.006]
    assert (prices.paid_left(A10G, A), prices.paid_left(A10G, B)) == (0, 9)


async def test_a_discount_ends_on_its_day(
    cloud: SimulatedCloud, running: dict[str, Instance]
) -> None:
    until = cloud.clock() + timedelta(hours=1)
    prices = registry(cloud, running, Discount(A10G, 0.63, count=1, until=until))
    show(running, instance(1, cloud.clock()))
    assert usd(prices.price_of(running["i-1"])) == 0.63
    cloud.clock.advance(3600)
    assert usd(prices.price_of(running["i-1"])) == 1.006
    assert prices.paid_left(A10G, A) == 0


async def test_a_discount_begins_on_its_day_and_prices_nothing_before(
    cloud: SimulatedCloud, running: dict[str, Instance]
) -> None:
    launched = cloud.clock()
    since = launched + timedelta(hours=1)
    prices = registry(cloud, running, Discount(A10G, 0.63, count=1, since=since))
    show(running, instance(1, launched))
    assert usd(prices.price_of(running["i-1"])) == 1.006
    assert prices.paid_left(A10G, A) == 0
    cloud.clock.advance(3600)
    assert usd(prices.price_of(running["i-1"])) == 0.63
    assert prices.segment(running["i-1"], since).usd_per_hour == 0.63
    assert prices.segment(running["i-1"], launched).usd_per_hour == 1.006


async def test_a_discount_that_has_not_begun_is_no_reason_to_warn(
    cloud: SimulatedCloud, caplog: pytest.LogCaptureFixture
) -> None:
    registry(cloud, {}, Discount(A10G, 0.63, count=1, since=cloud.clock() + timedelta(hours=1)))
    assert "has ended" not in caplog.text


async def test_reservations_count_and_have_an_age(
    cloud: SimulatedCloud, running: dict[str, Instance]
) -> None:
    cloud.reserved = [Discount(A10G, 0.58, count=2, source="a Reserved Instance")]
    prices = registry(cloud, running)
    show(running, instance(1, cloud.clock()))
    assert prices.paid_left(A10G, A) == 0
    await prices.refresh()
    assert prices.price_of(running["i-1"]) == Price(0.58, "a Reserved Instance", cloud.clock())
    assert prices.paid_left(A10G, A) == 1
    read_at = cloud.clock()
    cloud.clock.advance(25 * 3600)
    cloud.fail("reservations", THROTTLE)
    await prices.refresh()
    assert prices.price_of(running["i-1"]) == Price(0.58, "a Reserved Instance", read_at)


@pytest.mark.parametrize("count", [0, 1])
async def test_a_configured_discount_replaces_the_types_reservations(
    cloud: SimulatedCloud, running: dict[str, Instance], count: int
) -> None:
    cloud.reserved = [Discount(A10G, 0.58, count=5), Discount(T4, 0.30, count=5)]
    prices = registry(cloud, running, Discount(A10G, 0.63, count=count))
    await prices.refresh()
    assert prices.paid_left(A10G, A) == count
    assert prices.paid_left(T4, A) == 5


async def test_a_reservation_counts_before_and_after_a_configured_discount_of_its_type(
    cloud: SimulatedCloud, running: dict[str, Instance]
) -> None:
    launched, hour = cloud.clock(), timedelta(hours=1)
    cloud.reserved = [Discount(A10G, 0.58, count=1, source="a Reserved Instance")]
    coming = Discount(A10G, 0.63, count=1, since=launched + hour, until=launched + 2 * hour)
    prices = registry(cloud, running, coming)
    await prices.refresh()
    show(running, instance(1, launched))
    reserved = Price(0.58, "a Reserved Instance", launched)
    assert prices.price_of(running["i-1"]) == reserved
    assert cloud.reserved[0] in prices.discounts
    cloud.clock.advance(3600)
    assert prices.price_of(running["i-1"]) == Price(0.63, "the configured discounts", None)
    assert cloud.reserved[0] not in prices.discounts
    cloud.clock.advance(3600)
    assert prices.price_of(running["i-1"]) == reserved


async def test_an_expired_discount_is_logged_at_the_start(
    cloud: SimulatedCloud, caplog: pytest.LogCaptureFixture
) -> None:
    registry(cloud, {}, Discount(A10G, 0.63, count=1, until=cloud.clock()))
    assert "The discount for g5.xlarge has ended" in caplog.text


# --- in a hub --------------------------------------------------------------------------------

ON_DEMAND = replace(SPEC, markets=(Market.ON_DEMAND,))


async def test_the_hub_reads_prices_of_the_zones_of_its_subnets(world: World) -> None:
    await world.complete_passes(1)
    assert {call.arguments[1] for call in world.cloud.of("spot_history")} == {(A, B)}


async def test_discounts_apply_to_the_oldest_servers_first(world: World) -> None:
    world.silence_agents()
    await world.restart(discounts=(Discount(T4, 0.30, count=1),))
    first, _ = await world.ready("ada", spec=ON_DEMAND)
    world.clock.advance(60)
    second, _ = await world.ready("bob", spec=ON_DEMAND)
    await world.complete_passes(1)
    rates = [[s.usd_per_hour for s in world.now(each).segments] for each in (first, second)]
    assert rates == [[0.30], [0.526]]

    world.clock.advance(60)
    await world.stop(first)
    await world.state(first, LeaseState.ENDED)
    await world.complete_passes(2)
    assert [s.usd_per_hour for s in world.now(second).segments] == [0.526, 0.30]
    assert world.now(second).segments[-1].source == "the configured discounts"


async def test_an_unknown_price_is_not_filled_in_by_a_discount_that_began_later(
    world: World,
) -> None:
    world.silence_agents()
    begins = world.clock() + timedelta(minutes=1)
    coming = Discount(T4, 0.30, count=1, since=begins)
    await world.restart(region="eu-west-1", discounts=(coming,))  # whose list prices are unknown
    lease, _ = await world.ready("ada", spec=ON_DEMAND)
    await world.complete_passes(1)
    assert [s.usd_per_hour for s in world.now(lease).segments] == [None]
    world.clock.advance(90)
    await world.complete_passes(2)
    assert [s.usd_per_hour for s in world.now(lease).segments] == [None, 0.30]
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    assert [s.usd_per_hour for s in world.now(lease).segments] == [None, 0.30]
