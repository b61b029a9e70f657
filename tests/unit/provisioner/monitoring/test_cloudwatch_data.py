"""What a hub publishes to CloudWatch, within CloudWatch's limits."""

from __future__ import annotations

from collections import Counter

from ec2spawner.hub.app.reporting.cloudwatch import data
from tests.unit.provisioner.world import World

MAX_VALUES = 1000
"""Of one PutMetricData, says its reference."""


async def test_figures_are_few_ascii_and_each_is_there_once(world: World) -> None:
    await world.many_ready(3)
    await world.complete_passes(1)
    found = list(data(world.provisioner.figures(), "Universit\u00e4t"))
    assert len(found) < MAX_VALUES
    keys = Counter((each.name, *each.dimensions.items()) for each in found)
    assert set(keys.values()) == {1}
    for each in found:
        assert each.dimensions["Hub"] == "Universit?t"
        assert len(each.dimensions) <= 2
        assert all(value.isascii() for value in each.dimensions.values())
    values = {(each.name, each.dimensions.get("State")): each.value for each in found}
    assert values["Servers", "ready"] == values["Instances", "running"] == 3
