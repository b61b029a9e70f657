"""What the ledger keeps of overhead whose price, address or instance is no longer known."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.core.pricing.resource_prices import ResourcePrices
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from tests.unit.provisioner.costs import DISK, STOPPABLE, costs, disks
from tests.unit.provisioner.retained import LINGER, STOP, again, end_in_order, ready
from tests.unit.provisioner.world import Agent, World, until


@pytest.fixture
async def priced(priced: World) -> World:
    """Noon in November; a disk costs 0.01 USD/hour, and instances get public addresses."""
    priced.cloud.gives_public_addresses = True
    return priced


async def stopped(world: World) -> tuple[Lease, Agent]:
    """A server of an hour, whose instance is then stopped and kept."""
    lease, agent = await ready(world, STOP, spec=STOPPABLE)
    await agent.heartbeat_often(3600)
    await end_in_order(world, lease, agent)
    await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped")
    return lease, agent


async def pass_days(world: World, number: int) -> None:
    for _ in range(number):
        world.clock.advance(86400)
        await world.complete_passes(1)


async def forgotten(world: World, agent: Agent) -> None:
    await until(lambda: not world.provisioner._state.retained.holds(agent.instance_id), "forgotten")
    await world.settle()


async def uncounted(world: World) -> int:
    """How many lines of the ledger have an unknown cost."""
    return sum(each.uncounted for each in (await costs(world, Dimension.RESOURCE)).values())


async def test_the_disk_of_an_unlisted_instance_that_ran_for_nobody_still_costs(
    priced: World,
) -> None:
    world = priced
    _, agent = await stopped(world)
    await pass_days(world, 3)
    second = await again(world, STOP, spec=STOPPABLE)
    await until(lambda: agent.instance_id in world.cloud.running(), "it is started")
    await world.stop(second)
    await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped again")
    await world.settle()
    await world.kill()
    world.cloud.machines[agent.instance_id].hidden = True
    world.clock.advance(86400)
    await world.start()
    await forgotten(world, agent)
    assert (await disks(world))["", "retention"] == pytest.approx(4 * 24 * 0.01, rel=0.01)


async def test_an_unlisted_instance_kept_by_an_earlier_version_has_disks_of_unknown_cost(
    priced: World,
) -> None:
    world = priced
    _, agent = await stopped(world)
    before = world.provisioner._state.retained.get(agent.instance_id)
    assert before is not None
    await world.store.save_kept(replace(before, disk_usd_per_month=None))
    await world.kill()
    world.cloud.machines[agent.instance_id].hidden = True
    world.clock.advance(3600)
    await world.start()
    await forgotten(world, agent)
    assert await uncounted(world) == 1


async def test_a_restart_without_prices_makes_no_known_disk_unknown(priced: World) -> None:
    world = priced
    _, agent = await stopped(world)
    await pass_days(world, 3)
    await world.restart(region="eu-west-1")
    await pass_days(world, 5)
    await forgotten(world, agent)
    assert (await disks(world))["", "retention"] == pytest.approx(7 * 24 * 0.01, rel=0.15)
    assert await uncounted(world) == 0


async def test_a_price_of_disks_that_is_read_after_the_lease_is_remembered(priced: World) -> None:
    world = priced
    await world.restart(region="eu-west-1")
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    _, agent = await stopped(world)
    world.cloud.resources = ResourcePrices(disk_usd_per_gib_month=0.08, address_usd_per_hour=0.005)
    world.provisioner.market.prices._resources_due = None
    await world.provisioner.market.prices.refresh()
    await pass_days(world, 2)
    world.cloud.resources = ResourcePrices()
    await world.restart()
    await pass_days(world, 6)
    await forgotten(world, agent)
    assert (await disks(world))["", "retention"] == pytest.approx(7 * 24 * 0.01, rel=0.15)


async def test_a_disk_counts_up_to_its_next_lease_after_a_crash_at_the_claim(
    priced: World,
) -> None:
    world = priced
    first, agent = await stopped(world)
    retained = world.provisioner._state.retained.get(agent.instance_id)
    assert retained is not None
    await pass_days(world, 3)
    second = await again(world, STOP, spec=STOPPABLE)
    await until(lambda: agent.instance_id in world.cloud.running(), "it is started")
    await world.watch_passes(1)  # no listing from before the start is under way
    await agent.serve()
    await world.settle()
    counted = (await disks(world))["", "retention"]
    # The lease is stored, and not what follows its claim.
    await world.store.ledger.save_overhead_costs(
        agent.instance_id, f"disks after {first.lease_id}", ()
    )
    await world.store.save_kept(retained)
    await world.restart()
    await forgotten(world, agent)
    assert world.now(second).state is LeaseState.READY
    assert (await disks(world))["", "retention"] == counted


async def test_a_disk_counts_up_to_the_start_for_a_lease_that_a_restored_store_lacks(
    priced: World,
) -> None:
    world = priced
    _, agent = await stopped(world)
    await world.kill()
    shutil.copy(world.folder / world.database, world.folder / "backup.sqlite")
    await world.start()
    await pass_days(world, 3)
    await again(world, STOP, spec=STOPPABLE)
    await until(lambda: agent.instance_id in world.cloud.running(), "it is started")
    await agent.serve()
    await world.complete_passes(2)
    await world.kill()
    world.database = "backup.sqlite"
    world.clock.advance(3600)
    await world.start()
    await forgotten(world, agent)
    assert (await disks(world))["", "retention"] == pytest.approx(72 * 0.01, rel=1e-3)


# --- addresses ---------------------------------------------------------------------------------


async def addresses(world: World) -> dict[str, float]:
    """USD of public addresses, by cause."""
    found = await costs(world, Dimension.RESOURCE, Dimension.CAUSE)
    return {key[1]: x.nano_usd / 1e9 for key, x in found.items() if key[0] == "address"}


@pytest.mark.parametrize("is_public", [False, True])
async def test_an_instance_that_ends_before_it_runs_has_a_known_cost(
    priced: World, is_public: bool
) -> None:
    world = priced
    world.cloud.gives_public_addresses = is_public
    await world.ready("bob", spec=DISK)
    world.cloud.boot_seconds = 60
    lease = await world.request("ada", spec=DISK)
    await until(lambda: len(world.cloud.machines) == 2, "its launch")
    await world.complete_passes(1)
    world.clock.advance(20)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: len(world.cloud.running()) == 1, "its instance ends")
    await world.complete_passes(1)
    assert await uncounted(world) == 0
    second = 0.005 / 3600
    cost = {
        "unassigned": pytest.approx(20 * second, rel=0.1),
        "minimum": pytest.approx(40 * second, rel=0.1),
    }
    assert await addresses(world) == (cost if is_public else {})


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_lease_that_ends_before_its_instance_is_seen_running_has_a_known_cost(
    priced: World, is_lost: bool
) -> None:
    priced.silence_agents()
    world = priced
    await world.ready("bob", spec=DISK)
    world.cloud.boot_seconds = 60
    lease, agent = await world.ready("ada", spec=DISK)
    assert world.now(lease).segments[-1].address_usd_per_hour is None
    if is_lost:
        world.cloud.end(agent.instance_id, reason="Client.UserInitiatedShutdown")
    else:
        await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    assert world.now(lease).segments[-1].address_usd_per_hour == 0.005


async def test_the_address_of_a_lingering_instance_costs_until_its_end(priced: World) -> None:
    world = priced
    lease, agent = await ready(world, LINGER)
    await end_in_order(world, lease, agent)
    for _ in range(9):
        world.clock.advance(60)
        await agent.claim(wait=0)
    await world.complete_passes(1)
    stored = await addresses(world)
    assert stored["retention"] > 0
    world.cloud.end(agent.instance_id, reason="Client.UserInitiatedShutdown")
    await forgotten(world, agent)
    assert (await addresses(world))["retention"] == pytest.approx(540 * 0.005 / 3600, rel=0.01)


async def test_a_boot_that_failed_costs_its_address(priced: World) -> None:
    world = priced
    _, agent = await stopped(world)
    second = await again(world, STOP, spec=STOPPABLE)
    await until(lambda: agent.instance_id in world.cloud.running(), "it is started")
    await world.complete_passes(1)
    world.clock.advance(360)
    world.cloud.machines[agent.instance_id].ended = InstanceState.STOPPED
    world.cloud.machines[agent.instance_id].ended_at = world.clock()
    await world.state(second, LeaseState.ENDED)
    await world.settle()
    assert (await addresses(world))["retention"] == pytest.approx(0.0005, rel=0.02)
