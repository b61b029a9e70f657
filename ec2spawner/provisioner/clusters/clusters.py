"""The cluster of a server, as its user asks for it and sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...core.cluster_size import MAX_FAILURES
from ...core.offers.purchase import Offer
from ..limits.admission import Admission
from ..model.cloud.launch import LaunchSpec
from ..model.leases.cluster import Cluster
from ..model.leases.lease import LIVE, OPEN, Lease, LeaseState
from ..model.leases.worker import worker_number
from ..offers.market import MarketData
from ..state.agent_contact import Contact
from ..state.state import State
from .controller import NOT_WANTED, failed_in_a_row
from .worker_requests import check_workers, request_workers


class CannotCluster(Exception):
    """A server cannot have this cluster now; the message is for its user."""


@dataclass(frozen=True, slots=True)
class WorkerLease:
    """One worker, and what its agent has reported last."""

    number: int
    lease: Lease
    contact: Contact


@dataclass(frozen=True, slots=True)
class Clusters:
    """Begins, changes and shows the clusters of servers. `ClusterWorkers` does the rest."""

    state: State
    market: MarketData
    admission: Admission

    async def begin(self, head_id: str, cluster: Cluster) -> None:
        """Let a running server have a cluster of `cluster.workers` workers. One of which nothing is
        left, or only workers that are ending, is replaced.

        Raises `CannotCluster` and `LimitReached`, and then nothing is bought; `StoreError`.
        """
        await self.admission.prepare(cluster.spec.instance_types)
        head = self._running(head_id)
        if any(each.lease.state in LIVE for each in self.workers(head)):
            raise CannotCluster("this server has a cluster already: stop it first, or scale it")
        await self._request(head_id, _in_place_of(head.cluster, cluster), cluster.workers)

    async def check_limits(self, head_id: str, cluster: Cluster) -> None:
        """Whether limits allow a server `cluster.workers` workers in all. Nothing is requested.

        Raises `CannotCluster`, and `LimitReached` where they do not.
        """
        await self.admission.prepare(cluster.spec.instance_types)
        head = self._running(head_id)
        live = sum(each.lease.state in LIVE for each in self.workers(head))
        more = max(cluster.workers - live, 0)
        check_workers(self.state, self.admission, head, cluster, more)

    async def scale(self, head_id: str, workers: int) -> None:
        """Let a server's cluster have so many workers. Raises as `begin`."""
        asked = self._running(head_id).cluster
        await self.admission.prepare(asked.spec.instance_types if asked else ())
        head = self._running(head_id)
        if head.cluster is None or not head.cluster.sealed_start:
            raise CannotCluster("this server has no cluster")
        live = sum(each.lease.state in LIVE for each in self.workers(head))
        last = head.cluster.last_number
        scaled = replace(
            head.cluster,
            workers=workers,
            workers_before=0,
            first_number=last + 1,
            stopped_because="",
        )
        await self._request(head_id, scaled, max(workers - live, 0))

    async def stop(self, head_id: str) -> None:
        """Let a server's cluster have no workers: all are ending when this returns. Raises
        `StoreError`."""
        head = self.state.leases.get(head_id)
        if head is None or head.cluster is None:
            return
        # Its user ends the engine as well: nothing is left that workers could join.
        stopped = replace(head.cluster.shape(), workers=0, workers_before=0, stopped_because="")
        await self.state.leases.change(head_id, cluster=stopped)
        # At once: a cluster that is begun next must not find workers of this one.
        for worker in self.workers(head):
            await self.state.end(worker.lease.lease_id, NOT_WANTED)

    async def _request(self, head_id: str, cluster: Cluster, count: int) -> None:
        await request_workers(self.state, self.market, self.admission, head_id, cluster, count)

    def _running(self, head_id: str) -> Lease:
        head = self.state.leases.get(head_id)
        if head is None or head.state is not LeaseState.READY:
            raise CannotCluster("this server does not run, or is being stopped")
        if head.head:
            raise CannotCluster("a worker has no cluster of its own")
        return head

    def workers(self, head: Lease) -> tuple[WorkerLease, ...]:
        """Those that have not ended, by number."""
        found = [
            WorkerLease(worker_number(lease), lease, self.state.leases.contact(lease.lease_id))
            for lease in self.state.leases.workers_of(head.lease_id)
            if lease.state in OPEN
        ]
        return tuple(sorted(found, key=lambda each: each.number))

    def last_failure(self, head: Lease) -> str:
        """Why the worker that ended last ended, in words, unless that was asked for; empty if none
        ended lately."""
        ended = [
            lease
            for lease in self.state.leases.workers_of(head.lease_id)
            if lease.state not in LIVE and lease.stop is not None
        ]
        last = max(ended, key=worker_number, default=None)
        if last is None or last.stop is None or last.stop.reason in {"user", "idle", "hub"}:
            return ""
        return last.stop.message

    def has_given_up(self, head: Lease) -> bool:
        """Whether no more workers are asked for, because the last ones could not join."""
        return failed_in_a_row(self.state, head) >= MAX_FAILURES

    def last_shape(self, head: Lease) -> Cluster | None:
        """The cluster that the server had before its last stop; None if it had none."""
        leases = self.state.leases
        before = leases.remembered(head.continues) or leases.last_ended(head.user, head.server)
        return before.cluster if before is not None else None

    def offers(self, spec: LaunchSpec) -> tuple[Offer, ...]:
        """What a worker could be bought as now, the first choice at the front."""
        return tuple(self.market.offers.all_for(spec))


def _in_place_of(before: Cluster | None, cluster: Cluster) -> Cluster:
    """Return the cluster with the numbers and the groups that the server's last one leaves."""
    if before is None:
        return replace(
            cluster,
            last_number=0,
            first_number=1,
            security_group="",
            placement_group="",
            groups_ready=False,
        )
    return replace(
        cluster,
        last_number=before.last_number,
        first_number=before.last_number + 1,
        security_group=before.security_group,
        placement_group=before.placement_group,
        groups_ready=before.groups_ready,
    )
