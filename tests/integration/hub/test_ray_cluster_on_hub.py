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

OPTIONS = (
    "c.EC2Spawner.clusters = {'max_workers': 4}",
    "c.EC2Spawner.stop_timeout = '20s'",
)

START = """
import ec2spawner
cluster = ec2spawner.cluster(3, 'cpu')
print(cluster)
"""

TRAIN = """
import os, tempfile, threading
import numpy as np
ray = cluster.ray
storage = tempfile.mkdtemp(dir=os.environ['STORAGE'])

def train_line(config):
    'Fits y = 3x + 1 by gradient descent, from the last checkpoint.'
    import json, os, tempfile, time
    import numpy as np
    import ray
    from ray import train
    weights, first = [0.0, 0.0], 0
    if (last := train.get_checkpoint()) is not None:
        with last.as_directory() as folder:
            state = json.load(open(os.path.join(folder, 'state.json')))
        weights, first = state['weights'], state['step'] + 1
    rank = train.get_context().get_world_rank()
    x = np.linspace(-1, 1, 64)[rank::3]
    where = ray.util.get_node_ip_address()
    for step in range(first, config['steps']):
        error = weights[0] * x + weights[1] - (3 * x + 1)
        steps = float((error * x).mean()), float(error.mean())
        weights = [weight - 0.5 * step_size for weight, step_size in zip(weights, steps)]
        time.sleep(0.1)
        with tempfile.TemporaryDirectory() as folder:
            state = {'weights': weights, 'step': step}
            json.dump(state, open(os.path.join(folder, 'state.json'), 'w'))
            checkpoint = train.Checkpoint.from_directory(folder) if rank == 0 else None
            open(os.path.join(config['nodes'], f'{rank}-{where}'), 'w').close()
            train.report({'step': step, 'first': first, 'w': weights[0]}, checkpoint=checkpoint)

from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

nodes = os.path.join(storage, 'nodes')
os.mkdir(nodes)
trainer = DataParallelTrainer(
    train_line,
    train_loop_config={'steps': 15, 'nodes': nodes},
    scaling_config=ScalingConfig(num_workers=3, resources_per_worker={'CPU': 2}),
    run_config=RunConfig(
        storage_path=storage,
        failure_config=FailureConfig(max_failures=5),
        checkpoint_config=CheckpointConfig(num_to_keep=2),
    ),
)
outcome = {}
def fit():
    try:
        outcome['result'] = trainer.fit()
    except BaseException as error:
        outcome['error'] = error
fitting = threading.Thread(target=fit)
fitting.start()
"""

WHERE = "print(' '.join(sorted(os.listdir(nodes))), outcome.get('error', ''))"

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

            async def all_train() -> list[str] | None:
                names, *error = printed(await kernel.run(WHERE)).strip().split("  ", 1)
                assert not error, error
                return names.split() if len(names.split()) == 3 else None

            names = await until(all_train, 60, "three ranks to train")
            head = await head_of(kernel)
            addresses = {name.partition("-")[2] for name in names} - {head}
            victim = next(x for x in await running(embedded) if x["address"] in addresses)
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
