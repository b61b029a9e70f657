"""Spot events that reach the hub by itself, not through an agent."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ...core.sleep.spot_events import SpotEvent
from ..state.state import State

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SpotEvents:
    """Records them with the lease that the instance serves."""

    state: State

    def happened(self, event: SpotEvent) -> None:
        """Take an event in; the same one again changes nothing.

        Those of instances that serve no lease of this hub are ignored: the rule of EventBridge is
        for the whole account.
        """
        lease = self.state.leases.of_instance(event.instance_id)
        if lease is None:
            return
        if event.kind == "rebalance":
            log.info("%s: AWS recommends to leave %s", lease.lease_id, event.instance_id)
            return
        contact = self.state.leases.contact(lease.lease_id)
        contact.notices = contact.notices.happened(event)
        before = contact.interruption_at
        contact.interruption_at = contact.notices.ends_at(self.state.clock.now())
        if before is None and contact.interruption_at is not None:
            log.warning("%s: AWS reclaims %s", lease.lease_id, event.instance_id)
            self.state.leases.announce(lease.lease_id)
            self.state.wake()
