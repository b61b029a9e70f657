"""A session of real kernels: the instance is reclaimed, and the next one with its home wakes it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.wire import HomeMount, Stop
from tests.harness import Notebook
from tests.integration.agent.lease_on_instance import API_TOKEN, PYTHON, Machine, StubHub, until
from tests.jupyter_by_hand import Jupyter, Kernel, printed

pytestmark = pytest.mark.slow(seconds=30)

VOLUME = "vol-0a1b2c3d4e5f60718"


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


async def woken(ada: Jupyter) -> Any:
    async with asyncio.timeout(60):
        while True:
            found = (await ada.status())["wake"]
            if found is not None and found["state"] == "done":
                return found
            await asyncio.sleep(0.1)


@pytest.mark.nightly(
    guard="tests/integration/agent/test_sleep_on_instance.py::"
    "test_without_the_hub_the_agent_saves_in_time_and_reports_when_it_is_back"
)
async def test_variables_survive_a_spot_notice_that_the_hub_never_answers(
    machine: Machine, hub: StubHub
) -> None:
    home = machine.volume(VOLUME)
    (home / ".ec2spawner/upload").mkdir(parents=True)
    (home / ".ec2spawner/upload/result.txt").write_text("42")
    (tools := machine.root / "tools").mkdir()
    (tools / "aws").write_text(f'#!/bin/sh\ncp -r "$5" {machine.root}/s3 && echo "$6" >&2\n')
    (tools / "aws").chmod(0o755)
    machine.environment["PATH"] = f"{tools}:{PYTHON.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    lease = machine.lease(
        home=HomeMount(kind="ebs", volume_id=VOLUME), upload_to="s3://results/ada/-/"
    )
    await machine.boot()
    hub.give(lease)
    await until(lambda: hub.event("ready"), 60, what="ready")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        document = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        body = {"type": "notebook", "content": document}
        assert (await ada.call("PUT", "api/contents/a.ipynb", json=body))[0] == 201
        kernel_id = await ada.start_notebook("a.ipynb")
        await Kernel(ada, kernel_id).run("x = {'loss': [3, 2, 1]}\nf = lambda n: n + 1")
    at = datetime.now(UTC) + timedelta(seconds=35)
    machine.spot_notice = json.dumps({"action": "terminate", "time": at.isoformat()})
    await until(lambda: hub.event("stopped"), 40, what="stopped")
    assert datetime.now(UTC) < at
    session = hub.event("stopped").session
    assert [(each.path, each.variables) for each in session.kernels] == [("a.ipynb", 2)]
    assert "upload done" in hub.event("stopped").message
    assert (machine.root / "s3/result.txt").read_text() == "42"

    await machine.crash_agent()  # as the instance ends
    machine.spot_notice = ""
    hub.start_anew()
    await machine.boot()
    await until(lambda: hub.event("ready"), 60, what="ready again")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        assert (await woken(ada))["kernels"][0]["variables"] == 2
        assert (
            printed(await Kernel(ada, kernel_id).run("print(x['loss'], f(1))")) == "[3, 2, 1] 2\n"
        )


@pytest.mark.nightly(
    guard="tests/integration/notebook/test_sleep_of_notebook.py::"
    "test_a_busy_kernel_is_interrupted_at_half_of_the_time"
)
async def test_a_stop_with_sleep_saves_within_its_time_what_a_busy_kernel_has(
    machine: Machine, hub: StubHub
) -> None:
    machine.volume(VOLUME)
    await machine.boot()
    hub.give(machine.lease(home=HomeMount(kind="ebs", volume_id=VOLUME)))
    await until(lambda: hub.event("ready"), 60, what="ready")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        kernel = Kernel(ada, await ada.start_notebook("a.ipynb"))
        await kernel.run("step = 7")
        running = await ada.execute(await ada.start_notebook("a.ipynb"), "while True: step += 1")
        await asyncio.sleep(1)
        hub.stop = Stop(reason="user", sleep="user", save_seconds=20.0)
        hub.notify_changed()
        await until(lambda: hub.event("stopped"), 60, what="stopped")
        await running.close()
    event = hub.event("stopped")
    assert event.session is not None
    assert [(each.variables, each.code) for each in event.session.kernels] == [(1, "")]
    assert "session done" in event.message
