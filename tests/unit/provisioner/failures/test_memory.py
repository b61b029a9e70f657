"""A hub that has run for years holds no more in memory than one that has run for a month."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.leases.lease import ENDED_LATELY, LeaseState
from tests.unit.provisioner.world import World, until


def held(part: object, name: str = "", seen: set[int] | None = None) -> dict[str, int]:
    """How many entries each collection has in the provisioner and its parts, by its name there."""
    seen = set() if seen is None else seen
    found: dict[str, int] = {}
    for key, value in attributes(part).items():
        if id(value) in seen:
            continue
        seen.add(id(value))
        path = f"{name}.{key}"
        if key == "controllers":
            for each in value:
                found |= held(each, f"{path}.{type(each).__name__}", seen)
        elif isinstance(value, Collection) and not isinstance(value, str | bytes):
            found[path] = len(value)
        elif type(value).__module__.startswith("ec2spawner.provisioner"):
            found |= held(value, path, seen)
    return found


def attributes(part: object) -> dict[str, Any]:
    slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
    slotted = {name: getattr(part, name) for name in slots if hasattr(part, name)}
    return {**slotted, **getattr(part, "__dict__", {})}


async def a_month(world: World, number: int) -> None:
    """Somebody has used a server that is always there and one of a new name, long ago."""
    for server, home_kind in (("", "ebs"), (f"named-{number}", "none")):
        lease, agent = await world.ready("ada", server=server, home_kind=home_kind)
        await world.stop(lease)
        await agent.event("stopped")
        await world.state(lease, LeaseState.ENDED)
        await until(lambda: not world.cloud.running(), "its instance to end")
    await world.complete_passes(1)
    world.cloud.machines.clear()  # EC2 shows them no more
    world.clock.advance((ENDED_LATELY + timedelta(days=1)).total_seconds())
    await world.complete_passes(2)
    await world.provisioner.lease_events.next_batch()  # the hub's event log reads them


async def test_memory_does_not_grow_with_ended_leases(world: World) -> None:
    for number in range(2):
        await a_month(world, number)
    before = held(world.provisioner)
    assert before["._state.leases._leases"] == before["._state.leases._contacts"] == 0
    assert before["._state.homes._homes"] == 1
    for number in range(2, 8):
        await a_month(world, number)
    assert held(world.provisioner) == before


async def test_memory_does_not_grow_with_refused_starts(world: World) -> None:
    await world.restart(limits=Limits(Bounds(servers=0)))
    counts: list[dict[str, int]] = []
    for _ in range(2):
        for _ in range(3):
            with pytest.raises(LimitReached):
                await world.request("ada")
        await world.provisioner.lease_events.next_batch()
        counts.append(held(world.provisioner))
    assert counts[0] == counts[1]
