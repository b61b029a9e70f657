"""A home on EFS, as the instances have it that work for its server: a run, and a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import (
    agent_of_new_instance,
    server_by_hand,
    silence_agents,
)
from tests.integration.hub.test_clusters_by_agent import ENGINE
from tests.runs_by_rest import runs_of

pytestmark = [pytest.mark.slow(seconds=15), pytest.mark.asyncio(loop_scope="module")]

FILE_SYSTEM = "fs-0a1b2c3d4e5f60718"

OPTIONS = (
    f'c.EC2Spawner.home = {{"kind": "efs", "file_system": "{FILE_SYSTEM}"}}',
    "c.EC2Spawner.clusters = {'max_workers': 1}",
    "c.EC2Spawner.runs = {'at_once': 1}",
    "c.EC2Spawner.stop_timeout = '10s'",
)

TRAIN = """
from pathlib import Path
Path("model.txt").write_text(Path("data.txt").read_text() * 2)
print("trained")
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """Each test has users of its own, and leaves no server."""
    folder = tmp_path_factory.mktemp("efs")
    embedded = await Embedded(folder / "embedded").start()
    await embedded.control("file-systems", {"file_system": FILE_SYSTEM})
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", *OPTIONS))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(80))


async def test_a_run_reads_and_writes_the_home_of_its_server(hub: Hub) -> None:
    with hub.embedded.jupyterlab():  # its extension fetches the results of runs
        await hub.start_server("ann")
    await hub.start_server("bob")
    homes = hub.embedded.data_dir / "ec2" / "file-systems" / FILE_SYSTEM / "homes"
    home, others = homes / "ann", homes / "bob"
    for each in (home, others):
        (each / "work").mkdir()
    (home / "work" / "data.txt").write_text("1")
    ann = await runs_of(hub, "ann")
    number = await ann.submit(TRAIN, "work/train.py")
    run = await ann.until(number, "ended")
    assert run["outcome"] == "succeeded", await ann.result(number)
    assert (home / "work" / "model.txt").read_text() == "11"

    async def delivered() -> bool:
        return bool((await ann.one(number))["delivered"])

    await until(delivered, 60, "its log to be in the home")
    assert "trained" in (home / "runs" / f"train-{number}.log").read_text()
    assert not list(others.glob("runs/*"))
    assert not list((others / "work").iterdir())
    await asyncio.gather(hub.stop_server("ann"), hub.stop_server("bob"))


@pytest.fixture
def silent_agents(hub: Hub) -> Iterator[None]:
    silence_agents(hub.embedded)
    yield
    hub.embedded.install("stub")


@pytest.mark.nightly(
    guard="tests/unit/hub/test_cluster_refusal.py::"
    "test_a_home_on_efs_is_read_only_for_workers_and_a_volume_is_not_theirs"
)
@pytest.mark.usefixtures("silent_agents")
async def test_a_worker_may_only_read_the_home_of_its_server(hub: Hub) -> None:
    others = {each["instance_id"] for each in await hub.embedded.instances()}
    async with server_by_hand(hub, "eve", options={"profile": "cpu"}) as head:
        request = {"action": "start", "workers": 1, "join": ENGINE}
        assert (await head.say("cluster", request)).status_code == 200
        worker = await agent_of_new_instance(hub, {head.instance_id, *others})
        await worker.obtain_lease()
        home = head.grant["home"]
        assert (home["kind"], home["directory"], home["read_only"]) == ("efs", "homes/eve", False)
        assert worker.grant["home"] == home | {"read_only": True}
