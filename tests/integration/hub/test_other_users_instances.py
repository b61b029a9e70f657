"""What root on one user's instances can do to another user's cluster and run: nothing.

Two users have a server, a worker and a run each. All that root finds on Bob's three instances is
tried on what is Ann's.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.wire import PROTOCOL
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    agent_of_new_instance,
    call,
    new_key,
    now,
    server_by_hand,
    silence_agents,
)

pytestmark = [pytest.mark.slow(seconds=60), pytest.mark.asyncio(loop_scope="module")]

PORT = 8888
"""Of notebooks, by default."""

OPTIONS = (
    "c.EC2Spawner.stop_timeout = '2s'",
    "c.EC2Spawner.clusters = {'max_workers': 4}",
    "c.EC2Spawner.runs = {'at_once': 3}",
)

EVERY_PORT = [[0, 65535]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("others")
    embedded = await Embedded(folder / "embedded").start()
    await embedded.control("lag", {"seconds": 0})  # what two readings have in common is compared
    silence_agents(embedded)
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", *OPTIONS))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(150))


# --- two users -------------------------------------------------------------------------------


def engine_of(user: str) -> dict[str, Any]:
    """What the kernel sends for its cluster; the token opens its engine and its workers."""
    return {
        "engine": "ray",
        "address": "10.0.0.1:6379",
        "token": f"token-of-the-cluster-of-{user}-0123456789",
        "python": sys.executable,
        "python_version": "3.11.0",
        "engine_version": "2.52.0",
    }


def submission(user: str) -> dict[str, Any]:
    document = base64.b64encode(zlib.compress(f"# of {user}".encode())).decode()
    return {"path": "secret.py", "document": document, "profile": "cpu"}


@dataclass
class Side:
    """What one user has, all on instances of their own."""

    user: str
    server: AgentByHand
    worker: AgentByHand
    run: AgentByHand
    number: int
    """Of the run."""

    @property
    def agents(self) -> tuple[AgentByHand, ...]:
        return self.server, self.worker, self.run

    @property
    def secrets(self) -> set[str]:
        """All that root reads there and that could be a token: the agents' memory and the
        environments of their notebook, worker and executor."""
        known = {each for agent in self.agents for each in (agent.token, agent.key)}
        for agent in self.agents:
            known.update(texts([agent.grant, agent.document, agent.signature]))
        return {each for each in known if re.fullmatch(r"[\w.~+=-]{16,256}", each)}


def texts(value: Any) -> Iterator[str]:
    """Every text in it, also inside of JSON in a text, and the key of an address."""
    match value:
        case dict():
            yield from texts(list(value.values()))
        case list():
            for each in value:
                yield from texts(each)
        case str():
            yield value
            yield value.rpartition("?key=")[2]
            if value.startswith("{"):
                yield from texts(json.loads(value))


@asynccontextmanager
async def side_of(hub: Hub, user: str) -> AsyncIterator[Side]:
    async with server_by_hand(hub, user, options={"profile": "cpu"}) as server:
        known = {each["instance_id"] for each in await hub.embedded.instances()}
        start = {"action": "start", "workers": 1, "join": engine_of(user)}
        assert (await server.say("cluster", start)).status_code == 200
        worker = await begun(hub, known)
        submit = {"action": "submit", "submission": submission(user)}
        [run] = (await answer(server, "runs", submit))["runs"]
        runner = await begun(hub, known)
        await answer(runner, "run", {"action": "begin"})
        await answer(runner, "run", {"action": "progress", "result": submission(user)["document"]})
        async with worker.speaking(), runner.speaking():
            yield Side(user, server, worker, runner, run["number"])
        await answer(server, "runs", {"action": "cancel", "number": run["number"]})


async def begun(hub: Hub, known: set[str]) -> AgentByHand:
    """The agent of the next instance, ready."""
    agent = await agent_of_new_instance(hub, known)
    known.add(agent.instance_id)
    await agent.obtain_lease()
    assert (await agent.event("ready", port=PORT)).status_code == 204
    return agent


async def answer(agent: AgentByHand, what: str, body: Any) -> dict[str, Any]:
    """Once the hub takes the call: it limits how often a lease reads documents."""

    async def taken() -> httpx.Response | None:
        said = await agent.say(what, body)
        return None if said.status_code == 429 else said

    reply = await until(taken, 30, f"an answer to {what}")
    assert reply.status_code == 200, (what, body, reply.text)
    found: dict[str, Any] = reply.json()
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sides(hub: Hub) -> AsyncIterator[tuple[Side, Side]]:
    async with AsyncExitStack() as open_:
        ann = await open_.enter_async_context(side_of(hub, "ann"))
        bob = await open_.enter_async_context(side_of(hub, "bob"))
        yield ann, bob


@pytest_asyncio.fixture(loop_scope="module")
async def ann(sides: tuple[Side, Side], hub: Hub) -> AsyncIterator[Side]:
    """Whose state is the same after the test as before."""
    before = await state_of(hub, sides[0])
    yield sides[0]
    assert await state_of(hub, sides[0]) == before


@pytest.fixture
def bob(sides: tuple[Side, Side]) -> Side:
    return sides[1]


async def state_of(hub: Hub, side: Side) -> dict[str, Any]:
    """All that an attack could change of a user's server, cluster and run, or buy."""
    status = (await answer(side.server, "cluster", {}))["status"]
    asked = {"action": "result", "number": side.number}
    runs = await answer(side.server, "runs", asked)
    [run] = runs["runs"]
    heartbeats = [await answer(each, "beat", {"protocol": PROTOCOL}) for each in side.agents]
    model = await hub.model(side.user)
    ec2 = hub.embedded.client()
    listed = [
        await asyncio.to_thread(ec2.describe_volumes),
        await asyncio.to_thread(ec2.describe_security_groups),
    ]
    return {
        "workers": [(x["instance_id"], x["state"], x["url"]) for x in status["workers"]],
        "wanted": (status["wanted"], status["address"], status["problem"]),
        "run": [run[x] for x in ("state", "outcome", "cells_done", "attempts", "delivered")],
        "result": runs["result"],
        "server": (model or {})["ready"],
        "stops": [each["stop"] for each in heartbeats],
        "kept": [each["extended_until"] for each in heartbeats],
        "instances": [x["instance_id"] for x in await hub.embedded.instances()],
        "volumes": sorted(attachments(listed[0]["Volumes"])),
        "groups": listed[1]["SecurityGroups"],
        "bought": len(await hub.embedded.calls("CreateFleet")),
    }


