"""The whole journey of a session: real hub, agents, notebook servers and kernels. What its user had
is there after an idle stop and after a spot interruption; what cannot be kept is listed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import httpx
import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser
from tests.jupyter_by_hand import Jupyter, Kernel, printed

pytestmark = [pytest.mark.slow(seconds=15), pytest.mark.asyncio(loop_scope="module")]

IDLE = (
    "c.EC2Spawner.idle = {'server': '1h', 'warn': '1s', 'user_may_set': {'server': ['1s', '1h']}}"
)

WORK = """
import math
count, ratio = 3, 0.5
class Run:
    def __init__(self, steps):
        self.steps = steps
run = Run([1, 2, 3])
same = run.steps
double = lambda n: count * n + math.floor(ratio)
numbers = (n for n in range(3))
try:
    import pandas
    frame = pandas.DataFrame({'loss': [0.5, 0.25]})
except ImportError:
    pass
"""

CHECK = """
print(count, ratio, run.steps, type(run) is Run, same is run.steps, double(2), 'numbers' in dir())
"""
CHECKED = "3 0.5 [1, 2, 3] True True 6 False\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """Each test has a user of its own, and leaves no server."""
    folder = tmp_path_factory.mktemp("sessions")
    embedded = await Embedded(folder / "embedded", notebook="jupyterlab").start()
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", IDLE))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


async def at_notebook(hub: Hub, user: str) -> Jupyter:
    return Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user))


async def asleep(hub: Hub, user: str) -> Any:
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    path = f"{hub.url}/hub/api/ec2/users/{user}/server/session"
    async with httpx.AsyncClient(timeout=30, headers=headers, verify=False) as client:
        reply = await client.get(path)
    assert reply.status_code == 200, reply.text
    return reply.json()["session"]


async def work(hub: Hub, user: str, path: str = "train.ipynb") -> str:
    """Open a notebook and define what `CHECK` looks for; the kernel's id."""
    async with await at_notebook(hub, user) as notebook:
        body = {"type": "notebook", "format": "json", "content": EMPTY}
        assert (await notebook.call("PUT", f"api/contents/{path}", json=body))[0] == 201
        kernel = await notebook.start_notebook(path)
        assert printed(await Kernel(notebook, kernel).run(WORK)) == ""
    return kernel


EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


async def woken(notebook: Jupyter) -> Any:
    """What its server says of a session that it has woken."""

    async def done() -> Any:
        with suppress(aiohttp.ClientError, AssertionError, json.JSONDecodeError):
            wake = (await notebook.status())["wake"]
            return wake if wake and wake["state"] == "done" else None
        return None

    return await until(done, 40, "the session to be awake")


async def instances(hub: Hub) -> set[str]:
    return {each["instance_id"] for each in await hub.embedded.instances()}


async def kernel_of(notebook: Jupyter, path: str = "train.ipynb") -> Kernel:
    sessions = (await notebook.call("GET", "api/sessions"))[1]
    [kernel] = [each["kernel"]["id"] for each in sessions if each["path"] == path]
    return Kernel(notebook, kernel)


@pytest.mark.nightly(
    guard="tests/integration/hub/test_sleep_on_hub.py::"
    "test_an_idle_server_sleeps_and_its_owner_sees_what_sleeps"
)
async def test_variables_are_back_after_an_idle_stop(hub: Hub) -> None:
    await hub.start_server("ann", options={"profile": "cpu"})
    await work(hub, "ann")
    async with await at_notebook(hub, "ann") as notebook:
        status, said = await notebook.call(
            "POST", "ec2spawner/api/idle", json={"server_seconds": 1}
        )
        assert status == 200, said
    await hub.wait_gone("ann")

    session = await asleep(hub, "ann")
    assert session is not None, hub.tail()
    [kernel] = session["kernels"]
    assert (session["trigger"], kernel["path"], kernel["code"]) == ("idle", "train.ipynb", "")
    assert [each["name"] for each in kernel["lost"]] == ["numbers"]
    assert session["usd_per_day"] is not None
    async with browser(hub, "ann") as client:
        assert "Your session is asleep" in (await client.get("/hub/spawn")).text

    await hub.start_server("ann", options={"profile": "cpu"})
    async with await at_notebook(hub, "ann") as notebook:
        wake = await woken(notebook)
        [kernel] = wake["kernels"]
        assert [each["name"] for each in kernel["lost"]] == ["numbers"]
        assert printed(await (await kernel_of(notebook)).run(CHECK)) == CHECKED
    assert await asleep(hub, "ann") is None
    await hub.stop_server("ann")


async def test_variables_are_back_after_an_interruption(hub: Hub) -> None:
    others = await instances(hub)
    before = await hub.start_server("ben")
    kernel = await work(hub, "ben")
    [old] = await instances(hub) - others
    token = await hub.user_token("ben")
    async with browser(hub, "ben") as client:
        assert (await client.get("/user/ben/lab")).status_code == 200
        # What the proxy shows at the server's address while nothing answers there.
        waiting = (await client.get("/hub/error/503")).text
        assert 'http-equiv="refresh"' in waiting
        assert "Waiting for your server" in waiting
        await hub.embedded.control(f"interrupt/{old}", {"notice_seconds": 120})

        async def moved() -> bool:
            model = await hub.model("ben")
            is_ready = model is not None and model["ready"]
            return bool(is_ready and model["started"] != before["started"])

        await until(moved, 60, "another instance")
        assert (await hub.model("ben") or {})["url"] == before["url"]
        reply = await client.get("/user/ben/api/status", follow_redirects=False)
        assert reply.status_code == 200, "its cookie needs no new login"
    async with Jupyter(f"{hub.url}/user/ben/", token) as notebook:
        wake = await woken(notebook)
        assert (wake["trigger"], wake["again"]) == ("interruption", False)
        assert (await notebook.status())["continues"]
        [woken_kernel] = wake["kernels"]
        assert [each["name"] for each in woken_kernel["lost"]] == ["numbers"]
        assert printed(await Kernel(notebook, kernel).run(CHECK)) == CHECKED
    await hub.stop_server("ben")
