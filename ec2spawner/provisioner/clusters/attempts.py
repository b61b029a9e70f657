"""Attempts at the same for one cluster, with growing pauses in between."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.backoff import Backoff


@dataclass(slots=True)
class Attempts:
    """How the last attempts went. Whoever succeeds forgets them."""

    failures: int = 0
    """In a row. One that is under way counts until it succeeds."""
    not_before: float = 0.0
    """When the next one may begin, in seconds of uptime."""

    def is_due(self, uptime: float) -> bool:
        """Whether another attempt may begin now."""
        return uptime >= self.not_before

    def begin(self, uptime: float, pause: Backoff) -> None:
        """Another attempt begins now."""
        self.failures += 1
        self.not_before = uptime + pause.pause(self.failures)
