"""Results come into the home, whatever fails at first."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.core.rate_limit import RateLimit, Share
from ec2spawner.core.runs.documents import pack
from ec2spawner.hub.api.agents.handler import LIMITED_PAUSE
from ec2spawner.hub.api.agents.runs import SHOWN_UNDELIVERED
from ec2spawner.hub.app.call_limits import RUN_RESULTS
from ec2spawner.runs import delivery as delivery_module
from ec2spawner.runs.agent_request import answer_in
from ec2spawner.runs.delivery import Delivery
from ec2spawner.runs.errors import RunError, RunRefused
from ec2spawner.wire import NotebookReply, RunsAnswer, RunsRequest, RunSummary, sentence
from ec2spawner.wire.runs import MAX_ARRAY
from tests.virtual_time import in_virtual_time

from .agent_socket import summary

LOG = logging.getLogger("delivery")


@pytest.fixture(autouse=True)
def _files_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual time does not wait for threads."""

    async def run_sync(work: Callable[[], Any], *, abandon_on_cancel: bool) -> Any:
        assert abandon_on_cancel
        return work()

    monkeypatch.setattr(delivery_module, "run_sync", run_sync)


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
            return RunsAnswer(runs=list(self.waiting.values())[:SHOWN_UNDELIVERED])
        assert request.number is not None
        if request.action == "result":
            run = self.waiting[request.number]
            return RunsAnswer(runs=[run], result=self.results[request.number])
        assert request.action == "delivered"
        self.delivered.append(request.number)
        del self.waiting[request.number]
        return RunsAnswer()


class LimitedHub(Hub):
    """Gives out results at the rate of a hub, to one of a user's servers."""

    def __init__(self, *waiting: RunSummary) -> None:
        super().__init__(*waiting)
        self.limit = RateLimit(RUN_RESULTS)

    async def ask(self, request: RunsRequest) -> RunsAnswer:
        now, lease = asyncio.get_running_loop().time(), Share("ann", "lease")
        if request.action == "result" and not self.limit.take(lease, now):
            wait = math.ceil(max(self.limit.wait_seconds(lease, now), 1))
            await asyncio.sleep(LIMITED_PAUSE)
            why = sentence("hub-silent")
            return answer_in(NotebookReply(id=1, ok=False, sentence=why, retry_after_seconds=wait))
        return await super().ask(request)


@asynccontextmanager
async def delivering(hub: Hub, home: Path) -> AsyncIterator[Delivery]:
    delivery = Delivery(hub.ask, home, LOG)
    task = asyncio.create_task(delivery.run())
    yield delivery
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(86_400):
        while not holds():
            await asyncio.sleep(0.1)


async def seconds_for_all(hub: Hub, home: Path) -> float:
    """How long it takes until all results are delivered, with an agent that says how many wait."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    def is_done() -> bool:
        delivery.learn(len(hub.waiting))
        return not hub.waiting

    async with delivering(hub, home) as delivery:
        await until(is_done)
    return loop.time() - began


def ended(number: int, path: str = "work/train.ipynb") -> RunSummary:
    return summary(number, path=path, state="ended", outcome="succeeded", has_result=True)


@in_virtual_time
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


@in_virtual_time
async def test_a_run_without_a_result_is_delivered_without_a_file(tmp_path: Path) -> None:
    hub = Hub(ended(12))
    hub.results[12] = ""
    async with delivering(hub, tmp_path) as delivery:
        delivery.learn(1)
        await until(lambda: hub.delivered == [12])
    assert not (tmp_path / "runs").exists()


@in_virtual_time
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


@in_virtual_time
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


@in_virtual_time
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


@in_virtual_time
async def test_a_pause_that_the_hub_asks_for_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub = LimitedHub(*map(ended, range(1, 61)))
    assert await seconds_for_all(hub, tmp_path) < 30
    assert len(list((tmp_path / "runs").iterdir())) == 60
    assert "WARNING" not in [each.levelname for each in caplog.records]


@in_virtual_time
async def test_the_results_of_the_largest_array_come_at_the_rate_of_the_hub(tmp_path: Path) -> None:
    hub = LimitedHub(*map(ended, range(1, MAX_ARRAY + 1)))
    hub.results = dict.fromkeys(hub.results, "")  # a thousand files would take long to write
    of_server = RUN_RESULTS.per_second / 2
    assert await seconds_for_all(hub, tmp_path) < 1.2 * MAX_ARRAY / of_server


@in_virtual_time
async def test_a_hub_that_answers_now_and_then_is_asked_again_soon(tmp_path: Path) -> None:
    hub = Hub(*map(ended, range(1, 61)))

    def fails(request: RunsRequest) -> None:
        if request.action == "result" and len(hub.asked) % 5 == 0:
            raise RunError("no answer")

    hub.fails = fails
    assert await seconds_for_all(hub, tmp_path) < 300


@in_virtual_time
async def test_a_silent_hub_is_asked_ever_less_often(tmp_path: Path) -> None:
    hub = Hub(ended(12))
    left = [RunError("no answer")] * 8

    def fails(request: RunsRequest) -> None:
        if left:
            raise left.pop()

    hub.fails = fails
    pauses = [10, 20, 40, 80, 160, 320, 600, 600]
    assert sum(pauses) <= await seconds_for_all(hub, tmp_path) < sum(pauses) + 5
