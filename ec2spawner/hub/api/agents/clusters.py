"""The cluster of a running server, for its agent: the owner asks in the notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, get_args

from ....core.ledger.charges import rate
from ....core.ledger.cost import known_usd
from ....core.profiles.choices import OptionsRefused
from ....provisioner.clusters.clusters import CannotCluster, WorkerLease
from ....provisioner.limits.admission import LimitReached
from ....provisioner.model.leases.cluster import Cluster
from ....provisioner.model.leases.lease import Lease, LeaseState
from ....provisioner.model.leases.start import market_of
from ....provisioner.provisioner import Provisioner
from ....provisioner.store.store import StoreError
from ....wire import (
    ClusterAnswer,
    ClusterPrice,
    ClusterRequest,
    ClusterStatus,
    Engine,
    Market,
    WorkerStatus,
)
from ....wire.cluster import MAX_SHOWN
from ...app.api_address import reachable_api_url
from ...app.spawn_error import SpawnError
from ...security.sealed_start import SealBroken
from ...spawn.cluster_request import joining, max_workers, wanted_cluster
from ...spawn.limits import limit_words_of
from ...spawn.server_options import ProfileListError
from .calls import LEASE, share_of
from .owner import OwnersHandler


class ClusterHandler(OwnersHandler):
    """`POST leases/{id}/cluster`: price, start, scale, stop or show the workers of a server."""

    async def call(self, lease: Lease) -> None:
        """Answer a `ClusterAnswer`; 409 with the reason where that is refused, 503 without
        profiles."""
        request = self.read(ClusterRequest)
        if not lease.is_server:
            self.refuse(409, "a worker or a run has no cluster of its own")
        if request.action != "status":
            self.refuse_unless_ready(lease)
        try:
            if request.action in {"start", "scale"}:
                price = await self.change(lease, request)
            else:
                price = await self.follow(lease, request)
        except ProfileListError as error:
            self.refuse(503, str(error))
        except LimitReached as error:
            self.refuse(409, limit_words_of(error, self.service.options.contact))
        except SpawnError as error:
            self.refuse(409, error.jupyterhub_message)
        except (CannotCluster, OptionsRefused, SealBroken) as error:
            self.refuse(409, str(error))
        except StoreError as error:  # it holds nevertheless, and the next pass stores it
            self.log.error("A change of the cluster of %s: %s", lease.lease_id, error)
            price = None
        current = self.provisioner.lease(lease.lease_id) or lease
        most = max_workers(self.service.options, current)
        status = status_of(self.provisioner, current, most)
        self.answer(200, ClusterAnswer(status=status, price=price))

    async def change(self, lease: Lease, request: ClusterRequest) -> ClusterPrice | None:
        """Do what may buy workers; ends the request with 429 for too many changes. Raises why
        not."""
        limit, share, now = self.service.limits.cluster_changes, share_of(lease), time.monotonic()
        await self.check_rate(limit, share, "too many changes of clusters")
        with limit.returned_on_error(share, now):
            return await self.follow(lease, request)

    async def follow(self, lease: Lease, request: ClusterRequest) -> ClusterPrice | None:
        """Do what is asked. Raises why not."""
        clusters, workers = self.provisioner.clusters, request.workers or 0
        match request.action:
            case "stop":
                await clusters.stop(lease.lease_id)
            case "scale":
                if lease.cluster is None or workers > lease.cluster.workers:
                    await self.check_size(lease, workers)
                await clusters.scale(lease.lease_id, workers)
            case "price" | "start":
                wanted = await self.wanted(lease, request.profile, workers)
                price = price_of(self.provisioner, wanted)
                if request.action == "start":
                    await self.start(lease, wanted, request)
                else:
                    await self.provisioner.clusters.check_limits(lease.lease_id, wanted)
                return price
        return None

    async def start(self, lease: Lease, wanted: Cluster, request: ClusterRequest) -> None:
        """Put the workers on the waiting list. Raises `CannotCluster`, `LimitReached`."""
        if request.join is None or not wanted.workers:
            self.refuse(400, "a cluster needs `join` and at least one worker")
        # As the server has it: what a hook has set is nowhere else after a restart of the hub.
        environment = self.service.seal.open(lease.sealed_start).environment
        cluster = joining(self.service, wanted, request.join, environment)
        await self.provisioner.clusters.begin(lease.lease_id, cluster)

    async def check_size(self, lease: Lease, workers: int) -> None:
        """Whether the configuration allows so many. Raises `CannotCluster` and others."""
        profile = lease.cluster.profile if lease.cluster else None
        await self.wanted(lease, profile, workers)

    async def wanted(self, lease: Lease, profile: str | None, workers: int) -> Cluster:
        """The cluster that the owner may have. Raises as `wanted_cluster`."""
        spawner, hub = self.owners_spawner(lease), self.service
        url = reachable_api_url(spawner.get_env()["JUPYTERHUB_API_URL"], hub.options)
        return await wanted_cluster(hub, self.provisioner, spawner, lease, url, profile, workers)


def price_of(provisioner: Provisioner, wanted: Cluster) -> ClusterPrice:
    """What it would cost now, with the workers' disks and addresses."""
    spec = wanted.spec
    offers = provisioner.clusters.offers(spec)
    beside = provisioner.market.prices.beside_spec(spec).usd_per_hour
    first = offers[0] if offers else None
    prices = [None if x.usd_per_hour is None else x.usd_per_hour + beside for x in offers]
    dearest = None if None in prices else max((x for x in prices if x is not None), default=None)
    each = prices[0] if prices else None
    return ClusterPrice(
        profile_name=wanted.profile_name,
        workers=wanted.workers,
        instance_type=first.instance_type if first is not None else "",
        market=first.market if first is not None else None,
        usd_per_hour=None if each is None else each * wanted.workers,
        max_usd_per_hour=None if dearest is None else dearest * wanted.workers,
        has_home=wanted.mounts.efs is not None,
    )


