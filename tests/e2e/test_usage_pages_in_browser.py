"""The pages about money in a browser: a thousand servers, hostile names, phone width, actions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from itertools import product
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio

from tests.e2e.accessibility import is_accessible
from tests.e2e.usage_scenes import (
    IDLE_SAVINGS,
    MARKUP,
    NOW,
    costs,
    instances,
    pool,
    server,
    usage,
)
from tests.e2e.visits import Visit, chromium, cookies_of, visits
from tests.harness import BUSY, Embedded, Hub, demo_config

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow(seconds=30),
    pytest.mark.asyncio(loop_scope="module"),
]

FIRST_PAINT_MS = 1000
PHONE = {"width": 390, "height": 844}


PAYERS = (
    "c.JupyterHub.load_groups = {'lab': {'users': ['admin']}}",
    "c.EC2Spawner.payers = {'group': ['lab']}",
    "c.EC2Spawner.limits = {'group': {'lab': {'usd_per_month': 0.55}}}",
)
"""The group can pay for the first hour of a T4, and of nothing larger."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("pages")
    embedded = await Embedded(directory / "embedded").start()
    options = (*PAYERS, "c.EC2Spawner.runs = {}")
    running = Hub(directory / "hub", embedded, config=demo_config(directory / "config", *options))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(60))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    async with chromium(tmp_path_factory.mktemp("chromium") / "home") as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(hub: Hub, shared_chromium: Any) -> Any:
    """The cookies of one who has logged in."""
    return await cookies_of(shared_chromium, hub.url, "admin")


@pytest_asyncio.fixture(loop_scope="module")
async def visit(
    shared_chromium: Any, admin: Any, request: pytest.FixtureRequest
) -> AsyncIterator[Visit]:
    """Each test has contexts of its own in one browser, in which an admin has logged in."""
    async with visits(shared_chromium, request.node, admin) as visit:
        yield visit


async def open_page(hub: Hub, visit: Visit, path: str, answers: dict[str, Any]) -> Any:
    """The hub's page, whose script gets these answers of the API."""
    page = await visit("about:blank")
    await page.route("**/hub/api/ec2/**costs?*", _answer_costs)
    await page.route("**/hub/api/ec2/idle-savings?*", _answering(IDLE_SAVINGS))
    for call, answer in answers.items():
        await page.route(f"**/hub/api/ec2/{call}", _answering(answer))
    await page.goto(f"{hub.url}/hub/ec2/{path}")
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


async def _answering_partly_unknown(route: Any) -> None:
    [by] = parse_qs(urlsplit(route.request.url).query)["by"]
    found = costs(tuple(by.split(",")))
    for each in found["sums"]:
        each.update(unknown=1)
    await route.fulfill(json=found)


def rows(page: Any) -> Any:
    return page.locator("#ec2-rows tr")


async def is_as_wide_as_the_screen(page: Any) -> bool:
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(await page.evaluate(wide))


@pytest.mark.nightly(
    guard="tests/e2e/test_usage_pages_in_browser.py::"
    "test_workers_follow_their_server_and_neither_they_nor_runs_have_buttons"
)
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


SHIFTS = """
  window.shifted = 0;
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) window.shifted += entry.value;
  }).observe({ type: 'layout-shift', buffered: true });
"""


