"""A run that waits for a spot price is started at that price, or not at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.hub.runs.lease import WaitsForPrice, run_lease
from ec2spawner.provisioner.model.leases.run import Run
from ec2spawner.wire import Market
from tests.unit.provisioner.costs import SPOT
from tests.unit.provisioner.world import World, until

from .hub_of_ann import URL, service, spawner_of

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def waiting(world: World) -> Run:
    """A run of ann's that waits a day for spot at 0.25 USD/hour; it costs 0.20."""
    world.cloud.prices = dict(SPOT)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    return Run(
        number=1,
        user="ann",
        server="",
        path="a.py",
        profile="t4",
        profile_name="T4",
        payer="",
        submitted_at=world.clock(),
        max_spot_usd_per_hour=0.25,
        wait_until=world.clock() + timedelta(days=1),
    )


async def leased(world: World, run: Run) -> Any:
    spawner = spawner_of()
    lease, _ = await run_lease(service(spawner, {}), world.provisioner, spawner, run, {}, URL)
    return lease


async def test_it_is_bought_on_spot_at_its_price(world: World, waiting: Run) -> None:
    spec = (await leased(world, waiting)).spec
    assert (spec.markets, spec.max_usd_per_hour) == ((Market.SPOT,), 0.25)


async def test_it_is_not_started_while_spot_is_dearer(world: World, waiting: Run) -> None:
    cheaper = replace(waiting, max_spot_usd_per_hour=0.15)
    with pytest.raises(WaitsForPrice, match=r"at 0\.150 USD/hour or less"):
        await leased(world, cheaper)


async def test_after_its_wait_it_takes_any_price(world: World, waiting: Run) -> None:
    world.clock.advance(86_400)
    spec = (await leased(world, replace(waiting, max_spot_usd_per_hour=0.15))).spec
    assert (spec.markets, spec.max_usd_per_hour) == ((Market.SPOT, Market.ON_DEMAND), None)
