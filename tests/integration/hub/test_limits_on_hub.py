"""Limits on a real hub: who may start at once, what the spawn page greys out, and a server that
stops at its limit. One hub serves all tests, each with users of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser
from tests.jupyter_by_hand import Jupyter

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=25)]

MANY = [f"many-{number}" for number in range(12)]
PROFILES = [
    {"display_name": "T4", "slug": "t4", "gpu": "T4", "market": "on-demand"},
    {
        "display_name": "8 x A100",
        "slug": "a100x8",
        "instance_types": ["p4d.24xlarge"],
        "market": "on-demand",
    },
]
LIMITS = {
    "group": {"lab": {"usd_per_month": 0.6}},  # a T4 is 0.526 USD/hour on demand
    "users": {"meg": {"max_run": "5s"}, "ron": {"usd_per_month": 10, "servers": 1}},
}
CONFIG = (
    "c.EC2Spawner.time_zone = 'Europe/Berlin'",
    "c.EC2Spawner.contact = 'gpu-help@example.org'",
    f"c.EC2Spawner.profile_list = {PROFILES!r}",
    f"c.JupyterHub.load_groups = {{'lab': {{'users': {[*MANY, 'pat']!r}}}}}",
    "c.EC2Spawner.payers = {'group': ['lab'], 'project': {'nlp': {'users': ['pat']}}}",
    f"c.EC2Spawner.limits = {LIMITS!r}",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    embedded = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    directory = tmp_path_factory.mktemp("hub")
    running = Hub(directory, embedded, config=demo_config(directory, *CONFIG))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


async def cost_with_limit(notebook: Jupyter) -> Any:
    """The cost of the server in its status, once the limit is in it."""
    cost = (await notebook.status())["cost"]
    return cost if cost and cost["limit"] else None


async def test_of_many_simultaneous_starts_a_limit_for_one_admits_one(hub: Hub) -> None:
    found = await asyncio.gather(*(hub.request_server(user) for user in MANY))
    admitted = [user for user, reply in zip(MANY, found, strict=True) if reply.is_success]
    refused = [reply for reply in found if not reply.is_success]
    assert len(admitted) == 1, [reply.text for reply in found]
    assert {reply.status_code for reply in refused} == {403}
    message = refused[0].json()["message"]
    for part in ("$0.60 per month", "group lab", "$0.07", "$0.53", "gpu-help@example.org"):
        assert part in message
    assert re.search(r"More is available on 1 [A-Z][a-z]+ 20\d\d", message)
    await hub.wait_ready(admitted[0])
    token = await hub.user_token(admitted[0])
    async with Jupyter(f"{hub.url}/user/{admitted[0]}/", token) as notebook:
        cost = await until(lambda: cost_with_limit(notebook), 30, "the limit in the status")
    assert cost["payer"] == "group:lab"
    assert (cost["limit"]["scope"], cost["limit"]["name"]) == ("group", "lab")
    await hub.stop_server(admitted[0])


async def test_who_pays_is_chosen_among_ones_own_payers(hub: Hub) -> None:
    await hub.add_user("pat")
    reply = await hub.request_server("pat", options={"payer": "group:research"})
    assert reply.status_code == 400
    assert "group:lab, project:nlp, user:pat" in reply.json()["message"]
    async with browser(hub, "pat") as client:
        page = (await client.get("/hub/spawn/pat")).text
    assert re.findall(r'<option value="([a-z]+:[a-z]+)"', page) == [
        "group:lab",
        "project:nlp",
        "user:pat",
    ]


async def test_what_is_not_affordable_is_greyed_out_before_anyone_clicks(hub: Hub) -> None:
    await hub.add_user("ron")
    token = await hub.user_token("ron")
    headers = {"Authorization": f"token {token}"}
    answer = (await hub.api.get("/ec2/profiles", headers=headers)).json()
    assert answer["payers"] == ["user:ron"]
    assert {each["slug"]: each["can_start"] for each in answer["profiles"]} == {
        "t4": True,
        "a100x8": False,
    }
    [_, dear] = answer["profiles"]
    assert "$10" in dear["refusals"]["user:ron"]
    async with browser(hub, "ron") as client:
        page = (await client.get("/hub/spawn/ron")).text
    [radio] = re.findall(r'<input[^>]*value="a100x8"[^>]*>', page)
    assert "disabled" in radio
    reply = await hub.request_server("ron", options={"profile": "a100x8"})
    assert reply.status_code == 403


async def test_a_server_stops_at_its_maximum_run_and_the_next_page_says_so(hub: Hub) -> None:
    await hub.start_server("meg")
    await hub.wait_gone("meg")

    async def said() -> bool:
        async with browser(hub, "meg") as client:
            return "maximum age" in (await client.get("/hub/spawn/meg")).text

    await until(said, 20, "the reason on the spawn page")
