"""When the executor reports, whatever it executes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ec2spawner.agent.notebook_server.local_socket import LocalSocket
from ec2spawner.agent_socket import SOCKET
from ec2spawner.run_executor import __main__ as program
from ec2spawner.run_executor import activity, executor, hub_reports
from ec2spawner.run_executor.execution import CannotExecute, Outcome, Progress
from ec2spawner.run_executor.executor import Executor
from ec2spawner.run_executor.hub_reports import HubReports
from ec2spawner.wire import NotebookReply, NotebookRequest
from tests import polling
from tests.harness import free_ports
from tests.unit.run_executor.executor_process import (
    Hub,
    agent_of,
    packed,
    script_work,
    state,
    unpacked,
)


class Counting:
    """An execution whose result is a number, until a test ends it."""

    def __init__(self) -> None:
        self.number = 0
        self.end: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.is_closed = self.is_interrupted = False

    async def run(self) -> Outcome:
        return await self.end

    def progress(self) -> Progress:
        return Progress(message=str(self.number), changes=self.number)

    def result(self) -> Callable[[], str]:
        number = self.number
        return lambda: packed(str(number))

    async def interrupt(self) -> None:
        self.is_interrupted = True

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """One report at once, the next one never."""
    monkeypatch.setattr(executor, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(executor, "INTERVAL_SECONDS", 3600.0)
    monkeypatch.setattr(executor, "INTERRUPT_SECONDS", 0.1)
    monkeypatch.setattr(hub_reports, "END_PAUSES", (0.01, 0.02))


@pytest.fixture
async def hub() -> Hub:
    return Hub(script_work(""))


@pytest.fixture
async def agent(hub: Hub, tmp_path: Path) -> AsyncIterator[LocalSocket]:
    async with agent_of(hub, tmp_path) as opened:
        yield opened


def begun(execution: Counting, agent: LocalSocket, stopped: asyncio.Event) -> asyncio.Task[None]:
    path = str(agent.path)
    return asyncio.create_task(Executor(execution, "train.py", HubReports(path), path).run(stopped))


async def no_more_observations(hub: Hub) -> None:
    """Return once none comes; one may be under way."""
    async with asyncio.timeout(30):
        while True:
            hub.observations.clear()
            await asyncio.sleep(0.3)
            if not hub.observations:
                return


async def test_at_a_notice_what_there_is_is_sent_at_once(hub: Hub, agent: LocalSocket) -> None:
    execution, stopped = Counting(), asyncio.Event()
    execution.number = 1
    running = begun(execution, agent, stopped)
    await hub.until(lambda report: report.message == "1")
    execution.number = 2
    agent.push(state(interruption_at=datetime.now(UTC) + timedelta(seconds=120)))
    flushed = await hub.until(lambda report: report.message == "2")
    assert flushed.action == "progress"
    assert unpacked(flushed.result) == "2"
    execution.end.set_result(Outcome(True, "done"))
    await running
    end = await hub.until_end()
    assert (end.succeeded, end.message, unpacked(end.result)) == (True, "done", "2")
    assert execution.is_closed
    assert not execution.is_interrupted, "it continues until the end"


async def test_the_agent_knows_that_the_instance_works_until_the_hub_has_the_end(
    hub: Hub, agent: LocalSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "INTERVAL_SECONDS", 0.01)
    hub.silent = {"end": 1000}
    execution, stopped = Counting(), asyncio.Event()
    running = begun(execution, agent, stopped)
    await hub.until_observed()
    execution.end.set_result(Outcome(True))
    while len(hub.unanswered) < 3:
        await asyncio.sleep(polling.SHORTEST)
    hub.observations.clear()
    await hub.until_observed()
    (kernel,) = hub.observations[-1].kernels
    assert (kernel.execution_state, kernel.path) == ("busy", "train.py")
    hub.silent = {}
    await running
    await no_more_observations(hub)


async def test_a_hub_that_never_comes_back_does_not_keep_the_instance(
    hub: Hub, agent: LocalSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(executor, "HOLD_SECONDS", 0.1)
    hub.silent = {"end": 1_000_000}
    execution, stopped = Counting(), asyncio.Event()
    execution.end.set_result(Outcome(True))
    running = begun(execution, agent, stopped)
    await hub.until_observed()
    await no_more_observations(hub)
    assert not running.done()
    stopped.set()
    await running


async def test_what_has_not_changed_is_not_reported(
    hub: Hub, agent: LocalSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "INTERVAL_SECONDS", 0.01)
    execution = Counting()
    running = begun(execution, agent, asyncio.Event())
    for number in (1, 2):
        execution.number = number
        await hub.until(lambda report, expected=str(number): report.message == expected)  # type: ignore[misc]
        await asyncio.sleep(0.1)
    execution.end.set_result(Outcome(True))
    await running
    assert [each.message for each in hub.reports if each.action == "progress"] == ["1", "2"]


async def test_progress_never_comes_after_the_end(tmp_path: Path) -> None:
    class SlowHub(Hub):
        """Progress takes until a test lets it in."""

        gate = asyncio.Event()
        waiting = asyncio.Event()

        async def answer(self, request: NotebookRequest) -> NotebookReply:
            if request.run is not None and request.run.action == "progress":
                self.waiting.set()
                await self.gate.wait()
            return await super().answer(request)

    hub = SlowHub(script_work(""))
    async with agent_of(hub, tmp_path) as agent:
        execution = Counting()
        execution.number = 1
        running = begun(execution, agent, asyncio.Event())
        await hub.waiting.wait()
        execution.end.set_result(Outcome(True))
        await asyncio.sleep(0.2)
        assert hub.reports == []
        hub.gate.set()
        await running
    assert [each.action for each in hub.reports] == ["progress", "end"]


async def test_what_does_not_heed_its_interruption_is_ended(hub: Hub, agent: LocalSocket) -> None:
    execution, stopped = Counting(), asyncio.Event()
    running = begun(execution, agent, stopped)
    execution.number = 7
    stopped.set()
    async with asyncio.timeout(30):
        await running
    assert execution.is_interrupted
    assert execution.is_closed
    assert (hub.reports[-1].action, hub.reports[-1].message) == ("progress", "7")


async def test_a_result_that_takes_too_long_does_not_delay_the_last_report(
    hub: Hub, agent: LocalSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "FIRST_SECONDS", 3600.0)
    monkeypatch.setattr(executor, "LAST_ENCODING_SECONDS", 0.1)
    encoded = threading.Event()

    class Slow(Counting):
        def result(self) -> Callable[[], str]:
            return lambda: str(encoded.wait(60))

    execution, stopped = Slow(), asyncio.Event()
    running = begun(execution, agent, stopped)
    stopped.set()
    async with asyncio.timeout(30):
        await running
    encoded.set()
    assert [(each.action, each.result) for each in hub.reports] == [("progress", "")]


async def test_an_end_with_a_result_that_is_refused_is_reported_without(
    hub: Hub, agent: LocalSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = hub.answer

    async def refuse_result(request: NotebookRequest) -> NotebookReply:
        hub.refusal = "too large" if request.run and request.run.result else ""
        return await answer(request)

    monkeypatch.setattr(agent, "_on_request", refuse_result)
    execution = Counting()
    execution.end.set_result(Outcome(False, "cell 1: no"))
    await begun(execution, agent, asyncio.Event())
    (end,) = hub.reports
    assert (end.action, end.result, end.message) == ("end", "", "cell 1: no")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CannotExecute("no such kernel"), "no such kernel"),
        (OSError(13, "Permission denied"), "Permission denied"),
        (OSError(28, "No space left on device"), "your home is full. Delete files"),
        (RuntimeError("of ours"), "RuntimeError: of ours"),
    ],
)
async def test_every_error_is_an_end(
    hub: Hub, agent: LocalSocket, error: Exception, message: str
) -> None:
    execution = Counting()
    execution.end.set_exception(error)
    await begun(execution, agent, asyncio.Event())
    end = await hub.until_end()
    assert not end.succeeded
    assert message in end.message


async def test_a_refusal_ends_the_program_with_a_status_of_its_own(
    hub: Hub,
    agent: LocalSocket,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    [port] = free_ports(1)
    monkeypatch.setenv(program.SERVICE_URL, f"http://127.0.0.1:{port}/run/")
    monkeypatch.setenv(SOCKET, str(agent.path))
    hub.refusal = "no run is waiting for this instance"
    assert await program.run() == program.REFUSED
    assert hub.refusal in capsys.readouterr().err


@pytest.mark.parametrize("missing", [program.SERVICE_URL, SOCKET])
async def test_without_an_agent_the_program_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    for name in (program.SERVICE_URL, SOCKET):
        monkeypatch.setenv(name, "given")
    monkeypatch.delenv(missing)
    assert await program.run() == program.NO_AGENT
    assert missing in capsys.readouterr().err
