"""Instances that wait for their user after a stop, in virtual time: lingering and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.ledger.charges import Rate
from ec2spawner.core.ledger.cost_rows import Purpose, Resource
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.pricing.money import price_words
from ec2spawner.core.tags import LEASE
from ec2spawner.hub.pages.spawn_page.retention_text import retained_text
from ec2spawner.provisioner.instances.claims import ClaimRefused, InstanceUnwanted, SecondKey
from ec2spawner.provisioner.lifecycle.start_timeout import STOPPED_GRACE
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.retention.restart import START_TRIES
from ec2spawner.provisioner.store.databases.database import StoreTimeoutError
from ec2spawner.provisioner.store.store import StoreError
from ec2spawner.wire import Market, Stop
from tests.simulated_cloud import SOLD_OUT
from tests.unit.provisioner.retained import (
    BUSY,
    LINGER,
    ON_DEMAND,
    STOP,
    again,
    end_in_order,
    kept,
    ready,
)
from tests.unit.provisioner.world import SPEC, TIMEOUT, Agent, World, until


def launches(world: World) -> int:
    return len(world.cloud.of("launch"))


# --- lingering -------------------------------------------------------------------------------


async def test_a_restart_reuses_the_lingering_instance_and_launches_none(world: World) -> None:
    _, agent = await kept(world, LINGER)
    world.clock.advance(120)
    lease = await again(world, LINGER)
    served = await agent.serve()
    assert served.lease_id == lease.lease_id
    assert served.instance_id == agent.instance_id
    await world.complete_passes(2)
    assert launches(world) == 1
    tags = world.cloud.tags
    await until(lambda: tags(agent.instance_id)["ec2spawner:lease"] == lease.lease_id, "its tag")


async def test_a_lingering_instance_ends_when_its_time_is_over(world: World) -> None:
    _, agent = await kept(world, LINGER)
    await agent.claim(wait=0)
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id]
    for _ in range(7):
        world.clock.advance(100)
        if world.clock() < world.provisioner._state.retained.get(agent.instance_id).until:
            await agent.claim(wait=0)
    await until(lambda: not world.cloud.running(), "it ends")
    await until(lambda: not world.provisioner._state.retained.holds(agent.instance_id), "forgotten")
    with pytest.raises(InstanceUnwanted):
        await agent.claim()


async def test_lingering_is_overhead_and_nothing_is_paid_twice(world: World) -> None:
    first, agent = await kept(world, LINGER)
    began = world.now(first).segments[-1].end
    world.clock.advance(150)
    second = await again(world, LINGER)
    served = await agent.serve()
    await world.settle()
    overhead = await world.store.ledger.overhead(first.requested_at)
    waited = [s for s in overhead if s.start == began]
    assert [s.end for s in waited] == [second.requested_at]
    assert served.segments[0].start == second.requested_at


async def test_lingering_is_accounted_once_despite_a_clock_change_at_its_end(world: World) -> None:
    first, agent = await kept(world, LINGER)
    world.cloud.fail("terminate", BUSY)
    world.clock.advance(LINGER.seconds + 1)
    await until(lambda: world.cloud.of("terminate"), "a call that fails")
    world.clock.jump(-30)
    await until(lambda: not world.provisioner._state.retained.holds(agent.instance_id), "its end")
    await world.complete_passes(2)
    [waited] = await world.store.ledger.overhead(first.requested_at)
    assert waited.end is not None
    # By EC2's clock, which in the simulation is the hub's.
    assert (waited.end - waited.start).total_seconds() == LINGER.seconds + 1 - 30


@pytest.mark.parametrize("reason", ["idle", "budget", "admin", "interruption", "lost"])
async def test_an_instance_lingers_only_after_a_stop_by_its_user(world: World, reason: str) -> None:
    lease, agent = await ready(world, LINGER)
    await end_in_order(world, lease, agent, reason)
    await until(lambda: not world.cloud.running(), "it ends")


async def test_an_instance_with_a_spot_notice_does_not_linger(world: World) -> None:
    lease, agent = await ready(world, LINGER)
    await agent.heartbeat(interruption_at=world.clock() + timedelta(seconds=110))
    await end_in_order(world, lease, agent)
    assert "AWS is reclaiming it" in world.now(lease).stop.message
    await until(lambda: not world.cloud.running(), "it ends")
    started, other = await world.ready(after_stop=LINGER)
    assert other.instance_id != agent.instance_id
    assert started.replaced == 0


async def test_a_spot_notice_ends_a_lingering_instance(world: World) -> None:
    _, agent = await kept(world, LINGER)
    claimant = agent.claimant()
    turn_away = world.provisioner._starts.turn_away_reclaimed
    with pytest.raises(InstanceUnwanted):
        await turn_away(claimant, agent.key, TIMEOUT)
    lease = await again(world, LINGER)
    await until(lambda: set(world.cloud.running()) - {agent.instance_id}, "another")
    await until(lambda: agent.instance_id not in world.cloud.running(), "the first ends")
    [other] = world.cloud.running()
    with pytest.raises(InstanceUnwanted):
        await agent.claim()
    new_agent = Agent(world, other)
    served = await new_agent.serve()
    assert served.lease_id == lease.lease_id
    await turn_away(new_agent.claimant(), new_agent.key, TIMEOUT)
    assert world.now(lease).state is LeaseState.READY, "a lease is not taken from its user"


async def test_an_instance_with_an_old_agent_does_not_linger(world: World) -> None:
    lease, agent = await ready(world, LINGER)
    world.provisioner._state.leases.contact(lease.lease_id).protocol = 1
    await world.stop(lease)
    assert "too old" in world.now(lease).stop.message
    await agent.event("stopped")
    await until(lambda: not world.cloud.running(), "it ends")


async def test_an_instance_that_did_not_stop_cleanly_is_not_retained(world: World) -> None:
    world.silence_agents()
    lease, _ = await ready(world, LINGER)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: not world.cloud.running(), "it ends")
    assert not world.provisioner._state.retained.instance_ids


async def test_a_retained_instance_is_not_given_to_others(world: World) -> None:
    _, agent = await kept(world, LINGER)
    await again(world, LINGER, user="eve")
    await again(world, LINGER, server="second")
    assert await agent.claim(wait=10.0) is None
    await until(lambda: launches(world) > 1, "their own launch")
    assert agent.instance_id in world.cloud.running()


async def test_another_choice_releases_the_retained_instance(world: World) -> None:
    _, agent = await kept(world, LINGER)
    lease = await again(world, LINGER, spec=replace(SPEC, image_id="ami-2"))
    await until(lambda: agent.instance_id not in world.cloud.running(), "it ends")
    [other] = await world.boot()
    assert (await Agent(world, other).serve()).lease_id == lease.lease_id


async def test_an_admin_releases_what_is_kept_for_a_server(world: World) -> None:
    await kept(world, STOP)
    [waits] = world.provisioner.overview.kept()
    actions = world.provisioner.admin_actions
    assert not await actions.release("eve", waits.kept.server)
    assert not await actions.release(waits.kept.user, "other")
    assert await actions.release(waits.kept.user, waits.kept.server)
    ended = world.cloud.of("terminate")
    await until(lambda: len(world.cloud.of("terminate")) > len(ended), "it ends")
    assert waits.kept.instance_id in str(world.cloud.of("terminate")[-1])
    assert not await actions.release(waits.kept.user, waits.kept.server)


async def test_a_lingering_instance_with_a_silent_agent_ends(world: World) -> None:
    await kept(world, LINGER)
    world.clock.advance(200)
    await until(lambda: not world.cloud.running(), "it ends")


async def test_a_start_does_not_wait_for_a_silent_lingering_instance(world: World) -> None:
    _, agent = await kept(world, LINGER)
    lease = await again(world, LINGER)
    await world.complete_passes(2)
    assert launches(world) == 1
    world.clock.advance(200)
    await until(lambda: launches(world) == 2, "another one")
    await until(lambda: agent.instance_id not in world.cloud.running(), "it ends")
    [other] = await world.boot()
    assert (await Agent(world, other).serve()).lease_id == lease.lease_id


async def test_a_clock_change_ends_no_retained_instance(world: World) -> None:
    _, lingering = await kept(world, LINGER)
    _, stopped = await kept(world, STOP, user="eve")
    for seconds in (30 * 86400, -30 * 86400):
        world.clock.jump(seconds)
        await world.complete_passes(2)
        assert lingering.instance_id in world.cloud.running()
        assert world.cloud.stopped() == [stopped.instance_id]
        assert world.provisioner._state.retained.of_server("ada", "")
        assert world.provisioner._state.retained.of_server("eve", "")
    world.clock.jump(30 * 86400)
    await world.complete_passes(1)
    await world.restart()
    await world.complete_passes(2)
    assert world.cloud.stopped() == [stopped.instance_id]


async def test_a_restarted_hub_waits_for_heartbeats_first(world: World) -> None:
    """Its server had run for so long that the binding is not in memory."""
    _, agent = await kept(world, LINGER)
    await world.kill()
    world.run_sql("UPDATE binding SET bound_at = '2020-01-01 00:00:00.000000'")
    await world.start()
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id]
    await again(world, LINGER)
    assert (await agent.serve()).instance_id == agent.instance_id


async def test_a_lingering_instance_that_powers_off_is_replaced(world: World) -> None:
    _, agent = await kept(world, LINGER)
    world.cloud.end(agent.instance_id, "Client.InstanceInitiatedShutdown")
    await again(world, LINGER)
    await until(lambda: launches(world) == 2, "another one")
    await until(lambda: not world.provisioner._state.retained.instance_ids, "forgotten")


# --- stopped ---------------------------------------------------------------------------------


async def test_the_spawn_page_says_what_a_kept_instance_costs(world: World) -> None:
    await kept(world, STOP, spec=replace(ON_DEMAND, disk_gib=100))
    assert "Its disks cost about $8.00 a month" in retained_text(world.provisioner, "ada", "")
    await kept(world, LINGER, user="bea", spec=replace(ON_DEMAND, disk_gib=100))
    await world.complete_passes(2)
    disk_of_100_gib = 8 / 720
    [machine] = [each for each in world.provisioner.overview.kept() if each.kept.user == "bea"]
    assert machine.instance is not None
    price = world.provisioner.market.prices.price_of(machine.instance)
    assert price is not None
    rate = price_words(price.usd_per_hour + disk_of_100_gib)
    assert f"about {rate}" in retained_text(world.provisioner, "bea", "")


async def test_a_kept_instance_costs_what_is_known_of_it(world: World) -> None:
    await kept(world, STOP, spec=replace(ON_DEMAND, disk_gib=100))
    await kept(world, LINGER, user="bea", spec=replace(ON_DEMAND, disk_gib=100))
    await world.complete_passes(2)
    disk_of_100_gib = pytest.approx(8 / 720)

    def rates() -> dict[str, Rate]:
        return {each.kept.user: each.rate for each in world.provisioner.overview.kept()}

    assert rates()["ada"] == (disk_of_100_gib, ())
    figures = world.provisioner.figures()
    both = sum(each.known_usd_per_hour or 0.0 for each in rates().values())
    assert figures.usd_per_hour["overhead", Purpose.OVERHEAD] == pytest.approx(both)
    world.cloud.list_prices = {"g4dn.xlarge": 0.6}
    await world.restart(region="eu-central-1")  # nothing stands in for its prices of disks
    await until(lambda: rates()["bea"].known_usd_per_hour, "the list price")
    assert rates()["ada"] == (disk_of_100_gib, ()), "as it was known last"
    assert rates()["bea"] == (0.6, (Resource.DISK,))
    text = retained_text(world.provisioner, "bea", "")
    assert "at least $0.60/h (an estimate; the price of its disk is not known)" in text
    assert world.provisioner.figures().unknown_prices == 1


async def test_the_next_start_starts_the_stopped_instance(world: World) -> None:
    first, agent = await kept(world, STOP)
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]
    world.clock.advance(86400)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    assert any(e.message == "Starting your kept machine" for e in world.now(lease).events)
    rebooted = Agent(world, agent.instance_id)
    served = await rebooted.serve()
    assert served.lease_id == lease.lease_id
    assert launches(world) == 1
    assert served.segments[0].start >= lease.requested_at, "stopped, it has cost nothing"
    assert not world.provisioner._state.retained.instance_ids
    overhead = await world.store.ledger.overhead(first.requested_at)
    assert all(s.end == s.start or s.end <= first.requested_at for s in overhead if s.end)
    await rebooted.heartbeat()
    await end_in_order(world, served, rebooted, "idle")
    await until(world.cloud.stopped, "stopped again")


async def test_tags_of_an_earlier_server_take_no_disk(world: World) -> None:
    """EC2 has not tagged the instance for the lease that has just ended."""
    first, agent = await ready(world, STOP)
    await until(
        lambda: LEASE in world.cloud.machines[agent.instance_id].instance.tags, "it is tagged"
    )
    await end_in_order(world, first, agent)
    await until(world.cloud.stopped, "it is stopped")
    world.clock.advance(86400)
    world.cloud.fail("tag", BUSY, times=100)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    agent = Agent(world, agent.instance_id)
    lease = await agent.serve()
    await agent.heartbeat()
    await end_in_order(world, lease, agent, "idle")
    await is_retained(world, lease, agent)
    assert world.cloud.machines[agent.instance_id].instance.tags[LEASE] == first.lease_id


async def test_a_claim_pending_since_before_the_stop_gets_no_lease(world: World) -> None:
    _, agent = await kept(world, STOP)
    gone = agent.claimant()
    world.clock.advance(20)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started again")
    starting = world.provisioner._starts
    assert await starting.claim(gone, agent.key, wait=0) is None
    assert world.now(lease).state is LeaseState.WAITING
    served = await Agent(world, agent.instance_id).serve()
    assert served.lease_id == lease.lease_id


async def test_a_claim_from_before_its_stop_is_no_alarm(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """EC2 cuts no connection: the hub holds on to one until it is answered."""
    _, agent = await kept(world, STOP)
    world.clock.advance(20)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started again")
    served = await Agent(world, agent.instance_id).serve()
    assert served.lease_id == lease.lease_id
    with pytest.raises(ClaimRefused, match="booted anew"):
        await agent.claim()
    assert "ALARM" not in caplog.text
    with pytest.raises(SecondKey):
        await Agent(world, agent.instance_id).claim()
    assert "ALARM" in caplog.text


@pytest.mark.parametrize("reason", ["idle", "admin", "hub"])
async def test_a_user_stop_retains_the_disk_and_an_interruption_does_not(
    world: World, reason: str
) -> None:
    lease, agent = await ready(world, STOP)
    await end_in_order(world, lease, agent, reason)
    await until(world.cloud.stopped, "stopped")
    other, agent = await ready(world, STOP, user="eve")
    await end_in_order(world, other, agent, "interruption")
    await until(lambda: not world.cloud.running(), "it ends")
    assert len(world.cloud.stopped()) == 1


async def test_a_spot_instance_cannot_be_stopped_and_the_user_is_informed(world: World) -> None:
    lease, agent = await ready(world, STOP, spec=replace(SPEC, markets=(Market.SPOT,)))
    await end_in_order(world, lease, agent)
    assert "spot" in (await world.stop_of(lease)).message
    await until(lambda: not world.cloud.running(), "it ends")
    assert not world.cloud.stopped()


async def test_a_user_retains_no_more_instances_than_allowed(world: World) -> None:
    for server in ("a", "b"):
        await kept(world, STOP, server=server)
    lease, agent = await ready(world, STOP, server="c")
    await end_in_order(world, lease, agent)
    assert "2 are kept for you already" in (await world.stop_of(lease)).message
    await until(lambda: not world.cloud.running(), "it ends")
    assert len(world.cloud.stopped()) == 2


async def test_a_stopped_instance_ends_with_its_disk_when_its_time_is_over(world: World) -> None:
    await kept(world, STOP)
    world.clock.advance(STOP.seconds - 60)
    await world.complete_passes(2)
    assert world.cloud.stopped()
    world.clock.advance(61)
    await until(lambda: not world.cloud.stopped(), "it ends")
    await until(lambda: not world.provisioner._state.retained.instance_ids, "forgotten")


async def test_instances_no_longer_retained_by_the_configuration_end(world: World) -> None:
    await kept(world, STOP)
    await world.restart(keeps=frozenset({("t4", "stop")}))
    await world.complete_passes(2)
    assert world.cloud.stopped()
    await world.restart(keeps=frozenset({("t4", "linger")}))
    await until(lambda: not world.cloud.stopped(), "it ends")


async def test_a_newer_image_is_no_reason_to_lose_the_disk(world: World) -> None:
    _, agent = await kept(world, STOP)
    await again(world, STOP, spec=replace(ON_DEMAND, image_id="ami-2", user_data="newer"))
    await until(world.cloud.running, "it is started")
    assert world.cloud.running() == [agent.instance_id]


async def test_starting_afresh_ends_it_and_launches_another(world: World) -> None:
    _, agent = await kept(world, STOP)
    await again(world, STOP, afresh=True)
    await until(lambda: launches(world) == 2, "another one")
    await until(lambda: not world.cloud.stopped(), "it ends")
    assert agent.instance_id not in world.cloud.running()


async def test_a_start_afresh_never_takes_what_it_gives_up(world: World) -> None:
    _, agent = await kept(world, LINGER)
    claim = asyncio.create_task(agent.claim())
    await world.watch_passes(1)
    lease = await again(world, LINGER, afresh=True)
    await until(lambda: launches(world) == 2, "another one")
    await until(lambda: agent.instance_id not in world.cloud.running(), "its end")
    assert world.now(lease).instance_id != agent.instance_id
    with contextlib.suppress(ClaimRefused, InstanceUnwanted):
        assert await claim is None


async def test_a_start_afresh_that_a_limit_refuses_keeps_the_disk(world: World) -> None:
    _, agent = await kept(world, STOP)
    await world.restart(limits=Limits(Bounds(servers=0)))
    with pytest.raises(LimitReached):
        await again(world, STOP, afresh=True)
    await world.watch_passes(2)
    assert world.provisioner.retained("ada", "")
    assert world.cloud.stopped() == [agent.instance_id]


async def test_a_kept_instance_that_was_started_again_serves_at_its_limit(world: World) -> None:
    _, agent = await kept(world, STOP)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    await world.restart(limits=Limits(Bounds(usd_per_month=0)))
    await world.watch_passes(2)
    assert world.now(lease).state is LeaseState.WAITING
    assert world.cloud.running() == [agent.instance_id]


async def test_a_start_afresh_that_cannot_be_stored_keeps_the_disk(world: World) -> None:
    _, agent = await kept(world, STOP)
    world.run_sql(
        "CREATE TRIGGER full BEFORE INSERT ON lease BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    with pytest.raises(StoreError):
        await again(world, STOP, afresh=True)
    await world.watch_passes(2)
    assert world.provisioner.retained("ada", "")
    assert world.cloud.stopped() == [agent.instance_id]
    world.fix_store()


async def test_a_start_afresh_that_is_stored_too_late_keeps_the_disk(world: World) -> None:
    _, agent = await kept(world, STOP)
    await world.settle()
    write = world.store._thread.write

    async def late(work: Callable[[Connection], None]) -> None:
        world.store._thread.write = write  # type: ignore[method-assign]
        await write(work)
        raise StoreTimeoutError("the store did not answer in time")

    world.store._thread.write = late  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreTimeoutError):
        await again(world, STOP, afresh=True)
    await world.watch_passes(1)
    await world.restart()
    await world.watch_passes(2)
    assert world.provisioner.retained("ada", "")
    assert world.cloud.stopped() == [agent.instance_id]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_start_afresh_that_is_cancelled_gives_up_what_is_stored(
    world: World, is_stored: bool
) -> None:
    """JupyterHub cancels a start that takes too long, and does not stop the write."""
    _, agent = await kept(world, STOP)
    await world.settle()
    write, begun, answers = world.store._thread.write, asyncio.Event(), asyncio.Event()

    async def slow(work: Callable[[Connection], None]) -> None:
        world.store._thread.write = write  # type: ignore[method-assign]
        begun.set()
        await answers.wait()
        if not is_stored:
            raise StoreError("database or disk is full")
        await write(work)

    world.store._thread.write = slow  # type: ignore[method-assign, assignment]
    start = asyncio.create_task(again(world, STOP, afresh=True))
    await begun.wait()
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    await world.watch_passes(2)
    assert world.cloud.stopped() == [agent.instance_id], "nothing is decided yet"
    answers.set()
    if is_stored:
        await until(lambda: not world.cloud.stopped(), "it ends")
    await world.watch_passes(2)
    assert bool(world.provisioner.retained("ada", "")) != is_stored
    await world.restart()
    await world.watch_passes(2)
    assert world.cloud.stopped() == ([] if is_stored else [agent.instance_id])
    assert agent.instance_id not in world.cloud.running()
    assert bool(world.provisioner.retained("ada", "")) != is_stored


async def test_an_instance_being_terminated_is_not_started_again(world: World) -> None:
    """Its server had another machine, and EC2 was too busy to end this one."""
    _, agent = await kept(world, STOP)
    world.cloud.fail("terminate", BUSY, times=9999)
    other = await again(world, STOP, spec=replace(ON_DEMAND, instance_types=("g5.xlarge",)))
    await until(lambda: agent.instance_id in world.provisioner._state.claims.unwanted)
    await world.stop(other)
    await world.state(other, LeaseState.ENDED)
    before = launches(world)
    await again(world, STOP)
    await until(lambda: launches(world) > before, "another one")
    assert world.cloud.of("start") == []


async def test_missing_capacity_is_reported_after_retries_and_the_disk_stays(world: World) -> None:
    _, agent = await kept(world, STOP)
    world.cloud.fail("start", CloudError(SOLD_OUT, "no", retryable=False), times=1000)
    lease = await again(world, STOP)
    stop = await world.stop_of(lease)
    assert stop.reason == "capacity"
    assert "begin afresh" in stop.message
    assert len(world.cloud.of("start")) > 1
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]
    assert launches(world) == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ReservationCapacityExceeded", "all places of that are in use"),
        ("InvalidCapacityReservationId.NotFound", "that has ended"),
    ],
)
async def test_a_reservation_that_has_no_place_for_a_kept_machine_is_named(
    world: World, code: str, said: str
) -> None:
    """It was launched into one for another server, or for the pool."""
    _, agent = await kept(world, STOP)
    world.cloud.fail("start", CloudError(code, "no", retryable=False), times=1000)
    lease = await again(world, STOP)
    stop = await world.stop_of(lease)
    assert "only in the capacity reservation" in stop.message
    assert said in stop.message
    assert "begin afresh" in stop.message
    assert world.cloud.stopped() == [agent.instance_id]


async def test_a_quota_refusal_is_named_and_offers_no_further_start(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    _, agent = await kept(world, STOP)
    world.cloud.fail("start", CloudError("VcpuLimitExceeded", "no", retryable=False), times=1000)
    lease = await again(world, STOP)
    stop = await world.stop_of(lease)
    assert stop.reason == "quota"
    assert "quota “Running On-Demand G and VT instances” is used up" in stop.message
    assert "ask an admin" in stop.message
    assert "choose another profile" in stop.message
    assert "L-DB2E81BA" in caplog.text
    zones = world.provisioner._state.zones.of(lease.spec)
    assert not world.provisioner.market.offers.open(
        lease.spec.instance_types, zones, (Market.ON_DEMAND,)
    )
    assert world.provisioner.market.offers.open(lease.spec.instance_types, zones, (Market.SPOT,))
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]


async def test_a_throttled_start_is_retried(world: World) -> None:
    await kept(world, STOP)
    world.cloud.fail("start", BUSY, times=2)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    await world.complete_passes(1)
    assert any("keeps trying" in event.message for event in world.now(lease).events)
    assert not world.provisioner._retention.why_not_started(lease.lease_id)


async def test_a_kept_machine_starts_once_aws_has_verified_the_account(world: World) -> None:
    """Its files are on it: its start is no end for lack of room, and no refusal."""
    await kept(world, STOP)
    pending = CloudError("PendingVerification", "being validated", retryable=True)
    world.cloud.fail("start", pending, times=8)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    await world.complete_passes(1)
    said = [event.message for event in world.now(lease).events]
    assert any("still verifying the account" in message for message in said)


async def test_a_start_throttled_until_its_timeout_says_so(world: World) -> None:
    _, agent = await kept(world, STOP)
    world.cloud.fail("start", BUSY, times=100_000)
    lease = await again(world, STOP)
    await until(lambda: world.provisioner._retention.why_not_started(lease.lease_id), "refused")
    world.clock.advance(world.settings.boot_timeout + 1)
    stop = await world.stop_of(lease)
    assert "RequestLimitExceeded" in stop.message
    assert "did not call the hub" not in stop.message
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]


async def test_a_started_but_silent_instance_is_not_reported_as_refused(
    world: World,
) -> None:
    """The answer to its start was lost."""
    await kept(world, STOP)
    world.cloud.fail("start", BUSY, after=True)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    await world.complete_passes(1)
    assert not world.provisioner._retention.why_not_started(lease.lease_id)


async def test_a_throttled_stop_is_retried(world: World) -> None:
    world.cloud.fail("stop", BUSY, times=2)
    await kept(world, STOP)


async def test_a_cancelled_start_stops_the_instance_again(world: World) -> None:
    _, agent = await kept(world, STOP)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    world.clock.advance(20)
    await world.stop(lease)
    await until(world.cloud.stopped, "it is stopped again")
    await world.settle()
    [seconds] = [
        (s.end - s.start).total_seconds()
        for s in await world.store.ledger.overhead(lease.requested_at)
        if s.end
    ]
    assert 20 <= seconds < 21, "what that cost is the hub's"
    await again(world, STOP)
    await until(world.cloud.running, "and may be started again")
    assert (await Agent(world, agent.instance_id).serve()).instance_id == agent.instance_id


@pytest.mark.parametrize("after", [LINGER, STOP], ids=lambda each: each.then)
async def test_a_pass_while_a_cancelled_start_ends_keeps_the_instance(
    world: World, after: AfterStop
) -> None:
    _, agent = await kept(world, after)
    world.cloud.fail("start", BUSY, times=1000)
    lease = await again(world, after)
    retention = world.provisioner._retention
    retention._called.clear()  # else the pace of its calls may hide what it would do
    cancel = asyncio.create_task(world.provisioner.end(lease.lease_id, Stop(reason="user")))
    await asyncio.sleep(0)
    assert world.now(lease).state is LeaseState.ENDING
    await retention.reconcile(world.clock())
    await cancel
    await world.complete_passes(2)
    alive = world.cloud.running() if after.then == "linger" else world.cloud.stopped()
    assert alive == [agent.instance_id]
    assert world.provisioner._state.retained.holds(agent.instance_id)


async def test_a_silent_retained_instance_fails_the_start_and_is_stopped(world: World) -> None:
    await kept(world, STOP)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    await world.watch_passes(1)
    world.clock.advance(world.settings.boot_timeout + 1)
    assert "did not call the hub" in (await world.stop_of(lease)).message
    await until(world.cloud.stopped, "it is stopped again")


async def test_a_failed_agent_takes_no_disk_that_is_kept_for_its_user(world: World) -> None:
    """It powers its instance off, which EC2 would answer by terminating it: so it is launched."""
    _, agent = await kept(world, STOP)
    await world.restart()
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    world.clock.advance(90)
    world.cloud.consoles[agent.instance_id] = "[   3.0] cloud-init[9]: ec2spawner: no hub\n"
    world.cloud.power_off(agent.instance_id)
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    assert "powered itself off" in stop.message
    assert stop.message.endswith("ec2spawner: no hub")
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]
    assert len(world.cloud.of("start")) == 1, "another boot would be the same"
    [cost] = [s for s in await world.store.ledger.overhead(lease.requested_at) if s.end]
    assert (cost.end - cost.start).total_seconds() == pytest.approx(90, abs=1)
    lease = await again(world, STOP)
    await until(world.cloud.running, "its user may try again")
    assert (await Agent(world, agent.instance_id).serve()).lease_id == lease.lease_id


async def test_a_retained_instance_without_a_hub_ends_by_stopping(world: World) -> None:
    _, agent = await kept(world, STOP)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    await world.kill()
    world.cloud.power_off(agent.instance_id)
    assert world.cloud.stopped() == [agent.instance_id]
    await world.start()
    assert "powered itself off" in (await world.stop_of(lease)).message
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize(
    ("code", "said", "hint"),
    [
        ("Client.InternalError", "Client.InternalError: Client error on launch", "kms-key"),
        ("Server.ScheduledStop", "Server.ScheduledStop: Stopped for maintenance", "Try again"),
        ("Client.UserInitiatedShutdown", "", "Client.UserInitiatedShutdown"),
    ],
)
async def test_a_start_that_ec2_undoes_says_why(
    world: World, code: str, said: str, hint: str, claimed: bool
) -> None:
    """As where StartInstances lacks a grant of the disk's KMS key: pending, and stopped again."""
    _, agent = await kept(world, STOP)
    world.clock.advance(60)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    if claimed:
        await Agent(world, agent.instance_id).claim()
    machine = world.cloud.machines[agent.instance_id]
    machine.ended, machine.ended_reason, machine.ended_message = InstanceState.STOPPED, code, said
    await world.complete_passes(1)
    if claimed:
        world.clock.advance(STOPPED_GRACE)
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    assert said in stop.message
    assert hint in stop.message
    assert "disk is kept" in stop.message
    assert "agent" not in stop.message
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]


