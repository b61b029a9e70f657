"""Instances that report a fault with their claim: never assigned a lease, and accounted for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.provisioner.instances.claims import ClaimRefused, InstanceUnwanted, SecondKey
from ec2spawner.provisioner.lifecycle.unhealthy_instance import ANOTHER
from ec2spawner.provisioner.model.cloud.image import Image
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.retention.restart_failure import OTHER_HARDWARE, broken
from ec2spawner.wire import Fault, ImageDriver, Market
from tests.unit.provisioner.world import SPEC, TIMEOUT, Agent, World, until

pytestmark = pytest.mark.asyncio

WHY = "GPU 0 (Tesla T4): 1 bit of 64 MiB came back other than they were sent"

NO_DRIVER = ImageDriver()


async def turn_away(
    agent: Agent, why: str = WHY, wait: float = TIMEOUT, driver: ImageDriver | None = None
) -> bool:
    """As the hub's handler does, with a claim that says so."""
    turned_away = agent.world.provisioner.agents.unhealthy.turn_away
    fault = Fault(reason=why, driver=driver)
    return await turned_away(agent.claimant(), agent.key, wait, fault)


async def test_a_broken_instance_is_replaced_and_only_the_working_one_is_charged(
    world: World,
) -> None:
    lease = await world.request()
    [first] = await world.boot()
    fallen = Agent(world, first)
    world.clock.advance(60)
    with pytest.raises(InstanceUnwanted):
        await turn_away(fallen)
    last = world.now(lease).events[-1]
    assert (last.message, last.detail) == (ANOTHER, WHY)
    await until(lambda: world.cloud.running() not in ([], [first]), "another machine")
    [second] = [each for each in world.cloud.running() if each != first]
    served = await Agent(world, second).serve()
    assert served.lease_id == lease.lease_id
    assert served.state is LeaseState.READY
    assert {segment.instance_id for segment in served.segments} == {second}
    await world.complete_passes(2)
    assert world.cloud.running() == [second]
    [overhead] = await world.store.ledger.overhead(datetime(2000, 1, 1, tzinfo=UTC))
    assert overhead.instance_id == first
    assert overhead.end is not None
    assert (overhead.end - overhead.start).total_seconds() >= 60
    with pytest.raises(InstanceUnwanted):
        await fallen.claim()


async def test_an_image_that_always_fails_its_check_ends_the_start(
    world: World,
) -> None:
    lease = await world.request()
    seen: set[str] = set()
    for _ in range(world.settings.replacements + 1):
        await until(lambda: set(world.cloud.running()) - seen, "a machine")
        [instance_id] = set(world.cloud.running()) - seen
        seen.add(instance_id)
        with pytest.raises(InstanceUnwanted):
            await turn_away(Agent(world, instance_id))
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    assert stop.message == (
        "None of 4 machines could serve you; the last one is broken. Try again later, or with "
        f"another profile; an admin should look at the image. {WHY}"
    )
    await world.complete_passes(3)
    assert world.cloud.running() == []
    assert len(seen) == 4


async def test_a_fault_of_the_type_moves_the_start_to_another_type(world: World) -> None:
    types = ("g4dn.xlarge", "g5.xlarge")
    lease = await world.request(spec=replace(SPEC, instance_types=types, subnets=SPEC.subnets))
    [first] = await world.boot()
    refused = world.cloud.machines[first].instance.instance_type
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, first), driver=NO_DRIVER)
    await until(lambda: world.cloud.running() not in ([], [first]), "another machine")
    [second] = [each for each in world.cloud.running() if each != first]
    assert {refused, world.cloud.machines[second].instance.instance_type} == set(types)
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, second), driver=NO_DRIVER)
    stop = await world.stop_of(lease)
    assert "the image has no driver for the GPU" in stop.message


async def test_a_fault_of_the_only_type_fails_the_start_at_once(world: World) -> None:
    lease = await world.request()
    [first] = await world.boot()
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, first), driver=NO_DRIVER)
    stop = await world.stop_of(lease)
    assert stop.message.startswith("The machine for your server is broken. ")
    assert WHY in stop.message
    assert len(world.cloud.requests()) == 1


async def test_a_driver_that_does_not_support_the_gpu_is_a_fault_of_the_type_with_that_image(
    world: World,
) -> None:
    spec = replace(SPEC, instance_types=("p3dn.24xlarge",), subnets=SPEC.subnets)
    lease = await world.request(spec=spec)
    [first] = await world.boot()
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, first), driver=ImageDriver(branch=595, modules="open"))
    assert (await world.stop_of(lease)).message.startswith("The machine for your server is broken.")
    offers = world.provisioner.market.offers
    marks = [mark for _, mark in offers.marked(spec)]
    assert all(mark is not None and "the V100" in mark.why for mark in marks)
    other_image = replace(spec, image_id="ami-2")  # which may have another driver
    assert [mark for _, mark in offers.marked(other_image)] == [None] * 4


