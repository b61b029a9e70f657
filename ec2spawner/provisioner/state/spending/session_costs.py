"""What servers have cost since their users started them, over all instances that they moved to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Final

from ....core.ledger.cost import known_usd, saved_usd, usd
from ....core.ledger.cost_rows import Purpose
from ....core.ledger.session_cost import NOTHING, OnDemand, SessionCost
from ...model.leases.costs import cost_by_purpose
from ...model.leases.lease import Lease, Snapshot
from ...model.leases.workers_cost import nano_usd
from ...runtime.clock import Clock
from ..lease_registry import LeaseRegistry

ANY_ZONE: Final = UTC
"""Amounts by purpose are the same whichever zone their days are of."""


class SessionCosts:
    """Sums up the leases that continue each other, and the workers of their clusters.

    A lease in memory is counted as it is: its price may be known only later, and EC2 may not charge
    it. One that leaves memory is added to a sum of the lease under which its server continues. A
    new process of the hub makes these sums from what the store has.
    """

    def __init__(self, leases: LeaseRegistry, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        self._left_memory: dict[str, SessionCost] = {}
        """By lease id: what its server has cost that is not in memory any more."""
        self._earlier_ids: dict[str, tuple[str, ...]] = {}
        """By lease id: the leases of its server that have left memory; their workers may have
        not."""
        self._present: dict[str, str] = {}
        """By id of such a lease: the lease under which its server continues."""

    def load(self, snapshot: Snapshot) -> None:
        """Take over what an earlier process has stored."""
        ended = {each.lease_id: each for each in snapshot.continued}
        for lease in snapshot.leases:
            cost = _of_workers(*snapshot.ended_workers.get(lease.lease_id, (0, 0)))
            ids: list[str] = []
            # The start of a move that was given up may still be open, beside what continues it now.
            is_given_up = self._leases.successor(lease.continues) is not lease
            previous = None if is_given_up else ended.get(lease.continues)
            while previous is not None:
                workers = snapshot.ended_workers.get(previous.lease_id, (0, 0))
                cost = self.of_lease(previous) + _of_workers(*workers) + cost
                ids.append(previous.lease_id)
                previous = ended.get(previous.continues)
            self._add(lease.lease_id, cost, tuple(ids))

    def earlier(self, lease: Lease) -> SessionCost:
        """What the server has cost before it continued under this lease, with all of its workers
        that memory does not know as those of this lease."""
        if lease.continues and not lease.taken_over.is_handed_over:
            return NOTHING
        cost = self._left_memory.get(lease.lease_id, NOTHING)
        for head_id in self._earlier_ids.get(lease.lease_id, ()):
            cost += self._workers_in_memory(head_id)
        previous = self._leases.get(lease.continues)
        if previous is None:
            return cost
        workers = self._workers_in_memory(previous.lease_id)
        return self.earlier(previous) + self.of_lease(previous) + workers + cost

    def of_lease(self, lease: Lease, on_demand: OnDemand | None = None) -> SessionCost:
        """The cost of one lease without its workers; `on_demand` by default as the ledger has
        recorded it."""
        segments, now = lease.segments, self._clock.now()
        split = cost_by_purpose(lease, now, ANY_ZONE)
        listed = {each.instance_type: each.on_demand_usd_per_hour for each in segments}
        return SessionCost(
            since=segments[0].start if segments else lease.requested_at,
            usd=usd(segments, now),
            known_usd=known_usd(segments, now),
            used_usd=split[Purpose.USED],
            idle_usd=split[Purpose.IDLE],
            saved_usd=saved_usd(segments, now, on_demand or listed.get),
        )

    def forget(self, ended: Lease) -> None:
        """Keep the cost of an ended lease that leaves memory, as long as its server continues."""
        if ended.head:
            head_id = self._present.get(ended.head, ended.head)
            if self._leases.get(head_id) is not None:
                self._add(head_id, _of_workers(*nano_usd([ended], self._clock.now())))
            return
        before = self._left_memory.pop(ended.lease_id, NOTHING)
        ids = self._earlier_ids.pop(ended.lease_id, ())
        for each in ids:
            del self._present[each]
        later = self._leases.successor(ended.lease_id)
        if later is None or not later.taken_over.is_handed_over:
            return
        later_id = self._present.get(later.lease_id, later.lease_id)
        if self._leases.get(later_id) is not None:
            cost = before + self.of_lease(ended)
            self._add(later_id, cost, (*ids, ended.lease_id))

    def _add(self, lease_id: str, cost: SessionCost, earlier_ids: tuple[str, ...] = ()) -> None:
        if cost != NOTHING:
            known = self._left_memory.get(lease_id, NOTHING)
            self._left_memory[lease_id] = cost + known
        if earlier_ids:
            self._earlier_ids[lease_id] = (*self._earlier_ids.get(lease_id, ()), *earlier_ids)
            self._present |= dict.fromkeys(earlier_ids, lease_id)

    def _workers_in_memory(self, head_id: str) -> SessionCost:
        return _of_workers(*nano_usd(self._leases.workers_of(head_id), self._clock.now()))


def _of_workers(known_nano_usd: int, unknown: int) -> SessionCost:
    return replace(NOTHING, workers_nano_usd=known_nano_usd, workers_unknown=unknown)
