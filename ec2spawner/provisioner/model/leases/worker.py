"""The lease of a worker of a cluster.

It is a lease like a server's, with the id of its *head*, the server's lease. JupyterHub knows
nothing of it.
"""

from __future__ import annotations

from datetime import datetime

from ....core.names import lease_id
from ....core.sleep.rules import SleepRules
from ....wire import IdlePolicy
from ..launch_key import launch_key_of
from .cluster import Cluster
from .lease import Lease, LeaseState


def worker_server(server: str, number: int) -> str:
    """In the place of a server's name, in a worker's lease and in the ledger: `lab/2` is the second
    worker of the server `lab`, and no server can be called so."""
    return f"{server}/{number}"


def worker_number(lease: Lease) -> int:
    """Which worker of its cluster a lease is, from 1."""
    return int(lease.server.rpartition("/")[2])


def head_server(lease: Lease) -> str:
    """The name of the server that a worker works for; empty for the default server."""
    return lease.server.rpartition("/")[0]


def new_worker(head: Lease, cluster: Cluster, number: int, now: datetime) -> Lease:
    """A worker's lease on the waiting list: of the server's owner, charged to its payer.

    It has no home of its own and no idle stop, and no other instance continues it: the cluster
    decides how many workers there are.
    """
    return Lease(
        lease_id=lease_id(),
        user=head.user,
        server=worker_server(head.server, number),
        profile=cluster.profile,
        profile_name=cluster.profile_name,
        spec=cluster.spec,
        launch_key=launch_key_of(cluster.spec),
        home_kind="none",
        home_gib=0,
        idle=without_stop(head.idle),
        state=LeaseState.WAITING,
        requested_at=now,
        sealed_start=cluster.sealed_start,
        image=head.image,
        mounts=cluster.mounts,
        payer=head.payer,
        sleep=SleepRules(after_interruption="stop"),
        head=head.lease_id,
    )


def without_stop(policy: IdlePolicy) -> IdlePolicy:
    """What counts as work stays the server's policy; when a worker or a run ends is decided by its
    cluster or its queue."""
    never = {
        "server_seconds": 0.0,
        "kernel_seconds": 0.0,
        "max_age_seconds": 0.0,
        "user_may_extend_seconds": 0.0,
        "working_hours": None,
        "user_server_min_seconds": 0.0,
        "user_server_max_seconds": 0.0,
        "user_server_seconds": None,
    }
    return policy.model_copy(update=never)
