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
from ec2spawner.core.pricing.price_history import PricePoint, price_at
from ec2spawner.core.tags import HUB, INTENT, STORE
from ec2spawner.provisioner.alarms.watch import INTERVAL, AlarmWatch
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.volume import Volume
from ec2spawner.provisioner.model.leases.cluster import Cluster
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.wire import DiskUse, GpuSample, IdlePolicy, Market, Telemetry
from tests.unit.provisioner.monitoring.counters import counted
from tests.unit.provisioner.world import SPEC, Agent, World, until

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
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
    found = await world.store.alarms.since(LONG_AGO)
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


async def test_what_works_on_a_worker_of_a_cluster_is_not_unattended(watched: World) -> None:
    world = watched
    head, agent = await world.ready(idle=NEVER_STOPS)
    shape = Cluster(1, "ray", "t4", "T4", SPEC, "10.0.0.1:6379", sealed_start="sealed worker")
    await world.provisioner.clusters.begin(head.lease_id, shape)
    await until(lambda: len(world.cloud.running()) == 2, "the worker's instance")
    [instance_id] = set(world.cloud.running()) - {agent.instance_id}
    worker = Agent(world, instance_id)
    await worker.serve()
    for _ in range(4):
        await agent.heartbeat(gpu_unattended=False)
        await worker.heartbeat(gpu_unattended=True)
        await evaluate(world)
    assert await raised(world) == []


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


async def test_a_disk_that_is_nearly_full_is_reported_once_a_day_while_it_is(
    watched: World,
) -> None:
    world = watched
    lease, agent = await world.ready(idle=NEVER_STOPS)
    _, other = await world.ready("bob", idle=NEVER_STOPS)
    data = DiskUse(kind="data", path="/data", used_percent=100, is_writable=False)
    full = DiskUse(kind="home", used_percent=50, inodes_percent=90)
    for _ in range(3):
        await agent.heartbeat(disks=[data, full])
        await other.heartbeat(disks=[full.model_copy(update={"inodes_percent": 89.9})])
        await evaluate(world)
    assert await raised(world) == [(Kind.FULL_DISK, f"{lease.lease_id}/home")]
    figures = world.provisioner.figures().nearly_full_disks
    assert figures["home", "inodes"] == 1
    assert sum(figures.values()) == 1, "a data set is full, and nobody can write to it"


async def test_many_interruptions_are_one_alarm(watched: World) -> None:
    world = watched
    leases = await world.many_ready(4)
    for lease in leases:
        world.cloud.end(str(lease.instance_id))
    for lease in leases:
        await world.state(lease, LeaseState.ENDED)
    await evaluate(world)
    await evaluate(world)
    assert [kind for kind, _ in await raised(world)] == [Kind.INTERRUPTIONS]


async def interrupted(world: World, user: str = "ada") -> None:
    """A server that EC2 reclaims, and its user starts again."""
    lease, agent = await world.ready(user)
    world.cloud.end(agent.instance_id)
    await world.state(lease, LeaseState.ENDED)


async def test_each_interruption_of_one_server_counts(watched: World) -> None:
    watched.silence_agents()
    world = watched
    await interrupted(world)
    await interrupted(world)
    lease, _ = await world.ready()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await evaluate(world)
    assert await raised(world) == []
    await interrupted(world)
    await evaluate(world)
    assert [kind for kind, _ in await raised(world)] == [Kind.INTERRUPTIONS]


async def test_interruptions_of_starts_count(watched: World) -> None:
    world = watched
    before = counted("ec2spawner_interruptions_total", instance_type="g4dn.xlarge")
    lease = await world.request()
    [booting] = await world.boot()
    await world.complete_passes(1)
    world.cloud.end(booting)
    await until(lambda: world.cloud.running() and booting not in world.cloud.running())
    [claimed] = world.cloud.running()
    assert await Agent(world, claimed).claim() is not None
    world.cloud.end(claimed)
    await until(lambda: world.cloud.running() and claimed not in world.cloud.running())
    await world.stop(lease)
    await until(lambda: not world.cloud.running(), "the end of its third instance")
    await interrupted(world, "bob")
    await evaluate(world)
    assert [kind for kind, _ in await raised(world)] == [Kind.INTERRUPTIONS]
    name = "ec2spawner_interruptions_total"
    assert counted(name, instance_type="g4dn.xlarge") == before + 3


