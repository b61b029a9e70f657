"""Who may speak for an instance, and what a claim is answered with."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core import tags
from ec2spawner.provisioner.instances import claims as claim_listings
from ec2spawner.provisioner.instances.claims import ClaimRefused, Claims, InstanceUnwanted
from ec2spawner.provisioner.instances.surplus import InstanceTermination
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.state.instances.stock import Stock
from tests.unit.provisioner.world import Agent, World, until
from tests.virtual_time import virtual_loop

REFUSED = CloudError("UnauthorizedOperation", "no", retryable=False)


async def test_the_same_key_gets_the_same_response(world: World) -> None:
    await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    first, again = await agent.claim(), await agent.claim()
    assert first is not None
    assert again is not None
    assert (first.lease.lease_id, first.token) == (again.lease.lease_id, again.token)
    await agent.serve()
    third = await agent.claim()
    assert third is not None
    assert third.token == first.token


async def test_the_same_key_gets_the_same_response_after_a_restart(world: World) -> None:
    await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    first = await agent.claim()
    await world.restart()
    again = await agent.claim()
    assert first is not None
    assert again is not None
    assert again.token == first.token


@pytest.mark.parametrize("restarted", [False, True])
async def test_another_key_is_refused_with_an_alarm_and_changes_nothing(
    world: World, caplog: pytest.LogCaptureFixture, restarted: bool
) -> None:
    lease, agent = await world.ready()
    if restarted:
        await world.restart()
    intruder = Agent(world, agent.instance_id)
    with caplog.at_level(logging.ERROR), pytest.raises(ClaimRefused):
        await intruder.claim()
    assert "ALARM" in caplog.text
    assert intruder.key not in caplog.text
    assert world.now(lease) == lease
    assert await agent.claim() is not None


async def test_a_key_evicted_from_memory_still_counts(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    _, agent = await world.ready()
    world.provisioner._state.claims.load(())
    with caplog.at_level(logging.ERROR), pytest.raises(ClaimRefused):
        await Agent(world, agent.instance_id).claim()
    assert "ALARM" in caplog.text
    assert await agent.claim() is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"region": "eu-west-1"},
        {"account_id": "999999999999"},
        {"pending_time": timedelta(hours=1)},
        {tags.STORE: "another-store"},
        {tags.INTENT: "spot-unheard-of"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_instances_of_another_store_are_refused(
    world: World, caplog: pytest.LogCaptureFixture, wrong: dict[str, object]
) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    machine = world.cloud.machines[instance_id]
    [(name, value)] = wrong.items()
    claim: dict[str, Any] = {}
    if isinstance(value, timedelta):
        claim = {name: machine.instance.launched_at - value}
    elif name.startswith("ec2spawner:"):
        labels = {**machine.instance.tags, name: str(value)}
        machine.instance = replace(machine.instance, tags=labels)
    else:
        claim = {name: value}
    await world.complete_passes(1)
    with caplog.at_level(logging.ERROR), pytest.raises(ClaimRefused):
        await Agent(world, instance_id).claim(**claim)
    assert "did not launch it" in caplog.text
    assert world.now(lease).state is LeaseState.WAITING


async def test_an_instance_with_copied_tags_is_neither_admitted_nor_terminated(
    world: World,
) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    copy = world.cloud.copy(instance_id)
    await world.complete_passes(2)
    with pytest.raises(ClaimRefused):
        await Agent(world, copy).claim()
    assert set(world.cloud.running()) == {instance_id, copy}
    await Agent(world, instance_id).serve()
    await world.request("second")
    await world.boot(3)
    assert world.now(lease).instance_id == instance_id


async def test_a_claim_waits_for_the_response_of_its_launch(world: World) -> None:
    gate = world.cloud.hold("launch", after=True)
    lease = await world.request()
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    await world.watch_passes(2)
    assert not claim.done()
    gate.set()
    assert await claim is not None
    assert world.now(lease).instance_id == instance_id


async def test_a_waiting_claim_is_answered_when_a_lease_comes(world: World) -> None:
    """And not by the pass that follows, but at once."""
    first = await world.request("first")
    [instance_id] = await world.boot()
    async with world.no_pass:
        await world.stop(first)
        claim = asyncio.create_task(Agent(world, instance_id).claim())
        await until(lambda: instance_id in world.provisioner._state.claims.waiting)
        second = await world.request("second")
        granted = await claim
    assert granted is not None
    assert granted.lease.lease_id == second.lease_id


async def test_a_claim_without_a_lease_is_answered_in_time(world: World) -> None:
    world.cloud.listing_lag = 60
    await world.request()
    [instance_id] = await world.boot()
    began = virtual_loop().time()
    assert await Agent(world, instance_id).claim(wait=20.0) is None
    assert virtual_loop().time() - began >= 20.0


async def test_a_repeated_claim_replaces_the_waiting_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub that lets both wait would let them wake each other indefinitely.

    Each alternates between a listing and the wait, so the older one may replace the newer one.
    """
    world.cloud.listing_lag = 60
    await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    claims = world.provisioner._state.claims
    admitted = 0
    admit = Claims.admit

    async def counted(*args: Any) -> Any:
        nonlocal admitted
        admitted += 1
        return await admit(*args)

    monkeypatch.setattr(Claims, "admit", counted)
    begun = virtual_loop().time()
    first = asyncio.create_task(agent.claim(wait=50.0))
    await until(lambda: instance_id in claims.waiting)
    second = asyncio.create_task(agent.claim(wait=50.0))
    await until(lambda: first.done() or second.done())
    assert virtual_loop().time() < begun + 10, "one is answered at once"
    assert not (first.done() and second.done())
    assert await first is None
    assert await second is None
    assert virtual_loop().time() > begun + 50
    assert admitted < 2 * 50.0 / claim_listings.LISTING_PAUSE  # once for each pause, and at a wake


