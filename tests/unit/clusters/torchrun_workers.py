"""Workers of torchrun on this machine, with a stand-in for torch."""

from __future__ import annotations

import platform
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from ec2spawner.cluster_worker.log_tail import LogTail
from ec2spawner.cluster_worker.service import Service
from ec2spawner.cluster_worker.torchrun_node import TorchrunNode
from ec2spawner.wire import ClusterJoin, RunOrder, WorkerStatus
from tests.harness import free_ports

FAKE_TORCH = Path(__file__).resolve().parents[2] / "fake_torch"
TOKEN = "t" * 32
JOIN = ClusterJoin(
    engine="torchrun",
    address="10.0.0.1:29400",
    token=TOKEN,
    python=sys.executable,
    python_version=platform.python_version(),
    engine_version="2.14.1",
)
RUN_ID = "0123456789abcdef" * 2

WAIT = "import time\nprint('started', flush=True)\ntime.sleep(600)\n"


def order(script: str, run_id: str = RUN_ID, **changes: object) -> RunOrder:
    given: dict[str, object] = {
        "run_id": run_id,
        "file_name": "train.py",
        "script": script,
        "max_nodes": 3,
        "max_restarts": 2,
    }
    return RunOrder.model_validate(given | changes)


class Worker:
    """One that has joined, at a port of this machine."""

    def __init__(self, number: int, node: TorchrunNode, tail: LogTail, url: str) -> None:
        self.number, self.node, self.tail, self.url = number, node, tail, url
        self.status = WorkerStatus(
            number=number, state="ready", url=url, since=datetime(2026, 11, 25, tzinfo=UTC)
        )


@asynccontextmanager
async def worker(number: int = 1) -> AsyncIterator[Worker]:
    tail = LogTail()
    node = TorchrunNode(JOIN, "127.0.0.1", sys.executable, tail)
    await node.join()
    [port] = free_ports(1)
    async with Service(node, TOKEN, tail).listening("127.0.0.1", port):
        try:
            yield Worker(number, node, tail, f"http://127.0.0.1:{port}")
        finally:
            await node.leave()
