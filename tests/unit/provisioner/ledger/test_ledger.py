"""The ledger of a hub: what leases and overhead have cost, by day, payer and purpose."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from ec2spawner.core.ledger.amount import Amount
from ec2spawner.core.ledger.cost import nano_usd
from ec2spawner.core.ledger.cost_rows import Dimension, user_payer
from ec2spawner.core.ledger.gpu_use import MAX_GAP_SECONDS
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.wire import GpuSample, Stop, Telemetry
from tests.unit.provisioner.costs import EVER, SPOT, costs, forget, served, spent
from tests.unit.provisioner.world import Agent, World, until


async def test_used_idle_and_overhead_of_a_lease_add_up(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease = await world.request("ada")
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    world.clock.advance(90)
    agent = Agent(world, instance_id)
    await agent.serve()
    await agent.heartbeat_often(1800)
    idle_since = world.clock()
    for _ in range(20):
        world.clock.advance(60)
        await agent.heartbeat(idle_since=idle_since)
    await agent.heartbeat_often(600)
    await world.stop(lease)
    ended = await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    found = await costs(world, Dimension.PURPOSE, Dimension.CAUSE)
    assert found["idle", ""].microseconds == pytest.approx(1200e6, abs=61e6)
    assert found["used", ""].microseconds == pytest.approx(2400e6, abs=61e6)
    assert found["overhead", "start"].microseconds == pytest.approx(90e6, abs=2e6)
    total = sum(each.nano_usd for each in found.values())
    assert total == nano_usd(ended.segments, world.clock())
    assert {key[0] for key in await costs(world, Dimension.PAYER)} == {"user:ada"}


async def test_use_of_gpus_is_kept_with_the_lease(priced: World) -> None:
    """Measured by the hub's clock and its count of GPUs, whatever the instance says there are."""
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada")

    async def report(percent: float | None, seconds: float = 60) -> None:
        world.clock.advance(seconds)
        many = [GpuSample(index=index, name="T4", use_percent=percent) for index in range(8)]
        await agent.heartbeat(telemetry=Telemetry(at=world.clock(), gpus=many))

    for _ in range(61):
        await report(50)
    await report(None)
    await report(100)  # nothing was measured before it
    await report(100, seconds=250)
    await report(0, seconds=2)
    await world.complete_passes(1)
    [stored] = [x for x in (await world.store.load()).leases if x.lease_id == lease.lease_id]
    assert sum(use.measured for use in stored.gpu_use) == 3600e6, "once in a GPU-hour"
    by_profile = await world.provisioner.usage.costs(*EVER, (Dimension.PROFILE,))
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    [found] = (await costs(world, Dimension.PROFILE)).values()
    assert found.gpu_measured == pytest.approx(3600e6 + 252e6, abs=1e6)
    assert found.gpu_busy == pytest.approx(1800e6 + 250e6, abs=1e6)
    assert {each.gpu_busy for each in by_profile} == {found.gpu_busy}
    assert (await costs(world, Dimension.USER))["ada",].gpu_busy == found.gpu_busy


async def test_a_sample_of_gpus_counts_for_five_minutes_at_most_and_for_no_lease_that_ends(
    priced: World,
) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada")

    async def measured(seconds: float) -> float:
        world.clock.advance(seconds)
        samples = [GpuSample(index=0, name="T4", use_percent=50)]
        await agent.heartbeat(telemetry=Telemetry(at=world.clock(), gpus=samples))
        return sum(use.measured for use in world.now(lease).gpu_use)

    await measured(0)
    before = await measured(10)
    assert await measured(MAX_GAP_SECONDS + 700) == before + 1e6 * MAX_GAP_SECONDS
    state = world.provisioner._state
    await state.end(lease.lease_id, Stop(reason="user"))
    assert world.now(lease).state is not LeaseState.READY
    assert await measured(10) == before + 1e6 * MAX_GAP_SECONDS


async def test_a_lease_is_charged_to_its_payer(priced: World) -> None:
    priced.silence_agents()
    world = priced
    first, _ = await world.ready("ada", payer="group:lab")
    world.clock.advance(3600)
    assert spent(world, "group:lab") == spent(world, user_payer("ada")) == spent(world, "hub")
    assert spent(world, "group:lab").usd == pytest.approx(0.20, abs=1e-3)
    assert spent(world, "group:lab").gpu_hours == pytest.approx(1.0, abs=0.01)
    assert spent(world, "group:other") == Amount()
    await world.stop(first)
    await world.state(first, LeaseState.ENDED)
    await served(world, "bob", 3600)
    before = spent(world, "hub")
    await forget(world)
    assert spent(world, "group:lab").usd == pytest.approx(0.20, abs=1e-3)
    assert spent(world, "hub").nano_usd == pytest.approx(before.nano_usd, abs=10)
    remembered = {scope: spent(world, scope) for scope in ("group:lab", "user:ada", "hub")}
    await world.restart()
    assert {scope: spent(world, scope) for scope in remembered} == remembered