async def test_a_used_instance_is_not_reassigned(world: World) -> None:
    """Even where it cannot be terminated and its tag was never written."""
    world.cloud.fail("tag", REFUSED, times=1000)
    lease, agent = await world.ready()
    world.cloud.fail("terminate", REFUSED, times=1000)
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    next_lease = await world.request("next")
    with pytest.raises(InstanceUnwanted):
        await agent.claim()
    await world.boot(2)
    await world.restart()
    with pytest.raises(InstanceUnwanted):
        await agent.claim()
    assert world.now(next_lease).instance_id != agent.instance_id
    await world.request("third")
    await world.boot(3)


async def test_a_surplus_instance_that_claims_is_asked_to_power_off(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    world.cloud.fail("terminate", REFUSED, times=1000)
    await world.stop(lease)
    await world.complete_passes(2)
    with pytest.raises(InstanceUnwanted):
        await agent.claim()


async def test_a_waiting_agent_learns_at_once_that_its_instance_is_surplus(
    world: World,
) -> None:
    lease = await world.request(home_kind="ebs")
    gate = world.cloud.hold("create_volume")
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    await until(lambda: world.cloud.of("create_volume"))
    await world.stop(lease)
    with pytest.raises(InstanceUnwanted):
        await asyncio.wait_for(claim, 10)
    gate.set()


async def test_an_instance_to_be_terminated_is_never_assigned(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    agent, provisioner = Agent(world, instance_id), world.provisioner
    await provisioner._starts.claims.admit(agent.claimant(), agent.key, 1.0)
    state, overhead = provisioner._state, provisioner._retention.overhead
    state.stock = Stock(surplus=(state.instances.listed[instance_id],))
    termination = InstanceTermination(state, world.cloud, overhead, provisioner._tasks)
    await termination.reconcile(provisioner.now())  # the call has not begun
    with pytest.raises(InstanceUnwanted):
        await agent.claim()
    assert world.now(lease).instance_id is None


async def test_an_instance_is_not_terminated_while_its_key_is_being_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    stored, save = asyncio.Event(), world.store.save_binding

    async def slow(binding: object) -> None:
        await stored.wait()
        await save(binding)  # type: ignore[arg-type]

    monkeypatch.setattr(world.store, "save_binding", slow)
    agent = Agent(world, instance_id)
    claim = asyncio.create_task(agent.claim())
    await until(lambda: world.provisioner._state.claims.is_bound(instance_id))
    await world.complete_passes(2)
    stored.set()
    assert await claim is not None
    assert world.cloud.running() == [instance_id]
    assert world.now(lease).instance_id == instance_id


async def test_a_bound_agent_silent_before_its_lease_is_dropped(
    world: World,
) -> None:
    """Its key is bound, no lease fits, and another lease must not wait for it indefinitely."""
    world.cloud.listing_lag = 0
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await world.complete_passes(1)
    instance = await world.provisioner._starts.claims.admit(agent.claimant(), agent.key, 1)
    assert instance is not None
    await world.complete_passes(2)
    assert world.cloud.running() == [instance_id]
    world.clock.advance(181)
    await until(lambda: instance_id not in world.cloud.running())
    [other] = await world.boot()
    await Agent(world, other).serve()
    assert world.now(lease).instance_id == other


async def test_a_restarted_hub_gives_bound_agents_time_to_claim_again(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    agent = Agent(world, instance_id)
    assert await world.provisioner._starts.claims.admit(agent.claimant(), agent.key, 1)
    await world.restart()
    await world.complete_passes(2)
    await agent.serve()
    assert world.now(lease).instance_id == instance_id
