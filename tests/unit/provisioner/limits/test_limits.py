"""Limits hold: when many start at once, and while servers run."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from prometheus_client import REGISTRY

from ec2spawner.core.alarms.alarm import Kind as AlarmKind
from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.core.limits.bounds import AtLimit, Bounds, Kind, Limits
from ec2spawner.core.limits.standing import Standing
from ec2spawner.core.limits.words import rehearsal_refusal_words
from ec2spawner.core.offers.spot_wait import Wait
from ec2spawner.core.pricing.price_history import PricePoint
from ec2spawner.notebook.status.notices import notices
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.limits.controller import in_order
from ec2spawner.provisioner.limits.reaches import Reach
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.user_account import Identity, UserAccount
from ec2spawner.provisioner.offers.first_readings import LONGEST_WAIT
from ec2spawner.wire import Market
from tests.unit.notebook.test_notices import status
from tests.unit.provisioner.costs import costs, spent
from tests.unit.provisioner.world import SPEC, Agent, World, until
from tests.virtual_time import virtual_loop

SPOT = {("g4dn.xlarge", "us-east-1a"): 0.20, ("g4dn.xlarge", "us-east-1b"): 0.20}
ON_DEMAND = 0.526
"""What a T4 costs at most: a start reserves an hour of it."""


async def limited(world: World, user: Bounds | None = None, **scopes: Bounds) -> World:
    """The hub again, with these limits and known prices; `group_lab` is the scope `group:lab`."""
    world.cloud.prices = dict(SPOT)
    by_scope = {name.replace("_", ":", 1): bounds for name, bounds in scopes.items()}
    await world.restart(limits=Limits(user or Bounds(), by_scope), spending_days=31)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.settle()
    return world


async def start_all(world: World, starts: list[tuple[str, str]], **changes: Any) -> Counter[str]:
    """How many starts of each (user, payer) are admitted when all begin at the same moment."""
    asked = [
        world.request(user, server=f"s{number}", payer=payer, **changes)
        for number, (user, payer) in enumerate(starts)
    ]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(each, Lease | LimitReached) for each in found), found
    return Counter(each.user for each in found if isinstance(each, Lease))


async def pass_time(world: World, *agents: Agent, seconds: float, every: float = 60.0) -> None:
    """Let time pass with agents that are there and busy, as long as their servers run."""
    for _ in range(round(seconds / every)):
        world.clock.advance(every)
        for agent in agents:
            if is_ready(world, agent):
                await agent.heartbeat()
        await world.watch_passes(1)


def denied_count(scope: str, kind: Kind) -> float:
    labels = {"scope": scope, "limit": kind.value}
    return REGISTRY.get_sample_value("ec2spawner_denied_starts_total", labels) or 0


def kind_of(bounds: Bounds) -> Kind:
    """The first limit that is set."""
    return next(kind for kind in Kind if bounds.limit(kind) is not None)


def is_ready(world: World, agent: Agent) -> bool:
    assert agent.lease is not None
    lease = world.provisioner.lease(agent.lease.lease_id)  # forgotten minutes after its end
    return lease is not None and lease.state is LeaseState.READY


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(usd_per_month=3 * ON_DEMAND + 0.1),
        Bounds(usd_per_window=3 * ON_DEMAND + 0.1, window_days=7),
        Bounds(credit_usd=3 * ON_DEMAND + 0.1),
        Bounds(usd_per_hour=3 * ON_DEMAND + 0.1),
        Bounds(gpu_hours_per_month=3.5),
        Bounds(servers=3),
    ],
    ids=kind_of,
)
async def test_of_fifty_simultaneous_starts_a_limit_for_three_admits_three(
    world: World, bounds: Bounds
) -> None:
    await limited(world, bounds)
    spec = replace(SPEC, markets=(Market.ON_DEMAND,))
    assert await start_all(world, [("ada", "")] * 50, spec=spec) == {"ada": 3}
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 3


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(usd_per_month=0.3),
        Bounds(usd_per_window=0.3, window_days=7),
        Bounds(credit_usd=0.3),
        Bounds(gpu_hours_per_month=1.5),
    ],
    ids=kind_of,
)
async def test_any_single_limit_refuses_the_next_start_once_it_is_used_up(
    world: World, bounds: Bounds
) -> None:
    world.silence_agents()
    await limited(world, bounds)
    lease, agent = await world.ready()
    await pass_time(world, agent, seconds=2 * 3600, every=600)
    assert [each.stop.reason for each in world.ended if each.stop] == ["budget"]
    world.clock.advance(86_400)
    await world.complete_passes(1)
    assert world.provisioner.lease(lease.lease_id) is None, "only its sums are left"
    with pytest.raises(LimitReached) as refused:
        await world.request()
    assert refused.value.refusal.kind is kind_of(bounds)


async def test_two_limits_that_bind_different_people_each_admit_their_own(world: World) -> None:
    await limited(
        world, user_ada=Bounds(servers=2), group_lab=Bounds(usd_per_month=3 * ON_DEMAND + 0.1)
    )
    starts = [each for _ in range(16) for each in (("ada", ""), ("bob", "group:lab"), ("cyd", ""))]
    assert await start_all(world, starts) == {"ada": 2, "bob": 3, "cyd": 16}


async def test_a_start_may_not_buy_what_its_limit_cannot_pay(world: World) -> None:
    await limited(world, Bounds(usd_per_month=0.3))
    lease = await world.request()
    assert lease.spec.markets == (Market.SPOT, Market.ON_DEMAND)
    admitted = world.now(lease)
    assert admitted.spec.markets == (Market.SPOT,)
    assert admitted.spec.max_usd_per_hour == 0.20
    denied = denied_count("user", Kind.MONTH)
    with pytest.raises(LimitReached) as refused:
        await world.request(server="second")
    [recorded] = world.provisioner.overview.denied_starts()
    assert (recorded.server, recorded.refusal) == ("second", refused.value.refusal)
    assert denied_count("user", Kind.MONTH) == denied + 1
    assert refused.value.refusal.kind is Kind.MONTH
    assert refused.value.refusal.left == 100_000_000


async def test_a_restart_of_the_hub_forgets_no_refused_start_of_the_last_day(world: World) -> None:
    await limited(world, Bounds(servers=1))
    await world.request()
    for server in ("old", "new", "new"):
        with pytest.raises(LimitReached) as refused:
            await world.request(server=server)
        world.clock.advance(13 * 3600 if server == "old" else 0)
    await world.complete_passes(1)
    await world.restart()
    overview = world.provisioner.overview
    found = {each.server: each for each in overview.denied_starts()}
    assert found.keys() == {"old", "new"}
    assert found["new"].refusal == refused.value.refusal
    world.clock.advance(12 * 3600)
    assert [each.server for each in overview.denied_starts()] == ["new"]
    await world.restart()
    assert [each.server for each in world.provisioner.overview.denied_starts()] == ["new"]


async def test_gpu_hours_bind_what_is_bought(world: World) -> None:
    await limited(world, Bounds(gpu_hours_per_month=2))
    world.provisioner.market.want(("g4dn.12xlarge",))
    catalogue = world.provisioner.market.catalogue
    await until(lambda: catalogue.is_offered("g4dn.12xlarge", "us-east-1a"), "the type")
    spec = replace(SPEC, instance_types=("g4dn.12xlarge", "g4dn.xlarge"))
    lease = await world.request(spec=spec)
    admitted = world.now(lease)
    assert admitted.spec.instance_types == ("g4dn.xlarge",), "the other has four GPUs"
    assert admitted.launch_key == launch_key_of(admitted.spec)
    with pytest.raises(LimitReached):
        await world.request(server="large", spec=replace(SPEC, instance_types=("g4dn.12xlarge",)))


async def test_a_price_that_rises_after_the_admission_is_not_paid(world: World) -> None:
    await limited(world, Bounds(usd_per_month=100))
    spec = replace(SPEC, markets=(Market.ON_DEMAND,))
    lease = await world.request(spec=spec)
    assert world.now(lease).spec.max_usd_per_hour == ON_DEMAND, "though no offer was excluded"


async def test_a_start_that_ended_reserves_nothing(world: World) -> None:
    await limited(world, Bounds(usd_per_hour=ON_DEMAND))
    first = await world.request()
    with pytest.raises(LimitReached):
        await world.request(server="second")
    await world.stop(first)
    await world.state(first, LeaseState.ENDED)
    await world.request(server="second")


async def test_a_restarted_hub_remembers_what_was_spent_and_reserved(world: World) -> None:
    await limited(world, Bounds(usd_per_month=0.7))
    _, agent = await world.ready()
    await pass_time(world, agent, seconds=3600)
    await world.restart()
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    lease = await world.request(server="second")  # 0.50 is left: on-demand is too expensive
    assert world.now(lease).spec.max_usd_per_hour == 0.20
    # A hub that begins does not know for a moment what a waiting start would pay.
    await until(lambda: len(world.cloud.running()) == 2, "an instance for it")
    await world.restart()
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.request(server="third")
    with pytest.raises(LimitReached):
        await world.request(server="fourth")


async def test_a_start_below_a_price_outlives_a_restart(world: World) -> None:
    await limited(world)
    spec = replace(SPEC, max_usd_per_hour=0.20)
    async with world.no_pass:
        lease = await world.request(spec=spec)
        await world.kill()
    gate = world.cloud.hold("spot_history")
    await world.start()
    await world.run_passes(2)
    gate.set()
    await world.boot()
    assert world.now(lease).state is LeaseState.WAITING


async def test_a_start_in_a_hubs_first_seconds_is_judged_by_spot_prices(world: World) -> None:
    world.cloud.prices = dict(SPOT)
    limits = Limits(Bounds(usd_per_month=0.3))
    await world.kill()
    gate = world.cloud.hold("spot_history")
    await world.start(limits=limits, spending_days=31)
    request = asyncio.create_task(world.request("ada"))
    await world.run_passes(2)
    assert not request.done()
    gate.set()
    lease = await request
    assert world.now(lease).spec.max_usd_per_hour == 0.20
    await world.boot()
    assert {each.market for each in world.cloud.requests()} == {Market.SPOT}


async def test_a_hub_that_reads_no_prices_decides_after_some_seconds(world: World) -> None:
    await world.kill()
    gate = world.cloud.hold("spot_history")
    await world.start(limits=Limits(Bounds(usd_per_month=0.3)), spending_days=31)
    begun = virtual_loop().time()
    with pytest.raises(LimitReached):
        await world.request("ada")
    assert virtual_loop().time() - begun < LONGEST_WAIT + 5
    spec = replace(SPEC, markets=(Market.ON_DEMAND,))
    await world.restart(limits=Limits())
    lease = await world.request("bob", spec=spec)
    await world.boot()
    assert world.now(lease).state is LeaseState.WAITING
    gate.set()


async def test_a_hub_that_begins_stops_no_server_by_list_prices(world: World) -> None:
    """Its price was unknown while the last hub ran, and EC2 has it by now."""
    lease, agent = await world.ready("ada", spec=replace(SPEC, markets=(Market.SPOT,)))
    await agent.heartbeat()
    await world.kill()
    past = PricePoint(world.clock() - timedelta(days=1), 0.20)
    world.cloud.histories = dict.fromkeys(SPOT, (past,))
    world.clock.advance(3600)  # 0.526 USD by the list price
    gate = world.cloud.hold("spot_history")
    limits = Limits(Bounds(usd_per_month=0.5), grace_seconds=0.0)
    await world.start(limits=limits, spending_days=31)
    await agent.heartbeat()
    await world.watch_passes(1)
    gate.set()
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    assert spent(world, "user:ada").usd == pytest.approx(0.20, rel=0.01)


async def test_a_users_limit_stops_that_users_servers_and_no_other(world: World) -> None:
    await limited(world, user_ada=Bounds(usd_per_month=0.25))
    lease, ada = await world.ready("ada")
    _, bob = await world.ready("bob")
    await pass_time(world, ada, bob, seconds=3600 + 180)
    [status] = (await ada.heartbeat()).cost.limits
    assert (status.scope, status.name, status.kind, status.threshold) == (
        "user",
        "ada",
        Kind.MONTH,
        75,
    )
    assert status.stop_at is None
    assert status.reached_at is not None
    assert timedelta(minutes=10) < status.reached_at - world.clock() < timedelta(minutes=14)
    await pass_time(world, ada, bob, seconds=240)
    [status] = (await ada.heartbeat()).cost.limits
    assert status.stop_at == status.reached_at
    await pass_time(world, ada, bob, seconds=600)
    answer = await ada.heartbeat()
    assert answer.stop is not None
    assert answer.stop.reason == "budget"
    assert world.now(lease).state is LeaseState.ENDING, "the agent saves before anything ends"
    await ada.event("stopped")
    ended = await world.state(lease, LeaseState.ENDED)
    assert "$0.25 per month" in (ended.stop.message if ended.stop else "")
    assert is_ready(world, bob)
    assert (await bob.heartbeat()).cost.limits == []
    with pytest.raises(LimitReached):
        await world.request("ada")


async def test_an_extension_moves_no_stop_by_a_limit(world: World) -> None:
    await limited(world, user_ada=Bounds(usd_per_month=0.25))
    lease, ada = await world.ready("ada")
    await pass_time(world, ada, seconds=3600 + 480, every=240)
    [announced] = (await ada.heartbeat()).cost.limits
    assert announced.stop_at is not None
    kept = await world.provisioner._heartbeats.extend(world.now(lease), 7200)
    assert kept.extended_until > announced.stop_at
    await pass_time(world, ada, seconds=120)
    [status] = (await ada.heartbeat()).cost.limits
    assert status.stop_at is not None
    assert abs(status.stop_at - announced.stop_at) < timedelta(seconds=1)
    await pass_time(world, ada, seconds=480)
    stop = (await ada.heartbeat()).stop
    assert stop is not None
    assert stop.reason == "budget"


async def test_a_groups_limit_stops_what_is_charged_to_it(world: World) -> None:
    await limited(world, group_lab=Bounds(usd_per_month=0.45))
    _, paid_by_lab = await world.ready("ada", payer="group:lab")
    _, of_bob = await world.ready("bob", payer="group:lab")
    _, of_ada = await world.ready("ada", server="own")
    agents = (paid_by_lab, of_bob, of_ada)
    await pass_time(world, *agents, seconds=2 * 3600, every=300)
    assert [is_ready(world, each) for each in agents] == [False, False, True]


async def test_the_hubs_limit_stops_all_servers_and_a_warning_stops_none(world: World) -> None:
    await limited(world, hub=Bounds(usd_per_month=0.45, at_limit=AtLimit.WARN))
    _, ada = await world.ready("ada")
    _, bob = await world.ready("bob")
    await pass_time(world, ada, bob, seconds=2 * 3600, every=300)
    assert is_ready(world, ada)
    [status] = (await ada.heartbeat()).cost.limits
    assert (status.scope, status.threshold, status.stops) == ("hub", 100, False)
    assert status.limit is status.used is None, "what others spend is not said"
    with pytest.raises(LimitReached):
        await world.request("cyd")
    await world.restart(limits=Limits(scopes={"hub": Bounds(usd_per_month=0.45)}))
    await until(lambda: world.provisioner.market.prices._list_due, "prices")
    for agent in (ada, bob):
        await agent.heartbeat()
    await pass_time(world, ada, bob, seconds=60)
    [status] = (await ada.heartbeat()).cost.limits
    assert status.stop_at is not None
    assert status.stop_at > world.clock(), "announced before it stops"
    await pass_time(world, ada, bob, seconds=120)
    assert not is_ready(world, ada)
    assert not is_ready(world, bob)


def test_a_limit_that_only_warns_is_behind_one_that_stops() -> None:
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    warned = Standing("hub", Kind.MONTH, 100, 100)
    warns = Reach(warned, Bounds(usd_per_month=1, at_limit=AtLimit.WARN), now)
    stops = Reach(replace(warned, used=50), Bounds(usd_per_month=1), now + timedelta(hours=1))
    unreached = Reach(replace(warned, used=5), Bounds(usd_per_month=1), None)
    assert in_order([warns, unreached, stops]) == [stops, warns, unreached]


async def test_a_price_that_rises_above_a_limit_per_hour_warns_and_stops_nothing(
    world: World,
) -> None:
    await limited(world, Bounds(usd_per_hour=0.3), hub=Bounds(servers=1))
    _, agent = await world.ready("ada")
    await pass_time(world, agent, seconds=120)
    assert (await agent.heartbeat()).cost.limits == [], "full limits are not exceeded ones"
    world.cloud.prices = dict.fromkeys(SPOT, 0.45)
    prices = world.provisioner.market.prices
    await until(lambda: prices.price(Market.SPOT, *next(iter(SPOT))).usd_per_hour == 0.45, "it")
    await pass_time(world, agent, seconds=1200)
    [status] = (await agent.heartbeat()).cost.limits
    assert (status.kind, status.threshold, status.stops) == (Kind.RATE, 100, False)
    assert (status.used, status.limit) == (0.45, 0.3)
    [shown] = await world.provisioner.overview.limits(["user:ada"])
    assert (shown.standing.percent, shown.standing.is_exceeded) == (150, True)
    assert is_ready(world, agent)


async def test_a_lowered_limit_of_servers_is_shown_as_exceeded(world: World) -> None:
    await limited(world)
    _, first = await world.ready("ada")
    _, second = await world.ready("ada", server="second")
    await world.restart(limits=Limits(Bounds(servers=1)))
    for agent in (first, second):
        await agent.heartbeat()
    await pass_time(world, first, second, seconds=60)
    [status] = (await first.heartbeat()).cost.limits
    assert (status.kind, status.used, status.limit, status.threshold) == ("servers", 2, 1, 100)
    assert is_ready(world, first)


async def test_a_start_without_an_instance_is_refused_when_its_limit_is_used_up(
    world: World,
) -> None:
    await limited(world, user_ada=Bounds(usd_per_month=0.75))
    _, running = await world.ready("ada")
    world.cloud.sell_out(Market.SPOT)
    wait = Wait(world.clock() + timedelta(days=1))
    spec = replace(SPEC, markets=(Market.SPOT,))
    count = denied_count("user", Kind.MONTH)
    waiting = await world.request("ada", server="second", spec=spec, wait=wait)
    of_bob = await world.request("bob", spec=spec, wait=wait)
    await pass_time(world, running, seconds=600, every=300)
    assert world.now(waiting).state is LeaseState.WAITING, "its limit has something left"
    for _ in range(60):
        if world.now(waiting).state is LeaseState.ENDED:
            break
        await pass_time(world, running, seconds=300, every=300)
    ended = world.now(waiting)
    assert ended.stop is not None
    assert ended.stop.reason == "budget"
    assert "$0.75 per month" in ended.stop.message
    assert world.now(of_bob).state is LeaseState.WAITING
    overview = world.provisioner.overview
    [denied] = overview.denied_starts()
    assert (denied.user, denied.server, denied.refusal.left) == ("ada", "second", 0)
    assert denied.refusal.needed == 200_000_000, "an hour of spot"
    assert overview.failed_starts() == (), "shown once"
    assert denied_count("user", Kind.MONTH) == count + 1
    [alarm] = world.provisioner._state.incidents.waiting()
    assert (alarm.kind, alarm.subject) == (AlarmKind.DENIED_START, "ada/user:ada/usd_per_month")


async def test_a_start_that_has_its_instance_continues_at_its_limit(world: World) -> None:
    await limited(world, Bounds(usd_per_month=0.21))
    lease = await world.request("ada")
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    await world.restart(limits=Limits(Bounds(usd_per_month=0)))
    await world.watch_passes(2)
    assert world.now(lease).state is LeaseState.STARTING
    for step in ("home", "notebook", "ready"):
        await agent.event(step)
    await agent.heartbeat()
    await pass_time(world, agent, seconds=30, every=15)
    [status] = (await agent.heartbeat()).cost.limits
    assert status.stop_at is not None, "announced as to any server"
    assert is_ready(world, agent)


async def test_a_start_whose_instance_boots_continues_at_its_limit(world: World) -> None:
    await limited(world, Bounds(usd_per_month=1))
    spec = replace(SPEC, markets=(Market.SPOT,))
    first = await world.request("ada", spec=spec)
    [instance_id] = await world.boot()
    world.cloud.sell_out(Market.SPOT)  # in both zones
    wait = Wait(world.clock() + timedelta(days=1))
    second = await world.request("ada", server="second", spec=spec, wait=wait)
    await world.restart(limits=Limits(Bounds(usd_per_month=0)))
    await world.state(second, LeaseState.ENDED)
    await world.watch_passes(2)
    assert world.now(first).state is LeaseState.WAITING
    assert world.cloud.running() == [instance_id]
    assert (await Agent(world, instance_id).serve()).lease_id == first.lease_id


async def test_gpu_hours_that_are_used_up_stop_no_server_without_a_gpu(world: World) -> None:
    await limited(world, Bounds(gpu_hours_per_month=1))
    spec = replace(SPEC, instance_types=("m7i.xlarge",), markets=(Market.ON_DEMAND,))
    catalogue = world.provisioner.market.catalogue
    world.provisioner.market.want(("m7i.xlarge",))
    await until(lambda: catalogue.is_offered("m7i.xlarge", "us-east-1a"), "the type")
    _, gpu = await world.ready("ada")
    _, cpu = await world.ready("ada", server="cpu", spec=spec)
    await pass_time(world, gpu, cpu, seconds=2 * 3600, every=300)
    assert [is_ready(world, each) for each in (gpu, cpu)] == [False, True]
    assert (await cpu.heartbeat()).cost.limits == []


async def test_each_limit_of_a_server_is_reported_as_it_passes_its_shares(world: World) -> None:
    await limited(
        world,
        user_ada=Bounds(usd_per_month=1.0),
        group_lab=Bounds(usd_per_month=0.5),
        hub=Bounds(gpu_hours_per_month=100),
    )
    _, agent = await world.ready("ada", payer="group:lab")
    seen: dict[str, list[int]] = {}
    for _ in range(12):
        await pass_time(world, agent, seconds=600, every=300)
        for each in (await agent.heartbeat()).cost.limits:
            passed = seen.setdefault(each.scope, [])
            if each.threshold and each.threshold not in passed:
                passed.append(each.threshold)
    assert seen == {"user": [25], "group": [25, 50, 75], "hub": []}
    order = [each.scope for each in (await agent.heartbeat()).cost.limits]
    assert order == ["group", "user", "hub"], "the one that is used up first"


async def test_a_share_of_any_limit_wakes_the_held_heartbeat(world: World) -> None:
    await limited(world, Bounds(usd_per_month=1.0), hub=Bounds(usd_per_month=0.5))
    _, agent = await world.ready("ada")
    await pass_time(world, agent, seconds=60)
    before = agent.state_seen
    await pass_time(world, agent, seconds=2400)  # a quarter of the hub's limit
    assert agent.state_seen > before
    before = agent.state_seen
    await pass_time(world, agent, seconds=900)
    assert agent.state_seen == before, "nothing was passed"
    await pass_time(world, agent, seconds=1500)  # a quarter of the user's
    assert agent.state_seen > before


async def test_a_month_ends_in_the_hubs_time_zone(world: World) -> None:
    zone = ZoneInfo("Pacific/Auckland")
    await limited(world, Bounds(usd_per_month=0.25))
    await world.restart(time_zone=zone)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    local = world.clock().astimezone(zone)
    first = (local.replace(day=28) + timedelta(days=4)).replace(day=1, hour=0, minute=0, second=0)
    world.clock.advance((first - local).total_seconds() - 1800)
    _, agent = await world.ready()
    await pass_time(world, agent, seconds=3600, every=300)
    [status] = (await agent.heartbeat()).cost.limits
    assert 39 <= status.percent <= 42, "half an hour of this month, not of the last"
    assert status.renews is not None
    assert status.renews.month == first.month % 12 + 1


async def test_what_many_scopes_have_spent_is_what_each_has(world: World) -> None:
    await limited(world, Bounds(usd_per_month=100))
    _, ada = await world.ready("ada", payer="group:lab")
    _, bob = await world.ready("bob", payer="group:lab")
    await pass_time(world, ada, bob, seconds=1800, every=300)
    await world.stop(world.now(ada.lease))
    state = world.provisioner._state
    scopes = {"user:ada", "user:bob", "group:lab", "hub", "user:cyd"}
    spent = await state.spending.by_scope(scopes, state.leases)
    assert spent == {scope: state.spending.by_day(scope, state.leases) for scope in scopes}
    assert spent["group:lab"] != {}


async def test_an_overrun_credit_is_not_full_again_when_its_days_are_forgotten(
    world: World,
) -> None:
    world.silence_agents()
    lab = Bounds(credit_usd=0.5, credit_usd_per_day=0.01, at_limit=AtLimit.WARN)
    await limited(world, group_lab=lab)
    await world.restart(spending_days=Limits(scopes={"group:lab": lab}).days)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    lease, agent = await world.ready("ada", payer="group:lab")
    await pass_time(world, agent, seconds=10 * 3600, every=600)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    for days in (60, 60):  # 1.20 is refilled of the 2.00 that were spent
        world.clock.advance(days * 86400)
        await world.complete_passes(2)
    spending, registry = world.provisioner._state.spending, world.provisioner._state.leases
    before = spending.by_day("group:lab", registry)
    assert len(before) == 1, "folded"
    with pytest.raises(LimitReached):
        await world.request("ada", payer="group:lab")
    await world.restart()
    spending, registry = world.provisioner._state.spending, world.provisioner._state.leases
    assert spending.by_day("group:lab", registry) == before


async def test_an_unknown_price_counts_as_the_list_price(world: World) -> None:
    """No spot price is known here."""
    lease, agent = await world.ready("ada")
    assert world.now(lease).segments[-1].usd_per_hour is None
    bounds = Bounds(usd_per_month=ON_DEMAND / 2)
    await world.restart(limits=Limits(bounds), recovery_grace=7200)
    for _ in range(45):
        if not is_ready(world, agent):
            break
        await pass_time(world, agent, seconds=60)
    assert not is_ready(world, agent), "half an hour of the list price is used up"
    spending, registry = world.provisioner._state.spending, world.provisioner._state.leases
    spent = spending.of("ada", registry)
    assert (spent.month, spent.known_month) == (None, None), "pages do not show what is assumed"
    [before] = await world.provisioner.overview.limits(["user:ada"])
    assert not before.standing.at_least
    await agent.event("stopped")
    ended = await world.state(lease, LeaseState.ENDED)
    assert ended.stop is not None
    assert ended.stop.reason == "budget"
    await world.restart()
    world.clock.advance(660)
    await world.complete_passes(1)
    spending, registry = world.provisioner._state.spending, world.provisioner._state.leases
    assert world.provisioner.lease(lease.lease_id) is None, "only the store's sums are left"
    [after] = await world.provisioner.overview.limits(["user:ada"])
    assert after.standing.used >= before.standing.used
    assert after.standing.is_reached
    assert spending.of("ada", registry).month is None


async def test_what_has_no_price_at_all_makes_what_is_used_a_lower_bound(world: World) -> None:
    """Neither a spot price nor a list price is known here."""
    world.silence_agents()
    await world.restart(region="eu-test-1")
    lease, agent = await world.ready("ada")
    await pass_time(world, agent, seconds=1800)
    await world.restart(limits=Limits(Bounds(usd_per_month=1, usd_per_hour=1)))
    await agent.heartbeat()
    await pass_time(world, agent, seconds=120)
    [status] = (await agent.heartbeat()).cost.limits
    assert (status.used, status.at_least) == (0.0, True)
    assert is_ready(world, agent), "nothing is known to be used up"
    month, rate = (each.standing for each in await world.provisioner.overview.limits(["user:ada"]))
    assert month.at_least
    assert rate.at_least
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    world.clock.advance(660)
    await world.complete_passes(1)
    for _ in range(2):
        [month, rate] = (x.standing for x in await world.provisioner.overview.limits(["user:ada"]))
        assert month.at_least, "also as a sum of days, and read back from the store"
        assert not rate.at_least, "nothing runs"
        await world.restart()


# --- who may no longer charge a payer ---


async def test_a_server_stops_once_its_user_has_left_the_group_that_pays(world: World) -> None:
    """With a notice in open pages; others of the group, and the user's own servers, run on."""
    lease, agent = await world.ready("ada", payer="group:lab")
    own, ada = await world.ready("ada", server="own")
    of_bob, bob = await world.ready("bob", payer="group:lab")
    agents = (agent, ada, bob)
    await pass_time(world, *agents, seconds=120)
    assert (await agent.heartbeat()).message is None
    world.lost_payers = {("ada", "group:lab")}
    await pass_time(world, *agents, seconds=120)
    message = (await agent.heartbeat()).message
    assert message is not None
    assert "its payer no longer pays for its owner" in message.text
    assert "lab" not in message.text, "guests read it, too"
    await pass_time(world, *agents, seconds=300)
    assert is_ready(world, agent), "the notice is of ten minutes"
    await pass_time(world, *agents, seconds=360)
    ended = await world.state(lease, LeaseState.ENDED)
    assert ended.stop is not None
    assert ended.stop.reason == "budget"
    assert "group lab, which no longer pays for ada" in ended.stop.message
    assert is_ready(world, ada)
    assert is_ready(world, bob)
    assert (own.payer, of_bob.payer) == ("", "group:lab")