@pytest.mark.parametrize(("grid", "is_marked"), [(False, True), (True, False)])
async def test_only_a_grid_driver_supports_a_share_of_a_gpu(
    world: World, grid: bool, is_marked: bool
) -> None:
    spec = replace(SPEC, instance_types=("g6f.large",))
    await world.request(spec=spec)
    [first] = await world.boot()
    driver = ImageDriver(branch=570, modules="proprietary", grid=grid)
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, first), driver=driver)
    marks = [mark for _, mark in world.provisioner.market.offers.marked(spec)]
    assert marks
    assert all(bool(mark) is is_marked for mark in marks)


@pytest.mark.parametrize(
    ("driver", "usable"),
    [
        ("", {"g4dn.xlarge", "g6.xlarge", "g6f.large", "p3dn.24xlarge"}),  # unknown
        ("595.91.07", {"g4dn.xlarge", "g6.xlarge"}),
        ("570.172.08-grid", {"g4dn.xlarge", "g6.xlarge", "g6f.large", "p3dn.24xlarge"}),
    ],
)
async def test_a_gpu_that_the_images_driver_does_not_support_is_not_bought(
    world: World, driver: str, usable: set[str]
) -> None:
    kinds = ("g4dn.xlarge", "g6.xlarge", "g6f.large", "p3dn.24xlarge")
    world.cloud.images = {"ami-1": Image("ami-1", driver=driver)}
    await world.restart()
    await world.provisioner.market.images.current()
    marked = world.provisioner.market.offers.marked(replace(SPEC, instance_types=kinds))
    assert {offer.instance_type for offer, mark in marked if mark is None} == usable

    if "g6f.large" not in usable:
        spec = replace(SPEC, instance_types=("g6f.large",))
        stop = await world.stop_of(await world.request(spec=spec))
        assert "does not support a share of an L4" in stop.message
        assert "c.EC2Spawner.image" in stop.message
        assert "EC2 has no machine" not in stop.message
        assert "Try again" not in stop.message
        assert world.cloud.requests() == []


@pytest.mark.parametrize(
    "driver", [ImageDriver(branch=595, modules="open"), ImageDriver(branch=595), None], ids=repr
)
async def test_a_slow_driver_or_a_dead_gpu_says_nothing_of_the_type(
    world: World, driver: ImageDriver | None
) -> None:
    """The driver supports the T4: another instance may work."""
    lease = await world.request()
    [first] = await world.boot()
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, first), driver=driver)
    assert world.now(lease).replaced == 1
    await until(lambda: world.cloud.running() not in ([], [first]), "another of the same type")
    assert world.provisioner.market.offers.sold_out.all(world.clock()) == ()


async def test_a_long_report_of_an_instance_still_ends_the_start(world: World) -> None:
    await world.restart(replacements=0)
    lease = await world.request()
    [instance_id] = await world.boot()
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, instance_id), "x" * 500)
    assert (await world.stop_of(lease)).message.startswith(
        "The machine for your server is broken. "
    )


async def test_reports_of_an_assigned_instance_change_nothing(world: World) -> None:
    lease, agent = await world.ready()
    assert await turn_away(agent), "its claim is continued"
    assert world.now(lease).state is LeaseState.READY
    assert await agent.claim() is not None, "the same key gets the same answer"
    other = await world.request("bea")
    intruder = Agent(world, agent.instance_id)
    with pytest.raises(SecondKey):
        await turn_away(intruder)
    assert world.now(other).replaced == 0


async def test_a_broken_instance_not_listed_yet_gets_no_lease_and_reports_again(
    world: World,
) -> None:
    world.cloud.listing_lag = 60.0
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert not await turn_away(agent, wait=10.0)
    assert world.now(lease).state is LeaseState.WAITING
    world.clock.advance(60)
    with pytest.raises(InstanceUnwanted):
        await turn_away(agent)
    assert world.now(lease).replaced == 1


async def test_one_broken_instance_of_a_batch_delays_one_start(world: World) -> None:
    leases = [await world.request(user) for user in ("ada", "bea", "cy")]
    machines = await world.boot(3)
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, machines[0]))
    assert sorted(world.now(each).replaced for each in leases) == [0, 0, 1]
    await asyncio.gather(*(Agent(world, each).serve() for each in machines[1:]))
    await until(lambda: set(world.cloud.running()) - set(machines), "the missing one")
    [fourth] = set(world.cloud.running()) - set(machines)
    await Agent(world, fourth).serve()
    assert {world.now(each).state for each in leases} == {LeaseState.READY}


