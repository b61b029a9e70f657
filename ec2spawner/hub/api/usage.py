"""A user's own servers and sessions, with their cost.

The models are the contract, described field by field in `docs/reference/http.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Any

from jupyterhub.user import User
from pydantic import AwareDatetime, TypeAdapter, ValidationError
from tornado.web import HTTPError

from ...config import Options
from ...core.ledger.cost import known_usd, usd
from ...core.ledger.cost_rows import user_payer
from ...core.ledger.local_days import askable, is_askable
from ...provisioner.model.leases.costs import payer_of
from ...provisioner.model.leases.lease import Lease
from ...provisioner.overview import LimitNow, ServerNow, StorageNow
from ...provisioner.provisioner import Provisioner
from ...provisioner.store.store import StoreError
from ...wire import Market
from ..app.call_limits import DEAR_CALL
from ..app.user_account import account_of
from .instances import ServerModel, server_model
from .limits import LimitModel, limit_models
from .user_call import Model, UserCall, running, store_failed, whose

SESSIONS = 50
"""Ended sessions in one answer."""

_INSTANT: TypeAdapter[datetime] = TypeAdapter(AwareDatetime)


class Session(Model):
    """A server that has ended."""

    server: str
    """Empty for the default server."""
    profile: str
    """Its display name at the start."""
    instance_types: tuple[str, ...]
    """Of its instances, one after the other; a repeated one once."""
    markets: tuple[Market, ...]
    payer: str
    """To whom it was charged."""
    since: AwareDatetime
    """When its cost began; if there was none, when it was requested."""
    ended_at: AwareDatetime
    reason: str
    """As of a stop: `user`, `idle`, `interruption`, …"""
    message: str
    """The same in words."""
    usd: float | None
    """At list prices, with its own disks and addresses: an estimate. Null if a price is unknown."""
    known_usd: float | None
    """The same as far as prices are known: a lower bound where `usd` is null. Null if none is."""
    idle_seconds: float
    """Of its time: the idle rule saw no work."""


class StorageModel(Model):
    """What the user's homes and their snapshots hold."""

    home_gib: float
    snapshot_gib: float
    """Of each home its largest snapshot: they share blocks, so it is a lower bound."""
    usd_per_month: float | None
    """At list prices: an estimate. Null if a price is unknown."""


class UsageModel(Model):
    """`GET usage`."""

    now: AwareDatetime
    """The hub's clock."""
    user: str
    servers: tuple[ServerModel, ...]
    """What runs."""
    sessions: tuple[Session, ...]
    """What has ended, the newest first."""
    limits: tuple[LimitModel, ...]
    """Of the user, and of groups and projects that may pay for the caller."""
    storage: StorageModel | None
    """Null until the hub has listed volumes and snapshots after its start."""
    more_before: AwareDatetime | None
    """Send this as `before` for earlier sessions; null if there are none."""


class UsageHandler(UserCall):
    """The caller's own usage; with the scope of admins also that of others."""

    CALL_TOKENS = DEAR_CALL

    async def get(self) -> None:
        """`GET usage`: 400 for a wrong argument, 403 for another user's without the scope."""
        hub, provisioner = running()
        account, now = whose(self), provisioner.now()
        before = self._before(provisioner.usage.today()) or now
        try:
            past = await provisioner.usage.past_leases(account, before, SESSIONS + 1)
        except StoreError as error:
            raise store_failed(self, error) from error
        overview = provisioner.overview
        past = tuple(map(provisioner.accounts.displayed, past))
        servers = overview.servers(account)
        limits = await overview.limits(self._scopes(hub.options, provisioner, account))
        self.set_header("Cache-Control", "no-store")
        user, storage = provisioner.accounts.name(account), overview.storage(account)
        self.finish(await asyncio.to_thread(_usage_json, now, user, servers, past, limits, storage))

    def _scopes(self, options: Options, provisioner: Provisioner, account: str) -> tuple[str, ...]:
        """The user and who else may pay for them: JupyterHub knows the groups of the caller."""
        own = user_payer(account)
        caller = self.current_user
        if not isinstance(caller, User) or account_of(provisioner.accounts, caller) != account:
            return (own,)
        groups = {group.name for group in caller.groups}
        payers = options.payers.payers().of(account, caller.name, groups)
        return (own, *(each for each in payers if each != own))

    def _before(self, today: date) -> datetime | None:
        """In UTC; None if it is not given. Raises `HTTPError` (400)."""
        text = self.get_query_argument("before", "")
        if not text:
            return None
        try:
            before = _INSTANT.validate_python(text)
        except ValidationError as error:
            raise HTTPError(400, "`before` is an instant: 2026-11-23T12:00:00Z") from error
        if not is_askable(before.date(), today):
            raise HTTPError(400, f"`before` is out of range: send an instant {askable(today)}")
        return before.astimezone(UTC)


def _usage_json(
    now: datetime,
    user: str,
    servers: Sequence[ServerNow],
    past: Sequence[Lease],
    limits: Sequence[LimitNow],
    storage: StorageNow | None,
) -> str:
    shown = past[:SESSIONS]
    return UsageModel(
        now=now,
        user=user,
        servers=tuple(server_model(each, now) for each in servers),
        sessions=tuple(_session(each, now) for each in shown),
        limits=limit_models(limits),
        storage=StorageModel(**asdict(storage)) if storage else None,
        more_before=shown[-1].ended_at if len(past) > SESSIONS else None,
    ).model_dump_json()


def _session(lease: Lease, now: datetime) -> Session:
    assert lease.ended_at is not None
    segments = lease.segments
    return Session(
        server=lease.server,
        profile=lease.profile_name,
        instance_types=tuple(dict.fromkeys(each.instance_type for each in segments)),
        payer=payer_of(lease),
        markets=tuple(dict.fromkeys(each.market for each in segments)),
        since=segments[0].start if segments else lease.requested_at,
        ended_at=lease.ended_at,
        reason=lease.stop.reason if lease.stop else "",
        message=lease.stop.message if lease.stop else "",
        usd=usd(segments, now),
        known_usd=known_usd(segments, now),
        idle_seconds=sum(_idle_seconds(lease)),
    )


def _idle_seconds(lease: Lease) -> Iterator[float]:
    over = lease.stop_requested_at or lease.ended_at
    for span in lease.idle_spans:
        end = span.end or over
        yield max((end - span.start).total_seconds(), 0.0) if end else 0.0


handlers: list[tuple[str, Callable[..., Any]]] = [(r"/api/ec2/usage", UsageHandler)]