async def test_what_is_running_is_counted_as_exactly_as_what_has_ended(priced: World) -> None:
    world = priced
    lease, agent = await world.ready("ada")
    for seconds in (3, 20, 600, 7, 40_000, 1):
        world.clock.advance(seconds)
        now = world.clock()
        exact = nano_usd(world.now(lease).segments, now)
        assert spent(world, "user:ada").nano_usd == pytest.approx(exact, abs=1)
        await agent.heartbeat()


async def test_days_are_those_of_the_hubs_time_zone(world: World) -> None:
    await world.restart(time_zone=ZoneInfo("Asia/Kolkata"))
    world.cloud.prices = dict(SPOT)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    _, agent = await world.ready("ada")  # noon UTC is 17:30 there
    await agent.heartbeat_often(8 * 3600, every=1800)
    days = world.provisioner._state.spending.by_day(
        user_payer("ada"), world.provisioner._state.leases
    )
    first, second = (amount.usd for _, amount in sorted(days.items()))
    assert first == pytest.approx(0.20 * 6.5, abs=0.01)
    assert second == pytest.approx(0.20 * 1.5, abs=0.01)


@pytest.mark.parametrize("reason", ["failed", "lost", "quota", "admin", "hub", "budget"])
async def test_what_was_bought_for_a_start_that_its_user_did_not_end_is_the_hubs(
    priced: World, reason: str
) -> None:
    """Such as one that timed out, or that the hub could not store."""
    world = priced
    lease = await world.request("ada")
    await world.boot()
    await world.complete_passes(1)
    world.clock.advance(300)
    await world.stop(lease, reason)
    await until(lambda: not world.cloud.running(), "its end")
    await until(lambda: not world.store.write_behind._writes, "what is written meanwhile")
    await world.complete_passes(1)
    found = await costs(world, Dimension.PAYER, Dimension.USER, Dimension.CAUSE)
    assert set(found) == {("hub", "", "unassigned")}


async def test_overhead_has_its_cause_and_is_of_whoever_cancelled_the_start(priced: World) -> None:
    world = priced
    lease = await world.request("ada")
    await world.boot()
    await world.complete_passes(1)
    world.clock.advance(300)
    await world.stop(lease)
    await until(lambda: not world.cloud.running(), "its end")
    await until(lambda: not world.store.write_behind._writes, "what is written meanwhile")
    await world.complete_passes(1)
    found = await costs(world, Dimension.PAYER, Dimension.USER, Dimension.CAUSE)
    assert set(found) == {("user:ada", "ada", "unassigned")}
    [overhead] = found.values()
    assert overhead.nano_usd / 1e9 == pytest.approx(0.20 / 12, abs=1e-3)
    for scope in (user_payer("ada"), "hub"):
        assert spent(world, scope).nano_usd == overhead.nano_usd
    await world.restart()
    for scope in (user_payer("ada"), "hub"):
        assert spent(world, scope).nano_usd == overhead.nano_usd


