"""Images are older than their hub: the previous protocol works, any other is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.wire import PROTOCOL
from tests.harness import Embedded, Hub, until
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    agent_of_new_instance,
    call,
    new_key,
    now,
    silence_agents,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLAIM_1 = (
    b'{"protocol":1,"document":%(document)s,"signature":%(signature)s,"key":%(key)s,'
    b'"agent_version":"0.1.0.dev0","boot_seconds":null,"wait_seconds":25.0}'
)
EVENT_1 = b'{"step":"%(step)s","at":"%(at)s","message":"%(message)s","port":%(port)s}'
HEARTBEAT_1 = (
    b'{"protocol":1,"sent_at":"%(at)s","idle_since":null,"busy_because":"A cell is running.",'
    b'"telemetry":{"at":"%(at)s","gpu_source":"simulated","gpus":[{"index":0,"name":"Tesla T4 '
    b'(simulated)","use_percent":3.0,"memory_used_mib":412.0,"memory_total_mib":15360.0,'
    b'"temperature_c":35.0,"power_w":27.5}],"cpu_percent":1.5,"memory_used_mib":1024.0,'
    b'"memory_total_mib":15835.0},"hold_seconds":%(hold)s,"state_seen":%(seen)s}'
)
EXTEND_1 = b'{"seconds":3600.0}'
STOP_1 = b'{"reason":"user"}'
"""What the first released agent sends, byte for byte: only what differs each time is left open.
Never change these to make a test pass."""

GRANT_1 = {
    "lease_id",
    "lease_token",
    "environment",
    "command",
    "base_url",
    "port",
    "home",
    "idle",
    "profile",
    "hub_lost_after_seconds",
}
"""What it cannot do without in a grant."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("protocols")
    embedded = await Embedded(directory / "embedded").start()
    silence_agents(embedded)
    metrics_for_all = "--JupyterHub.authenticate_prometheus=False"
    running = Hub(directory / "hub", embedded, metrics_for_all)
    try:
        yield await running.start()
    finally:
        print(running.tail(60))
        await running.stop()
        await embedded.stop()


def claim_1(agent: AgentByHand) -> bytes:
    given = {"document": agent.document, "signature": agent.signature, "key": agent.key}
    return CLAIM_1 % {name.encode(): json.dumps(text).encode() for name, text in given.items()}


async def say_1(agent: AgentByHand, what: str, body: bytes, **given: object) -> httpx.Response:
    filled = {name.encode(): str(value).encode() for name, value in given.items()}
    if filled:
        body = body % ({b"at": now().replace("+00:00", "Z").encode()} | filled)
    return await agent.say(what, body)


async def starting(hub: Hub, user: str) -> tuple[asyncio.Task[httpx.Response], AgentByHand]:
    """A start that waits, and the agent of the instance it has brought."""
    known = {instance["instance_id"] for instance in await hub.embedded.instances()}
    request = asyncio.create_task(hub.request_server(user))
    return request, await agent_of_new_instance(hub, known)


async def test_an_agent_of_the_protocol_before_serves_from_start_to_stop(hub: Hub) -> None:
    request, agent = await starting(hub, "ann")

    async def granted() -> dict[str, Any] | None:
        reply = await call(hub, "claims", claim_1(agent))
        assert reply.status_code in {200, 202}, reply.text
        return reply.json() if reply.status_code == 200 else None

    agent.grant = await until(granted, 30, "a lease")
    assert agent.grant.keys() >= GRANT_1
    agent.lease_id, agent.token = agent.grant["lease_id"], agent.grant["lease_token"]
    try:
        await agent.serve()
        port = agent.grant["port"]
        for step, message, at in (
            ("home", "", "null"),
            ("notebook", "", "null"),
            ("ready", "listening after 0.4 s", port),
        ):
            reply = await say_1(agent, "events", EVENT_1, step=step, message=message, port=at)
            assert (reply.status_code, reply.text) == (204, "")
        assert (await request).is_success
        await hub.wait_ready("ann")
        heartbeat = (await say_1(agent, "beat", HEARTBEAT_1, hold=0.0, seen=0)).json()
        assert heartbeat["stop"] is None
        assert heartbeat.keys() >= {"state", "cost", "idle", "extended_until"}
        extended = await say_1(agent, "extend", EXTEND_1)
        assert extended.json().keys() >= {"extended_until", "bounded"}
        held = asyncio.create_task(
            say_1(agent, "beat", HEARTBEAT_1, hold=50.0, seen=(await _state(agent)))
        )
        assert (await say_1(agent, "stop", STOP_1)).status_code == 204
        assert (await held).json()["stop"]["reason"] == "user"
        stopped = {"step": "stopped", "message": "You stopped it", "port": "null"}
        assert (await say_1(agent, "events", EVENT_1, **stopped)).status_code == 204
        await hub.wait_gone("ann")
        assert (await say_1(agent, "beat", HEARTBEAT_1, hold=0.0, seen=0)).status_code == 410
    finally:
        await agent.close()