async def served_again(world: World) -> tuple[Lease, Agent]:
    """A server that runs on an instance which was retained for it."""
    _, agent = await kept(world, STOP)
    await again(world, STOP)
    await until(world.cloud.running, "it is started")
    agent = Agent(world, agent.instance_id)
    return await agent.serve(), agent


async def is_retained(world: World, lease: Lease, agent: Agent) -> None:
    """Nothing but its disk costs anything, and its user's next start gets it again."""
    await until(lambda: world.cloud.stopped() == [agent.instance_id], "it is stopped")
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]
    assert world.now(lease).stop.then == "stop"
    assert not world.cloud.of("terminate")
    world.clock.advance(60)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    assert (await Agent(world, agent.instance_id).serve()).lease_id == lease.lease_id
    assert launches(world) == 1


async def test_a_server_that_powers_its_retained_instance_off_loses_no_disk(world: World) -> None:
    lease, agent = await served_again(world)
    world.cloud.power_off(agent.instance_id)
    stop = await world.stop_of(lease)
    assert stop.reason == "lost"
    assert "powered itself off" in stop.message
    assert "from outside the hub" not in stop.message
    await is_retained(world, lease, agent)


async def test_a_server_that_ends_without_its_hub_loses_no_disk(world: World) -> None:
    """The hub that returns knows nothing of the agent, which was idle for too long."""
    lease, agent = await served_again(world)
    await world.kill()
    world.cloud.power_off(agent.instance_id)
    await world.start()
    assert "powered itself off" in (await world.stop_of(lease)).message
    await is_retained(world, lease, agent)


