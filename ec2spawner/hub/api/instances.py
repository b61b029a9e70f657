"""What runs now, for admins: servers, other instances, sold-out offers and failed starts.

The models are the contract, described field by field in `docs/reference/http.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pydantic import AwareDatetime

from ...core.ledger.charges import NO_PRICE, Rate, rate
from ...core.ledger.cost import known_usd, usd
from ...core.ledger.segments import Segment
from ...core.ledger.session_cost import SessionCost
from ...core.limits.words import short_refusal
from ...core.offers.sold_out import Mark, Scope
from ...provisioner.model.leases.costs import payer_of
from ...provisioner.model.leases.denied_start import DeniedStart
from ...provisioner.model.leases.lease import Lease
from ...provisioner.model.leases.worker import head_server, worker_number
from ...provisioner.overview import KeptNow, Overview, ServerNow, UnassignedNow
from ...wire import Market, ScheduledEvent
from .limits import LimitModel, limit_models
from .user_call import Model, UserCall, require_instances_scope, running

LIMITS = 50
"""In one answer."""


class ServerModel(Model):
    """One open lease."""

    user: str
    server: str
    """Empty for the default server; `lab/2` for the second worker of the server `lab`; `/run/12`
    for run 12."""
    head: str
    """Of a worker of a cluster: the server that it works for. Empty for the default server, and
    where `worker` is null."""
    worker: int | None
    """The number of a worker; null for a server."""
    run: int | None
    """The number of a run; null for a server."""
    state: str
    """`waiting`, `starting`, `ready` or `ending`."""
    profile: str
    """Its display name when the server was requested."""
    instance_id: str
    """Empty while there is no instance, as are type, zone and market."""
    instance_type: str
    zone: str
    market: Market | None
    payer: str
    """To whom it is charged: `user:ann`, `group:research`, `project:nlp`."""
    since: AwareDatetime
    """When its cost began; before that, when it was requested."""
    ready_at: AwareDatetime | None
    idle_since: AwareDatetime | None
    doing: str
    """What keeps it on; empty while it is idle, and as long as its agent has not reported. Of one
    that is `ending`: what that still waits for."""
    stop_at: AwareDatetime | None
    """When it stops unless it is used; null for never."""
    extended_until: AwareDatetime | None
    extended_by: str
    """Who keeps it on until then; empty for its user."""
    can_sleep: bool
    """A stop can save its variables."""
    interruption_at: AwareDatetime | None
    """When AWS reclaims it."""
    scheduled_event: ScheduledEvent | None
    """The event that AWS has announced for its instance."""
    gpu_percent: float | None
    """Use of its GPUs, on average; null without GPUs and while unknown."""
    usd: float | None
    """Cost so far, at list prices, with its own disks and addresses: an estimate. Null if any price
    is unknown."""
    known_usd: float | None
    """The same as far as prices are known: a lower bound where `usd` is null. Null if none is."""
    usd_per_hour: float | None
    """Null without an instance, and if any price is unknown."""
    known_usd_per_hour: float | None
    """The same as far as prices are known."""
    unknown_prices_of: tuple[str, ...]
    """What has no known price now: some of `instance`, `disk` (its own disks) and `address`."""


class KeptModel(Model):
    """An instance that waits for its user: after a stop, or before a start that is expected."""

    user: str
    server: str
    profile: str
    instance_id: str
    instance_type: str
    zone: str
    then: str
    """`linger`: it runs and costs its usual price. `stop`: only its disk costs money."""
    since: AwareDatetime
    until: AwareDatetime
    usd_per_hour: float | None
    known_usd_per_hour: float | None
    unknown_prices_of: tuple[str, ...]
    """As of a server; of a stopped one its disk alone."""
    disk_gib: int
    is_ahead: bool
    """Its user is expected, and has not started yet."""


class UnassignedModel(Model):
    """A running instance without a server."""

    instance_id: str
    instance_type: str
    zone: str
    market: Market
    since: AwareDatetime
    status: str
    """`starting`: it boots for a server that waits. `pool`: it waits in the warm pool, or boots for
    it. `ending`: it is about to be terminated.
    `foreign`: it has this hub's tag but not this store's id; the hub leaves it alone."""
    usd_per_hour: float | None
    known_usd_per_hour: float | None
    unknown_prices_of: tuple[str, ...]
    """As of a server."""


class SoldOutModel(Model):
    """What EC2 refused lately, and is not requested until then. Empty fields mean any."""

    reason: str
    """`offer`, `type-in-zone`, `unusable`, `quota`, `market`, `plan`, `verification`, `subnet` or
    `refused`."""
    code: str
    """EC2's."""
    market: Market | None
    instance_type: str
    zone: str
    quota_class: str
    subnet: str
    since: AwareDatetime
    until: AwareDatetime | None
    """Null where only another image helps."""


