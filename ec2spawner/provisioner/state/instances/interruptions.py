"""Spot instances that EC2 has reclaimed lately: one record for the metric and for the alarm."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from ....core.alarms.account_rules import MAX_INTERRUPTIONS, Interruption
from ....wire import Market, Stop
from ...model import metrics
from ...model.cloud.instance import Instance
from ...model.leases.lease import Lease

INTERRUPTED: Final = "interruption"
"""`Stop.reason` of a server whose instance EC2 has reclaimed."""


AWS_STOPS: Final = Stop(reason=INTERRUPTED, message="AWS stops its machine, as it had announced")

AWS_REBOOTS: Final = Stop(
    reason=INTERRUPTED, message="AWS reboots its machine, as it had announced"
)

_SCHEDULED: Final = frozenset({AWS_STOPS.message, AWS_REBOOTS.message})


class Interruptions:
    """The last `MAX_INTERRUPTIONS`, each instance once: a notice, a listing and the end of its
    server may all report it.

    In memory. A restart of the hub restores those that ended a server within the last day (`load`).
    Those that hit a start or an instance without a server are not stored.
    """

    def __init__(self) -> None:
        self._found: dict[str, Interruption] = {}
        """By instance id, in the order of their records."""
        self.rehearsed: set[str] = set()
        """Ids of instances that were interrupted on purpose: EC2 did not need their capacity."""

    def load(self, leases: Iterable[Lease], rehearsed: Iterable[str]) -> None:
        """Restore what an earlier process has counted, from leases that ended by it."""
        self.rehearsed.update(rehearsed)
        for lease in leases:
            at = lease.stop_requested_at or lease.ended_at
            found = None if at is None else interruption_of(lease, at)
            if found is not None and found.instance_id not in self.rehearsed:
                self._found[found.instance_id] = found

    def record(self, found: Interruption) -> None:
        """Count it, unless this instance is counted already, or it was interrupted on purpose."""
        if found.instance_id in self._found or found.instance_id in self.rehearsed:
            return
        metrics.INTERRUPTIONS.labels(found.instance_type).inc()
        self._found[found.instance_id] = found
        if len(self._found) > MAX_INTERRUPTIONS:
            del self._found[next(iter(self._found))]

    def knows(self, instance_id: str) -> bool:
        """Whether this instance was reclaimed, or will be."""
        return instance_id in self._found

    def since(self, instant: datetime) -> list[Interruption]:
        """Those after that instant."""
        return [each for each in self._found.values() if each.at > instant]


def interruption_of(lease: Lease, at: datetime) -> Interruption | None:
    """The interruption that ended a lease or ends it; None where something else does, such as the
    end of a Capacity Block or a scheduled event."""
    if lease.stop is None or lease.stop.reason != INTERRUPTED or not lease.segments:
        return None
    last = lease.segments[-1]
    if last.market is not Market.SPOT or lease.stop.message in _SCHEDULED:
        return None
    return Interruption(last.instance_id, last.instance_type, last.zone, at)


def interruption_seen(instance: Instance, now: datetime) -> Interruption:
    """Of an instance that EC2 has reclaimed: when EC2 says it ended, or else now."""
    at = min(instance.ended_at or now, now)
    return Interruption(instance.instance_id, instance.instance_type, instance.zone, at)