async def test_a_server_outlives_a_listing_from_before_its_instance_was_started(
    world: World,
) -> None:
    _, agent = await kept(world, STOP)
    machine = world.cloud.machines[agent.instance_id]
    before = replace(machine)
    world.clock.advance(600)
    await again(world, STOP)
    await until(world.cloud.running, "it is started")
    agent = Agent(world, agent.instance_id)
    lease = await agent.serve()
    await world.kill()
    started, world.cloud.machines[agent.instance_id] = machine, before
    await world.start()
    await world.watch_passes(2)
    world.cloud.machines[agent.instance_id] = started
    await agent.heartbeat()
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY


@pytest.mark.parametrize("how", ["says stopped", "silent", "stopped by others"])
async def test_no_failure_of_an_agent_takes_a_disk_that_was_kept(world: World, how: str) -> None:
    world.silence_agents()
    lease, agent = await served_again(world)
    if how == "says stopped":
        await agent.event("stopped")
    elif how == "silent":
        world.clock.advance(world.settings.agent_silent_after)
    else:
        await world.cloud.stop([agent.instance_id])
    assert (await world.stop_of(lease)).reason in {"failed", "lost"}
    await is_retained(world, lease, agent)


@pytest.mark.parametrize("how", ["powers off", "says stopped", "fails", "late", "cancelled"])
async def test_a_start_that_fails_after_its_claim_takes_no_disk(world: World, how: str) -> None:
    _, agent = await kept(world, STOP)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    agent = Agent(world, agent.instance_id)
    await agent.claim()
    if how == "powers off":
        world.cloud.consoles[agent.instance_id] = "[   3.0] cloud-init[9]: ec2spawner: no hub\n"
        world.cloud.power_off(agent.instance_id)
        await world.complete_passes(1)
        assert world.now(lease).state is LeaseState.STARTING, "the listing may be an old one"
        world.clock.advance(STOPPED_GRACE)
        assert (await world.stop_of(lease)).message.endswith("ec2spawner: no hub")
    elif how == "says stopped":
        await agent.event("stopped")
        assert "Its disk is kept" in (await world.stop_of(lease)).message
    elif how == "fails":
        await agent.event("failed", "no home")
    elif how == "late":
        await world.complete_passes(1)  # one sees that it has its instance
        world.clock.advance(world.settings.ready_timeout)
    else:
        await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await is_retained(world, lease, agent)