@pytest.mark.parametrize("path", ["instances", "usage"])
async def test_nothing_moves_while_a_page_is_filled(hub: Hub, visit: Visit, path: str) -> None:
    """However late each of its answers is."""
    page = await visit("about:blank")
    await page.add_init_script(SHIFTS)
    answers = {"instances": instances(30), "usage": usage(), "pool": pool()}

    def late(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def fulfill(route: Any) -> None:
            await asyncio.sleep(0.3)
            await answer(route)

        return fulfill

    await page.route("**/hub/api/ec2/**costs?*", late(_answer_costs))
    await page.route("**/hub/api/ec2/idle-savings?*", late(_answering(IDLE_SAVINGS)))
    for call, answer in answers.items():
        await page.route(f"**/hub/api/ec2/{call}", late(_answering(answer)))
    await page.goto(f"{hub.url}/hub/ec2/{path}")
    await expect(page.locator("#ec2-sums tbody tr")).not_to_have_count(0)
    if path == "instances":
        await expect(page.locator("#ec2-replays tr")).not_to_have_count(0)
    await page.wait_for_timeout(500)
    assert await page.evaluate("window.shifted") < 0.01


async def test_workers_follow_their_server_and_neither_they_nor_runs_have_buttons(
    hub: Hub, visit: Visit
) -> None:
    def worker(number: int, head: str, **changes: Any) -> dict[str, Any]:
        named = {"user": "ann", "server": f"{head}/{number}", "head": head, "worker": number}
        return server(4, **named, usd=90.0, usd_per_hour=0.5, doing="", **changes)

    scene = instances(30)
    scene["servers"] += [
        worker(2, ""),
        worker(10, ""),
        server(0, user="ann", server="", usd=1.0),
        server(0, user="ann", server="lab", usd=0.5),
        worker(1, "lab", state="waiting"),
        worker(7, "gone", state="ending"),
        server(4, user="ann", server="/run/12", run=12, usd=0.4, doing=""),
    ]
    page = await open_page(hub, visit, "instances", {"instances": scene})
    await expect(page.locator("#ec2-count")).to_contain_text("32 servers · 4 workers · 1 run")
    page_of = page.locator("#ec2-shown")
    await expect(page_of).to_have_text("1–25 of 37")
    await page.get_by_role("button", name="Next").click()
    await expect(page_of).to_have_text("26–37 of 37")
    await expect(rows(page)).to_have_count(12)
    search = page.get_by_role("searchbox")
    await search.fill("user0010 g4dn")
    await expect(rows(page).locator("th")).to_have_text("user0010")
    await search.fill("nobody")
    await expect(page.locator("#ec2-empty")).to_have_text("No server matches.")
    await search.fill("")
    await page.get_by_role("button", name="Idle").click()
    await expect(rows(page)).to_have_count(5)
    await expect(rows(page).first).to_contain_text("idle 38 min, stops at")
    await page.get_by_role("button", name="All").click()
    await expect(rows(page)).to_have_count(25)
    await page.get_by_label("Order").select_option("user")
    names = rows(page).locator("th")
    expected = ["ann", "ann, worker 2", "ann, worker 10", "ann, run 12", "ann / gone, worker 7"]
    expected += ["ann / lab", "ann / lab, worker 1"]
    found = [" ".join(text.split()) for text in (await names.all_text_contents())[1:8]]
    assert found == expected
    assert await rows(page).locator(":scope.ec2-below").count() == 3
    await expect(page.get_by_role("button", name=re.compile("worker|run 12"))).to_have_count(0)
    run = rows(page).filter(has_text="ann, run 12")
    await expect(run).to_contain_text("runs to completion")
    await expect(run.get_by_role("button")).to_have_count(0)
    await page.get_by_role("button", name="Stop ann", exact=True).click()
    await expect(page.get_by_role("dialog")).to_contain_text("Its 2 workers end, too.")
    await page.keyboard.press("Escape")
    await page.get_by_label("Order").select_option("usd")
    assert (await names.all_text_contents())[1] == "ann", "with its workers 181 USD"
    await is_accessible(page)
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)


