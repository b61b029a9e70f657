"""Spot events through SQS: EventBridge's messages, sent by hand, reach the hub's figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.embedded.iam.hub_policy import interruption_statements
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import AgentByHand, server_by_hand, silence_agents

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "ec2spawner-interruptions-demo"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    silence_agents(running)
    account, region = running.described["account"], running.described["region"]
    await running.allow(*interruption_statements(region, account, "demo"))
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def queue(embedded: Embedded) -> AsyncIterator[str]:
    sqs = embedded.client("sqs")
    made = await asyncio.to_thread(sqs.create_queue, QueueName=QUEUE)
    url = str(made["QueueUrl"])
    yield url
    # Ends the hub's last long poll, for which the embedded EC2 would wait before it ends.
    await asyncio.to_thread(sqs.send_message, QueueUrl=url, MessageBody="the end")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(
    embedded: Embedded, queue: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("hub")
    config = demo_config(
        directory,
        f"c.EC2Spawner.interruption_queue = {queue!r}",
        "c.EC2Spawner.interruption = {'then': 'stop'}",
    )
    running = Hub(directory, embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(hub: Hub) -> AsyncIterator[AgentByHand]:
    async with server_by_hand(hub, "ann") as running:
        yield running


async def announced(hub: Hub, token: str) -> str | None:
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers={"Authorization": f"token {token}"}, timeout=60
    ) as client:
        reply = await client.get("/hub/api/ec2/instances")
    [server] = reply.json()["servers"]
    at: str | None = server["interruption_at"]
    return at


def warning(instance_id: str) -> str:
    event = {
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2",
        "time": datetime.now(UTC).isoformat(),
        "detail": {"instance-id": instance_id, "instance-action": "terminate"},
    }
    return json.dumps(event)


async def test_an_interruption_is_known_and_every_message_is_deleted(
    hub: Hub, embedded: Embedded, queue: str, agent: AgentByHand
) -> None:
    await hub.add_user("admin")
    token, sqs = await hub.user_token("admin"), embedded.client("sqs")
    assert await announced(hub, token) is None

    async def send(body: str) -> None:
        await asyncio.to_thread(sqs.send_message, QueueUrl=queue, MessageBody=body)

    for body in ("no event", "no event", warning("i-0123456789abcdef0")):
        await send(body)
    await send(warning(agent.instance_id))
    await send(warning(agent.instance_id))

    async def is_announced() -> bool:
        return await announced(hub, token) is not None

    await until(is_announced, 30, "the hub to read the queue")
    await agent.heartbeat()
    assert await is_announced(), "its agent has not seen it yet"

    async def is_empty() -> bool:
        names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = await asyncio.to_thread(
            sqs.get_queue_attributes, QueueUrl=queue, AttributeNames=names
        )
        return set(found["Attributes"].values()) == {"0"}

    await until(is_empty, 30, "the messages to be deleted")
    assert hub.log.read_text().count("A message of the queue of spot events is") == 1
