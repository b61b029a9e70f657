"""The pool's instances that cost money, also those that no listing shows yet. Reads the state."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.cloud.instance import GONE, STOPPED, Instance
from ..state.state import State


def own_instances(state: State) -> Iterator[Instance]:
    """Those without a lease that run or are about to: EC2's listings lag its launches.

    Not what was started again for a lease: that one pays.
    """
    in_places = {each.instance_id for each in state.stock.in_places}
    for_leases = {
        kept.instance_id
        for kept in state.retained.of_pool()
        if kept.asked_at is not None and kept.instance_id not in in_places
    }
    leased = {lease.instance_id for lease in state.leases.open()} | state.leases.served
    for instance in state.running():
        is_here = instance.state not in GONE | STOPPED and instance.instance_id not in leased
        if is_here and instance.instance_id not in for_leases and state.pool.is_of_pool(instance):
            yield instance