async def test_whose_payer_is_lost_reads_names_and_no_keys(world: World) -> None:
    """Of a second account with the name, and where one user pays for another."""
    key = "ada/7"
    lease, agent = await world.ready(key, payer="user:bob/9")
    for each, name in ((key, "ada"), ("bob/9", "bob")):
        identity = Identity(int(each[-1]), world.clock())
        world.provisioner.accounts._put(UserAccount(each, each, name, identity, world.clock()))
    world.lost_payers = {(key, "user:bob/9")}
    await pass_time(world, agent, seconds=900)
    ended = await world.state(lease, LeaseState.ENDED)
    assert ended.stop is not None
    assert "charged to bob, which no longer pays for ada." in ended.stop.message


async def test_a_start_that_waits_ends_at_once_and_who_is_back_in_the_group_stays(
    world: World,
) -> None:
    lease, agent = await world.ready("ada", payer="group:lab")
    world.lost_payers = {("ada", "group:lab"), ("bob", "group:lab")}
    waiting = await world.request("bob", payer="group:lab")
    await pass_time(world, agent, seconds=120)
    ended = await world.state(waiting, LeaseState.ENDED)
    assert ended.stop is not None
    assert "group lab" in ended.stop.message
    world.lost_payers = set()
    await pass_time(world, agent, seconds=900)
    assert is_ready(world, agent)
    assert lease.payer == "group:lab"


