"""The extension brings results home as soon as its agent says that some wait."""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from ec2spawner.agent.notebook_server.local_socket import LocalSocket
from ec2spawner.core.runs.documents import pack
from ec2spawner.notebook.service import NotebookService
from ec2spawner.wire import (
    AgentState,
    Idleness,
    IdlePolicy,
    NotebookReply,
    NotebookRequest,
    RunsAnswer,
    RunsRequest,
    RunSummary,
)
from ec2spawner.wire.runs import MAX_DOCUMENT_BYTES
from tests.stub_agent_socket import ME

NOW = datetime.now(UTC)
RUN = RunSummary(
    number=12,
    path="work/train.py",
    profile="t4",
    profile_name="T4",
    state="ended",
    outcome="succeeded",
    submitted_at=NOW,
    has_result=True,
)
LARGEST = random.Random(1).randbytes(MAX_DOCUMENT_BYTES * 3 // 4 - 4096)
"""As large as a result can be, for random bytes cannot be compressed."""


class Agent:
    """Passes requests on to a hub that has one result."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self.is_delivered = asyncio.Event()

    async def answer(self, request: NotebookRequest) -> NotebookReply:
        assert request.runs is not None
        self.asked.append((request.runs.action, request.runs.number))
        found = RunsAnswer(runs=[RUN])
        if request.runs == RunsRequest(action="result", number=12):
            found = RunsAnswer(runs=[RUN], result=pack([LARGEST]))
        if request.runs == RunsRequest(action="delivered", number=12):
            self.is_delivered.set()
        return NotebookReply(id=request.id, ok=True, runs=found)


def state(count: int, *, hub_reachable: bool = True) -> AgentState:
    return AgentState(
        at=NOW,
        idle_policy=IdlePolicy(),
        idleness=Idleness(),
        undelivered_runs=count,
        hub_reachable=hub_reachable,
    )


async def test_a_result_that_waits_is_brought_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = Agent()
    opened = LocalSocket(tmp_path, ME, lambda _: None, agent.answer, lambda said: None)
    await opened.start()
    server = MagicMock()
    server.event_logger = None
    service = NotebookService(
        server, logging.getLogger(), agent_socket=str(opened.path), owner="ada", end_url=""
    )
    service.start()
    try:
        async with asyncio.timeout(30):
            assert service.link is not None
            await service.link.connected.wait()
            for each in (state(0), state(1, hub_reachable=False)):
                opened.push(each)
                while service.link.state != each:
                    await asyncio.sleep(0.01)
            assert agent.asked == []
            opened.push(state(1))
            await agent.is_delivered.wait()
    finally:
        await service.stop()
        await opened.close()
    assert (tmp_path / "runs" / "train-12.log").read_bytes() == LARGEST
    assert agent.asked == [("undelivered", None), ("result", 12), ("delivered", 12)]
