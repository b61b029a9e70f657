"""A running server: heartbeats, idle stops, extensions, prices, and when it counts as lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.ledger.cost import usd
from ec2spawner.core.ledger.cost_rows import CostRow
from ec2spawner.provisioner.instances.claims import ClaimRefused
from ec2spawner.provisioner.lifecycle import heartbeat as heartbeats
from ec2spawner.provisioner.lifecycle.start import RESTART_SILENCE
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.store.store import StoreError
from ec2spawner.wire import PROTOCOL, Heartbeat, IdlePolicy, Market, Stop
from tests.unit.provisioner.world import SPEC, Agent, World, until

HOUR = IdlePolicy(server_seconds=3600, user_may_extend_seconds=7200)
FAR = 86400.0
THROTTLED = CloudError("RequestLimitExceeded", "slow down", retryable=True)


async def test_heartbeats_that_come_together_are_answered_apart(world: World) -> None:
    """Else the next ones would come together as well."""
    lease, _ = await world.ready()
    agents, now = world.provisioner.agents, asyncio.get_running_loop().time()
    heartbeat = Heartbeat(protocol=PROTOCOL, hold_seconds=50.0)
    holds = [agents.heartbeat(world.now(lease), heartbeat).until - now for _ in range(100)]
    assert all(40 <= each < 51 for each in holds)
    assert max(holds) - min(holds) > 5


async def test_a_heartbeat_without_news_is_held_for_most_of_the_time_it_allows(
    world: World,
) -> None:
    _, agent = await world.ready()
    await agent.heartbeat()
    began = asyncio.get_running_loop().time()
    seen = agent.state_seen
    assert (await agent.heartbeat(hold=50.0)).state == seen
    assert 40 <= asyncio.get_running_loop().time() - began <= 51


# --- idle ---


async def test_an_idle_server_stops_at_its_deadline_and_not_before(world: World) -> None:
    lease, agent = await world.ready(idle=HOUR)
    await agent.heartbeat_often(1800)
    idle_since = world.clock()
    for _ in range(59):
        world.clock.advance(60)
        await agent.heartbeat(idle_since)
    world.clock.advance(59)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(1)
    stop = (await world.state(lease, LeaseState.ENDING)).stop
    assert stop is not None
    assert stop.reason == "idle"
    assert stop.message == "It had been idle for 1 hour"


async def test_a_busy_server_is_never_stopped(world: World) -> None:
    lease, agent = await world.ready(idle=HOUR)
    await agent.heartbeat_often(10 * 3600)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY


async def test_an_extension_moves_the_deadline(world: World) -> None:
    lease, agent = await world.ready(idle=HOUR)
    idle_since = world.clock()
    answer = await world.provisioner._heartbeats.extend(world.now(lease), 5400)
    assert answer.extended_until == world.clock() + timedelta(seconds=5400)
    assert not answer.bounded
    for _ in range(89):
        world.clock.advance(60)
        assert (await agent.heartbeat(idle_since)).extended_until == answer.extended_until
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(60)
    await world.state(lease, LeaseState.ENDING)


async def test_an_extension_is_bounded_by_the_policy_and_never_shortens(world: World) -> None:
    lease, _ = await world.ready(idle=HOUR)
    extend = world.provisioner._heartbeats.extend
    far = await extend(world.now(lease), 30 * 86400)
    assert far.bounded
    assert far.extended_until == world.clock() + timedelta(seconds=7200)
    near = await extend(world.now(lease), 60)
    assert near.extended_until == far.extended_until


async def test_short_extensions_are_not_written(world: World) -> None:
    lease, _ = await world.ready(idle=HOUR)
    extend = world.provisioner._heartbeats.extend
    first = await extend(world.now(lease), 600)
    for seconds in (601, 605, 609):
        before = world.now(lease)
        again = await extend(before, seconds)
        assert (again.extended_until, again.bounded) == (first.extended_until, False)
        assert world.now(lease) is before
    later = await extend(world.now(lease), 610)
    assert later.extended_until == first.extended_until + timedelta(seconds=10)


async def test_heartbeats_do_not_make_passes_run_at_full_speed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, agent = await world.ready()
    wakes: list[None] = []
    monkeypatch.setattr(world.provisioner._state, "wake", lambda: wakes.append(None))
    await agent.heartbeat(world.clock())
    assert len(wakes) == 1, "its deadline is a new one"
    for n in range(20):
        await agent.heartbeat(None)
        await agent.heartbeat(world.clock() - timedelta(seconds=n))
    assert len(wakes) == 1
    monkeypatch.setattr(heartbeats, "WAKE_INTERVAL", 0.0)
    for _ in range(5):
        await agent.heartbeat(None)
    assert len(wakes) == 1, "one that works has no deadline"
    await agent.heartbeat(world.clock())
    await agent.heartbeat(world.clock())
    assert len(wakes) == 2
    world.clock.advance(60)
    await agent.heartbeat(world.clock())
    assert len(wakes) == 2, "it worked meanwhile: later"


async def test_a_wrong_clock_of_the_instance_stops_no_server_early(world: World) -> None:
    lease, agent = await world.ready(idle=HOUR)
    await agent.heartbeat_often(7200)
    theirs = world.clock() - timedelta(hours=5)
    await agent.heartbeat(theirs - timedelta(seconds=60), sent_at=theirs)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    assert world.provisioner._state.leases.contact(lease.lease_id).idle_since == (
        world.clock() - timedelta(seconds=60)
    )


async def test_an_absurd_heartbeat_is_no_error(world: World) -> None:
    lease, agent = await world.ready(idle=HOUR)
    ancient = world.clock().replace(year=1)
    await agent.heartbeat(ancient, sent_at=world.clock().replace(year=9999))
    await agent.heartbeat(world.clock() + timedelta(days=1))
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY


async def test_a_server_ends_at_max_age_even_when_active(world: World) -> None:
    lease, agent = await world.ready(idle=HOUR.model_copy(update={"max_age_seconds": 7200}))
    await agent.heartbeat_often(7199)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(1)
    stop = (await world.state(lease, LeaseState.ENDING)).stop
    assert stop is not None
    assert stop.reason == "max-age"


async def test_an_absurd_duration_means_never_and_breaks_no_pass(world: World) -> None:
    world.silence_agents()
    absurd = 1e30
    never = IdlePolicy(server_seconds=absurd, max_age_seconds=absurd)
    lease, agent = await world.ready("never", idle=never)
    await agent.heartbeat(world.clock())
    forgotten = HOUR.model_copy(update={"max_age_seconds": absurd})
    other, idle_agent = await world.ready("forgotten", idle=forgotten)
    await idle_agent.heartbeat(world.clock())
    for _ in range(60):
        world.clock.advance(60)
        await agent.heartbeat(world.clock())
        await idle_agent.heartbeat(world.clock() - timedelta(hours=1))
    assert (await world.stop_of(other)).reason == "idle"
    assert world.now(lease).state is LeaseState.READY


async def test_a_deadline_that_cannot_be_computed_does_not_end_the_reconciler(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def poisoned() -> float:
        asked.append(1)
        raise OverflowError("date value out of range")

    with caplog.at_level(logging.ERROR), monkeypatch.context() as poison:
        poison.setattr(world.provisioner._reconciler, "_until_next_deadline", poisoned)
        world.provisioner._state.wake()
        await until(lambda: asked)
    await world.ready()
    assert "date value out of range" in caplog.text


# --- the store ---


async def test_an_unstored_change_is_stored_by_a_later_pass(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    await agent.event("notebook")
    world.break_store()
    with pytest.raises(StoreError):
        await agent.event("ready")
    assert world.now(lease).state is LeaseState.READY
    await world.complete_passes(2)
    world.fix_store()
    await world.complete_passes(1)
    await world.restart()
    assert world.now(lease).state is LeaseState.READY


async def test_an_unstored_change_is_retried_at_shutdown(
    world: World,
) -> None:
    lease, _ = await world.ready(idle=HOUR)
    world.break_store()
    with pytest.raises(StoreError):
        await world.provisioner._heartbeats.extend(world.now(lease), 600)
    extended = world.now(lease)
    world.provisioner._reconciler.reconcile = _never  # type: ignore[method-assign]
    world.fix_store()
    await world.provisioner.close()
    await world.start()
    assert world.now(lease) == extended


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


# --- the held heartbeat ---


async def test_a_stop_reaches_a_held_heartbeat_at_once(world: World) -> None:
    lease, agent = await world.ready()
    await agent.heartbeat()
    held = asyncio.create_task(agent.heartbeat(hold=50))
    await asyncio.sleep(0.05)
    assert not held.done()
    await world.stop(lease)
    answer = await asyncio.wait_for(held, 20)
    assert answer.stop == Stop(reason="user", message="because")


async def test_a_stop_reaches_a_held_heartbeat_after_a_restart(world: World) -> None:
    """The agent has seen more states than the new process can have counted."""
    lease, agent = await world.ready()
    for _ in range(5):
        world.clock.advance(10)
        await world.provisioner._heartbeats.extend(world.now(lease), 60)
    await agent.heartbeat()
    await world.restart()
    await agent.heartbeat(hold=50)
    held = asyncio.create_task(agent.heartbeat(hold=50))
    await asyncio.sleep(0.05)
    assert not held.done()
    await world.stop(lease)
    assert (await asyncio.wait_for(held, 20)).stop is not None


async def test_an_extension_and_a_new_price_reach_a_held_heartbeat(world: World) -> None:
    lease, agent = await world.ready()
    await agent.heartbeat()
    held = asyncio.create_task(agent.heartbeat(hold=50))
    await asyncio.sleep(0)
    await world.provisioner._heartbeats.extend(world.now(lease), 60)
    assert (await asyncio.wait_for(held, 20)).extended_until is not None
    held = asyncio.create_task(agent.heartbeat(hold=50))
    await asyncio.sleep(0)
    world.cloud.prices = {("g4dn.xlarge", "us-east-1a"): 0.25}
    assert (await asyncio.wait_for(held, 20)).cost.usd_per_hour == 0.25


async def test_a_newer_heartbeat_releases_the_held_one(world: World) -> None:
    _, agent = await world.ready()
    await agent.heartbeat()
    held = asyncio.create_task(agent.heartbeat(hold=50))
    await asyncio.sleep(0)
    await agent.heartbeat(world.clock())
    await asyncio.wait_for(held, 20)


async def test_a_heartbeat_is_held_no_longer_than_requested(world: World) -> None:
    _, agent = await world.ready()
    await agent.heartbeat()
    await asyncio.wait_for(agent.heartbeat(hold=0.1), 20)


# --- money ---


async def test_a_new_spot_price_begins_a_new_segment(world: World) -> None:
    world.silence_agents()
    world.cloud.prices = {("g4dn.xlarge", "us-east-1a"): 0.20}
    await until(lambda: world.provisioner.market.prices._spot)
    lease, agent = await world.ready()
    await agent.heartbeat_often(1800)
    await world.complete_passes(1)  # one that began before would date the price back
    world.cloud.prices = {("g4dn.xlarge", "us-east-1a"): 0.40}
    await until(lambda: len(world.now(lease).segments) == 2)
    await agent.heartbeat_often(1800)
    first, second = world.now(lease).segments
    assert (first.usd_per_hour, second.usd_per_hour) == (0.20, 0.40)
    assert first.end == second.start
    cost = (await agent.heartbeat()).cost
    assert cost.usd == pytest.approx(0.30, abs=1e-4)
    assert cost.usd_per_hour == 0.40
    assert cost.on_demand_usd_per_hour == 0.526
    await world.stop(lease)
    ended = await world.state(lease, LeaseState.ENDED)
    world.clock.advance(3600)
    assert usd(ended.segments, world.clock()) == pytest.approx(0.30, abs=1e-4)


async def test_a_new_price_does_not_open_the_account_of_a_server_that_ended_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await world.ready("first")
    second, agent = await world.ready("second")
    gate, save = asyncio.Event(), world.store.save_lease
    saved: list[Lease] = []

    async def slow_at_first(lease: Lease, costs: Sequence[CostRow] = ()) -> None:
        saved.append(lease)
        if len(saved) == 1:
            await gate.wait()
        await save(lease, costs)

    monkeypatch.setattr(world.store, "save_lease", slow_at_first)
    world.cloud.prices = {("g4dn.xlarge", "us-east-1a"): 0.20}
    await until(lambda: saved)
    assert saved[0].lease_id == first.lease_id
    await world.stop(second)
    await agent.event("stopped")
    await world.state(second, LeaseState.ENDED)
    gate.set()
    await world.complete_passes(1)
    assert world.now(second).segments[-1].end is not None


async def test_an_unknown_price_is_reported_as_unknown_until_it_is_known(world: World) -> None:
    lease, agent = await world.ready()
    cost = (await agent.heartbeat()).cost
    assert (cost.usd, cost.usd_per_hour) == (None, None)
    assert (cost.known_usd, cost.known_usd_per_hour) == (None, None)
    assert cost.unknown_prices_of == ["instance"]
    await agent.heartbeat_often(3600)
    world.cloud.prices = {("g4dn.xlarge", "us-east-1a"): 0.20}
    await until(lambda: usd(world.now(lease).segments, world.clock()) is not None)
    assert (await agent.heartbeat()).cost.usd == pytest.approx(0.20, abs=1e-4)


async def test_what_is_known_of_a_cost_is_reported(world: World) -> None:
    """Of a spot server where the hub may not read what disks cost."""
    world.cloud.prices = {("g4dn.xlarge", "us-east-1a"): 0.20, ("g4dn.xlarge", "us-east-1b"): 0.20}
    await world.restart(region="eu-central-1")
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    _, agent = await world.ready(spec=replace(SPEC, disk_gib=90))
    await agent.heartbeat_often(3600)
    cost = (await agent.heartbeat()).cost
    assert (cost.usd, cost.usd_per_hour, cost.today_usd, cost.month_usd) == (None,) * 4
    assert cost.known_usd_per_hour == 0.20
    for known in (cost.known_usd, cost.known_today_usd, cost.known_month_usd):
        assert known == pytest.approx(0.20, abs=1e-4)
    assert cost.unknown_prices_of == ["disk"]


# --- lost ---


async def test_a_terminated_instance_is_distinguished_from_an_interrupted_one(world: World) -> None:
    taken, agent = await world.ready("taken")
    world.cloud.end(agent.instance_id)
    assert (await world.stop_of(taken)).reason == "interruption"
    lost, agent = await world.ready("lost")
    world.cloud.end(agent.instance_id, "Client.UserInitiatedShutdown")
    stop = await world.stop_of(lost)
    assert (stop.reason, "from outside the hub" in stop.message) == ("lost", True)
    off, agent = await world.ready("off")
    world.cloud.end(agent.instance_id, "Client.InstanceInitiatedShutdown")
    stop = await world.stop_of(off)
    assert (stop.reason, "powered itself off" in stop.message) == ("lost", True)


@pytest.mark.parametrize("how", ["shut down", "silent", "not listed"])
@pytest.mark.parametrize("market", [Market.SPOT, Market.ON_DEMAND])
async def test_a_spot_notice_has_the_reason_before_a_listing(
    world: World, how: str, market: Market
) -> None:
    world.silence_agents()
    lease, agent = await world.ready(spec=replace(SPEC, markets=(market,)))
    await agent.heartbeat(interruption_at=world.clock() + timedelta(minutes=2))
    assert world.now(lease).state is LeaseState.READY
    if how == "shut down":
        await agent.event("stopped")
    elif how == "silent":
        world.clock.advance(world.settings.agent_silent_after)
    else:
        world.cloud.machines[agent.instance_id].hidden = True
    stop = await world.stop_of(lease)
    assert (stop.reason == "interruption") == (market == Market.SPOT), stop


async def test_a_withdrawn_spot_notice_is_no_reason(world: World) -> None:
    world.silence_agents()
    lease, agent = await world.ready()
    await agent.heartbeat(interruption_at=world.clock())
    await agent.heartbeat()
    await agent.event("stopped")
    assert (await world.stop_of(lease)).reason == "failed"
    lease, agent = await world.ready()
    await agent.heartbeat(interruption_at=world.clock())
    await world.stop(lease, "user")
    assert (await world.stop_of(lease)).reason == "user", "the user was earlier"


async def test_the_end_of_a_gone_instance_waits_for_no_agent(world: World) -> None:
    lease, agent = await world.ready()
    world.cloud.end(agent.instance_id)
    await world.state(lease, LeaseState.ENDED)


async def test_one_missing_listing_is_not_gone(world: World) -> None:
    await world.restart(missing_listings=20)
    lease, agent = await world.ready()
    machine, instance_cache = (
        world.cloud.machines[agent.instance_id],
        world.provisioner._state.instances,
    )
    for _ in range(5):
        machine.hidden = True
        seen = instance_cache.listings
        await until(lambda seen=seen: instance_cache.listings > seen + 5)  # type: ignore[misc]
        machine.hidden = False
        await world.watch_passes(1)
    assert world.now(lease).state is LeaseState.READY


async def test_missing_from_several_listings_in_a_row_is_gone(world: World) -> None:
    lease, agent = await world.ready()
    world.cloud.machines[agent.instance_id].hidden = True
    stop = await world.stop_of(lease)
    assert (stop.reason, stop.message) == ("lost", "EC2 no longer lists the instance")


async def test_a_failing_listing_is_not_gone(world: World) -> None:
    lease, _ = await world.ready()
    before = len(world.cloud.of("list_instances"))
    world.cloud.fail("list_instances", THROTTLED, times=6)
    await until(lambda: len(world.cloud.of("list_instances")) > before + 6)
    await world.complete_passes(1)
    assert world.now(lease).state is LeaseState.READY


@pytest.mark.parametrize("state", [InstanceState.STOPPING, InstanceState.STOPPED])
async def test_an_instance_stopped_from_outside_ends_with_a_message(
    world: World, state: InstanceState
) -> None:
    world.silence_agents()
    lease, agent = await world.ready()
    world.cloud.machines[agent.instance_id].ended = state
    stop = await world.stop_of(lease)
    assert (stop.reason, stop.message) == ("lost", "The instance was stopped from outside the hub")
    await world.complete_passes(2)
    assert world.cloud.machines[agent.instance_id].ended is InstanceState.TERMINATED


async def test_an_agent_of_a_restarted_instance_ends_the_server_with_a_message(
    world: World,
) -> None:
    world.silence_agents()
    lease, agent = await world.ready()
    await agent.heartbeat()
    other = Agent(world, agent.instance_id)
    with pytest.raises(ClaimRefused):
        await other.claim()
    await world.complete_passes(1)
    assert world.now(lease).state is LeaseState.READY, "its own agent was heard a moment ago"
    world.clock.advance(RESTART_SILENCE + 1)
    with pytest.raises(ClaimRefused):
        await other.claim()
    stop = await world.stop_of(lease)
    assert "restarted from outside the hub" in stop.message
    await world.complete_passes(2)
    assert world.cloud.running() == []


async def test_a_clock_change_ends_no_server(world: World) -> None:
    world.silence_agents()
    lease, agent = await world.ready()
    await agent.heartbeat(idle_since=world.clock() - timedelta(minutes=1), sent_at=world.clock())
    for jump in (86400.0, -7200.0):
        world.clock.jump(jump)
        await world.complete_passes(2)
        assert world.now(lease).state is LeaseState.READY, world.now(lease).stop
    await agent.heartbeat(idle_since=world.clock() - timedelta(minutes=1), sent_at=world.clock())
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(world.settings.agent_silent_after)
    assert (await world.stop_of(lease)).message == "The instance fell silent"


async def test_a_silent_agent_loses_its_server(world: World) -> None:
    world.silence_agents()
    lease, agent = await world.ready()
    await agent.heartbeat()
    world.clock.advance(world.settings.agent_silent_after - 1)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(1)
    stop = await world.stop_of(lease)
    assert (stop.reason, stop.message) == ("lost", "The instance fell silent")
    await world.complete_passes(2)
    assert world.cloud.running() == []


async def test_an_instance_that_ends_with_its_agent_is_missed_at_once(world: World) -> None:
    """No listing would come for an hour, and the agent would be silent for minutes."""
    await world.restart(quiet_interval=3600.0)
    lease, agent = await world.ready()
    held = world.provisioner.agents.heartbeat(world.now(lease), Heartbeat(protocol=PROTOCOL))
    await world.settle()
    world.provisioner.agents.hung_up(held)
    await asyncio.sleep(10)
    assert world.now(lease).state is LeaseState.READY, "its instance still runs"
    world.cloud.end(agent.instance_id, "Client.InstanceInitiatedShutdown")
    began = asyncio.get_running_loop().time()
    assert (await world.stop_of(lease)).reason == "lost"
    assert asyncio.get_running_loop().time() - began < 60


async def test_an_agent_that_calls_again_has_nothing_listed(world: World) -> None:
    await world.restart(quiet_interval=3600.0)
    lease, agent = await world.ready()
    held = world.provisioner.agents.heartbeat(world.now(lease), Heartbeat(protocol=PROTOCOL))
    await asyncio.sleep(60)  # the listings of its start
    listings = world.provisioner._state.instances.listings
    world.provisioner.agents.hung_up(held)
    await agent.heartbeat()
    await asyncio.sleep(60)
    assert world.provisioner._state.instances.listings == listings


async def test_an_agent_that_always_hangs_up_does_not_have_listings_all_the_time(
    world: World,
) -> None:
    await world.restart(quiet_interval=3600.0)
    lease, _ = await world.ready()
    await asyncio.sleep(60)  # the listings of its start
    instances = world.provisioner._state.instances

    async def hang_up() -> int:
        before = instances.listings
        held = world.provisioner.agents.heartbeat(world.now(lease), Heartbeat(protocol=PROTOCOL))
        world.provisioner.agents.hung_up(held)
        await asyncio.sleep(60)
        world.clock.advance(60)
        return instances.listings - before

    assert await hang_up() > 0
    assert sum([await hang_up() for _ in range(5)]) <= 1, "one that was to come anyway"
    world.clock.advance(heartbeats.HANG_UPS_APART)
    assert await hang_up() > 0


async def test_an_agent_that_hangs_up_at_its_end_leaves_nothing(world: World) -> None:
    world.silence_agents()
    lease, _ = await world.ready()
    held = world.provisioner.agents.heartbeat(world.now(lease), Heartbeat(protocol=PROTOCOL))
    await world.stop(lease)
    ended, leases = await world.state(lease, LeaseState.ENDED), world.provisioner._state.leases
    await world.settle()
    world.provisioner.agents.hung_up(held)
    leases.forget(ended)
    await asyncio.sleep(10)
    assert lease.lease_id not in leases._contacts


async def test_an_agent_that_never_sends_a_heartbeat_loses_its_server(world: World) -> None:
    world.silence_agents()
    lease, _ = await world.ready()
    world.provisioner._state.leases.contact(lease.lease_id).heard_at = None
    await world.complete_passes(1)
    world.clock.advance(world.settings.agent_silent_after)
    assert (await world.stop_of(lease)).reason == "lost"


async def test_agents_silent_during_hub_downtime_get_time_to_report(
    world: World,
) -> None:
    lease, agent = await world.ready()
    await world.kill()
    world.clock.advance(86400)
    await world.start()
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    await agent.heartbeat()


# --- the brake ---


@pytest.mark.parametrize("how", ["vanished", "silent"])
@pytest.mark.parametrize(("number", "lost", "ends"), [(10, 2, True), (10, 10, False)])
async def test_few_lost_servers_end_and_many_at_once_do_not(
    world: World, caplog: pytest.LogCaptureFixture, how: str, number: int, lost: int, ends: bool
) -> None:
    world.silence_agents()
    leases = await world.many_ready(number)
    for lease in leases[lost:]:
        world.provisioner._state.leases.contact(lease.lease_id).heard_at = FAR
    with caplog.at_level(logging.CRITICAL):
        if how == "vanished":
            for lease in leases[:lost]:
                world.cloud.machines[str(lease.instance_id)].hidden = True
        else:
            world.clock.advance(world.settings.agent_silent_after)
        if ends:
            for lease in leases[:lost]:
                await world.state(lease, LeaseState.ENDED)
        else:
            await world.watch_passes(6)
    braked = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(braked) == (0 if ends else 1), "one alert, not one for each pass"
    rest = leases[lost:] if ends else leases
    assert {world.now(lease).state for lease in rest} == {LeaseState.READY}
    assert len(world.cloud.running()) == len(rest)


async def test_many_that_vanish_one_by_one_are_limited_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    leases = await world.many_ready(6)
    for lease in leases:
        world.provisioner._state.leases.contact(lease.lease_id).heard_at = FAR
    for lease in leases[:3]:
        world.cloud.machines[str(lease.instance_id)].hidden = True
        await world.state(lease, LeaseState.ENDED)
    with caplog.at_level(logging.CRITICAL):
        world.cloud.machines[str(leases[3].instance_id)].hidden = True
        await until(lambda: "BRAKE" in caplog.text, "the brake")
    assert world.now(leases[3]).state is LeaseState.READY
    world.clock.advance(601)
    await world.state(leases[3], LeaseState.ENDED)


async def test_servers_come_back_when_the_listing_does(world: World) -> None:
    leases = await world.many_ready(6)
    for machine in world.cloud.machines.values():
        machine.hidden = True
    await world.watch_passes(5)
    for machine in world.cloud.machines.values():
        machine.hidden = False
    await world.complete_passes(2)
    assert {world.now(lease).state for lease in leases} == {LeaseState.READY}
    await end_all(world, leases)


async def end_all(world: World, leases: list[Lease]) -> None:
    for lease in leases:
        await world.stop(lease)
        world.provisioner._state.leases.report_agent_stopped(lease.lease_id, home_released=True)
    for lease in leases:
        await world.state(lease, LeaseState.ENDED)
    assert world.cloud.running() == []
