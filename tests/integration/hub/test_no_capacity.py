"""Users whose choice is unavailable learn the reason and the alternatives at once.

One hub serves all tests: each sells out machines of its own, and what the hub remembers of them
is no other test's.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.harness import PASSWORD, Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser, xsrf_of
from tests.integration.hub.progress_events import notes_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOTH = {"profile_options": {"market": ["spot-only", "on-demand"]}}
PROFILES: list[dict[str, Any]] = [
    {"display_name": "No GPU", "slug": "cpu", "instance_types": ["m7i.xlarge"], "default": True},
    {"display_name": "L4 <24 GB>", "slug": "l4", "instance_types": ["g6.xlarge"], **BOTH},
    {"display_name": "A10G", "slug": "a10g", "instance_types": ["g5.xlarge"], **BOTH},
    {"display_name": "T4", "slug": "t4", "instance_types": ["g4dn.xlarge"]},
    {"display_name": "4 × T4", "slug": "t4x4", "instance_types": ["g4dn.12xlarge"]},
    {"display_name": "8 × A100", "slug": "a100x8", "instance_types": ["p4d.24xlarge"]},
    {"display_name": "8 × H100", "slug": "h100x8", "instance_types": ["p5.48xlarge"]},
    {"display_name": "Large CPU", "slug": "large", "instance_types": ["m7i.2xlarge"]},
    {"display_name": "L40S", "instance_types": ["g6e.xlarge"], "groups": ["research"]},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("hub")
    config = demo_config(directory, f"c.EC2Spawner.profile_list = {PROFILES!r}")
    running = Hub(directory, embedded, config=config)
    try:
        yield await running.start()
    finally:
        await embedded.stop()  # the hub would wait for the call that hangs
        await running.stop()
        print(running.tail(120))


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def no_server_is_left(hub: Hub) -> AsyncIterator[None]:
    """The next test counts instances, also after one that has failed while its server runs."""
    yield
    reply = await hub.api.get("/users", params={"state": "active"})
    assert reply.is_success, reply.text
    await asyncio.gather(*(hub.stop_server(user["name"]) for user in reply.json()))


async def sell_out(embedded: Embedded, instance_type: str, market: str = "*") -> None:
    offer = {"market": market, "instance_type": instance_type, "zone": "*", "available": 0}
    await embedded.control("capacity", offer)


async def running_types(embedded: Embedded) -> list[str]:
    return [instance["instance_type"] for instance in await embedded.instances()]


async def message_of(reply: httpx.Response) -> str:
    assert reply.status_code == 503, reply.text
    message: str = reply.json()["message"]
    return message


def links(page: str) -> dict[str, str]:
    """The alternatives on a page: words -> address."""
    found = re.findall(r'ec2-alternative" href="([^"]+)">([^<]+)</a>', page)
    return {html.unescape(words): html.unescape(url) for url, words in found}


async def progress(hub: Hub, user: str) -> list[dict[str, Any]]:
    """The events of a start, from its beginning to its end."""
    reply = await hub.api.get(f"{hub.server_path(user)}/progress")
    lines = [line for line in reply.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# --- sold out --------------------------------------------------------------------------------


async def test_sold_out_in_both_markets_comes_with_alternatives(
    hub: Hub, embedded: Embedded
) -> None:
    await sell_out(embedded, "g4dn.12xlarge")
    message = await message_of(await hub.request_server("ann", options={"profile": "t4x4"}))
    assert "spot and on-demand are sold out in us-east-1a" in message
    assert re.search(r"after \d\d:\d\d UTC", message)
    instead = message.partition("You can start now: ")[2]
    others, _, waiting = instead.partition(". Wait for spot: ")
    assert "Waiting costs nothing: 4 × T4" in waiting
    assert waiting.endswith('Send "market": "spot-wait".')
    offered = others.split("; ")
    assert 1 <= len(offered) <= 4
    assert all(re.search(r", (spot|on-demand) (at|from) \$\d+\.\d+/h$", each) for each in offered)
    assert not any(each.startswith(("4 × T4", "L40S")) for each in offered)
    calls = len(await embedded.calls("CreateFleet"))
    again = await message_of(await hub.request_server("ann", options={"profile": "t4x4"}))
    assert "spot and on-demand are sold out in us-east-1a" in again
    assert len(await embedded.calls("CreateFleet")) == calls, "what is known is not asked for"
    assert "g4dn.12xlarge" not in await running_types(embedded)


@pytest.mark.nightly(
    guard="tests/e2e/test_sold_out_in_browser.py::"
    "test_a_sold_out_start_offers_alternatives_that_one_click_starts"
)
async def test_the_pages_of_a_failed_start_offer_links_and_one_of_them_starts(
    hub: Hub, embedded: Embedded
) -> None:
    await sell_out(embedded, "g6.xlarge")
    await sell_out(embedded, "g5.xlarge", "spot")
    async with browser(hub, "bob") as page:
        xsrf = await xsrf_of(page, "/hub/spawn/bob")
        url, choice = f"/hub/spawn/bob?_xsrf={xsrf}", {"profile": "l4"}
        await page.post(url, data=choice)
        event = (await progress(hub, "bob"))[-1]
        failed = await page.get("/hub/spawn-pending/bob")
        refused = await page.post(url, data=choice)  # at once, for it is known by now
        assert failed.status_code == 503
        assert "Your server could not be started" in failed.text
        for shown in (refused, failed):
            assert "sold out in us-east-1a" in shown.text
            assert "L4 <24 GB>" not in shown.text, "names are escaped"
            assert "Start T4, spot from $" in " ".join(links(shown.text))
        assert event["failed"]
        assert links(event["html_message"]) == links(failed.text)

        url = next(url for words, url in links(failed.text).items() if "T4" in words)
        started = await page.get(url)
        assert started.url.path in {"/hub/spawn-pending/bob", "/user/bob/"}, started.text
    model = await hub.wait_ready("bob")
    assert model["user_options"] == {"profile": "t4", "market": "spot-first"}


async def test_the_same_profile_in_the_other_market_is_offered_first_where_it_may_be_chosen(
    hub: Hub, embedded: Embedded
) -> None:
    await sell_out(embedded, "g5.xlarge", "spot")
    options = {"profile": "a10g", "market": "spot-only"}
    message = await message_of(await hub.request_server("cat", options=options))
    assert "You can start now: A10G, on-demand at $1.02/h; " in message


async def assert_only_shown(shown: httpx.Response, hub: Hub, user: str) -> None:
    """The spawn page with the link's choice made, and nothing started."""
    assert shown.status_code == 200
    assert "A link filled in this form" in shown.text
    chosen = re.findall(r"<input[^>]*name=\"profile\"[^>]*>", shown.text)
    assert [re.search('value="([^"]+)"', tag)[1] for tag in chosen if " checked" in tag] == ["t4"]
    model = await hub.model(user)
    assert model is None or not (model["ready"] or model["pending"])


