"""The pages about money on a hub with a year of a hundred thousand leases, in a browser."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from ec2spawner.provisioner.store.store import Store
from tests.e2e.usage_scenes import instances
from tests.harness import BUSY, PASSWORD, Embedded, Hub, demo_config
from tests.seeded_ledger import seed

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

LEASES = 100_000
PAINT_MS = 1000

FIRST_FIGURES = """() => new Promise((found) => {
  const isThere = (each) => document.querySelector(each);
  const areThere = () => ['#ec2-sums tbody tr', 'ROW'].every(isThere);
  const look = () => (areThere() ? found(performance.now()) : requestAnimationFrame(look));
  look();
})"""
"""Milliseconds from the navigation until costs and the first row of ROW are in the page."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("year")
    url = f"sqlite:///{directory}/year.sqlite"
    store = await Store.open(url, now=datetime.now(UTC))
    await store.close()
    seed(url, LEASES, users=1000, days=365, now=datetime.now(UTC) - timedelta(minutes=1))
    embedded = await Embedded(directory / "embedded").start()
    config = demo_config(
        directory / "config",
        f"c.EC2Spawner.store_url = {url!r}",
        "c.Authenticator.admin_users = {'user0001'}",
        "c.Authenticator.allowed_users = {'user0001'}",
    )
    first, running = (Hub(directory / "hub", embedded, config=config) for _ in range(2))
    try:
        try:
            await first.start()
            await first.add_user("user0001")
        finally:
            await first.stop()
        _made_long_ago(first)
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(60))


def _made_long_ago(hub: Hub) -> None:
    """Users see nothing from before JupyterHub made them."""
    with closing(sqlite3.connect(hub.directory / "jupyterhub.sqlite")) as database, database:
        database.execute("UPDATE users SET created = '2020-01-01 00:00:00'")


async def _shown(page: Any, path: str, row: str) -> float:
    """Milliseconds until the page has its figures, as its reader waits for them."""
    await page.goto(f"{page.url.partition('/hub/')[0]}/hub/ec2/{path}")
    return float(await page.evaluate(FIRST_FIGURES.replace("ROW", row)))


async def test_figures_of_a_large_hub_are_there_within_a_second(hub: Hub, visit: Visit) -> None:
    """The thousand running servers are canned: they come from memory. All else is the hub's."""
    page = await visit(f"{hub.url}/hub/login?next=/hub/ec2/usage")
    await page.get_by_label("Username").fill("user0001")
    await page.get_by_label("Password", exact=False).first.fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/ec2/usage")
    await expect(page.locator("#ec2-ended tr")).not_to_have_count(0)

    async def answer(route: Any) -> None:
        await route.fulfill(json=instances())

    await page.route("**/hub/api/ec2/instances", answer)
    for path, row in (("usage", "#ec2-ended tr"), ("instances", "#ec2-rows tr")):
        taken = min([await _shown(page, path, row) for _ in range(3)])
        print(f"{path}: figures after {taken:.0f} ms")
        assert taken < BUSY * PAINT_MS, path
    async with page.expect_response("**/costs?*by=day,purpose") as year:
        await page.get_by_label("Range").select_option("365 days")
    assert len((await (await year.value).json())["sums"]) > 365
    await expect(page.locator("#ec2-costs-of")).to_contain_text("$")
