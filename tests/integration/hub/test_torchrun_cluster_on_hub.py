"""A script on a cluster of torchrun: real hub, agents, kernel and PyTorch; EC2 is simulated."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Embedded, Hub, Notebook, demo_config, until
from tests.integration.hub.ec2_bill import check_ledger, check_nothing_is_left
from tests.jupyter_by_hand import Jupyter, Kernel, printed

pytestmark = [pytest.mark.long, pytest.mark.slow(seconds=180)]

ROOT = Path(__file__).resolve().parents[3]

OPTIONS = (
    "c.EC2Spawner.clusters = {'max_workers': 4}",
    "c.EC2Spawner.stop_timeout = '20s'",
)

STEPS = 60

SCRIPT = (ROOT / "docs/how-to/examples/torchrun_train.py").read_text()

START = """
import ec2spawner
cluster = ec2spawner.cluster(3, 'cpu', engine='torchrun')
print(cluster)
"""

EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


def torch_python() -> Path:
    """A Python with PyTorch that sees this environment."""
    path = Path(os.environ.get("EC2SPAWNER_TORCH") or ROOT / ".venv/torch") / "bin/python"
    probe = "import ec2spawner, ipykernel, importlib.metadata as found; found.version('torch')"
    if not path.exists() or subprocess.run([path, "-c", probe], check=False, cwd="/").returncode:
        pytest.fail(f"{path} has no torch: run `make torch`")
    return path


def install_kernel(data: Path) -> None:
    """As `python -m ipykernel install --name torch` does."""
    folder = data / "kernels/torch"
    folder.mkdir(parents=True)
    argv = [str(torch_python()), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "torch", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))


@asynccontextmanager
async def notebook_of(hub: Hub, user: str) -> AsyncIterator[Kernel]:
    async with Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user)) as notebook:
        body = {"type": "notebook", "format": "json", "content": EMPTY}
        assert (await notebook.call("PUT", "api/contents/train.ipynb", json=body))[0] == 201
        yield Kernel(notebook, await notebook.start_notebook("train.ipynb", kernel="torch"))


async def running(embedded: Embedded) -> list[dict[str, Any]]:
    instances = await embedded.instances()
    return [each for each in instances if each["state"] in {"pending", "running"}]


def steps_of(storage: Path) -> list[tuple[int, int, int]]:
    """Of rank 0: the step, the number of ranks, and how often torchrun has started it again."""
    path = storage / "steps"
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(map(int, line.split())) for line in lines]  # type: ignore[misc]


async def test_training_completes_although_a_worker_is_interrupted(
    embedded: Embedded,
    tmp_path: Path,
) -> None:
    """And the workers end with the notebook."""
    data, storage = tmp_path / "jupyter", tmp_path / "storage"
    storage.mkdir()
    install_kernel(data)
    options = (*OPTIONS, f"c.EC2Spawner.environment = {{'JUPYTER_PATH': {str(data)!r}}}")
    hub = Hub(tmp_path / "hub", embedded, config=demo_config(tmp_path / "config", *options))
    (tmp_path / "train.py").write_text(SCRIPT)
    try:
        await hub.start()
        await hub.start_server("ann", options={"profile": "cpu"})
        async with notebook_of(hub, "ann") as kernel:
            said = printed(await kernel.run(START))
            print(said)
            assert "3 of 3 workers have joined" in said
            said = printed(await kernel.run("cluster.ray"))
            assert "cluster.run" in said
            arguments = f"{str(tmp_path / 'train.py')!r}, {str(storage)!r}, {STEPS}"
            start = f"run = cluster.run({arguments}, environment={{'GREETING': 'Fitted'}})"
            print(printed(await kernel.run(f"{start}; print(run)")))

            async def three_train() -> bool:
                return any(world == 3 and step > 5 for step, world, _ in steps_of(storage))

            await until(three_train, 90, "three ranks to train")
            before = steps_of(storage)[-1]
            workers = await running(embedded)
            said = printed(await kernel.run("print(*(x.instance_id for x in cluster.workers))"))
            assert len(workers) == 4
            victim = said.split()[0]
            await embedded.control(f"interrupt/{victim}", {"notice_seconds": 5})

            said = printed(await kernel.run("run.wait(80)"))
            print("before the interruption:", before, said)
            print("steps of rank 0:", *steps_of(storage), sep="\n")
            logs = printed(await kernel.run("print(run.logs())"))
            print(logs)
            weight, bias = map(float, (storage / "result").read_text().split())
            assert (weight, bias) == (pytest.approx(3, abs=0.02), pytest.approx(1, abs=0.02))
            assert {step for step, _, _ in steps_of(storage)} == set(range(STEPS))
            begins = [int(x) for x in re.findall(r"begins at step (\d+)", logs)]
            assert 0 in begins
            assert max(begins) > before[0] - 5, "training began anew"
            said = printed(await kernel.run("print(run.status, run.exit_code, cluster.last_run)"))
            print(said)
            assert said.startswith("succeeded 0 ")
            again = "print(ec2spawner.cluster().last_run.wait(20))"
            assert printed(await kernel.run(again)).strip().endswith("0")
            said = printed(await kernel.run("cluster.wait(3); print(cluster)"))
            print(said)
            assert "3 of 3 workers have joined" in said
            assert len(await running(embedded)) == 4
        await hub.stop_server("ann")

        async def none_runs() -> bool:
            return not await running(embedded)

        await until(none_runs, 30, "the workers to end")
        await check_nothing_is_left(embedded)
        uptimes = await embedded.control("uptimes")
        assert len(uptimes) == 5, "a server, three workers and a replacement"
        await check_ledger(hub, "ann", {each["instance_id"] for each in uptimes})
    finally:
        await hub.stop()
        print(hub.tail(150))