# --- what runs without a lease counts against the hub ---


LINGER = AfterStop("linger", 7200.0)
SPOT_ONLY = replace(SPEC, markets=(Market.SPOT,))


async def lingering(world: World, user: str = "ada", payer: str = "") -> Agent:
    """An instance is kept for the user, whose server has stopped."""
    lease, agent = await world.ready(user, spec=SPOT_ONLY, after_stop=LINGER, payer=payer)
    await agent.heartbeat()
    await asyncio.gather(world.stop(lease), agent.event("stopped"))
    await world.state(lease, LeaseState.ENDED)
    return agent


async def test_what_is_kept_counts_against_the_hubs_rate_but_not_against_its_own_start(
    world: World,
) -> None:
    await limited(world, hub=Bounds(usd_per_hour=0.3))
    await lingering(world)
    [shown] = await world.provisioner.overview.limits(["hub"])
    assert shown.standing.used == 200_000_000
    preview = world.provisioner.admission.preview("bob", "", "")
    assert preview.of_scopes[0].rate == 200_000_000
    with pytest.raises(LimitReached) as refused:
        await world.request("bob", spec=SPOT_ONLY)
    assert (refused.value.refusal.kind, refused.value.refusal.left) == (Kind.RATE, 100_000_000)
    assert world.provisioner.admission.preview("ada", "", "").of_scopes[0].rate == 0
    of_another = world.provisioner.admission.preview("ada", "other", "")
    assert of_another.of_scopes[0].rate == 200_000_000, "as its start is judged"
    await world.request("ada", spec=SPOT_ONLY, after_stop=LINGER)
    [account] = world.provisioner.admission.preview("eve", "", "").of_scopes
    assert account.rate == 200_000_000, "the lease that waits for it has reserved it"