@pytest.mark.nightly(
    guard="tests/e2e/test_usage_pages_in_browser.py::"
    "test_workers_follow_their_server_and_neither_they_nor_runs_have_buttons"
)
async def test_a_run_is_shown_as_one_and_has_no_buttons(hub: Hub, visit: Visit) -> None:
    named = {"user": "ann", "server": "/run/12", "run": 12, "usd": 9e9, "doing": ""}
    scene = instances(3)
    scene["servers"] += [server(4, **named), server(0, user="ann", server="lab")]
    page = await open_page(hub, visit, "instances", {"instances": scene})
    await expect(page.locator("#ec2-count")).to_contain_text("4 servers · 1 run ·")
    await expect(rows(page).first.locator("th")).to_have_text("ann, run 12")
    await expect(rows(page).first).to_contain_text("runs to completion")
    await expect(rows(page).first.get_by_role("button")).to_have_count(0)
    await expect(page.get_by_role("button", name="Stop ann / lab", exact=True)).to_be_visible()
    ended = usage()["sessions"][0] | {"server": "/run/11"}
    scene = usage() | {"servers": [server(5, **named)], "sessions": [ended]}
    await page.route("**/hub/api/ec2/usage", _answering(scene))
    by_server = costs(("server", "purpose"))
    for each in by_server["sums"]:
        each["key"][0] = "/run/10"
    await page.route("**/hub/api/ec2/usage/costs?*by=server,purpose", _answering(by_server))
    await page.goto(f"{hub.url}/hub/ec2/usage")
    await expect(page.locator("#ec2-running th")).to_have_text("admin, run 12")
    await expect(page.locator("#ec2-ended th")).to_have_text("admin, run 11")
    await expect(page.locator("#ec2-rate-of")).to_contain_text("0 servers, 1 run")
    await page.get_by_role("combobox", name="Cost by").select_option("Server")
    await expect(page.locator("#ec2-sums")).to_contain_text("run 10")


@pytest.mark.nightly(
    guard="tests/unit/hub/test_runs_page.py::test_a_hub_without_runs_says_whom_to_ask"
)
async def test_a_hub_without_runs_says_whom_to_ask(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "runs", {})
    await expect(page.get_by_role("main")).to_contain_text("Ask an admin of this JupyterHub")
    await expect(page.get_by_role("link", name="Usage")).to_be_visible()
    await expect(page.get_by_role("link", name="Runs")).to_have_count(0)
    await expect(page.get_by_text("Loading")).to_have_count(0)
    await is_accessible(page)


async def test_the_pool_is_shown_with_its_reasons_and_set_by_hand(hub: Hub, visit: Visit) -> None:
    answers = {"instances": instances(3), "pool": pool()}
    page = await open_page(hub, visit, "instances", answers)
    groups = page.locator("#ec2-pool-rows tr")
    await expect(groups).to_have_count(2)
    await expect(groups.first).to_contain_text("The configuration asks for 2.")
    await expect(groups.last).to_contain_text(f"Set by {MARKUP}")
    await expect(groups.last).to_contain_text("It is tried again in 54 s.")
    await expect(page.locator("#ec2-pool-cost")).to_contain_text("$0.42/h (estimate)")
    assert await page.title() != "owned"
    await is_accessible(page)
    sent: list[tuple[str, str, Any]] = []

    async def note(route: Any) -> None:
        request = route.request
        body = json.loads(request.post_data) if request.post_data else None
        sent.append((request.method, request.url.partition("/hub/api/")[2], body))
        await route.fulfill(json=pool())

    await page.route("**/hub/api/ec2/pool/*", note)
    await groups.first.get_by_role("button", name="Set").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Instances that wait for T4, 16 GB, spot")
    await dialog.get_by_label("How many").fill("20")
    await is_accessible(page)
    await dialog.get_by_role("button", name="Set").click()
    await expect(dialog).to_have_count(0)
    until = (NOW + timedelta(hours=4)).isoformat().replace("+00:00", ".000Z")
    assert sent == [("PUT", "ec2/pool/t4", {"running": 20, "until": until, "market": "spot"})]
    await groups.last.get_by_role("button", name="Clear").click()
    await expect(page.locator("#ec2-done")).to_contain_text("The configuration holds")
    assert sent[-1][:2] == ("DELETE", "ec2/pool/a10g")
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
    for user, button in (("user0006", "Sleep"), ("user0008", "Stop server")):
        await page.get_by_role("button", name=f"Stop {user}").click()
        await expect(dialog.locator(".btn-jupyter")).to_have_text("Sleep")
        await is_accessible(page)
        await dialog.get_by_role("button", name=button).click()
        await expect(dialog).to_be_hidden()
    await page.get_by_role("button", name="Stop user0009").click()
    await expect(dialog).to_contain_text("variables, are lost")
    await expect(dialog.get_by_role("button", name="Sleep")).to_be_hidden()
    await expect(dialog.locator(".btn-jupyter:visible")).to_have_count(0)
    await dialog.get_by_role("button", name="Stop server").click()
    await expect(dialog).to_be_hidden()
    await expect(rows(page)).to_have_count(10)
    await page.get_by_role("button", name="Kept 1 · $0.16/h").click()
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("runs, kept until")
    await page.get_by_role("button", name="Release kim").click()
    await expect(dialog).to_contain_text("Files in the home are kept")
    await is_accessible(page)
    await dialog.get_by_role("button", name="Release").click()
    await expect(dialog).to_be_hidden()
    await page.get_by_role("button", name="Unassigned 1 · unknown").click()
    await expect(rows(page)).to_contain_text("boots, or waits for a server")
    assert sent == [
        ("POST", "ec2/users/user0006/server/message", {"text": "Please stop by 18:00"}),
        ("POST", "ec2/users/user0004/servers/sweep/keep", {"seconds": 86400}),
        ("DELETE", "users/user0006/server", {"sleep": True}),
        ("DELETE", "users/user0008/server", {"sleep": False}),
        ("DELETE", "users/user0009/server", {"sleep": False}),
        ("DELETE", "ec2/users/kim/server/kept", None),
    ]


