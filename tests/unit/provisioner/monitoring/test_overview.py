"""What admins see besides servers: kept instances, limits, and starts that did not come to be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner.core.limits.admission import Obstacle, Refusal
from ec2spawner.core.limits.bounds import Bounds, Kind, Limits
from ec2spawner.provisioner.model.leases.denied_start import KEPT
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.state.denied_starts import MAX, DeniedStarts
from ec2spawner.wire import Market
from tests.stored import NOW, lease
from tests.unit.provisioner.populated_world import BUSY
from tests.unit.provisioner.world import SPEC, Agent, World, until

REFUSAL = Refusal("user:ada", Obstacle.LIMIT, Kind.SERVERS, 1, 0, 1)


async def test_the_last_denied_start_of_each_server_is_shown_for_a_day(world: World) -> None:
    denied = DeniedStarts(world.store)
    for minutes in (0, 5, 9):
        denied.record(lease(), REFUSAL, NOW + timedelta(minutes=minutes))
    denied.record(lease(user="bob"), REFUSAL, NOW + timedelta(minutes=7))
    found = denied.since(NOW - timedelta(days=1))
    assert [(each.user, each.at - NOW) for each in found] == [
        ("ada", timedelta(minutes=9)),
        ("bob", timedelta(minutes=7)),
    ]
    assert denied.since(NOW + timedelta(hours=1)) == ()


async def test_a_denied_start_of_more_than_a_day_ago_is_stored_no_more(world: World) -> None:
    denied = DeniedStarts(world.store)
    for server, at in (("old", NOW), ("late", NOW + timedelta(hours=1)), ("new", NOW + KEPT)):
        denied.record(lease(server=server), REFUSAL, at)
    assert [each.server for each in denied.since(NOW - KEPT)] == ["new", "late"]
    await world.store.write_behind.retry()
    assert {each.server for each in (await world.store.load()).denied_starts} == {"new", "late"}


async def test_a_user_who_asks_again_and_again_fills_no_memory_and_hides_no_other(
    world: World,
) -> None:
    denied = DeniedStarts(world.store)
    denied.record(lease(user="bob"), REFUSAL, NOW)
    for number in range(1, 3 * MAX):
        denied.record(lease(server=f"s{number}"), REFUSAL, NOW + timedelta(seconds=number))
    *ada, bob = denied.since(datetime.min.replace(tzinfo=UTC))
    assert bob.user == "bob"
    assert [each.server for each in ada] == [f"s{3 * MAX - n}" for n in range(1, MAX)]


async def test_servers_of_one_user_or_of_all(world: World) -> None:
    await world.ready("ada")
    await world.request("bob")
    overview = world.provisioner.overview
    assert [each.lease.user for each in overview.servers()] == ["ada", "bob"]
    [mine] = overview.servers("ada")
    assert mine.lease.state is LeaseState.READY
    assert mine.instance is not None
    assert mine.instance.instance_id == mine.lease.instance_id
    assert overview.servers("eve") == ()


async def test_what_boots_is_unassigned_until_it_has_its_server(world: World) -> None:
    overview = world.provisioner.overview
    lease = await world.request("ada")
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    [booting] = overview.unassigned()
    assert (booting.instance.instance_id, booting.status) == (instance_id, "starting")
    world.cloud.fail("terminate", BUSY, times=3)
    await world.stop(lease)
    await until(lambda: "ending" in {x.status for x in overview.unassigned()}, "it is surplus")
    await until(lambda: not overview.unassigned(), "it is terminated")
    await world.ready("bob")
    assert overview.unassigned() == ()


async def test_all_limits_that_are_nearly_used_are_listed_the_worst_first(world: World) -> None:
    month = Bounds(usd_per_month=1.07)  # 75 % of it is spent in four hours, 74 % of the user's
    await world.restart(
        limits=Limits(
            user=Bounds(servers=1, usd_per_month=1.08, usd_per_hour=0.3),
            scopes={"group:lab": month, "project:nlp": Bounds(usd_per_month=0), "hub": month},
        ),
        spending_days=31,
        time_zone=UTC,
    )
    world.cloud.prices = {("g4dn.xlarge", f"us-east-1{zone}"): 0.2 for zone in "ab"}
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    spec = replace(SPEC, markets=(Market.SPOT,))
    _, agent = await world.ready("ada", payer="group:lab", spec=spec)
    overview = world.provisioner.overview
    found = [each.standing for each in (await overview.hub_limits()).nearly_used]
    assert [(each.scope, each.kind) for each in found] == [
        ("project:nlp", Kind.MONTH),
        ("user:ada", Kind.SERVERS),
    ]
    await agent.heartbeat_often(4 * 3600 + 60, every=300)
    nlp, *both, full = (await overview.hub_limits()).nearly_used
    assert full.standing.kind is Kind.SERVERS, "it only refuses starts: last, though at 100 %"
    assert (nlp.standing.scope, nlp.standing.percent) == ("project:nlp", 100)
    assert [(x.standing.scope, x.standing.percent) for x in both] == [
        ("group:lab", 75),
        ("hub", 75),
    ]
    for each in both:
        assert each.reached_at is not None
        assert timedelta(minutes=75) < each.reached_at - world.clock() < timedelta(minutes=85)
    await world.restart(limits=Limits(user=Bounds(usd_per_hour=0.1)))
    [exceeded] = (await world.provisioner.overview.hub_limits()).nearly_used
    assert (exceeded.standing.scope, exceeded.standing.percent) == ("user:ada", 200)


async def home_is_known(world: World, agent: Agent) -> None:
    """To this process, by a scan of all volumes."""
    for _ in range(20):
        if world.provisioner._state.home_storage.mib_of("user:ada"):
            return
        await agent.heartbeat_often(120)
        await world.complete_passes(1)
    raise AssertionError("no scan")


async def test_the_hubs_rate_has_homes_and_instances_without_a_server(world: World) -> None:
    world.cloud.prices = {("g4dn.xlarge", f"us-east-1{zone}"): 0.2 for zone in "ab"}
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    _, agent = await world.ready("ada", home_kind="ebs", home_gib=9000)
    await home_is_known(world, agent)
    await world.request("bob")
    await world.boot(2)
    await world.complete_passes(1)
    home = 9000 * 0.08 / 720
    limits = await world.provisioner.overview.hub_limits()
    assert limits.rate.usd == pytest.approx(0.4 + home)
    assert (limits.rate.known_usd, limits.rate.unpriced) == (limits.rate.usd, 0)
    await world.restart(limits=Limits(user=Bounds(usd_per_month=100)))
    await home_is_known(world, agent)
    [limit] = await world.provisioner.overview.limits(["user:ada"])
    assert limit.reached_at is not None
    left = (limit.reached_at - world.clock()) / timedelta(hours=1)
    assert left == pytest.approx((100 - limit.standing.used / 1e9) / (0.2 + home), rel=0.02)


async def test_limits_of_what_runs_and_of_what_is_spent(world: World) -> None:
    limits = Limits(user=Bounds(servers=2, usd_per_month=10.0), scopes={})
    await world.kill()
    await world.restart(limits=limits)
    await world.request("ada")
    found = {
        each.standing.kind: each.standing
        for each in await world.provisioner.overview.limits(["user:ada", "hub"])
    }
    assert set(found) == {Kind.SERVERS, Kind.MONTH}
    assert (found[Kind.SERVERS].used, found[Kind.SERVERS].left) == (1, 1)
    assert found[Kind.MONTH].left == 10 * 10**9
    assert await world.provisioner.overview.limits(["hub"]) == ()
