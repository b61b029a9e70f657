"""Sold out, as a person meets it: why, what there is instead, and one press that starts it."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.accessibility import is_accessible
from tests.e2e.person import log_in
from tests.harness import Embedded, Hub, demo_config, until

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

PROFILES: list[dict[str, Any]] = [
    {"display_name": "L4, 24 GB", "slug": "l4", "instance_types": ["g6.xlarge"], "default": True},
    {"display_name": "T4, 16 GB", "slug": "t4", "instance_types": ["g4dn.xlarge"]},
    {"display_name": "No GPU", "slug": "cpu", "instance_types": ["m7i.xlarge"]},
    {"display_name": "L40S, 48 GB", "slug": "l40s", "instance_types": ["g6e.xlarge"]},
]

UTC_IN_KOLKATA = {
    "at 14:05 UTC on 20 November 2026, or": "at 7:35 PM on November 20, or",
    "of 20 November 2026, 20:05 UTC.": "of 1:35 AM on November 21.",
    "after 00:05 UTC": "after 5:35 AM",
    "at 14:05, for 114:05 UTC": "at 14:05, for 114:05 UTC",
}
"""Texts of the hub, and what a browser there shows."""

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=20)]


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path / "embedded").start()
    yield running
    await running.stop()


@pytest.fixture
async def hub(embedded: Embedded, tmp_path: Path) -> AsyncIterator[Hub]:
    config = demo_config(
        tmp_path,
        f"c.EC2Spawner.profile_list = {PROFILES!r}",
        "c.EC2Spawner.home = {'size_gib': 10}",
    )
    running = Hub(tmp_path / "hub", embedded, config=config)
    try:
        await running.start()
        # As a hub that somebody has used already: it knows its image.
        await sell_out(embedded, "g6e.xlarge")
        await running.request_server("bob", options={"profile": "l40s"})
        yield running
    finally:
        await running.stop()
        print(running.tail(100))


async def sell_out(embedded: Embedded, instance_type: str, market: str = "*") -> None:
    offer = {"market": market, "instance_type": instance_type, "zone": "*", "available": 0}
    await embedded.control("capacity", offer)


@contextmanager
def holding_its_breath(embedded: Embedded) -> Iterator[None]:
    """EC2 answers nothing until the end of this."""
    os.kill(embedded.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(embedded.process.pid, signal.SIGCONT)


@contextmanager
def holding_agents(embedded: Embedded) -> Iterator[None]:
    """The agents of instances that boot meanwhile begin at the end of this."""
    shim = embedded.data_dir / "ec2/shims/ec2spawner-agent"
    held = shim.with_name("agents-are-held")
    shebang, start = shim.read_text().split("\n", 1)
    wait = f"while [ -e {shlex.quote(str(held))} ]; do sleep 0.1; done"
    held.touch()
    shim.write_text(f"{shebang}\n{wait}\n{start}")
    try:
        yield
    finally:
        held.unlink()


async def test_a_sold_out_start_offers_alternatives_that_one_click_starts(
    hub: Hub, embedded: Embedded, visit: Visit
) -> None:
    await sell_out(embedded, "g6.xlarge")
    page = await visit(hub.url, timezone_id="Asia/Kolkata")
    await log_in(page, "ann")
    with holding_its_breath(embedded):
        await start(page, "L4, 24 GB")
        waiting = re.compile("Spot, g6.xlarge in .*waiting for EC2…")
        await expect(lines(page)).to_have_text([waiting])
    await expect(lines(page)).to_have_text(
        [
            re.compile(r"Spot, g6\.xlarge in \d zones, from \$[\d.]+/h: sold out in us-east-1a"),
            re.compile(r"On-demand, g6\.xlarge in \d zones, \$0\.80/h: sold out in us-east-1a"),
        ]
    )
    failure = page.locator("#ec2-failed")
    await expect(failure).to_contain_text("spot and on-demand are sold out in us-east-1a")
    await expect(failure).to_contain_text(re.compile(r"Try again after \d+:\d\d [AP]M\."))
    for said, read in UTC_IN_KOLKATA.items():
        assert await page.evaluate("localTimes", said) == read
    buttons = failure.get_by_role("link")
    await expect(buttons).to_have_text(
        [
            re.compile(r"Start T4, 16 GB, spot from \$"),
            re.compile(r"Start No GPU, spot from \$"),
            "Wait for spot",
        ]
    )
    await is_accessible(page)
    not_running = await page.context.new_page()
    await not_running.goto(f"{hub.url}/user/ann/")
    await expect(not_running.get_by_role("button", name="Choose again")).to_be_visible()
    why = not_running.locator(".ec2-why")
    await expect(why).to_contain_text(re.compile(r"Try again after \d+:\d\d [AP]M\."))
    await expect(why).to_have_attribute("title", re.compile(r"after \d\d:\d\d UTC"))
    await is_accessible(not_running)
    await not_running.close()
    address = page.url
    with holding_agents(embedded):
        await buttons.filter(has_text="T4").click()
        await expect(page.get_by_role("heading", name="Starting your T4, 16 GB")).to_be_visible()
        assert page.url == address, "the new start is followed in place"
        await expect(failure).to_be_hidden()
        title = page.locator(".ec2-title").first
        await expect(title).to_contain_text("Found one: g4dn.xlarge, spot")
        await expect(lines(page)).to_have_text([re.compile("Spot, g4dn.xlarge .*: available")])
        await page.get_by_text("Where the time goes").click()
        phases = page.locator("#ec2-phase-rows tr")
        bought = re.compile(r"^Buying the machine.* s$")
        await expect(phases.filter(has_text=bought)).to_be_visible()
    await page.wait_for_url("**/user/ann/")


@pytest.mark.nightly(
    guard="tests/e2e/test_sold_out_in_browser.py::"
    "test_a_sold_out_start_offers_alternatives_that_one_click_starts"
)
async def test_a_sold_out_start_waits_for_spot_after_one_click(
    hub: Hub, embedded: Embedded, visit: Visit
) -> None:
    await sell_out(embedded, "g6.xlarge")
    page = await visit(hub.url)
    await log_in(page, "ann")
    with holding_its_breath(embedded):
        await start(page, "L4, 24 GB")
    failure = page.locator("#ec2-failed")
    await expect(failure).to_contain_text("Waiting costs nothing: L4, 24 GB starts by itself")
    await failure.get_by_role("link", name="Wait for spot").click()
    await expect(page.get_by_role("heading", name="Waiting to start your L4")).to_be_visible()
    assert await embedded.instances() == []


@pytest.mark.nightly(
    guard="tests/integration/hub/test_home_moves_on_hub.py::"
    "test_files_move_when_their_zone_is_sold_out"
)
async def test_a_start_sold_out_in_the_homes_zone_says_what_a_move_does_to_the_files(
    hub: Hub, embedded: Embedded, visit: Visit
) -> None:
    await hub.start_server("ann", options={"profile": "cpu"})
    [instance] = await embedded.instances()
    await hub.stop_server("ann")

    async def is_terminated() -> bool:
        return all(i["state"] == "terminated" for i in await embedded.control("instances"))

    await until(is_terminated, 30, "the instance to end, whose place would be free again")
    sold = {"market": "*", "instance_type": "*", "zone": instance["zone"], "available": 0}
    await embedded.control("capacity", sold)
    page = await visit(hub.url)
    await log_in(page, "ann")
    with holding_its_breath(embedded):
        await start(page, "No GPU")
    failure = page.locator("#ec2-failed")
    move = failure.get_by_role("link", name=re.compile("^Move my files to .* and start No GPU"))
    await expect(move).to_be_visible()
    await expect(failure).to_contain_text(re.compile("Your files .* can be copied to .* Estimates"))
    await is_accessible(page)


async def test_a_user_waiting_for_spot_sees_the_on_demand_price_and_starts_with_one_click(
    hub: Hub, embedded: Embedded, visit: Visit
) -> None:
    await sell_out(embedded, "g4dn.xlarge", "spot")
    page = await visit(hub.url)
    await log_in(page, "ann")
    await page.get_by_text("T4, 16 GB", exact=True).first.click()
    await page.get_by_role("combobox", name="Market").select_option("spot-wait")
    await page.get_by_role("button", name=re.compile("^Start T4.*waits if sold out")).click()
    await expect(page.get_by_role("heading", name="Waiting to start your T4")).to_be_visible()
    agree = page.get_by_role("button", name="Start on-demand at $0.54/h")
    await expect(agree).to_be_visible()
    await is_accessible(page)
    assert await embedded.instances() == []
    with holding_agents(embedded):
        await agree.click()
        await expect(page.locator(".ec2-title").first).to_contain_text("g4dn.xlarge, on-demand")
        await expect(agree).to_be_hidden()


@pytest.mark.nightly(
    guard="tests/integration/hub/test_failed_starts.py::"
    "test_cancelled_at_any_step_leaves_no_instance_and_another_can_be_started"
)
async def test_a_start_cancelled_while_ec2_hangs_can_be_replaced_at_once(
    hub: Hub, embedded: Embedded, visit: Visit
) -> None:
    page = await visit(hub.url)
    await log_in(page, "ann")
    with holding_its_breath(embedded):
        await start(page, "T4, 16 GB")
        await expect(lines(page)).to_have_count(1)
        await page.get_by_role("button", name="Choose another GPU").click()
        await page.wait_for_url("**/hub/spawn/ann", timeout=90_000)
        await start(page, "No GPU")
        await expect(page.get_by_role("heading", name="Starting your No GPU")).to_be_visible()
    await page.wait_for_url("**/user/ann/")

    async def only_what_was_chosen() -> bool:
        return [i["instance_type"] for i in await embedded.instances()] == ["m7i.xlarge"]

    await until(only_what_was_chosen, 30, "the machine of the cancelled start to be gone")


def lines(page: Any) -> Any:
    """What EC2 was asked, and its answers."""
    return page.locator(".ec2-attempt")


async def start(page: Any, profile: str) -> None:
    await page.get_by_text(profile, exact=True).first.click()
    await expect(page.get_by_role("radio", name=profile)).to_be_checked()
    await page.get_by_role("button", name="Start").click()
    await page.wait_for_url("**/hub/spawn-pending/**")
