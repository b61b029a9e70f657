"""Follows every running server's limits, and stops it when one is used up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ...core.ledger.amount import Amount
from ...core.ledger.segments import assumed_usd_per_hour
from ...core.limits.admission import nano
from ...core.limits.bounds import HOUR, AtLimit, Bounds, Kind
from ...core.limits.forecast import reached_at
from ...core.limits.standing import Standing, standings
from ...core.limits.words import stop_words
from ...wire import Limit, Stop
from ..model.lease import Lease, LeaseState
from ..state.spending import scopes_of
from ..state.state import State
from .status import limit_message

log = logging.getLogger(__name__)

NOTICE: Final = 600.0
"""Seconds before a limit is used up, as forecast, at which the stop is announced."""

GRACE: Final = 120.0
"""Seconds that a server runs at least after the announcement, also if its limit is used up already,
as after a restart with lower limits."""

CHECK_INTERVAL: Final = 15.0
"""Seconds between two checks of all limits while no stop is announced: each reads what all scopes
have spent."""

BATCH: Final = 50
"""After so many leases, whatever else waits has its turn."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How a limit stands, and when it will be used up."""

    standing: Standing
    bounds: Bounds
    at: datetime | None
    """When nothing is left at the present rate; None if it renews before."""
    stop_at: datetime | None = None
    """When its servers stop; None while no stop is announced."""


@dataclass(slots=True)
class LimitStops:
    """Finds every server's nearest limit; announces stops, and makes them.

    A user's limit stops that user's servers, a payer's those that are charged to it, the hub's all.
    The brake does not apply: a limit is the admin's decision, not a conclusion of the hub.
    """

    state: State
    _announced: dict[tuple[str, Kind], float] = field(default_factory=dict)
    """By limit: uptime at which its stop was announced, in seconds."""
    _checked_at: float = float("-inf")
    """Uptime of the last check, in seconds."""

    async def reconcile(self, now: datetime) -> None:
        """Judge all scopes with running servers."""
        uptime = self.state.clock.uptime()
        is_early = not self._announced and uptime - self._checked_at < CHECK_INTERVAL
        if not self.state.settings.limits.bind or is_early:
            return
        self._checked_at = uptime
        reaches = await self._reaches(now)
        near = {(r.standing.scope, r.standing.kind) for of in reaches.values() for r in of}
        self._announced = {key: at for key, at in self._announced.items() if key in near}
        reaches = {scope: [self._announce(r, now) for r in of] for scope, of in reaches.items()}
        ready = list(self.state.leases.open(LeaseState.READY))
        for gone in self.state.limits_of.keys() - {lease.lease_id for lease in ready}:
            del self.state.limits_of[gone]
        for number, lease in enumerate(ready):
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
            mine = [reach for scope in scopes_of(lease) for reach in reaches.get(scope, ())]
            self._report(lease, nearest(mine))
            due = [each for each in mine if each.stop_at is not None and each.stop_at <= now]
            if due:
                stop = Stop(reason="budget", message=stop_words(due[0].standing, due[0].bounds))
                await self.state.end(lease.lease_id, stop)

    async def _reaches(self, now: datetime) -> Mapping[str, list[Reach]]:
        """By scope, of those that have limits and a running server."""
        state, limits = self.state, self.state.settings.limits
        rates: dict[str, Amount] = {}
        """What each scope uses in an hour."""
        ready: set[str] = set()
        for number, lease in enumerate(state.leases.open()):
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
            scopes = [scope for scope in scopes_of(lease) if limits.of(scope).days]
            rate = _rate(lease)
            for scope in scopes:
                rates[scope] = rates.get(scope, Amount()) + rate
            if lease.state is LeaseState.READY:
                ready.update(scopes)
        days = await state.spending.by_scope(ready, state.leases)
        today, place = state.spending.today(), state.settings.time_zone
        found: dict[str, list[Reach]] = {}
        for number, scope in enumerate(ready):
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
            bounds = limits.of(scope)
            found[scope] = []
            for each in standings(scope, bounds, days[scope], today):
                is_gpu, rate = each.kind is Kind.GPU_HOURS, rates[scope]
                per_hour = round(rate.gpu_microseconds) if is_gpu else rate.nano_usd
                at = reached_at(each.kind, bounds, days[scope], per_hour, now, place)
                found[scope].append(Reach(each, bounds, at))
        return found

    def _announce(self, reach: Reach, now: datetime) -> Reach:
        """With the instant of the stop once that is near; not before its grace is over."""
        key, at = (reach.standing.scope, reach.standing.kind), reach.at
        is_near = at is not None and (at - now).total_seconds() <= NOTICE
        if at is None or not is_near or reach.bounds.at_limit is not AtLimit.STOP:
            self._announced.pop(key, None)
            return reach
        uptime = self.state.clock.uptime()
        if key not in self._announced:
            log.info("%s of %s will be used up: its servers stop", key[1].value, key[0])
        left = GRACE - (uptime - self._announced.setdefault(key, uptime))
        stop_at = max(at, now + timedelta(seconds=max(left, 0.0)))
        return Reach(reach.standing, reach.bounds, at, stop_at)

    def _report(self, lease: Lease, reach: Reach | None) -> None:
        """Show its nearest limit; where a threshold is passed or a stop announced, at once."""
        known, limits_of = self.state.limits_of.get(lease.lease_id), self.state.limits_of
        if reach is None:
            if limits_of.pop(lease.lease_id, None) is not None:
                self.state.leases.notify_agent(lease.lease_id)
            return
        message = limit_message(reach.standing, reach.bounds, reach.at, reach.stop_at)
        limits_of[lease.lease_id] = message
        if _news(known) != _news(message):
            self.state.leases.notify_agent(lease.lease_id)


def nearest(reaches: Iterable[Reach]) -> Reach | None:
    """The limit that is shown: the one that is used up first, else the one that is used most.

    One that only warns never hides one that will stop the server.
    """

    def order(reach: Reach) -> tuple[bool, bool, bool, float, int]:
        at = reach.stop_at or reach.at
        return (
            reach.stop_at is None,
            at is None,
            reach.bounds.at_limit is AtLimit.WARN,
            at.timestamp() if at else 0.0,
            -reach.standing.percent,
        )

    return min(reaches, key=order, default=None)


def _news(limit: Limit | None) -> tuple[object, ...]:
    """What of a limit a user is notified of."""
    if limit is None:
        return ()
    return limit.scope, limit.name, limit.kind, limit.threshold, limit.stop_at is not None


def _rate(lease: Lease) -> Amount:
    """What a lease uses in an hour: of money, and of GPUs. An unknown price is taken to be the
    list price."""
    current = lease.segments[-1] if lease.segments else None
    if current is None or current.end is not None:
        return Amount()
    return Amount(nano(assumed_usd_per_hour(current) or 0.0), current.gpus * HOUR)
