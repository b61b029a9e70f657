"""Servers as people have them: several at once, odd names, files that stay."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import datetime

import httpx
import pytest
import pytest_asyncio

from ec2spawner.notebook.status.notice_events import SCHEMA_ID
from ec2spawner.wire import History
from tests.harness import Embedded, Hub, until
from tests.integration.hub.agent_by_hand import browser
from tests.jupyter_by_hand import Jupyter

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=20)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """One for all tests, each of which has users of its own and leaves no server running."""
    no_resume = '--EC2Spawner.interruption={"then": "stop"}'  # see `test_resume.py`
    running = Hub(tmp_path_factory.mktemp("hub"), embedded, no_resume)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(150))


async def notebook(hub: Hub, user: str, server: str = "") -> httpx.AsyncClient:
    """A client of the server's own API, with a token of its user's."""
    model = await hub.model(user, server)
    assert model is not None
    token = await hub.user_token(user)
    return httpx.AsyncClient(
        verify=False,
        base_url=f"{hub.url}{model['url']}",
        headers={"Authorization": f"token {token}"},
    )


async def test_several_servers_at_once_with_odd_names(hub: Hub, embedded: Embedded) -> None:
    long = "x" * 200
    servers = [("ann", ""), ("ann", "second"), ("ann", "third"), ("jörg müller", ""), (long, "")]
    models = await asyncio.gather(*(hub.start_server(user, server) for user, server in servers))
    assert all(model["ready"] for model in models)
    running = await embedded.instances()
    assert len({instance["address"] for instance in running}) == len(servers)
    for user, server in servers:
        async with await notebook(hub, user, server) as client:
            answer = (await client.get("api/status")).json()
            assert answer["started"]
    await asyncio.gather(*(hub.stop_server(user, server) for user, server in servers))

    async def none_left() -> bool:
        return not await embedded.instances()

    await until(none_left, 15, "all instances to be gone")


@pytest.mark.nightly(guard="tests/e2e/test_journey.py::test_from_login_to_the_idle_stop_and_back")
async def test_files_survive_a_stop_and_another_profile(hub: Hub) -> None:
    await hub.start_server("ben", options={"profile": "cpu"})
    async with await notebook(hub, "ben") as client:
        body = {"type": "file", "format": "text", "content": "kept"}
        assert (await client.put("api/contents/notes.txt", json=body)).is_success
    await hub.stop_server("ben")
    await hub.start_server("ben", options={"profile": "a10g-24-gb"})
    async with await notebook(hub, "ben") as client:
        assert (await client.get("api/contents/notes.txt")).json()["content"] == "kept"
    await hub.stop_server("ben")


@pytest.mark.usefixtures("jupyterlab")
async def test_status_shows_the_cost_until_the_spot_interruption(
    hub: Hub, embedded: Embedded
) -> None:
    await hub.start_server("cleo")
    async with await notebook(hub, "cleo") as client:

        async def with_cost() -> dict | None:
            reply = await client.get("ec2spawner/api/status")
            assert reply.status_code == 200, reply.text
            found = reply.json()
            return found if found["cost"] and found["telemetry"] else None

        async def with_totals() -> dict | None:
            found = await with_cost()
            return found if found and found["cost"]["today_usd"] is not None else None

        status = await until(with_cost, 15, "the status to carry a cost")
        assert status["managed"]
        assert status["agent_connected"]
        assert 0 < status["cost"]["usd"] < 0.1
        assert status["cost"]["market"] == "spot"
        assert 0 < status["cost"]["usd_per_hour"] < status["cost"]["on_demand_usd_per_hour"]
        assert status["telemetry"]["gpu_source"] == "simulated"
        assert status["telemetry"]["gpus"][0]["name"] == "T4"
        # Only once the hub has read what was spent before: until then it is unknown.
        cost = (await until(with_totals, 70, "the totals of this user"))["cost"]
        assert cost["usd"] - 1e-9 <= cost["today_usd"] <= cost["month_usd"] + 1e-9 < 1
        assert 0 < cost["saved_usd"] < 0.1
        assert cost["budget_usd"] is None

        async def with_history() -> History | None:
            found = History.model_validate((await client.get("ec2spawner/api/history")).json())
            return found if found.at else None

        history = await until(with_history, 15, "a step of the history")
        assert [gpu.name for gpu in history.gpus] == ["T4"]
        assert history.cpu_percent[-1] is not None
        assert history.gpus[0].use_percent[-1] is not None
        metrics = (await client.get("metrics")).text
        (cost,) = re.findall("^ec2spawner_cost_usd ([0-9.e-]+)$", metrics, re.MULTILINE)
        assert 0 < float(cost) < 0.1
        assert 'ec2spawner_gpu_use_ratio{gpu="0",name="T4",' in metrics
    await prometheus_reads_how_the_hub_stands(hub)
    await aws_reclaims_the_machine(hub, embedded)


async def prometheus_reads_how_the_hub_stands(hub: Hub) -> None:
    """With one server that runs, Cleo's."""
    headers = {"Authorization": f"token {await hub.user_token('admin')}"}

    async def with_cost() -> str | None:
        reply = await hub.api.get("/metrics", headers=headers)
        assert reply.status_code == 200, reply.text
        return reply.text if 'usd_total{account="leases"} 0.0\n' not in reply.text else None

    text = await until(with_cost, 15, "a cost in the metrics")
    metrics = dict(
        line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("ec2spawner")
    )
    value = {name.removeprefix("ec2spawner_"): float(number) for name, number in metrics.items()}
    assert value['leases{state="ready"}'] == 1
    assert value['leases{state="waiting"}'] == 0
    kind = 'instance_type="g4dn.xlarge",market="spot",state="running"'
    assert value[f"instances{{{kind}}}"] == 1
    rates = [value[name] for name in value if name.startswith('usd_per_hour{account="leases"')]
    assert 0 < sum(rates) < 1
    assert 0 < value['usd_total{account="leases"}'] < 1
    assert value["pass_age_seconds"] >= 0
    assert value["listing_age_seconds"] >= 0
    assert value["pass_seconds_count"] > 0
    assert value['start_seconds_count{market="spot",outcome="ready"}'] >= 1
    assert value['aws_calls_total{action="CreateFleet",outcome="ok"}'] >= 1
    assert value['aws_call_seconds_count{action="DescribeInstances"}'] >= 1
    assert value["store_errors_total"] == 0
    assert "cleo" not in text


