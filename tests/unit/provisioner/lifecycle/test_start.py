"""From a request to a notebook that listens, and every way in which that can fail."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from ec2spawner.core import tags
from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.provisioner.lifecycle.start import StartFailed
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.leases.lease import Intent, IntentState, LeaseState
from ec2spawner.wire import Market, Step
from tests.unit.provisioner.world import SPEC, TIMEOUT, Agent, World, until

THROTTLED = CloudError("RequestLimitExceeded", "slow down", retryable=True)
FORBIDDEN = CloudError("UnauthorizedOperation", "ec2:CreateFleet is not allowed", retryable=False)


async def test_a_request_leads_to_an_instance_a_lease_and_a_ready_server(world: World) -> None:
    lease = await world.request()
    waiting = asyncio.create_task(world.provisioner._starts.wait_ready(lease.lease_id, TIMEOUT))
    [instance_id] = await world.boot()
    await Agent(world, instance_id).serve()

    ready = await waiting
    assert ready.state is LeaseState.READY
    assert ready.instance_id == instance_id
    assert ready.url == f"http://{instance_id}"
    [segment] = ready.segments
    assert (segment.instance_id, segment.market) == (instance_id, Market.SPOT)
    assert segment.start == world.cloud.machines[instance_id].instance.launched_at
    steps = list(dict.fromkeys(event.step for event in ready.events))
    assert steps == [Step.REQUEST, Step.BOOT, Step.HOME, Step.NOTEBOOK, Step.READY]


async def test_the_launch_call_tags_the_hub_and_no_user(world: World) -> None:
    await world.ready()
    [request] = world.cloud.requests()
    assert (request.market, request.count, request.spec) == (Market.SPOT, 1, SPEC)
    assert set(request.offers) == {("g4dn.xlarge", "subnet-a"), ("g4dn.xlarge", "subnet-b")}
    assert request.tags == {
        tags.HUB: "hub",
        tags.STORE: world.store.store_id,
        tags.LAUNCH_KEY: launch_key_of(SPEC),
        tags.INTENT: request.client_token,
    }


async def test_the_intent_is_stored_before_the_call(world: World) -> None:
    gate = world.cloud.hold("launch")
    await world.request()
    await until(world.cloud.requests)
    [intent] = (await world.store.load()).intents
    assert intent.state is IntentState.OPEN
    assert [intent.request] == world.cloud.requests()
    gate.set()
    await world.boot()


async def test_an_assigned_instance_is_tagged_with_its_lease_also_when_that_fails_at_first(
    world: World,
) -> None:
    world.cloud.fail("tag", THROTTLED, times=2)
    lease, agent = await world.ready("Ada Lovelace")
    await until(lambda: tags.LEASE in world.cloud.tags(agent.instance_id))
    tagged = world.cloud.tags(agent.instance_id)
    assert tagged[tags.LEASE] == lease.lease_id
    assert tagged[tags.USER] == "Ada Lovelace"
    await world.complete_passes(3)
    assert len(world.cloud.of("tag")) == 3, "and then never again"


async def test_disks_and_interfaces_get_the_tags_of_their_lease_in_the_same_call(
    world: World,
) -> None:
    lease, agent = await world.ready("ada", home_kind="ebs", payer="group:research", profile="a10g")
    await until(lambda: tags.LEASE in world.cloud.tags(agent.instance_id))
    parts = world.cloud.machines[agent.instance_id].instance.deleted_with
    [call] = world.cloud.of("tag")
    resources, given = call.arguments
    assert resources == (agent.instance_id, *parts)
    assert given[tags.LEASE] == lease.lease_id
    assert given[tags.PAYER] == "group:research"
    assert given[tags.PROFILE] == "a10g"
    assert all(world.cloud.tags_of_parts[each] == given for each in parts)


async def test_a_home_never_gets_the_tags_of_the_lease_that_uses_it(world: World) -> None:
    """Not even where somebody asked EC2 to delete it with its instance."""
    linger = AfterStop("linger", 600.0)
    lease, agent = await world.ready(home_kind="ebs", after_stop=linger)
    await agent.heartbeat()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    [volume] = world.cloud.volumes.values()
    before = volume.tags
    machine = world.cloud.machines[agent.instance_id]
    deleted_with = (*machine.instance.deleted_with, volume.volume_id)
    machine.instance = replace(machine.instance, deleted_with=deleted_with)
    await world.complete_passes(2)
    again = await world.request(home_kind="ebs", after_stop=linger)
    await agent.serve()
    await until(lambda: world.cloud.tags(agent.instance_id)[tags.LEASE] == again.lease_id)
    [volume] = world.cloud.volumes.values()
    assert volume.tags == before


async def test_a_part_that_may_not_be_tagged_does_not_keep_the_lease_from_its_instance(
    world: World,
) -> None:
    refused = CloudError("UnauthorizedOperation", "eni-1", retryable=False)
    world.cloud.fail("tag", refused)
    lease, agent = await world.ready()
    await until(lambda: tags.LEASE in world.cloud.tags(agent.instance_id))
    assert world.cloud.tags(agent.instance_id)[tags.LEASE] == lease.lease_id
    await world.complete_passes(3)
    assert [len(call.arguments[0]) for call in world.cloud.of("tag")] == [3, 1]


async def test_starts_between_two_passes_share_one_launch_call(world: World) -> None:
    async with world.no_pass:
        leases = await asyncio.gather(*(world.request(f"user-{n}") for n in range(8)))
    agents = [Agent(world, each) for each in await world.boot(8)]
    await asyncio.gather(*(agent.serve() for agent in agents))
    assert [request.count for request in world.cloud.requests()] == [8]
    assert {world.now(lease).instance_id for lease in leases} == set(world.cloud.running())


async def test_missing_spot_capacity_is_bought_on_demand_with_another_token(world: World) -> None:
    world.cloud.capacity[Market.SPOT, "g4dn.xlarge", "us-east-1a"] = 2
    world.cloud.capacity[Market.SPOT, "g4dn.xlarge", "us-east-1b"] = 1
    async with world.no_pass:
        await asyncio.gather(*(world.request(f"user-{n}") for n in range(5)))
    await world.boot(5)
    await world.settle()
    spot, on_demand = world.cloud.requests()
    assert (spot.market, spot.count) == (Market.SPOT, 5)
    assert (on_demand.market, on_demand.count) == (Market.ON_DEMAND, 2)
    assert on_demand.client_token != spot.client_token
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 5
    assert len(world.cloud.requests()) == 2


async def test_sold_out_everywhere_ends_the_start_and_says_so(world: World) -> None:
    world.cloud.sell_out(Market.SPOT)
    world.cloud.sell_out(Market.ON_DEMAND)
    lease = await world.request()
    with pytest.raises(StartFailed) as failure:
        await world.provisioner._starts.wait_ready(lease.lease_id, TIMEOUT)
    assert failure.value.stop.reason == "capacity"
    assert "spot and on-demand are sold out in us-east-1a and b" in str(failure.value)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    assert world.cloud.machines == {}
    assert [request.market for request in world.cloud.requests()] == ["spot", "on-demand"]


async def test_a_sold_out_call_ends_no_start_with_a_pending_instance(
    world: World,
) -> None:
    gate = world.cloud.hold("launch")
    first = await world.request("first")
    await until(world.cloud.requests)
    second = await world.request("second")
    [instance_id] = await world.boot()
    world.cloud.sell_out(Market.SPOT)
    world.cloud.sell_out(Market.ON_DEMAND)
    await world.stop(first)
    await world.watch_passes(3)
    gate.set()
    await world.complete_passes(2)
    await Agent(world, instance_id).serve()
    assert world.now(second).instance_id == instance_id


async def test_another_choice_starts_while_the_call_of_a_cancelled_start_hangs(
    world: World,
) -> None:
    gate = world.cloud.hold("launch")
    cancelled = await world.request()
    await until(world.cloud.requests)
    await world.stop(cancelled)
    await world.state(cancelled, LeaseState.ENDED)
    other = replace(SPEC, instance_types=("g5.xlarge",))
    lease, agent = await world.ready(spec=other, launch_key=launch_key_of(other))
    assert [request.spec for request in world.cloud.requests()] == [SPEC, other]
    gate.set()
    await until(lambda: len(world.cloud.machines) == 2, "what the first call brings")
    await until(lambda: world.cloud.running() == [agent.instance_id], "its end")
    assert world.now(lease).state is LeaseState.READY
    assert len(world.cloud.requests()) == 2


async def test_a_refused_call_fails_at_once_and_tries_no_other_market(world: World) -> None:
    world.cloud.fail("launch", FORBIDDEN)
    stop = await world.stop_of(await world.request())
    assert stop.reason == "failed"
    assert "admin" in stop.message
    assert "UnauthorizedOperation: ec2:CreateFleet is not allowed" in stop.message
    assert len(world.cloud.requests()) == 1
    assert world.cloud.machines == {}


@pytest.mark.parametrize(
    ("codes", "fatal"),
    [
        (["InvalidParameterValue"], True),
        (["InvalidParameterValue", "InvalidSubnetID.NotFound"], True),
        (["InvalidFleetConfiguration"], False),
        (["MaxFleetCountExceeded"], False),
        (["InvalidParameterValue", "InsufficientInstanceCapacity"], False),
    ],
)
async def test_another_market_is_tried_unless_every_offer_is_refused(
    world: World, codes: list[str], fatal: bool
) -> None:
    world.cloud.refuse_offers(*codes)
    lease = await world.request()
    if fatal:
        assert codes[0] in (await world.stop_of(lease)).message
    else:
        await world.boot()
    markets = [request.market for request in world.cloud.requests()]
    assert markets == ([Market.SPOT] if fatal else [Market.SPOT, Market.ON_DEMAND])


async def test_spot_instances_are_counted_once_between_two_markets(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cloud.sell_out(Market.SPOT, left=0)
    world.cloud.capacity[Market.SPOT, "g4dn.xlarge", "us-east-1a"] = 3
    save, begun, gate = world.store.save_intent, asyncio.Event(), asyncio.Event()

    async def slow_on_demand(intent: Intent) -> None:
        if intent.market is Market.ON_DEMAND:
            begun.set()
            await gate.wait()
        await save(intent)

    monkeypatch.setattr(world.store, "save_intent", slow_on_demand)
    async with world.no_pass:
        await asyncio.gather(*(world.request(f"user-{n}") for n in range(5)))
    await begun.wait()
    await world.watch_passes(2)
    assert len(world.provisioner._state.launches.in_progress) == 1, "nothing more is asked for"
    gate.set()
    await world.boot(5)
    await world.complete_passes(2)
    assert len(world.cloud.machines) == 5


async def test_a_throttled_call_is_repeated_exactly(world: World) -> None:
    world.cloud.fail("launch", THROTTLED, times=2)
    await world.ready()
    first, *repeated = world.cloud.requests()
    assert repeated == [first, first]


async def test_a_throttled_call_is_repeated_until_the_timeout(world: World) -> None:
    await world.restart(launch_timeout=600.0)
    world.cloud.fail("launch", THROTTLED, times=20)
    await world.ready()
    assert len(world.cloud.requests()) == 21


async def test_a_call_without_a_response_is_abandoned(world: World) -> None:
    world.cloud.fail("launch", THROTTLED, times=10_000)
    stop = await world.stop_of(await world.request())
    assert "RequestLimitExceeded" in stop.message
    first, *repeated = world.cloud.requests()
    assert repeated == [first] * len(repeated), "no other market is as busy"


async def test_instances_of_an_abandoned_call_are_terminated(world: World) -> None:
    world.cloud.fail("launch", THROTTLED, times=10_000, after=True)
    lease = await world.request()
    assert "RequestLimitExceeded" in (await world.stop_of(lease)).message
    await world.complete_passes(2)
    assert len(world.cloud.machines) == 1
    assert world.cloud.running() == []


async def test_a_hanging_call_is_repeated_with_its_token(world: World) -> None:
    world.cloud.hold("launch", after=True)
    await world.ready()
    await until(lambda: len(world.cloud.requests()) == 2)
    await world.complete_passes(2)
    first, second = world.cloud.requests()
    assert first == second
    assert len(world.cloud.machines) == 1


async def test_a_lost_response_launches_no_second_instance(world: World) -> None:
    world.cloud.fail("launch", THROTTLED, times=2, after=True)
    await world.ready()
    assert len(world.cloud.requests()) == 3
    await world.complete_passes(2)
    assert len(world.cloud.machines) == 1


async def test_an_instance_listed_before_the_response_is_kept(
    world: World,
) -> None:
    gate = world.cloud.hold("launch", after=True)
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.watch_passes(3)
    assert world.cloud.running() == [instance_id]
    assert len(world.cloud.requests()) == 1
    gate.set()
    await Agent(world, instance_id).serve()
    assert world.now(lease).instance_id == instance_id
    assert len(world.cloud.machines) == 1


async def test_instances_already_launched_are_not_promised_to_others(world: World) -> None:
    gate = world.cloud.hold("launch", after=True)
    await world.request("first")
    await world.boot(1)
    await world.watch_passes(1)
    await world.request("second")
    await world.boot(2)
    gate.set()
    await world.complete_passes(2)
    assert len(world.cloud.machines) == 2


async def test_identical_calls_are_distinguished(world: World) -> None:
    """Two launches for one machine each: the later one fails first, the earlier one works."""
    patient, hasty = world.cloud.hold("launch"), world.cloud.hold("launch", then=FORBIDDEN)
    first = await world.request("first")
    await until(lambda: len(world.cloud.requests()) == 1)
    second = await world.request("second")
    await until(lambda: len(world.cloud.requests()) == 2)
    hasty.set()
    await world.state(second, LeaseState.ENDED)
    patient.set()
    [instance_id] = await world.boot()
    await Agent(world, instance_id).serve()
    assert world.now(first).state is LeaseState.READY
    await world.ready("third")


async def test_an_instance_that_is_never_listed_is_replaced(world: World) -> None:
    world.cloud.listing_lag = 10**6
    lease = await world.request()
    await world.boot(1)
    await world.settle()  # the launch's response has arrived
    world.clock.advance(119)
    await world.watch_passes(2)
    assert len(world.cloud.requests()) == 1
    world.cloud.listing_lag = 0
    world.clock.advance(2)
    await world.boot(2)
    await Agent(world, world.cloud.running()[1]).serve()
    assert world.now(lease).state is LeaseState.READY


async def test_listings_are_infrequent_when_nothing_changes(world: World) -> None:
    await world.restart(quiet_interval=1000.0)
    await world.ready()
    await world.complete_passes(2)
    before = len(world.cloud.of("list_instances"))
    await asyncio.sleep(100)
    assert len(world.cloud.of("list_instances")) - before <= 2


async def test_an_instance_not_listed_yet_is_awaited(world: World) -> None:
    world.cloud.listing_lag = 5
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert await agent.claim(wait=10.0) is None
    await world.complete_passes(2)
    assert len(world.cloud.requests()) == 1, "the answer counts until a listing shows it"
    world.clock.advance(5)
    await agent.serve()
    assert world.now(lease).instance_id == instance_id


async def test_a_failing_listing_does_not_end_a_start(world: World) -> None:
    world.cloud.fail("list_instances", THROTTLED, times=5)
    lease = await world.request()
    [instance_id] = await world.boot()
    await Agent(world, instance_id).serve()
    assert world.now(lease).state is LeaseState.READY


# --- assignment of instances ---


async def test_the_longest_waiting_lease_is_served_first(world: World) -> None:
    world.cloud.boot_seconds = 1
    leases = [await world.request(f"user-{n}") for n in range(3)]
    for instance_id, lease in zip(await world.boot(3), leases, strict=True):
        granted = await Agent(world, instance_id).claim()
        assert granted is not None
        assert granted.lease.lease_id == lease.lease_id


async def test_the_most_constrained_lease_is_served_first(world: World) -> None:
    """The flexible one has waited longer, but the g5 will do for it as well."""
    world.cloud.prices = {("g5.xlarge", "us-east-1a"): 0.1, ("g4dn.xlarge", "us-east-1a"): 0.2}
    await world.provisioner.market.prices.refresh()
    flexible = replace(SPEC, instance_types=("g5.xlarge", "g4dn.xlarge"))
    patient = await world.request("patient", spec=flexible)
    await world.boot(1)
    picky = await world.request("picky")
    await world.boot(2)
    await world.complete_passes(1)
    [g4] = [i for i in world.cloud.running() if _type(world, i) == "g4dn.xlarge"]
    granted = await Agent(world, g4).claim()
    assert granted is not None
    assert granted.lease.lease_id == picky.lease_id
    [g5] = [i for i in world.cloud.running() if i != g4]
    granted = await Agent(world, g5).claim()
    assert granted is not None
    assert granted.lease.lease_id == patient.lease_id


async def test_an_instance_with_another_image_is_not_assigned(world: World) -> None:
    first = await world.request("first")
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    await world.stop(first)
    await world.request("second", spec=replace(SPEC, image_id="ami-2"))
    await until(lambda: len(world.cloud.requests()) == 2)
    await until(lambda: instance_id not in world.cloud.running())
    assert [request.spec.image_id for request in world.cloud.requests()] == ["ami-1", "ami-2"]


# --- a start that is cancelled ---


async def test_an_instance_that_boots_for_a_cancelled_start_is_terminated(world: World) -> None:
    lease = await world.request()
    await world.boot()
    await world.stop(lease)
    await world.complete_passes(2)
    assert world.cloud.running() == []
    assert world.now(lease).state is LeaseState.ENDED


async def test_a_claimed_instance_of_a_cancelled_start_is_terminated(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    assert await Agent(world, instance_id).claim()
    await world.stop(lease)
    await world.complete_passes(2)
    assert world.cloud.running() == []
    assert world.now(lease).state is LeaseState.ENDED


async def test_an_instance_of_a_cancelled_start_serves_the_next_start(world: World) -> None:
    cancelled = await world.request("cancelled")
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    second, _ = await asyncio.gather(world.request("second"), world.stop(cancelled))
    await world.complete_passes(2)
    await Agent(world, instance_id).serve()
    assert world.now(second).instance_id == instance_id
    assert len(world.cloud.machines) == 1


async def test_events_of_an_old_instance_do_not_revive_an_ended_start(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await agent.event("ready")
    assert world.now(lease).state is LeaseState.ENDED


# --- instances that die under a start ---


async def test_an_instance_that_dies_before_its_claim_is_replaced(world: World) -> None:
    lease = await world.request()
    [first] = await world.boot()
    await world.complete_passes(1)
    world.cloud.end(first)
    [second] = await world.boot()
    await Agent(world, second).serve()
    ready = world.now(lease)
    assert (ready.state, ready.instance_id, ready.replaced) == (LeaseState.READY, second, 1)


async def test_an_instance_that_dies_while_the_notebook_starts_is_replaced(world: World) -> None:
    lease = await world.request()
    [first] = await world.boot()
    agent = Agent(world, first)
    await agent.claim()
    await agent.event("notebook")
    world.cloud.end(first)
    await world.state(lease, LeaseState.WAITING)
    [second] = await world.boot()
    await Agent(world, second).serve()
    ready = world.now(lease)
    assert (ready.instance_id, ready.replaced) == (second, 1)
    assert [segment.instance_id for segment in ready.segments] == [first, second]
    assert ready.segments[0].end is not None
    assert any("another one" in event.message for event in ready.events)


@pytest.mark.parametrize("claims", [False, True])
async def test_a_start_that_loses_every_instance_ends(world: World, claims: bool) -> None:
    await world.restart(replacements=2)
    lease = await world.request()
    for _ in range(3):
        [instance_id] = await world.boot()
        if claims:
            await Agent(world, instance_id).claim()
        await world.complete_passes(1)
        world.cloud.end(instance_id)
        await until(lambda: world.now(lease).instance_id is None or not claims or _over(world))
    stop = await world.stop_of(lease)
    assert stop.message.startswith("3 instances ended before your server was ready. Try again")
    await world.complete_passes(2)
    assert world.cloud.running() == []
    assert len(world.cloud.machines) == 3


async def test_the_events_of_an_agent_are_bounded(world: World) -> None:
    """Each line is a write to the store."""
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    for _ in range(5):
        await agent.event("home")
        await agent.event("notebook")
    steps = [event.step for event in world.now(lease).events]
    assert steps == [Step.REQUEST, Step.BOOT, Step.HOME, Step.NOTEBOOK]

    world.cloud.end(instance_id)
    await world.state(lease, LeaseState.WAITING)
    [second] = await world.boot()
    await Agent(world, second).serve()
    steps = [event.step for event in world.now(lease).events]
    assert steps[-4:] == [Step.BOOT, Step.HOME, Step.NOTEBOOK, Step.READY], "the second one's"


async def test_the_agents_error_is_shown_to_the_user(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    await agent.event("failed", "jupyterhub-singleuser: not found")
    assert (await world.stop_of(lease)).message == "jupyterhub-singleuser: not found"
    await world.complete_passes(2)
    assert world.cloud.running() == []


async def test_cost_without_a_lease_is_overhead(
    world: World,
) -> None:
    lease = await world.request()
    [unused] = await world.boot()
    await world.complete_passes(1)
    world.clock.advance(100)
    began = world.cloud.machines[unused].instance.launched_at
    await world.stop(lease)
    await world.complete_passes(2)
    [segment] = await world.store.ledger.overhead(began)
    assert (segment.instance_id, segment.start) == (unused, began)
    assert segment.end == world.clock()

    served, agent = await world.ready("second")
    world.clock.advance(100)
    world.cloud.fail("terminate", THROTTLED)
    await world.stop(served)
    await agent.event("stopped")
    ended = await world.state(served, LeaseState.ENDED)
    world.clock.advance(30)
    await world.complete_passes(2)
    after = [x for x in await world.store.ledger.overhead(began) if x.instance_id != unused]
    assert all(x.start == ended.ended_at for x in after), "the lease has paid until then"


async def test_a_lease_pays_nothing_from_before_its_request(world: World) -> None:
    """The instance was booted for a start that was cancelled."""
    cancelled = await world.request("cancelled")
    [instance_id] = await world.boot()
    launched_at = world.cloud.machines[instance_id].instance.launched_at
    await world.complete_passes(1)
    world.clock.advance(300)
    second, _ = await asyncio.gather(world.request("second"), world.stop(cancelled))
    agent = Agent(world, instance_id)
    await agent.serve()
    await agent.claim()
    [segment] = world.now(second).segments
    assert segment.start == second.requested_at
    await world.settle()
    [before] = await world.store.ledger.overhead(launched_at)
    assert (before.instance_id, before.start, before.end) == (
        instance_id,
        launched_at,
        second.requested_at,
    )


async def test_a_crash_of_one_pass_does_not_end_the_reconciler(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.cloud.fail("list_instances", RuntimeError("a bug"))
    with caplog.at_level(logging.ERROR):
        await world.complete_passes(1)
        await world.ready()
    assert "a bug" in caplog.text


def _type(world: World, instance_id: str) -> Any:
    return world.cloud.machines[instance_id].instance.instance_type


def _over(world: World) -> bool:
    return bool(world.ended)


async def test_the_user_reads_what_a_ready_server_lacks(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    await agent.event("notebook", "A bucket is missing")
    await agent.event("ready", "No extension connects")
    details = {event.step: event.detail for event in world.now(lease).events}
    assert details[Step.NOTEBOOK] == "A bucket is missing"
    assert details[Step.READY] == "No extension connects"
