"""What a world's servers cost, and what its ledger says of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from ec2spawner.core.ledger.amount import Amount, between
from ec2spawner.core.ledger.cost_rows import CostSum, Dimension
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, World, until

SPOT = {("g4dn.xlarge", "us-east-1a"): 0.20, ("g4dn.xlarge", "us-east-1b"): 0.20}
"""USD/hour of a T4."""
EVER = (date(2000, 1, 1), date(2100, 1, 1))

DISK = replace(SPEC, disk_gib=90)
"""In November, of 720 hours, 0.08 USD/GiB-month are 0.01 USD/hour."""
STOPPABLE = replace(DISK, markets=(Market.ON_DEMAND,))


async def costs(world: World, *by: Dimension) -> dict[tuple[str, ...], CostSum]:
    return {each.key: each for each in await world.store.ledger.costs(*EVER, by)}


async def paid_for_nothing(world: World) -> set[str]:
    """The users who pay for instances that were bought for a start which has ended; empty for the
    hub. Once nothing more is written of them."""
    await world.complete_passes(2)
    await world.settle()
    found = await costs(world, Dimension.CAUSE, Dimension.USER)
    return {user for cause, user in found if cause == "unassigned"}


def spent(world: World, scope: str) -> Amount:
    state = world.provisioner._state
    return between(state.spending.by_day(scope, state.leases), *EVER)


async def disks(world: World) -> dict[tuple[str, ...], float]:
    """USD of disks, by user and cause."""
    found = await costs(world, Dimension.RESOURCE, Dimension.USER, Dimension.CAUSE)
    return {key[1:]: x.nano_usd / 1e9 for key, x in found.items() if key[0] == "disk"}


async def served(world: World, user: str, seconds: float, server: str = "") -> None:
    """A server that runs for so long and ends."""
    lease, agent = await world.ready(user, server=server)
    await agent.heartbeat_often(seconds)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)


async def forget(world: World) -> None:
    """Time until no ended lease is in memory any more."""
    world.clock.advance(660)
    registry = world.provisioner._state.leases
    world.provisioner._state.wake()
    await until(
        lambda: all(x.state is not LeaseState.ENDED for x in registry.in_memory()), "forgotten"
    )


def refuse(world: World) -> None:
    """No line of the ledger can be written from now on."""
    world.run_sql(
        "CREATE TRIGGER refused BEFORE INSERT ON cost BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )


def accept(world: World) -> None:
    world.run_sql("DROP TRIGGER IF EXISTS refused")
