"""Two hubs in one account, one of them a staging copy of the other's configuration."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Embedded, Hub, until

pytestmark = pytest.mark.slow(seconds=55)


@pytest.fixture
async def staging(embedded: Embedded, tmp_path: Path) -> AsyncIterator[Hub]:
    """The same configuration, name of the hub included, with an empty store."""
    running = Hub(tmp_path / "staging", embedded)
    yield running
    await running.stop()
    print(running.tail(120))


async def instances(embedded: Embedded) -> set[str]:
    return {each["instance_id"] for each in await embedded.instances()}


async def listings(embedded: Embedded, number: int) -> None:
    """Let every hub look at the account so often, and act on what it sees."""
    before = len(await embedded.calls("DescribeInstances"))

    async def listed() -> bool:
        return len(await embedded.calls("DescribeInstances")) >= before + number

    await until(listed, 90, f"{number} listings")


def stores(hub: Hub) -> list[Path]:
    return list(hub.directory.glob("ec2spawner.sqlite*"))


async def serve_one_each(hub: Hub, staging: Hub, embedded: Embedded) -> tuple[set[str], set[str]]:
    """Ann's instance at one hub; hers and Zoe's, which the staging copy has started.

    The staging copy does not take Ann's home.
    """
    # To a hub that starts while EC2 does not show her volume yet, Ann has no home.
    await embedded.control("lag", {"seconds": 0})
    await hub.start_server("ann")
    anns = await instances(embedded)
    await staging.start()
    refused = await staging.request_server("ann")
    assert "which another store of this hub made" in refused.text
    await staging.start_server("zoe")
    both = await instances(embedded)
    assert anns < both
    assert len(both) == 2
    return anns, both


async def test_hubs_never_touch_each_others_instances(
    hub: Hub, staging: Hub, embedded: Embedded
) -> None:
    anns, both = await serve_one_each(hub, staging, embedded)
    await hub.kill()
    await hub.start()
    await hub.wait_ready("ann")
    await listings(embedded, 2)  # in which each hub sees the other's instance
    assert await instances(embedded) == both
    assert (await staging.model("zoe") or {})["ready"]
    await staging.stop_server("zoe")
    assert await instances(embedded) == anns
    assert (await hub.model("ann") or {})["ready"]


@pytest.mark.long
async def test_hubs_never_touch_each_others_instances_even_after_losing_a_store(
    hub: Hub, staging: Hub, embedded: Embedded, tmp_path: Path
) -> None:
    anns, both = await serve_one_each(hub, staging, embedded)
    await listings(embedded, 2)
    assert await instances(embedded) == both
    await staging.stop_server("zoe")
    assert await instances(embedded) == anns
    assert (await hub.model("ann") or {})["ready"]

    # An old store is restored: what was started since is found again.
    await hub.kill()
    week_old = tmp_path / "week-old"
    week_old.mkdir()
    for file in stores(hub):
        shutil.copy(file, week_old)
    await hub.start()
    await hub.wait_ready("ann")
    await asyncio.gather(hub.start_server("bob"), staging.start_server("zoe"))
    all_three = await instances(embedded)
    assert len(all_three) == 3
    await hub.kill()
    for file in stores(hub):
        file.unlink()
    for file in week_old.iterdir():
        shutil.copy(file, hub.directory)
    await hub.start()
    for user in ("ann", "bob"):
        await hub.wait_ready(user)
    await listings(embedded, 2)
    assert await instances(embedded) == all_three

    # Ended by their own hub, and nothing is left over.
    await asyncio.gather(hub.stop_server("ann"), hub.stop_server("bob"))
    await staging.stop_server("zoe")
    assert await instances(embedded) == set()
