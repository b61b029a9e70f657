"""Scheduled events of the instance, as the agent reads them from the metadata."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ec2spawner.agent.metadata.imds import Metadata
from ec2spawner.agent.metadata.scheduled_events import (
    SCHEDULED,
    NoEventsError,
    ScheduledEventWatch,
    parse_events,
)
from ec2spawner.core.instances.scheduled_events import ScheduledEvent as Scheduled
from ec2spawner.wire import ScheduledEvent

REBOOT = {
    "NotBefore": "21 Jan 2027 09:00:43 GMT",
    "Code": "system-reboot",
    "Description": "scheduled reboot",
    "EventId": "instance-event-0d59937288b749b32",
    "NotAfter": "21 Jan 2027 09:17:23 GMT",
    "State": "active",
}
"""As the EC2 User Guide shows it."""

STOP = REBOOT | {"Code": "instance-stop", "NotBefore": "1 Feb 2027 00:00:00 GMT"}
MAINTENANCE = REBOOT | {"Code": "system-maintenance", "NotBefore": "1 Jan 2027 00:00:00 GMT"}
AT = datetime(2027, 1, 21, 9, 0, 43, tzinfo=UTC)


def test_events_have_the_code_and_the_earliest_time() -> None:
    assert parse_events(json.dumps([REBOOT])) == [Scheduled("system-reboot", AT)]
    assert parse_events("[]") == []
    assert parse_events("") == []
    assert parse_events(json.dumps([REBOOT | {"Code": "instance-pause"}])) == []


@pytest.mark.parametrize(
    "text",
    ["{", "null", "[1]", '[{"Code": "instance-stop"}]', "[" * 16_000, "<html>" * 1000]
    + [json.dumps([REBOOT | {"NotBefore": at}]) for at in ("soon", None, "99 Jan 2027 09:00:43")],
)
def test_malformed_events_are_an_error_in_short(text: str) -> None:
    with pytest.raises(NoEventsError) as raised:
        parse_events(text)
    assert len(str(raised.value)) < 600


async def test_the_first_that_ends_the_server_counts_until_it_is_withdrawn() -> None:
    answers: list[Any] = [None, [], [STOP, MAINTENANCE], [STOP, REBOOT, MAINTENANCE], "<html>", []]
    found: list[ScheduledEvent | None] = []
    over = asyncio.Event()

    async def token(_request: web.Request) -> web.Response:
        return web.Response(text="token")

    async def scheduled(_request: web.Request) -> web.Response:
        answer = answers.pop(0) if answers else None
        if not answers:
            over.set()
        if answer is None:
            return web.Response(status=404)
        return web.Response(text=answer if isinstance(answer, str) else json.dumps(answer))

    app = web.Application()
    app.router.add_put("/latest/api/token", token)
    app.router.add_get(f"/latest/{SCHEDULED}", scheduled)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        metadata = Metadata(str(server.make_url("")).rstrip("/"), http)
        watch = asyncio.create_task(ScheduledEventWatch(metadata, found.append, 0.001).run())
        await asyncio.wait_for(over.wait(), 30.0)
        while len(found) < 3:
            await asyncio.sleep(0.001)
        watch.cancel()
    stop_at = datetime(2027, 2, 1, tzinfo=UTC)
    assert found == [
        ScheduledEvent(code="instance-stop", not_before=stop_at),
        ScheduledEvent(code="system-reboot", not_before=AT),
        None,
    ]
