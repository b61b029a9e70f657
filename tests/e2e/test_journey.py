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

from tests.e2e.accessibility import is_accessible
from tests.e2e.person import (
    IDLE_SECONDS,
    SPAWN_SECONDS,
    arrives_in_jupyterlab,
    has_a_kernel,
    log_in,
    open_new_notebook,
    run,
    sees_that_the_server_has_ended,
    status_item,
)
from tests.e2e.running_demo import RunningDemo
from tests.e2e.visits import WINDOW
from tests.harness import until

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

ROOT = Path(__file__).resolve().parents[2]
FOR_THE_DOCS = bool(os.environ.get("EC2SPAWNER_SCREENSHOTS"))
PICTURES = ROOT / ("docs/images" if FOR_THE_DOCS else "tests/output")

HASTY = {"server": "25s", "warn": "15s", "user_may_extend": "25s", "kernel": "1h"}
# A picture may wait until the idle time is worth showing.
PATIENT_WARN = "9m" if FOR_THE_DOCS else "9m55s"
PATIENT = {"server": "10m", "warn": PATIENT_WARN, "user_may_extend": "4h", "kernel": "2h"}

EPOCHS = 500 if FOR_THE_DOCS else 250

MAX_BYTES = 240_000
"""Of a picture."""

NOTEBOOK = "Untitled.ipynb"

SMALL_WINDOWS: Any = ({"width": 390, "height": 844}, {"width": 640, "height": 400})

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=80)]


@pytest.fixture
def hasty_demo(tmp_path: Path) -> Iterator[RunningDemo]:
    """A demo whose servers are stopped after 25 seconds without work."""
    demo = RunningDemo(tmp_path, f"--EC2Spawner.idle={json.dumps(HASTY)}")
    yield demo
    demo.kill()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    """A demo with idle times that a person would choose, but for an early warning."""
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), f"--EC2Spawner.idle={json.dumps(PATIENT)}")
    yield demo
    demo.kill()


async def test_from_login_to_the_idle_stop_and_back(hasty_demo: RunningDemo, visit: Visit) -> None:
    demo = hasty_demo
    page = await visit(demo.hub_url)
    await log_in(page, "Ann Müller", demo.password)

    await sees_what_there_is_and_what_it_costs(page)
    for small in SMALL_WINDOWS:
        await page.set_viewport_size(small)
        await sees_choice_and_price_beside_the_card(page)
    await page.set_viewport_size(WINDOW)
    await choose_by_keyboard(page, "L40S, 48 GB")
    await sees_how_the_start_goes(page, "L40S, 48 GB", r"g6e\.\w+, on-demand")
    await arrives_in_jupyterlab(page)
    assert len(await demo.instances()) == 1

    await open_new_notebook(page)
    await run(page, "open('result.txt', 'w').write('forty-two')\nprint(6 * 7)")
    await expect(outputs(page)).to_have_text(["42"])
    await save(page)
    await sees_gpu_and_price(page, "L40S simulated", "on-demand")

    # No user input from here on.
    await is_warned(page)
    await press_keep(page)
    await expect(warning(page)).to_have_count(0)
    await is_warned(page)
    await sees_that_the_server_has_ended(page)
    await until(lambda: is_empty(demo), 20, "the instance to be gone")

    await page.context.close()
    page = await visit(demo.hub_url)
    await log_in(page, "Ann Müller", demo.password)
    asleep = page.locator(".ec2-asleep")
    await expect(asleep).to_contain_text("It had been idle for")
    await expect(asleep).to_contain_text("Untitled.ipynb")
    await choose_by_keyboard(page, "No GPU")
    await arrives_in_jupyterlab(page)
    await open_notebook(page, NOTEBOOK)
    await expect(outputs(page)).to_have_text(["42"])
    await run(page, "print(open('result.txt').read())")
    await expect(outputs(page)).to_have_text(["42", "forty-two"])

    addresses = demo.listening()
    assert len(addresses) >= 4, "EC2, proxy, hub and notebook listen"
    assert demo.ask_to_end() == 0
    assert demo.processes() == []
    assert not [address for address in addresses if answers(address)]


@pytest.mark.nightly(
    guard="tests/integration/hub/test_profiles_api.py::test_the_form_starts_what_its_button_names"
)
async def test_without_javascript(demo: RunningDemo, visit: Visit) -> None:
    """The hub's pages choose, start and arrive; only JupyterLab itself needs scripts."""
    page = await visit(demo.hub_url, java_script_enabled=False)
    await log_in(page, "Carol", demo.password)
    await sees_what_there_is_and_what_it_costs(page)
    await choose_by_keyboard(page, "A10G, 24 GB")
    await expect(page.locator("noscript p")).to_contain_text("This page reloads every few seconds")
    await page.wait_for_url("**/user/carol/lab**", timeout=SPAWN_SECONDS * 1000)


