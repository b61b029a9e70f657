"""Follows every running server's limits, and stops it when one is used up."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from ...core.instances.retention_rules import Kept
from ...core.limits.bounds import AtLimit, Kind
from ...core.limits.standing import COUNTED
from ...core.limits.words import stop_words
from ...wire import Limit, Stop
from ..model.leases.costs import scopes_of, scopes_of_kept
from ..model.leases.lease import Lease, LeaseState
from ..offers.market import MarketData
from ..runtime.cooperative_iteration import cooperatively
from ..state.state import State
from .reaches import Reach, Reaches
from .status import limit_message

log = logging.getLogger(__name__)

NOTICE: Final = 600.0
"""Seconds before a limit is used up, as forecast, at which the stop is announced."""

CHECK_INTERVAL: Final = 15.0
"""Seconds between two checks of all limits while no stop is announced: each reads what all scopes
have spent."""


@dataclass(slots=True)
class LimitStops:
    """Finds how every server's limits stand; announces stops, and makes them.

    A user's limit stops that user's servers, a payer's those that are charged to it, the hub's all.
    Where more runs together than a limit allows, because a price has risen or the limit is a new
    one, its users are notified and nothing stops. An instance that lingers after a stop ends once
    nothing is left: what runs there is charged, and nobody waits for it. The brake does not apply:
    a limit is the admin's decision, not a conclusion of the hub.
    """

    state: State
    market: MarketData
    _announced: dict[tuple[str, Kind], float] = field(default_factory=dict)
    """By limit: uptime at which its stop was announced, in seconds."""
    _checked_at: float = float("-inf")
    """Uptime of the last check, in seconds."""

    async def reconcile(self, now: datetime) -> None:
        """Judge all scopes with running servers."""
        uptime = self.state.clock.uptime()
        is_early = not self._announced and uptime - self._checked_at < CHECK_INTERVAL
        # A hub that begins would count list prices where spot is paid.
        is_early |= self.market.prices.first_readings.awaited()
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
        async for lease in cooperatively(ready):
            mine = [
                reach
                for scope in scopes_of(lease)
                for reach in reaches.get(scope, ())
                if _binds(reach.standing.kind, lease)
            ]
            self._report(lease, in_order(mine))
            due = [each for each in mine if each.stop_at is not None and each.stop_at <= now]
            if due:
                standing = self.state.accounts.displayed_scope(due[0].standing)
                stop = Stop(reason="budget", message=stop_words(standing, due[0].bounds))
                await self.state.end(lease.lease_id, stop)
        await self._release_kept(reaches, now)

    async def _release_kept(self, reaches: Mapping[str, Sequence[Reach]], now: datetime) -> None:
        """Let kept instances whose limit is used up go with this pass."""
        for kept in self._running_kept():
            scopes = scopes_of_kept(kept)
            used_up = (x.standing for scope in scopes for x in reaches.get(scope, ()))
            reached = next((x for x in used_up if x.kind in COUNTED and x.is_reached), None)
            is_current = self.state.retained.get(kept.instance_id) is kept
            if reached is not None and is_current and kept.until > now:
                log.info("%s is not kept for %r any more: %s", kept.instance_id, kept.user, reached)
                await self.state.retained.save(replace(kept, until=now))

    def _running_kept(self) -> list[Kept]:
        return [x for x in self.state.retained.all() if x.then == "linger" and not x.is_ahead]

    async def _reaches(self, now: datetime) -> Mapping[str, Sequence[Reach]]:
        """By scope, of those that have limits and a running server or a kept instance."""
        limits = self.state.settings.limits
        running = {x for each in self.state.leases.open(LeaseState.READY) for x in scopes_of(each)}
        running |= {x for each in self._running_kept() for x in scopes_of_kept(each)}
        scopes = {scope for scope in running if limits.of(scope).limits_starts}
        return await Reaches(self.state, self.market).of(scopes, now)

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
        grace = self.state.settings.limits.grace_seconds
        left = grace - (uptime - self._announced.setdefault(key, uptime))
        stop_at = max(at, now + timedelta(seconds=max(left, 0.0)))
        return replace(reach, stop_at=stop_at)

    def _report(self, lease: Lease, reaches: Sequence[Reach]) -> None:
        """Show its limits; where a threshold is passed or a stop announced, at once."""
        known = self.state.limits_of.get(lease.lease_id, ())
        displayed = self.state.accounts.displayed_scope
        limits = tuple(limit_message(each, displayed(each.standing)) for each in reaches)
        self.state.limits_of[lease.lease_id] = limits
        if _news(known) != _news(limits):
            self.state.leases.notify_agent(lease.lease_id)


def in_order(reaches: Iterable[Reach]) -> list[Reach]:
    """The limit that is used up first at the front, and before the others the one used most.

    One that only warns is behind all that will stop the server.
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

    return sorted(reaches, key=order)


def _binds(kind: Kind, lease: Lease) -> bool:
    """Whether such a limit binds a server: without GPUs it uses no GPU-hours."""
    return kind is not Kind.GPU_HOURS or any(each.gpus for each in lease.segments[-1:])


def _news(limits: Iterable[Limit]) -> Set[tuple[object, ...]]:
    """What of limits a user is notified of."""
    return {
        (x.scope, x.name, x.kind, x.threshold, x.passed_on, x.stop_at is not None) for x in limits
    }