async def _state(agent: AgentByHand) -> int:
    return int((await say_1(agent, "beat", HEARTBEAT_1, hold=0.0, seen=0)).json()["state"])


@pytest.mark.parametrize(
    ("protocol", "why", "fix"),
    [
        (PROTOCOL - 2, "too old", "bake a new image"),
        (PROTOCOL + 1, "newer than the hub", "upgrade the hub"),
    ],
)
async def test_any_other_agent_and_its_user_get_the_reason(
    hub: Hub, protocol: int, why: str, fix: str
) -> None:
    """At once, once, and the instance ends: each other one of that image would be as unfit."""
    user = f"user-{protocol}"
    launches = len(await hub.embedded.calls("CreateFleet"))
    request, agent = await starting(hub, user)
    claim = agent.claim(protocol=protocol, wait_seconds=20)
    reply = await call(hub, "claims", claim)
    assert reply.status_code == 400
    assert why in reply.json()["message"]
    assert fix in reply.json()["message"]
    said = await request
    assert said.status_code == 503, said.text
    assert fix in said.json()["message"]
    await hub.wait_gone(user)

    async def ended() -> bool:
        found = {instance["instance_id"] for instance in await hub.embedded.instances()}
        return agent.instance_id not in found

    await until(ended, 20, "the instance to end")
    assert (await call(hub, "claims", claim)).status_code == 410
    assert len(await hub.embedded.calls("CreateFleet")) == launches + 1


async def test_an_unreadable_claim_of_another_protocol_is_refused_for_its_protocol(
    hub: Hub,
) -> None:
    reply = await call(hub, "claims", b'{"protocol": 7, "identity": {"by": "other means"}}')
    assert reply.status_code == 400
    assert "it speaks protocol 7" in reply.json()["message"]


async def test_a_second_key_is_counted_in_the_metrics(hub: Hub) -> None:
    async def alarms() -> float:
        async with httpx.AsyncClient(verify=False, timeout=60) as client:
            text = (await client.get(f"{hub.url}/hub/metrics")).text
        [line] = [x for x in text.splitlines() if x.startswith("ec2spawner_second_key_claims_tot")]
        return float(line.split()[-1])

    before = await alarms()
    request, agent = await starting(hub, "kim")
    await agent.obtain_lease()
    assert (await call(hub, "claims", agent.claim(key=new_key()))).status_code == 403
    assert await alarms() == before + 1
    await hub.api.delete(hub.server_path("kim"))
    await request
    await hub.wait_gone("kim")


@pytest.mark.nightly(
    guard="tests/unit/hub/test_claim_rate_limit.py::"
    "test_unknown_claims_share_one_limit_without_affecting_our_instances"
)
async def test_a_flood_of_foreign_claims_is_limited_without_affecting_instances(hub: Hub) -> None:
    request, agent = await starting(hub, "lea")
    strange = agent.document.replace(agent.instance_id, "i-0123456789abcdef0")
    replies = await asyncio.gather(
        *(call(hub, "claims", agent.claim(document=strange, key=new_key())) for _ in range(40))
    )
    statuses = [reply.status_code for reply in replies]
    assert set(statuses) == {403, 429}
    limited = next(reply for reply in replies if reply.status_code == 429)
    assert "ask again" in limited.json()["message"]
    assert int(limited.headers["Retry-After"]) >= 1
    await agent.obtain_lease()
    await hub.api.delete(hub.server_path("lea"))
    await request
    await hub.wait_gone("lea")
