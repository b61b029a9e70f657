"""The SQS queue to which EventBridge sends spot events: receive and delete messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..calls.client import Answer, Client, Timeouts

WAIT: Final = 20
"""Seconds of a long poll, SQS's longest: fewer calls, and a message is answered at once."""

TIMEOUTS: Final = Timeouts(read=WAIT + 10.0, launch_read=WAIT + 10.0, total=WAIT + 20.0)

MAX_MESSAGES: Final = 10
"""In one answer, from SQS's reference of ReceiveMessage."""

_AT_AWS: Final = re.compile(r"https://sqs\.([a-z0-9-]+)\.")


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """One message; it comes again unless it is deleted."""

    id: str
    receipt: str
    body: str


class SpotEventQueue:
    """One queue, in its own region."""

    def __init__(self, url: str, region: str, endpoint_url: str | None = None) -> None:
        """`region` is the hub's, for an address that names none."""
        self.url = url
        self._client = Client(region_of(url) or region, endpoint_url, TIMEOUTS)

    async def receive(self) -> Sequence[QueueMessage]:
        """Wait up to `WAIT` seconds for messages. Raises `CloudError`."""
        return await self._client.call(
            "receive_message",
            _messages,
            service="sqs",
            attempts=1,
            QueueUrl=self.url,
            MaxNumberOfMessages=MAX_MESSAGES,
            WaitTimeSeconds=WAIT,
        )

    async def delete(self, messages: Sequence[QueueMessage]) -> None:
        """Delete messages; one that is not deleted comes again. Raises `CloudError`."""
        await self._client.call(
            "delete_message_batch",
            lambda _: None,
            service="sqs",
            QueueUrl=self.url,
            Entries=[
                {"Id": str(place), "ReceiptHandle": each.receipt}
                for place, each in enumerate(messages)
            ],
        )

    async def arn(self) -> str:
        """The queue's ARN, if it is there and may be read. Raises `CloudError`."""
        return await self._client.call(
            "get_queue_attributes",
            lambda answer: str(answer["Attributes"]["QueueArn"]),
            service="sqs",
            QueueUrl=self.url,
            AttributeNames=["QueueArn"],
        )

    async def close(self) -> None:
        """Start no more calls."""
        await self._client.close()


def region_of(url: str) -> str:
    """The region in a queue's URL; empty where it has none."""
    found = _AT_AWS.match(url)
    return found[1] if found else ""


def _messages(answer: Answer) -> list[QueueMessage]:
    return [
        QueueMessage(each["MessageId"], each["ReceiptHandle"], each["Body"])
        for each in answer.get("Messages", ())
    ]
