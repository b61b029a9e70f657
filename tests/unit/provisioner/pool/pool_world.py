"""A world with a warm pool: its rule, and what the tests look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ec2spawner.core.pool.rules import PoolRule, PoolRules
from ec2spawner.core.tags import POOL
from ec2spawner.provisioner.pool.standing import Standing
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, Agent, World, until


def rules(running: int = 2, **fields: Any) -> PoolRules:
    """One rule for `t4` on spot; `total` is the cap of all."""
    total = fields.pop("total", None)
    market = fields.pop("market", Market.SPOT)
    return PoolRules((PoolRule("t4", running, market, **fields),), total)


async def begin(world: World, pool: PoolRules, **settings: Any) -> None:
    """The hub starts again, with this pool."""
    await world.restart(pool=pool, **settings)
    name_spec(world)
    await until(lambda: world.provisioner.pool.standings(), "targets")


def name_spec(world: World, **changes: Any) -> None:
    """The hub says what an instance of the profile is."""
    world.provisioner.pool.set_specs({"t4": replace(SPEC, **changes)}, {}, homes_bind=False)


def standing(world: World) -> Standing:
    [found] = world.provisioner.pool.standings()
    return found


def of_pool(world: World) -> list[str]:
    """Ids of the running instances that were bought for the pool."""
    return [each for each in world.cloud.running() if POOL in world.cloud.tags(each)]


class Pool:
    """The agents of the pool's instances: each claims once its instance runs, and waits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.agents: dict[str, Agent] = {}

    def advance(self, seconds: float) -> None:
        """Let time pass, in which all agents claim again and again."""
        self.world.clock.advance(seconds)
        for instance_id in self.agents:
            self.world.provisioner._state.claims.heard(instance_id)

    async def boot(self, number: int = 1) -> list[Agent]:
        """So many agents have claimed and wait."""
        world = self.world
        await until(lambda: len(world.cloud.running()) >= number, f"{number} instances")
        for instance_id in world.cloud.running():
            if instance_id not in self.agents:
                self.agents[instance_id] = Agent(world, instance_id)
                assert await self.agents[instance_id].claim(wait=10.0) is None
        waiting = [each for each in world.cloud.running() if not self._serves(each)]
        await until(lambda: standing(world).waiting == len(waiting), f"{waiting} wait")
        return [self.agents[each] for each in waiting]

    def _serves(self, instance_id: str) -> bool:
        return self.world.provisioner._state.leases.of_instance(instance_id) is not None
