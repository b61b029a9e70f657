"""Starts that a limit refused lately: they never became leases."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...core.limits.admission import Refusal
from ..model.lease import Lease

MAX: Final = 200
"""Beyond it the oldest are forgotten: a user can ask again and again."""


@dataclass(frozen=True, slots=True)
class DeniedStart:
    """A request that was refused."""

    at: datetime
    """UTC."""
    user: str
    server: str
    profile_name: str
    refusal: Refusal


class DeniedStarts:
    """In memory only: they are news, not history."""

    def __init__(self) -> None:
        self._found: deque[DeniedStart] = deque(maxlen=MAX)

    def record(self, lease: Lease, refusal: Refusal, at: datetime) -> None:
        """Remember that this start was refused."""
        denied = DeniedStart(at, lease.user, lease.server, lease.profile_name, refusal)
        self._found.append(denied)

    def since(self, instant: datetime) -> tuple[DeniedStart, ...]:
        """The last one of each server after that instant, the newest first."""
        last = {(each.user, each.server): each for each in self._found if each.at > instant}
        return tuple(sorted(last.values(), key=lambda each: each.at, reverse=True))
