"""Limits on a real hub: who may start at once, what the spawn page greys out, and servers that stop
at their limits. One hub serves all tests, each with users of its own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from ec2spawner.notebook.status.notice_events import SCHEMA_ID
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser
from tests.jupyter_by_hand import Jupyter
from tests.runs_by_rest import Runs, runs_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=30)]

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
LIMITS: dict[str, Any] = {
    "group": {"lab": {"usd_per_month": 0.6}},  # a T4 is 0.526 USD/hour on demand
    "users": {"meg": {"max_run": "5s"}, "ron": {"usd_per_month": 10, "servers": 1}},
    "hub": {"usd_per_hour": 13.57},
    "grace": "8s",
}
LOWERED = {"group": {"lab": LIMITS["group"]["lab"], "tiny": {"usd_per_month": 0.004}}}
"""Less than the first minute of a T4, which is paid whole."""
GROUPS = {"lab": {"users": [*MANY, "pat"]}, "tiny": {"users": ["ida", "sam", "tom"]}}


def config(**limits: Any) -> tuple[str, ...]:
    return (
        "c.EC2Spawner.time_zone = 'Europe/Berlin'",
        "c.EC2Spawner.contact = 'gpu-help@example.org'",
        f"c.EC2Spawner.profile_list = {PROFILES!r}",
        f"c.JupyterHub.load_groups = {GROUPS!r}",
        "c.EC2Spawner.payers = {'group': ['lab', 'tiny'], 'project': {'nlp': {'users': ['pat']}}}",
        f"c.EC2Spawner.limits = {LIMITS | limits!r}",
        "c.EC2Spawner.runs = {'at_once': 1}",
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    embedded = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    directory = tmp_path_factory.mktemp("hub")
    running = Hub(directory, embedded, config=demo_config(directory, *config()))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


async def cost_with_limit(notebook: Jupyter) -> Any:
    """The cost of the server in its status, once the limit is in it."""
    cost = (await notebook.status())["cost"]
    return cost if cost and cost["limits"] else None


async def test_of_many_simultaneous_starts_a_limit_for_one_admits_one(hub: Hub) -> None:
    found = await asyncio.gather(*(hub.request_server(user) for user in MANY))
    admitted = [user for user, reply in zip(MANY, found, strict=True) if reply.is_success]
    refused = [reply for reply in found if not reply.is_success]
    assert len(admitted) == 1, [reply.text for reply in found]
    assert {reply.status_code for reply in refused} == {403}
    message = refused[0].json()["message"]
    for part in ("$0.60 per month", "group lab", "$0.06", "$0.54", "gpu-help@example.org"):
        assert part in message
    assert re.search(r"More is available on 1 [A-Z][a-z]+ 20\d\d", message)
    await hub.wait_ready(admitted[0])
    token = await hub.user_token(admitted[0])
    async with Jupyter(f"{hub.url}/user/{admitted[0]}/", token) as notebook:
        cost = await until(lambda: cost_with_limit(notebook), 30, "the limit in the status")
    assert cost["payer"] == "group:lab"
    assert [(each["scope"], each["name"]) for each in cost["limits"]] == [("group", "lab")]
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
    for said in (
        "$0 is used, $10 is left",
        "Ask gpu-help@example.org",
        "You can still start: T4 (",
    ):
        assert page.count(said) == 1, said
    reply = await hub.request_server("ron", options={"profile": "a100x8"})
    assert reply.status_code == 403


async def test_nobody_sees_what_others_may_spend(hub: Hub) -> None:
    """Neither what the hub has left, nor limits of groups and projects that are not one's own."""
    for user, payers in (("eve", 1), ("pat", 3)):
        await hub.add_user(user)
        headers = {"Authorization": f"token {await hub.user_token(user)}"}
        answer = (await hub.api.get("/ec2/profiles", headers=headers)).json()
        [_, dear] = answer["profiles"]
        assert len(dear["refusals"]) == payers
        assert "limit of this hub" in dear["refusals"][f"user:{user}"]
        refused = await hub.request_server(user, options={"profile": "a100x8"})
        assert refused.status_code == 403
        usage = await hub.api.get("/ec2/usage", headers=headers)
        assert [each["scope"] for each in usage.json()["limits"]] == ["group:lab"][: payers - 1]
        async with browser(hub, user) as client:
            page = (await client.get(f"/hub/spawn/{user}")).text
        for text in (str(answer), refused.text, usage.text, page):
            assert "13.57" not in text
            assert user == "pat" or not re.search(r"\b(lab|nlp|tiny)\b", text), text


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_running.py::"
    "test_a_server_ends_at_max_age_even_when_active"
)
async def test_a_server_stops_at_its_maximum_run_and_the_next_page_says_so(hub: Hub) -> None:
    await hub.start_server("meg")
    await hub.wait_gone("meg")

    async def said() -> bool:
        async with browser(hub, "meg") as client:
            return "maximum age" in (await client.get("/hub/spawn/meg")).text

    await until(said, 20, "the reason on the spawn page")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/runs/test_runs.py::"
    "test_a_limit_in_dollars_ends_servers_and_runs_and_refuses_the_next_start"
)
async def test_a_limit_of_usd_stops_what_is_charged_to_it_with_its_work_saved(hub: Hub) -> None:
    """Its admin lowers the limit; nothing else of the group's members is stopped."""
    with hub.embedded.jupyterlab():
        await hub.start_server("sam", options={"payer": "group:tiny"})
    await hub.start_server("tom", options={"payer": "user:tom"})
    started = (await hub.model("tom") or {})["started"]
    runs = await runs_of(hub, "ida")
    script = "import time\nprint('epoch 1', flush=True)\ntime.sleep(600)\n"
    run = await runs.submit(script, "x.py", profile="t4", payer="group:tiny")
    await until(lambda: has_result(runs, run), 60, "what the run has printed")
    await hub.kill()
    demo_config(hub.directory, *config(**LOWERED))
    await hub.start()
    await hub.wait_ready("sam")
    async with Jupyter(f"{hub.url}/user/sam/", await hub.user_token("sam")) as page:
        events = await page.http.ws_connect(f"{page.base_url}api/events/subscribe")
        [limit] = await until(lambda: announced(page), 30, "the announcement of the stop")
        assert (limit["scope"], limit["name"], limit["percent"] >= 100) == ("group", "tiny", True)
        await stopping(events)
        document = {"type": "file", "format": "text", "content": "typed just now"}
        assert (await page.call("PUT", "api/contents/notes.txt", json=document))[0] == 201
        await page.call("POST", "ec2spawner/api/saved", json={"page": "a page"})
        await events.close()
    await hub.wait_gone("sam")
    async with browser(hub, "sam") as client:
        said = (await client.get("/hub/spawn/sam")).text
    assert "$0.004 per month of group tiny is used up" in said
    ended = await runs.until(run, "ended")
    assert (ended["outcome"], ended["attempts"]) == ("limit", 1)
    assert "epoch 1" in await runs.result(run)
    refused = await hub.request_server("sam", options={"payer": "group:tiny"})
    assert refused.status_code == 403
    await hub.start_server("sam", options={"payer": "user:sam"})
    async with Jupyter(f"{hub.url}/user/sam/", await hub.user_token("sam")) as page:
        status, notes = await page.call("GET", "api/contents/notes.txt")
    assert (status, notes["content"]) == (200, "typed just now")
    tom = await hub.model("tom") or {}
    assert (tom["ready"], tom["started"]) == (True, started)
    async with Jupyter(f"{hub.url}/user/tom/", await hub.user_token("tom")) as page:
        assert (await page.status())["stop"] is None


async def has_result(runs: Runs, number: int) -> bool:
    return bool((await runs.one(number))["has_result"])


async def announced(page: Jupyter) -> Any:
    """The limits of the server, once they announce its stop."""
    limits = ((await page.status())["cost"] or {}).get("limits", [])
    return limits if any(each["stop_at"] for each in limits) else None


async def stopping(events: aiohttp.ClientWebSocketResponse) -> None:
    """Until an open page hears that the server is being stopped."""
    async with asyncio.timeout(120):
        while True:
            event = json.loads(await events.receive_str())
            notices = event["notices"] if event["schema_id"] == SCHEMA_ID else []
            if "stopping-budget" in {each["id"] for each in notices}:
                return
