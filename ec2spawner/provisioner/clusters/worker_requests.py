"""Puts workers on the waiting list, all together or none."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ...wire import Step
from ..instances.demand import wake_claims_for
from ..limits.admission import Admission
from ..model.leases.cluster import Cluster
from ..model.leases.lease import Lease, StepEvent
from ..model.leases.worker import new_worker
from ..offers.market import MarketData
from ..state.state import State


async def request_workers(
    state: State,
    market: MarketData,
    admission: Admission,
    head_id: str,
    cluster: Cluster,
    count: int,
) -> None:
    """Let a server have this cluster, and `count` workers more: one launch call buys them all.

    The cluster and the workers are in memory before anything is awaited, so that no pass sees one
    without the other. Raises `LimitReached` where not all are affordable, and then nothing has
    changed; and `StoreError`, although what was changed holds: the next pass stores it.
    """
    head = state.leases.get(head_id)
    assert head is not None
    market.want(cluster.spec.instance_types)
    workers = admission.admit_together(_new_workers(state, head, cluster, count))
    # Stored first: a hub that is killed in between must not use a number twice.
    cluster = replace(cluster, last_number=cluster.last_number + count)
    stored = [state.leases.begin_changing(head_id, cluster=cluster)]
    stored += [_begin(state, worker) for worker in workers]
    await asyncio.gather(*map(asyncio.shield, stored))
    for worker in workers:
        wake_claims_for(state, worker)
    state.wake()


def check_workers(
    state: State, admission: Admission, head: Lease, cluster: Cluster, count: int
) -> None:
    """Raise `LimitReached` where `request_workers` would now."""
    admission.check_together(_new_workers(state, head, cluster, count))


def _new_workers(state: State, head: Lease, cluster: Cluster, count: int) -> list[Lease]:
    now, last = state.clock.now(), cluster.last_number
    begun = StepEvent(Step.REQUEST, now, "Looking for a machine")
    return [
        replace(new_worker(head, cluster, last + place, now), events=(begun,))
        for place in range(1, count + 1)
    ]


def _begin(state: State, worker: Lease) -> asyncio.Task[None]:
    state.leases.times.requested(worker)
    return state.leases.begin_adding(worker)
