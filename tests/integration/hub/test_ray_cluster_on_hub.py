"""A cluster from a notebook: real hub, agents, kernel and Ray; only EC2 is simulated."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import Embedded, Hub, Notebook, demo_config, until
from tests.integration.hub.ec2_bill import SPOT_TERMINATION, check_ledger, check_nothing_is_left
from tests.jupyter_by_hand import Jupyter, Kernel, printed

pytestmark = pytest.mark.slow(seconds=120)

ROOT = Path(__file__).resolve().parents[3]

OPTIONS = (
    "c.EC2Spawner.clusters = {'max_workers': 4}",
    "c.EC2Spawner.stop_timeout = '20s'",
)

OTHERS_TYPE = "t3.micro"
"""Of an instance that is not the hub's: no profile has it."""

START = """
import ec2spawner
cluster = ec2spawner.cluster(1, 'cpu')
cluster.scale(2)
cluster.scale(3)
ray = cluster.ray
print(cluster)
"""
"""One after the other: Ray gives the agents of a node 15 seconds to start, and here all nodes share
a machine. See https://github.com/ray-project/ray/issues/65983."""

STEPS = 60
"""Of 0.1 s or more each: the training outlasts the notice of an interruption."""

EXAMPLE = (ROOT / "docs/how-to/examples/ray_train.py").read_text()
assert '"steps": 15' in EXAMPLE

TRAIN = f"""
import glob, os, tempfile, threading
storage = tempfile.mkdtemp(dir=os.environ['STORAGE'])

{EXAMPLE.replace('"steps": 15', f'"steps": {STEPS}')}

outcome = {{}}
def fit():
    try:
        outcome['result'] = trainer_for(storage).fit()
    except BaseException as error:
        outcome['error'] = error
fitting = threading.Thread(target=fit)
fitting.start()
"""

CHECKPOINTS = "[len(glob.glob(f'{storage}/*/checkpoint_*')), str(outcome.get('error', ''))]"

RESULT = """[
    fitting.join(5),
    fitting.is_alive(),
    str(outcome.get('error', '')),
    outcome['result'].metrics['step'] if 'result' in outcome else None,
]"""


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


@asynccontextmanager
async def notebook_of(hub: Hub, user: str) -> AsyncIterator[tuple[Jupyter, Kernel]]:
    async with Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user)) as notebook:
        body = {"type": "notebook", "format": "json", "content": EMPTY}
        assert (await notebook.call("PUT", "api/contents/train.ipynb", json=body))[0] == 201
        yield notebook, Kernel(notebook, await notebook.start_notebook("train.ipynb"))


EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


async def value(kernel: Kernel, expression: str) -> Any:
    """What an expression is in the kernel. Ray prints what its workers say, at any time, so
    everything else in the output of a cell is left alone."""
    code = f"import json\nprint('\\nvalue: ' + json.dumps({expression}) + '\\n', end='')"
    said = printed(await kernel.run(code))
    found = re.search(r"^value: (.*)$", said, re.MULTILINE)
    assert found, said
    return json.loads(found[1])


async def running(embedded: Embedded) -> list[dict[str, Any]]:
    instances = await embedded.instances()
    return [each for each in instances if each["state"] in {"pending", "running"}]


# --- what another user's instance can do -------------------------------------------------------

REFUSED = ("nauthenticated", "nvalidAuthToken", "AuthenticationError")
"""What Ray prints of a token that is not its own."""

NODE = "[cluster._record.address, cluster._record.token, *(x.url for x in cluster.workers)]"
NODES = "sum(node['Alive'] for node in ray.nodes())"


async def attack(hub: Hub, kernel: Kernel, folder: Path) -> None:
    """Everything that an instance of another user can try on a cluster that runs."""
    address, token, *workers = await value(kernel, NODE)
    nodes = await value(kernel, NODES)
    bobs_token = await hub.user_token("bob")
    other = "0" * len(token)
    joins = [join_ray(folder / "wrong", address, other), join_ray(folder / "none", address, "")]
    joining = asyncio.gather(*joins)
    async with httpx.AsyncClient(timeout=60, verify=False) as http:
        for url in workers:
            for said in (None, f"Bearer {other}", f"Bearer {bobs_token}", f"token {token}"):
                headers = {"Authorization": said} if said else {}
                assert (await http.get(f"{url}/log", headers=headers)).status_code == 401
            its_own = {"Authorization": f"Bearer {token}"}
            assert (await http.get(f"{url}/log", headers=its_own)).status_code == 200
        # What a worker knows opens neither notebook nor hub; Bob's login not Ann's notebook.
        for said in (token, bobs_token):
            headers = {"Authorization": f"token {said}"}
            for path in ("/user/ann/api/contents/train.ipynb", "/hub/api/users/ann"):
                reply = await http.get(f"{hub.url}{path}", headers=headers)
                assert reply.status_code in {403, 404}, (path, reply.status_code)
    for said in await joining:
        print(said)
        assert any(word in said for word in REFUSED), said
        assert "Ray runtime started" not in said
    assert await value(kernel, NODES) == nodes