async def test_a_broken_surplus_instance_ends_without_replacement(
    world: World,
) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.stop(lease)
    with pytest.raises(InstanceUnwanted):
        await turn_away(Agent(world, instance_id))
    await world.complete_passes(2)
    assert world.cloud.running() == []
    assert len(world.cloud.requests()) == 1


async def test_a_broken_lingering_instance_is_released(world: World) -> None:
    linger = AfterStop(then="linger", seconds=600)
    lease, agent = await world.ready(after_stop=linger)
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    stranger = await world.request("bea")
    again = await world.request("ada", after_stop=linger)
    with pytest.raises(InstanceUnwanted):
        await turn_away(agent)
    assert world.now(stranger).replaced == 0, "it would not have had this machine"
    assert world.now(again).replaced == 1
    await until(lambda: agent.instance_id not in world.cloud.running(), "its end")
    await until(lambda: len(world.cloud.running()) == 2, "one for each")


async def test_a_lingering_instance_is_not_believed_about_its_type(world: World) -> None:
    """Its user may be root on it: one user never takes a type from the others."""
    lease, agent = await world.ready(after_stop=AfterStop(then="linger", seconds=600))
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    with pytest.raises(InstanceUnwanted):
        await turn_away(agent, driver=NO_DRIVER)
    assert world.provisioner.market.offers.sold_out.all(world.clock()) == ()


async def started_again(world: World) -> tuple[Lease, str]:
    """A start that waits for its kept machine, which EC2 has started; and that machine."""
    stopping = AfterStop(then="stop", seconds=86400, per_user=1)
    spec = replace(SPEC, markets=(Market.ON_DEMAND,))
    lease, agent = await world.ready(after_stop=stopping, spec=spec)
    await agent.heartbeat()
    await asyncio.gather(world.stop(lease), agent.event("stopped"))
    await until(world.cloud.stopped, "it is stopped")
    world.clock.advance(600)
    lease = await world.request(after_stop=stopping, spec=spec)
    await until(world.cloud.running, "it is started again")
    world.clock.advance(60)
    return lease, agent.instance_id


async def reported_and_stopped(world: World, instance_id: str) -> None:
    """The new boot says that it is broken, and says so until EC2 stops it, a minute later."""
    agent, began = Agent(world, instance_id), len(world.cloud.of("stop"))
    stops = world.cloud.hold("stop")
    while len(world.cloud.of("stop")) == began:
        assert not await turn_away(agent, wait=10.0), "410 would end it, with its disk"
    world.clock.advance(60)
    stops.set()


async def test_a_retained_instance_that_starts_broken_is_restarted_once(
    world: World,
) -> None:
    lease, instance_id = await started_again(world)
    world.clock.advance(world.settings.boot_timeout - 100)
    await reported_and_stopped(world, instance_id)
    await until(lambda: len(world.cloud.of("start")) == 2, "another start")
    await until(world.cloud.running, "it has booted again")
    assert world.now(lease).state is LeaseState.WAITING, "its time for a boot begins anew"
    assert (OTHER_HARDWARE, WHY) in {(e.message, e.detail) for e in world.now(lease).events}
    served = await Agent(world, instance_id).serve()
    assert served.lease_id == lease.lease_id
    assert len(world.cloud.of("launch")) == 1
    assert served.segments[0].start > lease.requested_at, "its user pays for the whole boot alone"
    await world.settle()
    overhead = await world.store.ledger.overhead(lease.requested_at)
    assert sum((s.end - s.start).total_seconds() for s in overhead if s.end) >= 60


async def test_a_retained_instance_that_reports_twice_is_replaced_once(world: World) -> None:
    lease, instance_id = await started_again(world)
    agent = Agent(world, instance_id)
    async with world.no_pass:  # which would stop it
        for _ in range(2):
            assert not await turn_away(agent, wait=1.0)
    assert world.now(lease).replaced == 1
    assert world.now(lease).state is LeaseState.WAITING


async def test_a_retained_instance_that_stays_broken_fails_the_start_and_is_kept(
    world: World,
) -> None:
    lease, instance_id = await started_again(world)
    await reported_and_stopped(world, instance_id)
    await until(lambda: len(world.cloud.of("start")) == 2, "another start")
    await until(world.cloud.running, "it has booted again")
    await world.restart()
    await reported_and_stopped(world, instance_id)
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    assert stop.message == broken(WHY)
    await world.complete_passes(2)
    assert world.cloud.stopped() == [instance_id]
    assert [kept.instance_id for kept in world.provisioner._state.retained.of_server("ada", "")]
    assert len(world.cloud.of("launch")) == 1


async def test_a_foreign_instance_causes_no_replacement(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    elsewhere = agent.claimant(region="eu-west-1")
    with pytest.raises(ClaimRefused):
        await world.provisioner.agents.unhealthy.turn_away(
            elsewhere, agent.key, 1.0, Fault(reason=WHY)
        )
    assert world.now(lease).replaced == 0
