"""Which instances the pool asks for: by starts of the last weeks, by hours, by zones of homes."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from ec2spawner.core.hours_of_week import Hours
from ec2spawner.core.pool.rules import Auto, PoolRule, PoolRules
from ec2spawner.core.pool.targets import ReasonCode
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.pool.pool_world import begin, rules, standing
from tests.unit.provisioner.world import SPEC, World, until


async def started(world: World, user: str, **changes: Any) -> None:
    """A server that was ready and has ended."""
    lease, _ = await world.ready(user, **changes)
    world.silence_agents()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: not world.cloud.running(), "its instance ends")


async def test_auto_follows_the_starts_of_the_last_weeks(world: World) -> None:
    for _ in range(3):  # on three Fridays at noon
        for number in range(2):
            await started(world, f"user-{number}")
        world.clock.advance(7 * 86400)
        await world.complete_passes(1)
    automatic = PoolRules((PoolRule("t4", Auto(0, 10), Market.SPOT),))
    await begin(world, automatic)
    await world.boot(2)
    codes = [each.code for each in standing(world).target.reasons]
    assert codes == [ReasonCode.FORECAST]
    world.clock.advance(6 * 3600)
    await until(lambda: not world.cloud.running(), "nobody starts at six in the evening")


async def test_the_pool_begins_a_boot_before_its_hours_and_ends_with_them(world: World) -> None:
    hours = Hours(tuple(range(7)), 12 * 60 + 10, 13 * 60, "UTC")  # it is noon
    await begin(world, rules(1, hours=hours))
    await world.complete_passes(2)
    assert not world.cloud.running()
    world.clock.advance(7 * 60 + 1)
    await world.boot(1)
    world.clock.advance(3600)
    await until(lambda: not world.cloud.running(), "the hours are over")


async def test_places_are_spread_over_the_zones_of_homes(world: World) -> None:
    for user in ("ann", "bob", "eva"):
        await started(world, user, home_kind="ebs", spec=SPEC)
    homes = Counter(volume.zone for volume in world.cloud.volumes.values())
    await world.restart(pool=rules(3))
    world.provisioner.pool.set_specs({"t4": SPEC}, {}, homes_bind=True)
    await until(lambda: world.provisioner._state.pool.starts.get("t4"), "the history is read")
    await until(
        lambda: (
            Counter(world.cloud.machines[each].instance.zone for each in world.cloud.running())
            == homes
        ),
        f"as the homes: {homes}",
    )


async def test_a_start_that_failed_is_no_demand(world: World) -> None:
    lease = await world.request()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    found = await world.store.starts_since({"t4"}, world.clock() - timedelta(days=28))
    assert found == {"t4": []}