async def test_a_pass_forgets_only_what_was_retained_before_the_start(world: World) -> None:
    """It stores the cost of the disks first; meanwhile the start may fail, and leave them."""
    _, agent = await kept(world, STOP)
    retained = world.provisioner._state.retained
    [before] = retained.all()
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    agent = Agent(world, agent.instance_id)
    await agent.claim()
    await agent.event("failed", "no home")
    await world.state(lease, LeaseState.ENDED)
    await retained.forget(before)
    assert not retained.is_current(before)
    await is_retained(world, lease, agent)


async def test_what_replaces_a_terminated_retained_instance_is_an_ordinary_one(
    world: World,
) -> None:
    """Its failures are neither reported as the kept machine's nor a reason to keep it."""
    _, agent = await kept(world, STOP)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    await Agent(world, agent.instance_id).claim()
    for _ in range(2):
        [lost] = world.cloud.running()
        await world.cloud.terminate([lost])
        await until(world.cloud.running, "another one is launched")
        await world.complete_passes(1)  # one sees that it will serve this start
    [last] = world.cloud.running()
    served = await Agent(world, last).serve()
    assert served.lease_id == lease.lease_id
    assert not served.on_retained
    assert launches(world) == 3


async def test_a_failure_ends_an_instance_that_was_never_retained(world: World) -> None:
    lease, agent = await ready(world, STOP)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: not world.cloud.running(), "it ends")
    assert not world.cloud.stopped()


