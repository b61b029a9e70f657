"""Where the time of a start goes, as the person who waits for it can look it up."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.accessibility import is_accessible
from tests.e2e.person import log_in
from tests.harness import Embedded, Hub

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=30)]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """Of instances that boot until the test has seen enough."""
    embedded = await Embedded(tmp_path / "embedded", boot_seconds=300.0).start()
    running = Hub(tmp_path / "hub", embedded)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(100))
        await embedded.stop()


@pytest.mark.nightly(
    guard="tests/e2e/test_sold_out_in_browser.py::"
    "test_a_sold_out_start_offers_alternatives_that_one_click_starts"
)
async def test_the_parts_of_a_start_that_are_over_are_listed(hub: Hub, visit: Visit) -> None:
    page = await visit(hub.url)
    await log_in(page, "ann")
    await page.get_by_role("button", name=re.compile("^Start")).first.click()
    summary = page.get_by_text("Where the time goes")
    await expect(summary).to_be_visible()
    rows = page.locator("#ec2-phase-rows tr")
    await expect(rows.first).to_be_hidden()
    await summary.click()
    words = [re.compile(r"^Waiting for the purchase.* s$"), re.compile(r"^Buying the machine.* s$")]
    await expect(rows).to_have_text(words)
    await is_accessible(page)
    before = await rows.all_text_contents()
    await page.wait_for_timeout(1500)  # the page draws twice a second
    assert await rows.all_text_contents() == before