@pytest.mark.nightly(
    guard="tests/e2e/test_usage_pages_in_browser.py::"
    "test_the_choice_of_a_payer_opens_what_it_can_pay_for"
)
async def test_hub_pages_are_accessible(demo: RunningDemo, visit: Visit) -> None:
    """axe-core finds no violation on the pages of a start, in light and dark mode."""
    page = await visit(demo.hub_url)
    await log_in(page, "Dora", demo.password)
    await expect(page.get_by_role("radio").first).to_be_attached()
    await is_accessible(page)
    for small in SMALL_WINDOWS:
        await page.set_viewport_size(small)
        await sees_choice_and_price_beside_the_card(page)
    await is_accessible(page)
    await choose_by_keyboard(page, "No GPU")
    await page.wait_for_url("**/hub/spawn-pending/**")
    await is_accessible(page)
    await arrives_in_jupyterlab(page)


@pytest.mark.nightly(
    guard="tests/integration/hub/test_servers.py::test_several_servers_at_once_with_odd_names"
)
async def test_two_people_at_once(demo: RunningDemo, visit: Visit) -> None:
    """Ann trains on a GPU while Bob writes code without one; hers are the pictures."""
    before = await demo.instances()
    ann, bob = await visit(demo.hub_url), await visit(demo.hub_url)
    await log_in(ann, "Ann", demo.password)
    await log_in(bob, "Bob 鮑勃", demo.password)
    await choose_by_keyboard(bob, "No GPU")
    await ann.get_by_text("A10G, 24 GB").first.click()
    await expect(ann.get_by_role("radio", name="A10G, 24 GB")).to_be_checked()
    await picture(ann, "spawn", full_page=True)
    await ann.get_by_role("button", name="Start").click()
    await sees_how_the_start_goes(ann, "A10G, 24 GB", r"g5\.\w+, spot")
    await picture(ann, "progress", clip={"x": 0, "y": 0, "width": 1280, "height": 548})
    await arrives_in_jupyterlab(ann)
    await arrives_in_jupyterlab(bob)
    await expect(status_item(bob)).to_contain_text("CPU")
    both = [i for i in await demo.instances() if i not in before]
    assert len({i["instance_id"] for i in both}) == len({i["address"] for i in both}) == 2

    await upload(ann, "train.ipynb", training())
    await open_notebook(ann, "train.ipynb")
    await run_all(ann)
    await expect(status_item(ann)).to_contain_text("in use")
    await sees_gpu_and_price(ann, "A10G simulated", "spot")
    await expect(outputs(ann)).to_contain_text(f"epoch {EPOCHS - 150}")
    await expect(ann.get_by_text("Jupyter news")).to_have_count(0)
    await picture(ann, "lab")
    await expect(ann.locator(".jp-DirListing-content")).to_contain_text("train.ipynb")
    await expect(bob.locator(".jp-DirListing-content")).not_to_contain_text("train.ipynb")

    await is_warned(ann)
    await picture(ann, "idle-warning")
    await press_keep(ann)
    await expect(warning(ann)).to_have_count(0)
    # For about an hour: until a time of day that is easy to say.
    await expect(status_item(ann)).to_contain_text(re.compile(r"sleeps in (1 h|[45]\d min)"))


async def is_empty(demo: RunningDemo) -> bool:
    return not await demo.instances()


