"""SQS is moto's, but for long polls: one would hold moto, which answers one call at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from ..api.moto_backend import Moto

PAUSE: Final = 0.2
"""Seconds between two receptions of a long poll."""

MAX_WAIT: Final = 20.0
"""Seconds, SQS's own limit of WaitTimeSeconds."""


class Queues:
    """Answers ReceiveMessage, by as many short polls as its wait allows; the rest is moto's."""

    def __init__(self, moto: Moto) -> None:
        self._moto = moto

    async def answer(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Messages, or none after the wait. None for errors, in moto's words, and other actions."""
        if action != "ReceiveMessage":
            return None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(float(asked.get("WaitTimeSeconds") or 0), MAX_WAIT)
        body = json.dumps({**asked, "WaitTimeSeconds": 0}).encode()
        headers = {
            **self._moto.headers("sqs"),
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": "AmazonSQS.ReceiveMessage",
        }
        while True:
            answer = await self._moto.forward(body, headers)
            if answer.status >= 300:
                return None
            found: dict[str, Any] = json.loads(answer.body or b"{}")
            if found.get("Messages") or loop.time() >= deadline:
                return found
            await asyncio.sleep(PAUSE)
