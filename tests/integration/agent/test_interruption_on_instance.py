"""Spot notices from a metadata service: they come, they are withdrawn, and it may fall silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web

from ec2spawner.agent.metadata.imds import Metadata
from ec2spawner.agent.metadata.interruption import InterruptionWatch
from tests.integration.agent.lease_on_instance import Machine, StubHub, until

NOTICE = '{"action": "terminate", "time": "2026-11-20T12:02:00Z"}'
AT = datetime(2026, 11, 20, 12, 2, tzinfo=UTC)


class SpotInstance:
    """Its metadata service, and what a watch has reported of it."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self.url = ""
        self.life_cycle = "spot"
        self.notice = ""
        self.status = 0
        """What everything is answered with; 0 is as it should be."""
        self.tokens = 0
        self.reads = 0
        """That were answered."""
        self.notices: list[datetime | None] = []

    def watch(self) -> asyncio.Task[None]:
        watch = InterruptionWatch(Metadata(self.url, self.http), self.hear, poll_seconds=0.02)
        self.watching = asyncio.create_task(watch.run(), name="interruption")
        return self.watching

    async def token(self, request: web.Request) -> web.Response:
        self.tokens += 1
        return web.Response(text=f"token-{self.tokens}")

    async def metadata(self, request: web.Request) -> web.Response:
        if self.status:
            self.reads += 1
            return web.Response(status=self.status)
        if request.headers["X-aws-ec2-metadata-token"] != f"token-{self.tokens}":
            return web.Response(status=401)
        self.reads += 1
        path = request.match_info["path"]
        text = {"instance-life-cycle": self.life_cycle, "spot/instance-action": self.notice}[path]
        return web.Response(text=text) if text else web.Response(status=404)

    async def hear(self, at: datetime | None) -> None:
        self.notices.append(at)

    async def seen(self, reads: int = 2) -> None:
        """Looks that began after this, with what followed from them."""
        until = self.reads + reads
        async with asyncio.timeout(90):
            while self.reads < until:
                await asyncio.sleep(0.005)


@pytest.fixture
async def spot() -> AsyncIterator[SpotInstance]:
    async with aiohttp.ClientSession() as http:
        spot = SpotInstance(http)
        app = web.Application()
        app.router.add_put("/latest/api/token", spot.token)
        app.router.add_get("/latest/meta-data/{path:.*}", spot.metadata)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        spot.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield spot
        spot.watching.cancel()
        await asyncio.wait({spot.watching}, timeout=5)
        assert spot.watching.done()
        await runner.cleanup()


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Not what asyncio logs of processes that an earlier test has ended."""
    return [each for each in caplog.records if each.name.startswith("ec2spawner.")]


async def test_a_notice_is_reported_while_valid_and_its_end_once(
    spot: SpotInstance, caplog: pytest.LogCaptureFixture
) -> None:
    spot.watch()
    await spot.seen()
    assert spot.notices == []
    spot.notice = NOTICE
    await spot.seen(4)
    assert len(spot.notices) >= 2
    assert set(spot.notices) == {AT}
    spot.notice = ""
    await spot.seen(4)
    assert spot.notices.count(None) == 1
    assert spot.notices[-1] is None
    said = [each.message for each in ours(caplog) if each.levelno >= logging.WARNING]
    assert len(said) == 2, said


async def test_failed_reads_change_nothing_and_are_logged_once(
    spot: SpotInstance, caplog: pytest.LogCaptureFixture
) -> None:
    spot.watch()
    await spot.seen()
    spot.status = 503
    await spot.seen(5)
    assert len(ours(caplog)) == 1
    spot.status, spot.notice = 0, "{}"
    await spot.seen(5)
    assert len(ours(caplog)) == 2
    assert spot.notices == []
    spot.notice = NOTICE
    await spot.seen(3)
    spot.status = 503
    await spot.seen(4)
    assert None not in spot.notices, "a notice that cannot be read again still stands"


async def test_a_token_that_has_expired_is_replaced(spot: SpotInstance) -> None:
    spot.watch()
    await spot.seen()
    assert spot.tokens == 1
    spot.tokens += 1  # the service knows another one now
    spot.notice = NOTICE
    await spot.seen(3)
    assert spot.tokens == 3
    assert spot.notices[0] == AT


@pytest.mark.parametrize("life_cycle", ["on-demand", "capacity-block", ""])
async def test_only_spot_instances_are_watched(spot: SpotInstance, life_cycle: str) -> None:
    spot.life_cycle, spot.notice = life_cycle, NOTICE
    async with asyncio.timeout(90):
        await spot.watch()
    assert spot.notices == []


async def test_a_notice_reaches_the_hub_before_there_is_a_lease(
    machine: Machine, hub: StubHub
) -> None:
    await machine.boot()
    await until(lambda: hub.claims, 40, "a claim, which the hub holds")
    machine.spot_notice = NOTICE
    await until(
        lambda: hub.claims[-1].interruption_at == AT,
        what="another claim, with the notice; the first ones are short and repeat without one",
    )
    assert hub.claims[0].interruption_at is None
    hub.give(machine.lease())
    await until(lambda: hub.event("ready"), what="ready: an older hub does not know that field")