class FailedStart(Model):
    """The last start of a server, if it failed or was refused within a day."""

    user: str
    server: str
    profile: str
    at: AwareDatetime
    reason: str
    """`limit` if a limit refused it; else as of a stop: `capacity`, `quota`, `failed`, …"""
    message: str


class Instances(Model):
    """`GET instances`."""

    now: AwareDatetime
    """The hub's clock."""
    usd_per_hour: float
    """Of all servers, kept and unassigned instances, as far as prices are known; without foreign
    ones."""
    unknown_prices: int
    """Prices of these instances, their disks and addresses that are unknown: with any,
    `usd_per_hour` is a lower bound."""
    servers: tuple[ServerModel, ...]
    kept: tuple[KeptModel, ...]
    unassigned: tuple[UnassignedModel, ...]
    sold_out: tuple[SoldOutModel, ...]
    failed_starts: tuple[FailedStart, ...]
    all_usd_per_hour: float
    """Of everything that the hub pays for now: with the disks of stopped instances, homes and
    snapshots. List prices where prices are unknown."""
    all_known_usd_per_hour: float
    """The same as far as prices are known: a lower bound where one is not."""
    all_unpriced: int
    """Prices for which there is no list price, either: `all_usd_per_hour` lacks them, too."""
    limits: tuple[LimitModel, ...]
    """Of the hub."""
    nearly_used_limits: tuple[LimitModel, ...]
    """Of all scopes, those of which three quarters are used, the worst first, at most 50. Last come
    those of what runs together, unless more runs than they allow: full, they only refuse starts."""
    more_nearly_used_limits: int
    """How many others there are."""
    limits_at: AwareDatetime
    """Of when these three and the rates of everything are: they are judged every 15 seconds at
    most."""


class InstancesHandler(UserCall):
    """What runs now, of all users."""

    async def get(self) -> None:
        """`GET instances`: from memory; 403 without the scope."""
        require_instances_scope(self)
        _, provisioner = running()
        overview = provisioner.overview
        rest = await _rest(overview)
        now = provisioner.now()
        seen = overview.servers(), overview.kept(), overview.unassigned()
        # A thousand servers take 50 ms.
        body = await asyncio.to_thread(instances_json, now, *seen, rest)
        self.set_header("Cache-Control", "no-store")
        self.finish(body)


async def _rest(overview: Overview) -> dict[str, Any]:
    denied = map(_denied, overview.denied_starts())
    failed = [*map(_failed, overview.failed_starts()), *denied]
    limits = await overview.hub_limits()
    return {
        "sold_out": tuple(_sold_out(scope, mark) for scope, mark in overview.sold_out()),
        "failed_starts": tuple(sorted(failed, key=lambda each: each.at, reverse=True)),
        "all_usd_per_hour": limits.rate.usd,
        "all_known_usd_per_hour": limits.rate.known_usd,
        "all_unpriced": limits.rate.unpriced,
        "limits": limit_models(limits.of_hub),
        "nearly_used_limits": limit_models(limits.nearly_used[:LIMITS]),
        "more_nearly_used_limits": max(len(limits.nearly_used) - LIMITS, 0),
        "limits_at": limits.at,
    }


def instances_json(
    now: datetime,
    servers: Sequence[ServerNow],
    kept: Sequence[KeptNow],
    unassigned: Sequence[UnassignedNow],
    rest: dict[str, Any],
) -> str:
    """The answer, with what else is in it: the fields but these three and their sums."""
    billed = [_rate(each, now) for each in servers if each.lease.instance_id]
    own = (each.rate for each in unassigned if each.status != "foreign")
    rates = [*billed, *(each.rate for each in kept), *own]
    return Instances(
        now=now,
        usd_per_hour=sum(each.known_usd_per_hour or 0.0 for each in rates),
        unknown_prices=sum(len(each.unknown_prices_of) for each in rates),
        servers=tuple(server_model(each, now) for each in servers),
        kept=tuple(map(_kept, kept)),
        unassigned=tuple(map(_unassigned, unassigned)),
        **rest,
    ).model_dump_json()


