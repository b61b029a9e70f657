"""A stop waits for the pages that are open on the notebook and for the home, and never longer than
it may."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from ec2spawner.notebook.status.notice_events import SCHEMA_ID
from ec2spawner.wire import SAVE_SECONDS, HomeMount, Stop
from tests.integration.agent.lease_on_instance import (
    API_TOKEN,
    PYTHON,
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


VOLUME = "vol-0123456789abcdef0"


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


def put_sync(machine: Machine, script: str) -> None:
    """Put another `sync` into the image."""
    folder = machine.root / "bin"
    folder.mkdir()
    (folder / "sync").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "sync").chmod(0o755)
    path = f"{folder}:{PYTHON.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    machine.environment["PATH"] = path


async def until_ready_with_home(machine: Machine, hub: StubHub) -> None:
    machine.volume(VOLUME)
    await machine.boot()
    home = HomeMount(kind="ebs", volume_id=VOLUME)
    hub.give(machine.lease(command=machine.small_server(), home=home))
    await until(lambda: hub.event("ready"), what="ready")


async def test_the_hub_hears_that_a_home_is_flushed(machine: Machine, hub: StubHub) -> None:
    gate = machine.root / "gate"
    put_sync(machine, f"while [ ! -e {gate} ]; do sleep 0.05; done")
    await until_ready_with_home(machine, hub)
    assert {each.dirty_bytes for _, each in hub.heartbeats} <= {None}
    stop(hub)

    def reports() -> list[int]:
        reported = [each.dirty_bytes for _, each in hub.heartbeats]
        return [each for each in reported if each is not None][1:]

    await until(reports, what="two reports, the second after some seconds")
    assert hub.event("stopped") is None
    gate.touch()
    stopped = await until(lambda: hub.event("stopped"), what="stopped")
    assert stopped.home_released

    def repeats_it() -> bool:
        hub.notify_changed()
        return hub.heartbeats[-1][1].has_stopped

    await until(repeats_it, what="a heartbeat that repeats it")
    last = hub.heartbeats[-1][1]
    assert last.home_released
    assert last.dirty_bytes is None


async def test_the_hub_hears_that_a_home_is_still_mounted(machine: Machine, hub: StubHub) -> None:
    put_sync(machine, "echo the disk does not answer; exit 1")
    await until_ready_with_home(machine, hub)
    stop(hub)
    stopped = await until(lambda: hub.event("stopped"), what="stopped")
    assert not stopped.home_released
    assert "the disk does not answer" in stopped.message
    assert machine.home.is_symlink()
