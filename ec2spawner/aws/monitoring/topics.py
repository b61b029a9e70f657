"""SNS topics: publish a message, with the hub's own credentials."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from ..calls.client import Client

MAX_SUBJECT: Final = 100
"""Characters of a subject, from SNS's reference of Publish."""

_NOT_IN_SUBJECT: Final = re.compile(r"[^\x20-\x7e]+")
"""A subject is ASCII text without control characters, or SNS refuses the message."""


class Topic:
    """One SNS topic, in its own region."""

    def __init__(self, arn: str, endpoint_url: str | None = None) -> None:
        """`endpoint_url` selects an SNS other than AWS's."""
        self.arn = arn
        self._client = Client(arn.split(":")[3], endpoint_url)

    async def publish(self, message_id: str, subject: str, message: str) -> None:
        """Publish a message. A FIFO topic drops one whose id it has seen within five minutes.

        In one attempt: where the response is lost, the caller decides. Raises `CloudError`.
        """
        fifo = {
            "MessageGroupId": "ec2spawner",
            "MessageDeduplicationId": hashlib.sha256(message_id.encode()).hexdigest(),
        }
        await self._client.call(
            "publish",
            lambda _: None,
            service="sns",
            attempts=1,
            TopicArn=self.arn,
            Subject=_NOT_IN_SUBJECT.sub("?", subject).strip()[:MAX_SUBJECT] or "ec2spawner",
            Message=message,
            **(fifo if self.arn.endswith(".fifo") else {}),
        )

    async def close(self) -> None:
        """Start no more calls."""
        await self._client.close()
