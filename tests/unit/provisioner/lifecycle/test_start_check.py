"""What a hub that has restarted waits for before it gives a server to JupyterHub again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from ec2spawner.hub.app import restart_check
from ec2spawner.hub.app.restart_check import settled
from tests.harness import free_ports
from tests.unit.provisioner.world import REAL_TIME, World, until


@pytest.fixture
async def real_world(world: World) -> World:
    await world.restart(**REAL_TIME)
    return world


@asynccontextmanager
async def notebook(port: int) -> AsyncIterator[None]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.path == "/user/ada/api" else 404)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = web.AppRunner(app, shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", port).start()
    yield
    await server.cleanup()


@pytest.mark.real_time  # a server behind a socket
async def test_a_server_with_a_live_agent_is_awaited_until_it_responds(
    real_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The network may be at fault: JupyterHub would stop every server."""
    monkeypatch.setattr(restart_check, "REQUEST_TIMEOUT", 0.3)
    (port,) = free_ports(1)
    world = real_world
    lease, agent = await world.ready()
    await world.restart()
    registry = world.provisioner._state.leases
    lease = await registry.change(lease.lease_id, url=f"http://127.0.0.1:{port}")
    waiting = asyncio.create_task(settled(world.provisioner, lease, "/user/ada/", None, 60))
    await world.complete_passes(2)
    assert not waiting.done()
    assert "although the agent of its instance does" not in caplog.text

    await agent.heartbeat()
    await until(lambda: "although the agent of its instance does" in caplog.text)
    assert not waiting.done()
    async with notebook(port):
        await asyncio.wait_for(waiting, 20)


@pytest.mark.real_time  # nothing behind a socket
async def test_an_unresponsive_server_is_awaited_until_it_ends(real_world: World) -> None:
    (port,) = free_ports(1)
    world = real_world
    lease, agent = await world.ready()
    await world.restart()
    registry = world.provisioner._state.leases
    lease = await registry.change(lease.lease_id, url=f"http://127.0.0.1:{port}")
    await agent.heartbeat()
    waiting = asyncio.create_task(settled(world.provisioner, lease, "/user/ada/", None, 60))
    await world.complete_passes(2)
    assert not waiting.done()
    await world.stop(lease)
    await asyncio.wait_for(waiting, 20)


async def test_a_server_without_its_instance_is_detected_soon(world: World) -> None:
    """Its user waits before the page of the check, and listings are rare in a quiet hub."""
    lease, agent = await world.ready()
    await agent.heartbeat_often(3600, every=200)
    await world.kill()
    del world.cloud.machines[agent.instance_id]
    await world.start(quiet_interval=3600)
    assert (await world.stop_of(lease)).reason == "lost"
