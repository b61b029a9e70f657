"""Clusters as agents ask for them: what they may not have, and what workers must not get."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.wire import JOIN
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    agent_of_new_instance,
    server_by_hand,
    silence_agents,
)
from tests.integration.hub.ec2_bill import check_ledger, check_nothing_is_left

pytestmark = [pytest.mark.slow(seconds=20), pytest.mark.asyncio(loop_scope="module")]

STOP_TIMEOUT = "c.EC2Spawner.stop_timeout = '2s'"
CLUSTERS = "c.EC2Spawner.clusters = {'max_workers': 4}"

OF_THE_ADMIN = "c.EC2Spawner.environment = {'OF_THE_ADMIN': 'yes'}"

CLOSE = """c.EC2Spawner.profile_list.append(
    {"display_name": "Close", "vcpus": 4, "memory_gib": 16, "placement_group": "cluster"}
)"""
"""A profile whose workers are close together."""

TOKEN = "the-token-of-this-cluster-0123456789"
ENGINE = {
    "engine": "ray",
    "address": "10.0.0.1:6379",
    "token": TOKEN,
    "python": sys.executable,
    "python_version": "3.11.0",
    "engine_version": "2.52.0",
}

PROFILE = "cpu"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("ec2") / "embedded").start()
    silence_agents(running)
    try:
        yield running
    finally:
        await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> AsyncIterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("clusters")
    config = demo_config(folder / "config", STOP_TIMEOUT, CLUSTERS, CLOSE, OF_THE_ADMIN)
    running = Hub(folder / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(150))


@asynccontextmanager
async def server(hub: Hub, user: str) -> AsyncIterator[AgentByHand]:
    """A server of `user`; at its end no instance is left, of workers neither."""
    async with server_by_hand(hub, user, options={"profile": PROFILE}) as agent:
        yield agent
    await until_running(hub, 0)


async def taken_up(agent: AgentByHand) -> bool:
    """Whether a hub that was started again follows the server, and checks its security groups."""
    reply = await agent.say("cluster", {"action": "price", "workers": 1})
    return reply.status_code == 409 and "default security group" in reply.text


async def until_running(hub: Hub, number: int) -> None:
    """Until EC2 runs so many instances."""

    async def found() -> bool:
        return len(await hub.embedded.instances()) == number

    await until(found, 30, f"{number} instances")


async def ask(agent: AgentByHand, action: str, **more: Any) -> dict[str, Any]:
    """The answer to a call about the cluster that is not refused."""
    reply = await agent.say("cluster", {"action": action, **more})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def start(agent: AgentByHand, workers: int) -> dict[str, Any]:
    return await ask(agent, "start", workers=workers, join=ENGINE)


async def new_worker(hub: Hub, agent: AgentByHand) -> AgentByHand:
    """The agent of the only worker of a server, with its lease."""
    await start(agent, 1)
    worker = await agent_of_new_instance(hub, {agent.instance_id})
    await worker.obtain_lease()
    return worker


BAD = [
    ({"action": "start", "workers": 2}, 400, "join"),
    ({"action": "start", "workers": 0, "join": ENGINE}, 400, "at least one worker"),
    ({"action": "start", "join": ENGINE}, 400, "at least one worker"),
    ({"action": "start", "workers": -1, "join": ENGINE}, 400, "workers"),
    ({"action": "start", "workers": 1e99, "join": ENGINE}, 400, "workers"),
    ({"action": "start", "workers": "many", "join": ENGINE}, 400, "workers"),
    ({"action": "start", "workers": 65, "join": ENGINE}, 400, "workers"),
    ({"action": "start", "workers": 5, "join": ENGINE}, 409, "at most 4 workers"),
    ({"action": "start", "workers": 1, "profile": "none", "join": ENGINE}, 409, "none"),
    ({"action": "start", "workers": 1, "profile": "x" * 101, "join": ENGINE}, 400, "profile"),
    ({"action": "start", "workers": 1, "join": ENGINE | {"token": "short"}}, 400, "token"),
    ({"action": "start", "workers": 1, "join": ENGINE | {"engine": "dask"}}, 400, "engine"),
    ({"action": "start", "workers": 1, "join": ENGINE | {"address": "a b\n"}}, 400, "address"),
    ({"action": "start", "workers": 1, "join": ENGINE | {"python": "p" * 501}}, 400, "python"),
    ({"action": "start", "workers": 1, "join": ENGINE | {"token": "t" * 30_000}}, 400, "token"),
    ({"action": "price", "workers": 5}, 409, "at most 4 workers"),
    ({"action": "price", "workers": 1, "profile": "none"}, 409, "none"),
    ({"action": "scale", "workers": 1}, 409, "no cluster"),
    ({"action": "scale", "workers": 5}, 409, "at most 4 workers"),
    ({"action": "explode"}, 400, "action"),
    ([], 400, ""),
    (b"\xff{", 400, ""),
]


async def test_a_bad_request_is_refused_with_the_reason_and_buys_nothing(hub: Hub) -> None:
    async with server(hub, "ann") as agent:
        bought = len(await hub.embedded.calls("CreateFleet"))
        for body, status, reason in BAD:
            reply = await agent.say("cluster", body)
            assert (reply.status_code, reason in reply.text) == (status, True), (body, reply.text)
            assert TOKEN not in reply.text
        assert (await ask(agent, "stop"))["status"]["wanted"] == 0
        status = (await ask(agent, "status"))["status"]
        assert (status["wanted"], status["workers"]) == (0, [])
        assert len(await hub.embedded.calls("CreateFleet")) == bought


async def test_a_cluster_is_priced_started_scaled_and_stopped(hub: Hub) -> None:
    async with server(hub, "ann") as agent:
        price = (await ask(agent, "price", workers=2))["price"]
        assert price["workers"] == 2
        assert 0 < price["usd_per_hour"] <= price["max_usd_per_hour"]
        assert (await ask(agent, "status"))["status"]["max_workers"] == 4

        begun = await start(agent, 2)
        assert begun["price"] == price
        assert [each["number"] for each in begun["status"]["workers"]] == [1, 2]
        assert TOKEN not in json.dumps(begun), "only workers get it"
        again = await agent.say("cluster", {"action": "start", "workers": 1, "join": ENGINE})
        assert (again.status_code, "already" in again.text) == (409, True)
        await until_running(hub, 3)
        assert len(await hub.embedded.launches({agent.instance_id})) == 1

        await ask(agent, "scale", workers=4)
        await until_running(hub, 5)
        await ask(agent, "scale", workers=1)
        await until_running(hub, 2)
        await ask(agent, "stop")
        await until_running(hub, 1)
        assert (await agent.heartbeat()).json()["stop"] is None, "the server runs on"


@pytest.mark.nightly(
    guard="tests/unit/provisioner/clusters/test_cluster_placement_groups.py::"
    "test_all_workers_are_launched_into_it_by_one_call"
)
async def test_workers_of_a_profile_that_asks_for_it_are_launched_close_together(hub: Hub) -> None:
    ec2 = hub.embedded.client()

    async def placement_groups() -> list[str]:
        found = await asyncio.to_thread(ec2.describe_placement_groups)
        return [each["GroupName"] for each in found["PlacementGroups"]]

    async def none_is_left() -> bool:
        return not await placement_groups()

    async with server(hub, "ann") as agent:
        await ask(agent, "start", workers=3, profile="close", join=ENGINE)
        await until_running(hub, 4)
        assert len(await hub.embedded.launches({agent.instance_id})) == 1
        [name] = await placement_groups()
        by_group = [{"Name": "placement-group-name", "Values": [name]}]
        listed = await asyncio.to_thread(ec2.describe_instances, Filters=by_group)
        workers = {x["InstanceId"] for each in listed["Reservations"] for x in each["Instances"]}
        assert len(workers - {agent.instance_id}) == 3
    await until(none_is_left, 60, "the end of the placement group")
    outcomes = [each["outcome"] for each in await hub.embedded.calls("CreatePlacementGroup")]
    assert outcomes.count("ok") == 1
    # How often the hub asks again while EC2 does not show it the group is up to the lag.
    assert set(outcomes) <= {"ok", "InvalidPlacementGroup.Duplicate"}


async def test_only_a_running_server_has_a_cluster(hub: Hub) -> None:
    starting = asyncio.create_task(hub.request_server("ann", options={"profile": PROFILE}))
    agent = await agent_of_new_instance(hub, set())
    await agent.obtain_lease()
    body = {"action": "start", "workers": 1, "join": ENGINE}
    reply = await agent.say("cluster", body)
    assert (reply.status_code, "still starting" in reply.text) == (409, True)
    await agent.serve()
    await agent.wait_home()
    await agent.event("ready", port=agent.grant["port"])
    await starting
    stopping = asyncio.create_task(hub.stop_server("ann"))

    async def refused() -> Any:
        """Asked as soon as the stop is known, which has two seconds."""
        heartbeat = await agent.heartbeat()
        is_stopping = heartbeat.status_code == 410 or heartbeat.json()["stop"] is not None
        return await agent.say("cluster", body) if is_stopping else None

    reply = await until(refused, 10, "the stop")
    said = (reply.status_code, "being stopped" in reply.text)
    assert said == (409, True) or reply.status_code == 410, "a busy machine asks after the stop"
    await agent.event("stopped")
    await stopping
    assert (await agent.say("cluster", {})).status_code == 410
    await agent.close()
    await until_running(hub, 0)


@pytest.mark.nightly(
    guard="tests/unit/hub/test_cluster_refusal.py::"
    "test_a_hub_without_clusters_and_a_server_without_groups_say_so"
)
async def test_a_hub_without_clusters_says_so_and_allows_them_to_servers_with_groups_only(
    tmp_path: Path, embedded: Embedded
) -> None:
    name = "c.EC2Spawner.hub_name = 'without'"
    without = ("c.EC2Spawner.clusters = {}", "c.EC2Spawner.security_groups = []")
    config = demo_config(tmp_path / "config", STOP_TIMEOUT, name, *without)
    key_of_the_other_hub = dict(embedded.described)
    await embedded.allow(hub_name="without")
    hub = Hub(tmp_path / "hub", embedded, config=config)
    try:
        await hub.start()
        async with server(hub, "ann") as agent:
            for body in (
                {"action": "price", "workers": 1},
                {"action": "start", "workers": 1, "join": ENGINE},
                {"action": "scale", "workers": 0},
            ):
                reply = await agent.say("cluster", body)
                assert (reply.status_code, "allows no clusters" in reply.text) == (409, True)
            status = (await ask(agent, "status"))["status"]
            assert (status["wanted"], status["max_workers"]) == (0, 0)

            await hub.kill()
            demo_config(tmp_path / "config", STOP_TIMEOUT, name, CLUSTERS)
            await hub.start()
            await until(lambda: taken_up(agent), 30, "the server to be known again")
            for action in ("price", "start", "scale"):
                body = {"action": action, "workers": 1, "join": ENGINE}
                reply = await agent.say("cluster", body)
                assert (reply.status_code, "default security group" in reply.text) == (409, True)
            assert (await ask(agent, "status"))["status"]["max_workers"] == 0
    finally:
        await hub.stop()
        print(hub.tail(80))
        embedded.described = key_of_the_other_hub


async def test_a_worker_gets_the_servers_environment_and_no_secret_but_the_clusters(
    hub: Hub,
) -> None:
    async with server(hub, "ann") as agent:
        worker = await new_worker(hub, agent)
        head, grant = agent.grant, worker.grant

        assert head["environment"]["JUPYTERHUB_API_TOKEN"]
        assert head["home"]["kind"] == "ebs"
        assert grant["environment"]["OF_THE_ADMIN"] == "yes"
        assert not [x for x in grant["environment"] if x.startswith(("JUPYTERHUB_", "JPY_"))]
        assert json.loads(grant["environment"][JOIN]) == {**ENGINE, "image_python": ""}
        assert grant["is_worker"] is True
        home = grant["home"]
        assert (home["kind"], home["volume_id"]) == ("none", None)
        assert grant["certificates"] is None
        secrets = {value for name, value in head["environment"].items() if "TOKEN" in name}
        said = json.dumps(grant)
        assert not [each for each in secrets if each in said]
        assert agent.token not in said
        assert grant["command"] != head["command"]
        assert not grant["continues"]


async def test_a_worker_asks_for_nothing_on_its_owners_behalf(hub: Hub) -> None:
    async with server(hub, "ann") as agent:
        worker = await new_worker(hub, agent)
        for _ in range(2):  # before and after it has joined
            bought = len(await hub.embedded.calls("CreateFleet"))
            for call, body in (
                ("cluster", {"action": "start", "workers": 1, "join": ENGINE}),
                ("cluster", {"action": "price", "workers": 1}),
                ("cluster", {"action": "scale", "workers": 4}),
                ("cluster", {"action": "stop"}),
                ("cluster", {}),
                ("hardware", {}),
                ("continue", {"profile": "t4-16-gb"}),
                ("stop", {"sleep": True}),
            ):
                reply = await worker.say(call, body)
                assert reply.status_code == 409, (call, body, reply.status_code, reply.text)
            assert len(await hub.embedded.calls("CreateFleet")) == bought
            assert (await worker.event("ready", port=8888)).status_code == 204
        assert (await worker.say("idle", {"server_seconds": 60.0})).status_code == 403
        extension = (await worker.say("extend", {"seconds": 3600.0})).json()
        assert extension["bounded"], "no idle limit of its own, so nothing to extend"
        [shown] = (await ask(agent, "status"))["status"]["workers"]
        assert shown["state"] == "ready"


@pytest.mark.nightly(
    guard="tests/integration/hub/test_other_users_instances.py::"
    "test_secrets_of_ones_instances_open_no_lease_of_another"
)
async def test_the_token_of_another_lease_does_not_reach_a_cluster(hub: Hub) -> None:
    async with server(hub, "ann") as ann:
        worker = await new_worker(hub, ann)
        known = {ann.instance_id, worker.instance_id}
        starting = asyncio.create_task(hub.request_server("bob", options={"profile": PROFILE}))
        bob = await agent_of_new_instance(hub, known)
        await bob.obtain_lease()
        api_token = ann.grant["environment"]["JUPYTERHUB_API_TOKEN"]
        for token in (bob.token, worker.token, api_token, TOKEN, ""):
            for body in ({}, {"action": "stop"}, {"action": "scale", "workers": 0}):
                assert (await ann.say("cluster", body, token)).status_code == 401
        assert (await worker.say("beat", {"protocol": 0}, ann.token)).status_code == 401
        assert (await ask(ann, "status"))["status"]["wanted"] == 1
        await bob.event("failed", message="enough")
        await asyncio.gather(starting, return_exceptions=True)
        await until_running(hub, 2)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/clusters/test_clusters.py::"
    "test_a_worker_reports_once_that_it_has_joined"
)
async def test_ready_twice_and_late_failures_change_nothing(hub: Hub) -> None:
    async with server(hub, "ann") as agent:
        worker = await new_worker(hub, agent)
        assert (await worker.event("ready", port=9001)).status_code == 204
        before = (await ask(agent, "status"))["status"]["workers"]
        assert (before[0]["state"], before[0]["url"]) == ("ready", f"http://{worker.address}:9001")
        for step in ("ready", "failed", "home"):
            assert (await worker.event(step, port=9002)).status_code == 204
        assert (await ask(agent, "status"))["status"]["workers"] == before


@pytest.mark.nightly(
    guard="tests/integration/hub/test_agent_api.py::"
    "test_calls_of_a_lease_are_rate_limited_without_affecting_others"
)
async def test_a_worker_that_floods_the_hub_is_limited_and_its_server_is_not(hub: Hub) -> None:
    async with server(hub, "ann") as agent:
        worker = await new_worker(hub, agent)
        replies = await asyncio.gather(*(worker.say("cluster", {}) for _ in range(300)))
        assert {reply.status_code for reply in replies} == {409, 429}
        assert (await ask(agent, "status"))["status"]["wanted"] == 1


@pytest.mark.nightly(
    guard="tests/unit/provisioner/clusters/test_clusters.py::"
    "test_workers_that_keep_claiming_to_be_reclaimed_are_replaced_once_and_end_with_a_stop"
)
async def test_a_reclaimed_worker_that_never_goes_is_replaced_once(hub: Hub) -> None:
    """Its agent claims without an end that EC2 reclaims the instance."""
    async with server(hub, "ann") as agent:
        known = {agent.instance_id}
        await start(agent, 1)
        liars = []
        for _ in range(2):
            liar = await agent_of_new_instance(hub, known)
            known.add(liar.instance_id)
            await liar.obtain_lease()
            await liar.event("ready", port=9001)
            assert (await liar.heartbeat(interruption_at="9999-12-31T00:00:00Z")).is_success
            liars.append(liar)
        for _ in range(3):
            await asyncio.sleep(1)
            for liar in liars:
                await liar.heartbeat(interruption_at="9999-12-31T00:00:00Z")
            assert len(await hub.embedded.instances()) == 3
        await ask(agent, "stop")
        await until_running(hub, 1)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/clusters/test_clusters.py::"
    "test_the_ledger_has_what_each_worker_cost"
)
async def test_the_ledger_has_the_time_of_server_and_workers_at_ec2s_price(hub: Hub) -> None:
    """Also of a worker that EC2 reclaims, which is free, and of its replacement."""
    async with server(hub, "dora") as agent:
        used = {agent.instance_id}
        workers = [await joined(hub, agent, used) for _ in range(2)]
        path = f"interrupt/{workers[0].instance_id}"
        await hub.embedded.control(path, {"notice_seconds": 0})
        await joined(hub, agent, used)
        await until_running(hub, 3)
    await check_nothing_is_left(hub.embedded)
    await check_ledger(hub, "dora", used)


async def joined(hub: Hub, agent: AgentByHand, known: set[str]) -> AgentByHand:
    """A new worker that is ready: of a cluster of two at most."""
    status = (await ask(agent, "status"))["status"]
    if not status["wanted"]:
        await start(agent, 2)
    worker = await agent_of_new_instance(hub, known)
    known.add(worker.instance_id)
    await worker.obtain_lease()
    assert (await worker.event("ready", port=9001)).status_code == 204
    return worker


@pytest.mark.nightly(
    guard="tests/unit/provisioner/clusters/test_clusters.py::"
    "test_workers_end_with_their_server_whatever_ends_it"
)
async def test_an_admins_stop_of_the_server_ends_the_workers(hub: Hub) -> None:
    async with server(hub, "ann") as agent:
        await start(agent, 2)
        await until_running(hub, 3)
        reply = await hub.api.delete(hub.server_path("ann"))
        assert reply.status_code in {202, 204}
        await until_running(hub, 1)  # its session is being saved, which needs no worker
        await hub.stop_server("ann", sleep=False)
        await until_running(hub, 0)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/clusters/test_clusters.py::"
    "test_workers_end_with_their_server_whatever_ends_it"
)
async def test_the_deletion_of_the_user_ends_the_workers(hub: Hub) -> None:
    async with server(hub, "eve") as agent:
        await start(agent, 2)
        await until_running(hub, 3)
        await deleted(hub, "eve")
        await until_running(hub, 0)
        assert (await agent.say("cluster", {})).status_code in {404, 410}
        await hub.add_user("eve")  # another one, for what comes at the end of `server`


async def deleted(hub: Hub, user: str) -> None:
    """JupyterHub refuses it while the server is being stopped."""

    async def is_deleted() -> bool:
        reply: httpx.Response = await hub.api.delete(f"/users/{user}")
        return reply.status_code in {204, 404}

    await until(is_deleted, 30, f"{user} to be deleted")
