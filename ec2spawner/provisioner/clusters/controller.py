"""Keeps the workers of each cluster at the number that its user wants, and ends them with it.

Level-triggered, as every controller: a worker whose server has ended is ended by the first pass
that sees it, whatever ended the server, and whether this process or an earlier one did.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from ...core.cluster_size import (
    MAX_FAILURES,
    PAUSE,
    WorkerNow,
    idle_at,
    idle_seconds,
    missing,
    surplus,
    was_of_use,
)
from ...core.limits.words import short_refusal
from ...core.text.durations import in_words
from ...wire import Stop
from ..lifecycle.heartbeat import policy_of
from ..limits.admission import Admission, LimitReached
from ..model.leases.cluster import Cluster
from ..model.leases.lease import LIVE, Lease, LeaseState
from ..model.leases.worker import worker_number
from ..offers.market import MarketData
from ..state.instances.abandoned_starts import BY_USER_OF_SERVER
from ..state.state import State
from ..store.store import StoreError
from .attempts import Attempts
from .worker_requests import request_workers

log = logging.getLogger(__name__)

HEAD_ENDED: Final = Stop(reason="hub", message="The server that it worked for has ended")

NOT_WANTED: Final = Stop(reason="user", message="Its cluster became smaller")


@dataclass(slots=True)
class ClusterWorkers:
    """Adds, ends and replaces workers."""

    state: State
    market: MarketData
    admission: Admission
    _attempts: dict[str, Attempts] = field(default_factory=dict)
    """By the id of the server's lease."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: a change that cannot be stored yet holds nevertheless."""
        heads: list[Lease] = []
        workers: dict[str, list[Lease]] = {}
        for lease in self.state.leases.open():
            if lease.head:
                workers.setdefault(lease.head, []).append(lease)
            elif lease.cluster is not None:
                heads.append(lease)
        living = {head.lease_id for head in heads if head.state in LIVE}
        await self._end_of_ended(workers, living)
        for head in heads:
            if head.state is LeaseState.READY:
                await self._fit_stored(head.lease_id, now)
        self._attempts = {x: tries for x, tries in self._attempts.items() if x in living}

    async def _end_of_ended(self, workers: Mapping[str, Sequence[Lease]], living: set[str]) -> None:
        for head_id, leases in workers.items():
            if head_id in living:
                continue
            head = self.state.leases.remembered(head_id)
            stop = head.stop if head is not None else None
            by_user = stop is not None and stop.reason in BY_USER_OF_SERVER
            for lease in leases:
                if lease.state in LIVE:
                    await self.state.end(lease.lease_id, HEAD_ENDED, by_user=by_user)

    async def _fit_stored(self, head_id: str, now: datetime) -> None:
        try:
            await self._fit(head_id, now)
        except StoreError as error:  # the next pass stores what has changed
            log.error("A change of the cluster of %s is not stored yet: %s", head_id, error)

    async def _fit(self, head_id: str, now: datetime) -> None:
        """As the cluster is by now: its user may have changed it while another one was written."""
        head = self.state.leases.get(head_id)
        if head is None or head.state is not LeaseState.READY or head.cluster is None:
            return
        cluster = head.cluster
        leases = self.state.leases.workers_of(head_id)
        live = [self._now(lease) for lease in leases if lease.state in LIVE]
        seconds = idle_seconds(policy_of(head).server_seconds, cluster.idle_seconds)
        if (at := idle_at(live, seconds)) is not None and at <= now:
            await self._stop_idle(head, cluster, live, seconds)
            return
        if count := missing(live, cluster.workers):
            await self._ask(head, cluster, count)
            return
        for worker in surplus(live, cluster.workers):
            await self.state.end(worker.lease_id, NOT_WANTED)
        if len(live) > cluster.workers:
            return
        if all(worker.is_ready for worker in live):
            self._attempts.pop(head.lease_id, None)

    def _now(self, lease: Lease) -> WorkerNow:
        contact = self.state.leases.contact(lease.lease_id)
        is_ready = lease.state is LeaseState.READY
        return WorkerNow(
            lease_id=lease.lease_id,
            number=worker_number(lease),
            is_ready=is_ready,
            idle_since=contact.idle_since if is_ready else None,
            is_leaving=contact.interruption_at is not None,
            is_heard=contact.heartbeats > 0,
        )

    async def _stop_idle(
        self, head: Lease, cluster: Cluster, workers: Sequence[WorkerNow], seconds: float
    ) -> None:
        words = f"Nothing had run on the cluster for {in_words(seconds)}"
        # After a store that did not take it, this is the second time, and there are 0 already.
        before = cluster.offered_workers
        stopped = replace(cluster, workers=0, workers_before=before, stopped_because=words)
        await self.state.leases.change(head.lease_id, cluster=stopped)
        for worker in workers:
            await self.state.end(worker.lease_id, Stop(reason="idle", message=words))

    async def _ask(self, head: Lease, cluster: Cluster, count: int) -> None:
        tries = self._attempts.setdefault(head.lease_id, Attempts())
        if not tries.is_due(self.state.clock.uptime()):
            return
        if failed_in_a_row(self.state, head) >= MAX_FAILURES:
            return
        if self.market.offers.awaits_prices(cluster.spec):
            return
        tries.begin(self.state.clock.uptime(), PAUSE)
        try:
            await request_workers(
                self.state, self.market, self.admission, head.lease_id, cluster, count
            )
        except LimitReached as error:
            log.info("No worker for %s: %s", head.lease_id, short_refusal(error.refusal))


def failed_in_a_row(state: State, head: Lease) -> int:
    """How many of the last workers of a server had an instance and failed before they had been of
    use, since its user asked for workers last."""
    first = head.cluster.first_number if head.cluster else 0
    count = 0
    for lease in sorted(state.leases.workers_of(head.lease_id), key=worker_number, reverse=True):
        if worker_number(lease) < first or was_of_use(lease.ready_at, lease.stop_requested_at):
            break
        if lease.state not in LIVE and lease.segments and lease.stop is not None:
            count += lease.stop.reason == "failed"
    return count