@pytest.mark.parametrize("signed", ["", "&opt-signed=9999999999-0123456789abcdef"])
async def test_a_link_that_the_hub_did_not_make_starts_nothing_and_shows_its_choice(
    hub: Hub, embedded: Embedded, signed: str
) -> None:
    calls = len(await embedded.calls("CreateFleet"))
    own = {"Sec-Fetch-Site": "same-origin", "Referer": f"{hub.url}/hub/home"}
    async with browser(hub, "dan") as page:
        shown = await page.get(f"/hub/spawn/dan?opt-profile=t4{signed}", headers=own)
    await assert_only_shown(shown, hub, "dan")
    assert len(await embedded.calls("CreateFleet")) == calls


async def test_a_link_followed_through_login_starts_no_server(hub: Hub, embedded: Embedded) -> None:
    """The login form sends them on to where any site's link says, as a page of the hub's own."""
    calls = len(await embedded.calls("CreateFleet"))
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, timeout=30, follow_redirects=True
    ) as page:
        led = await page.get("/hub/spawn?opt-profile=t4&opt-market=spot-first")
        assert led.url.path == "/hub/login"
        own = {"Sec-Fetch-Site": "same-origin", "Referer": str(led.url)}
        form = {"username": "kim", "password": PASSWORD, "_xsrf": await xsrf_of(page, str(led.url))}
        shown = await page.post(str(led.url), data=form, headers=own)
    assert shown.url.path == "/hub/spawn", shown.text
    await assert_only_shown(shown, hub, "kim")
    assert len(await embedded.calls("CreateFleet")) == calls


# --- quotas ----------------------------------------------------------------------------------


async def test_a_zero_quota_has_the_name_that_aws_uses(hub: Hub, embedded: Embedded) -> None:
    await embedded.control("limits", {"quotas": {"spot": {"p5": 0}, "on-demand": {"p": 0}}})
    try:
        message = await message_of(await hub.request_server("eve", options={"profile": "h100x8"}))
    finally:
        await embedded.control("limits", {"quotas": {"spot": None, "on-demand": None}})
    assert "“All P5 Spot Instance Requests”" in message
    assert "“Running On-Demand P instances”" in message
    assert "An admin can ask AWS for a larger quota" in message
    assert "You can start now: " in message
    assert "8 × A100, on-demand" not in message, "it counts against the same quota"


# --- the story of it -------------------------------------------------------------------------


async def start_and_listen(hub: Hub, user: str, profile: str) -> dict[str, Any]:
    """Start a server and follow its progress: the last event that has the steps."""
    asking = asyncio.create_task(hub.request_server(user, options={"profile": profile}))

    async def is_pending() -> bool:
        model = await hub.model(user)
        return bool(model and model["pending"])

    await hub.add_user(user)
    await until(is_pending, 10, "the start to begin")
    events = await progress(hub, user)
    assert (await asking).is_success
    assert events[-1]["ready"]
    return [event for event in events if "attempts" in event][-1]


