"""Scripts on a worker of torchrun: orders, their ends, and who may give them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from ec2spawner.cluster_worker import torchrun_node
from ec2spawner.cluster_worker.torchrun_process import command
from ec2spawner.wire import MAX_ORDER_BYTES, CancelOrder, RunStatus
from tests.harness import until
from tests.unit.clusters.torchrun_workers import (
    FAKE_TORCH,
    RUN_ID,
    TOKEN,
    WAIT,
    Worker,
    order,
    worker,
)
from tests.unit.run_executor.executor_process import runs

OTHER_ID = "f" * 32

IGNORES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('pid', os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.fixture
async def node(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Worker]:
    monkeypatch.setenv("PYTHONPATH", str(FAKE_TORCH))
    async with worker() as found:
        yield found


async def call(node: Worker, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """The status of the answer and what it says."""
    allowed = headers or {"Authorization": f"Bearer {TOKEN}"}
    data = body if body is None or isinstance(body, str) else body.model_dump_json()
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, f"{node.url}{path}", data=data, headers=allowed) as answer,
    ):
        text = await answer.text()
    return answer.status, RunStatus.model_validate_json(text) if answer.status == 200 else text


async def ended(node: Worker) -> RunStatus:
    async def status() -> RunStatus | None:
        _, found = await call(node, "GET", "/run")
        return found if found.exit_code is not None else None

    return await until(status, 20, "the run to end")


async def printed(node: Worker, words: str) -> None:
    async with asyncio.timeout(20):
        await node.tail.until(words)


async def test_a_script_runs_with_its_arguments_and_variables(node: Worker) -> None:
    assert await call(node, "GET", "/run") == (200, RunStatus())
    script = "import os, sys\nprint(sys.argv[1:], os.environ['COLOUR'], 'größe')\n"
    wanted = order(script, args=["--epochs", "3"], environment={"COLOUR": "blue"})
    status, answer = await call(node, "POST", "/run", wanted)
    assert (status, answer.run_id) == (200, RUN_ID)
    assert (await ended(node)).exit_code == 0
    await printed(node, "['--epochs', '3'] blue größe")
    options = json.loads(node.tail.text().splitlines()[1])["options"]
    assert options == command("python", wanted, "10.0.0.1:29400", "127.0.0.1")[4:-3]
    assert "--nnodes=1:3" in options
    assert f"--rdzv-id={RUN_ID}" in options
    assert "--rdzv-endpoint=10.0.0.1:29400" in options
    assert "--local-addr=127.0.0.1" in options


async def test_the_same_order_again_changes_nothing(node: Worker) -> None:
    await call(node, "POST", "/run", order("print('once')"))
    await ended(node)
    status, answer = await call(node, "POST", "/run", order("print('once')"))
    assert (status, answer.exit_code) == (200, 0)
    assert node.tail.text().count("once") == 1


async def test_a_failure_has_its_exit_code_and_the_next_run_may_begin(node: Worker) -> None:
    await call(node, "POST", "/run", order("raise SystemExit(7)"))
    assert await ended(node) == RunStatus(run_id=RUN_ID, exit_code=1)
    await call(node, "POST", "/run", order("print('next')", OTHER_ID))
    assert await ended(node) == RunStatus(run_id=OTHER_ID, exit_code=0)


async def test_there_is_one_run_at_a_time_and_only_its_own_id_cancels_it(node: Worker) -> None:
    await call(node, "POST", "/run", order(WAIT))
    await printed(node, "started")
    status, text = await call(node, "POST", "/run", order(WAIT, OTHER_ID))
    assert (status, text) == (409, "another run has not ended on this worker")
    _, answer = await call(node, "POST", "/cancel", CancelOrder(run_id=OTHER_ID))
    assert answer == RunStatus(run_id=RUN_ID)
    _, answer = await call(node, "POST", "/cancel", CancelOrder(run_id=RUN_ID))
    assert answer.stopped == "cancelled"
    assert (await ended(node)).exit_code == 1


async def test_a_drained_worker_ends_its_run_and_takes_no_other(node: Worker) -> None:
    await call(node, "POST", "/run", order(WAIT))
    await printed(node, "started")
    await node.node.drain(120)
    assert await ended(node) == RunStatus(run_id=RUN_ID, exit_code=1, stopped="drained")
    status, text = await call(node, "POST", "/run", order(WAIT, OTHER_ID))
    assert (status, text) == (409, "this instance is being reclaimed")


async def test_a_script_that_ignores_sigterm_is_killed(
    node: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torchrun_node, "STOP_SECONDS", 0.5)
    await call(node, "POST", "/run", order(IGNORES))
    await printed(node, "pid ")
    pid = int(node.tail.text().rpartition("pid ")[2])
    await call(node, "POST", "/cancel", CancelOrder(run_id=RUN_ID))
    assert (await ended(node)).stopped == "cancelled"

    async def is_gone() -> bool:
        return not runs(pid)

    await until(is_gone, 10, "the script to end")


async def test_what_is_no_order_is_refused_without_its_values(node: Worker) -> None:
    refused = '{"run_id": "no", "environment": {"KEY": 1, "SECRET VALUE": "x"}}'
    status, text = await call(node, "POST", "/run", refused)
    assert status == 400
    assert "run_id" in text
    assert "SECRET" not in text
    assert (await call(node, "POST", "/cancel", "[]"))[0] == 400
    status, text = await call(node, "POST", "/cancel", '{"run_id": "SECRET')
    assert (status, "SECRET" in text) == (400, False)
    assert "ends too early" in text
    assert (await call(node, "POST", "/run", "x" * (MAX_ORDER_BYTES + 1)))[0] == 413


@pytest.mark.parametrize("name", ["../train.py", "..", "a/b.py", ""])
def test_a_script_stays_in_its_directory(name: str) -> None:
    with pytest.raises(ValueError, match="file_name"):
        order("", file_name=name)


@pytest.mark.parametrize("path", ["/run", "/cancel"])
async def test_only_the_cluster_gives_orders(node: Worker, path: str) -> None:
    wrong = {"Authorization": f"Bearer {'x' * 32}"}
    assert (await call(node, "POST", path, order(WAIT), **wrong))[0] == 401
    page = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://example.org"}
    assert (await call(node, "POST", path, order(WAIT), **page))[0] == 403
    assert await call(node, "GET", "/run") == (200, RunStatus())