async def picture(page: Any, name: str, **options: Any) -> None:
    """For people: what slides in has arrived; small, for it lives in git."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.png"
    shot = await page.screenshot(path=path, animations="disabled", **options)
    assert len(shot) < MAX_BYTES or not FOR_THE_DOCS, f"{name}.png has {len(shot)} bytes"


def answers(address: tuple[str, int]) -> bool:
    with socket.socket() as client:
        client.settimeout(2)
        return client.connect_ex(address) == 0


# --- on the hub's pages ---


async def sees_what_there_is_and_what_it_costs(page: Any) -> None:
    cards = page.locator(".ec2-card")
    await expect(cards).to_have_count(5)
    for card in await cards.all():
        await expect(card).to_contain_text(re.compile(r"\$\d+\.\d+/h (spot|on-demand)"))
    await expect(page.get_by_role("radio", name="T4, 16 GB")).to_be_checked()
    await expect(page.locator("#spawn_form")).to_contain_text("Prices are in USD per hour")


BOTTOMS_IN_SIGHT = """() => [...document.querySelectorAll(".ec2-card")].map((card) => {
  card.scrollIntoView({ block: "end", behavior: "instant" });
  const { left, bottom, width } = card.getBoundingClientRect();
  return document.elementFromPoint(left + width / 2, bottom - 4)?.closest(".ec2-card") === card;
})"""
"""For each card, scrolled to: whether nothing covers its last line."""


async def sees_choice_and_price_beside_the_card(page: Any) -> None:
    """On a narrow page the choices follow their card, and nothing is covered."""
    name = "A10G, 24 GB"
    await page.get_by_role("radio", name=name).check()
    start = page.get_by_role("button", name=re.compile(rf"^Start {name} spot, about \$\d"))
    await expect(start).to_be_visible()
    await page.get_by_role("combobox", name="Market").select_option("on-demand")
    start = page.get_by_role("button", name=re.compile(rf"^Start {name} on-demand, about \$\d"))
    await expect(start).to_be_visible()
    card = await page.locator(".ec2-card", has_text=name).bounding_box()
    market = await page.get_by_role("combobox", name="Market").bounding_box()
    assert 0 < market["y"] - (card["y"] + card["height"]) < 150
    assert all(await page.evaluate(BOTTOMS_IN_SIGHT))
    await page.get_by_role("combobox", name="Market").select_option("spot-first")


async def choose_by_keyboard(page: Any, profile: str) -> None:
    """Arrow keys to the profile, Tab through its choices to the button, Enter."""
    radios = page.get_by_role("radio")
    await page.locator("input[name=profile]:checked").focus()
    for _ in range(await radios.count()):
        if await page.get_by_role("radio", name=profile).is_checked():
            break
        await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("radio", name=profile)).to_be_checked()
    for _ in range(1 + await page.locator(".ec2-choice :is(select, input):visible").count()):
        await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Start")).to_be_focused()
    await page.keyboard.press("Enter")


async def sees_how_the_start_goes(page: Any, profile: str, offer: str) -> None:
    await expect(page.get_by_role("heading", name=f"Starting your {profile}")).to_be_visible()
    titles = page.locator(".ec2-title")
    found = re.compile(rf"Found one: {offer}, us-east-1\w, \$\d+\.\d\d/h")
    await expect(titles).to_have_text(
        [found, "Booting", "Opening your home", "Starting JupyterLab"]
    )
    await expect(page.locator(".ec2-step[aria-current=step]")).to_contain_text("Booting")


# --- in JupyterLab ---


async def open_notebook(page: Any, name: str) -> None:
    await page.locator(".jp-DirListing-item", has_text=name).dblclick()
    await has_a_kernel(page)


def training() -> str:
    """A notebook that trains for some seconds; only a picture is worth as many as it has."""
    return Path(__file__).with_name("train.ipynb").read_text().replace("501", str(EPOCHS + 1))


async def upload(page: Any, name: str, text: str) -> None:
    async with page.expect_file_chooser() as chooser:
        await page.get_by_role("button", name="Upload Files").click()
    file = {"name": name, "mimeType": "application/json", "buffer": text.encode()}
    await (await chooser.value).set_files(file)


async def run_all(page: Any) -> None:
    await page.get_by_role("menuitem", name="Run", exact=True).click()
    await page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


async def save(page: Any) -> None:
    """Under the name that it has: JupyterLab offers another when a new notebook is saved.

    Renamed while the file browser looks, it says "Directory not found" (jupyter-server 2.21).
    """
    await page.keyboard.press("Control+s")
    await expect(page.get_by_role("dialog").get_by_role("textbox")).to_have_value(NOTEBOOK)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.locator(".jp-mod-dirty")).to_have_count(0)


def outputs(page: Any) -> Any:
    return page.locator(".jp-OutputArea-output")


async def sees_gpu_and_price(page: Any, gpu: str, market: str) -> None:
    item = status_item(page)
    await expect(item).to_contain_text(gpu)
    await expect(item).to_contain_text(re.compile(rf"\$\d\.\d+/h {market}"))


def warning(page: Any) -> Any:
    return page.locator(".Toastify__toast", has_text="This session sleeps in")


async def is_warned(page: Any) -> None:
    await expect(warning(page)).to_contain_text(
        "This server has been idle since", timeout=IDLE_SECONDS * 1000
    )
    await expect(warning(page)).to_contain_text("Files and variables are kept")


async def press_keep(page: Any) -> None:
    await warning(page).get_by_role("button", name="Keep until").click()
