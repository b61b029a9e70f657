"""The pages about money in a browser: a thousand servers, hostile names, phone width, actions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio

from tests.e2e.accessibility import is_accessible
from tests.e2e.usage_scenes import IDLE_SAVINGS, MARKUP, costs, instances, server, usage
from tests.harness import BUSY, PASSWORD, Embedded, Hub

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow(seconds=45),
]

FIRST_PAINT_MS = 1000
PHONE = {"width": 390, "height": 844}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("pages")
    embedded = await Embedded(directory / "embedded").start()
    running = Hub(directory / "hub", embedded)
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(60))


async def open_page(hub: Hub, visit: Visit, path: str, answers: dict[str, Any]) -> Any:
    """The hub's page, whose script gets these answers of the API."""
    page = await visit(f"{hub.url}/hub/login?next=/hub/ec2/{path}")
    await page.route("**/hub/api/ec2/**costs?*", _answer_costs)
    await page.route("**/hub/api/ec2/idle-savings?*", _answering(IDLE_SAVINGS))
    for call, answer in answers.items():
        await page.route(f"**/hub/api/ec2/{call}", _answering(answer))
    await page.get_by_label("Username").fill("admin")
    await page.get_by_label("Password", exact=False).first.fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/ec2/{path}")
    return page


def _answering(answer: Any) -> Callable[[Any], Any]:
    async def fulfill(route: Any) -> None:
        await route.fulfill(json=answer)

    return fulfill


async def _answer_costs(route: Any) -> None:
    [by] = parse_qs(urlsplit(route.request.url).query)["by"]
    await route.fulfill(json=costs(tuple(by.split(","))))


async def _answering_unknown(route: Any) -> None:
    [by] = parse_qs(urlsplit(route.request.url).query)["by"]
    found = costs(tuple(by.split(",")))
    for each in found["sums"]:
        each.update(usd=0.0, saved_usd=0.0, unknown=1)
    await route.fulfill(json=found)


def rows(page: Any) -> Any:
    return page.locator("#ec2-rows tr")


async def is_as_wide_as_the_screen(page: Any) -> bool:
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(await page.evaluate(wide))


async def test_a_thousand_servers_are_there_at_once_and_found(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "instances", {"instances": instances()})
    await expect(rows(page)).to_have_count(25)
    await page.reload()
    await expect(rows(page)).to_have_count(25)
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    assert await page.evaluate(paint) < BUSY * FIRST_PAINT_MS
    await expect(page.locator("#ec2-count")).to_contain_text("1,000 servers")
    await expect(page.locator("#ec2-shown")).to_have_text("1–25 of 1000")
    assert await page.title() != "owned"
    await expect(rows(page).first).to_contain_text(MARKUP)
    await is_accessible(page)
    await page.get_by_role("button", name="Next").click()
    await expect(page.locator("#ec2-shown")).to_have_text("26–50 of 1000")
    await page.get_by_role("searchbox").fill("user0010 g4dn")
    await expect(rows(page)).to_have_count(1)
    await page.get_by_role("searchbox").fill("nobody")
    await expect(page.locator("#ec2-empty")).to_have_text("No server matches.")
    await page.get_by_role("searchbox").fill("")
    await page.get_by_role("button", name="Idle").click()
    await expect(rows(page).first).to_contain_text("idle 38 min, stops at")
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)
    await is_accessible(page)


async def test_an_action_asks_first_and_calls_the_api(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "instances", {"instances": instances(10)})
    sent: list[tuple[str, str, Any]] = []

    async def note(route: Any) -> None:
        request = route.request
        body = json.loads(request.post_data) if request.post_data else None
        sent.append((request.method, request.url.partition("/hub/api/")[2], body))
        await route.fulfill(status=204)

    await page.route("**/hub/api/**/users/**", note)
    await page.get_by_role("button", name="Message user0006").click()
    dialog = page.get_by_role("dialog")
    await is_accessible(page)
    await dialog.get_by_role("button", name="Send message").click()
    await expect(dialog.get_by_role("alert")).to_have_text("The message is empty.")
    await dialog.get_by_label("Message").fill("Please stop by 18:00")
    await dialog.get_by_role("button", name="Send message").click()
    await expect(dialog).to_be_hidden()
    await page.get_by_role("button", name="Keep user0004 / sweep").click()
    await dialog.get_by_label("Keep on").select_option("for 1 day")
    await dialog.get_by_role("button", name="Keep").click()
    await expect(dialog).to_be_hidden()
    await page.get_by_role("button", name=f"Stop {MARKUP}").click()
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Stop user0006").click()
    await dialog.get_by_role("button", name="Stop server").click()
    await expect(dialog).to_be_hidden()
    assert sent == [
        ("POST", "ec2/users/user0006/server/message", {"text": "Please stop by 18:00"}),
        ("POST", "ec2/users/user0004/servers/sweep/keep", {"seconds": 86400}),
        ("DELETE", "users/user0006/server", None),
    ]


async def test_a_hub_that_is_away_is_said_and_the_rows_stay(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "instances", {"instances": instances(3)})
    await expect(rows(page)).to_have_count(3)
    await page.route("**/hub/api/ec2/instances", lambda route: route.abort())
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.locator("#ec2-offline")).to_contain_text("The hub does not answer.")
    await expect(rows(page)).to_have_count(3)
    await page.route("**/hub/api/ec2/instances", _answering(instances(0)))
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.locator("#ec2-offline")).to_be_hidden()
    await expect(page.locator("#ec2-empty")).to_have_text("No server runs now.")


