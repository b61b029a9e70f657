"""The hub's home page: a stop asks first, and offers sleep."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.accessibility import is_accessible
from tests.e2e.canned_server import OUTPUT
from tests.harness import PASSWORD, Embedded, Hub, demo_config

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=25)]

CALLS = re.compile(r"/hub/api/users/bob")
WITHOUT = '{"sleep":false}'

OPTIONS = (
    "c.JupyterHub.allow_named_servers = True",
    "c.EC2Spawner.sleep = {'save': '20s'}",
    "c.EC2Spawner.home = {'size_gib': 10}",
)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    embedded = await Embedded(tmp_path / "embedded").start()
    running = Hub(tmp_path / "hub", embedded, config=demo_config(tmp_path, *OPTIONS))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(60))


async def home_of(hub: Hub, visit: Visit, user: str) -> Any:
    page = await visit(f"{hub.url}/hub/login?next=/hub/home")
    await page.get_by_label("Username").fill(user)
    await page.get_by_label("Password", exact=False).first.fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{hub.url}/hub/home")
    return page


def abort_first() -> Callable[[Any], Awaitable[None]]:
    """As while the hub restarts: the first question has no answer."""
    seen = count()

    async def handle(route: Any) -> None:
        await (route.continue_() if next(seen) else route.abort())

    return handle


async def test_a_stop_on_the_home_page_asks_and_offers_sleep_first(hub: Hub, visit: Visit) -> None:
    await hub.start_server("ann")
    named = {"display_name": "My 14:32 UTC lab", "user_options": {}}
    assert (await hub.api.post(hub.server_path("ann", "lab-x1"), json=named)).is_success
    await hub.wait_ready("ann", "lab-x1")
    page = await home_of(hub, visit, "ann")
    dialog = page.get_by_role("dialog")
    row = page.locator("[data-server-name='lab-x1']")
    await expect(row).to_contain_text("My 14:32 UTC lab")  # a name is no time
    await page.get_by_role("button", name="Stop My Server").focus()
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("heading")).to_have_text("Stop your server?")
    await expect(dialog.locator(".btn-jupyter")).to_have_text("Sleep")
    await expect(dialog.locator("button")).to_have_text(["Cancel", "Sleep", "Stop"])
    await expect(dialog.get_by_role("button", name="Sleep")).to_be_focused()
    await is_accessible(page)
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    model = await hub.model("ann")
    assert model is not None
    assert (model["ready"], model["pending"]) == (True, None)
    await page.get_by_role("button", name="stop", exact=True).click()
    await expect(dialog.get_by_role("heading")).to_have_text("Stop your server “My 14:32 UTC lab”?")
    sent: list[tuple[str, str | None]] = []

    def note(request: Any) -> None:
        if request.method == "DELETE":
            sent.append((request.url.partition("/hub/api/")[2], request.post_data))

    page.on("request", note)
    await page.route("**/hub/api/users/ann", abort_first())
    await dialog.get_by_role("button", name="Stop", exact=True).click()
    await expect(page.get_by_role("button", name="start", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Stop My Server").click()
    await dialog.get_by_role("button", name="Sleep").click()
    await expect(page.get_by_role("button", name="Start My Server")).to_be_visible()
    assert sent == [
        ("users/ann/servers/lab-x1", '{"sleep":false}'),
        ("users/ann/server", '{"sleep":true}'),
    ]


async def test_a_save_that_takes_long_can_be_cut_short(hub: Hub, visit: Visit) -> None:
    await hub.start_server("bob")
    page = await home_of(hub, visit, "bob")
    await page.clock.install()
    saving = {"servers": {"": {"pending": "stop"}}}
    sent: list[str] = []

    async def instead(route: Any) -> None:
        """A hub whose server saves until it is to stop without."""
        if route.request.method == "DELETE":
            sent.append(route.request.post_data)
        if WITHOUT in sent:
            await route.continue_()
        else:
            await route.fulfill(status=202, json=saving)

    await page.route(CALLS, instead)
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Stop My Server").click()
    await dialog.get_by_role("button", name="Sleep").click()
    await expect(dialog.get_by_role("status")).to_have_text("Your session is being saved…")
    await expect(dialog.get_by_role("button", name="Stop", exact=True)).to_be_disabled()
    async with page.expect_response(CALLS):  # so that none is under way in the next instant
        pass
    await page.clock.fast_forward(21_000)
    stop_now = dialog.get_by_role("button", name="Stop now without saving")
    await expect(stop_now).to_be_enabled()
    await expect(dialog).to_contain_text("Its session is being saved.")
    await expect(dialog.get_by_role("alert")).to_be_hidden()
    await is_accessible(page)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=OUTPUT / "home-stop-now.png")
    await page.clock.resume()
    await stop_now.click()
    await expect(page.get_by_role("button", name="Start My Server")).to_be_visible()
    assert sent == ['{"sleep":true}', WITHOUT]


async def test_a_dialog_opened_again_before_the_hub_answers_offers_no_second_sleep(
    hub: Hub, visit: Visit
) -> None:
    await hub.start_server("bob")
    page = await home_of(hub, visit, "bob")
    held: list[Any] = []

    async def hold(route: Any) -> None:
        held.append(route)

    await page.route(CALLS, hold)
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Stop My Server").click()
    await dialog.get_by_role("button", name="Sleep").click()
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Stop My Server").click()
    offered = ["Cancel", "Stop now without saving"]
    await expect(dialog.locator("button:visible")).to_have_text(offered)
    [deletion] = held
    await deletion.fulfill(status=409, json={"message": "Nothing can be saved."})
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Stop My Server").click()
    await expect(dialog.locator("button:visible")).to_have_text(["Cancel", "Sleep", "Stop"])


async def test_a_save_under_way_changes_no_dialog_of_another_server(hub: Hub, visit: Visit) -> None:
    await hub.start_server("bob")
    named = {"display_name": "Lab", "user_options": {}}
    assert (await hub.api.post(hub.server_path("bob", "lab-x1"), json=named)).is_success
    await hub.wait_ready("bob", "lab-x1")
    page = await home_of(hub, visit, "bob")
    await page.clock.install()
    pending = {"servers": {"": {"pending": "stop"}, "lab-x1": {"pending": "stop"}}}
    sent: list[tuple[str, str]] = []

    async def instead(route: Any) -> None:
        if route.request.method == "DELETE":
            sent.append((route.request.url.partition("/hub/api/")[2], route.request.post_data))
        await route.fulfill(status=202, json=pending)

    await page.route(CALLS, instead)
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Stop My Server").click()
    async with page.expect_response(lambda response: response.request.method == "GET"):
        await dialog.get_by_role("button", name="Sleep").click()
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="stop", exact=True).click()
    await page.clock.fast_forward(21_000)
    await expect(dialog.get_by_role("heading")).to_have_text("Stop your server “Lab”?")
    await expect(dialog.locator("button:visible")).to_have_text(["Cancel", "Sleep", "Stop"])
    await dialog.get_by_role("button", name="Stop", exact=True).click()
    await expect(dialog.get_by_role("status")).to_have_text("Your server is stopping…")
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Stop My Server").click()
    offered = ["Cancel", "Stop now without saving"]
    await expect(dialog.locator("button:visible")).to_have_text(offered)
    assert sent == [
        ("users/bob/server", '{"sleep":true}'),
        ("users/bob/servers/lab-x1", WITHOUT),
    ]
