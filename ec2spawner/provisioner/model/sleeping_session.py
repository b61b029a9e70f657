"""What was saved last of a server's kernels, as it is stored and shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...wire import SavedSession


@dataclass(frozen=True, slots=True)
class SleepingSession:
    """The summary of a saved session. Its values are in the home, where only its owner reads
    them."""

    user: str
    server: str
    lease_id: str
    """Of the lease that ended with it."""
    session: SavedSession
    """As its agent reported it: `slept_at` is clamped to the hub's clock, nothing else is
    verified."""
    expires_at: datetime
    """UTC. From then on it is not offered, and the owner's next start deletes its files."""
    woken_at: datetime | None = None
    """When a server that woke it became ready; None while it sleeps."""
