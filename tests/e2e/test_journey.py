"""The journey as a person sees it: log in, pick a GPU, work, be warned, be stopped, come back.

Everything is real but EC2 and the GPU: browser, HTTP, JupyterHub with its proxy, the agent,
JupyterLab and a kernel. With `EC2SPAWNER_SCREENSHOTS=1` the pictures go to `docs/images/`.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness import until
from running_demo import RunningDemo

if TYPE_CHECKING:
    from conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / ("docs/images" if os.environ.get("EC2SPAWNER_SCREENSHOTS") else "tests/output")

HASTY = {"server": "25s", "warn": "12s", "user_may_extend": "25s", "kernel": "1h"}
PATIENT = {"server": "10m", "warn": "9m55s", "user_may_extend": "4h", "kernel": "2h"}

SPAWN_SECONDS = 60
IDLE_SECONDS = 60

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def hasty_demo(tmp_path: Path) -> Iterator[RunningDemo]:
    """A demo whose servers are stopped after 25 seconds without work."""
    demo = RunningDemo(tmp_path, f"--EC2Spawner.idle={json.dumps(HASTY)}")
    yield demo
    demo.kill()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    """A demo with idle times that a person would choose, but for an early warning."""
    demo = RunningDemo(
        tmp_path_factory.mktemp("demo"), f"--EC2Spawner.idle={json.dumps(PATIENT)}"
    )
    yield demo
    demo.kill()


async def test_from_login_to_the_idle_stop_and_back(hasty_demo: RunningDemo, visit: Visit) -> None:
    demo = hasty_demo
    page = await visit(demo.hub_url)
    await log_in(page, "Ann Müller")

    await sees_what_there_is_and_what_it_costs(page)
    await choose_by_keyboard(page, "A10G, 24 GB")
    await sees_how_the_start_goes(page, "A10G, 24 GB")
    await arrives_in_jupyterlab(page)
    assert len(await demo.instances()) == 1

    await open_new_notebook(page)
    await run(page, "open('result.txt', 'w').write('forty-two')\nprint(6 * 7)")
    await expect(output(page)).to_have_text("42")
    await sees_gpu_and_price(page, "A10G simulated", "spot")
    cost = await cost_so_far(page)

    # Nobody touches anything from here on.
    await is_warned(page)
    await press_keep(page)
    await expect(warning(page)).to_have_count(0)
    await is_warned(page)
    assert await cost_so_far(page) > cost
    await sees_that_the_server_has_ended(page)
    await until(lambda: is_empty(demo), 20, "the instance to be gone")

    page = await visit(demo.hub_url)
    await log_in(page, "Ann Müller")
    await expect(page.locator(".ec2-notice")).to_contain_text("Nothing had worked there since")
    await expect(page.locator(".ec2-notice")).to_contain_text("Your files are kept.")
    await choose_by_keyboard(page, "No GPU")
    await arrives_in_jupyterlab(page)
    await open_new_notebook(page)
    await run(page, "print(open('result.txt').read())")
    await expect(output(page)).to_have_text("forty-two")

    addresses = demo.listening()
    assert len(addresses) >= 4, "EC2, proxy, hub and notebook listen"
    assert demo.ask_to_end() == 0
    assert demo.processes() == []
    assert not [address for address in addresses if answers(address)]


async def is_empty(demo: RunningDemo) -> bool:
    return not await demo.instances()


def answers(address: tuple[str, int]) -> bool:
    with socket.socket() as client:
        client.settimeout(2)
        return client.connect_ex(address) == 0


# --- on the hub's pages ---


async def log_in(page: Any, name: str) -> None:
    await page.get_by_label("Username").fill(name)
    await page.get_by_label("Password", exact=False).first.fill("any")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/hub/spawn**")


async def sees_what_there_is_and_what_it_costs(page: Any) -> None:
    cards = page.locator(".ec2-card")
    await expect(cards).to_have_count(5)
    for card in await cards.all():
        await expect(card).to_contain_text(re.compile(r"\$\d+\.\d+/h (spot|on-demand)"))
    await expect(page.get_by_role("radio", name="T4, 16 GB")).to_be_checked()
    await expect(page.locator("#spawn_form")).to_contain_text("Prices are in USD per hour")


async def choose_by_keyboard(page: Any, profile: str) -> None:
    """Arrow keys to the profile, Tab to the button, Enter."""
    radios = page.get_by_role("radio")
    await page.locator("input[name=profile]:checked").focus()
    for _ in range(await radios.count()):
        if await page.get_by_role("radio", name=profile).is_checked():
            break
        await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("radio", name=profile)).to_be_checked()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Start")).to_be_focused()
    await page.keyboard.press("Enter")


async def sees_how_the_start_goes(page: Any, profile: str) -> None:
    await expect(page.get_by_role("heading", name=f"Starting your {profile}")).to_be_visible()
    titles = page.locator(".ec2-title")
    found = re.compile(r"Found one: g5\.\w+, spot, us-east-1\w, \$\d+\.\d\d/h")
    await expect(titles).to_have_text([found, "Booting", "Opening your home", "Starting JupyterLab"])
    await expect(page.locator(".ec2-step[aria-current=step]")).to_contain_text("Booting")


# --- in JupyterLab ---


async def arrives_in_jupyterlab(page: Any) -> None:
    """By itself: nobody presses anything."""
    await page.wait_for_url("**/user/*/lab**", timeout=SPAWN_SECONDS * 1000)
    await expect(page.locator(".jp-Launcher")).to_be_visible(timeout=SPAWN_SECONDS * 1000)


async def open_new_notebook(page: Any) -> None:
    await page.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    await has_a_kernel(page)
    await page.locator(".jp-Notebook-cell .cm-content").first.click()


async def has_a_kernel(page: Any) -> None:
    """Until then JupyterLab runs nothing, and says nothing."""
    await expect(page.locator("#jp-main-statusbar")).to_contain_text("Python 3 (ipykernel) | Idle")


async def run(page: Any, code: str) -> None:
    await page.keyboard.insert_text(code)
    await page.keyboard.press("Shift+Enter")


def output(page: Any) -> Any:
    return page.locator(".jp-OutputArea-output").first


def status_item(page: Any) -> Any:
    return page.locator(".ec2-StatusItem")


async def sees_gpu_and_price(page: Any, gpu: str, market: str) -> None:
    item = status_item(page)
    await expect(item).to_contain_text(gpu)
    await expect(item).to_contain_text(re.compile(rf"\$\d\.\d+/h {market}"))


async def cost_so_far(page: Any) -> float:
    shown = re.search(r"\$(\d+\.\d+) ", await status_item(page).inner_text())
    assert shown, "the status item shows what it has cost"
    return float(shown.group(1))


def warning(page: Any) -> Any:
    return page.locator(".Toastify__toast", has_text="This server stops in")


async def is_warned(page: Any) -> None:
    await expect(warning(page)).to_contain_text(
        "Nothing has worked here for", timeout=IDLE_SECONDS * 1000
    )
    await expect(warning(page)).to_contain_text("Files are kept")


async def press_keep(page: Any) -> None:
    await warning(page).get_by_role("button", name="Keep for").click()


async def sees_that_the_server_has_ended(page: Any) -> None:
    """The page that was left open says so itself."""
    dialog = page.get_by_role("dialog").filter(has_text="is not running")
    await expect(dialog).to_be_visible(timeout=IDLE_SECONDS * 1000)
