"""What was used and spent: of what has ended from the store, of what runs from memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .model.lease import Lease
from .store.store import Store


@dataclass(frozen=True, slots=True)
class Usage:
    """Reads; changes nothing. All methods may raise `StoreError`."""

    store: Store

    async def past_leases(self, user: str, before: datetime, limit: int) -> tuple[Lease, ...]:
        """The user's last `limit` leases that ended earlier than `before`, the newest first."""
        return await self.store.past_leases(user, before, limit)
