"""Of a large hub only what starts, stops or is silent is listed, and all instances now and then."""

from __future__ import annotations

from dataclasses import replace

import pytest
import pytest_asyncio

from ec2spawner.provisioner.instances import listing
from ec2spawner.provisioner.instances.listing import AGENT_SILENCE, Listing
from ec2spawner.provisioner.model.cloud.cloud import MAX_FILTER_VALUES
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from tests.unit.provisioner.world import Agent, World

HOUR = 3600.0


class Watch:
    """The only listings of a hub with one server, which counts as large."""

    def __init__(self, world: World, lease: Lease, agent: Agent) -> None:
        self.world = world
        self.lease = lease
        self.agent = agent
        self.state = world.provisioner._state
        self.listing = Listing(self.state, world.cloud)

    @property
    def instance_id(self) -> str:
        assert self.lease.instance_id is not None
        return self.lease.instance_id

    async def ask(self) -> list[set[str]]:
        """What one listing asks EC2 about: ids, none for all instances."""
        before = len(self.world.cloud.of("list_instances"))
        await self.listing.list_once()
        calls = self.world.cloud.of("list_instances")[before:]
        return [set(call.arguments[1]) if call.arguments[1:] else set() for call in calls]


@pytest_asyncio.fixture
async def watch(world: World, monkeypatch: pytest.MonkeyPatch) -> Watch:
    await world.restart(busy_interval=0.0)
    lease, agent = await world.ready()
    await world.settle()
    await world.provisioner._tasks.end()
    monkeypatch.setattr(listing, "SMALL", 0)
    found = Watch(world, lease, agent)
    found.state.settings = replace(found.state.settings, quiet_interval=HOUR)
    await agent.heartbeat()
    assert await found.ask() == [set()]  # a complete one is due
    return found


async def test_nothing_is_listed_while_nothing_happens(watch: Watch) -> None:
    assert await watch.ask() == []


async def test_the_instance_of_a_silent_agent_is_listed(watch: Watch) -> None:
    watch.world.clock.advance(AGENT_SILENCE + 1)
    assert await watch.ask() == [{watch.instance_id}]
    await watch.agent.heartbeat()
    assert await watch.ask() == []


async def test_an_instance_that_somebody_waits_to_see_is_listed(watch: Watch) -> None:
    watch.state.instances.asked.add("i-new")
    assert await watch.ask() == [{"i-new"}]
    assert await watch.ask() == []


async def test_the_instance_of_a_server_that_stops_is_listed(watch: Watch) -> None:
    await watch.state.leases.change(watch.lease.lease_id, state=LeaseState.ENDING)
    assert await watch.ask() == [{watch.instance_id}]


async def test_an_instance_that_changes_is_listed_until_it_has(watch: Watch) -> None:
    known = watch.state.instances.listed[watch.instance_id]
    pending = replace(known, state=InstanceState.PENDING)
    watch.state.instances.update([pending], {watch.instance_id})
    assert await watch.ask() == [{watch.instance_id}]
    assert await watch.ask() == []


async def test_a_running_instance_without_a_lease_is_listed_while_unheard(watch: Watch) -> None:
    """It boots for a start, or waits for one: it may have powered itself off, or been reclaimed."""
    known = watch.state.instances.listed[watch.instance_id]
    booting = replace(known, instance_id="i-booting")
    watch.state.instances.update([booting], {"i-booting"})
    assert await watch.ask() == [{"i-booting"}]
    watch.state.instances.update([booting], {"i-booting"})
    watch.state.claims.heard("i-booting")
    assert await watch.ask() == []
    watch.world.clock.advance(AGENT_SILENCE + 1)
    await watch.agent.heartbeat()
    assert await watch.ask() == [{"i-booting"}]


async def test_many_are_asked_about_in_steps(watch: Watch) -> None:
    ids = {f"i-{number:04}" for number in range(2 * MAX_FILTER_VALUES + 1)}
    watch.state.instances.asked |= ids
    asked = await watch.ask()
    assert [len(each) for each in asked] == [MAX_FILTER_VALUES, MAX_FILTER_VALUES, 1]
    assert set().union(*asked) == ids


async def test_a_listing_of_some_says_nothing_of_others(watch: Watch) -> None:
    instances = watch.state.instances
    known = instances.listed[watch.instance_id]
    instances.track([watch.instance_id])
    for _ in range(5):
        instances.update([replace(known, instance_id="i-other")], {"i-other"})
    assert instances.listed.keys() == {watch.instance_id, "i-other"}
    assert not instances.is_missing(watch.instance_id)


async def test_an_instance_that_listings_of_it_lack_is_gone_in_the_end(watch: Watch) -> None:
    instances = watch.state.instances
    known = instances.listed[watch.instance_id]
    instances.track([watch.instance_id])
    for number in range(watch.state.settings.missing_listings):
        assert not instances.is_gone(watch.instance_id), number
        instances.update([], {watch.instance_id})
    assert instances.is_gone(watch.instance_id)
    instances.update([known], {watch.instance_id})
    assert not instances.is_gone(watch.instance_id)


async def test_complete_listings_of_many_instances_are_rarer(watch: Watch) -> None:
    watch.state.settings = replace(watch.state.settings, quiet_interval=30.0)
    known = watch.state.instances.listed[watch.instance_id]
    intervals = []
    for number in (100, 1000, 2000):
        some = [replace(known, instance_id=f"i-{each}") for each in range(number)]
        watch.state.instances.replace(some)
        intervals.append(watch.listing._complete_interval())
    assert intervals == [30.0, 150.0, 300.0]


async def test_listings_of_many_instances_in_motion_are_rarer_too(watch: Watch) -> None:
    watch.state.settings = replace(watch.state.settings, busy_interval=2.0)
    await watch.state.leases.change(watch.lease.lease_id, state=LeaseState.ENDING)
    known = watch.state.instances.listed[watch.instance_id]

    def pause(running: int, pending: int) -> float:
        watch.state.instances.replace(
            [
                known,
                *(replace(known, instance_id=f"i-r{number}") for number in range(running)),
                *(
                    replace(known, instance_id=f"i-p{number}", state=InstanceState.PENDING)
                    for number in range(pending)
                ),
            ]
        )
        for number in range(running):
            watch.state.claims.heard(f"i-r{number}")
        return watch.listing._pause()

    assert pause(running=0, pending=49) == 2.0
    assert pause(running=0, pending=99) == 4.0
    assert pause(running=1000, pending=20) == 2.0, "only those in motion are asked about"
    assert pause(running=0, pending=1000) == 8.0, "failed boots are still seen soon"
