"""Servers in a capacity reservation and in a Capacity Block on a real hub, and beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=35)]

KIND = "t3.micro"
KIND_OF_BLOCK = "t3.small"
BEGUN, LEFT = 60.0, 10_800.0
"""Seconds. The hub starts nothing in a block in its last 4,200."""
PROFILES = f"""c.EC2Spawner.profile_list = [
    {{"display_name": "Small", "slug": "small", "instance_types": [{KIND!r}]}},
    {{"display_name": "Kept", "slug": "kept", "instance_types": [{KIND!r}], "market": "on-demand",
      "after_stop": {{"stop": "7d"}}}},
    {{"display_name": "Block", "slug": "block", "instance_types": [{KIND_OF_BLOCK!r}]}},
]"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest.fixture(scope="module")
def reservation(embedded: Embedded) -> str:
    """One place, for launches that name it."""
    tags = [{"Key": "course", "Value": "ml-101"}]
    answer = embedded.client().create_capacity_reservation(
        InstanceType=KIND,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=embedded.described["zones"][0],
        InstanceCount=1,
        InstanceMatchCriteria="targeted",
        TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tags}],
    )
    made: str = answer["CapacityReservation"]["CapacityReservationId"]
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def block(embedded: Embedded) -> str:
    """Of one place."""
    where = {"instance_type": KIND_OF_BLOCK, "zone": embedded.described["zones"][0], "count": 1}
    made = await embedded.control("capacity-blocks", {**where, "begun": BEGUN, "left": LEFT})
    name: str = made["reservation"]
    return name


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(
    embedded: Embedded, reservation: str, block: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    paid = {"id": block, "upfront_usd": 0.9 * (BEGUN + LEFT) / 3600}
    chosen = {"tags": {"course": "ml-101"}, "blocks": [paid]}
    config = (PROFILES, f"c.EC2Spawner.capacity_reservations = {chosen!r}")
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", *config))
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(150))


async def first_offer(hub: Hub, user: str, profile: int = 0) -> dict[str, Any]:
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    async with httpx.AsyncClient(verify=False, base_url=hub.url, headers=headers) as client:
        reply = await client.get("/hub/api/ec2/profiles")
    offer: dict[str, Any] = reply.json()["profiles"][profile]["offers"][0]
    return offer


async def wait_until_reserved(hub: Hub, user: str, profile: int = 0) -> None:
    async def is_reserved() -> bool:
        return (await first_offer(hub, user, profile))["reserved"] is True

    await until(is_reserved, 60, "the hub to list the reservation")


def running_instances(embedded: Embedded, kind: str) -> list[dict[str, Any]]:
    found = embedded.client().describe_instances(
        Filters=[
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
            {"Name": "instance-type", "Values": [kind]},
        ]
    )
    return [each for group in found["Reservations"] for each in group["Instances"]]


def reservations(embedded: Embedded) -> list[str | None]:
    """Of the running instances, in the order of their launches."""
    instances = running_instances(embedded, KIND)
    instances.sort(key=lambda each: each["LaunchTime"])
    return [each.get("CapacityReservationId") for each in instances]


async def test_a_place_is_offered_first_and_taken_once(
    hub: Hub, embedded: Embedded, reservation: str
) -> None:
    await hub.add_user("ann")
    await hub.add_user("bob")
    await wait_until_reserved(hub, "ann")
    offer = await first_offer(hub, "ann")
    assert (offer["market"], offer["zone"]) == ("on-demand", embedded.described["zones"][0])
    assert offer["paid"] is True
    assert (await first_offer(hub, "ann", profile=1))["reserved"] is False, "kept stopped"
    await hub.request_server("ann")
    assert await hub.wait_ready("ann") is not None
    assert reservations(embedded) == [reservation]
    assert (await first_offer(hub, "bob"))["reserved"] is False
    await hub.request_server("bob")
    assert await hub.wait_ready("bob") is not None
    assert sorted(reservations(embedded), key=str) == [None, reservation]


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_capacity_blocks.py::"
    "test_a_server_is_launched_into_the_block_at_its_price"
)
async def test_a_server_runs_in_a_block_at_its_price(
    hub: Hub, embedded: Embedded, block: str
) -> None:
    await hub.add_user("eve")
    await wait_until_reserved(hub, "eve", profile=2)
    offer = await first_offer(hub, "eve", profile=2)
    assert (offer["market"], offer["paid"]) == ("on-demand", True)
    assert offer["usd_per_hour"] == pytest.approx(0.9, rel=1e-3)
    await hub.request_server("eve", options={"profile": "block"})
    assert await hub.wait_ready("eve") is not None
    [instance] = running_instances(embedded, KIND_OF_BLOCK)
    found = instance["CapacityReservationId"], instance["InstanceLifecycle"]
    assert found == (block, "capacity-block")
