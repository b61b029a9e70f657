"""The log of API calls that `GET /embedded/calls` shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

KEPT = 20_000
"""Calls."""


class Calls:
    """Every API call received, with time, action and outcome; the latest `KEPT` are retained."""

    def __init__(self) -> None:
        self._calls: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def received(self, action: str) -> dict[str, Any]:
        """Log a call without a result. The caller sets its `outcome` when it is known."""
        call = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "action": action,
            "outcome": "under way",
        }
        self._calls.append(call)
        return call

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._calls)