async def test_what_lingers_counts_in_the_limits_of_its_user_and_payer(world: World) -> None:
    """Its user may be root there, and leave work running after each stop."""
    await limited(world, Bounds(usd_per_hour=0.3), group_lab=Bounds(usd_per_month=3))
    await lingering(world, payer="group:lab")
    preview = world.provisioner.admission.preview("ada", "other", "group:lab")
    assert [each.rate for each in preview.of_scopes] == [200_000_000, 0]
    assert world.provisioner.admission.preview("ada", "", "").of_scopes[0].rate == 0
    before = spent(world, "group:lab")
    world.clock.advance(600)
    await world.request("ada", spec=SPOT_ONLY, after_stop=LINGER, payer="group:lab")
    await until(lambda: spent(world, "group:lab").usd != before.usd, "it is counted")
    await world.settle()
    for scope in ("user:ada", "group:lab", "hub"):
        assert spent(world, scope).usd == pytest.approx(before.usd + 0.2 / 6, rel=0.01)
    await world.restart()
    assert spent(world, "group:lab").usd == pytest.approx(before.usd + 0.2 / 6, rel=0.01)


@pytest.mark.parametrize("at_limit", AtLimit)
async def test_an_instance_lingers_no_longer_than_its_user_can_pay(
    world: World, at_limit: AtLimit
) -> None:
    await limited(world, Bounds(usd_per_month=0.25, at_limit=at_limit))
    agent = await lingering(world)
    for _ in range(60):
        world.clock.advance(120)
        await world.complete_passes(1)
        if agent.instance_id not in world.cloud.running():
            break
        await agent.claim(wait=0)
    await world.settle()
    assert agent.instance_id not in world.cloud.running()
    assert spent(world, "user:ada").usd == pytest.approx(0.25, abs=0.03)