def _current(seen: ServerNow) -> Segment | None:
    """The segment that runs."""
    segments = seen.lease.segments
    return segments[-1] if segments and not segments[-1].end else None


def _rate(seen: ServerNow, now: datetime) -> Rate:
    current = _current(seen)
    if not seen.lease.instance_id:
        return Rate(None)
    return rate(current, now) if current else NO_PRICE


def server_model(seen: ServerNow, now: datetime) -> ServerModel:
    """An open lease as both pages show it."""
    lease, instance = seen.lease, seen.instance
    current, price, event = _current(seen), _rate(seen, now), seen.scheduled_event
    since = lease.segments[0].start if lease.segments else lease.requested_at
    cost = seen.earlier + SessionCost(
        since=since, usd=usd(lease.segments, now), known_usd=known_usd(lease.segments, now)
    )
    return ServerModel(
        user=lease.user,
        server=lease.server,
        head=head_server(lease) if lease.head else "",
        worker=worker_number(lease) if lease.head else None,
        run=lease.run or None,
        state=lease.state.value,
        profile=lease.profile_name,
        instance_id=lease.instance_id or "",
        instance_type=current.instance_type if current else "",
        zone=instance.zone if instance else "",
        market=current.market if current else None,
        payer=payer_of(lease),
        since=cost.since or since,
        ready_at=lease.ready_at,
        idle_since=seen.idle_since if lease.ready_at and not lease.run else None,
        doing=seen.busy_because,
        stop_at=seen.stop_at,
        extended_until=lease.extended_until,
        extended_by=lease.extended_by,
        can_sleep=seen.can_sleep,
        interruption_at=seen.interruption_at,
        scheduled_event=event and ScheduledEvent(code=event.code, not_before=event.not_before),
        gpu_percent=seen.gpu_percent,
        usd=cost.usd,
        known_usd=cost.known_usd,
        **_price(price),
    )


def _price(of: Rate) -> dict[str, Any]:
    """The fields of a price."""
    return {
        "usd_per_hour": of.usd_per_hour,
        "known_usd_per_hour": of.known_usd_per_hour,
        "unknown_prices_of": tuple(each.value for each in of.unknown_prices_of),
    }


def _kept(seen: KeptNow) -> KeptModel:
    kept, instance = seen.kept, seen.instance
    return KeptModel(
        user=kept.user,
        server=kept.server,
        profile=kept.profile_name,
        instance_id=kept.instance_id,
        instance_type=instance.instance_type if instance else "",
        zone=instance.zone if instance else "",
        then=kept.then,
        since=kept.kept_at,
        until=kept.until,
        **_price(seen.rate),
        disk_gib=kept.disk_gib,
        is_ahead=kept.is_ahead,
    )


def _unassigned(seen: UnassignedNow) -> UnassignedModel:
    return UnassignedModel(
        instance_id=seen.instance.instance_id,
        instance_type=seen.instance.instance_type,
        zone=seen.instance.zone,
        market=seen.instance.market,
        since=seen.instance.launched_at,
        status=seen.status,
        **_price(seen.rate),
    )


def _sold_out(scope: Scope, mark: Mark) -> SoldOutModel:
    return SoldOutModel(
        reason=mark.error_class.value,
        code=mark.code,
        market=scope.market,
        instance_type=scope.instance_type,
        zone=scope.zone,
        quota_class=scope.quota_class,
        subnet=scope.subnet,
        since=mark.since,
        until=mark.again_at,
    )


def _failed(lease: Lease) -> FailedStart:
    assert lease.stop is not None
    assert lease.ended_at is not None
    return FailedStart(
        user=lease.user,
        server=lease.server,
        profile=lease.profile_name,
        at=lease.ended_at,
        reason=lease.stop.reason,
        message=lease.stop.message,
    )


def _denied(denied: DeniedStart) -> FailedStart:
    return FailedStart(
        user=denied.user,
        server=denied.server,
        profile=denied.profile_name,
        at=denied.at,
        reason="limit",
        message=short_refusal(denied.refusal),
    )


handlers: list[tuple[str, Callable[..., Any]]] = [(r"/api/ec2/instances", InstancesHandler)]
