"""ClientToken: a repeated call with the same token gets the same response, with no new effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..api.protocol import EC2Error

ACTIONS = frozenset(
    {"RunInstances", "CopyVolumes", "CreateCapacityReservation", "CreateFleet", "CreateVolume"}
)

Answer = dict[str, Any]


@dataclass
class _Call:
    parameters: Mapping[str, Any]
    answer: asyncio.Task[Answer]


class ClientTokens:
    """Responses by action and token. A failed call is forgotten and may be repeated."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], _Call] = {}

    async def once(
        self, action: str, parameters: Mapping[str, Any], call: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """The response of `call`, or of the same call before it.

        Raises `IdempotentParameterMismatch` when the token was used with other parameters. The
        call continues when its caller disconnects, as one that has reached EC2 does.
        """
        token = parameters.get("ClientToken")
        if action not in ACTIONS or not token:
            return await call()
        if len(token) > 64:
            raise EC2Error("InvalidParameterValue", "ClientToken has at most 64 characters.")
        compared = {name: value for name, value in parameters.items() if name != "ClientToken"}
        key = (action, token)
        before = self._calls.get(key)
        if before is None:
            task = asyncio.ensure_future(call())
            self._calls[key] = before = _Call(compared, task)
            task.add_done_callback(lambda done: self._forget_failure(key, done))
        elif before.parameters != compared:
            raise EC2Error(
                "IdempotentParameterMismatch",
                "The request uses the same client token as a previous, but non-identical request.",
            )
        return await asyncio.shield(before.answer)

    async def close(self) -> None:
        """Wait for current calls."""
        running = [call.answer for call in self._calls.values() if not call.answer.done()]
        await asyncio.gather(*running, return_exceptions=True)

    def _forget_failure(self, key: tuple[str, str], done: asyncio.Task[Answer]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._calls.pop(key, None)
