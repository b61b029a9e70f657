"""A cluster from a notebook: real hub, agents, kernel and Ray; only EC2 is simulated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Embedded, Hub, demo_config, until
from tests.jupyter_by_hand import Jupyter, Kernel, printed

pytestmark = pytest.mark.slow(seconds=120)

ROOT = Path(__file__).resolve().parents[3]

OPTIONS = (
    "c.EC2Spawner.clusters = {'max_workers': 4}",
    "c.EC2Spawner.stop_timeout = '20s'",
)

START = """
import ec2spawner
cluster = ec2spawner.cluster(3, 'cpu')
print(cluster)
"""

TRAIN = f"""
import os, tempfile, threading
ray = cluster.ray
storage = tempfile.mkdtemp(dir=os.environ['STORAGE'])

{(ROOT / "docs/how-to/examples/ray_train.py").read_text()}

outcome = {{}}
def fit():
    try:
        outcome['result'] = trainer_for(storage).fit()
    except BaseException as error:
        outcome['error'] = error
fitting = threading.Thread(target=fit)
fitting.start()
"""

CHECKPOINTS = """
import glob
print(len(glob.glob(f'{storage}/*/checkpoint_*')), outcome.get('error', ''))
"""

RESULT = """
fitting.join(5)
print('fitting', fitting.is_alive(), outcome.get('error'))
print('metrics', outcome['result'].metrics if 'result' in outcome else None)
"""


@asynccontextmanager
async def notebook_of(hub: Hub, user: str) -> AsyncIterator[tuple[Jupyter, Kernel]]:
    async with Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user)) as notebook:
        body = {"type": "notebook", "format": "json", "content": EMPTY}
        assert (await notebook.call("PUT", "api/contents/train.ipynb", json=body))[0] == 201
        yield notebook, Kernel(notebook, await notebook.start_notebook("train.ipynb"))


EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


async def running(embedded: Embedded) -> list[dict[str, Any]]:
    instances = await embedded.instances()
    return [each for each in instances if each["state"] in {"pending", "running"}]


async def test_training_completes_although_a_worker_is_interrupted(
    embedded: Embedded, tmp_path: Path
) -> None:
    """And the workers end with the notebook."""
    hub = Hub(tmp_path / "hub", embedded, config=demo_config(tmp_path / "config", *OPTIONS))
    (tmp_path / "storage").mkdir()
    try:
        await hub.start()
        await hub.start_server("ann", options={"profile": "cpu"})
        async with notebook_of(hub, "ann") as (_, kernel):
            before = len(await embedded.calls("CreateFleet"))
            said = printed(await kernel.run(START))
            print(said)
            assert "3 of 3 workers have joined" in said
            assert len(await embedded.calls("CreateFleet")) == before + 1
            await kernel.run(f"import os; os.environ['STORAGE'] = {str(tmp_path / 'storage')!r}")
            print(printed(await kernel.run(TRAIN)))

            async def has_begun() -> bool:
                count, *error = printed(await kernel.run(CHECKPOINTS)).split(maxsplit=1)
                assert not error, error
                return int(count) > 0

            await until(has_begun, 120, "the first checkpoint")
            head = await head_of(kernel)
            # Each of the three workers has one of the three ranks.
            victim = next(x for x in await running(embedded) if x["address"] != head)
            path = f"interrupt/{victim['instance_id']}"
            await embedded.control(path, {"notice_seconds": 5})

            async def trained() -> str | None:
                said = printed(await kernel.run(RESULT))
                print(said)
                assert "None\nmetrics" in said, "it failed"
                return said if "fitting False None" in said else None

            assert "'step': 14" in await until(trained, 300, "the training to complete")
            said = printed(await kernel.run("cluster.wait(3); print(cluster)"))
            print(said)
            assert "3 of 3 workers have joined" in said
            said = printed(await kernel.run("print(cluster.logs(cluster.workers[-1].number))"))
            assert "Ray runtime started" in said
            assert len(await running(embedded)) == 4
        await hub.stop_server("ann")

        async def none_runs() -> bool:
            return not await running(embedded)

        await until(none_runs, 30, "the workers to end")
    finally:
        await hub.stop()
        print(hub.tail(150))


async def head_of(kernel: Kernel) -> str:
    """The address of the notebook's own instance."""
    said = await kernel.run("print(cluster.status.address)")
    return printed(said).strip().rpartition(":")[0]
