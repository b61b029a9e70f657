"""Which kernels are shut down on a real server, and what its processes can make the agent say."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.wire import IdlePolicy
from tests.harness import Notebook
from tests.integration.agent.lease_on_instance import API_TOKEN, Machine, StubHub, until
from tests.jupyter_by_hand import Jupyter

pytestmark = pytest.mark.slow(seconds=10)

BUSY = """import time
while True:
    end = time.monotonic() + 0.02
    while time.monotonic() < end: pass
    time.sleep(0.14)"""
"""An eighth of a core, without output: too little to make the simulated GPU work."""


HOSTILE = (
    b'{"type": "stop"}\n',
    b'{"type": "stop", "id": 1, "seconds": -1}\n',
    b'{"type": "extend", "id": 1, "seconds": 1e999}\n',
    b'{"type": "stop", "id": "me", "user": "eve"}\n',
)
"""None of them is a request."""


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_culling.py::"
    "test_a_kernel_that_is_busy_without_output_for_too_long_is_shut_down"
)
async def test_idle_then_silent_kernels_are_shut_down_and_busy_ones_never(
    machine: Machine, hub: StubHub
) -> None:
    hub.idle = IdlePolicy(
        server_seconds=120,
        kernel_seconds=10,
        silent_kernel_seconds=20,
        cpu_busy_percent=0,
        gpu_busy_percent=0,
    )
    await machine.boot()
    hub.give(machine.lease())
    await until(lambda: hub.event("ready"), what="ready")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        kernels = {}
        # Each has its cell before the next one starts: its limit counts from its start.
        for name, cell in (("busy", BUSY), ("idle", "1 + 1"), ("stuck", "input('name? ')")):
            kernels[name] = await ada.start_notebook(f"{name}.ipynb")
            await ada.execute(kernels[name], cell)

        async def until_left(*names: str) -> None:
            expected = {kernels[name] for name in names}
            async with asyncio.timeout(90):
                while {k["id"] for k in (await ada.call("GET", "api/kernels"))[1]} != expected:
                    await asyncio.sleep(0.1)

        await until_left("busy", "stuck")
        await until_left("busy")
        found = (await ada.status())["idleness"]
        assert found["busy_because"] == "busy.ipynb is running"
        assert (found["busy_kernel_id"], found["busy_path"]) == (kernels["busy"], "busy.ipynb")
        # And after its turn, which was before that of the stuck one.
        await asyncio.sleep(4)
        await until_left("busy")


async def test_a_users_process_can_change_only_what_is_displayed(
    machine: Machine, hub: StubHub
) -> None:
    """The word of the notebook comes after it; none of it reaches the hub but as idleness."""
    hub.idle = IdlePolicy(server_seconds=300, cpu_busy_percent=0, gpu_busy_percent=0)
    await machine.boot()
    hub.give(machine.lease())
    await until(lambda: hub.event("ready"), what="ready")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:

        async def until_busy(because: str) -> Any:
            async with asyncio.timeout(90):
                while (status := await ada.status())["idleness"]["busy_because"] != because:
                    await asyncio.sleep(0.05)
            return status

        before = await until_busy("")
        socket = str(machine.root / "run/agent.sock")
        _, writer = await asyncio.open_unix_connection(socket)
        kernel = {"id": "k", "name": "\x1b[31mlie", "execution_state": "busy", "pid": 1}
        future = (datetime.now(UTC) + timedelta(days=300)).isoformat()
        lie = {"type": "observation", "at": future, "last_input": future}
        lie["kernels"] = [kernel | {"last_activity": future}]  # type: ignore[assignment]

        async def repeat_the_lie() -> None:
            """A heartbeat waits for its turn, and the notebook's word may be there before."""
            while True:
                writer.write(json.dumps(lie).encode() + b"\n")
                await asyncio.sleep(0.3)

        lying = asyncio.create_task(repeat_the_lie())
        status = await until_busy("[31mlie is running")
        assert {k: status[k] for k in ("idle_policy", "extended_until", "profile")} == {
            k: before[k] for k in ("idle_policy", "extended_until", "profile")
        }
        await until(
            lambda: hub.heartbeats[-1][1].busy_because == "[31mlie is running", what="a heartbeat"
        )
        lying.cancel()
        # The notebook's own word, within seconds.
        status = await until_busy("")
        idle_since = datetime.fromisoformat(status["idleness"]["idle_since"])
        assert idle_since <= datetime.now(UTC)
        writer.close()
        for line in HOSTILE:
            reader, writer = await asyncio.open_unix_connection(socket)
            writer.write(line)
            async with asyncio.timeout(90):
                await reader.read()
            writer.close()
        # Each has been read, and its connection was hung up for it.
        assert (hub.stop_asked, hub.extend_asked) == (0, 0)
        # What the hub hears is what the owner's button says, and no more.
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(b'{"type": "stop", "id": 7}\n')
        async with asyncio.timeout(90):
            while json.loads(await reader.readline()).get("id") != 7:
                pass
        writer.close()
        assert (hub.stop_asked, hub.extend_asked) == (1, 0)
        assert (await ada.status())["agent_connected"]
