"""What a user needs to know about a profile to choose it: one model for the page and for JSON.

Pure: `profile_card_builder` reads the provisioner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from ....core.offers.launch_errors import ErrorClass
from ....core.offers.purchase import Offer
from ....core.offers.sold_out import Mark
from ....core.pricing.beside import NOTHING, Beside
from ....core.pricing.gpu_value import Several, Value
from ....core.pricing.price_history import Steadiness
from ....core.profiles.choices import MARKETS_OF
from ....core.profiles.profiles import Hardware
from ....wire import Market

NO_DRIVER: Final = "the image has no driver for this GPU"


@dataclass(frozen=True, slots=True)
class OfferSeen:
    """An offer with the source of its price, and why it is not available."""

    offer: Offer
    source: str = ""
    """The source of the price, for people; empty while it is unknown."""
    age_seconds: float | None = None
    """Seconds since the price was read; None if the source states its own date."""
    mark: Mark | None = None
    """Set while the offer is known to be sold out."""


@dataclass(frozen=True, slots=True)
class Line:
    """Seven days of one offer's spot price."""

    instance_type: str
    zone: str
    start: datetime
    """Of the first sample, UTC."""
    interval_seconds: float
    usd_per_hour: tuple[float | None, ...]
    """USD/hour, oldest first; None if unknown."""
    steadiness: Steadiness


@dataclass(frozen=True, slots=True)
class Bounds:
    """Inclusive bounds."""

    min: float
    max: float


@dataclass(frozen=True, slots=True)
class SoldOutIn:
    """The zones in which a market is sold out for a profile."""

    zones: tuple[str, ...]
    """In which none of its types is available."""
    of: int
    """Number of zones that offer it at all."""
    seen: datetime
    """When EC2 last reported it, UTC."""
    why: ErrorClass
    """Class of all of EC2's refusals; `OFFER` where they differ."""

    @property
    def everywhere(self) -> bool:
        """Whether every zone is sold out."""
        return len(self.zones) == self.of


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another zone that offers the profile at a much lower price than the zone of the user's files,
    or alone offers it."""

    home_zone: str
    zone: str
    offers: tuple[OfferSeen, ...]
    """Available there, best first."""
    takes: str
    """What a move there takes, in words."""


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
    """The default market: `spot-first`, `spot-wait`, `spot-only` or `on-demand`."""
    markets: tuple[str, ...] = ()
    """The markets to choose from, its own first. A single one is no choice."""
    offers: tuple[OfferSeen, ...] = ()
    """All offers in the zones that the home allows, best first, including those sold out."""
    beside: Beside = NOTHING
    """What comes with the instance: a disk of the default size, data volumes, a public address."""
    line: Line | None = None
    value: Value | None = None
    several: Several | None = None
    """Several GPUs against one of them."""
    usual_start_seconds: float | None = None
    ready_at_once: bool = False
    """An instance of the warm pool waits that a start with default choices gets."""
    disk_gib: int = 0
    """Default size of the instance's own disk."""
    disk_bounds: Bounds | None = None
    """In GiB; None leaves no choice."""
    disk_usd_per_hour: float | None = None
    """What 100 GiB of it cost, in an average month; None is unknown."""
    idle_seconds: float = 0.0
    """Default idle time in seconds after which the server stops; 0 is never."""
    sleeps: bool = False
    """Whether its session is saved before that stop."""
    idle_bounds: Bounds | None = None
    """In seconds; None leaves no choice."""
    default: bool = False
    """Selected if the user has no earlier choice."""
    after_stop: str = ""
    """What happens to its instance after a stop, in words; empty if it is terminated."""
    elsewhere: Elsewhere | None = None
    """A zone to move the home to; None if no move gains anything."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Payer -> why it cannot pay for a start now, in a few words; all others can."""
    limits_reached: Mapping[str, str] = field(default_factory=dict)
    """Payer -> the limit that refuses, in sentences; only of those who are refused by one."""
    no_volumes: str = ""
    """Why none of its types can have a server's volumes; empty if one can."""
    cannot_start: bool = False
    """No payer of the user can pay for a start now."""

    @property
    def ways(self) -> tuple[str, ...]:
        """`markets`, or the profile's own if its user has no choice."""
        return self.markets or (self.market,)

    def may_buy(self, market: Market) -> bool:
        """True if some choice of its user would buy in this market."""
        return any(market in MARKETS_OF[way] for way in self.ways)

    def first(self, way: str = "") -> OfferSeen | None:
        """The offer that a start would request first; a sold-out one only if all are sold out.

        `way` is a value of `market`; empty is the profile's own.
        """
        among = [
            seen for seen in self.offers if seen.offer.market in MARKETS_OF[way or self.market]
        ]
        still = [seen for seen in among if seen.mark is None]
        return next(iter(still or among), None)

    def usd_per_hour(self, seen: OfferSeen | None) -> float | None:
        """What a server on this offer costs in an hour, with all that comes with the instance."""
        own = seen.offer.usd_per_hour if seen else None
        return None if own is None else own + self.beside.usd_per_hour

    def cheapest(self, market: Market) -> OfferSeen | None:
        """The offer with the lowest known price in a market; a sold-out one only if all are."""
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
        """The zones in which a market is sold out; None if every zone has capacity."""
        return _sold_out([seen for seen in self.offers if seen.offer.market is market])

    def nothing_left(self, way: str = "") -> bool:
        """True if everything that a start would request is known to be sold out."""
        first = self.first(way)
        return first is not None and first.mark is not None

    @property
    def unusable(self) -> str:
        """Why every start would fail, in words for its user; empty if it would not."""
        if self.no_volumes:
            return self.no_volumes
        marks = [seen.mark for seen in self.offers]
        is_unusable = marks and all(m and m.error_class is ErrorClass.UNUSABLE for m in marks)
        return NO_DRIVER if is_unusable else ""

    def moved(self) -> Card | None:
        """The card as it would be after the move to `elsewhere`."""
        if self.elsewhere is None:
            return None
        return replace(self, offers=self.elsewhere.offers, elsewhere=None)

    @property
    def is_offered(self) -> bool:
        """False if no zone that this user may use offers the profile."""
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
        why=_common_reason(found),
    )


def _common_reason(marks: Sequence[Mark]) -> ErrorClass:
    classes = {mark.error_class for mark in marks}
    return classes.pop() if len(classes) == 1 else ErrorClass.OFFER


def initial_card(cards: Sequence[Card], wanted: str) -> str:
    """The slug of the card to select: the wanted one, else the default, else the first.

    A card that cannot be started is selected only if none can. Empty without cards.
    """
    startable = [card for card in cards if not card.cannot_start] or list(cards)
    for card in startable:
        if card.slug == wanted:
            return wanted
    for card in startable:
        if card.default:
            return card.slug
    return startable[0].slug if startable else ""
