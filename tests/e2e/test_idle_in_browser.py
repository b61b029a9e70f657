"""Working users keep their server, idle ones are stopped: four people in JupyterLab.

Everything is real but EC2 and the GPU. Each chooses in the panel after how long without work the
server stops, and so the test need not wait for an admin's hour.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.person import (
    arrives_in_jupyterlab,
    has_a_kernel,
    log_in,
    open_new_notebook,
    open_new_terminal,
    run,
    sees_that_the_server_has_ended,
    status_item,
)
from tests.harness import Embedded, Hub, demo_config, until
from tests.jupyter_by_hand import Jupyter

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

SHORTEST = timedelta(seconds=10)
"""What the admin lets people choose at the least."""

GPU_JOB = """
import subprocess, sys
program = '''
import fcntl, os, time
from pathlib import Path
with open(Path.home() / '.simulated-gpu', 'w') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print(os.getpid(), 90, file=file, flush=True)
    time.sleep(600)
'''
worker = subprocess.Popen([sys.executable, '-c', program])
"""
"""Without output, while its notebook is idle. The simulated GPU is used by 90 %, whatever share of
the CPU the job gets: on a busy machine that may be too little to count as use."""

AT_WORK = ("sleeper", "silent", "trainer")
PEOPLE = (*AT_WORK, "away")

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=70)]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """One at which everybody has a server with a GPU already."""
    config = demo_config(
        tmp_path / "config",
        "c.EC2Spawner.idle = {'server': '3m', 'user_may_set': {'server': ['10s', '8h']}}",
    )
    embedded = await Embedded(tmp_path / "embedded", notebook="jupyterlab").start()
    running = Hub(tmp_path / "hub", embedded, config=config)
    try:
        await running.start()
        await asyncio.gather(*(running.start_server(each) for each in PEOPLE))
        yield running
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


@pytest.mark.nightly(
    guard="tests/e2e/test_lab_extension.py::test_reports_user_input_but_not_an_open_tab"
)
async def test_a_working_user_keeps_the_server_and_an_untouched_tab_does_not(
    hub: Hub, visit: Visit
) -> None:
    pages = await asyncio.gather(*(opens_jupyterlab(hub, visit, each) for each in PEOPLE))
    sleeper, silent, trainer, away = pages
    await asyncio.gather(
        sleeps_in_a_terminal(sleeper),
        runs_a_silent_cell(silent),
        trains_in_the_background(trainer),
        chooses_an_idle_time(away),
    )
    await choose(away, "10 seconds")

    # No user input from here on.
    await asyncio.gather(
        sees_that_the_server_has_ended(away),
        hub.wait_gone("away"),
        *(is_on_for_longer(hub, each) for each in AT_WORK),
        sees_the_cost_grow(silent),
    )
    assert len(await hub.embedded.instances()) == len(AT_WORK)
    assert [await has_token_of_a_server(hub, each) for each in PEOPLE] == [True, True, True, False]
    await asyncio.gather(
        sees_the_reason(hub, visit, "away"),
        goes_back_to_it(sleeper, "Terminal 1, sleep", ".jp-Terminal"),
        goes_back_to_it(silent, "Go to Untitled.ipynb", ".jp-Notebook"),
        goes_back_to_it(trainer, "Go to Untitled.ipynb", ".jp-Notebook"),
    )


# --- working users ---


async def opens_jupyterlab(hub: Hub, visit: Visit, user: str) -> Any:
    """The page, with the panel open."""
    page = await visit(hub.url)
    await log_in(page, user)
    await arrives_in_jupyterlab(page)
    await status_item(page).click()
    await expect(panel(page)).to_be_visible()
    return page


async def sleeps_in_a_terminal(page: Any) -> None:
    await open_new_terminal(page)
    await page.keyboard.type("sleep 600\n")
    await sees_what_keeps_it_on(page, "sleep runs in a terminal")


async def runs_a_silent_cell(page: Any) -> None:
    await open_new_notebook(page)
    await run(page, "import time; time.sleep(600)")
    await sees_what_keeps_it_on(page, "Untitled.ipynb is running")


async def trains_in_the_background(page: Any) -> None:
    await open_new_notebook(page)
    await run(page, GPU_JOB)
    await sees_what_keeps_it_on(page, "Untitled.ipynb is using the GPU")


async def sees_what_keeps_it_on(page: Any, because: str) -> None:
    """And lets the server stop soon after that ends."""
    await expect(panel(page)).to_contain_text(f"{because}, so this server stays on.")
    # A long terminal title leaves the status item no room for words.
    await expect(status_item(page)).to_have_attribute("data-state", "in-use")
    await choose(page, "10 seconds")


async def is_on_for_longer(hub: Hub, user: str) -> None:
    """Than it would be without work, from now on and by the server's own clock."""
    async with Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user)) as notebook:
        status = await notebook.status()
        assert status["idle_policy"]["server_seconds"] == SHORTEST.total_seconds()
        end = datetime.fromisoformat(status["now"]) + SHORTEST + timedelta(seconds=2)

        async def is_over() -> bool:
            return datetime.fromisoformat((await notebook.status())["now"]) > end

        await until(is_over, 60, f"the server's clock to reach {end}", pause=1)
    assert (await hub.model(user) or {})["ready"]


