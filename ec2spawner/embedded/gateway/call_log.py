"""The log of API calls that `GET /embedded/calls` shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

KEPT = 20_000


class Calls:
    """Every API call received: when, which, and how it went; the oldest are forgotten."""

    def __init__(self) -> None:
        self._calls: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def received(self, action: str) -> dict[str, Any]:
        """Log a call as under way. The caller sets `outcome` when it knows it."""
        call = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "action": action,
            "outcome": "under way",
        }
        self._calls.append(call)
        return call

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._calls)
