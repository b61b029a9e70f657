"""Runs as the notebook sees them, on real workers with a stand-in for torch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.clusters import run as run_module
from ec2spawner.clusters import run_folder, runs
from ec2spawner.clusters.errors import ClusterError
from ec2spawner.clusters.run import Run
from ec2spawner.clusters.run_folder import Record
from ec2spawner.wire import MAX_SCRIPT_BYTES, ClusterStatus, RunOrder
from tests import polling
from tests.unit.clusters.torchrun_workers import FAKE_TORCH, TOKEN, WAIT, Worker, order, worker

RECORD = Record("torchrun", "2.14.1", "10.0.0.1:29400", TOKEN, 1, 0.0, "3.11.0")


class Cluster:
    """Workers as the hub would list them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.workers: list[Worker] = []
        self.wanted = 2
        self.problem: Exception | None = None
        self.problems_raised = 0

    async def add(self) -> Worker:
        found = await self._stack.enter_async_context(worker(len(self.workers) + 1))
        self.workers.append(found)
        return found

    def status(self) -> ClusterStatus:
        if self.problem is not None:
            self.problems_raised += 1
            raise self.problem
        return ClusterStatus(wanted=self.wanted, workers=[each.status for each in self.workers])

    def run(self, wanted: RunOrder) -> Run:
        return runs.start(wanted, RECORD, self.status())


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Cluster]:
    monkeypatch.setenv("PYTHONPATH", str(FAKE_TORCH))
    monkeypatch.setattr(run_module, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(run_folder, "ROOT", tmp_path)
    async with AsyncExitStack() as stack:
        found = Cluster(stack)
        monkeypatch.setattr(runs, "status_now", found.status)
        await found.add()
        await found.add()
        yield found


async def done(call: Callable[..., Any], *args: Any) -> Any:
    """What a call of the kernel returns, which blocks, while the workers answer here."""
    return await asyncio.wait_for(asyncio.to_thread(call, *args), 30)


async def started(each: Worker) -> None:
    async with asyncio.timeout(60):
        await each.tail.until("started")


async def until(condition: Callable[[], bool]) -> None:
    """What the thread that follows a run does next."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(polling.SHORTEST)


async def test_a_run_succeeds_once_all_workers_have_finished(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    run = await done(cluster.run, order("print('trained')"))
    assert await done(run.wait, 20) == 0
    assert (run.status, run.exit_code, run.workers) == ("succeeded", 0, [])
    logs = await done(run.logs)
    assert "--- worker 1" in logs
    assert logs.count("\ntrained\n") == 2
    assert "trained" in await done(run.logs, 2)
    assert "Worker 2 runs train.py" in capfd.readouterr().out


async def test_a_failure_shows_what_the_script_has_printed(cluster: Cluster) -> None:
    run = await done(cluster.run, order("raise SystemExit('no such data')"))
    with pytest.raises(ClusterError, match=r"exit code 1. It printed last:[\s\S]*no such data"):
        await done(run.wait, 20)
    assert (run.status, run.exit_code) == ("failed", 1)


async def test_a_replacement_is_given_the_run(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    run = await done(cluster.run, order(WAIT, max_nodes=2))
    for each in cluster.workers:
        await started(each)
    extra = await cluster.add()
    reclaimed = cluster.workers[0]
    await reclaimed.node.drain(120)
    await started(extra)
    late = await cluster.add()
    shown = f"Run {run.id[:8]} of train.py: running on workers 2, 3"
    await until(lambda: repr(run) == shown)
    cluster.problem = ClusterError("The hub does not answer now.")
    await until(lambda: cluster.problems_raised > 0)
    cluster.problem = None
    await done(run.cancel)
    with pytest.raises(ClusterError, match="was cancelled"):
        await done(run.wait, 20)
    assert (run.status, run.exit_code) == ("cancelled", None)
    said = capfd.readouterr().out
    assert "Worker 1 leaves the run: AWS is reclaiming its instance" in said
    assert "The hub does not answer now." in said
    assert "started" not in late.tail.text()


async def test_a_run_ends_with_the_clusters_workers(cluster: Cluster) -> None:
    run = await done(cluster.run, order(WAIT))
    cluster.workers, cluster.wanted = [], 0
    with pytest.raises(ClusterError, match="ended with the cluster's workers"):
        await done(run.wait, 20)


async def test_a_second_run_is_refused_and_the_first_continues(cluster: Cluster) -> None:
    first = await done(cluster.run, order(WAIT))
    with pytest.raises(ClusterError, match=r"another run has not ended.*cluster.last_run"):
        await done(cluster.run, order(WAIT, "f" * 32))
    with pytest.raises(ClusterError, match="has not ended within 0 s"):
        await done(first.wait, 0)
    again = await done(runs.last, RECORD)
    await done(again.cancel)
    with pytest.raises(ClusterError, match="was cancelled"):
        await done(again.wait, 20)
    assert again.id == first.id


async def test_a_run_needs_workers(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="has run no script"):
        await done(runs.last, RECORD)
    with pytest.raises(ClusterError, match="min_nodes=3, but the run has at most 2"):
        await done(cluster.run, order("", min_nodes=3, max_nodes=2))
    cluster.workers = []
    with pytest.raises(ClusterError, match="No worker has joined"):
        await done(cluster.run, order(""))


OPTIONS: dict[str, Any] = {
    "nproc_per_node": None,
    "min_nodes": 1,
    "max_nodes": 4,
    "max_restarts": 10,
    "environment": None,
}


def test_an_order_has_the_script_and_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("print('größe')")
    found = runs.new_order(path, ["--rate", 0.1], **OPTIONS)
    assert (found.file_name, found.script) == ("train.py", "print('größe')")
    assert found.args == ["--rate", "0.1"]
    assert found.run_id != runs.new_order(path, [], **OPTIONS).run_id


def test_what_is_no_script_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    with pytest.raises(ClusterError, match="cannot be read as a script"):
        runs.new_order(path, [], **OPTIONS)
    path.write_bytes(b"\xff")
    with pytest.raises(ClusterError, match="cannot be read as a script"):
        runs.new_order(path, [], **OPTIONS)
    path.write_text("#" * (MAX_SCRIPT_BYTES + 1))
    with pytest.raises(ClusterError, match=r"more than 1 MiB\. Only the script itself"):
        runs.new_order(path, [], **OPTIONS)
    path.write_text("")
    with pytest.raises(ClusterError, match=r"cannot be started. min_nodes: "):
        runs.new_order(path, [], **OPTIONS | {"min_nodes": 0})