async def test_a_rehearsal_is_refused_where_nothing_is_left_for_it(world: World) -> None:
    await limited(world, Bounds(usd_per_month=0.6))
    lease, _ = await world.ready("ada", spec=SPOT_ONLY)
    rehearsals = world.provisioner.rehearsals
    rehearsals.check(lease, 2, by_owner=True)
    with pytest.raises(LimitReached) as refused:
        await rehearsals.charge(lease, 5, by_owner=True)
    words = rehearsal_refusal_words(refused.value.refusal, "Eve", refused.value.bounds)
    assert words.startswith("The limit of $0.60 per month of ada: $0.39 is left")
    assert "AWS charges $0.50 for a rehearsal" in words
    rehearsals.check(lease, 5, by_owner=False)


async def test_what_was_bought_for_a_cancelled_start_counts_in_its_limits(world: World) -> None:
    """Also where another start has the instance: that pays from its request on."""
    await limited(world, Bounds(usd_per_month=0.24))
    for user in ("ada", "bob"):
        lease = await world.request(user, spec=SPOT_ONLY, payer="group:lab")
        [instance_id] = await world.boot()
        world.clock.advance(900)
        await world.watch_passes(1)
        if user == "ada":
            await world.stop(lease)
            await until(lambda: not world.cloud.running(), "it is terminated")
        else:
            world.provisioner._state.pool.holds_surplus = True
            await world.stop(lease)
            world.clock.advance(60)
            await world.request("eve", spec=SPOT_ONLY)
            await Agent(world, instance_id).serve()
        await world.complete_passes(2)
        await world.settle()
        assert spent(world, f"user:{user}").usd == pytest.approx(0.2 / 4, abs=0.01), user
    assert spent(world, "group:lab").usd == pytest.approx(0.4 / 4, abs=0.02)
    assert spent(world, "user:eve").known_usd < 0.005
    found = await costs(world, Dimension.CAUSE, Dimension.USER)
    assert found["unassigned", "ada"].nano_usd == pytest.approx(0.05e9, abs=0.01e9)
    with pytest.raises(LimitReached):
        await world.request("ada", spec=SPOT_ONLY)


