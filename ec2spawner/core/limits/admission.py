"""Whether a start can afford its first hour. Pure: accounts and offers in, a grant or refusal out.

A start reserves its first hour at the highest price that it may pay, in every scope that it counts
against. What others have reserved is not left for it, so starts together never spend more than
there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Final, NamedTuple

from .bounds import GPU_HOUR, HOUR, NANO, Bounds, Kind
from .standing import Standing

FIRST_HOUR: Final = 3600.0
"""Seconds that a start must be able to afford; fewer where it may run for a shorter time."""


class OfferPrice(NamedTuple):
    """What one offer of a start costs."""

    usd_per_hour: float | None
    """None is unknown."""
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """One scope at the moment of a start: its bounds, what is used, and what others hold."""

    scope: str
    bounds: Bounds
    standings: tuple[Standing, ...] = ()
    servers: int = 0
    """Leases that are open."""
    rate: int = 0
    """What they cost together, in 1e-9 USD/hour; of the hub, with what runs for no lease."""
    unpriced: int = 0
    """How many instances are not in `rate`, because nothing is known of their price."""
    reserved: int = 0
    """What they have reserved of their first hours and not spent yet, in 1e-9 USD."""
    reserved_gpu: int = 0
    """The same, in microseconds of one GPU."""

    def with_start(self, price: OfferPrice, seconds: float) -> Account:
        """The same once a start has reserved its first `seconds` at this price."""
        money, gpu = reservation(price.usd_per_hour or 0.0, price.gpus, seconds)
        return replace(
            self,
            servers=self.servers + 1,
            rate=self.rate + nano(price.usd_per_hour or 0.0),
            unpriced=self.unpriced + (price.usd_per_hour is None),
            reserved=self.reserved + money,
            reserved_gpu=self.reserved_gpu + gpu,
        )


class Obstacle(StrEnum):
    """Why a start is refused."""

    LIMIT = "limit"
    """It would exceed a limit."""
    UNKNOWN_PRICE = "unknown-price"
    """No offer is known, or none with a price, so nobody can say whether it is affordable."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a start is refused. Amounts in 1e-9 USD, microseconds of one GPU, or servers."""

    scope: str
    obstacle: Obstacle
    kind: Kind | None = None
    limit: int = 0
    left: int = 0
    """Reservations of others subtracted."""
    needed: int = 0
    """Of the cheapest offer."""
    renews: date | None = None
    """The first day on which more is left; None is not known."""
    at_most: bool = False
    """Not all that is used has a known price: `left` is an upper bound."""
    is_filled_by_storage: bool = False
    """Homes and their snapshots alone use the limit up."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a start may buy, and what it reserves."""

    max_usd_per_hour: float | None
    """The highest price that it may pay; None where no limit of money binds it."""
    gpus: float
    """The most GPUs among its offers."""
    limits_gpus: bool = False
    """Whether GPU-hours are limited: then it may buy no instance with more than `gpus`."""

    def allows(self, offer: OfferPrice) -> bool:
        """Whether it may buy this.

        Every limit bounds either money or GPUs, so what is affordable is exactly what exceeds
        neither maximum.
        """
        price = offer.usd_per_hour
        if self.max_usd_per_hour is not None and (price is None or price > self.max_usd_per_hour):
            return False
        return not self.limits_gpus or offer.gpus <= self.gpus


def decide(
    accounts: Sequence[Account], offers: Sequence[OfferPrice], seconds: float = FIRST_HOUR
) -> Grant | Refusal:
    """Whether a start of these offers can afford its first `seconds` in every account.

    Of its offers, those that are too expensive are excluded: it may buy the rest.
    """
    for account in accounts:
        if refusal := _of_account(account):
            return refusal
    money = [account.scope for account in accounts if _binds_money(account)]
    gpus = [account.scope for account in accounts if _binds_gpus(account)]
    known = [each for each in offers if each.usd_per_hour is not None]
    candidates = sorted(known if money else offers, key=_price)
    if not candidates and (money or gpus):
        return Refusal((money or gpus)[0], Obstacle.UNKNOWN_PRICE)
    affordable = [x for x in candidates if _too_much(accounts, x, seconds) is None]
    if candidates and not affordable:
        refusals = [_too_much(accounts, each, seconds) for each in candidates]
        return next(each for each in refusals if each is not None)
    most = max((each.gpus for each in affordable), default=0.0)
    return Grant(affordable[-1].usd_per_hour if money else None, most, limits_gpus=bool(gpus))


def reservation(usd_per_hour: float, gpus: float, seconds: float) -> tuple[int, int]:
    """What so much time takes of limits: 1e-9 USD and microseconds of one GPU, rounded up."""
    microseconds = round(max(seconds, 0.0) * 1e6)
    return -(-nano(usd_per_hour) * microseconds // HOUR), round(gpus * microseconds)


def refusal_by(standing: Standing, left: int, needed: int) -> Refusal:
    """The refusal of a start that needs `needed` where a limit has `left`, in the limit's unit."""
    return Refusal(
        standing.scope,
        Obstacle.LIMIT,
        standing.kind,
        standing.limit,
        left,
        needed,
        standing.renews,
        standing.at_least,
        standing.is_filled_by_storage,
    )


def nano(usd: float) -> int:
    """USD in 1e-9 USD."""
    return round(usd * NANO)


def gpu_hours(microseconds: int) -> float:
    """GPU-hours of so many microseconds of one GPU."""
    return microseconds / GPU_HOUR


def _price(offer: OfferPrice) -> float:
    return float("inf") if offer.usd_per_hour is None else offer.usd_per_hour


def _binds_money(account: Account) -> bool:
    return any(kind.is_money and account.bounds.limit(kind) is not None for kind in Kind)


def _binds_gpus(account: Account) -> bool:
    return account.bounds.limit(Kind.GPU_HOURS) is not None


def _of_account(account: Account) -> Refusal | None:
    """Why no start at all is possible."""
    most = account.bounds.servers
    if most is not None and account.servers >= most:
        return Refusal(account.scope, Obstacle.LIMIT, Kind.SERVERS, most, 0, 1)
    return None


def _too_much(accounts: Sequence[Account], offer: OfferPrice, seconds: float) -> Refusal | None:
    """The first limit that the first `seconds` of an offer would exceed."""
    money, gpu = reservation(offer.usd_per_hour or 0.0, offer.gpus, seconds)
    return next(
        (
            refusal
            for account in accounts
            for refusal in _exceeded(account, nano(offer.usd_per_hour or 0.0), money, gpu)
        ),
        None,
    )


def _exceeded(account: Account, rate: int, money: int, gpu: int) -> Iterator[Refusal]:
    most = account.bounds.limit(Kind.RATE)
    if most is not None and account.rate + rate > most:
        left = max(most - account.rate, 0)
        yield Refusal(
            account.scope,
            Obstacle.LIMIT,
            Kind.RATE,
            most,
            left,
            rate,
            at_most=account.unpriced > 0,
        )
    for standing in account.standings:
        is_gpu = standing.kind is Kind.GPU_HOURS
        needed = gpu if is_gpu else money
        left = max(standing.left - (account.reserved_gpu if is_gpu else account.reserved), 0)
        if (needed and needed > left) or (standing.is_reached and (needed or not is_gpu)):
            yield refusal_by(standing, left, needed)
