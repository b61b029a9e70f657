"""What runs now, for admins: servers, kept instances, sold-out offers and failed starts.

The models are the contract, described field by field in `docs/reference/http.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from pydantic import AwareDatetime

from ...core.ledger.cost import usd
from ...core.ledger.cost_rows import HUB
from ...core.limits.words import short_refusal
from ...core.offers.sold_out import Mark, Scope
from ...provisioner.model.lease import Lease
from ...provisioner.model.lease_costs import payer_of
from ...provisioner.overview import KeptNow, Overview, ServerNow
from ...provisioner.state.denied_starts import DeniedStart
from ...wire import Market
from .limits import LimitModel, limit_models
from .user_call import Model, require_instances_scope, running


class ServerModel(Model):
    """One open lease."""

    user: str
    server: str
    """Empty for the default server."""
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
    """What keeps it on; empty while it is idle, and as long as its agent has not reported."""
    stop_at: AwareDatetime | None
    """When it stops unless it is used; null for never."""
    extended_until: AwareDatetime | None
    interruption_at: AwareDatetime | None
    """When AWS reclaims it."""
    gpu_percent: float | None
    """Use of its GPUs, on average; null without GPUs and while unknown."""
    usd: float | None
    """Cost so far, at list prices and without disks: an estimate."""
    usd_per_hour: float | None


class KeptModel(Model):
    """An instance that waits for its user after a stop."""

    user: str
    server: str
    profile: str
    instance_id: str
    instance_type: str
    zone: str
    then: str
    """`linger`: it runs and costs its usual price. `stop`: only its disk costs money."""
    until: AwareDatetime
    usd_per_hour: float | None
    """Null for a stopped one, and while the price is unknown."""
    disk_gib: int


class SoldOutModel(Model):
    """What EC2 refused lately, and is not requested until then. Empty fields mean any."""

    reason: str
    """`offer`, `type-in-zone`, `unusable`, `quota`, `market` or `subnet`."""
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
    """Of all servers and kept instances, as far as prices are known."""
    unknown_prices: int
    """Servers that run at an unknown price."""
    servers: tuple[ServerModel, ...]
    kept: tuple[KeptModel, ...]
    sold_out: tuple[SoldOutModel, ...]
    failed_starts: tuple[FailedStart, ...]
    limits: tuple[LimitModel, ...]
    """Of the hub."""


class InstancesHandler(APIHandler):
    """What runs now, of all users."""

    async def get(self) -> None:
        """`GET instances`: from memory; 403 without the scope."""
        require_instances_scope(self)
        _, provisioner = running(self)
        overview, now = provisioner.overview, provisioner.now()
        servers, rest = overview.servers(), _rest(overview)
        # A thousand servers take 50 ms.
        body = await asyncio.to_thread(_instances_json, now, servers, rest)
        self.set_header("Cache-Control", "no-store")
        self.finish(body)


def _rest(overview: Overview) -> dict[str, Any]:
    denied = map(_denied, overview.denied_starts())
    failed = [*map(_failed, overview.failed_starts()), *denied]
    return {
        "kept": tuple(map(_kept, overview.kept())),
        "sold_out": tuple(_sold_out(scope, mark) for scope, mark in overview.sold_out()),
        "failed_starts": tuple(sorted(failed, key=lambda each: each.at, reverse=True)),
        "limits": limit_models(overview.limits([HUB])),
    }


def _instances_json(now: datetime, servers: Sequence[ServerNow], rest: dict[str, Any]) -> str:
    models = tuple(server_model(each, now) for each in servers)
    billed = [model for model in models if model.instance_id]
    prices = [each.usd_per_hour for each in (*billed, *rest["kept"])]
    return Instances(
        now=now,
        usd_per_hour=sum(price for price in prices if price is not None),
        unknown_prices=sum(model.usd_per_hour is None for model in billed),
        servers=models,
        **rest,
    ).model_dump_json()


def server_model(seen: ServerNow, now: datetime) -> ServerModel:
    """An open lease as both pages show it."""
    lease, instance = seen.lease, seen.instance
    current = lease.segments[-1] if lease.segments and not lease.segments[-1].end else None
    return ServerModel(
        user=lease.user,
        server=lease.server,
        state=lease.state.value,
        profile=lease.profile_name,
        instance_id=lease.instance_id or "",
        instance_type=current.instance_type if current else "",
        zone=instance.zone if instance else "",
        market=current.market if current else None,
        payer=payer_of(lease),
        since=lease.segments[0].start if lease.segments else lease.requested_at,
        ready_at=lease.ready_at,
        idle_since=seen.idle_since if lease.ready_at else None,
        doing=seen.busy_because,
        stop_at=seen.stop_at,
        extended_until=lease.extended_until,
        interruption_at=seen.interruption_at,
        gpu_percent=seen.gpu_percent,
        usd=usd(lease.segments, now),
        usd_per_hour=current.usd_per_hour if current else None,
    )


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
        until=kept.until,
        usd_per_hour=seen.usd_per_hour,
        disk_gib=kept.disk_gib,
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
