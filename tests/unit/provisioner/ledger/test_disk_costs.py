"""What a server's disks and public address cost, in its ledger, its price and its limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.core.limits.bounds import Bounds, Kind, Limits
from ec2spawner.core.pricing.resource_prices import ResourcePrices
from ec2spawner.core.tags import HUB
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.cloud.launch import DataVolume
from ec2spawner.provisioner.model.cloud.volume import Volume, VolumeSnapshot
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from tests.unit.provisioner.costs import DISK, SPOT, STOPPABLE, costs, disks, spent
from tests.unit.provisioner.retained import STOP, again, end_in_order, ready
from tests.unit.provisioner.world import SPEC, World, until

DATA = replace(DISK, data_volumes=(DataVolume("snap-1", "/data"),))
DENIED = CloudError("UnauthorizedOperation", "no", retryable=False)


@pytest.fixture
async def priced(priced: World) -> World:
    """Noon in November; a T4 costs 0.20 USD/hour on spot, and instances get public addresses."""
    priced.cloud.gives_public_addresses = True
    return priced


def cost(world: World, lease: Lease) -> tuple[float | None, float | None]:
    """What its agent gets to know: so far, and by the hour."""
    answer = world.provisioner._heartbeats.costs.of(world.now(lease))
    return answer.usd, answer.usd_per_hour


async def test_a_server_costs_its_instance_its_disk_and_its_address(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada", spec=DISK)
    await world.complete_passes(1)
    assert cost(world, lease)[1] == pytest.approx(0.20 + 0.01 + 0.005)
    await agent.heartbeat_often(3600)
    assert cost(world, lease)[0] == pytest.approx(0.215, rel=0.01)
    assert spent(world, "user:ada").usd == pytest.approx(0.215, rel=0.01)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    found = await costs(world, Dimension.RESOURCE, Dimension.USER)
    assert {key: x.nano_usd / 1e9 for key, x in found.items()} == {
        ("instance", "ada"): pytest.approx(0.20, rel=0.01),
        ("disk", "ada"): pytest.approx(0.01, rel=0.01),
        ("address", "ada"): pytest.approx(0.005, rel=0.01),
    }
    hours = {key[0]: x.microseconds / 3.6e9 for key, x in found.items()}
    assert hours["disk"] == hours["address"] == 0, "instance time counts once"


async def test_an_address_that_a_listing_shows_late_costs_from_the_beginning(
    world: World,
) -> None:
    world.cloud.prices = dict(SPOT)
    world.cloud.gives_public_addresses = True
    world.cloud.boot_seconds = 60
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    lease, _ = await world.ready("ada", spec=DISK)
    assert cost(world, lease) == (None, None), "a pending instance may get one"
    world.clock.advance(60)
    await world.complete_passes(2)
    [segment] = world.now(lease).segments
    assert segment.address_usd_per_hour == 0.005
    assert cost(world, lease)[1] == pytest.approx(0.215)


async def test_without_an_address_none_is_charged(priced: World) -> None:
    world = priced
    world.cloud.gives_public_addresses = False
    lease, _ = await world.ready("ada", spec=DISK)
    await world.complete_passes(1)
    assert cost(world, lease)[1] == pytest.approx(0.21)


async def test_data_volumes_have_the_size_of_their_snapshot_once_it_is_known(
    priced: World,
) -> None:
    world = priced
    now = world.clock()
    world.cloud.snapshots["snap-1"] = VolumeSnapshot("snap-1", "vol-1", "completed", 100, now, 180)
    world.cloud.fail("snapshot_sizes", DENIED)
    lease, _ = await world.ready("ada", spec=DATA)
    await world.complete_passes(1)
    world.provisioner.market.prices._wake.set()
    await until(lambda: len(world.cloud.of("snapshot_sizes")) == 2, "the size is read again")
    await world.complete_passes(1)
    [segment] = world.now(lease).segments
    assert segment.disk_usd_per_month == pytest.approx((90 + 180) * 0.08)
    assert cost(world, lease)[1] == pytest.approx(0.20 + 0.03 + 0.005)
    await world.ready("bob", spec=DATA)
    assert len(world.cloud.of("snapshot_sizes")) == 2, "a snapshot's size never changes"


async def test_volumes_are_measured_where_their_snapshot_is_not_shown(priced: World) -> None:
    """As after it was deleted, or its owner shares it no more."""
    world = priced
    lease, agent = await world.ready("ada", spec=DATA)
    await world.complete_passes(1)
    assert world.now(lease).segments[0].disk_usd_per_month is None
    give_volumes(world, agent.instance_id, 90, 180)
    await world.provisioner.market.prices.refresh()
    await world.complete_passes(1)
    [segment] = world.now(lease).segments
    assert segment.disk_usd_per_month == pytest.approx((90 + 180) * 0.08), "from the beginning"


async def test_volumes_of_a_pending_instance_may_not_be_all(priced: World) -> None:
    world = priced
    _, agent = await world.ready("ada", spec=DISK)
    await world.complete_passes(1)
    prices = world.provisioner.market.prices
    give_volumes(world, agent.instance_id, 90)
    state = world.provisioner._state
    stranger = replace(state.instances.listed[agent.instance_id], tags={})
    pending = replace(stranger, state=InstanceState.PENDING)
    assert prices.segment(pending, world.clock()).disk_usd_per_month is None
    await prices.refresh()
    assert prices.segment(stranger, world.clock()).disk_usd_per_month is None, "not read"
    give_volumes(world, agent.instance_id, 90, 180)
    await prices.refresh()
    known = prices.segment(stranger, world.clock()).disk_usd_per_month
    assert known == pytest.approx((90 + 180) * 0.08)


async def test_snapshots_that_cannot_be_read_keep_no_volume_from_being_read(priced: World) -> None:
    world = priced
    world.cloud.fail("snapshot_sizes", DENIED, times=100)
    await world.ready("ada", spec=DATA)
    _, other = await world.ready("bob", spec=DISK)
    await world.complete_passes(1)
    give_volumes(world, other.instance_id, 90)
    state, prices = world.provisioner._state, world.provisioner.market.prices
    stranger = replace(state.instances.listed[other.instance_id], tags={})
    assert prices.segment(stranger, world.clock()).disk_usd_per_month is None
    await prices.refresh()
    known = prices.segment(stranger, world.clock()).disk_usd_per_month
    assert known == pytest.approx(90 * 0.08)


def give_volumes(world: World, instance_id: str, *sizes: int) -> None:
    """Its own disks, as EC2 lists them."""
    tags = {HUB: world.provisioner._state.settings.hub}
    for number, gib in enumerate(sizes):
        volume_id = f"vol-{instance_id}-{number}"
        world.cloud.volumes[volume_id] = Volume(
            volume_id, "us-east-1a", gib, "in-use", instance_id, tags, world.clock()
        )


async def test_a_disk_of_unknown_price_makes_the_cost_unknown_and_not_smaller(
    priced: World,
) -> None:
    world = priced
    await world.restart(region="eu-west-1")
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    lease, agent = await world.ready("ada", spec=DISK)
    await world.complete_passes(1)
    await agent.heartbeat_often(3600)
    assert cost(world, lease) == (None, None)
    amount = spent(world, "user:ada")
    assert not amount.is_known
    assert amount.nano_usd / 1e9 == pytest.approx(0.205, rel=0.01), "what is known counts"
    world.cloud.resources = ResourcePrices(disk_usd_per_gib_month=0.08, address_usd_per_hour=0.005)
    world.provisioner.market.prices._resources_due = None
    await world.provisioner.market.prices.refresh()
    await world.complete_passes(2)
    assert cost(world, lease)[0] == pytest.approx(0.215, rel=0.01), "it has cost this all along"


async def test_a_start_must_be_able_to_pay_for_its_disk(priced: World) -> None:
    world = priced
    await world.restart(limits=Limits(Bounds(usd_per_month=0.53)))
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    on_demand = replace(SPEC, markets=(SPEC.markets[1],), instance_types=("g4dn.xlarge",))
    await world.request("ada", spec=on_demand)  # 0.526 USD/hour
    with pytest.raises(LimitReached) as refused:
        await world.request("bob", spec=replace(on_demand, disk_gib=90))
    assert refused.value.refusal.kind is Kind.MONTH
    assert refused.value.refusal.needed / 1e9 > 0.526 + 90 * 0.08 / 730 - 1e-6


# --- stopped and kept --------------------------------------------------------------------------


async def test_the_disk_of_a_stopped_instance_is_overhead_until_it_is_taken_again(
    priced: World,
) -> None:
    world = priced
    first, agent = await ready(world, STOP, spec=STOPPABLE)
    await agent.heartbeat_often(3600)
    await end_in_order(world, first, agent)
    await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped")
    await world.complete_passes(1)  # the hub has seen it, too
    begun = world.now(first).segments[0].start
    for _ in range(3):
        world.clock.advance(86400)
        await world.complete_passes(1)
    assert (await disks(world))["", "retention"] == pytest.approx(72 * 0.01, rel=0.02)
    assert spent(world, "hub").usd == pytest.approx(72 * 0.01 + 0.526 + 0.015, rel=0.02)
    await world.restart()
    second = await again(world, STOP, spec=STOPPABLE)
    await until(lambda: agent.instance_id in world.cloud.running(), "it is started")
    await agent.serve()
    await agent.heartbeat_often(3600)
    await end_in_order(world, second, agent)
    await world.complete_passes(1)
    ended = world.now(second).segments[-1].end
    assert ended is not None
    every = sum((await disks(world)).values())
    assert every == pytest.approx((ended - begun).total_seconds() / 3600 * 0.01, rel=1e-3), (
        "one disk, all the time, and at no time twice"
    )


async def test_the_disk_of_one_that_was_started_for_nobody_counts_once(priced: World) -> None:
    world = priced
    first, agent = await ready(world, STOP, spec=STOPPABLE)
    await end_in_order(world, first, agent)
    await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped")
    kept_at = world.now(first).segments[-1].end
    assert kept_at is not None
    world.clock.advance(3600)
    second = await again(world, STOP, spec=STOPPABLE)
    await until(lambda: agent.instance_id in world.cloud.running(), "it is started")
    world.clock.advance(600)
    await world.stop(second)
    await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped again")
    await world.settle()
    found = await costs(world, Dimension.RESOURCE, Dimension.CAUSE)
    assert found["instance", "retention"].nano_usd / 1e9 == pytest.approx(0.526 / 6, rel=0.02)
    hours = (world.clock() - kept_at).total_seconds() / 3600
    assert found["disk", "retention"].nano_usd / 1e9 == pytest.approx(hours * 0.01, rel=0.02)


async def test_the_disk_of_a_stopped_instance_costs_until_its_end(priced: World) -> None:
    world = priced
    lease, agent = await ready(world, STOP, spec=STOPPABLE)
    await end_in_order(world, lease, agent)
    await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped")
    world.clock.advance(STOP.seconds + 1)
    await until(lambda: not world.provisioner._state.retained.holds(agent.instance_id), "forgotten")
    await world.settle()
    expected = pytest.approx(7 * 24 * 0.01, rel=0.01)
    assert (await disks(world))["", "retention"] == expected
    world.clock.advance(86400)
    await world.complete_passes(1)
    assert (await disks(world))["", "retention"] == expected


async def test_the_disk_of_an_instance_that_no_listing_shows_costs_as_long_as_it_was_kept(
    priced: World,
) -> None:
    world = priced
    lease, agent = await ready(world, STOP, spec=STOPPABLE)
    await end_in_order(world, lease, agent)
    await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped")
    await world.kill()
    world.cloud.machines[agent.instance_id].hidden = True
    world.clock.advance(86400)
    await world.start()
    await until(lambda: not world.provisioner._state.retained.holds(agent.instance_id), "forgotten")
    await world.settle()
    assert (await disks(world))["", "retention"] == pytest.approx(24 * 0.01, rel=0.01)


async def test_a_restart_of_the_hub_keeps_the_prices_of_disks(priced: World) -> None:
    world = priced
    lease, _ = await world.ready("ada", spec=DISK)
    await world.complete_passes(1)
    before = world.now(lease).segments
    world.clock.advance(timedelta(days=1).total_seconds() / 24)
    await world.restart()
    assert world.now(lease).segments == before
