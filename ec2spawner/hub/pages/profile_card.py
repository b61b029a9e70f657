"""What a person needs to know of a profile to choose it: one model for the page and for JSON.

Pure: `hub.pages` asks the provisioner and hands its answers in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.offers.launch_errors import ErrorClass
from ...core.offers.purchase import Offer
from ...core.offers.sold_out import Mark
from ...core.pricing.gpu_value import Several, Value
from ...core.pricing.price_history import Steadiness
from ...core.profiles.choices import MARKETS_OF
from ...core.profiles.profiles import Hardware
from ...wire import Market


@dataclass(frozen=True, slots=True)
class OfferSeen:
    """An offer, with where its price is from and why it cannot be had."""

    offer: Offer
    source: str = ""
    """Where the price is from, for people; empty while it is unknown."""
    age_seconds: float | None = None
    """How long ago it was read; None where the source says its own date."""
    mark: Mark | None = None
    """Set while it is known to be sold out."""


@dataclass(frozen=True, slots=True)
class Line:
    """Seven days of one offer's spot price."""

    instance_type: str
    zone: str
    start: datetime
    """Of the first sample, UTC."""
    interval_seconds: float
    usd_per_hour: tuple[float | None, ...]
    """USD/hour, oldest first; None where nobody knows."""
    steadiness: Steadiness


@dataclass(frozen=True, slots=True)
class Bounds:
    """Both are allowed themselves."""

    min: float
    max: float


@dataclass(frozen=True, slots=True)
class SoldOutIn:
    """How far a market is sold out for a profile."""

    zones: tuple[str, ...]
    """Where none of its types is to be had."""
    of: int
    """Zones that have it at all."""
    seen: datetime
    """When that was last noticed, UTC."""
    by_quota: bool
    """The account's limit, and not EC2's room."""

    @property
    def everywhere(self) -> bool:
        """Whether every zone of the offer is sold out."""
        return len(self.zones) == self.of


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another zone, where the profile is to be had for much less than where the user's files are,
    or at all."""

    home_zone: str
    zone: str
    offers: tuple[OfferSeen, ...]
    """Open there, best first."""
    takes: str
    """What a move there takes, for people."""


@dataclass(frozen=True, slots=True)
class Card:
    """One profile. Prices in USD/hour, durations in seconds; None is unknown, never 0."""

    slug: str
    name: str
    hardware: Hardware
    gpu: str = ""
    """Its model as EC2 names it; empty without a GPU."""
    description: str = ""
    market: str = "spot-first"
    """What it buys where nobody chooses: `spot-first`, `spot-wait`, `spot-only` or
    `on-demand`."""
    markets: tuple[str, ...] = ()
    """What its user may choose among; its own is the first. One alone is no choice."""
    offers: tuple[OfferSeen, ...] = ()
    """What fits in the zones that the user's home allows, best first, sold out ones too."""
    line: Line | None = None
    value: Value | None = None
    several: Several | None = None
    """Several GPUs against one of them."""
    usual_start_seconds: float | None = None
    disk_gib: int = 0
    """The instance's own disk, where nobody chooses."""
    disk_bounds: Bounds | None = None
    """In GiB; None leaves no choice."""
    idle_seconds: float = 0.0
    """Idle for this long, it is stopped, where nobody chooses; 0 is never."""
    idle_bounds: Bounds | None = None
    """In seconds; None leaves no choice."""
    default: bool = False
    """Chosen where a user says nothing."""
    after_stop: str = ""
    """What becomes of its machine after a stop, in words; empty where it just ends."""
    elsewhere: Elsewhere | None = None
    """Where the user may move their home to pay less; None where that gains nothing."""

    @property
    def ways(self) -> tuple[str, ...]:
        """`markets`, and the profile's own where its user has no choice."""
        return self.markets or (self.market,)

    def may_buy(self, market: Market) -> bool:
        """True where some choice of its user's would buy there."""
        return any(market in MARKETS_OF[way] for way in self.ways)

    def first(self, way: str = "") -> OfferSeen | None:
        """What a start would ask for first; sold out only where everything is.

        `way` is a word for markets; empty is the profile's own.
        """
        among = [
            seen for seen in self.offers if seen.offer.market in MARKETS_OF[way or self.market]
        ]
        still = [seen for seen in among if seen.mark is None]
        return next(iter(still or among), None)

    def cheapest(self, market: Market) -> OfferSeen | None:
        """The lowest known price of a market, of what is not sold out where there is such."""
        priced = [
            seen
            for seen in self.offers
            if seen.offer.market is market and seen.offer.usd_per_hour is not None
        ]
        return min(
            priced,
            key=lambda seen: (seen.mark is not None, seen.offer.usd_per_hour or 0.0),
            default=None,
        )

    def sold_out(self, market: Market) -> SoldOutIn | None:
        """Where a market has nothing left of this profile; None where it has some everywhere."""
        return _sold_out([seen for seen in self.offers if seen.offer.market is market])

    def nothing_left(self, way: str = "") -> bool:
        """True where all that a start would ask for is known to be sold out."""
        first = self.first(way)
        return first is not None and first.mark is not None

    def moved(self) -> Card | None:
        """The same after the move to `elsewhere`."""
        if self.elsewhere is None:
            return None
        return replace(self, offers=self.elsewhere.offers, elsewhere=None)

    @property
    def is_offered(self) -> bool:
        """False where no zone that this user may use has the machine."""
        return bool(self.offers)


def _sold_out(offers: Sequence[OfferSeen]) -> SoldOutIn | None:
    by_zone: dict[str, list[Mark | None]] = {}
    for seen in offers:
        by_zone.setdefault(seen.offer.zone, []).append(seen.mark)
    out = {zone: [m for m in marks if m] for zone, marks in by_zone.items() if all(marks)}
    found = [mark for marks in out.values() for mark in marks]
    if not found:
        return None
    return SoldOutIn(
        zones=tuple(sorted(out)),
        of=len(by_zone),
        seen=max(mark.since for mark in found),
        by_quota=all(mark.error_class is ErrorClass.QUOTA for mark in found),
    )


def initial_card(cards: Sequence[Card], wanted: str) -> str:
    """The slug of the card to begin with: the wanted one, else the default, else the first.

    Empty without cards.
    """
    for card in cards:
        if card.slug == wanted:
            return wanted
    for card in cards:
        if card.default:
            return card.slug
    return cards[0].slug if cards else ""