def attachments(volumes: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """What is attached where, or soon is."""
    for volume in volumes:
        for each in volume["Attachments"] or [{"InstanceId": "", "Device": ""}]:
            yield volume["VolumeId"], each["InstanceId"], each["Device"]


# --- the hub's API for agents ----------------------------------------------------------------


def calls_about(side: Side) -> list[tuple[str, dict[str, Any]]]:
    """Every call that reads, changes or ends something."""
    number = side.number
    return [
        ("beat", {"protocol": PROTOCOL, "interruption_at": "9999-12-31T00:00:00Z"}),
        ("events", {"step": "ready", "port": 1, "at": now()}),
        ("events", {"step": "failed", "at": now()}),
        ("events", {"step": "stopped", "at": now()}),
        ("extend", {"seconds": 3600.0}),
        ("idle", {"server_seconds": 900.0}),
        ("stop", {}),
        ("hardware", {}),
        ("continue", {"profile": "t4-16-gb"}),
        ("cluster", {}),
        ("cluster", {"action": "scale", "workers": 4}),
        ("cluster", {"action": "stop"}),
        ("cluster", {"action": "start", "workers": 1, "join": engine_of("bob")}),
        ("runs", {}),
        ("runs", {"action": "result", "number": number}),
        ("runs", {"action": "cancel", "number": number}),
        ("runs", {"action": "delivered", "number": number}),
        ("runs", {"action": "submit", "submission": submission("bob")}),
        ("run", {"action": "begin"}),
        ("run", {"action": "progress", "result": submission("bob")["document"]}),
        ("run", {"action": "end", "succeeded": True}),
    ]


async def test_secrets_of_ones_instances_open_no_lease_of_another(
    hub: Hub, ann: Side, bob: Side
) -> None:
    """Nor does a flood of such calls lock its own agent out."""
    tokens = [*sorted(bob.secrets), engine_of("bob")["token"], ""]
    assert set(tokens) >= {x for each in bob.agents for x in (each.token, each.key)}
    for agent in ann.agents:
        for what, body in calls_about(ann):
            asked = [call(hub, f"leases/{agent.lease_id}/{what}", body, each) for each in tokens]
            codes = {reply.status_code for reply in await asyncio.gather(*asked)}
            assert codes == {401}, (what, body, codes)


async def test_ones_own_lease_reaches_no_run_of_another(ann: Side, bob: Side) -> None:
    for action in ("list", "result", "cancel", "delivered"):
        reply = await bob.server.say("runs", {"action": action, "number": ann.number})
        assert reply.status_code == 404, (action, reply.text)
    for action in ("list", "undelivered"):
        shown = (await answer(bob.server, "runs", {"action": action}))["runs"]
        assert ann.number not in [each["number"] for each in shown]


async def test_worker_and_run_act_for_nobody_and_a_server_reports_no_run(
    ann: Side, bob: Side
) -> None:
    for agent in (bob.worker, bob.run):
        for what, body in calls_about(bob):
            if what in {"runs", "cluster", "hardware", "continue"}:
                assert (await agent.say(what, body)).status_code == 409, (what, body)
    for agent in (bob.server, bob.worker):
        for action in ("begin", "progress", "end"):
            assert (await agent.say("run", {"action": action})).status_code == 409


async def test_no_instance_claims_with_what_another_has(hub: Hub, ann: Side, bob: Side) -> None:
    """A document opens its own instance's lease to the key that claimed first, and no other."""
    for agent in bob.agents:
        for key in (new_key(), *(x.key for x in (*bob.agents, *ann.agents) if x is not agent)):
            assert (await call(hub, "claims", agent.claim(key=key))).status_code == 403
        again = await call(hub, "claims", agent.claim())
        assert again.json()["lease_id"] == agent.lease_id
        forged = agent.document.replace(agent.instance_id, ann.worker.instance_id)
        assert forged != agent.document
        assert (await call(hub, "claims", agent.claim(document=forged))).status_code == 403
        mixed = agent.claim(signature=ann.worker.signature)
        assert (await call(hub, "claims", mixed)).status_code == 403


async def test_the_key_of_ones_end_says_nothing_about_another_server(
    hub: Hub, ann: Side, bob: Side
) -> None:
    async with httpx.AsyncClient(base_url=hub.agent_api, verify=False) as client:
        [key] = {
            x
            for x in texts(bob.server.grant["environment"])
            if re.fullmatch("[0-9a-f]{64}", x)
            and (await client.get(f"ends/{bob.server.lease_id}", params={"key": x})).is_success
        }
        for lease in (*ann.agents, bob.worker, bob.run):
            reply = await client.get(f"ends/{lease.lease_id}", params={"key": key})
            assert reply.status_code == 404


# --- JupyterHub's API ------------------------------------------------------------------------


def calls_of_users(side: Side) -> list[tuple[str, str]]:
    user, number = side.user, side.number
    return [
        ("GET", "/users"),
        ("GET", f"/users/{user}"),
        ("DELETE", f"/users/{user}"),
        ("POST", f"/users/{user}/server"),
        ("DELETE", f"/users/{user}/server"),
        ("POST", f"/users/{user}/tokens"),
        ("POST", f"/users/{user}/activity"),
        ("GET", "/proxy"),
        ("GET", "/ec2/instances"),
        ("GET", f"/ec2/usage?user={user}"),
        ("GET", f"/ec2/usage/costs?user={user}"),
        ("GET", f"/ec2/runs?user={user}"),
        ("GET", f"/ec2/runs/{number}"),
        ("GET", f"/ec2/runs/{number}?user={user}"),
        ("GET", f"/ec2/runs/{number}/result"),
        ("DELETE", f"/ec2/runs/{number}"),
        ("DELETE", f"/ec2/runs/{number}?user={user}"),
        ("POST", "/ec2/runs"),
    ]


async def codes_of(hub: Hub, calls: list[tuple[str, str]], tokens: set[str]) -> set[int]:
    base = f"{hub.url}/hub/api"
    async with httpx.AsyncClient(base_url=base, timeout=60, verify=False) as client:
        found = set()
        for token in sorted(tokens):
            headers = {"Authorization": f"token {token}"}
            asked = [client.request(how, path, headers=headers, json={}) for how, path in calls]
            found |= {reply.status_code for reply in await asyncio.gather(*asked)}
    return found


async def test_no_secret_of_an_instance_acts_as_another_user(
    hub: Hub, ann: Side, bob: Side
) -> None:
    assert await codes_of(hub, calls_of_users(ann), bob.secrets) <= {403, 404}


async def test_secrets_of_workers_and_runs_open_nothing_of_jupyterhub(
    hub: Hub, ann: Side, bob: Side
) -> None:
    """Not even their owner's: only the server has a token, and they do not have it."""
    own = {*bob.secrets} - {*texts(bob.server.grant), bob.server.token, bob.server.key}
    assert own >= {bob.worker.token, bob.run.token, engine_of("bob")["token"]}
    server_token = bob.server.grant["environment"]["JUPYTERHUB_API_TOKEN"]
    assert server_token in bob.secrets
    assert server_token not in own
    assert await codes_of(hub, [("GET", "/user"), *calls_of_users(bob)], own) == {403}


def calls_about_all_servers(side: Side) -> list[tuple[str, str]]:
    """What the user may do with tokens of their own, about any server and all of them."""
    servers = f"/ec2/users/{side.user}/servers/lab"
    return [
        ("GET", "/ec2/usage"),
        ("GET", "/ec2/usage/costs"),
        ("GET", "/ec2/profiles"),
        ("GET", "/ec2/runs"),
        ("POST", "/ec2/runs"),
        ("GET", f"/ec2/runs/{side.number}"),
        ("DELETE", f"/ec2/runs/{side.number}"),
        ("GET", f"/ec2/runs/{side.number}/result"),
        *(("GET", f"{servers}/{what}") for what in ("continue", "session")),
        *(
            ("POST", f"{servers}/{what}")
            for what in ("continue", "sleep", "on-demand", "interrupt")
        ),
        ("DELETE", f"{servers}/continue"),
        ("DELETE", f"/users/{side.user}/servers/lab"),
    ]


async def test_the_token_of_a_server_is_for_no_other_server_of_its_user(
    hub: Hub, ann: Side, bob: Side
) -> None:
    token = bob.server.grant["environment"]["JUPYTERHUB_API_TOKEN"]
    for call_ in calls_about_all_servers(bob):
        assert await codes_of(hub, [call_], {token}) <= {403, 404}, call_


# --- the instance and its network ------------------------------------------------------------


async def test_the_metadata_service_gives_root_no_credentials_and_no_secret(
    hub: Hub, ann: Side, bob: Side
) -> None:
    endpoints = {
        each["instance_id"]: each["metadata_endpoint"] for each in await hub.embedded.instances()
    }
    secret = ann.secrets | bob.secrets
    for agent in bob.agents:
        latest = f"{endpoints[agent.instance_id]}/latest"
        async with httpx.AsyncClient(verify=False, timeout=60) as client:
            ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
            token = (await client.put(f"{latest}/api/token", headers=ttl)).text
            headers = {"X-aws-ec2-metadata-token": token}
            role = f"{latest}/meta-data/iam/security-credentials/"
            assert (await client.get(role, headers=headers)).status_code == 404
            user_data = await client.get(f"{latest}/user-data", headers=headers)
        assert user_data.status_code == 200
        assert not [each for each in secret if each in user_data.text]


async def reached(hub: Hub, source: AgentByHand, target: AgentByHand) -> list[list[int]]:
    path = f"reachable/{source.instance_id}/{target.instance_id}"
    found: list[list[int]] = (await hub.embedded.control(path))["possible_ports"]
    return found


async def test_only_nodes_of_a_cluster_reach_each_other(hub: Hub, ann: Side, bob: Side) -> None:
    for one, other in ((ann, bob), (bob, ann)):
        assert await reached(hub, one.server, one.worker) == EVERY_PORT
        assert await reached(hub, one.worker, one.server) == EVERY_PORT
        for source in one.agents:
            for target in (*other.agents, one.run):
                if source is not target:
                    assert await reached(hub, source, target) == []