async def test_an_instance_that_boots_for_a_start_counts_once(world: World) -> None:
    await limited(world, hub=Bounds(usd_per_hour=0.45))
    await world.request("ada", spec=SPOT_ONLY)
    await world.boot()
    await world.complete_passes(2)
    await world.request("bob", spec=SPOT_ONLY)
    with pytest.raises(LimitReached):
        await world.request("eve", spec=SPOT_ONLY)


async def test_users_are_notified_when_what_is_kept_exceeds_the_hubs_rate(world: World) -> None:
    await limited(world)
    await lingering(world)
    _, agent = await world.ready("bob", spec=SPOT_ONLY)
    await limited(world, hub=Bounds(usd_per_hour=0.3))
    await agent.heartbeat()
    await pass_time(world, agent, seconds=60)
    [status] = (await agent.heartbeat()).cost.limits
    assert (status.kind, status.percent, status.stops) == (Kind.RATE, 133, False)


async def test_the_disks_of_a_stopped_instance_count_against_the_hubs_rate(world: World) -> None:
    await limited(world, hub=Bounds(usd_per_hour=5))
    spec = replace(SPEC, markets=(Market.ON_DEMAND,), disk_gib=900)
    stop = AfterStop("stop", 7 * 86400.0, per_user=2)
    lease, agent = await world.ready("ada", spec=spec, after_stop=stop)
    await agent.heartbeat()
    await asyncio.gather(world.stop(lease), agent.event("stopped"))
    await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped")
    await world.complete_passes(1)
    [shown] = await world.provisioner.overview.limits(["hub"])
    assert shown.standing.used == pytest.approx(900 * 0.08 / 720 * 1e9, rel=1e-6)


