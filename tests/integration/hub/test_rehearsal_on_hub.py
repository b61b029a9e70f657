"""`ec2spawner interrupt` and its call on the hub: who may, what is refused, what AWS says."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.embedded.iam.hub_policy import interruption_statements
from ec2spawner.interrupt.command import (
    REFUSED,
    WOULD_INTERRUPT,
    WRONG,
    run_interrupt,
)
from tests.harness import Embedded, Hub, demo_config
from tests.integration.hub.agent_by_hand import AgentByHand, server_by_hand, silence_agents

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=20)]

ROLE = "ec2spawner-rehearsal"
PATH = "/hub/api/ec2/users/ann/server/interrupt"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    silence_agents(running)
    account, region = running.described["account"], running.described["region"]
    await running.allow(*interruption_statements(region, account, "demo"))
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("hub")
    arn = f"arn:aws:iam::{embedded.described['account']}:role/{ROLE}"
    config = demo_config(directory, f"c.EC2Spawner.rehearsal_role = {arn!r}")
    running = Hub(directory, embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(hub: Hub) -> AsyncIterator[AgentByHand]:
    """Of ann's spot server, which is ready."""
    async with server_by_hand(hub, "ann") as running:
        yield running


async def send(hub: Hub, token: str, path: str = PATH, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"token {token}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=60
    ) as client:
        return await client.post(path, json=body)


async def interrupt(
    hub: Hub, token: str, *, user: str = "ann", url: str = "", yes: bool = False
) -> int:
    given = Namespace(server=user, hub=url or hub.url, yes=yes, json=False, notice_seconds=120.0)
    return await asyncio.to_thread(run_interrupt, given, {"JUPYTERHUB_API_TOKEN": token})


async def rehearsed(hub: Hub, user: str) -> float:
    """USD that its rehearsals have cost a user."""
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    async with httpx.AsyncClient(verify=False, base_url=hub.url, headers=headers) as client:
        reply = await client.get("/hub/api/ec2/usage/costs", params={"by": "cause"})
    assert reply.status_code == 200, reply.text
    sums = {each["key"][0]: each["usd"] for each in reply.json()["sums"]}
    return float(sums.get("rehearsal", 0))


async def notice_of(embedded: Embedded, instance_id: str) -> dict[str, Any] | None:
    """What the instance reads of its metadata service."""
    [found] = [i for i in await embedded.instances() if i["instance_id"] == instance_id]
    async with httpx.AsyncClient(
        verify=False, base_url=found["metadata_endpoint"], timeout=20
    ) as client:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = await client.put("/latest/api/token", headers=ttl)
        headers = {"X-aws-ec2-metadata-token": token.text}
        reply = await client.get("/latest/meta-data/spot/instance-action", headers=headers)
    notice: dict[str, Any] | None = reply.json() if reply.is_success else None
    return notice


async def test_only_the_owner_and_admins_may(hub: Hub, agent: AgentByHand) -> None:
    for user in ("eva", "admin"):
        await hub.add_user(user)
    assert (await send(hub, await hub.user_token("eva"), dry_run=True)).status_code in (403, 404)
    unknown = await send(hub, "wrong", dry_run=True)
    assert unknown.status_code == 403
    assert "wrong or expired" in unknown.json()["message"], "and not that it lacks a scope"
    server_token = agent.grant["environment"]["JUPYTERHUB_API_TOKEN"]
    assert (await send(hub, server_token, dry_run=True)).status_code == 403
    for user in ("ann", "admin"):
        reply = await send(hub, await hub.user_token(user), dry_run=True)
        assert reply.status_code == 200, reply.text
        assert reply.json()["instance_id"] == agent.instance_id
        assert reply.json()["ends_at"] is None
        assert reply.json()["usd"] == pytest.approx(0.2)


async def test_what_is_refused(hub: Hub, agent: AgentByHand) -> None:
    token = await hub.user_token("ann")
    missing = await send(hub, token, PATH.replace("server/", "servers/other/"), dry_run=True)
    assert missing.status_code == 404
    for seconds in (119, 901, -1):
        assert (await send(hub, token, notice_seconds=seconds)).status_code == 400
    assert (await send(hub, token, now=True)).status_code == 400


async def test_a_dry_run_changes_nothing(
    hub: Hub, embedded: Embedded, agent: AgentByHand, capsys: pytest.CaptureFixture[str]
) -> None:
    token = await hub.user_token("ann")
    assert await interrupt(hub, token) == WOULD_INTERRUPT
    assert f"reclaim the spot instance {agent.instance_id} (g4dn" in capsys.readouterr().out
    assert await notice_of(embedded, agent.instance_id) is None


async def test_wrong_use(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert await interrupt(hub, "") == WRONG
    assert await interrupt(hub, "x", url="hub.example.org") == WRONG
    assert await interrupt(hub, "x") == REFUSED
    assert await interrupt(hub, "x", url="http://127.0.0.1:1") == REFUSED
    assert "does not answer" in capsys.readouterr().err


async def test_without_the_role_aws_refuses(
    hub: Hub, agent: AgentByHand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await interrupt(hub, await hub.user_token("ann"), yes=True) == REFUSED
    assert "cannot be assumed (ValidationException)" in capsys.readouterr().err
    assert await rehearsed(hub, "ann") == 0


async def test_a_rehearsal_gives_the_notice_of_aws(
    hub: Hub, embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    trust = {"Version": "2012-10-17", "Statement": []}
    iam = embedded.client("iam")
    await asyncio.to_thread(
        iam.create_role, RoleName=ROLE, AssumeRolePolicyDocument=json.dumps(trust)
    )
    path = PATH.replace("ann", "bob")
    async with server_by_hand(hub, "bob") as agent:
        token = await hub.user_token("bob")
        assert await interrupt(hub, token, user="bob", yes=True) == 0
        assert f"EC2 reclaims the spot instance {agent.instance_id}" in capsys.readouterr().out
        again = await send(hub, token, path)
        assert again.status_code == 409
        assert "was interrupted on purpose before" in again.text
        assert (await send(hub, token, path, dry_run=True)).status_code == 409
        notice = await notice_of(embedded, agent.instance_id)
    assert await rehearsed(hub, "bob") == pytest.approx(0.2)
    assert notice is not None
    assert notice["action"] == "terminate"
    templates = await asyncio.to_thread(embedded.client("fis").list_experiment_templates)
    assert templates["experimentTemplates"] == [], "the template is deleted"
    await asyncio.to_thread(iam.delete_role, RoleName=ROLE)