async def sees_the_cost_grow(page: Any) -> None:
    """In its first minute a server costs as much as in a whole one."""

    async def shown() -> float:
        found = re.search(r"\$(\d+\.\d+)", await status_item(page).inner_text())
        return float(found.group(1)) if found else 0.0

    before = await shown()
    assert before, "the status item shows what it has cost"

    async def has_grown() -> bool:
        return await shown() > before

    await until(has_grown, 60, f"a cost above {before} USD", pause=1)


async def goes_back_to_it(page: Any, button: str, place: str) -> None:
    """From another tab, by the name of what keeps the server on."""
    await page.get_by_role("menuitem", name="File", exact=True).click()
    await page.get_by_role("menuitem", name="New Launcher").click()
    await expect(page.locator(place)).to_be_hidden()
    await expect(panel(page)).to_contain_text("so this server stays on.")
    await panel(page).get_by_role("button", name=button).click()
    await expect(page.locator(place)).to_be_visible()


# --- idle users ---


async def chooses_an_idle_time(page: Any) -> None:
    """The stop moves at once, and the choice outlives a reload."""
    await open_new_notebook(page)
    await expect(headline(page)).to_have_text(re.compile(r"in [12] min \d\d s"))
    await choose(page, "15 minutes")
    await expect(headline(page)).to_have_text(re.compile(r"in 1[45] min \d\d s"))
    await page.reload()
    await has_a_kernel(page)
    await expect(chosen(page)).to_have_text("15 minutes idle")
    await expect(headline(page)).to_have_text(re.compile(r"in 1[45] min \d\d s"))
    await asks_for_more_than_is_allowed(page)


async def asks_for_more_than_is_allowed(page: Any) -> None:
    """From a page that is older than the bounds."""
    await choice(page).evaluate("select => select.add(new Option('9 hours', 9 * 3600))")
    await choice(page).select_option("9 hours")
    toast = page.locator(".Toastify__toast", has_text="The policy allows 10 seconds to 8 hours.")
    await expect(toast).to_contain_text("This server now stops after 8 hours idle.")  # it goes soon
    await expect(panel(page)).to_contain_text("It sleeps after 8 hours idle")
    await expect(chosen(page)).to_have_text("8 hours idle")


async def sees_the_reason(hub: Hub, visit: Visit, user: str) -> None:
    page = await visit(hub.url)
    await log_in(page, user)
    await expect(page.locator(".ec2-asleep")).to_contain_text("It had been idle for")


async def has_token_of_a_server(hub: Hub, user: str) -> bool:
    tokens = (await hub.api.get(f"/users/{user}/tokens")).json()["api_tokens"]
    return any(each["note"].startswith("Server at") for each in tokens)


# --- in the panel ---


def panel(page: Any) -> Any:
    return page.locator("#ec2spawner-panel")


def headline(page: Any) -> Any:
    """The countdown."""
    return panel(page).locator(".ec2-Stop-headline")


def choice(page: Any) -> Any:
    return panel(page).get_by_label("Stop after")


def chosen(page: Any) -> Any:
    return choice(page).locator("option:checked")


async def choose(page: Any, time: str) -> None:
    """Without keys: a notebook that is loading takes the focus when it has a kernel."""
    await choice(page).select_option(f"{time} idle")
    await expect(panel(page)).to_contain_text(f"It sleeps after {time} idle")