@pytest.mark.nightly(
    guard="tests/unit/hub/test_progress.py::test_on_demand_instead_of_spot_has_reason_and_cost"
)
async def test_each_launch_call_is_shown_and_on_demand_has_reason_and_cost(
    hub: Hub, embedded: Embedded
) -> None:
    await sell_out(embedded, "m7i.xlarge", "spot")
    shown = await start_and_listen(hub, "fay", "cpu")
    spot, on_demand = shown["attempts"]
    assert (spot["market"], spot["outcome"]) == ("spot", "sold-out")
    assert spot["asked"].startswith("Spot, m7i.xlarge in ")
    assert spot["answer"].startswith("sold out in us-east-1")
    assert (on_demand["market"], on_demand["outcome"]) == ("on-demand", "found")
    assert on_demand["answer"].startswith("found m7i.xlarge in us-east-1")
    (note,) = notes_of(shown)
    assert note.startswith("Spot is sold out, so this is an on-demand machine at $0.20/h instead")
    await hub.stop_server("fay")

    again = await start_and_listen(hub, "fay", "cpu")
    (attempt,) = again["attempts"]
    assert attempt["market"] == "on-demand"
    skipped = r"Not requested: spot m7i.xlarge in us-east-1.* \(sold out, seen at \d\d:\d\d UTC\)"
    assert re.match(skipped, attempt["skipped"])
    why, where = notes_of(again)
    assert why.startswith("Spot is sold out, so this is an on-demand machine")
    (zone,) = attempt["zones"]
    assert where.startswith(f"Only {zone} was tried: your files are there")


# --- waiting for spot ------------------------------------------------------------------------


async def first_wait(hub: Hub, user: str) -> dict[str, Any]:
    """What the progress stream says of a start, once that waits."""
    async with hub.api.stream("GET", f"{hub.server_path(user)}/progress") as stream:
        async for line in stream.aiter_lines():
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if event.get("waiting"):
                waiting: dict[str, Any] = event["waiting"]
                return waiting
    raise AssertionError("the start has ended and never waited")


async def test_a_start_waits_for_spot_and_buys_on_demand_once_its_user_agrees(
    hub: Hub, embedded: Embedded
) -> None:
    await sell_out(embedded, "m7i.2xlarge", "spot")
    await hub.add_user("ned")
    options = {"profile": "large", "market": "spot-wait"}
    asking = asyncio.create_task(hub.request_server("ned", options=options))

    async def is_pending() -> bool:
        model = await hub.model("ned")
        return bool(model and model["pending"])

    await until(is_pending, 10, "the start to begin")
    waiting = await asyncio.wait_for(first_wait(hub, "ned"), 30)
    assert "No spot capacity for Large CPU at $" in waiting["message"]
    assert "On-demand costs $0.41/h." in waiting["message"]
    assert waiting["instead"]["words"] == "Start on-demand at $0.41/h"
    assert await running_types(embedded) == []

    agree = "/ec2/users/ned/server/on-demand"
    price = waiting["instead"]["usd_per_hour"]
    async with httpx.AsyncClient(verify=False, base_url=str(hub.api.base_url)) as nobody:
        refused = await nobody.post(agree, json={"max_usd_per_hour": price})
    assert refused.status_code == 403
    for wrong in ("any", 1e300):
        assert (await hub.api.post(agree, json={"max_usd_per_hour": wrong})).status_code == 400
    assert (await hub.api.post(agree, json={"max_usd_per_hour": price})).status_code == 204
    assert (await asking).is_success
    await hub.wait_ready("ned")
    [instance] = await embedded.instances()
    assert (instance["instance_type"], instance["market"]) == ("m7i.2xlarge", "on-demand")
    assert (await hub.api.post(agree, json={"max_usd_per_hour": price})).status_code == 409


# --- cancelling ------------------------------------------------------------------------------


@pytest.mark.nightly(
    guard="tests/integration/hub/test_failed_starts.py::"
    "test_cancelled_at_any_step_leaves_no_instance_and_another_can_be_started"
)
async def test_after_a_cancel_while_ec2_hangs_the_next_choice_starts_and_nothing_leaks(
    hub: Hub, embedded: Embedded
) -> None:
    calls = len(await embedded.calls("CreateFleet"))
    await embedded.control("faults", {"action": "CreateFleet", "kind": "hang", "times": 1})
    asking = asyncio.create_task(hub.request_server("hal", options={"profile": "t4"}))

    async def is_asked() -> bool:
        return len(await embedded.calls("CreateFleet")) > calls

    await until(is_asked, 10, "the launch call")
    cancelled = await hub.api.delete(hub.server_path("hal"))
    assert cancelled.status_code in {202, 204}, cancelled.text
    await hub.wait_gone("hal")
    await asking
    await hub.start_server("hal", options={"profile": "a100x8"})
    assert await running_types(embedded) == ["p4d.24xlarge"]
    await hub.stop_server("hal")

    async def nothing() -> bool:
        return not await embedded.instances()

    await until(nothing, 20, "every instance to be gone")
