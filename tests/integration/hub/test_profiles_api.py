"""`GET profiles`: the user's own choice as JSON, by JupyterHub's own login."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.hub.api.user import Profiles
from tests.harness import ADMIN_TOKEN, Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser, xsrf_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROFILES: list[dict[str, Any]] = [
    {"display_name": "No GPU", "slug": "cpu", "vcpus": 4, "memory_gib": 16},
    {
        "display_name": "T4 <16 GB>",
        "slug": "t4",
        "instance_types": ["g4dn.xlarge"],
        "default": True,
        "profile_options": {
            "market": ["on-demand"],
            "disk_gib": {"min": 50, "max": 500},
            "idle": {"min": "15m", "max": "4h"},
        },
    },
    {"display_name": "A10G", "slug": "a10g", "instance_types": ["g5.xlarge"]},
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
    config = demo_config(
        directory,
        f"c.EC2Spawner.profile_list = {PROFILES!r}",
        'c.JupyterHub.load_groups = {"research": {"users": ["rita"]}, "students": {"users": '
        '["stu"]}}',
        'c.EC2Spawner.group_overrides = {"disks": {"groups": ["students"], "spawner_override": '
        '{"disk_gib": 80}}}',
    )
    running = Hub(directory, embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


async def ask(hub: Hub, token: str | None) -> httpx.Response:
    headers = {"Authorization": f"token {token}"} if token else {}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=30
    ) as client:
        return await client.get("/hub/api/ec2/profiles")


async def profiles_of(hub: Hub, user: str) -> dict[str, Any]:
    """By slug, once prices and their week are there."""
    await hub.add_user(user)
    token = await hub.user_token(user)

    async def with_prices() -> dict[str, Any] | None:
        reply = await ask(hub, token)
        assert reply.is_success, reply.text
        answer = Profiles.model_validate_json(reply.content)
        assert answer.region == "us-east-1"
        found = {profile["slug"]: profile for profile in reply.json()["profiles"]}
        offers = found["t4"]["offers"]
        return found if offers and all(offer["usd_per_hour"] for offer in offers) else None

    return await until(with_prices, 30, "the prices")


async def test_a_profile_with_its_offers_prices_and_choices(hub: Hub) -> None:
    t4 = (await profiles_of(hub, "ann"))["t4"]
    assert (t4["display_name"], t4["gpu"], t4["vcpus"]) == ("T4 <16 GB>", "1 × T4, 16 GB", 4)
    assert t4["default"]
    assert t4["user_options"] == {
        "market": ["spot-first", "spot-wait", "on-demand"],
        "disk_gib": {"min": 75, "max": 500},  # the image has 75
        "idle": {"min": 900, "max": 14400},
    }
    assert {offer["instance_type"] for offer in t4["offers"]} == {"g4dn.xlarge"}
    assert {offer["market"] for offer in t4["offers"]} == {"spot", "on-demand"}
    for offer in t4["offers"]:
        assert offer["usd_per_hour"] > 0
        assert offer["source"]
        assert offer["sold_out"] is None
    best = t4["offers"][0]
    spot = best["usd_per_hour"]
    beside = t4["beside_usd_per_hour"]
    assert beside > 0, "its disk"
    assert t4["estimates"] == {
        "spot-first": pytest.approx(spot + beside),
        "spot-wait": pytest.approx(spot + beside),
        "on-demand": pytest.approx(0.526 + beside),
    }
    assert t4["value"] == {"t4s": 1.0, "usd_per_t4_hour": pytest.approx(spot + beside)}
    history = t4["history"]
    assert history["usd_per_hour"][-1] == best["usd_per_hour"]
    week = history["interval_seconds"] * (len(history["usd_per_hour"]) - 1)
    assert week == 7 * 86400
    assert t4["interruptions"] in {"rarely", "sometimes", "often"}


async def test_group_overrides_are_the_same_as_json_and_on_the_page(hub: Hub) -> None:
    assert (await profiles_of(hub, "stu"))["t4"]["disk_gib"] == 80
    assert (await profiles_of(hub, "ann"))["t4"]["disk_gib"] == 100
    async with browser(hub, "stu") as page:
        assert 'placeholder="80"' in (await page.get("/hub/spawn/stu")).text


async def test_everyone_sees_their_own_profiles_only(hub: Hub) -> None:
    assert set(await profiles_of(hub, "ann")) == {"cpu", "t4", "a10g"}
    assert set(await profiles_of(hub, "rita")) == {"cpu", "t4", "a10g", "l40s"}


async def test_profiles_require_a_users_login(hub: Hub) -> None:
    assert (await ask(hub, None)).status_code == 403
    assert (await ask(hub, "wrong")).status_code == 403
    service = await ask(hub, ADMIN_TOKEN)
    assert service.status_code == 403
    assert "only users have profiles" in service.text


async def test_a_token_that_may_start_no_server_reads_no_profiles(hub: Hub) -> None:
    """Such as a server's token, which users with access to the server can read."""
    await hub.add_user("pam")

    async def with_scopes(*scopes: str) -> int:
        wanted = {"note": "test", "scopes": list(scopes)}
        reply = await hub.api.post("/users/pam/tokens", json=wanted)
        assert reply.status_code == 201, reply.text
        return (await ask(hub, reply.json()["token"])).status_code

    assert await with_scopes("users:activity!user", "access:servers!server=pam/") == 403
    assert await with_scopes("read:users!user") == 403
    assert await with_scopes("start:servers!server=pam/other") == 403
    assert await with_scopes("start:servers!user") == 200
    assert await with_scopes("servers!user=pam") == 200
    assert await with_scopes("self") == 200