async def test_what_ec2_refuses_for_one_reason_is_one_note(hub: Hub, visit: Visit) -> None:
    scene = instances(3)
    [mark] = scene["sold_out"]
    every = product(("g5.xlarge", "g6.xlarge"), "abcde", ("spot", "on-demand"))
    scene["sold_out"] = [
        mark | {"instance_type": kind, "zone": f"us-east-1{zone}", "market": market}
        for kind, zone, market in every
    ]
    quota = {"reason": "quota", "code": "VcpuLimitExceeded", "quota_class": "G and VT"}
    scene["sold_out"].append(mark | quota | {"instance_type": "", "zone": ""})
    page = await open_page(hub, visit, "instances", {"instances": scene})
    notes = page.locator("#ec2-attention-list > li")
    await expect(notes).to_have_count(4)
    sold_out = notes.nth(2)
    await expect(sold_out).to_contain_text(
        re.compile(
            r"g5\.xlarge and g6\.xlarge, on-demand and spot in us-east-1a, us-east-1b, us-east-1c "
            r"and 2 more zones are not available \(InsufficientInstanceCapacity\), requested again"
        )
    )
    await sold_out.get_by_text("All 20").click()
    await expect(sold_out.locator("ul li")).to_have_count(20)
    await expect(notes.nth(3)).to_contain_text("spot G and VT quota is at the account's quota")
    await is_accessible(page)


@pytest.mark.nightly(
    guard="tests/e2e/test_runs_page_in_browser.py::"
    "test_a_hub_that_is_away_is_said_and_the_rows_stay"
)
async def test_a_hub_that_is_away_is_said_and_the_rows_stay(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "instances", {"instances": instances(3)})
    await expect(rows(page)).to_have_count(3)
    await page.route("**/hub/api/ec2/instances", lambda route: route.abort())
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.locator("#ec2-offline")).to_contain_text("The hub does not answer.")
    await expect(rows(page)).to_have_count(3)
    limits = page.locator("#ec2-limits tbody tr")
    await expect(limits.first).to_contain_text(MARKUP)
    await expect(limits.last).to_contain_text("at this rate")
    await expect(page.locator("#ec2-limits-rest")).to_have_text("and 3 more")
    as_of = page.locator("#ec2-limits-at")
    await expect(as_of).to_contain_text(re.compile(r"as of \d+:59:48"))
    await page.route("**/hub/api/ec2/instances", _answering(instances(0)))
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.locator("#ec2-offline")).to_be_hidden()
    await expect(page.locator("#ec2-empty")).to_have_text("No server runs now.")
    await expect(page.locator("#ec2-limits")).to_be_hidden()
    await expect(page.locator("#ec2-limits-rest")).to_have_text("No limit is used by 75 % or more.")


