"""The executor as a process of its own, the agent's real socket, and a hub that a test plays."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import psutil
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from ec2spawner.agent.notebook_server.local_socket import LocalSocket
from ec2spawner.agent.settings import NotebookUser
from ec2spawner.agent_socket import SOCKET
from ec2spawner.wire import (
    AgentState,
    Idleness,
    IdlePolicy,
    NotebookReply,
    NotebookRequest,
    Observation,
    RunReport,
    RunWork,
    sentence,
)
from tests import polling
from tests.harness import free_ports

ROOT = Path(__file__).parents[3]
ME = NotebookUser("me", os.getuid(), os.getgid(), (), Path("/"), "/bin/sh")
SECONDS = 120.0
"""Only what hangs meets it."""

PROGRAM = """
from ec2spawner import process_end
from ec2spawner.run_executor import executor
from ec2spawner.run_executor.__main__ import main
process_end.MAX_KILL_SECONDS = executor.INTERRUPT_SECONDS = 60.0
executor.LAST_ENCODING_SECONDS = executor.LAST_REPORT_SECONDS = 60.0
main()
"""
"""The executor, whose steps on its way out may be slow: the machine of a test is a busy one."""


def packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode())).decode()


def unpacked(document: str) -> str:
    return zlib.decompress(base64.b64decode(document)).decode()


def notebook(*sources: str, **metadata: Any) -> NotebookNode:
    cells = [new_code_cell(source) for source in sources]
    return new_notebook(cells=cells, metadata=metadata)


def notebook_work(of: NotebookNode, path: str = "projects/train.ipynb", **fields: Any) -> RunWork:
    given = {"number": 3, "attempt": 1, "kind": "notebook", "path": path}
    return RunWork(**{**given, "document": packed(nbformat.writes(of)), **fields})


def script_work(source: str, path: str = "projects/train.py", **fields: Any) -> RunWork:
    given = {"number": 3, "attempt": 1, "kind": "script", "path": path}
    return RunWork(**{**given, "document": packed(source), **fields})


def result_of(report: RunReport) -> NotebookNode:
    executed = nbformat.reads(unpacked(report.result), as_version=4)
    nbformat.validate(executed)
    return executed


def text_of(cell: NotebookNode) -> str:
    """All streams of a cell."""
    return "".join(each.text for each in cell.get("outputs", []) if each.output_type == "stream")


def runs(pid: int) -> bool:
    """Whether a process is there; one that has ended may wait for its parent."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Hub:
    """What the hub answers, and what it has heard."""

    def __init__(self, work: RunWork) -> None:
        self.work = work
        self.reports: list[RunReport] = []
        self.refusal = ""
        self.silent: dict[str, int] = {}
        """How many reports of an action are not answered."""
        self.unanswered: list[RunReport] = []
        self.observations: list[Observation] = []
        """What its agent has heard."""
        self._grown = asyncio.Event()

    async def answer(self, request: NotebookRequest) -> NotebookReply:
        assert request.type == "run"
        assert request.run is not None
        action = request.run.action
        if self.refusal:
            why = sentence("refused", detail=self.refusal)
            return NotebookReply(id=request.id, ok=False, sentence=why)
        if self.silent.get(action, 0) > 0:
            self.silent[action] -= 1
            self.unanswered.append(request.run)
            return NotebookReply(id=request.id, ok=False, sentence=sentence("hub-silent"))
        self.reports.append(request.run)
        self._grown.set()
        work = self.work if action == "begin" else self.work.model_copy(update={"document": ""})
        return NotebookReply(id=request.id, ok=True, work=work)

    async def until(self, is_it: Callable[[RunReport], bool]) -> RunReport:
        """The first report of which this is true."""
        async with asyncio.timeout(SECONDS):
            while True:
                self._grown.clear()
                if found := next((each for each in self.reports if is_it(each)), None):
                    return found
                await self._grown.wait()

    async def until_observed(self) -> None:
        async with asyncio.timeout(SECONDS):
            while not self.observations:
                await asyncio.sleep(polling.SHORTEST)

    async def until_end(self) -> RunReport:
        return await self.until(lambda report: report.action == "end")


@asynccontextmanager
async def agent_of(hub: Hub, folder: Path) -> AsyncIterator[LocalSocket]:
    agent = LocalSocket(folder, ME, hub.observations.append, hub.answer, lambda said: None)
    await agent.start()
    agent.push(state())
    try:
        yield agent
    finally:
        await agent.close()


def state(**fields: Any) -> AgentState:
    return AgentState(at=datetime.now(UTC), idle_policy=IdlePolicy(), idleness=Idleness(), **fields)


class Running:
    """An executor on its instance."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, agent: LocalSocket) -> None:
        self.process = process
        self.url = url
        self.agent = agent

    async def status(self) -> int:
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM, as the agent does; the exit status."""
        self.process.terminate()
        return await self.status()

    async def errors(self) -> str:
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()


@asynccontextmanager
async def executor(hub: Hub, home: Path) -> AsyncIterator[Running]:
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}/run/"
    home.mkdir(exist_ok=True)
    async with agent_of(hub, home.parent) as agent:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", PROGRAM),
            cwd=home,
            env={
                "HOME": str(home),
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "JUPYTERHUB_SERVICE_URL": url,
                SOCKET: str(agent.path),
            },
            stderr=asyncio.subprocess.PIPE,
            limit=2**20,
        )
        try:
            yield Running(process, url, agent)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
