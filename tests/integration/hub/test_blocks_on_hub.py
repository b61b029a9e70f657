"""A server in a Capacity Block on a real hub: where it runs, and its price."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=40)]

KIND = "t3.micro"
BEGUN, LEFT = 60.0, 4260.0
"""Seconds: the hub starts nothing in it from 4,200 before its end on."""
HOURS = (BEGUN + LEFT) / 3600
PROFILE = (
    'c.EC2Spawner.profile_list = [{"display_name": "Small", "slug": "small", '
    f'"instance_types": [{KIND!r}]}}]'
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def block(embedded: Embedded) -> str:
    """Of one place."""
    where = {"instance_type": KIND, "zone": embedded.described["zones"][0], "count": 1}
    made = await embedded.control("capacity-blocks", {**where, "begun": BEGUN, "left": LEFT})
    name: str = made["reservation"]
    return name


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(
    embedded: Embedded, block: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    paid = {"blocks": [{"id": block, "upfront_usd": 0.9 * HOURS}]}
    config = (PROFILE, f"c.EC2Spawner.capacity_reservations = {paid!r}")
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", *config))
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(150))


async def get(hub: Hub, user: str, path: str) -> httpx.Response:
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    async with httpx.AsyncClient(verify=False, base_url=hub.url, headers=headers) as client:
        return await client.get(path)


async def first_offer(hub: Hub, user: str) -> dict[str, Any]:
    offers = (await get(hub, user, "/hub/api/ec2/profiles")).json()["profiles"][0]["offers"]
    first: dict[str, Any] = offers[0]
    return first


async def test_a_server_runs_in_the_block_at_its_price(
    hub: Hub, embedded: Embedded, block: str
) -> None:
    await hub.add_user("ann")

    async def is_reserved() -> bool:
        return (await first_offer(hub, "ann"))["reserved"] is True

    await until(is_reserved, 60, "the hub to list the block")
    offer = await first_offer(hub, "ann")
    assert (offer["market"], offer["paid"]) == ("on-demand", True)
    assert offer["usd_per_hour"] == pytest.approx(0.9, rel=1e-3)
    await hub.request_server("ann")
    assert await hub.wait_ready("ann") is not None
    found = embedded.client().describe_instances(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    )
    [instance] = [each for group in found["Reservations"] for each in group["Instances"]]
    assert (instance["CapacityReservationId"], instance["InstanceLifecycle"]) == (
        block,
        "capacity-block",
    )