async def test_a_user_sees_sessions_with_their_cost(hub: Hub, visit: Visit) -> None:
    scene = usage()
    scene["servers"].append(server(4, user="admin", server="/run/12", run=12, usd=0.2, doing=""))
    scene["sessions"].insert(1, scene["sessions"][0] | {"server": "/run/11"})
    page = await open_page(hub, visit, "usage", {"usage": scene})
    await expect(page.locator("#ec2-running th")).to_have_text(["admin", "admin, run 12"])
    await expect(page.locator("#ec2-ended th").nth(1)).to_have_text("admin, run 11")
    await expect(page.locator("#ec2-ended tr").first).to_contain_text("It had been idle for 1 hour")
    await expect(page.locator("#ec2-ended tr").first).to_contain_text("$0.74")
    await expect(page.locator("#ec2-ended tr").first).to_contain_text("paid by group research")
    await expect(page.locator("#ec2-ended tr").first).to_contain_text("9 % idle")
    await expect(page.locator("#ec2-month-limit")).to_have_text("of $200.00, $140.00 left")
    payers = page.locator("#ec2-month-payers")
    await expect(payers).to_have_text("paid by group research $40.00, yourself $20.00")
    research = page.locator("#ec2-limits tbody tr").last
    await expect(research).to_contain_text("0.0 GPU-hours")
    await expect(research).to_contain_text("100 %")
    await expect(research).to_contain_text("Dec 1")
    await expect(research.locator("td").nth(3)).to_have_text("Used up")
    forecast = page.locator("#ec2-limits tbody tr").first.locator("td").nth(3)
    await expect(forecast).to_contain_text("Used up at")
    await expect(forecast).to_contain_text("at this rate")
    await expect(page.locator("#ec2-ended tr").last).to_contain_text("unknown")
    assert await page.title() != "owned"
    await is_accessible(page)
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)
    await is_accessible(page)
    [own, *others] = scene["limits"]
    scene |= {"servers": [], "limits": [own | {"left": 14.0}, *others]}
    await page.route("**/hub/api/ec2/usage", _answering(scene))
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    left = page.locator("#ec2-month-limit")
    await expect(left).to_have_text("of $200.00, $14.00 left, about 95 h of T4, 16 GB")


@pytest.mark.nightly(
    guard="tests/e2e/test_usage_pages_in_browser.py::test_a_user_sees_sessions_with_their_cost"
)
async def test_without_a_server_the_rest_of_a_limit_is_said_in_hours(
    hub: Hub, visit: Visit
) -> None:
    [own, *others] = usage()["limits"]
    scene = usage() | {"servers": [], "limits": [own | {"left": 14.0}, *others]}
    page = await open_page(hub, visit, "usage", {"usage": scene})
    left = page.locator("#ec2-month-limit")
    await expect(left).to_have_text("of $200.00, $14.00 left, about 95 h of T4, 16 GB")
    # 946 hours are more than the ten days until the limit renews.
    await page.route("**/hub/api/ec2/usage", _answering(usage() | {"servers": []}))
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(left).to_have_text("of $200.00, $140.00 left")


async def test_unknown_prices_are_never_shown_as_zero(hub: Hub, visit: Visit) -> None:
    no_price = {"usd": None, "usd_per_hour": None, "unknown_prices_of": ["instance"]}
    unknown = server(5, user="admin", **no_price)
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
    idle = server(5, state="ready", idle_since=NOW.isoformat(), **no_price)
    partly = instances(0) | {"servers": [idle], "usd_per_hour": 0.2}
    await page.route("**/hub/api/ec2/instances", _answering(partly))
    await page.goto(f"{hub.url}/hub/ec2/instances")
    month = page.locator("#ec2-month-of")
    await expect(month).to_contain_text("at this rate unknown by the end of the month")
    await expect(page.locator("#ec2-rate")).to_have_text("at least $0.20/h")
    await expect(page.locator("#ec2-rate-of")).to_contain_text("idle unknown; 1 price unknown")


