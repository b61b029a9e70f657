"""What the limits of the hub leave for the pool: each place must be able to pay its first hour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.ledger.charges import rate
from ...core.ledger.cost_rows import HUB
from ...core.limits.admission import (
    FIRST_HOUR,
    Account,
    Grant,
    OfferPrice,
    Refusal,
    decide,
    nano,
    reservation,
)
from ...core.limits.words import short_refusal
from ..limits.accounts import Accounts
from ..model.cloud.instance import Instance
from ..model.cloud.launch import LaunchSpec
from ..offers.market import MarketData
from ..state.instances.launches import Round
from ..state.state import State
from .own_instances import own_instances


@dataclass(slots=True)
class Budget:
    """The limits of the hub, for one round of the pool's purchases."""

    state: State
    market: MarketData
    refusal: str = ""
    """Which limit leaves less than was asked for by the last answer of `count`, for admins; empty
    if none does."""
    _most: float | None = None
    """What one instance may cost by that answer, USD/hour without disk and address."""

    def count(self, round_: Round, spec: LaunchSpec) -> int:
        """How many of the round's instances it can pay. Sets `refusal` where that is not all of
        them, or not at each offer that the spec allows: the affordable ones may be sold out.

        `spec` is that of the round, with what an instance may cost at most.
        """
        self.refusal, self._most = "", None
        accounts = Accounts(self.state, self.market)
        limited = accounts.of((HUB,)) if self.state.settings.limits.bind else ()
        if not limited:
            return round_.outstanding
        of_hub = [self._with_places(each, accounts, round_) for each in limited]
        own = accounts.beside_usd_per_hour(spec)
        prices = accounts.prices_of(self.market.offers.all_for(spec), own)
        for number in range(round_.outstanding, 0, -1):
            asked = [_times(each, number) for each in prices]
            found = decide(of_hub, asked)
            if isinstance(found, Grant):
                if found.max_usd_per_hour is not None:
                    self._most = found.max_usd_per_hour / number - own
                if not self.refusal:
                    known = [each for each in asked if each.usd_per_hour is not None]
                    self._refuse(of_hub, [each for each in known if not found.allows(each)])
                return number
            self.refusal = _words(found)
        return 0

    def _refuse(self, of_hub: list[Account], excluded: list[OfferPrice]) -> None:
        """Set `refusal` by the cheapest of the offers that the limits exclude, if there is one."""
        found = decide(of_hub, excluded) if excluded else None
        if isinstance(found, Refusal):
            self.refusal = _words(found)

    def within(self, spec: LaunchSpec) -> LaunchSpec:
        """The spec with what one instance may cost by the last answer of `count`."""
        limits = [each for each in (spec.max_usd_per_hour, self._most) if each is not None]
        return replace(spec, max_usd_per_hour=min(limits, default=None))

    def _with_places(self, account: Account, accounts: Accounts, round_: Round) -> Account:
        """With what is left of the first hours of the places that run or are being bought.

        A limit of servers does not bind what is no server.
        """
        now = self.state.clock.now()
        others = [
            each
            for each in self.state.launches.in_progress
            if each.is_for_pool and each is not round_
        ]
        places = [*self._running(now), *self._asked_for(others, accounts)]
        money = sum(reservation(price, 0.0, seconds)[0] for price, seconds in places)
        being_bought = sum(nano(price) for price, _ in self._asked_for(others, accounts))
        unlisted = sum(nano(self._price(each, now)) for each in self._beside_rate())
        return replace(
            account,
            servers=0,
            reserved=account.reserved + money,
            rate=account.rate + being_bought + unlisted,
        )

    def _running(self, now: datetime) -> Iterator[tuple[float, float]]:
        """Of each instance of the pool its price, USD/hour, and the seconds left of its first
        hour."""
        for instance in own_instances(self.state):
            age = (now - instance.launched_at).total_seconds()
            yield self._price(instance, now), max(FIRST_HOUR - age, 0.0)

    def _beside_rate(self) -> Iterator[Instance]:
        """Instances of the pool that the rate of the hub does not count yet: launch calls have
        brought them since the last pass, or no listing shows them."""
        stock = self.state.stock
        counted = (*stock.in_places, *stock.surplus, *stock.dead, *stock.unknown)
        ids = {each.instance_id for each in counted}
        ids |= {kept.instance_id for kept in self.state.retained.of_users() if kept.is_ahead}
        return (each for each in own_instances(self.state) if each.instance_id not in ids)

    def _price(self, instance: Instance, now: datetime) -> float:
        """USD/hour with its disks and address, as far as it is known."""
        return rate(self.market.prices.segment(instance, now), now).known_usd_per_hour or 0.0

    def _asked_for(self, others: list[Round], accounts: Accounts) -> Iterator[tuple[float, float]]:
        """The same of the instances that these calls may bring, at their highest price."""
        for each in others:
            offers = self.market.offers.all_for(each.spec)
            most = max((offer.usd_per_hour or 0.0 for offer in offers), default=0.0)
            price = most + accounts.beside_usd_per_hour(each.spec)
            yield from ((price, FIRST_HOUR) for _ in range(each.outstanding))


def _words(refusal: Refusal) -> str:
    return f"Nothing is bought for the pool: {short_refusal(refusal)}"


def _times(price: OfferPrice, number: int) -> OfferPrice:
    usd = price.usd_per_hour
    return OfferPrice(None if usd is None else usd * number, price.gpus * number)
