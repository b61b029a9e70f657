"""Starts whose users ended them before they got what was bought for them, and pay for it."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Final, NamedTuple

from ....core.ledger.lease_costs import HUBS, Account
from ....core.tags import INTENT, POOL
from ...model.cloud.instance import Instance
from ...model.launch_key import base_key_of
from ...model.leases.costs import account_of
from ...model.leases.lease import Intent, Lease
from .launches import Launches

MAX_STARTS: Final = 1000
"""So many are remembered. Their instances are found surplus within minutes: older starts have none.
"""

BY_USER: Final = frozenset({"user", "idle", "max-age"})
"""Reasons of an end that its user has caused."""

BY_USER_OF_SERVER: Final = BY_USER | {"failed", "lost"}
"""Reasons that its user may have caused once the server was ready: whoever is root on its instance
can end it so."""


class _Abandoned(NamedTuple):
    lease: Lease
    ended_at: datetime
    instance_id: str = ""
    """That was bought for it; empty until one is found."""


class AbandonedStarts:
    """Else whoever starts servers and cancels them again would buy at the hub's cost. What was
    bought for a start that the hub, EC2, an admin or the image has failed is the hub's.

    Instances are bought for all leases that want the same, so which start one was for is found out
    when nothing has used it: one of those that waited when it was bought, each for one instance. In
    memory: after a restart, what is still to be charged is the hub's.
    """

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._starts: deque[_Abandoned] = deque(maxlen=MAX_STARTS)
        """The oldest first."""

    def add(self, lease: Lease, now: datetime) -> None:
        """A lease that waits for an instance ends, as its user has caused."""
        self._starts.append(_Abandoned(lease, now))

    def account_of(self, instance: Instance) -> Account:
        """To whom the time of an instance is charged that no lease has had yet."""
        intent = self._launches.intents.get(instance.tags.get(INTENT, ""))
        if intent is None or POOL in intent.request.tags:
            return HUBS
        found = self._found(instance.instance_id, intent)
        return HUBS if found is None else account_of(found)

    def _found(self, instance_id: str, intent: Intent) -> Lease | None:
        base_key = base_key_of(intent.request.spec)
        for start in self._starts:
            if start.instance_id == instance_id:
                return start.lease
        for place, start in enumerate(self._starts):
            waited = start.lease.requested_at <= intent.created_at <= start.ended_at
            if not start.instance_id and waited and base_key_of(start.lease.spec) == base_key:
                self._starts[place] = start._replace(instance_id=instance_id)
                return start.lease
        return None