async def test_an_instance_that_the_hub_ends_after_its_notice_counts_once(watched: World) -> None:
    """The hub terminates it before EC2 does, so no listing says that EC2 reclaimed it."""
    world = watched
    before = counted("ec2spawner_interruptions_total", instance_type="g4dn.xlarge")
    lease, agent = await world.ready()
    await agent.heartbeat(interruption_at=world.clock() + timedelta(seconds=120))
    await agent.event("stopped")
    assert (await world.stop_of(lease)).reason == "interruption"
    await world.complete_passes(2)
    name = "ec2spawner_interruptions_total"
    assert counted(name, instance_type="g4dn.xlarge") == before + 1


async def test_a_restart_of_the_hub_forgets_no_interruption_of_a_server(watched: World) -> None:
    world = watched
    await interrupted(world)
    await interrupted(world)
    await world.restart()
    await interrupted(world)
    await evaluate(world)
    [kind] = [kind for kind, _ in await raised(world)]
    assert kind is Kind.INTERRUPTIONS
    await world.restart()
    await evaluate(world)
    assert len(await raised(world)) == 1, "the same storm is not reported again"


async def test_a_leak_is_reported_and_waits_for_a_store_that_fails(watched: World) -> None:
    world = watched
    await world.restart(reap_interval=5.0)
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


async def test_an_instance_of_another_store_is_reported_once_after_an_hour(
    watched: World,
) -> None:
    world = watched
    world.cloud.prices = {("g4dn.xlarge", zone): 0.20 for zone in ("us-east-1a", "us-east-1b")}
    await until(lambda: world.provisioner.market.prices.history("g4dn.xlarge", "us-east-1a"))
    _, agent = await world.ready(idle=NEVER_STOPS)
    foreign = world.cloud.copy(agent.instance_id)
    await world.cloud.tag([foreign], {STORE: "0123456789abcdef"})
    await world.complete_passes(1)
    await evaluate(world)
    await agent.heartbeat_often(3500, every=200)
    await evaluate(world)
    assert await raised(world) == []
    await agent.heartbeat_often(60)
    await evaluate(world)
    await world.restart()
    await evaluate(world)
    assert await raised(world) == [(Kind.LEAK, foreign)]
    [alarm] = [each.alarm for each in await world.store.alarms.since(LONG_AGO)]
    assert "0.20 USD/hour (estimate)" in alarm.body
    assert "`ec2spawner reap --store 0123456789abcdef --yes`" in alarm.body
    assert foreign in world.cloud.running()


async def test_a_copy_of_an_instance_is_reported_after_an_hour(watched: World) -> None:
    world = watched
    _, agent = await world.ready(idle=NEVER_STOPS)
    copied = world.cloud.copy(agent.instance_id)
    await world.complete_passes(1)
    await evaluate(world)
    await agent.heartbeat_often(3700, every=200)
    await evaluate(world)
    assert await raised(world) == [(Kind.LEAK, copied)]
    [alarm] = [each.alarm for each in await world.store.alarms.since(LONG_AGO)]
    assert "copied" in alarm.title
    assert world.store.store_id not in alarm.body, "nobody shall end all of this store's instances"
    assert copied in world.cloud.running()


async def test_a_server_that_a_new_store_took_over_is_no_leak(watched: World) -> None:
    world = watched
    _, agent = await world.ready(idle=NEVER_STOPS)
    await world.cloud.tag([agent.instance_id], {STORE: "0123456789abcdef"})
    await world.complete_passes(1)
    await evaluate(world)
    await agent.heartbeat_often(3700, every=200)
    await evaluate(world)
    assert await raised(world) == []


