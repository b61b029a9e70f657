"""The pool's instances that cost money, also those that no listing shows yet. Reads the state."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.cloud import GONE, Instance
from ..state.state import State


def own_instances(state: State) -> Iterator[Instance]:
    """Those without a lease, in any state but ended: EC2's listings lag its launches."""
    leased = {lease.instance_id for lease in state.leases.open()} | state.leases.served
    for instance in state.running():
        is_here = instance.state not in GONE and instance.instance_id not in leased
        if is_here and state.pool.is_of_pool(instance):
            yield instance
