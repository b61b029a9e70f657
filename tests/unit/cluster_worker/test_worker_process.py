"""A worker as the agent runs it: a process that joins, answers its notebook, and leaves.

A shell script stands in for the Python that runs Ray.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp

from ec2spawner.agent_socket import SOCKET
from ec2spawner.cluster_worker.__main__ import SERVICE_URL
from ec2spawner.wire import JOIN, ClusterJoin
from tests.harness import end, free_ports, until
from tests.stub_agent_socket import stub_agent_socket
from tests.unit.run_executor.executor_process import runs

ROOT = Path(__file__).parents[3]
TOKEN = "t" * 32
RAY_VERSION = "2.60.0"
PYTHON_VERSION = "3.12.3"
SECONDS = 120.0
"""Only what hangs meets it."""

JOINS = "echo Ray runtime started."
WAITS = "exec sleep 600"


@dataclass
class Worker:
    """A worker's process, and Ray's node below it."""

    process: asyncio.subprocess.Process
    url: str
    folder: Path

    @property
    def ray(self) -> int:
        """The process id of Ray's node."""
        return int((self.folder / "pid").read_text())

    async def log(self) -> str:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.url}/log", headers=headers) as answer,
        ):
            assert answer.status == 200
            return await answer.text()

    async def listens(self) -> bool:
        try:
            async with aiohttp.ClientSession() as http, http.get(f"{self.url}/api"):
                return True
        except aiohttp.ClientConnectionError:
            return False

    async def has_started_ray(self) -> bool:
        return (self.folder / "pid").exists()

    async def end(self) -> tuple[int, str]:
        """Wait for its end; returns the exit status and what it wrote to standard error."""
        async with asyncio.timeout(SECONDS):
            _, said = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, said.decode()


@asynccontextmanager
async def worker(
    folder: Path, *, node: str, drain: str = "", agent: str = ""
) -> AsyncIterator[Worker]:
    """Start a worker, and end it with the block. `node` and `drain` are what `ray start` and
    `ray drain-node` do, as lines of a shell."""
    python = folder / "python"
    python.write_text(
        f"""#!/bin/sh
cd {folder}
case "$*" in
  *" start "*) env > environment; echo $$ > pid.new; mv pid.new pid
{node}
  ;;
  *drain-node*) {drain} ;;
  *get_node_id*) echo node-1 ;;
  *) echo '["{PYTHON_VERSION}", "{RAY_VERSION}"]' ;;
esac
"""
    )
    python.chmod(0o755)
    join = ClusterJoin(
        engine="ray",
        address="10.0.0.1:6379",
        token=TOKEN,
        python=str(python),
        python_version=PYTHON_VERSION,
        engine_version=RAY_VERSION,
    )
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ec2spawner.cluster_worker"),
        env={
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder),
            SERVICE_URL: f"{url}/",
            JOIN: join.model_dump_json(),
            SOCKET: agent,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield Worker(process, url, folder)
    finally:
        await end(process)


async def test_a_worker_answers_its_notebook_until_the_agent_ends_it(tmp_path: Path) -> None:
    async with worker(tmp_path, node=f"{JOINS}\n{WAITS}") as ours:
        await until(ours.listens, 30, "the worker to join")
        assert await ours.log() == "Ray runtime started.\n"
        assert runs(ours.ray)
        ours.process.terminate()
        status, _ = await ours.end()
        assert status == 0
        assert not runs(ours.ray)
        assert not await ours.listens()
        assert TOKEN not in (tmp_path / "environment").read_text(), "Ray reads it from a file"


async def test_a_worker_that_is_ended_before_it_has_joined_ends_ray(tmp_path: Path) -> None:
    async with worker(tmp_path, node=WAITS) as ours:
        await until(ours.has_started_ray, 30, "Ray")
        assert not await ours.listens(), "that it listens means that it has joined"
        ours.process.terminate()
        assert await ours.end() == (3, "The worker was stopped before it had joined.\n")
        assert not runs(ours.ray)


async def test_a_worker_ends_with_its_engine_and_says_how(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with worker(tmp_path, node=f"{JOINS}\nread status < fifo\nexit $status") as ours:
        await until(ours.listens, 30, "the worker to join")
        (tmp_path / "fifo").write_text("7\n")
        status, said = await ours.end()
        assert status == 4
        assert said.endswith("The engine has ended by itself: Ray ended with status 7\n")
        assert not await ours.listens()


async def test_a_worker_that_cannot_join_says_why(tmp_path: Path) -> None:
    async with worker(tmp_path, node="echo no such address; exit 1") as ours:
        status, said = await ours.end()
        assert status == 3
        assert said.startswith("Ray did not start. It printed last:\nno such address\n")


async def test_a_notice_of_an_interruption_drains_the_node(tmp_path: Path) -> None:
    drain = 'echo "$@" > drained; echo drained'
    with stub_agent_socket(None) as agent:
        async with worker(
            tmp_path, node=f"{JOINS}\n{WAITS}", drain=drain, agent=agent.path
        ) as ours:
            await until(ours.listens, 30, "the worker to join")
            agent.announce(interruption_at=datetime.now(UTC) + timedelta(seconds=100))

            async def is_drained() -> bool:
                return (await ours.log()).endswith("\ndrained\n")

            await until(is_drained, 30, "the node to be drained")
            assert ours.process.returncode is None, "its work may continue until the end"
            assert runs(ours.ray)
    words = (tmp_path / "drained").read_text().split()
    [left] = [word for word in words if word.startswith("--deadline-remaining-seconds=")]
    assert "--node-id=node-1" in words
    assert 0 < int(left.partition("=")[2]) <= 100
