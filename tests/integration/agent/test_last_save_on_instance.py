"""A stop waits for the pages that are open on the notebook, and never longer than it may."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from ec2spawner.notebook.status.notice_events import SCHEMA_ID
from ec2spawner.wire import SAVE_SECONDS, Stop
from tests.integration.agent.lease_on_instance import (
    API_TOKEN,
    SMALL_SERVER,
    Machine,
    StubHub,
    until,
)
from tests.jupyter_by_hand import Jupyter

PATIENT = f"import ec2spawner.wire\nec2spawner.wire.SAVE_SECONDS = {SAVE_SECONDS * 12}"
"""A page on a busy machine saves later than the agent waits for it."""

STOP = Stop(reason="admin", message="alice asked for it, with an admin's rights")

SILENT_EXTENSION = SMALL_SERVER.replace(
    "HTTPServer((url",
    """
import json, socket
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["EC2SPAWNER_AGENT_SOCKET"])
line.sendall(json.dumps({"type": "observation", "at": "2026-11-03T14:00:00Z"}).encode() + b"\\n")
HTTPServer((url""",
)
"""Speaks to the agent, and never reports that documents are saved."""


def stop(hub: StubHub) -> None:
    hub.stop = STOP
    hub.notify_changed()


def ended_at(hub: StubHub) -> float:
    return next(at for at, event in hub.events if event.step == "stopped")


async def until_announced(events: aiohttp.ClientWebSocketResponse) -> None:
    async with asyncio.timeout(20):
        while True:
            event: dict[str, Any] = json.loads(await events.receive_str())
            if event["schema_id"] == SCHEMA_ID and event["notices"]:
                assert event["notices"][0]["kind"] == "stopping"  # the gravest first
                return


@pytest.mark.nightly(
    guard="tests/integration/hub/test_last_save_on_hub.py::"
    "test_an_open_page_saves_before_its_route_is_removed"
)
async def test_changes_that_an_open_page_saves_after_the_stop_are_in_the_home(
    machine: Machine, hub: StubHub
) -> None:
    machine.notebook = "jupyterlab"
    machine.before_agent = PATIENT
    await machine.boot()
    hub.give(machine.lease())
    await until(lambda: hub.event("ready"), 60, what="ready")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        events = await ada.http.ws_connect(f"{ada.base_url}api/events/subscribe")
        stop(hub)
        await until_announced(events)
        document = {"type": "file", "format": "text", "content": "typed just now"}
        saved, _ = await ada.call("PUT", "api/contents/notes.txt", json=document)
        assert saved == 201
        reported, _ = await ada.call("POST", "ec2spawner/api/saved", json={"page": "a page"})
        assert reported == 200
        await until(lambda: hub.event("stopped"), what="stopped")
        await events.close()
    assert (machine.home / "notes.txt").read_text() == "typed just now"
    assert "documents done after" in machine.log()


async def test_a_silent_extension_delays_the_stop_by_seconds_only(
    machine: Machine, hub: StubHub
) -> None:
    await machine.boot()
    hub.give(machine.lease(command=machine.small_server(SILENT_EXTENSION)))
    await until(lambda: hub.event("ready"), 60, what="ready")
    loop = asyncio.get_running_loop()
    began = loop.time()
    stop(hub)
    await until(lambda: hub.event("stopped"), 30, what="stopped")
    assert ended_at(hub) - began >= SAVE_SECONDS
    assert "documents late after" in machine.log()


async def test_a_server_without_the_extension_is_stopped_at_once(
    machine: Machine, hub: StubHub
) -> None:
    await machine.boot()
    hub.give(machine.lease(command=machine.small_server()))
    await until(lambda: hub.event("ready"), 60, what="ready")
    stop(hub)
    await until(lambda: hub.event("stopped"), 30, what="stopped")
    assert "documents" not in machine.log()
