"""Stopped places of the warm pool on a real hub with real agents: prepared, stopped, started."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ec2spawner.hub.api.pool import PlacesModel
from ec2spawner.hub.security.instances_scope import SCOPE
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.pool_of_hub import places

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=30)]

ROLE = {"name": "operations", "users": ["oscar"], "scopes": [SCOPE]}
CONFIG = (
    """c.EC2Spawner.profile_list = [
    {"display_name": "Small", "slug": "small", "vcpus": 2, "memory_gib": 4, "market": "on-demand"},
]""",
    'c.EC2Spawner.warm_pool = [{"profile": "small", "stopped": 1}]',
    f"c.JupyterHub.load_roles = [*c.JupyterHub.load_roles, {ROLE!r}]",
    'c.JupyterHub.load_groups = {"all": {"users": ["oscar"]}}',
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded"), boot_seconds=1.0).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", *CONFIG))
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(150))


async def stopped(hub: Hub, embedded: Embedded) -> PlacesModel:
    """The places, once they have an instance that EC2 lists as stopped."""

    async def wait() -> PlacesModel | None:
        states = {x["instance_id"]: x["state"] for x in await embedded.instances()}
        found = await places(hub)
        waiting = found.stopped_instances if found is not None else ()
        is_stopped = [states.get(each.instance_id) for each in waiting] == ["stopped"]
        return found if is_stopped else None

    return await until(wait, 90, "an instance to wait stopped")


async def stopped_id(hub: Hub, embedded: Embedded) -> str:
    [found] = (await stopped(hub, embedded)).stopped_instances
    return found.instance_id


@pytest.mark.nightly(
    guard="tests/integration/hub/test_pool_on_hub.py::"
    "test_a_start_takes_an_instance_that_waits_stopped"
)
async def test_a_start_takes_the_stopped_instance_and_another_is_prepared(
    hub: Hub, embedded: Embedded
) -> None:
    shown = await stopped(hub, embedded)
    [at_rest] = shown.stopped_instances
    assert (shown.target, shown.stopped_target, shown.waiting) == (0, 1, 0)
    assert shown.usd_per_hour < 0.02, "its disks alone"
    started = len(await embedded.calls("StartInstances"))
    await hub.start_server("ann")
    assert len(await embedded.calls("StartInstances")) == started + 1
    # Whichever of the two has booted first serves her, and the other one waits stopped.
    waiting = await stopped_id(hub, embedded)
    states = {x["instance_id"]: x["state"] for x in await embedded.instances()}
    assert at_rest.instance_id in states
    assert sorted(states.values()) == ["running", "stopped"]
    assert states[waiting] == "stopped"
    await hub.stop_server("ann")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/pool/test_stopped_places.py::test_a_restart_of_the_hub_keeps_it"
)
async def test_a_restart_of_the_hub_keeps_it(hub: Hub, embedded: Embedded) -> None:
    instance_id = await stopped_id(hub, embedded)
    bought = len(await embedded.calls("CreateFleet"))
    await hub.kill()
    await hub.start()
    assert await stopped_id(hub, embedded) == instance_id
    assert len(await embedded.calls("CreateFleet")) == bought
