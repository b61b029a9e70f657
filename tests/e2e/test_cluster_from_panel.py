"""A cluster from the panel's buttons: real hub, agents, JupyterLab and Ray; EC2 is simulated."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.person import (
    LOAD_SECONDS,
    arrives_in_jupyterlab,
    log_in,
    open_new_notebook,
    status_item,
)
from tests.harness import Embedded, Hub, demo_config, until

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

OPTIONS = (
    "c.EC2Spawner.clusters = {'max_workers': 3}",
    "c.EC2Spawner.limits = {'user': {'servers': 2}}",
    "c.EC2Spawner.stop_timeout = '20s'",
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=90)]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """Limits allow one worker beside a server."""
    embedded = await Embedded(tmp_path / "embedded", notebook="jupyterlab").start()
    running = Hub(tmp_path / "hub", embedded, config=demo_config(tmp_path / "config", *OPTIONS))
    try:
        await running.start()
        await running.start_server("ann", options={"profile": "cpu"})
        yield running
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


@pytest.mark.nightly(
    guard="tests/e2e/test_panel.py::"
    "test_a_cluster_is_scaled_after_its_price_is_shown_and_stopped_after_a_question"
)
async def test_a_worker_is_started_and_stopped_by_buttons(hub: Hub, visit: Visit) -> None:
    page = await visit(hub.url)
    await log_in(page, "ann")
    await arrives_in_jupyterlab(page)
    await open_new_notebook(page)
    await status_item(page).click()
    section = page.locator("#ec2spawner-panel").get_by_role("region", name="Cluster")
    await section.get_by_role("button", name="Start a cluster…").click()
    dialog = page.locator(".jp-Dialog-content")
    start = dialog.get_by_role("button", name="Start", exact=True)
    said = dialog.get_by_role("status")

    await expect(said).to_contain_text("The hub refused")  # two workers are too many
    await expect(start).to_be_disabled()
    await dialog.get_by_role("spinbutton", name="Workers").fill("1")
    await expect(said).to_contain_text(re.compile(r"About \$\d.*/h for 1 worker"))
    await start.click()

    output = page.locator(".jp-Notebook .jp-OutputArea-output").first
    await expect(output).to_contain_text("1 worker")
    await expect(output).to_contain_text("It has joined the cluster", timeout=LOAD_SECONDS * 1000)
    await expect(section).to_contain_text("1 of 1 joined")
    assert len(await hub.embedded.instances()) == 2

    await section.get_by_role("button", name="Stop cluster…").click()
    await expect(dialog).to_contain_text("This server stays on")
    await dialog.get_by_role("button", name="Stop cluster").click()

    async def only_the_server_runs() -> bool:
        return len(await hub.embedded.instances()) == 1

    await until(only_the_server_runs, 60, "the worker to end")
    await expect(section.get_by_role("button", name="Start a cluster…")).to_be_visible()