async def test_the_forecast_of_the_month_is_no_sum_of_what_is_unknown(
    hub: Hub, visit: Visit
) -> None:
    known = {"all_usd_per_hour": 1.0, "all_known_usd_per_hour": 1.0, "unknown_prices": 0}
    page = await open_page(hub, visit, "instances", {"instances": instances(0) | known})
    month = page.locator("#ec2-month-of")
    # $60.00 are spent, and 251 hours are left until the end of the month in Berlin.
    await expect(month).to_have_text("estimate; at this rate about $311.00 by the end of the month")
    listed = known | {"all_known_usd_per_hour": 0.5, "unknown_prices": 1}
    await page.route("**/hub/api/ec2/instances", _answering(instances(0) | listed))
    await page.reload()
    about = "about $311.00 by the end of the month, with list prices for unknown ones"
    await expect(month).to_contain_text(about)
    lacking = listed | {"all_unpriced": 1}
    await page.route("**/hub/api/ec2/instances", _answering(instances(0) | lacking))
    await page.reload()
    await expect(month).to_have_text(
        "estimate; at this rate at least $185.50 by the end of the month"
    )
    await page.route("**/hub/api/ec2/instances", _answering(instances(0) | listed))
    await page.route("**/hub/api/ec2/**costs?*", _answering_partly_unknown)
    await page.reload()
    await expect(month).to_contain_text("at this rate at least $185.50 by the end of the month")


async def test_what_is_known_of_a_price_is_shown(hub: Hub, visit: Visit) -> None:
    known = {"usd": None, "known_usd": 0.51, "usd_per_hour": None, "known_usd_per_hour": 0.42}
    partly = server(5, user="admin", **known, unknown_prices_of=["disk"])
    ended = usage()["sessions"][1] | {"known_usd": 3.21}
    scene = usage() | {"servers": [partly], "sessions": [ended]}
    page = await open_page(hub, visit, "usage", {"usage": scene, "instances": instances(0)})
    await expect(page.locator("#ec2-rate")).to_have_text("at least $0.42/h")
    await expect(page.locator("#ec2-rate-of")).to_contain_text("the price of a disk is unknown")
    why = re.compile("pricing:GetProducts")
    await expect(page.locator("#ec2-rate-of")).to_have_attribute("title", why)
    await expect(page.locator("#ec2-running tr")).to_contain_text("at least $0.51")
    await expect(page.locator("#ec2-ended tr")).to_contain_text("at least $3.21")
    kept = instances(0)["kept"][0] | {"usd_per_hour": None, "unknown_prices_of": ["disk"]}
    foreign = instances(0)["unassigned"][0] | {"status": "foreign", "known_usd_per_hour": 0.5}
    every = instances(0) | {"servers": [partly], "kept": [kept], "unassigned": [foreign]}
    await page.route("**/hub/api/ec2/instances", _answering(every))
    await page.goto(f"{hub.url}/hub/ec2/instances")
    row = rows(page).first
    await expect(row).to_contain_text("at least $0.51")
    await expect(row).to_contain_text("at least $0.42/h")
    await expect(row).to_contain_text("the price of a disk is unknown")
    await expect(page.locator("#ec2-filters")).to_contain_text("Kept 1 · at least $0.16/h")
    await expect(page.locator('[data-filter="unassigned"]')).to_have_text("Unassigned 1")
    await row.get_by_role("button", name="Keep").click()
    await expect(page.locator("#ec2-dialog-text")).to_contain_text("It costs at least $0.42/h.")


