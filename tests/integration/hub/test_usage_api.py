"""`GET usage`: one's own servers and sessions, and nobody else's."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import pytest_asyncio

from ec2spawner.hub.api.costs import Costs, IdleSavings
from ec2spawner.hub.api.usage import UsageModel
from tests.harness import ADMIN_TOKEN, Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser, server_by_hand, silence_agents

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=15)]


LIMITS = {
    "user": {"usd_per_month": 200, "servers": 3},
    "users": {"zoe": {"usd_per_month": 0.0001}},
    "group": {"research": {"gpu_hours_per_month": 40}},
    "hub": {"usd_per_month": 10000},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("hub")
    embedded = await Embedded(directory / "embedded").start()
    silence_agents(embedded)
    config = demo_config(
        directory,
        "c.JupyterHub.allow_named_servers = True",
        'c.JupyterHub.load_groups = {"research": {"users": ["ann"]}}',
        'c.EC2Spawner.payers = {"group": ["research"]}',
        f"c.EC2Spawner.limits = {LIMITS!r}",
    )
    running = Hub(directory / "hub", embedded, config=config)
    try:
        await running.start()
        for user in ("ann", "eva", "admin"):
            await running.add_user(user)
        for user, server in (("eva", ""), ("old", ""), ("ann", "sweep")):
            async with server_by_hand(running, user, server):
                pass
        async with server_by_hand(running, "ann"):
            yield running
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(60))


async def ask(hub: Hub, token: str, query: str = "", call: str = "usage") -> httpx.Response:
    headers = {"Authorization": f"token {token}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=60
    ) as client:
        return await client.get(f"/hub/api/ec2/{call}{query}")


async def spawn_page(hub: Hub, user: str) -> str:
    async with browser(hub, user) as client:
        return (await client.get(f"/hub/spawn/{user}")).text


async def test_a_users_servers_and_sessions(hub: Hub) -> None:
    reply = await ask(hub, await hub.user_token("ann"))
    assert reply.status_code == 200, reply.text
    found = UsageModel.model_validate_json(reply.content)
    assert found.user == "ann"
    assert [(each.server, each.state) for each in found.servers] == [("", "ready")]
    [session] = found.sessions
    assert (session.server, session.profile) == ("sweep", "T4, 16 GB")
    assert session.instance_types == ("g4dn.xlarge",)
    assert session.since < session.ended_at
    assert session.payer == found.servers[0].payer == "group:research"
    assert session.usd is not None
    assert session.usd > 0
    assert session.idle_seconds == 0
    assert session.reason == "hub", "a service of this hub stopped it"
    assert found.more_before is None
    earlier = await ask(hub, await hub.user_token("ann"), f"?before={session.ended_at:%FT%TZ}")
    assert earlier.json()["sessions"] == []


async def test_limits_of_a_user_and_of_who_may_pay(hub: Hub) -> None:
    reply = await ask(hub, await hub.user_token("ann"))
    limits = {(each["scope"], each["kind"]): each for each in reply.json()["limits"]}
    assert set(limits) == {
        ("user:ann", "usd_per_month"),
        ("user:ann", "servers"),
        ("group:research", "gpu_hours_per_month"),
    }
    month = limits["user:ann", "usd_per_month"]
    assert month["limit"] == 200
    assert month["used"] > 0
    assert month["left"] == pytest.approx(200 - month["used"])
    assert limits["user:ann", "servers"]["used"] == 1
    assert limits["group:research", "gpu_hours_per_month"]["left"] < 40
    of_eva = (await ask(hub, await hub.user_token("eva"))).json()["limits"]
    assert {each["scope"] for each in of_eva} == {"user:eva"}


async def test_a_start_that_a_limit_refused_is_shown_to_admins(hub: Hub) -> None:
    async def start() -> bool:
        """Refused by the limit, once prices are known."""
        return (await hub.request_server("zoe")).status_code == 403

    await until(start, 30, "the limit to refuse the start")
    found = (await ask(hub, await hub.user_token("admin"), call="instances")).json()
    [denied] = [each for each in found["failed_starts"] if each["user"] == "zoe"]
    assert denied["reason"] == "limit"
    assert "of the limit of zoe" in denied["message"]
    assert [each["scope"] for each in found["limits"]] == ["hub"]
    assert (found["nearly_used_limits"], found["more_nearly_used_limits"]) == ([], 0)
    assert found["all_usd_per_hour"] > found["usd_per_hour"] - 1e-6


async def test_another_users_usage_needs_the_scope_of_admins(hub: Hub) -> None:
    eva, admin = await hub.user_token("eva"), await hub.user_token("admin")
    for query in ("?user=ann", "?user=", "?user=nobody"):
        assert (await ask(hub, eva, query)).status_code == 403
    assert {each["server"] for each in (await ask(hub, eva)).json()["sessions"]} == {""}
    assert (await ask(hub, eva, "?user=eva")).status_code == 200
    of_ann = (await ask(hub, admin, "?user=ann")).json()
    assert (of_ann["user"], of_ann["sessions"][0]["server"]) == ("ann", "sweep")
    assert (await ask(hub, ADMIN_TOKEN, "?user=ann")).status_code == 403
    assert (await ask(hub, "wrong")).status_code == 403


async def test_costs_are_ones_own_and_those_of_all_need_the_scope(hub: Hub) -> None:
    ann, admin = await hub.user_token("ann"), await hub.user_token("admin")
    by_server = "?by=server,purpose"
    own = Costs.model_validate_json((await ask(hub, ann, by_server, "usage/costs")).content)
    assert {each.key[0] for each in own.sums} == {"", "sweep"}
    assert own.time_zone == "UTC"
    assert own.first_day.day == 1
    assert own.month_ends.day == 1
    assert timedelta() < own.month_ends - datetime.now(UTC) < timedelta(days=31)
    by_user = (await ask(hub, ann, "?by=user", "usage/costs")).json()["sums"]
    assert [each["key"] for each in by_user] == [["ann"]]
    assert by_user[0]["usd"] > 0
    assert by_user[0]["gpu_hours"] == pytest.approx(by_user[0]["hours"]), "a T4 each"
    assert (await ask(hub, ann, "?user=eva", "usage/costs")).status_code == 403
    for call in ("costs", "idle-savings"):
        assert (await ask(hub, ann, "", call)).status_code == 403
    everyone = (await ask(hub, admin, "?by=user", "costs")).json()["sums"]
    assert {each["key"][0] for each in everyone} >= {"ann", "eva"}
    reply = await ask(hub, admin, "", "idle-savings")
    assert reply.headers["Cache-Control"] == "no-store"
    saved = IdleSavings.model_validate_json(reply.content)
    assert (saved.sessions, saved.idle_stops) == (3, 0)
    assert saved.hub_limit_seconds in {each.limit_seconds for each in saved.replays}


async def test_costs_as_csv_are_those_of_the_same_query(hub: Hub) -> None:
    ann, admin = await hub.user_token("ann"), await hub.user_token("admin")
    own = await ask(hub, ann, "?by=server&format=csv", "usage/costs")
    assert own.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(own.text)))
    assert {row["server"] for row in rows} == {"", "sweep"}
    for row in rows:
        parts = [float(row[f"{part}_usd"]) for part in ("used", "idle", "overhead")]
        assert float(row["usd"]) == pytest.approx(sum(parts)) != 0
    everyone = await ask(hub, admin, "?by=user&format=csv", "costs")
    assert {row["user"] for row in csv.DictReader(io.StringIO(everyone.text))} >= {"ann", "eva"}
    assert (await ask(hub, ann, "?by=user&format=csv", "costs")).status_code == 403
    assert (await ask(hub, ann, "?user=eva&format=csv", "usage/costs")).status_code == 403


async def test_a_new_user_with_the_name_of_a_deleted_one_sees_nothing_of_them(hub: Hub) -> None:
    admin, query = await hub.user_token("admin"), "?user=old"
    before = [(await ask(hub, admin, query, call)).json() for call in ("usage", "usage/costs")]
    assert before[0]["sessions"]
    assert "Your last server was stopped" in await spawn_page(hub, "old")
    assert (await hub.api.delete("/users/old")).status_code == 204
    await hub.add_user("old")
    old = await hub.user_token("old")
    for own in ("", query):
        found = (await ask(hub, old, own)).json()
        assert (found["user"], found["sessions"], found["servers"]) == ("old", [], [])
        assert (await ask(hub, old, own, "usage/costs")).json()["sums"] == []
    assert "Your last server was stopped" not in await spawn_page(hub, "old")
    assert (await ask(hub, admin, query)).json()["sessions"] == [], "nor do admins by the name"
    every = (await ask(hub, admin, "?by=user", "costs")).json()["sums"]
    [earlier] = {each["key"][0] for each in every if each["key"][0].startswith("old/")}
    found = [
        (await ask(hub, admin, f"?user={earlier}", call)).json()
        for call in ("usage", "usage/costs")
    ]
    assert found[0]["user"] == earlier
    expected = [each | {"payer": f"user:{earlier}"} for each in before[0]["sessions"]]
    assert found[0]["sessions"] == expected
    assert found[1]["sums"] == before[1]["sums"] != []
    assert earlier in (await ask(hub, admin, "?by=user&format=csv", "costs")).text


@pytest.mark.parametrize(
    "query",
    [
        "?format=xml",
        "?from=soon",
        "?from=2026-11-02&to=2026-11-01",
        "?from=2024-01-01&to=2026-01-01",
        "?from=0001-01-01&to=0001-01-31",
        "?to=9999-12-31",
        "?by=token_sha256",
        "?by=day,user,zone,market",
    ],
)
async def test_a_wrong_range_or_dimension_is_refused(hub: Hub, query: str) -> None:
    assert (await ask(hub, await hub.user_token("ann"), query, "usage/costs")).status_code == 400


async def test_a_token_with_which_others_may_come_reads_no_usage(hub: Hub) -> None:
    """Such as a server's token, which users with access to the server can read."""
    wanted = {"note": "test", "scopes": ["users:activity!user", "access:servers!server=ann/"]}
    reply = await hub.api.post("/users/ann/tokens", json=wanted)
    for call in ("usage", "usage/costs"):
        assert (await ask(hub, reply.json()["token"], call=call)).status_code == 403


@pytest.mark.parametrize(
    "before",
    [
        "soon",
        "2026-11-23T12:00:00",
        "0001-01-01T00:00:00%2B14:00",  # has no form in UTC
        "9999-12-31T23:59:59-12:00",
    ],
)
async def test_a_wrong_instant_is_refused(hub: Hub, before: str) -> None:
    reply = await ask(hub, await hub.user_token("ann"), f"?before={before}")
    assert reply.status_code == 400
    assert "`before`" in reply.json()["message"]