# --- forecasts count what costs without a server ---


SCANNED = timedelta(minutes=17)
"""After which a new home is known."""

LARGE_GIB = 16_384
HOME_USD = LARGE_GIB * 0.08 / (30 * 24)
"""Of that home, in an hour of November."""


async def test_the_forecast_and_the_notice_before_a_stop_count_homes(world: World) -> None:
    """The ledger has them once an hour: the instant does not jump with it."""
    world.silence_agents()
    await limited(world, user_ada=Bounds(usd_per_month=2 * (HOME_USD + 0.2)))
    _, agent = await world.ready("ada", home_kind="ebs", home_gib=LARGE_GIB)
    begin, forecasts, announced = world.clock(), set[datetime](), set[datetime]()
    while is_ready(world, agent) and world.clock() < begin + timedelta(hours=3):
        await pass_time(world, agent, seconds=120, every=60)
        await world.settle()
        for each in (await agent.heartbeat()).cost.limits:
            if each.reached_at is not None and world.clock() > begin + SCANNED:
                forecasts.add(each.reached_at)
            announced |= {world.clock()} if each.stop_at else set()
    ended = world.clock()
    assert timedelta(minutes=115) < ended - begin < timedelta(minutes=125)
    assert max(forecasts) - min(forecasts) < timedelta(minutes=6)
    assert ended - min(announced) > timedelta(minutes=7), "its user was notified in time"
    world.clock.advance(3600)  # what its home cost is in the ledger by then
    await world.complete_passes(2)
    with pytest.raises(LimitReached):
        await world.request("ada", server="second")


