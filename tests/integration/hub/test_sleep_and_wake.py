"""An idle server with a real agent and a real kernel: it sleeps, and the next start wakes it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from tests.harness import Embedded, Hub, demo_config, until
from tests.jupyter_by_hand import Jupyter, Kernel, printed

pytestmark = pytest.mark.slow(seconds=40)

QUICK = (
    "c.EC2Spawner.idle = {'server': '8s', 'warn': '2s', 'cpu_busy_percent': 0}",
    "c.EC2Spawner.idle |= {'gpu_busy_percent': 0}",
    "c.EC2Spawner.home = {'kind': 'ebs', 'size_gib': 20}",
)

SET_UP = """
import math
class Model:
    def __init__(self, weights): self.weights = weights
model = Model([math.pi] * 3)
rows = list(range(100_000))
lock = __import__("threading").Lock()
"""


async def asleep(hub: Hub, user: str) -> dict[str, Any] | None:
    """What sleeps, as its owner sees it."""
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    async with httpx.AsyncClient(timeout=30, headers=headers) as client:
        reply = await client.get(f"{hub.url}/hub/api/ec2/users/{user}/server/session")
    assert reply.status_code == 200, reply.text
    session: dict[str, Any] | None = reply.json()["session"]
    return session


async def at_notebook(hub: Hub, user: str) -> Jupyter:
    return Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user))


async def woken(notebook: Jupyter) -> dict[str, Any]:
    async def done() -> dict[str, Any] | None:
        with suppress(aiohttp.ClientError, AssertionError):
            wake: dict[str, Any] | None = (await notebook.status())["wake"]
            return wake if wake and wake["state"] == "done" else None
        return None

    return await until(done, 60, "the session to be back")


async def kernel_of(notebook: Jupyter, path: str) -> Kernel:
    _, sessions = await notebook.call("GET", "api/sessions")
    [kernel_id] = [each["kernel"]["id"] for each in sessions if each["path"] == path]
    return Kernel(notebook, kernel_id)


async def test_an_idle_server_sleeps_and_the_next_start_wakes_its_variables(
    embedded: Embedded, tmp_path: Path
) -> None:
    hub = Hub(tmp_path / "hub", embedded, config=demo_config(tmp_path / "config", *QUICK))
    try:
        await hub.start()
        await hub.start_server("ann", options={"profile": "cpu"})
        async with await at_notebook(hub, "ann") as notebook:
            assert (await notebook.status())["can_sleep"]
            empty = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
            document = {"type": "notebook", "format": "json", "content": empty}
            status, _ = await notebook.call("PUT", "api/contents/train.ipynb", json=document)
            assert status == 201
            kernel = Kernel(notebook, await notebook.start_notebook("train.ipynb"))
            assert printed(await kernel.run(SET_UP)) == ""
        await hub.wait_gone("ann", timeout=90)
        session = await asleep(hub, "ann")
        assert session is not None, hub.tail()
        assert (session["trigger"], session["kernel_count"]) == ("idle", 1)
        [saved] = session["kernels"]
        assert saved["path"] == "train.ipynb"
        assert saved["variables"] >= 3
        assert session["usd_per_day"] is not None

        await hub.start_server("ann", options={"profile": "cpu"})
        assert await asleep(hub, "ann") is None
        async with await at_notebook(hub, "ann") as notebook:
            wake = await woken(notebook)
            assert (wake["id"], wake["kernels"][0]["code"]) == (session["id"], "")
            kernel = await kernel_of(notebook, "train.ipynb")
            said = printed(await kernel.run("print(model.weights, len(rows), math.e > 2)"))
            assert said.split("]")[1].split() == ["100000", "True"]
    finally:
        await hub.stop()
        print(hub.tail(150))