def status_of(provisioner: Provisioner, head: Lease, most: int) -> ClusterStatus:
    """How the cluster of a server stands now; `most` workers are allowed."""
    clusters, cluster, now = provisioner.clusters, head.cluster, provisioner.now()
    workers = [worker_status(each, now) for each in shown(clusters.workers(head))]
    last = clusters.last_shape(head)
    always = {
        "max_workers": most,
        "last_workers": last.offered_workers if last else 0,
        "last_profile": last.profile if last else "",
        "last_profile_name": last.profile_name if last else "",
        "last_engine": _engine(last),
    }
    if cluster is None:
        return ClusterStatus(**always)
    is_short = sum(each.state != "ending" for each in workers) < cluster.workers
    return ClusterStatus(
        wanted=cluster.workers,
        engine=_engine(cluster),
        profile=cluster.profile,
        profile_name=cluster.profile_name,
        address=cluster.address,
        workers=workers,
        problem=cluster.stopped_because or (clusters.last_failure(head) if is_short else ""),
        has_given_up=clusters.has_given_up(head),
        **always,
    )


def shown(workers: Sequence[WorkerLease]) -> list[WorkerLease]:
    """As many as an answer may have, by number: of those that are ending only the last, if there
    are too many."""
    order = sorted(workers, key=lambda x: (x.lease.state is LeaseState.ENDING, -x.number))
    return sorted(order[:MAX_SHOWN], key=lambda x: x.number)


def worker_status(worker: WorkerLease, now: datetime) -> WorkerStatus:
    """One worker, as its owner sees it."""
    lease, contact = worker.lease, worker.contact
    current = lease.segments[-1] if lease.segments else None
    market = market_of(lease)
    message = lease.events[-1].message if lease.events else ""
    return WorkerStatus(
        number=worker.number,
        state=lease.state.value,
        message=lease.stop.message if lease.stop else message,
        instance_id=lease.instance_id or "",
        instance_type=current.instance_type if current else "",
        zone=current.zone if current else "",
        market=Market(market) if market else None,
        url=lease.url,
        since=lease.requested_at,
        idle_since=contact.idle_since if lease.ready_at else None,
        gpu_percent=contact.gpu_percent,
        interruption_at=contact.interruption_at,
        usd_per_hour=rate(current, now).usd_per_hour if current and not current.end else None,
        usd=known_usd(lease.segments, now),
    )


def _engine(cluster: Cluster | None) -> Engine | None:
    name = cluster.engine if cluster else ""
    return next((each for each in get_args(Engine) if each == name), None)


handlers: list[tuple[str, Callable[..., Any]]] = [(rf"{LEASE}/cluster", ClusterHandler)]
