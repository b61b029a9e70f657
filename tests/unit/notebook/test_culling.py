"""The extension shuts down the kernels that its agent finds idle, and no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from ec2spawner.notebook.observer import Observer
from ec2spawner.notebook.service import NotebookService
from ec2spawner.wire import AgentState, Idleness, IdlePolicy

SILENT_SECONDS = 20.0


class Kernels:
    """Jupyter Server's manager of kernels that send no messages."""

    def __init__(self) -> None:
        self.running = {
            name: SimpleNamespace(execution_state="idle") for name in ("idle", "stuck", "busy")
        }
        self.steps: list[str] = []
        self.go = asyncio.Event()
        """Set, a shutdown ends."""
        self.failures = 0
        """Shutdowns that still fail."""

    def list_kernel_ids(self) -> list[str]:
        return list(self.running)

    def get_kernel(self, kernel_id: str) -> Any:
        return self.running[kernel_id]

    async def shutdown_kernel(self, kernel_id: str) -> None:
        self.steps.append(f"shut down {kernel_id}")
        await self.go.wait()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("it does not end")
        del self.running[kernel_id]


class Server:
    """A notebook server's extension with three kernels; the agent is the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
        self.kernels = Kernels()
        server = MagicMock(kernel_manager=self.kernels)
        self.service = NotebookService(
            server, logging.getLogger(), agent_socket="/nowhere", owner="ada", end_url=""
        )
        self.service.observer = Observer(server, lambda: self.now)
        monkeypatch.setattr(self.service.outputs, "write", self.write)

    async def write(self, kernel_ids: Collection[str]) -> None:
        self.kernels.steps.append(f"save {', '.join(kernel_ids)}")

    async def observe(self) -> datetime:
        """The instant of an observation."""
        return (await self.service.observer.observe()).at

    async def find_idle(self, *kernel_ids: str, at: datetime | None = None) -> None:
        """The agent finds these idle by the observation of that instant, now if not given."""
        self.service._learn(
            AgentState(
                at=at or self.now,
                idle_policy=IdlePolicy(silent_kernel_seconds=SILENT_SECONDS),
                idleness=Idleness(cull_kernels=list(kernel_ids)),
            )
        )
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("HOME", str(tmp_path))
    server = Server(monkeypatch)
    await server.observe()
    return server


async def test_an_idle_kernel_is_shut_down_once_and_its_outputs_are_saved_first(
    server: Server,
) -> None:
    await server.find_idle("idle")
    await server.find_idle("idle")
    assert server.kernels.steps == ["save idle", "shut down idle"]
    server.kernels.go.set()
    await server.find_idle("idle")
    assert server.kernels.running.keys() == {"stuck", "busy"}
    await server.observe()
    await server.find_idle("idle", "unknown")
    assert len(server.kernels.steps) == 2


async def test_a_kernel_that_has_worked_since_is_not_shut_down(server: Server) -> None:
    server.kernels.running["busy"].execution_state = "busy"
    await server.observe()
    server.now += timedelta(seconds=SILENT_SECONDS / 2)
    await server.find_idle("busy")
    assert server.kernels.steps == []


async def test_a_kernel_that_is_busy_without_output_for_too_long_is_shut_down(
    server: Server,
) -> None:
    server.kernels.go.set()
    server.kernels.running["stuck"].execution_state = "busy"
    await server.observe()
    server.now += timedelta(seconds=SILENT_SECONDS)
    server.kernels.running["busy"].execution_state = "busy"
    await server.observe()
    server.now += timedelta(seconds=SILENT_SECONDS / 2)
    await server.find_idle("stuck", "busy")
    assert server.kernels.running.keys() == {"idle", "busy"}


async def test_a_person_who_has_typed_since_keeps_all_kernels(server: Server) -> None:
    server.kernels.go.set()
    found_idle_at = server.now
    server.now += timedelta(seconds=1)
    server.service.observer.input()
    await server.find_idle("idle", at=found_idle_at)
    assert server.kernels.steps == []
    await server.find_idle("idle")
    assert server.kernels.running.keys() == {"stuck", "busy"}


async def test_a_shutdown_that_fails_is_tried_again_and_affects_no_other(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.kernels.go.set()
    server.kernels.failures = 1
    await server.find_idle("idle", "stuck")
    assert server.kernels.running.keys() == {"idle", "busy"}
    assert "kernel idle could not be shut down" in caplog.text
    await server.find_idle("idle")
    assert server.kernels.running.keys() == {"busy"}