async def join_ray(folder: Path, address: str, token: str) -> str:
    """What `ray start` prints on an instance that has another token, or none; it does not end by
    itself where it is refused."""
    folder.mkdir()
    (folder / "token").write_text(token)
    variables = {
        "RAY_AUTH_MODE": "token" if token else "disabled",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
    }
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", f"--address={address}"),
        *("--node-ip-address=127.0.0.1", "--block", f"--temp-dir={folder / 'ray'}"),
        env=os.environ | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert node.stdout is not None
    said = ""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(120):
                while line := (await node.stdout.readline()).decode(errors="replace"):
                    said += line
                    if any(word in line for word in REFUSED) or "runtime started" in line:
                        break
    finally:
        with suppress(ProcessLookupError):
            node.terminate()
        await node.wait()
    return said


@pytest.mark.nightly(
    guard="tests/unit/provisioner/clusters/test_clusters.py::"
    "test_a_worker_is_replaced_at_the_notice"
)
async def test_training_completes_although_a_worker_is_interrupted(
    embedded: Embedded, tmp_path: Path
) -> None:
    """Nobody else joins, the workers end with the notebook, and each second is paid once."""
    hub = Hub(tmp_path / "hub", embedded, config=demo_config(tmp_path / "config", *OPTIONS))
    (tmp_path / "storage").mkdir()
    try:
        await hub.start()
        await hub.add_user("bob")
        await hub.start_server("ann", options={"profile": "cpu"})
        async with notebook_of(hub, "ann") as (_, kernel):
            said = printed(await kernel.run(START, seconds=300))
            print(said)
            assert "3 of 3 workers have joined" in said
            await attack(hub, kernel, tmp_path)
            head = await head_of(kernel)
            nodes = await running(embedded)
            await check_no_other_instance_reaches(embedded, {x["address"] for x in nodes})
            await kernel.run(f"import os; os.environ['STORAGE'] = {str(tmp_path / 'storage')!r}")
            print(printed(await kernel.run(TRAIN)))

            async def has_begun() -> bool:
                count, error = await value(kernel, CHECKPOINTS)
                assert not error, error
                return bool(count)

            await until(has_begun, 120, "the first checkpoint")
            # Each of the three workers has one of the three ranks.
            victim = next(x["instance_id"] for x in nodes if x["address"] != head)
            await embedded.control(f"interrupt/{victim}", {"notice_seconds": 3})

            async def trained() -> bool:
                _, is_fitting, error, step = await value(kernel, RESULT)
                assert not error, error
                assert is_fitting or step == STEPS - 1
                return not is_fitting

            await until(trained, 300, "the training to complete")
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
        await check_nothing_is_left(embedded)
        uptimes = await embedded.control("uptimes")
        used = {x["instance_id"] for x in uptimes if x["instance_type"] != OTHERS_TYPE}
        assert len(used) == 5, "a server, three workers and a replacement"
        interrupted = [x for x in uptimes if x["reason"] == SPOT_TERMINATION]
        assert len(interrupted) == 1
        await check_ledger(hub, "ann", used)
    finally:
        await hub.stop()
        print(hub.tail(150))


async def head_of(kernel: Kernel) -> str:
    """The address of the notebook's own instance."""
    address: str = await value(kernel, "cluster.status.address")
    return address.rpartition(":")[0]


async def check_no_other_instance_reaches(embedded: Embedded, addresses: set[str]) -> None:
    """A server of the hub has the same group as these nodes, but not that of their cluster."""
    ec2 = embedded.client()
    facts = embedded.described
    launched = await asyncio.to_thread(
        ec2.run_instances,
        ImageId=facts["image_id"],
        InstanceType=OTHERS_TYPE,
        SubnetId=facts["subnets"][0],
        SecurityGroupIds=[facts["security_group"]],
        MinCount=1,
        MaxCount=1,
    )
    other = launched["Instances"][0]["InstanceId"]

    async def nodes() -> list[str] | None:
        found = await running(embedded)
        pending = [x for x in found if x["state"] == "pending"]
        return None if pending else [x["instance_id"] for x in found if x["address"] in addresses]

    for node in await until(nodes, 30, "the instance to run"):
        ports = (await embedded.control(f"reachable/{other}/{node}"))["ports"]
        assert ports == []
    await asyncio.to_thread(ec2.terminate_instances, InstanceIds=[other])