async def test_a_budget_takes_the_disk_of_a_retained_instance_as_any_other(world: World) -> None:
    lease, agent = await served_again(world)
    await end_in_order(world, lease, agent, "budget")
    await until(lambda: not world.cloud.running(), "it ends")
    assert not world.cloud.stopped()


async def test_without_its_permission_a_retained_instance_is_stopped_and_started_nevertheless(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    denied = CloudError("UnauthorizedOperation", "no", retryable=False)
    world.cloud.fail("stop_on_power_off", denied, times=1000)
    _, agent = await kept(world, STOP)
    assert "needs ec2:ModifyInstanceAttribute" in caplog.text
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    assert (await Agent(world, agent.instance_id).serve()).lease_id == lease.lease_id


async def test_a_throttled_protection_of_the_disk_is_retried_and_bounded(world: World) -> None:
    world.cloud.fail("stop_on_power_off", BUSY, times=2)
    await kept(world, STOP)
    assert len(world.cloud.of("stop_on_power_off")) == 3
    assert len(world.cloud.of("stop")) == 1, "after it"
    world.cloud.fail("stop_on_power_off", BUSY, times=1000)
    await kept(world, STOP, user="eve")


async def test_a_hub_that_does_not_know_of_a_protection_repeats_it_before_the_start(
    world: World,
) -> None:
    _, agent = await kept(world, STOP)
    world.cloud.machines[agent.instance_id].stops_on_power_off = False
    await world.restart()
    await again(world, STOP)
    await until(world.cloud.running, "it is started")
    assert world.cloud.machines[agent.instance_id].stops_on_power_off


async def test_an_instance_that_does_not_stop_is_not_reported_as_started(world: World) -> None:
    lease, agent = await ready(world, STOP)
    await end_in_order(world, lease, agent)
    await until(world.cloud.stopped, "it is asked to stop")
    machine = world.cloud.machines[agent.instance_id]
    machine.ended = InstanceState.STOPPING
    await world.complete_passes(1)
    lease = await again(world, STOP)
    await world.complete_passes(1)
    world.clock.advance(world.settings.boot_timeout + 1)
    assert "it has not stopped yet" in (await world.stop_of(lease)).message
    assert world.cloud.of("start") == []
    machine.ended = InstanceState.STOPPED


async def test_an_unlisted_instance_without_capacity_is_left_to_the_next_pass(
    world: World,
) -> None:
    _, agent = await kept(world, STOP)
    world.cloud.fail("start", CloudError(SOLD_OUT, "no", retryable=False), times=1000)
    lease = await again(world, STOP)
    provisioner = world.provisioner
    await until(
        lambda: provisioner._retention.restarts._no_room.get(lease.lease_id) == START_TRIES - 1
    )
    listed = world.cloud.hold("list_instances")
    del provisioner._state.instances.listed[agent.instance_id]  # type: ignore[attr-defined]
    await provisioner._retention.restarts.start(agent.instance_id, lease)
    assert world.now(lease).state is LeaseState.WAITING
    listed.set()
    assert "capacity" in (await world.stop_of(lease)).reason


async def test_neither_clock_change_nor_hub_downtime_fails_a_start(world: World) -> None:
    _, agent = await kept(world, STOP)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    world.clock.jump(world.settings.boot_timeout + 1)
    await world.complete_passes(2)
    await world.kill()
    world.clock.advance(world.settings.boot_timeout + 1)
    await world.start()
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.WAITING
    served = await Agent(world, agent.instance_id).serve()
    assert served.lease_id == lease.lease_id


async def test_a_start_without_a_lease_is_accounted_even_when_terminated_at_once(
    world: World,
) -> None:
    await kept(world, STOP)
    lease = await again(world, STOP)
    await until(world.cloud.running, "it is started")
    await world.provisioner._state.retained.give_up(lease.user, lease.server)
    world.clock.advance(20)
    await world.stop(lease)
    await until(lambda: not world.cloud.running(), "its end")
    await world.settle()
    [booted] = [
        s for s in await world.store.ledger.overhead(lease.requested_at) if s.end != s.start
    ]
    assert booted.end is not None
    assert 20 <= (booted.end - booted.start).total_seconds() < 21


# --- who may speak for it --------------------------------------------------------------------


async def test_a_new_key_is_accepted_once_and_only_after_our_start(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    _, agent = await kept(world, STOP)
    machine = world.cloud.machines[agent.instance_id]
    booted_by_hand = Agent(world, agent.instance_id)
    await world.cloud.start([agent.instance_id])
    later = machine.instance.launched_at + (world.clock() - machine.instance.launched_at)
    with caplog.at_level(logging.ERROR), pytest.raises(ClaimRefused):
        await booted_by_hand.claim(pending_time=later)
    assert "ALARM" in caplog.text
    await until(world.cloud.stopped, "no start requested it")
    old_document = machine.instance.launched_at
    world.clock.advance(60)
    await again(world, STOP)
    await until(world.cloud.running, "it is started")
    with pytest.raises(ClaimRefused):
        await Agent(world, agent.instance_id).claim(pending_time=old_document)
    rebooted = Agent(world, agent.instance_id)
    await rebooted.serve()
    with pytest.raises(ClaimRefused):
        await Agent(world, agent.instance_id).claim()
    with pytest.raises(ClaimRefused):
        await agent.claim()
    assert await rebooted.claim() is not None


async def test_a_home_in_use_costs_no_disk_that_is_kept(world: World) -> None:
    """Stopping the instance flushes the home, too."""
    lease, agent = await ready(world, STOP, home_kind="ebs")
    await asyncio.gather(world.stop(lease), agent.event("stopped", home_released=False))
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: world.cloud.stopped() == [agent.instance_id], "it is stopped")
    assert world.cloud.of("terminate") == []
    [volume] = world.cloud.volumes
    await until(lambda: world.cloud.volumes[volume].attached_to is None, "the home is free")
    world.clock.advance(60)
    await again(world, STOP, home_kind="ebs")
    await until(world.cloud.running, "it is started")
    rebooted = Agent(world, agent.instance_id)
    assert (await rebooted.serve()).state is LeaseState.READY


async def test_a_hub_killed_while_it_keeps_a_home_in_use_does_not_detach_it(world: World) -> None:
    """That the instance is kept is stored, and is no sign that its home is unmounted."""
    lease, agent = await ready(world, STOP, home_kind="ebs")
    world.cloud.hold("stop")
    await world.stop(lease)
    world.break_store()
    await agent.event("stopped", home_released=False)
    retained = world.provisioner._state.retained
    await until(lambda: retained.holds(agent.instance_id), "it is kept, and still runs")
    await world.kill()
    world.fix_store()
    await world.start()
    await world.state(lease, LeaseState.ENDED)
    await world.watch_passes(2)
    assert world.provisioner.retained("ada", "")
    assert world.cloud.of("detach_volume") == []


async def test_a_home_in_use_leaves_no_instance_that_runs(world: World) -> None:
    lease, agent = await ready(world, LINGER, home_kind="ebs")
    await asyncio.gather(world.stop(lease), agent.event("stopped", home_released=False))
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.running() == []
    assert world.cloud.of("detach_volume") == []


# --- the hub is killed -----------------------------------------------------------------------


async def test_a_hub_killed_before_the_agent_has_stopped_still_retains_it(
    world: World,
) -> None:
    lease, agent = await ready(world, STOP)
    await world.stop(lease)
    await world.kill()
    await world.start()
    # It has stopped by now, and its word was lost with the hub: it claims again.
    await agent.claim(wait=10.0)
    await world.state(lease, LeaseState.ENDED)
    await until(world.cloud.stopped, "it is stopped")


@pytest.mark.parametrize("call", ["stop", "start"])
@pytest.mark.parametrize("after", [False, True])
async def test_a_hub_killed_during_a_call_continues(world: World, call: str, after: bool) -> None:
    """Before the call has taken effect, or after it and before its answer."""
    held = world.cloud.hold(call, after=after)
    lease, agent = await ready(world, STOP)
    await end_in_order(world, lease, agent)
    if call == "start":
        await until(world.cloud.stopped, "it is stopped")
        world.clock.advance(60)
        await again(world, STOP)
    await until(lambda: world.cloud.of(call), "the call")
    await world.restart()
    held.set()
    if call == "stop":
        await until(world.cloud.stopped, "it is stopped")
        world.clock.advance(60)
        await again(world, STOP)
    await until(world.cloud.running, "it is started")
    rebooted = Agent(world, agent.instance_id)
    assert (await rebooted.serve()).instance_id == agent.instance_id
    assert launches(world) == 1


async def test_a_hub_killed_after_storing_lease_and_record(world: World) -> None:
    _, agent = await kept(world, LINGER)
    await again(world, LINGER)
    world.run_sql(
        "CREATE TRIGGER keep BEFORE DELETE ON kept BEGIN SELECT RAISE(ABORT, 'killed here'); END"
    )
    with contextlib.suppress(StoreError):
        await agent.claim()
    await world.kill()
    world.run_sql("DROP TRIGGER keep")
    await world.start()
    served = await agent.serve()
    assert served.state is LeaseState.READY
    await until(lambda: not world.provisioner._state.retained.instance_ids, "forgotten")
    assert world.cloud.running() == [agent.instance_id]


async def test_a_hub_killed_before_storing_the_end_retains_the_stopping_instance(
    world: World,
) -> None:
    """Its agent is gone by then, and will never say that it has stopped."""
    lease, agent = await ready(world, STOP)
    await world.stop(lease)
    world.break_store()
    await agent.event("stopped")
    await until(world.cloud.stopped, "it is asked to stop")
    await world.kill()
    world.fix_store()
    machine = world.cloud.machines[agent.instance_id]
    machine.ended = InstanceState.STOPPING
    await world.start()
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    machine.ended = InstanceState.STOPPED
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]
    assert world.provisioner._state.retained.holds(agent.instance_id)


async def test_a_restored_store_ends_no_server_on_a_formerly_retained_instance(
    world: World,
) -> None:
    _, agent = await kept(world, LINGER)
    await world.kill()
    file = world.folder / world.database
    shutil.copy(file, world.folder / "backup.sqlite")
    await world.start()
    await again(world, LINGER)
    await agent.serve()
    await world.complete_passes(2)
    await world.kill()
    world.database = "backup.sqlite"
    world.clock.advance(86400)
    await world.start()
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id], "JupyterHub will ask for it"


async def test_a_store_without_the_record_ends_it_after_the_grace_period(world: World) -> None:
    await kept(world, STOP)
    await world.kill()
    world.run_sql("DELETE FROM kept")
    world.run_sql("UPDATE lease SET ended_at = '2020-01-01', requested_at = '2020-01-01'")
    await world.start()
    await world.complete_passes(2)
    world.clock.advance(world.settings.recovery_grace + 1)
    await until(lambda: not world.cloud.stopped(), "it ends")
