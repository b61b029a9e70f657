"""An agent whose hub refuses a call, and may say when to ask again."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web

from ec2spawner.agent.claim import claim_lease, new_key
from ec2spawner.agent.hub.client import GoneError, HubClient, HubUnreachableError
from ec2spawner.agent.hub.heartbeat import Heartbeat
from ec2spawner.agent.hub.step_reports import StepReports
from ec2spawner.agent.lease_status import LeaseStatus
from ec2spawner.agent.user_requests import UserRequests
from ec2spawner.telemetry import Processes, Sampler, find_gpus
from ec2spawner.wire import (
    AgentEvent,
    Claim,
    Cost,
    HeartbeatResponse,
    IdlePolicy,
    Message,
    NotebookRequest,
    RunsAnswer,
    RunsRequest,
)
from tests.unit.agent.lease_grant import lease_grant

GRANT = lease_grant(IdlePolicy())
NOW = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
ANSWER = HeartbeatResponse(
    state=1, cost=Cost(usd=0, usd_per_hour=1, as_of=NOW, since=NOW), idle=GRANT.idle
)
RETRY_AFTER = 2


class BusyHub:
    """Answers the first call with `first_status`, and all others as a hub in order."""

    def __init__(self) -> None:
        self.url = ""
        self.first_status = 429
        self.retry_after = RETRY_AFTER
        self.called_at: list[float] = []
        self.served = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        self.called_at.append(time.monotonic())
        if len(self.called_at) == 1:
            headers = {"Retry-After": str(self.retry_after)}
            return web.Response(status=self.first_status, headers=headers)
        self.served.set()
        answers: dict[str, Message] = {"claims": GRANT, "runs": RunsAnswer(result="AAAA")}
        answer = answers.get(request.path.rpartition("/")[2], ANSWER)
        return web.Response(text=answer.model_dump_json())


@pytest.fixture
async def hub() -> AsyncIterator[BusyHub]:
    busy, app = BusyHub(), web.Application()
    app.router.add_post("/{path:.*}", busy.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    busy.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hub/api"
    yield busy
    await runner.cleanup()


async def claims(hub: HubClient) -> None:
    claim = Claim(protocol=2, document="{}", signature="x", key=new_key())

    async def claim_anew() -> Claim:
        raise AssertionError("429 is no refusal")

    await claim_lease(hub, claim, claim_anew)


async def reports(hub: HubClient) -> None:
    reports = StepReports(hub)
    reports.report("ready")
    await reports.run()


async def heartbeats(hub: HubClient) -> None:
    watch = LeaseStatus(GRANT, "g4dn.xlarge", Sampler(find_gpus(), Processes(os.getpid())))
    await Heartbeat(hub, watch, lambda _answer: None).run()


@pytest.mark.parametrize("call", [claims, reports, heartbeats])
async def test_retry_after_of_the_hub_is_respected(
    hub: BusyHub, call: Callable[[HubClient], Awaitable[None]]
) -> None:
    await until_served(hub, call)
    first, second = hub.called_at[:2]
    assert second - first >= RETRY_AFTER - 0.1


async def test_a_proxy_cannot_make_an_agent_fall_silent(hub: BusyHub) -> None:
    hub.retry_after = 3600
    event = AgentEvent(step="ready", at=NOW)
    async with aiohttp.ClientSession() as http:
        with pytest.raises(HubUnreachableError) as refused:
            await HubClient(hub.url, http).report(event)
    assert refused.value.retry_after == 60


async def test_a_step_is_reported_again_to_a_hub_that_does_not_know_the_lease_yet(
    hub: BusyHub,
) -> None:
    hub.first_status = 404
    await until_served(hub, reports)
    assert len(hub.called_at) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
async def test_a_hub_that_refuses_a_heartbeat_has_the_next_one(hub: BusyHub, status: int) -> None:
    """A hub that has lost its store knows no lease and no token: no server ends for that."""
    hub.first_status, hub.retry_after = status, 0
    await until_served(hub, heartbeats)


async def test_a_heartbeat_ends_where_the_lease_is_gone(hub: BusyHub) -> None:
    hub.first_status = 410
    with pytest.raises(GoneError):
        await until_served(hub, heartbeats)


async def until_served(hub: BusyHub, call: Callable[[HubClient], Awaitable[None]]) -> None:
    """Raises what `call` raises before that."""
    async with aiohttp.ClientSession() as http:
        calling = asyncio.ensure_future(call(HubClient(hub.url, http)))
        served = asyncio.ensure_future(hub.served.wait())
        try:
            async with asyncio.timeout(30):
                await asyncio.wait({calling, served}, return_when=asyncio.FIRST_COMPLETED)
            if calling.done():
                calling.result()
            assert hub.served.is_set()
        finally:
            for each in (calling, served):
                each.cancel()
            await asyncio.gather(calling, served, return_exceptions=True)


async def test_the_notebook_hears_when_the_hub_wants_to_be_asked_again(hub: BusyHub) -> None:
    request = NotebookRequest(type="runs", id=7, runs=RunsRequest(action="result", number=12))
    watch = LeaseStatus(GRANT, "g4dn.xlarge", Sampler(find_gpus(), Processes(os.getpid())))
    async with aiohttp.ClientSession() as http:
        requests = UserRequests(HubClient(hub.url, http), watch, lambda: None)
        refused = await requests.answer(request)
        assert (refused.id, refused.ok, refused.retry_after_seconds) == (7, False, RETRY_AFTER)
        answered = await requests.answer(request)
    assert answered.runs == RunsAnswer(result="AAAA")
    assert answered.retry_after_seconds == 0
