"""What a stop leaves behind, on a real hub with real agents: a machine that waits, and a disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=25)]

PROFILES = """c.EC2Spawner.profile_list = [
    {"display_name": "Waits", "slug": "waits", "vcpus": 2, "memory_gib": 4,
     "after_stop": {"linger": "10m"}},
    {"display_name": "Stays", "slug": "stays", "vcpus": 2, "memory_gib": 4, "market": "on-demand",
     "after_stop": {"stop": "7d"}},
]"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded"), boot_seconds=2.0).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", PROFILES))
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(150))


def disk(embedded: Embedded, instance_id: str) -> Path:
    """Where the instance runtime keeps an instance's own disk."""
    return embedded.data_dir / "ec2" / "instances" / instance_id / "root"


@pytest.mark.nightly(
    guard="tests/unit/provisioner/retention/test_retained_instances.py::"
    "test_a_restart_reuses_the_lingering_instance_and_launches_none"
)
async def test_a_restart_in_time_reuses_the_lingering_instance(
    hub: Hub, embedded: Embedded
) -> None:
    others = {each["instance_id"] for each in await embedded.instances()}
    await hub.start_server("ann", options={"profile": "waits"})
    before = {each["instance_id"] for each in await embedded.instances()}
    assert len(before - others) == 1
    launches = len(await embedded.calls("CreateFleet"))
    await hub.stop_server("ann")
    await hub.start_server("ann", options={"profile": "waits"})
    assert {each["instance_id"] for each in await embedded.instances()} == before
    assert len(await embedded.calls("CreateFleet")) == launches
    await hub.stop_server("ann")


async def test_the_root_disk_survives_a_stop_and_stays_private(
    hub: Hub, embedded: Embedded
) -> None:
    others = {i["instance_id"] for i in await embedded.instances()}
    await hub.start_server("bob", options={"profile": "stays"})
    [kept] = {i["instance_id"] for i in await embedded.instances()} - others
    (disk(embedded, kept) / "installed").write_text("by apt")
    await hub.stop_server("bob")

    async def stopped() -> bool:
        states = {i["instance_id"]: i["state"] for i in await embedded.instances()}
        return states[kept] == "stopped"

    await until(stopped, 30, "the machine to be stopped")
    behavior = embedded.client().describe_instance_attribute(
        InstanceId=kept, Attribute="instanceInitiatedShutdownBehavior"
    )
    assert behavior["InstanceInitiatedShutdownBehavior"]["Value"] == "stop"
    launches = len(await embedded.calls("CreateFleet"))
    await hub.start_server("eve", options={"profile": "stays"})
    assert len(await embedded.calls("CreateFleet")) == launches + 1, "one of her own"
    assert await stopped()
    async with browser(hub, "bob") as person:
        assert 'name="afresh"' in (await person.get("/hub/spawn/bob")).text, "it can be given up"
    await hub.start_server("bob", options={"profile": "stays"})
    assert len(await embedded.calls("CreateFleet")) == launches + 1
    assert len(await embedded.calls("StartInstances")) == 1
    states = {i["instance_id"]: i["state"] for i in await embedded.instances()}
    assert states[kept] == "running"
    assert (disk(embedded, kept) / "installed").read_text() == "by apt"