async def test_the_browsers_cookie_is_accepted_only_from_the_same_site(hub: Hub) -> None:
    await profiles_of(hub, "ann")
    async with browser(hub, "ann") as page:
        xsrf = await xsrf_of(page, "/hub/spawn/ann")
        fetched = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
        refused = await page.get("/hub/api/ec2/profiles", headers=fetched)
        reply = await page.get("/hub/api/ec2/profiles", headers={**fetched, "X-XSRFToken": xsrf})
    assert refused.status_code == 403
    assert [profile["slug"] for profile in reply.json()["profiles"]] == ["cpu", "t4", "a10g"]


async def test_sold_out_offers_are_marked_as_json_and_on_the_page(
    hub: Hub, embedded: Embedded
) -> None:
    gone = {"market": "spot", "instance_type": "g5.xlarge", "zone": "*", "available": 0}
    await embedded.control("capacity", gone)
    await hub.start_server("bob", options={"profile": "a10g"})
    a10g = (await profiles_of(hub, "ann"))["a10g"]
    async with browser(hub, "ann") as page:
        shown = (await page.get("/hub/spawn/ann")).text
    spot = [offer for offer in a10g["offers"] if offer["market"] == "spot"]
    on_demand = [offer for offer in a10g["offers"] if offer["market"] == "on-demand"]
    for offer in spot:
        assert offer["sold_out"]["reason"] == "offer"
        assert offer["sold_out"]["code"] == "InsufficientInstanceCapacity"
        assert offer["sold_out"]["since"] < offer["sold_out"]["until"]
    assert not any(offer["sold_out"] for offer in on_demand)
    beside = a10g["beside_usd_per_hour"]
    assert a10g["estimates"] == {
        "spot-first": pytest.approx(on_demand[0]["usd_per_hour"] + beside),
        "spot-wait": pytest.approx(spot[0]["usd_per_hour"] + beside),
    }
    zones = len(spot)
    assert f"spot sold out in {zones} of {zones} zones" in shown
    assert "T4 &lt;16 GB&gt;" in shown
    assert "T4 <16 GB>" not in shown
    assert (await profiles_of(hub, "ann"))["a10g"]["usual_start_seconds"] > 0
    await hub.stop_server("bob")