async def test_a_user_sees_sessions_with_their_cost(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "usage", {"usage": usage()})
    await expect(page.locator("#ec2-running tr")).to_have_count(1)
    await expect(page.locator("#ec2-ended tr").first).to_contain_text("It had been idle for 1 hour")
    await expect(page.locator("#ec2-ended tr").first).to_contain_text("$0.74")
    await expect(page.locator("#ec2-ended tr").first).to_contain_text("paid by group research")
    await expect(page.locator("#ec2-ended tr").first).to_contain_text("9 % idle")
    await expect(page.locator("#ec2-month-limit")).to_have_text("of $200.00, $140.00 left")
    research = page.locator("#ec2-limits tbody tr").last
    await expect(research).to_contain_text("0.0 GPU-hours")
    await expect(research).to_contain_text("100 %")
    await expect(research).to_contain_text("Dec 1")
    await expect(page.locator("#ec2-ended tr").last).to_contain_text("unknown")
    assert await page.title() != "owned"
    await is_accessible(page)
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)
    await is_accessible(page)


async def test_unknown_prices_are_never_shown_as_zero(hub: Hub, visit: Visit) -> None:
    unknown = server(5, user="admin", usd=None, usd_per_hour=None)
    lost = server(7, user="admin", state="waiting", instance_id=None, usd=0.12, usd_per_hour=None)
    scene = usage() | {"servers": [unknown, lost]}
    page = await open_page(hub, visit, "usage", {"usage": scene})
    await expect(page.locator("#ec2-rate")).to_have_text("unknown")
    await expect(page.locator("#ec2-running tr").first).to_contain_text("unknown")
    await expect(page.locator("#ec2-running tr").last).to_contain_text("$0.12")
    await page.route("**/hub/api/ec2/**costs?*", _answering_unknown)
    await page.reload()
    await expect(page.locator("#ec2-month")).to_have_text("unknown")
    await expect(page.locator("#ec2-month-of")).to_contain_text("some prices are unknown")
    await expect(page.locator("#ec2-idle-usd")).to_have_text("unknown idle, unknown overhead")
    await page.goto(f"{hub.url}/hub/ec2/instances")
    await expect(page.locator("#ec2-month-of")).to_contain_text("some prices are unknown; at this")


async def test_a_failed_read_of_costs_stays_in_sight(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "usage", {"usage": usage()})
    await expect(page.locator("#ec2-month")).to_have_text("$60.00")
    await page.route("**/hub/api/ec2/**costs?*", lambda route: route.abort())
    await page.reload()
    await expect(page.locator("#ec2-offline")).to_contain_text("The hub does not answer.")
    async with page.expect_response("**/hub/api/ec2/usage"):
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await page.get_by_role("combobox", name="Cost by").select_option("Payer")
    await expect(page.locator("#ec2-offline")).to_contain_text("have not been read yet")


async def test_the_last_choice_wins_over_a_late_answer(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "usage", {"usage": usage()})
    await expect(page.locator("#ec2-sums thead")).to_contain_text("Profile")
    late: list[Any] = []

    async def hold(route: Any) -> None:
        late.append(route)

    await page.route("**/costs?*by=payer,purpose", hold)
    by = page.get_by_role("combobox", name="Cost by")
    async with page.expect_request("**/costs?*by=payer,purpose"):
        await by.select_option("Payer")
    await by.select_option("Server")
    await expect(page.locator("#ec2-sums thead")).to_contain_text("Server")
    [route] = late
    async with page.expect_response("**/costs?*by=payer,purpose"):
        await _answer_costs(route)
    await page.evaluate("new Promise(requestAnimationFrame)")
    await expect(page.locator("#ec2-sums thead")).to_contain_text("Server")


async def test_costs_of_any_range_as_chart_and_tables(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "instances", {"instances": instances(3)})
    await expect(page.locator("#ec2-month")).to_have_text("$60.00")
    await expect(page.locator("#ec2-month-limit")).to_have_text("of $10,000, $9,940 left")
    await expect(page.locator("#ec2-month-of")).to_contain_text("at this rate at least $")
    await expect(page.locator("#ec2-attention")).to_contain_text("was refused at")
    await expect(page.locator("#ec2-parts")).to_have_text("used 78 % · idle 15 % · overhead 7 %")
    await expect(page.locator("#ec2-saved")).to_have_text("$120.00")
    await expect(page.locator("#ec2-chart rect")).to_have_count(3 * 20)
    await expect(page.locator("#ec2-sums tbody tr").first).to_contain_text("$24.00")
    await expect(page.locator("#ec2-sums")).to_contain_text("at least $6.00")
    await expect(page.locator("#ec2-replays tbody tr").last).to_contain_text("30 min")
    await expect(page.locator("#ec2-idle-stops")).to_contain_text("saved about $27.25")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/ec2/")[2]))
    await page.get_by_label("Range").select_option("Last month")
    await expect(page.locator("#ec2-costs-of")).to_contain_text("from Oct 1 to Oct 31")
    await page.get_by_role("combobox", name="Cost by").select_option("Profile")
    await expect(page.locator("#ec2-sums thead")).to_contain_text("Profile")
    await page.get_by_label("Range").select_option("From … to …")
    await page.get_by_label("First day").fill("2026-11-30")
    await expect(page.locator("#ec2-offline")).to_contain_text("The first day is after the last.")
    assert "costs?from=2026-10-01&to=2026-10-31&by=day,purpose" in asked
    assert "costs?from=2026-10-01&to=2026-10-31&by=profile,purpose" in asked
    assert "idle-savings?from=2026-10-01&to=2026-10-31" in asked
    assert await page.title() != "owned"
    await page.get_by_text("As a table").click()
    await is_accessible(page)
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)
    await is_accessible(page)