async def aws_reclaims_the_machine(hub: Hub, embedded: Embedded) -> None:
    """Cleo is warned before, in a hidden tab too, and informed after."""
    [instance] = await embedded.instances()
    interrupt = f"interrupt/{instance['instance_id']}"
    async with (
        Jupyter(f"{hub.url}/user/cleo/", await hub.user_token("cleo")) as at_work,
        at_work.http.ws_connect(f"{at_work.base_url}api/events/subscribe") as hidden_tab,
    ):
        assert (await at_work.status())["interruption_at"] is None
        await embedded.control(interrupt, {"notice_seconds": 120})
        async with asyncio.timeout(90):
            while True:
                event = json.loads(await hidden_tab.receive_str())
                if event["schema_id"] == SCHEMA_ID and event["notices"]:
                    break
        [notice] = event["notices"]
        assert notice["kind"] == "interruption"
        left = datetime.fromisoformat(notice["until"]) - datetime.fromisoformat(event["now"])
        assert 0 < left.total_seconds() <= 120
        status = await at_work.status()
        assert status["interruption_at"] == notice["until"]
        assert status["notices"] == [notice]
        await embedded.control(interrupt, {"notice_seconds": 0})
        await hub.wait_gone("cleo")
    async with browser(hub, "cleo") as client:
        page = (await client.get("/hub/spawn/cleo")).text
    assert "AWS reclaimed the spot machine. Your files are kept." in page


@pytest.mark.nightly(
    guard="tests/unit/provisioner/homes/test_renaming.py::"
    "test_a_home_follows_its_server_with_its_tags"
)
async def test_a_renamed_server_finds_its_files(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("rob", "old")
    await hub.stop_server("rob", "old")
    made = len(await embedded.calls("CreateVolume"))
    reply = await hub.api.patch(hub.server_path("rob", "old"), json={"name": "new"})
    assert reply.is_success, reply.text
    await hub.start_server("rob", "new")
    assert len(await embedded.calls("CreateVolume")) == made
    await hub.stop_server("rob", "new")


@pytest.mark.nightly(
    guard="tests/integration/hub/test_options.py::test_rest_is_refused_with_the_reason"
)
async def test_options_are_refused_with_the_reason(hub: Hub) -> None:
    reply = await hub.request_server("dan", options={"profile": "t5"})
    assert reply.status_code == 400
    assert "profile: there is none called" in reply.json()["message"]
    reply = await hub.request_server("dan", options={"disk": 1})
    assert reply.status_code == 400
    assert "disk" in reply.json()["message"]