async def test_homes_that_fill_a_limit_at_once_leave_a_server_its_grace(world: World) -> None:
    await limited(world, user_ada=Bounds(usd_per_month=2 * (HOME_USD + 0.2)))
    _, agent = await world.ready("ada", home_kind="ebs", home_gib=LARGE_GIB)
    await pass_time(world, agent, seconds=600)
    await world.kill()
    world.clock.advance(3 * 3600)
    await world.start()
    await world.complete_passes(1)
    await agent.heartbeat()
    await pass_time(world, agent, seconds=30, every=15)
    [status] = (await agent.heartbeat()).cost.limits
    assert status.stop_at is not None
    assert status.stop_at - world.clock() > timedelta(seconds=60)
    assert is_ready(world, agent)


async def test_the_hubs_forecast_counts_what_no_lease_holds(world: World) -> None:
    await limited(world)
    await lingering(world)
    _, agent = await world.ready("bob", spec=SPOT_ONLY)
    await limited(world, hub=Bounds(usd_per_month=0.4))
    await agent.heartbeat()
    await pass_time(world, agent, seconds=60)
    [status] = (await agent.heartbeat()).cost.limits
    assert status.reached_at is not None
    left = status.reached_at - world.clock()
    assert timedelta(minutes=50) < left < timedelta(minutes=60), "not two hours"


# --- notices of shares ---


async def test_a_share_of_a_window_or_a_credit_is_news_once_for_each_crossing(
    world: World,
) -> None:
    """A home uses both steadily; a server starts each noon, and hubs end between."""
    world.silence_agents()
    a_day = 24 * HOME_USD
    bounds = Bounds(
        usd_per_window=3.6 * a_day,
        window_days=3,
        credit_usd=6 * a_day,
        credit_usd_per_day=a_day / 4,
    )
    await limited(world, user_ada=bounds)
    seen: dict[tuple[str, int], list[str]] = {}
    renews: dict[str, set[object]] = {}
    for number in range(8):
        lease, agent = await world.ready("ada", home_kind="ebs", home_gib=LARGE_GIB)
        await pass_time(world, agent, seconds=60, every=30)
        cost = (await agent.heartbeat()).cost
        for each in cost.limits:
            renews.setdefault(each.kind, set()).add(each.renews)
            one = cost.model_copy(update={"limits": [each]})
            for notice in notices(status(world.clock(), cost=one)):
                seen.setdefault((each.kind, each.threshold), []).append(notice.id)
        await world.stop(lease)
        await world.state(lease, LeaseState.ENDED)
        if number % 3 == 2:
            await world.restart()
            await until(lambda: world.provisioner.market.prices._spot, "prices")
        world.clock.advance(86_400)
        await world.complete_passes(1)
    assert {key: len(set(ids)) for key, ids in seen.items()} == dict.fromkeys(seen, 1)
    assert len(seen[Kind.WINDOW, 50]) >= 4, "on as many days"
    assert len(seen[Kind.CREDIT, 50]) >= 2
    assert all(len(days) > 4 for days in renews.values())