async def test_idle_time_survives_a_restart_of_the_hub(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(600)
    idle_since = world.clock()
    world.clock.advance(600)
    await agent.heartbeat(idle_since=idle_since)
    await world.complete_passes(1)
    await world.restart()
    await world.complete_passes(1)
    world.clock.advance(600)
    await agent.heartbeat(idle_since=idle_since)
    await world.stop(world.now(lease))
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    found = await costs(world, Dimension.PURPOSE)
    assert found["idle",].microseconds == pytest.approx(1200e6, abs=61e6)
    assert timedelta(microseconds=found["used",].microseconds) >= timedelta(minutes=9)


async def test_a_lease_ends_when_ec2_ended_its_instance(priced: World) -> None:
    """While no hub ran, and the listing still shows it."""
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(2 * 3600, every=1200)
    await world.kill()
    world.clock.advance(1800)
    world.cloud.end(agent.instance_id, reason="Client.UserInitiatedShutdown")
    world.clock.advance(40 * 60)
    await world.start()
    ended = await world.state(lease, LeaseState.ENDED)
    assert nano_usd(ended.segments, world.clock()) == pytest.approx(0.5e9, rel=0.01)
    await world.complete_passes(1)
    assert spent(world, "user:ada").usd == pytest.approx(0.5, rel=0.01)


async def test_a_spot_instance_interrupted_in_its_first_hour_is_free(priced: World) -> None:
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(3000)
    world.cloud.end(agent.instance_id)
    ended = await world.state(lease, LeaseState.ENDED)
    assert nano_usd(ended.segments, world.clock()) == 0
    await world.complete_passes(1)
    found = await costs(world, Dimension.PURPOSE)
    assert found["used",].nano_usd == 0
    assert found["used",].on_demand_nano_usd > 0.4e9


@pytest.mark.parametrize("by_owner", [True, False])
async def test_an_interruption_on_purpose_is_charged_and_leaves_the_hour_charged(
    priced: World, by_owner: bool
) -> None:
    """Also after a restart: EC2 gives the same reason as where it needs the capacity."""
    world = priced
    lease, agent = await world.ready("ada", payer="group:lab")
    await agent.heartbeat_often(3000)
    rehearsals = world.provisioner.rehearsals
    await rehearsals.charge(world.now(lease), 2, by_owner=by_owner)
    assert rehearsals.is_rehearsed(world.now(lease))
    await world.restart()
    assert world.provisioner.rehearsals.is_rehearsed(world.now(lease))
    world.cloud.end(agent.instance_id)
    ended = await world.state(lease, LeaseState.ENDED)
    used = nano_usd(ended.segments, world.clock())
    assert used is not None
    assert used > 0.1e9
    await world.complete_passes(2)
    await world.settle()
    of_users = used / 1e9 + (0.2 if by_owner else 0)
    for scope in ("user:ada", "group:lab"):
        assert spent(world, scope).usd == pytest.approx(of_users, abs=1e-3)
    assert spent(world, "hub").usd == pytest.approx(used / 1e9 + 0.2, abs=1e-3)
    found = await costs(world, Dimension.CAUSE, Dimension.RESOURCE, Dimension.PAYER)
    payer = "group:lab" if by_owner else "hub"
    assert found["rehearsal", "rehearsal", payer].nano_usd == 200_000_000
    assert not world.provisioner._state.interruptions.since(lease.requested_at), "no alarm of EC2's"


async def test_a_rehearsal_that_aws_refuses_costs_nothing(priced: World) -> None:
    world = priced
    lease, _ = await world.ready("ada")
    before = spent(world, "user:ada").usd
    rehearsals = world.provisioner.rehearsals
    await rehearsals.charge(lease, 15, by_owner=True)
    assert spent(world, "user:ada").usd == pytest.approx(before + 1.5)
    await rehearsals.take_back(lease)
    assert not rehearsals.is_rehearsed(lease)
    assert spent(world, "user:ada").usd == pytest.approx(before)


async def test_a_week_without_a_hub_costs_what_ec2_says(priced: World) -> None:
    """Two servers end in it, long before the hub is back; the third runs on."""
    world = priced
    ada, first = await world.ready("ada")
    bob, second = await world.ready("bob")
    eve, third = await world.ready("eve")
    for agent in (first, second, third):
        await agent.heartbeat()
    world.clock.advance(3600)
    await world.kill()
    world.clock.advance(3600)
    world.cloud.power_off(first.instance_id)
    world.clock.advance(3600)
    world.cloud.end(second.instance_id)
    world.clock.advance(7 * 86400 - 7200)
    for agent in (first, second):
        world.cloud.machines[agent.instance_id].hidden = True
    await world.start()
    await third.heartbeat()
    hours = 1.0
    for lease in (ada, bob):
        hours += 1.0
        ended = await world.state(lease, LeaseState.ENDED)
        assert nano_usd(ended.segments, world.clock()) == pytest.approx(hours * 0.2e9, rel=0.01)
    week = nano_usd(world.now(eve).segments, world.clock())
    assert week == pytest.approx((7 * 24 + 1) * 0.2e9, rel=0.01)
    await world.complete_passes(1)
    users = [spent(world, user_payer(user)).nano_usd for user in ("ada", "bob", "eve")]
    assert spent(world, "hub").nano_usd == sum(users)


async def test_without_metrics_a_lost_server_is_charged_until_it_was_missed(
    priced: World,
) -> None:
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat()
    await world.kill()
    world.clock.advance(7200)
    world.cloud.end(agent.instance_id)
    world.cloud.machines[agent.instance_id].hidden = True
    world.clock.advance(7200)
    world.cloud.fail("ran_until", CloudError("AccessDenied", "no", retryable=False), 1)
    await world.start()
    ended = await world.state(lease, LeaseState.ENDED)
    assert nano_usd(ended.segments, world.clock()) == pytest.approx(0.8e9, rel=0.01)


async def test_a_start_that_ended_without_a_hub_costs_what_ec2_says(priced: World) -> None:
    """Claimed, and gone a minute later; a week after that the hub is back."""
    world = priced
    lease = await world.request("ada")
    [instance_id] = await world.boot()
    await Agent(world, instance_id).claim()
    await world.state(lease, LeaseState.STARTING)
    await world.kill()
    world.clock.advance(60)
    world.cloud.end(instance_id)
    world.cloud.machines[instance_id].hidden = True
    world.clock.advance(7 * 86400)
    await world.start()
    await until(lambda: world.now(lease).replaced, "its replacement")
    first = world.now(lease).segments[0]
    assert first.instance_id == instance_id
    assert nano_usd([first], world.clock()) <= 0.2e9 / 6
