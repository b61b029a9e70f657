"""What the provisioner raises alarms of, once each, and what no alarm may disturb."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.core.alarms.alarm import AlarmRules, Kind
from ec2spawner.core.alarms.weekly import Schedule
from ec2spawner.core.instances.leaks import GRACE
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.offers.quotas import ListedQuota
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.core.tags import HUB, INTENT, STORE
from ec2spawner.provisioner.alarms.watch import INTERVAL, AlarmWatch
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.cloud import CloudError, Volume
from ec2spawner.provisioner.model.lease import LeaseState
from ec2spawner.wire import GpuSample, IdlePolicy, Telemetry
from tests.unit.provisioner.world import World, until

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
QUOTA = ListedQuota("L-3819A6DF", "All G and VT Spot Instance Requests", 4)
RULES = AlarmRules(idle_gpu=200.0, unattended_gpu=100.0, interruptions=3)
NEVER_STOPS = IdlePolicy(server_seconds=0)


@pytest.fixture
async def watched(world: World) -> World:
    """A hub whose alarms have a destination, which nothing is sent to."""
    await world.restart(alarm_destinations=("json #1",), alarms=RULES)
    return world


def watch_of(world: World) -> AlarmWatch:
    found = [x for x in world.provisioner._reconciler.controllers if isinstance(x, AlarmWatch)]
    return found[0]


async def evaluate(world: World) -> None:
    """Let a minute pass, and the evaluation that is due then."""
    watch = watch_of(world)
    due = watch._due_at
    world.clock.advance(INTERVAL)
    await until(lambda: watch._due_at != due and not watch._is_evaluating, "an evaluation")


async def raised(world: World) -> list[tuple[Kind, str]]:
    """Kinds and subjects of all that the store has."""
    found = await world.store.alarms_since(LONG_AGO)
    return [(each.alarm.kind, each.alarm.subject) for each in found]


async def test_without_destinations_nothing_is_evaluated(world: World) -> None:
    await world.ready()
    world.cloud.quotas_listed = [QUOTA]
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    await world.settle()
    assert await raised(world) == []
    assert not world.cloud.of("quotas")


async def test_an_idle_gpu_server_is_reported_once_also_after_a_restart(watched: World) -> None:
    world = watched
    lease, agent = await world.ready(idle=NEVER_STOPS)
    begin = world.clock()
    for _ in range(3):
        await agent.heartbeat(idle_since=begin)
        await evaluate(world)
    assert await raised(world) == []
    for _ in range(3):
        await agent.heartbeat(idle_since=begin)
        await evaluate(world)
    assert await raised(world) == [(Kind.IDLE_GPU, lease.lease_id)]
    await world.restart()
    await agent.heartbeat(idle_since=begin)
    await evaluate(world)
    assert await raised(world) == [(Kind.IDLE_GPU, lease.lease_id)]


async def test_an_unattended_gpu_is_reported_and_one_that_may_be_attended_is_not(
    watched: World,
) -> None:
    world = watched
    mined, miner = await world.ready("ada", idle=NEVER_STOPS)
    _, worker = await world.ready("bob", idle=NEVER_STOPS)
    _, old_agent = await world.ready("cleo", idle=NEVER_STOPS)
    busy = GpuSample(index=0, name="T4", use_percent=100)
    for _ in range(4):
        telemetry = Telemetry(at=world.clock(), gpu_source="nvml", gpus=[busy])
        await miner.heartbeat(telemetry=telemetry, gpu_unattended=True)
        await worker.heartbeat(telemetry=telemetry, gpu_unattended=False)
        await old_agent.heartbeat(telemetry=telemetry)
        await evaluate(world)
    assert await raised(world) == [(Kind.UNATTENDED_GPU, mined.lease_id)]


@pytest.mark.parametrize("pause", [False, None])
async def test_a_pause_restarts_the_time_of_an_unattended_gpu(
    watched: World, pause: bool | None
) -> None:
    world = watched
    _, agent = await world.ready(idle=NEVER_STOPS)
    for unattended in (True, True, pause, True, True):
        await agent.heartbeat(gpu_unattended=unattended)
        await evaluate(world)
    assert await raised(world) == []


async def test_many_interruptions_are_one_alarm(watched: World) -> None:
    world = watched
    leases = await world.many_ready(4)
    for lease in leases:
        await world.stop(lease, "interruption")
    for lease in leases:
        await world.state(lease, LeaseState.ENDED)
    await evaluate(world)
    await evaluate(world)
    assert [kind for kind, _ in await raised(world)] == [Kind.INTERRUPTIONS]


async def test_a_leak_is_reported_and_waits_for_a_store_that_fails(watched: World) -> None:
    world = watched
    await world.restart(reap_interval=0.01)
    tags = {HUB: "hub", STORE: world.store.store_id, INTENT: "spot-1"}
    world.cloud.volumes["vol-1"] = Volume("vol-1", "us-east-1a", 100, "available", None, tags)
    scans = len(world.cloud.of("free_interfaces"))
    await until(lambda: len(world.cloud.of("free_interfaces")) > scans + 2, "scans")
    world.run_sql(
        "CREATE TRIGGER full BEFORE INSERT ON alarm BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    world.clock.advance(GRACE)
    await until(lambda: not world.cloud.volumes, "deleted")
    await evaluate(world)
    assert len(world.provisioner._state.incidents.waiting()) == 1, "the store has not got it"
    world.fix_store()
    await evaluate(world)
    assert await raised(world) == [(Kind.LEAK, "vol-1")]
    assert not world.provisioner._state.incidents.waiting()


async def test_a_quota_that_is_used_up_is_reported_and_read_once_a_day(watched: World) -> None:
    world = watched
    world.cloud.quotas_listed = [QUOTA]
    await evaluate(world)
    assert await raised(world) == []
    await world.ready(idle=NEVER_STOPS)
    await evaluate(world)
    assert await raised(world) == [(Kind.QUOTA, QUOTA.code)]
    assert len(world.cloud.of("quotas")) == 1


async def test_quotas_that_cannot_be_read_stop_no_other_alarm(watched: World) -> None:
    world = watched
    ends = world.clock() + timedelta(days=3)
    world.cloud.fail("quotas", CloudError("AccessDenied", "no", retryable=False))
    await world.restart(discounts=(Discount("g5.xlarge", 0.63, 4, ends),))
    await evaluate(world)
    await evaluate(world)
    assert [kind for kind, _ in await raised(world)] == [Kind.DISCOUNT]


async def test_only_configured_kinds_are_raised(watched: World) -> None:
    world = watched
    world.cloud.quotas_listed = [QUOTA]
    await world.restart(alarms=AlarmRules(kinds=frozenset({Kind.LEAK})))
    await world.ready(idle=NEVER_STOPS)
    await evaluate(world)
    assert await raised(world) == []


async def test_deliveries_of_a_destination_that_was_removed_are_dropped(world: World) -> None:
    ends = world.clock() + timedelta(days=3)
    discounts = (Discount("g5.xlarge", 0.63, 4, ends),)
    await world.restart(alarm_destinations=("json #1", "sns #2"), discounts=discounts)
    await evaluate(world)
    await world.restart(alarm_destinations=("json #1",))
    left: list[Any] = list(await world.store.undelivered_alarms())
    assert [each.destination for each in left] == ["json #1"]


# --- limits ---


async def test_a_limit_that_stopped_its_last_server_is_reported(watched: World) -> None:
    world = watched
    world.cloud.prices = {("g4dn.xlarge", zone): 0.20 for zone in ("us-east-1a", "us-east-1b")}
    await world.restart(limits=Limits(Bounds(usd_per_month=0.25)), spending_days=31)
    await until(lambda: world.provisioner.market.prices.history("g4dn.xlarge", "us-east-1a"))
    lease, agent = await world.ready("ada", idle=NEVER_STOPS)
    for _ in range(100):
        if world.now(lease).state is not LeaseState.READY:
            break
        world.clock.advance(60)
        await agent.heartbeat()
        await world.watch_passes(1)
    assert (await world.stop_of(lease)).reason == "budget"
    await evaluate(world)
    await world.settle()
    assert await raised(world) == [
        (Kind.LIMIT, "user:ada/usd_per_month/near"),
        (Kind.LIMIT, "user:ada/usd_per_month/reached"),
    ]


async def test_a_user_who_repeats_a_refused_start_raises_one_alarm(watched: World) -> None:
    world = watched
    await world.restart(limits=Limits(Bounds(servers=1)), spending_days=31)
    await world.request()
    for number in range(1100):
        with pytest.raises(LimitReached):
            await world.request(server=f"s{number}")
    incidents = world.provisioner._state.incidents
    assert len(incidents.waiting()) <= 1
    await evaluate(world)
    assert await raised(world) == [(Kind.DENIED_START, "ada/user:ada/servers")]
    assert not incidents.waiting()


# --- the weekly summary ---


async def test_the_summary_of_the_week_is_sent_once_and_adds_up(watched: World) -> None:
    world = watched
    world.cloud.prices = {("g4dn.xlarge", zone): 0.20 for zone in ("us-east-1a", "us-east-1b")}
    monday = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
    await world.restart(alarms=replace(RULES, summary=Schedule(weekday=0, minute=480)))
    await until(lambda: world.provisioner.market.prices.history("g4dn.xlarge", "us-east-1a"))
    ended, agent = await world.ready("ada", idle=NEVER_STOPS)
    await agent.heartbeat_often(3600, every=120)
    await world.stop(ended)
    await world.state(ended, LeaseState.ENDED)
    _, agent = await world.ready("bob", idle=NEVER_STOPS)
    await agent.heartbeat_often(1800, every=120)
    world.clock.time = monday - timedelta(minutes=2)
    await evaluate(world)
    assert await summaries(world) == []
    await evaluate(world)
    await world.settle()
    await world.restart()
    await evaluate(world)
    await world.settle()
    [summary] = await summaries(world)
    assert "user:ada: 0.20 USD, 1.0 GPU-hours" in summary
    assert "user:bob" in summary, "an open lease counts, too"


async def summaries(world: World) -> list[str]:
    found = await world.store.alarms_since(LONG_AGO)
    return [each.alarm.body for each in found if each.alarm.kind is Kind.SUMMARY]