async def test_an_instance_that_ec2_refuses_to_terminate_is_reported_once(watched: World) -> None:
    world = watched
    protected = CloudError("OperationNotPermitted", "termination protection", retryable=False)
    world.cloud.fail("terminate", protected, times=1_000_000)
    lease, agent = await world.ready()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    for _ in range(9):
        await evaluate(world)
    assert await raised(world) == []
    for _ in range(3):
        await evaluate(world)
    assert await raised(world) == [(Kind.LEAK, agent.instance_id)]
    [alarm] = [each.alarm for each in await world.store.alarms.since(LONG_AGO)]
    assert "OperationNotPermitted" in alarm.body


async def test_a_termination_that_ec2_took_at_last_is_no_leak(watched: World) -> None:
    world = watched
    world.cloud.fail("terminate", CloudError("Unavailable", "no", retryable=True))
    lease, agent = await world.ready()
    await world.stop(lease)
    await agent.event("stopped")
    await until(lambda: not world.cloud.running(), "the end of its instance")
    for _ in range(12):
        await evaluate(world)
    assert await raised(world) == []


async def test_a_quota_that_is_used_up_is_reported_and_read_once_a_day(watched: World) -> None:
    world = watched
    world.cloud.quotas_listed = [QUOTA]
    await evaluate(world)
    assert await raised(world) == []
    await world.ready(idle=NEVER_STOPS)
    await evaluate(world)
    assert await raised(world) == [(Kind.QUOTA, QUOTA.code)]
    assert len(world.cloud.of("quotas")) == 1


async def test_a_quota_that_others_use_up_is_reported_once_ec2_refuses_a_launch(
    watched: World,
) -> None:
    world = watched
    world.cloud.quotas_listed = [replace(QUOTA, vcpus=6400)]
    await world.ready("ada", idle=NEVER_STOPS)
    world.cloud.refuse("MaxSpotInstanceCountExceeded", Market.SPOT)
    await world.ready("bob", idle=NEVER_STOPS)
    await evaluate(world)
    await evaluate(world)
    assert await raised(world) == [(Kind.QUOTA, QUOTA.code)]
    [alarm] = [each.alarm for each in await world.store.alarms.since(LONG_AGO)]
    assert "MaxSpotInstanceCountExceeded" in alarm.body
    assert "4 of 6400 vCPUs" in alarm.body


async def test_quotas_that_cannot_be_read_stop_no_other_alarm(watched: World) -> None:
    world = watched
    ends = world.clock() + timedelta(days=3)
    world.cloud.fail("quotas", CloudError("AccessDenied", "no", retryable=False))
    await world.restart(discounts=(Discount("g5.xlarge", 0.63, 4, ends),))
    await evaluate(world)
    await evaluate(world)
    assert [kind for kind, _ in await raised(world)] == [Kind.DISCOUNT]


async def test_a_price_that_jumps_is_reported_once_a_day_while_servers_pay_it(
    watched: World,
) -> None:
    world = watched
    begin, pool = world.clock(), ("g4dn.xlarge", "us-east-1a")
    path = [(-7 * DAY, 0.20), (HOUR, 0.29), (2 * HOUR, 0.31), (3 * HOUR, 0.20), (4 * HOUR, 0.40)]
    world.cloud.histories[pool] = [PricePoint(begin + after, usd) for after, usd in path]
    prices = world.provisioner.market.prices
    _, agent = await world.ready(idle=NEVER_STOPS)

    async def evaluate_at(after: timedelta, usd: float) -> list[tuple[Kind, str]]:
        await agent.heartbeat_often((begin + after - world.clock()).total_seconds(), every=240)
        await until(lambda: price_at(prices.history(*pool), world.clock()) == usd, f"{usd}")
        await world.complete_passes(1)  # one that was under way had read the clock before
        await evaluate(world)
        return await raised(world)

    risen = (Kind.PRICE, "g4dn.xlarge/us-east-1a")
    assert await evaluate_at(1.5 * HOUR, 0.29) == [], "45 % more"
    assert await evaluate_at(2.5 * HOUR, 0.31) == [risen]
    [alarm] = [each.alarm for each in await world.store.alarms.since(LONG_AGO)]
    assert (alarm.at - begin).total_seconds() == pytest.approx(2.5 * 3600, abs=120)
    assert "rose by 55 %" in alarm.title
    assert await evaluate_at(3.5 * HOUR, 0.20) == [risen]
    assert await evaluate_at(4.5 * HOUR, 0.40) == [risen], "the same day"
    assert await evaluate_at(DAY, 0.40) == [risen, risen]
    await world.restart()
    await evaluate(world)
    assert await raised(world) == [risen, risen]