async def test_a_failed_read_of_costs_stays_in_sight(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "usage", {"usage": usage()})
    await expect(page.locator("#ec2-month")).to_have_text("$60.00")
    await page.route("**/hub/api/ec2/**costs?*", lambda route: route.abort())
    await page.reload()
    await expect(page.locator("#ec2-offline")).to_contain_text("The hub does not answer.")
    # Not before the refresh has failed, whose message would replace that of the choice.
    async with page.expect_event("requestfailed", lambda request: "costs?" in request.url):
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
    await expect(page.locator("#ec2-month-of")).to_contain_text("at this rate about $")
    await expect(page.locator("#ec2-attention")).to_contain_text("was refused at")
    await expect(page.locator("#ec2-parts")).to_have_text("used 78 % · idle 15 % · overhead 7 %")
    await expect(page.locator("#ec2-saved")).to_have_text("$120.00")
    await expect(page.locator("#ec2-chart rect")).to_have_count(3 * 20)
    await expect(page.locator("#ec2-sums tbody tr").first).to_contain_text("$24.00")
    await expect(page.locator("#ec2-sums")).to_contain_text("at least $6.00")
    await expect(page.locator("#ec2-sums tbody tr").first.locator("td").nth(6)).to_have_text("61 %")
    of_bob = page.locator("#ec2-sums tbody tr", has_text="bob").locator("td").nth(6)
    await expect(of_bob).to_have_text("–")
    await expect(page.locator("#ec2-replays tbody th")).to_have_text(["1 h (this hub)", "30 min"])
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
    await page.get_by_label("First day").fill("2026-10-01")
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Download these sums as CSV").click()
    assert (await saved.value).suggested_filename == "costs-by-profile-2026-10-01-2026-11-20.csv"
    assert "costs?from=2026-10-01&to=2026-11-20&by=profile&format=csv" in asked
    assert "costs?from=2026-10-01&to=2026-10-31&by=day,purpose" in asked
    assert "costs?from=2026-10-01&to=2026-10-31&by=profile,purpose" in asked
    assert "idle-savings?from=2026-10-01&to=2026-10-31" in asked
    assert await page.title() != "owned"
    await page.get_by_text("As a table").click()
    await is_accessible(page)
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)
    await is_accessible(page)


async def test_the_chart_is_stacked_by_what_costs_the_most(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, "usage", {"usage": usage()})
    legend = page.locator("#ec2-legend span")
    await expect(legend).to_have_count(3)
    stacked = page.get_by_label("Stacked by")
    await stacked.select_option("by profile")
    await expect(legend).to_have_text([MARKUP, "a10g", "t4"])
    await expect(page.locator("#ec2-chart rect")).to_have_count(3 * 20)
    await page.locator("#ec2-chart rect").first.hover()
    await expect(page.locator("#ec2-chart-day")).to_contain_text("a10g $0.33, t4 $0.17")
    await page.get_by_text("As a table").click()
    heads = page.locator("#ec2-days thead th")
    await expect(heads).to_have_text(["Day", MARKUP, "a10g", "t4", "Cost"])
    await expect(page.locator("#ec2-days tbody tr").first).to_contain_text("at least $2.50")
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Download the cost by day as CSV").click()
    name = "costs-by-day-profile-2026-11-01-2026-11-20.csv"
    assert (await saved.value).suggested_filename == name
    assert await page.title() != "owned"
    await stacked.select_option("by server")
    await expect(legend).to_have_count(7)
    await expect(legend.last).to_have_text("3 others")
    await expect(page.locator("#ec2-costs-of")).to_contain_text("$60.00 from Nov 1 to Nov 20")
    await is_accessible(page)
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)
    await stacked.select_option("by use")
    await expect(legend.first).to_contain_text("used")


async def test_the_choice_of_a_payer_opens_what_it_can_pay_for(hub: Hub, visit: Visit) -> None:
    page = await visit(f"{hub.url}/hub/spawn/admin")
    payer, radios = page.get_by_label("Charge this server to"), page.locator(".ec2-radio")
    closed = page.locator(".ec2-radio:disabled")
    await expect(payer).to_have_value("group:lab")
    number, refused = await radios.count(), await closed.count()
    assert 0 < refused < number
    dear = await closed.last.get_attribute("id")
    limit, badge = page.locator(".ec2-limit"), page.locator(".ec2-over-limit:visible")
    await expect(limit).to_have_count(1)
    await expect(limit).to_contain_text("$0 is used, $0.55 is left. More is available on")
    await expect(limit).to_contain_text("You can still start: T4, 16 GB ($")
    await expect(badge).to_have_count(refused)
    await is_accessible(page)
    await payer.select_option("user:admin")
    await expect(closed).to_have_count(0)
    await expect(limit).to_be_hidden()
    await expect(badge).to_have_count(0)
    await page.locator(f"label[for={dear}]").click()
    await expect(page.locator(f"#{dear}")).to_be_checked()
    await payer.select_option("group:lab")
    await expect(page.locator(".ec2-radio:checked")).to_have_count(0)
    await payer.select_option("user:admin")
    await expect(page.locator(f"#{dear}")).to_be_checked()
