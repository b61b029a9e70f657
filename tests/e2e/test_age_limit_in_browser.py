"""A cell runs as its server reaches the maximum age: the page says before what may be lost, the
cell is interrupted, and the next start brings the variables back.

One cell lets itself be interrupted, the other does not.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.person import (
    IDLE_SECONDS,
    arrives_in_jupyterlab,
    log_in,
    open_new_notebook,
    run,
    sees_that_the_server_has_ended,
    status_item,
)
from tests.harness import Embedded, Hub, demo_config

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

LOOP = "while True: time.sleep(0.1)"
DEAF = "signal.signal(signal.SIGINT, signal.SIG_IGN)"

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=200)]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    config = demo_config(tmp_path / "config", "c.EC2Spawner.idle = {'max_age': '2m'}")
    embedded = await Embedded(tmp_path / "embedded", notebook="jupyterlab").start()
    running = Hub(tmp_path / "hub", embedded, config=config)
    try:
        await running.start()
        await asyncio.gather(*(running.start_server(each) for each in ("ann", "deaf")))
        yield running
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_asked_kernels.py::"
    "test_at_a_limit_a_cell_is_interrupted_at_once_and_its_variables_are_saved"
)
async def test_a_busy_cell_is_interrupted_at_the_maximum_age_and_its_variables_come_back(
    hub: Hub, visit: Visit
) -> None:
    ann, deaf = await asyncio.gather(
        runs_a_cell(hub, visit, "ann", LOOP), runs_a_cell(hub, visit, "deaf", f"{DEAF}\n{LOOP}")
    )
    await asyncio.gather(hub.wait_gone("ann"), hub.wait_gone("deaf"))
    await asyncio.gather(*map(sees_that_the_server_has_ended, (ann, deaf)))
    card = await sees_the_session(hub, visit, "deaf")
    await expect(card).to_contain_text("a cell was running")
    card = await sees_the_session(hub, visit, "ann")
    await expect(card).to_contain_text("1 variable")

    await card.get_by_role("button", name=re.compile("^Wake")).click()
    page = card.page
    await arrives_in_jupyterlab(page)
    cell = page.locator(".jp-Notebook-cell")
    await expect(cell.first).to_be_visible()
    await run(page, "print('it is', x + 1)")
    await expect(cell.filter(has_text="it is 42").first).to_be_visible()


async def runs_a_cell(hub: Hub, visit: Visit, user: str, loop: str) -> Any:
    """Until a notice says what becomes of it."""
    page = await visit(hub.url)
    await log_in(page, user)
    await arrives_in_jupyterlab(page)
    await open_new_notebook(page)
    await run(page, f"x = 41; import signal, time\n{loop}")
    toast = page.locator(".Toastify__toast", has_text="Its maximum age is")
    await expect(toast).to_contain_text("A running cell may lose variables.")
    await status_item(page).click()
    panel = page.locator("#ec2spawner-panel")
    await expect(panel).to_contain_text("unless a running cell ignores its interrupt for 10 s")
    return page


async def sees_the_session(hub: Hub, visit: Visit, user: str) -> Any:
    page = await visit(hub.url)
    await log_in(page, user)
    card = page.locator(".ec2-asleep")
    await expect(card).to_contain_text("reached its maximum age", timeout=IDLE_SECONDS * 1000)
    return card
