"""Admits starts within the limits.

A lease that is on the waiting list reserves its first hour: nothing else records a reservation, so
none can be lost or left over. Admission and the waiting list are one step without an await, so that
starts at the same moment do not spend the same money.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ...core.limits.admission import (
    FIRST_HOUR,
    Account,
    Grant,
    OfferPrice,
    Refusal,
    decide,
)
from ...core.limits.bounds import Bounds
from ...core.limits.scopes import scopes_of as scopes_of_payer
from ...core.offers.purchase import Offer
from ..model.launch_key import launch_key_of
from ..model.leases.costs import scopes_of
from ..model.leases.lease import Lease
from ..offers.market import MarketData
from ..state.state import State
from .accounts import Accounts, reserved_seconds
from .refusals import record_refusal

log = logging.getLogger(__name__)


class LimitReached(Exception):
    """A start cannot afford its first hour, or there are too many servers already."""

    def __init__(self, refusal: Refusal, bounds: Bounds, displayed: Refusal) -> None:
        super().__init__(f"{refusal.obstacle} of {displayed.scope}")
        self.refusal = refusal
        self.displayed = displayed
        """For people."""
        self.bounds = bounds
        """Of the scope that refuses."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Judges starts by limits, prices, and all leases in memory."""

    state: State
    market: MarketData

    async def prepare(self, instance_types: Collection[str]) -> None:
        """Have what `admit` decides by: the prices of these types, for which a hub that begins
        waits some seconds, and the leases in memory.

        These are counted in batches: just after a restart or midnight all of them, which `admit`
        would do without yielding to the event loop.
        """
        self.market.want(instance_types)
        await self.market.prices.first_readings.wait(instance_types)
        if self.state.settings.limits.bind:
            await self.state.spending.count_leases(self.state.leases)

    def admit(self, lease: Lease, *, records_refusal: bool = True) -> Lease:
        """The lease, without the offers that it cannot afford. Raises `LimitReached`.

        The caller puts it on the waiting list before it awaits anything. One that tries again and
        again records a refusal itself, once.
        """
        return self._admitted([lease], records_refusal=records_refusal)[0]

    def admit_together(self, leases: Sequence[Lease]) -> list[Lease]:
        """Leases of one server's owner that want the same, each with its first hour beside those of
        the others. Raises `LimitReached` where they cannot all afford it.

        The caller puts them on the waiting list before it awaits anything.
        """
        return self._admitted(leases, records_refusal=True)

    def check_together(self, leases: Sequence[Lease]) -> None:
        """Raise `LimitReached` where `admit_together` would. A refusal is not recorded, because
        nothing is to be started yet."""
        self._admitted(leases, records_refusal=False)

    def _admitted(self, leases: Sequence[Lease], *, records_refusal: bool) -> list[Lease]:
        if not self.state.settings.limits.bind or not leases:
            return list(leases)
        first = leases[0]
        accounts = Accounts(self.state, self.market, start=first)
        every = self.market.offers.all_for(first.spec)
        of_scopes = accounts.of(scopes_of(first))
        prices = accounts.prices_of(every, accounts.beside_usd_per_hour(first.spec))
        seconds, admitted = reserved_seconds(first), []
        for lease in leases:
            found = decide(of_scopes, prices, seconds)
            if isinstance(found, Refusal):
                if records_refusal:
                    log.info("Not starting %s of %r: %s", lease.lease_id, lease.user, found)
                    record_refusal(self.state, lease, found)
                bounds = self.state.settings.limits.of(found.scope)
                raise LimitReached(found, bounds, self.state.accounts.displayed_scope(found))
            allowed = [price for price in prices if found.allows(price)]
            left = [x for x, price in zip(every, prices, strict=True) if found.allows(price)]
            admitted.append(_within(lease, left, found))
            dearest = OfferPrice(
                max((each.usd_per_hour or 0.0 for each in allowed), default=0.0),
                max((each.gpus for each in allowed), default=0.0),
            )
            of_scopes = tuple(account.with_start(dearest, seconds) for account in of_scopes)
        return admitted

    def preview(self, user: str, server: str, payer: str) -> Preview:
        """What a user can start now as this server, if this payer pays."""
        accounts = Accounts(self.state, self.market, user=user, server=server)
        is_bound = self.state.settings.limits.bind
        return Preview(accounts, accounts.of(scopes_of_payer(user, payer)) if is_bound else ())


@dataclass(frozen=True, slots=True)
class Preview:
    """The accounts of one user and payer at one moment, for all profiles of a page."""

    accounts: Accounts
    of_scopes: Sequence[Account]

    def refusal(
        self, offers: Sequence[Offer], max_run: float, beside: float = 0.0
    ) -> Refusal | None:
        """Why a start of these offers would be refused; None if it would not.

        `max_run` is the longest that it may run in seconds, 0 for no limit; `beside` is what comes
        beside the instance, in USD/hour.
        """
        seconds = min(FIRST_HOUR, max_run or FIRST_HOUR)
        found = decide(self.of_scopes, self.accounts.prices_of(offers, beside), seconds)
        users = self.accounts.state.accounts
        return users.displayed_scope(found) if isinstance(found, Refusal) else None


def _within(lease: Lease, left: Sequence[Offer], grant: Grant) -> Lease:
    """The lease restricted to the offers that it can afford, at their prices of now at most.

    An offer that gets dearer, or whose price becomes known, while the start waits is not bought:
    the start has not reserved so much.
    """
    if grant.max_usd_per_hour is None and not grant.limits_gpus:
        return lease
    # Of the instance alone: what comes beside it costs the same with any offer.
    prices = [x.usd_per_hour for x in left if x.usd_per_hour is not None]
    most = None if grant.max_usd_per_hour is None else max(prices, default=None)
    spec = replace(
        lease.spec,
        max_usd_per_hour=_lower(lease.spec.max_usd_per_hour, most),
        # A retained instance is bought already: by type and market it must be affordable as well.
        markets=tuple(m for m in lease.spec.markets if any(o.market is m for o in left)),
        instance_types=tuple(
            name
            for name in lease.spec.instance_types
            if any(offer.instance_type == name for offer in left)
        ),
    )
    return replace(lease, spec=spec, launch_key=launch_key_of(spec))


def _lower(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)
