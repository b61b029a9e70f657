"""What admins see besides servers: kept instances, limits, and starts that did not come to be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ec2spawner.core.limits.admission import Obstacle, Refusal
from ec2spawner.core.limits.bounds import Bounds, Kind, Limits
from ec2spawner.provisioner.model.lease import LeaseState
from ec2spawner.provisioner.state.denied_starts import MAX, DeniedStarts
from tests.stored import NOW, lease
from tests.unit.provisioner.world import World

REFUSAL = Refusal("user:ada", Obstacle.LIMIT, Kind.SERVERS, 1, 0, 1)


def test_the_last_denied_start_of_each_server_is_shown_for_a_day() -> None:
    denied = DeniedStarts()
    for minutes in (0, 5, 9):
        denied.record(lease(), REFUSAL, NOW + timedelta(minutes=minutes))
    denied.record(lease(user="bob"), REFUSAL, NOW + timedelta(minutes=7))
    found = denied.since(NOW - timedelta(days=1))
    assert [(each.user, each.at - NOW) for each in found] == [
        ("ada", timedelta(minutes=9)),
        ("bob", timedelta(minutes=7)),
    ]
    assert denied.since(NOW + timedelta(hours=1)) == ()


def test_a_user_who_asks_again_and_again_fills_no_memory() -> None:
    denied = DeniedStarts()
    for number in range(3 * MAX):
        denied.record(lease(server=f"s{number}"), REFUSAL, NOW)
    assert len(denied.since(datetime.min.replace(tzinfo=UTC))) == MAX


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


async def test_limits_of_what_runs_and_of_what_is_spent(world: World) -> None:
    limits = Limits(user=Bounds(servers=2, usd_per_month=10.0), scopes={})
    await world.kill()
    await world.restart(limits=limits)
    await world.request("ada")
    found = {
        each.standing.kind: each.standing
        for each in world.provisioner.overview.limits(["user:ada", "hub"])
    }
    assert set(found) == {Kind.SERVERS, Kind.MONTH}
    assert (found[Kind.SERVERS].used, found[Kind.SERVERS].left) == (1, 1)
    assert found[Kind.MONTH].left == 10 * 10**9
    assert world.provisioner.overview.limits(["hub"]) == ()