async def test_the_form_starts_what_its_button_names(hub: Hub) -> None:
    """Each card has fields of its own, and a page without a script sends them all."""
    await profiles_of(hub, "cat")
    async with browser(hub, "cat") as page:
        xsrf = await xsrf_of(page, "/hub/spawn/cat")
        sent = {
            "profile": "t4",
            "market.t4": "on-demand",
            "disk_gib.t4": "80",
            "idle.t4": "1800",
            "disk_gib.cpu": "1",
        }
        await page.post(f"/hub/spawn/cat?_xsrf={xsrf}", data=sent)
    model = await hub.wait_ready("cat")
    chosen = {"profile": "t4", "market": "on-demand", "disk_gib": "80", "idle": "1800"}
    assert model["user_options"] == chosen
    await hub.stop_server("cat")
    async with browser(hub, "cat") as page:
        again = (await page.get("/hub/spawn/cat")).text
    assert '<option value="on-demand" selected>' in again
    assert '<option value="1800" selected>' in again
    assert 'value="80"' in again


async def test_the_forms_own_token_in_the_address_is_no_option(
    hub: Hub, embedded: Embedded
) -> None:
    """JupyterHub posts the form to an address that carries it; opened again, it shows the page."""
    calls = len(await embedded.calls("CreateFleet"))
    await profiles_of(hub, "dan")
    async with browser(hub, "dan") as page:
        same = {"Sec-Fetch-Site": "same-origin"}
        shown = await page.get("/hub/spawn/dan?_xsrf=anything", headers=same)
    assert shown.status_code == 200
    assert "spawn-error-msg" not in shown.text
    assert "A link filled in this form" not in shown.text
    assert len(await embedded.calls("CreateFleet")) == calls


@pytest.mark.parametrize("server", ["server", "servers/second"])
async def test_agreeing_to_a_price_requires_the_right_to_start(hub: Hub, server: str) -> None:
    """No start of these waits for spot, so that an authorized caller gets 409."""
    for user in ("ann", "eva"):
        await hub.add_user(user)
    path = f"/hub/api/ec2/users/ann/{server}/on-demand"
    name = server.removeprefix("server").removeprefix("s/")

    async def send(token: str, **agreement: Any) -> int:
        headers = {"Authorization": f"token {token}"}
        async with httpx.AsyncClient(
            verify=False, base_url=hub.url, headers=headers, timeout=30
        ) as client:
            return (await client.post(path, json=agreement)).status_code

    async def with_scopes(*scopes: str) -> int:
        reply = await hub.api.post("/users/ann/tokens", json={"scopes": list(scopes)})
        assert reply.status_code == 201, reply.text
        return await send(reply.json()["token"], max_usd_per_hour=1)

    assert await send("wrong", max_usd_per_hour=1) == 403
    assert await send(await hub.user_token("eva"), max_usd_per_hour=1) == 404
    assert await with_scopes("users:activity!user", f"access:servers!server=ann/{name}") in {
        403,
        404,
    }
    assert await with_scopes("start:servers!server=ann/other") == 404
    assert await with_scopes(f"start:servers!server=ann/{name}") == 409

    own = await hub.user_token("ann")
    assert await send(own, max_usd_per_hour=None) == 409
    assert await send(own) == 400
    assert await send(own, max_usd_per_hour=0) == 400
    async with browser(hub, "ann") as page:
        xsrf = await xsrf_of(page, "/hub/spawn/ann")
        agreed = {"max_usd_per_hour": 1}
        assert (await page.post(path, json=agreed)).status_code == 403
        form = await page.post(f"{path}?_xsrf={xsrf}", data={"max_usd_per_hour": 1})
        assert form.status_code == 403
        assert (await page.post(f"{path}?_xsrf={xsrf}", json=agreed)).status_code == 409
