"""Spot events that EventBridge sends to an SQS queue reach the provisioner, and leave the queue."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import boto3
import pytest

from ec2spawner.aws.monitoring.spot_event_queue import SpotEventQueue
from ec2spawner.core.sleep.spot_events import NOTICE, WARNING
from ec2spawner.hub.app.interruption_queue import InterruptionQueue
from tests.unit.provisioner.world import World, until

from .services import aws

REGION = "us-east-1"
EMPTY = {"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0"}


def warning(world: World, instance_id: str) -> str:
    event = {
        "detail-type": WARNING,
        "source": "aws.ec2",
        "time": world.clock().isoformat(),
        "detail": {"instance-id": instance_id, "instance-action": "terminate"},
    }
    return json.dumps(event)


async def test_events_of_the_queue_are_passed_on_and_every_message_is_deleted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    warned = [await world.ready(user) for user in ("ada", "bea")]
    lease, _ = await world.ready("cid")
    contacts = [world.provisioner._state.leases.contact(each.lease_id) for each, _ in warned]
    with aws() as endpoint:
        sqs: Any = boto3.client("sqs", region_name=REGION, endpoint_url=endpoint)
        url = (await asyncio.to_thread(sqs.create_queue, QueueName="interruptions"))["QueueUrl"]

        async def left() -> Any:
            found = await asyncio.to_thread(
                sqs.get_queue_attributes, QueueUrl=url, AttributeNames=[*EMPTY]
            )
            return found["Attributes"]

        queue = InterruptionQueue(SpotEventQueue(url, REGION, endpoint), world.provisioner)
        receiving = asyncio.create_task(queue.run())
        bodies = [warning(world, agent.instance_id) for _, agent in warned]
        for body in ("no event", "no event", bodies[0], *bodies):
            await asyncio.to_thread(sqs.send_message, QueueUrl=url, MessageBody=body)
        await until(lambda: all(x.interruption_at for x in contacts), "both to be announced")
        async with asyncio.timeout(30):
            while await left() != EMPTY:
                await asyncio.sleep(0.01)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    assert {each.interruption_at for each in contacts} == {world.clock() + NOTICE}
    assert world.provisioner._state.leases.contact(lease.lease_id).interruption_at is None
    assert caplog.text.count("A message of the queue of spot events is") == 1