async def test_a_price_that_no_server_pays_is_not_reported(watched: World) -> None:
    world = watched
    begin, pool = world.clock(), ("g4dn.xlarge", "us-east-1a")
    world.cloud.histories[pool] = [PricePoint(begin - 7 * DAY, 0.2), PricePoint(begin, 0.9)]
    await world.ready(idle=NEVER_STOPS, spec=replace(SPEC, markets=(Market.ON_DEMAND,)))
    await until(lambda: world.provisioner.market.prices.history(*pool), "prices")
    await evaluate(world)
    assert await raised(world) == []


async def test_a_reserved_instance_that_expires_is_reported_once(watched: World) -> None:
    world = watched
    ends = world.clock() + timedelta(days=20)
    world.cloud.reserved = [Discount("g4dn.xlarge", 0.2, 2, ends, source="ri-1")]
    await world.restart()
    await until(lambda: world.provisioner.market.prices.discounts, "the reservations")
    await evaluate(world)
    assert await raised(world) == []
    for days in (7, 1):
        world.clock.advance(days * 86400)
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
    left: list[Any] = list(await world.store.alarms.undelivered())
    assert [each.destination for each in left] == ["json #1"]


# --- limits ---


async def test_a_limit_that_stopped_its_last_server_is_reported(watched: World) -> None:
    watched.silence_agents()
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


async def test_homes_that_fill_a_limit_without_any_server_are_reported(watched: World) -> None:
    watched.silence_agents()
    world = watched
    world.cloud.prices = {("g4dn.xlarge", zone): 0.20 for zone in ("us-east-1a", "us-east-1b")}
    lease, _ = await world.ready("ada", home_kind="ebs", home_gib=16_384)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    world.clock.advance(24 * 3600)
    await world.complete_passes(2)
    limits = Limits(Bounds(usd_per_month=20), {"group:lab": Bounds(usd_per_month=1)})
    await world.restart(limits=limits, spending_days=31)
    assert world.provisioner.lease(lease.lease_id) is None
    await evaluate(world)
    assert await raised(world) == [(Kind.LIMIT, "user:ada/usd_per_month/reached")]


async def test_more_than_a_limit_allows_is_reported_if_it_lasts(watched: World) -> None:
    watched.silence_agents()
    world = watched
    for user, server in (("ada", ""), ("ada", "second"), ("bob", "")):
        await world.ready(user, server=server, idle=NEVER_STOPS)
    hub = Bounds(usd_per_hour=0.1)
    await world.restart(limits=Limits(Bounds(servers=1), {"hub": hub}), spending_days=31)
    await evaluate(world)
    assert await raised(world) == []
    await evaluate(world)
    expected = [
        (Kind.LIMIT, "hub/usd_per_hour/exceeded"),
        (Kind.LIMIT, "user:ada/servers/exceeded"),
    ]
    assert sorted(await raised(world)) == expected
    await evaluate(world)
    await world.settle()
    assert len(await raised(world)) == 2


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
    watched.silence_agents()
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
    found = await world.store.alarms.since(LONG_AGO)
    return [each.alarm.body for each in found if each.alarm.kind is Kind.SUMMARY]
