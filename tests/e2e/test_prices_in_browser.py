"""Each price that a person sees before something is what is charged after it, or the difference is
named.

Everything is real but EC2. The ledger is asked over the hub's API what it charges: what it adds to
the costs between two answers, by hour.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.person import arrives_in_jupyterlab, log_in, status_item
from tests.harness import Embedded, Hub, demo_config, until

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

MOVE_SECONDS = 120
CHARGED_HOURS = 2 / 3600
"""What the ledger is to charge for before its rate is read."""

PRICE_SECONDS = 180
"""The hub reads spot prices every minute, and the first minute of an instance keeps its price."""

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=150)]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    config = demo_config(
        tmp_path / "config", "c.EC2Spawner.interruption = {'then': 'resume-on-demand'}"
    )
    embedded = await Embedded(tmp_path / "embedded", notebook="jupyterlab").start()
    running = Hub(tmp_path / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


def price_in(text: str) -> float:
    """The first price by hour in a text."""
    found = re.search(r"\$([0-9.]+)/h", text)
    assert found, text
    return float(found.group(1))


def same(shown: float) -> Any:
    """As a page rounds it."""
    return pytest.approx(shown, abs=0.0051)


async def charged(hub: Hub) -> tuple[float, float]:
    """USD and hours in the ledger, without EC2's minimum of a minute and without homes."""
    headers = {"Authorization": f"token {await hub.user_token('ann')}"}
    reply = await hub.api.get("/ec2/usage/costs?by=resource,cause", headers=headers)
    sums = [
        each for each in reply.raise_for_status().json()["sums"] if "minimum" not in each["key"]
    ]
    used = [each for each in sums if each["key"][0] in {"instance", "disk", "address"}]
    return sum(each["usd"] for each in used), sum(each["hours"] for each in used)


async def charged_per_hour(hub: Hub) -> float:
    """What the ledger charges now, of all that runs."""
    usd_before, hours_before = await charged(hub)

    async def more() -> tuple[float, float] | None:
        usd, hours = await charged(hub)
        grown = usd - usd_before, hours - hours_before
        return grown if grown[1] > CHARGED_HOURS else None

    # Of a price that changed in the first minute of an instance, all of that minute is charged.
    # A reader of costs may ask for them every few seconds.
    usd, hours = await until(more, 90, "the ledger to charge more", pause=2)
    return usd / hours


async def only_runs(hub: Hub, instance_type: str) -> None:
    """What a server has left is no longer charged."""

    async def one() -> bool:
        running = [i for i in await hub.embedded.instances() if i["state"] != "terminated"]
        return [i["instance_type"] for i in running] == [instance_type]

    await until(one, MOVE_SECONDS, f"{instance_type} alone")


def line(page: Any, kind: str) -> Any:
    return page.locator(f"#ec2spawner-panel .ec2-Line[data-kind={kind}]")


async def price_in_panel(page: Any, market: str, shown: float) -> None:
    """The panel shows this price."""

    async def is_shown() -> bool:
        text = await line(page, "price").locator(".ec2-Line-value").inner_text()
        return market in text and price_in(text) == same(shown)

    await until(is_shown, MOVE_SECONDS, f"${shown}/h, {market} in the panel")


def toast(page: Any, words: str) -> Any:
    return page.locator(".Toastify__toast", has_text=re.compile(words)).first


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_cost_of_moved_servers.py::"
    "test_a_move_to_another_price_is_said_with_both"
)
async def test_what_is_shown_before_is_what_is_charged_after(hub: Hub, visit: Visit) -> None:
    page = await visit(hub.url)
    await log_in(page, "ann")
    start = page.get_by_role("button", name=re.compile("^Start T4"))
    shown = price_in(await start.inner_text())
    await start.click()
    await arrives_in_jupyterlab(page)
    await status_item(page).click()
    await price_in_panel(page, "spot", shown)
    assert await charged_per_hour(hub) == same(shown)

    on_demand = await is_reclaimed_while_spot_is_sold_out(hub, page, shown)

    moved = await continues_on_other_hardware(hub, page, on_demand)

    await rises(hub, page, moved)


async def is_reclaimed_while_spot_is_sold_out(hub: Hub, page: Any, before: float) -> float:
    """Returns what the server costs on demand, which the notice has said with the price before."""
    offer = {"market": "spot", "instance_type": "*", "zone": "*", "available": 0}
    await hub.embedded.control("capacity", offer)
    [instance] = await hub.embedded.instances()
    interrupt = f"interrupt/{instance['instance_id']}"
    await hub.embedded.control(interrupt, {"notice_seconds": 120})
    said = toast(page, r"This server moved and costs .*on-demand, not .*spot")
    await expect(said).to_be_visible(timeout=MOVE_SECONDS * 1000)
    words = await said.inner_text()
    now = price_in(words)
    assert price_in(words.partition(", not ")[2]) == same(before)
    assert "times as much" in words
    await hub.embedded.control(interrupt, {"notice_seconds": 0})
    await only_runs(hub, "g4dn.xlarge")
    await price_in_panel(page, "on-demand", now)
    await expect(line(page, "change")).to_contain_text("Before the move")
    await expect(line(page, "credit")).to_contain_text("less today")
    assert await charged_per_hour(hub) == same(now)
    await hub.embedded.control("capacity", {**offer, "available": None})
    return now


async def continues_on_other_hardware(hub: Hub, page: Any, before: float) -> float:
    """Returns the price that the dialog has shown, which is what it costs there."""
    await page.locator("#ec2spawner-panel").get_by_role("button", name="Continue on…").click()
    dialog = page.locator(".jp-Dialog-content")
    await expect(dialog).to_contain_text("Now: $")
    assert price_in((await dialog.inner_text()).partition("Now: ")[2]) == same(before)
    choice = dialog.locator(".ec2-Hardware-choice", has_text="A10G")
    shown = price_in(await choice.locator(".ec2-Hardware-price").inner_text())
    await choice.click()
    await dialog.get_by_role("button", name="Continue there").click()
    await only_runs(hub, "g5.xlarge")
    # The dialog has said it: a notice would be news of what its user has chosen.
    await expect(toast(page, "This server moved and costs")).to_have_count(0)
    await expect(toast(page, "Your server stays as it is")).to_have_count(0)
    await price_in_panel(page, "spot", shown)
    assert await charged_per_hour(hub) == same(shown)
    return shown


async def rises(hub: Hub, page: Any, before: float) -> None:
    """The spot price of the instance, to twice as much."""
    [instance] = await hub.embedded.instances()
    order = {"market": "spot", "instance_type": instance["instance_type"], "zone": "*"}
    await hub.embedded.control("prices", {**order, "usd_per_hour": 2 * before})
    said = toast(page, "The spot price of this server rose from")
    await expect(said).to_be_visible(timeout=PRICE_SECONDS * 1000)
    words = await said.inner_text()
    assert price_in(words) == same(before)
    now = price_in(words.partition(" to ")[2])
    assert now == pytest.approx(2 * before, abs=0.03), "with its disk"
    await price_in_panel(page, "spot", now)
    assert await charged_per_hour(hub) == same(now)
