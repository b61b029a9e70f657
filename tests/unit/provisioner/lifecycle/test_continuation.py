"""A server whose instance is reclaimed continues on another one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.offers.launch_errors import ErrorClass
from ec2spawner.core.offers.purchase import OfferKey
from ec2spawner.core.offers.sold_out import MARKED_FOR
from ec2spawner.core.offers.spot_wait import Wait
from ec2spawner.core.sleep.continuation import MAX_SHORT_RUNS, RETRY_INTERVAL
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.core.sleep.spot_events import SpotEvent
from ec2spawner.provisioner.homes import volumes
from ec2spawner.provisioner.model.cloud.instance import POWERED_OFF, SPOT_TERMINATION
from ec2spawner.provisioner.model.leases.lease import LIVE, Lease, LeaseState
from ec2spawner.wire import SHUT_DOWN, IdlePolicy, Market, Stop
from tests.unit.provisioner.costs import paid_for_nothing
from tests.unit.provisioner.world import SPEC, Agent, World, until

RESUME = SleepRules(save_seconds=300.0, after_interruption="resume")
HOME: dict[str, Any] = {"home_kind": "ebs", "sleep": RESUME}


async def notice(world: World, agent: Agent, seconds: float = 115.0) -> None:
    await agent.heartbeat(interruption_at=world.clock() + timedelta(seconds=seconds))


def successor(world: World, lease: Lease) -> Lease:
    found = world.provisioner._state.leases.successor(lease.lease_id)
    assert found is not None
    return found


async def boot_for(world: World, lease: Lease) -> Agent:
    """The agent on the instance that was bought for the successor."""
    await until(lambda: len(world.cloud.running()) == 2, "another instance")
    [instance_id] = set(world.cloud.running()) - {world.now(lease).instance_id}
    return Agent(world, instance_id)


async def test_another_instance_is_bought_at_the_notice(world: World) -> None:
    lease, agent = await world.ready(**HOME)
    await notice(world, agent)

    await boot_for(world, lease)

    assert world.now(lease).state is LeaseState.READY, "it works on until the other one is there"
    found = successor(world, lease)
    assert (found.user, found.profile, found.sealed_start) == ("ada", "t4", "sealed")
    request = world.cloud.requests()[-1]
    zone = world.cloud.machines[lease.instance_id or ""].instance.zone
    assert request.market is Market.ON_DEMAND, "spot in the home's zone counts as sold out"
    by_subnet = world.provisioner._state.zones.by_subnet
    assert {by_subnet[x] for x in request.spec.subnets} == {zone}


def left_offer(world: World, lease: Lease) -> OfferKey:
    """The offer that EC2 reclaims from a lease."""
    last = world.now(lease).segments[-1]
    return OfferKey(last.market, last.instance_type, last.zone)


def is_sold_out(world: World, lease: Lease) -> bool:
    """Whether what EC2 reclaims from a lease counts as sold out for everybody."""
    sold_out = world.provisioner.market.offers.sold_out
    return sold_out.mark_of(left_offer(world, lease), world.clock()) is not None


async def test_the_word_of_an_agent_moves_its_own_server_only(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    await notice(world, agent)
    other = await boot_for(world, lease)

    taken = world.cloud.machines[other.instance_id].instance
    left = left_offer(world, lease)
    assert (taken.market, taken.instance_type, taken.zone) != left, "what is reclaimed is avoided"
    assert not is_sold_out(world, lease)
    await world.request("bob", spec=replace(SPEC, subnets=_subnets_in(world, left.zone)))
    await world.boot(3)
    assert world.cloud.requests()[-1].market is Market.SPOT


def _subnets_in(world: World, zone: str) -> tuple[str, ...]:
    return tuple(x for x, of in world.provisioner._state.zones.by_subnet.items() if of == zone)


async def test_what_eventbridge_announces_is_sold_out_for_all(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    world.provisioner.spot_events.happened(
        SpotEvent("interruption", agent.instance_id, world.clock())
    )
    await boot_for(world, lease)
    assert is_sold_out(world, lease)


async def test_what_a_listing_says_was_taken_back_is_sold_out_for_a_while(world: World) -> None:
    lease, _ = await world.ready(sleep=RESUME)
    world.cloud.end(lease.instance_id or "", SPOT_TERMINATION)
    await world.boot()
    assert is_sold_out(world, lease)

    world.clock.advance(MARKED_FOR[ErrorClass.OFFER].total_seconds() + 1)
    await world.complete_passes(2)
    assert not is_sold_out(world, lease), "EC2 lists ended instances for an hour"


async def test_a_server_that_waits_for_spot_avoids_what_was_taken_back(world: World) -> None:
    wait = Wait(world.clock() + timedelta(hours=1), (Market.ON_DEMAND,))
    spec = replace(SPEC, markets=(Market.SPOT,), subnets=("subnet-a",))
    lease, agent = await world.ready(sleep=RESUME, spec=spec, wait=wait)
    await notice(world, agent)
    await until(lambda: world.provisioner._state.leases.successor(lease.lease_id), "a successor")
    await world.complete_passes(2)

    assert len(world.cloud.requests()) == 1
    assert world.provisioner.spot_waits.is_waiting(successor(world, lease))


async def test_a_notice_without_time_to_save_waits_for_nothing(world: World) -> None:
    lease, agent = await world.ready(**HOME)
    await notice(world, agent, seconds=5.0)

    stopping = await world.state(lease, LeaseState.ENDING)
    assert stopping.stop is not None
    assert (stopping.stop.sleep, stopping.stop.save_seconds) == (None, 0.0)


async def test_the_home_moves_once_the_old_instance_has_released_it(world: World) -> None:
    lease, agent = await world.ready(**HOME)
    await notice(world, agent)
    other = await boot_for(world, lease)
    claim = asyncio.create_task(other.claim())

    stopping = await world.state(lease, LeaseState.ENDING)
    assert stopping.stop is not None
    assert (stopping.stop.reason, stopping.stop.sleep) == ("interruption", "interruption")
    assert 80 < stopping.stop.save_seconds < 115
    await world.watch_passes(2)
    assert not claim.done(), "its agent gets no grant while another one has the home"
    assert agent.home_is_here()

    await agent.event("stopped")
    assert await claim is not None
    await until(other.home_is_here, "the home on the other instance")
    for step in ("home", "notebook", "ready"):
        await other.event(step)
    found = await world.state(successor(world, lease), LeaseState.READY)
    assert found.instance_id == other.instance_id
    world.cloud.end(agent.instance_id, SPOT_TERMINATION)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    assert world.cloud.running() == [other.instance_id]


async def test_the_home_moves_as_soon_as_it_is_detached(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "ATTACH_TIMEOUT", 2000.0)
    monkeypatch.setattr(volumes, "ATTACH_PAUSE", 1000.0)
    lease, agent = await world.ready(**HOME)
    await notice(world, agent)
    other = await boot_for(world, lease)
    claim = asyncio.create_task(other.claim())
    await world.state(lease, LeaseState.ENDING)
    readings, detached = len(world.cloud.of("volume")), world.cloud.hold("detach_volume")

    await agent.event("stopped")
    await claim
    await until(lambda: len(world.cloud.of("volume")) > readings, "a look at its volume")
    assert not other.home_is_here()
    detached.set()

    await until(other.home_is_here, "the home on the other instance")


async def leaves(world: World, lease: Lease, agent: Agent, *, home_released: bool = True) -> Agent:
    """The server is ready on its next instance, and the old one has released it."""
    await notice(world, agent)
    other = await boot_for(world, lease)
    serving = asyncio.create_task(other.serve())
    await world.state(lease, LeaseState.ENDING)
    await agent.event("stopped", home_released=home_released)
    await serving
    return other


async def moved(world: World, lease: Lease, agent: Agent) -> tuple[Lease, Agent]:
    """The server on its next instance, after a notice; EC2 has reclaimed the last one."""
    other = await leaves(world, lease, agent)
    world.cloud.end(agent.instance_id, SPOT_TERMINATION)
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: world.cloud.running() == [other.instance_id], "the old one ended")
    return world.now(successor(world, lease)), other


async def test_two_notices_buy_one_instance(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    await notice(world, agent)
    await notice(world, agent)
    await notice(world, agent, 110)

    await boot_for(world, lease)
    await world.complete_passes(2)

    assert len(world.cloud.running()) == 2


async def withdrawn(world: World) -> tuple[Lease, Agent]:
    """A server whose notice has come, and has gone again."""
    lease, agent = await world.ready(sleep=RESUME)
    await agent.heartbeat_often(3600.0)
    await notice(world, agent)
    await boot_for(world, lease)
    await agent.heartbeat()
    await world.state(successor(world, lease), LeaseState.ENDED)
    await until(lambda: world.cloud.running() == [agent.instance_id], "the other one to end")
    return lease, agent


async def test_a_notice_that_was_withdrawn_does_not_keep_the_next_from_counting(
    world: World,
) -> None:
    lease, agent = await withdrawn(world)
    await agent.heartbeat_often(RETRY_INTERVAL.total_seconds())
    await notice(world, agent)

    await boot_for(world, lease)

    assert world.now(lease).state is LeaseState.READY
    found = successor(world, lease)
    assert found.state in LIVE
    await world.restart()
    assert successor(world, lease).lease_id == found.lease_id, "not the one that was withdrawn"
    await notice(world, agent)
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 2


async def test_what_is_bought_at_a_notice_that_goes_again_is_its_users(priced: World) -> None:
    """The agent may have reported one that AWS has never given."""
    lease, agent = await priced.ready(sleep=RESUME)
    await notice(priced, agent)
    await priced.boot(2)
    priced.clock.advance(10)
    await agent.heartbeat()
    await until(lambda: priced.cloud.running() == [agent.instance_id], "the other one to end")
    assert successor(priced, lease).segments == ()
    assert await paid_for_nothing(priced) == {"ada"}


async def test_a_notice_that_comes_and_goes_buys_one_instance(world: World) -> None:
    lease, agent = await withdrawn(world)
    for _ in range(3):
        await notice(world, agent)
        await world.complete_passes(2)
        assert world.cloud.running() == [agent.instance_id]
        await agent.heartbeat()
        await world.complete_passes(2)

    await notice(world, agent, seconds=5.0)  # and now it is true
    stopping = await world.state(lease, LeaseState.ENDING)
    assert stopping.stop is not None
    assert stopping.stop.reason == "interruption"
    assert world.provisioner.moves.is_continued(stopping)


async def test_it_is_stopped_in_time_without_another_instance(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    world.cloud.sell_out(Market.SPOT)
    world.cloud.sell_out(Market.ON_DEMAND)
    await notice(world, agent)
    await until(lambda: world.provisioner._state.leases.successor(lease.lease_id), "a successor")
    await world.state(successor(world, lease), LeaseState.ENDED)
    assert world.now(lease).state is LeaseState.READY

    await world.watch_passes(1)
    world.clock.advance(66.0)
    stopping = await world.state(lease, LeaseState.ENDING)

    assert stopping.stop is not None
    assert stopping.stop.sleep == "interruption"
    assert 30 < stopping.stop.save_seconds < 36
    assert "there was no other: " in stopping.stop.message
    assert not world.provisioner.moves.is_continued(stopping)


async def test_its_user_reads_why_it_did_not_continue_whichever_lease_is_closed_last(
    world: World,
) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    world.cloud.sell_out(Market.SPOT)
    world.cloud.sell_out(Market.ON_DEMAND)
    await notice(world, agent, seconds=20.0)
    await until(lambda: world.provisioner._state.leases.successor(lease.lease_id), "a successor")
    failed = successor(world, lease)
    await world.state(failed, LeaseState.ENDED)
    assert world.now(lease).state is LeaseState.ENDING, "its agent saves"
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)

    last = world.provisioner.last_ended("ada", "")

    assert last is not None
    assert last.lease_id == failed.lease_id
    assert last.stop is not None
    assert "there was no other: " in last.stop.message


async def test_a_server_that_could_not_move_ends_later_for_a_reason_of_its_own(
    world: World,
) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    await notice(world, agent)
    await boot_for(world, lease)
    await agent.heartbeat()  # EC2 has withdrawn it
    await world.state(successor(world, lease), LeaseState.ENDED)
    await world.stop(lease, "idle")
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)

    last = world.provisioner.last_ended("ada", "")

    assert last is not None
    assert last.lease_id == lease.lease_id


@pytest.mark.parametrize("policy", ["stop", "resume-on-demand"])
async def test_policies(world: World, policy: Any) -> None:
    rules = replace(RESUME, after_interruption=policy)
    lease, agent = await world.ready(sleep=rules)
    await notice(world, agent)
    await world.complete_passes(2)

    if policy == "stop":
        assert len(world.cloud.running()) == 1
        assert world.now(lease).state is LeaseState.READY
    else:
        await boot_for(world, lease)
        assert world.cloud.requests()[-1].market is Market.ON_DEMAND


async def test_a_user_who_declined_on_demand_is_not_charged_for_it(world: World) -> None:
    rules = replace(RESUME, after_interruption="resume-on-demand")
    lease, agent = await world.ready(sleep=rules, spec=replace(SPEC, markets=(Market.SPOT,)))
    await notice(world, agent)

    await until(lambda: world.provisioner._state.leases.successor(lease.lease_id), "a successor")

    assert successor(world, lease).spec.markets == (Market.SPOT,)


async def test_without_notice_it_continues_with_what_was_saved(world: World) -> None:
    lease, _ = await world.ready(sleep=RESUME)
    world.cloud.end(lease.instance_id or "", SPOT_TERMINATION)

    ended = await world.state(lease, LeaseState.ENDING, LeaseState.ENDED)
    assert world.provisioner.moves.is_continued(ended), "at any moment"
    await world.state(lease, LeaseState.ENDED)
    [instance_id] = await world.boot()
    await Agent(world, instance_id).serve()

    assert world.now(successor(world, lease)).state is LeaseState.READY


NO_REASON = ["", "Server.SpotInstanceShutdown", "Server.InternalError", None]
"""What EC2 says of an instance that it has ended, or None where it lists it no more."""


@pytest.mark.parametrize("reason", NO_REASON)
async def test_it_continues_although_ec2_does_not_say_why_it_ended(
    world: World, reason: str | None
) -> None:
    lease, _ = await world.ready(sleep=RESUME)
    world.cloud.end(lease.instance_id or "", reason or "")
    world.cloud.machines[lease.instance_id or ""].hidden = reason is None

    [instance_id] = await world.boot()
    await Agent(world, instance_id).serve()

    assert world.now(successor(world, lease)).state is LeaseState.READY


@pytest.mark.parametrize("reason", ["Client.UserInitiatedShutdown", POWERED_OFF])
async def test_what_somebody_has_ended_does_not_continue(world: World, reason: str) -> None:
    lease, _ = await world.ready(sleep=RESUME)
    world.cloud.end(lease.instance_id or "", reason)
    assert (await world.stop_of(lease)).reason == "lost"
    assert world.provisioner._state.leases.successor(lease.lease_id) is None


@pytest.mark.parametrize("market", Market)
async def test_only_spot_continues_without_a_reason(world: World, market: Market) -> None:
    lease, _ = await world.ready(sleep=RESUME, spec=replace(SPEC, markets=(market,)))
    world.cloud.end(lease.instance_id or "", "")
    ended = await world.state(lease, LeaseState.ENDED)
    assert ended.stop is not None
    is_spot = market is Market.SPOT
    assert ended.stop.reason == ("interruption" if is_spot else "lost")
    assert world.provisioner.moves.is_continued(ended) == is_spot


async def test_an_instance_that_ends_by_itself_is_replaced_twice(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    for _ in range(MAX_SHORT_RUNS - 1):
        await agent.heartbeat_often(3600.0)  # so that it is not the shortness that ends it
        world.cloud.end(agent.instance_id, "")
        [instance_id] = await world.boot()
        agent = Agent(world, instance_id)
        lease = await agent.serve()
    await agent.heartbeat_often(3600.0)
    world.cloud.end(agent.instance_id, "")

    stop = await world.stop_of(lease)
    assert "one after another" in stop.message
    assert world.cloud.running() == []


async def test_an_agent_that_is_shut_down_before_it_has_seen_a_notice(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    reported = world.provisioner.agents.stopped(world.now(lease), SHUT_DOWN, home_released=True)
    async with world.no_pass:
        await reported
        await asyncio.sleep(5)
        assert world.now(lease).state is LeaseState.READY, "only EC2 knows why"
    world.cloud.end(lease.instance_id or "", SPOT_TERMINATION)

    [instance_id] = await world.boot()
    await Agent(world, instance_id).serve()

    assert world.now(successor(world, lease)).state is LeaseState.READY
    assert agent.instance_id not in world.cloud.running()


@pytest.mark.parametrize("is_listed", [True, False])
async def test_an_instance_that_its_user_shuts_down(world: World, is_listed: bool) -> None:
    lease, _ = await world.ready(sleep=RESUME)
    await world.provisioner.agents.stopped(world.now(lease), SHUT_DOWN, home_released=True)
    if is_listed:
        world.cloud.power_off(lease.instance_id or "")
    stop = await world.stop_of(lease)
    assert stop.reason in {"failed", "lost"}
    assert world.provisioner._state.leases.successor(lease.lease_id) is None


async def test_a_notice_while_no_hub_runs(world: World) -> None:
    lease, _ = await world.ready(sleep=RESUME)
    await world.kill()
    world.cloud.end(lease.instance_id or "", SPOT_TERMINATION)
    await world.start()

    [instance_id] = await world.boot()
    await Agent(world, instance_id).serve()

    assert world.now(successor(world, lease)).state is LeaseState.READY


async def test_a_hub_that_was_down_hears_of_the_notice_with_the_end(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    await world.restart()

    at = world.clock() + timedelta(seconds=40)  # its agent has saved by itself
    await agent.event("stopped", interruption_at=at)

    stopping = await world.state(lease, LeaseState.ENDING)
    assert stopping.stop is not None
    assert stopping.stop.reason == "interruption"
    assert world.provisioner.moves.is_continued(stopping)


async def test_the_idle_time_of_a_server_that_was_interrupted_while_no_hub_ran(
    world: World,
) -> None:
    lease, agent = await world.ready(sleep=RESUME, idle=IdlePolicy(server_seconds=1800.0))
    await agent.heartbeat_often(3600.0)
    idle_since = world.clock()
    for _ in range(10):
        world.clock.advance(60.0)
        await agent.heartbeat(idle_since=idle_since)
    await world.complete_passes(1)
    await world.kill()
    world.cloud.end(lease.instance_id or "", SPOT_TERMINATION)
    await world.start()

    await world.state(lease, LeaseState.ENDING, LeaseState.ENDED)
    assert successor(world, lease).taken_over.idle_seconds == pytest.approx(600, abs=30)


@pytest.mark.parametrize("reason", ["user", "idle", "admin", "max-age"])
async def test_any_other_end_ends_both(world: World, reason: Any) -> None:
    lease, agent = await world.ready(sleep=RESUME, spec=replace(SPEC, markets=(Market.ON_DEMAND,)))
    await notice(world, agent)
    await world.complete_passes(1)
    assert world.provisioner._state.leases.successor(lease.lease_id) is None, "it is not spot"
    lease, agent = await world.ready("bob", sleep=RESUME)
    await notice(world, agent)
    await until(lambda: world.provisioner._state.leases.successor(lease.lease_id), "a successor")
    other = successor(world, lease)

    await world.stop(lease, reason)

    assert world.now(other).state in {LeaseState.ENDING, LeaseState.ENDED}
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.state(other, LeaseState.ENDED)
    await until(lambda: len(world.cloud.running()) == 1, "no instance is left")


async def test_a_notice_during_a_stop_buys_no_other_instance(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    await world.stop(lease)
    await notice(world, agent)
    await world.complete_passes(2)
    assert world.provisioner._state.leases.successor(lease.lease_id) is None
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    assert world.cloud.running() == []
    assert len(world.cloud.requests()) == 1


async def test_its_user_stops_it_while_it_moves(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    await notice(world, agent)
    other = await boot_for(world, lease)
    claim = asyncio.create_task(other.claim())
    stopping = await world.state(lease, LeaseState.ENDING)
    assert world.provisioner.moves.is_continued(stopping)

    await world.provisioner.end_server(lease.lease_id, Stop(reason="user"))

    assert not world.provisioner.moves.is_continued(world.now(lease))
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.state(successor(world, lease), LeaseState.ENDED)
    claim.cancel()
    await until(lambda: world.cloud.running() == [], "no instance is left")


async def test_the_hub_restarts_while_the_server_moves(world: World) -> None:
    lease, agent = await world.ready(**HOME)
    await notice(world, agent)
    other = await boot_for(world, lease)
    claim = asyncio.create_task(other.claim())
    await world.state(lease, LeaseState.ENDING)
    claim.cancel()
    await world.restart()
    await agent.event("stopped")

    await other.serve()

    found = world.now(successor(world, lease))
    assert found.state is LeaseState.READY
    assert found.taken_over.trigger == "interruption"
    await until(lambda: world.cloud.running() == [other.instance_id], "one instance")


async def test_what_a_crash_left_undecided_ends(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    await notice(world, agent)
    await boot_for(world, lease)
    await world.stop(lease)
    await world.state(successor(world, lease), LeaseState.ENDED)
    await world.kill()
    world.run_sql(  # as if the process had ended before that was stored
        "UPDATE lease SET state = 'waiting', stop = NULL, stop_requested_at = NULL, ended_at = NULL"
        f" WHERE continues = '{lease.lease_id}'"
    )
    await world.start()
    await agent.event("stopped")

    await world.state(successor(world, lease), LeaseState.ENDED)
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: world.cloud.running() == [], "no instance is left")


async def test_idle_time_age_and_extension_continue(world: World) -> None:
    policy = IdlePolicy(server_seconds=1800.0, max_age_seconds=7200.0, user_may_extend_seconds=60)
    lease, agent = await world.ready(sleep=RESUME, idle=policy, payer="group:research")
    await agent.heartbeat_often(3600.0)
    idle_since = world.clock()
    world.clock.advance(600.0)
    await agent.heartbeat(idle_since=idle_since)
    await world.provisioner.agents.extend(world.now(lease), 60)
    extended_until = world.now(lease).extended_until
    agent.heartbeat = _with(agent.heartbeat, idle_since)  # type: ignore[method-assign]

    found, other = await moved(world, lease, agent)

    assert found.payer == "group:research"
    assert found.extended_until == extended_until
    assert found.taken_over.idle_seconds == pytest.approx(600, abs=5)
    assert found.taken_over.ran_seconds == pytest.approx(4200, abs=5)
    assert found.ready_at is not None
    began = found.ready_at - timedelta(seconds=found.taken_over.idle_seconds)
    answer = await other.heartbeat(idle_since=began)
    assert answer.idle.max_age_seconds == pytest.approx(7200 - 3600, abs=10)
    world.clock.advance(1190.0)
    await other.heartbeat(idle_since=began)
    await world.complete_passes(1)
    assert world.now(found).state is LeaseState.READY
    world.clock.advance(20.0)
    stopping = await world.state(found, LeaseState.ENDING)
    assert stopping.stop is not None
    assert stopping.stop.reason == "idle"


def _with(heartbeat: Any, idle_since: Any) -> Any:
    async def idle(**fields: Any) -> Any:
        return await heartbeat(idle_since=idle_since, **fields)

    return idle


async def test_a_market_that_takes_each_instance_back_ends_it(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    for _ in range(MAX_SHORT_RUNS - 1):
        world.provisioner.market.offers.sold_out.__init__()  # type: ignore[misc]
        lease, agent = await moved(world, lease, agent)
    await notice(world, agent)
    await world.complete_passes(2)

    assert world.provisioner._state.leases.successor(lease.lease_id) is None
    world.clock.advance(70.0)
    stopping = await world.state(lease, LeaseState.ENDING)
    assert stopping.stop is not None
    assert "within minutes" in stopping.stop.message


async def test_nothing_is_kept_of_a_lease_that_is_forgotten(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    found, other = await moved(world, lease, agent)
    await other.heartbeat_often(700.0)
    registry = world.provisioner._state.leases
    await until(lambda: registry.get(lease.lease_id) is None, "the last lease to be forgotten")
    await world.complete_passes(2)
    assert registry._contacts.keys() == {found.lease_id}


async def test_a_server_that_moves_counts_once(world: World) -> None:
    limits = Limits(Bounds(), {"hub": Bounds(servers=2)})
    await world.restart(limits=limits)
    lease, agent = await world.ready(sleep=RESUME)
    await notice(world, agent)
    await boot_for(world, lease)

    await world.request("bob")


async def test_each_instance_is_charged_to_its_own_lease(priced: World) -> None:
    world = priced
    lease, agent = await world.ready(sleep=RESUME)
    await agent.heartbeat_often(1800.0)
    found, other = await moved(world, lease, agent)
    world.clock.advance(1800.0)
    await other.heartbeat()

    before, after = world.now(lease).segments, world.now(found).segments
    assert [x.instance_id for x in before] == [lease.instance_id]
    assert [x.instance_id for x in after] == [other.instance_id]
    assert before[0].end is not None
    assert after[0].start >= world.cloud.machines[other.instance_id].instance.launched_at
