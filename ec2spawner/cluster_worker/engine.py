"""What a worker does with an engine, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aiohttp import web


class CannotJoin(Exception):
    """Why this instance cannot be a worker, in words for the notebook's user."""


class WorkerEngine(Protocol):
    """An engine's node on this instance. `join` once, then `wait`, `drain` and `leave`."""

    async def join(self) -> None:
        """Return once the node belongs to the cluster. Raises `CannotJoin`."""

    async def wait(self) -> str:
        """Return when the node has ended by itself; how, in words."""

    async def drain(self, seconds: float) -> None:
        """Take no new work: the instance is reclaimed in so many seconds. Never raises."""

    async def leave(self) -> None:
        """End the node and all its processes. Never raises."""

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """What the notebook can ask this engine. The service lets in only the cluster's token."""
