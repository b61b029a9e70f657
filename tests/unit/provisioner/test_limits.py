"""Limits hold: when many start at once, and while servers run."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from prometheus_client import REGISTRY

from ec2spawner.core.limits.bounds import AtLimit, Bounds, Kind, Limits
from ec2spawner.core.limits.standing import Standing
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.limits.controller import Reach, nearest
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.lease import Lease, LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, Agent, World, until

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


async def start_all(world: World, starts: list[tuple[str, str]]) -> Counter[str]:
    """How many starts of each (user, payer) are admitted when all begin at the same moment."""
    asked = [
        world.request(user, server=f"s{number}", payer=payer)
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
            assert agent.lease is not None
            if world.now(agent.lease).state is LeaseState.READY:
                await agent.heartbeat()
        await world.watch_passes(1)


def is_ready(world: World, agent: Agent) -> bool:
    assert agent.lease is not None
    return world.now(agent.lease).state is LeaseState.READY


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
    ids=lambda bounds: next(kind for kind in Kind if bounds.limit(kind) is not None),
)
async def test_of_fifty_simultaneous_starts_a_limit_for_three_admits_three(
    world: World, bounds: Bounds
) -> None:
    await limited(world, bounds)
    spec = replace(SPEC, markets=(Market.ON_DEMAND,))
    asked = [world.request(server=f"s{n}", spec=spec) for n in range(50)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, Lease) for each in found) == 3
    assert sum(isinstance(each, LimitReached) for each in found) == 47
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 3


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
    labels = {"scope": "user", "limit": "usd_per_month"}
    name = "ec2spawner_denied_starts_total"
    denied = REGISTRY.get_sample_value(name, labels) or 0
    with pytest.raises(LimitReached) as refused:
        await world.request(server="second")
    [recorded] = world.provisioner.overview.denied_starts()
    assert (recorded.server, recorded.refusal) == ("second", refused.value.refusal)
    assert REGISTRY.get_sample_value(name, labels) == denied + 1
    assert refused.value.refusal.kind is Kind.MONTH
    assert refused.value.refusal.left == 100_000_000


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
    await world.restart()
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.request(server="third")
    with pytest.raises(LimitReached):
        await world.request(server="fourth")


async def test_a_users_limit_stops_that_users_servers_and_no_other(world: World) -> None:
    await limited(world, user_ada=Bounds(usd_per_month=0.25))
    lease, ada = await world.ready("ada")
    _, bob = await world.ready("bob")
    await pass_time(world, ada, bob, seconds=3600 + 180)
    status = (await ada.heartbeat()).cost.limit
    assert status is not None
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
    status = (await ada.heartbeat()).cost.limit
    assert status is not None
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
    assert (await bob.heartbeat()).cost.limit is None
    with pytest.raises(LimitReached):
        await world.request("ada")


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
    status = (await ada.heartbeat()).cost.limit
    assert status is not None
    assert (status.scope, status.threshold, status.stops) == ("hub", 100, False)
    assert status.limit is status.used is None, "what others spend is not said"
    with pytest.raises(LimitReached):
        await world.request("cyd")
    await world.restart(limits=Limits(scopes={"hub": Bounds(usd_per_month=0.45)}))
    for agent in (ada, bob):
        await agent.heartbeat()
    await pass_time(world, ada, bob, seconds=60)
    status = (await ada.heartbeat()).cost.limit
    assert status is not None
    assert status.stop_at is not None
    assert status.stop_at > world.clock(), "announced before it stops"
    await pass_time(world, ada, bob, seconds=120)
    assert not is_ready(world, ada)
    assert not is_ready(world, bob)


def test_a_limit_that_only_warns_does_not_hide_one_that_stops() -> None:
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    warned = Standing("hub", Kind.MONTH, 100, 100)
    warns = Reach(warned, Bounds(usd_per_month=1, at_limit=AtLimit.WARN), now)
    stops = Reach(replace(warned, used=50), Bounds(usd_per_month=1), now + timedelta(hours=1))
    unreached = Reach(replace(warned, used=5), Bounds(usd_per_month=1), None)
    assert nearest([warns, stops, unreached]) == stops
    assert nearest([unreached, warns]) == warns


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
    status = (await agent.heartbeat()).cost.limit
    assert status is not None
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
    await world.restart(limits=Limits(Bounds(usd_per_month=ON_DEMAND / 2)))
    for _ in range(45):
        if not is_ready(world, agent):
            break
        await pass_time(world, agent, seconds=60)
    assert not is_ready(world, agent), "half an hour of the list price is used up"
    spending, registry = world.provisioner._state.spending, world.provisioner._state.leases
    assert spending.of("ada", registry).month is None, "pages do not show what is assumed"
