"""Results come into the home, whatever fails at first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ec2spawner.core.runs.documents import pack
from ec2spawner.runs.delivery import Delivery
from ec2spawner.runs.errors import RunError, RunRefused
from ec2spawner.wire import RunsAnswer, RunsRequest, RunSummary

from .agent_socket import summary

LOG = logging.getLogger("delivery")


class Hub:
    """Has results that wait, and notes what was delivered."""

    def __init__(self, *waiting: RunSummary) -> None:
        self.waiting = {run.number: run for run in waiting}
        self.results = {run.number: pack([f"result {run.number}".encode()]) for run in waiting}
        self.delivered: list[int] = []
        self.fails: Callable[[RunsRequest], None] = lambda request: None
        self.asked: list[tuple[str, int | None]] = []

    async def ask(self, request: RunsRequest) -> RunsAnswer:
        self.asked.append((request.action, request.number))
        self.fails(request)
        if request.action == "undelivered":
            return RunsAnswer(runs=list(self.waiting.values()))
        assert request.number is not None
        if request.action == "result":
            run = self.waiting[request.number]
            return RunsAnswer(runs=[run], result=self.results[request.number])
        assert request.action == "delivered"
        self.delivered.append(request.number)
        del self.waiting[request.number]
        return RunsAnswer()


@asynccontextmanager
async def delivering(hub: Hub, home: Path) -> AsyncIterator[Delivery]:
    delivery = Delivery(hub.ask, home, LOG, first_pause=0.001)
    task = asyncio.create_task(delivery.run())
    yield delivery
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


def ended(number: int, path: str = "work/train.ipynb") -> RunSummary:
    return summary(number, path=path, state="ended", outcome="succeeded", has_result=True)


async def test_all_that_waits_comes_home(tmp_path: Path) -> None:
    hub = Hub(ended(12), ended(13, "train.py"))
    async with delivering(hub, tmp_path) as delivery:
        delivery.learn(0)
        await asyncio.sleep(0)
        assert hub.asked == []
        delivery.learn(2)
        await until(lambda: not hub.waiting)
    assert (tmp_path / "runs/train-12.ipynb").read_text() == "result 12"
    assert (tmp_path / "runs/train-13.log").read_text() == "result 13"


async def test_a_run_without_a_result_is_delivered_without_a_file(tmp_path: Path) -> None:
    hub = Hub(ended(12))
    hub.results[12] = ""
    async with delivering(hub, tmp_path) as delivery:
        delivery.learn(1)
        await until(lambda: hub.delivered == [12])
    assert not (tmp_path / "runs").exists()


async def test_a_delivery_that_the_hub_has_not_noted_is_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub(ended(12))
    lost = [RunError("no answer")] * 3

    def fails(request: RunsRequest) -> None:
        if request.action == "delivered" and lost:
            raise lost.pop()

    hub.fails = fails
    async with delivering(hub, tmp_path) as delivery:
        delivery.learn(1)
        await until(lambda: hub.delivered == [12])
    assert [each.name for each in (tmp_path / "runs").iterdir()] == ["train-12.ipynb"]
    assert [each.levelname for each in caplog.records].count("WARNING") == 1


async def test_one_that_is_damaged_keeps_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub(ended(11), ended(12), ended(13))
    hub.results[11] = "AAAA"

    def fails(request: RunsRequest) -> None:
        if request == RunsRequest(action="result", number=12):
            raise RunRefused("it is gone")

    hub.fails = fails
    async with delivering(hub, tmp_path) as delivery:
        delivery.learn(3)
        await until(lambda: hub.delivered == [13])
        hub.results[11], hub.fails = pack([b"again"]), lambda request: None
        await until(lambda: not hub.waiting)
    assert (tmp_path / "runs/train-11.ipynb").read_text() == "again"
    assert "it is gone" in caplog.text


async def test_a_home_that_cannot_be_written_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub(ended(12), ended(13))
    (tmp_path / "runs").write_text("mine")
    async with delivering(hub, tmp_path) as delivery:
        delivery.learn(2)
        await until(lambda: [each for each, _ in hub.asked].count("undelivered") == 3)
        assert hub.delivered == []
        assert ("result", 13) not in hub.asked
        (tmp_path / "runs").unlink()
        await until(lambda: not hub.waiting)
    assert (tmp_path / "runs/train-13.ipynb").exists()
    assert str(tmp_path / "runs") in caplog.text
