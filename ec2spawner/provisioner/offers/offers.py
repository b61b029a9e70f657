"""Every offer with its price and what is known to be sold out: what to request next.

All from memory: what the catalogue and the prices have read, and what launch calls were refused. A
start never waits for a price.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from ...core.instances.gpu_drivers import Driver, driver_of_image, unsupported
from ...core.offers.capacity_blocks import left_at, may_launch
from ...core.offers.launch_errors import (
    RESERVATION_FULL,
    ErrorClass,
    LaunchError,
    error_class,
)
from ...core.offers.purchase import Offer, OfferKey, affordable, next_purchase, ranked
from ...core.offers.sold_out import MARKED_FOR, UNUSABLE, Mark, SoldOut
from ...wire import Market
from ..model.cloud.cloud import CloudError
from ..model.cloud.instance import Instance
from ..model.cloud.launch import MAX_OFFERS, FleetResponse, LaunchRequest, LaunchSpec
from ..model.error_hints import FIX, fix_of
from ..state.state import State
from .avoided_offer import Avoided
from .images import ImageCache
from .instance_types import Catalogue
from .prices import Price, PriceCache
from .reserved_capacity import ReservedCapacity

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """The next launch call of a round: what it requests, and which offers it skips and why."""

    market: Market
    count: int
    offers: tuple[Offer, ...]
    """Best first, never empty."""
    subnets: tuple[str, ...]
    """Of each offer, the subnet of its instance."""
    preferred: int
    """How many of the first offers are in zones that EC2 has named as having capacity."""
    markets: frozenset[Market]
    """Those of this call and of the calls that may follow it."""
    skipped: tuple[tuple[Offer, Mark], ...]
    """Offers that are skipped because they are known to be sold out."""

    @property
    def is_paid(self) -> bool:
        """True for places of discounts, which `count` does not exceed."""
        return self.offers[0].paid

    @property
    def reservation(self) -> str:
        """Id of the capacity reservation whose places the call asks for; empty for none."""
        return self.offers[0].reservation

    @property
    def is_block(self) -> bool:
        """Whether that is a Capacity Block."""
        return self.offers[0].is_block

    @property
    def discount_places(self) -> Mapping[str, int]:
        """Instance type, or id of a capacity reservation -> paid places that the call may take."""
        if not self.is_paid and not self.reservation:
            return {}
        if self.is_block:
            return {self.reservation: self.count}
        # A discount covers an instance in a reservation like any other.
        names = [*self.instance_types, *filter(None, [self.reservation])]
        return dict.fromkeys(names, self.count)

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Types of the order's offers, best offer first."""
        return tuple(dict.fromkeys(offer.instance_type for offer in self.offers))

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones of the order's offers, best offer first."""
        return tuple(dict.fromkeys(offer.zone for offer in self.offers))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(instance type, subnet), as a launch request has them."""
        types = (offer.instance_type for offer in self.offers)
        return tuple(zip(types, self.subnets, strict=True))


class Offers:
    """The offers of this hub. `sold_out` remembers what launch calls were refused."""

    def __init__(
        self,
        state: State,
        catalogue: Catalogue,
        prices: PriceCache,
        images: ImageCache,
        reserved: ReservedCapacity,
    ) -> None:
        self._state = state
        self._catalogue = catalogue
        self._prices = prices
        self._images = images
        self._reserved = reserved
        self.sold_out = SoldOut()

    # --- offers ---

    def all(
        self, instance_types: Iterable[str], zones: Iterable[str], markets: Iterable[Market]
    ) -> tuple[Offer, ...]:
        """Every offer, best first, including those that are sold out."""
        now, wanted, places = (
            self._state.clock.now(),
            frozenset(markets),
            tuple(dict.fromkeys(zones)),
        )
        pools = [
            (name, zone)
            for name in dict.fromkeys(instance_types)
            for zone in places
            if self._catalogue.is_offered(name, zone)
        ]
        offers = [
            self._offer(market, name, zone)
            for name, zone in pools
            for market in Market
            if market in wanted
        ]
        if Market.ON_DEMAND in wanted:
            offers += self._reserved_offers(pools, now)
        hinted = {offer.key for offer in offers if self.sold_out.is_hinted(offer.key, now)}
        return ranked(offers, hinted)

    def all_for(self, spec: LaunchSpec) -> tuple[Offer, ...]:
        """The offers that a spec may buy within its price limit, including those sold out. Launches
        into a placement group take no places of capacity reservations."""
        zones = self.zones()
        here = (zones[subnet] for subnet in spec.subnets if subnet in zones)
        every = self.all(spec.instance_types, here, spec.markets)
        if spec.placement_group:
            every = tuple(offer for offer in every if not offer.reservation)
        return affordable(every, spec.max_usd_per_hour)

    def places_for(self, spec: LaunchSpec) -> Set[OfferKey]:
        """Those of them that are places of capacity reservations."""
        return {offer.key for offer in self.all_for(spec) if offer.reservation}

    def marked(
        self, spec: LaunchSpec, avoided: Avoided | None = None
    ) -> list[tuple[Offer, Mark | None]]:
        """The offers that a spec may buy within its price limit, each with what `mark_of` says,
        and what its server avoids."""
        every = self.all_for(spec)
        marks = self._marks(every, spec.image_id)
        if avoided is not None:
            marks = [
                mark or (avoided.mark if offer.key == avoided.key else None)
                for offer, mark in zip(every, marks, strict=True)
            ]
        return list(zip(every, marks, strict=True))

    def open(
        self, instance_types: Iterable[str], zones: Iterable[str], markets: Iterable[Market]
    ) -> tuple[Offer, ...]:
        """Every offer that is not known to be sold out, best first."""
        every = self.all(instance_types, zones, markets)
        return tuple(o for o, mark in zip(every, self._marks(every), strict=True) if mark is None)

    def mark_of(self, offer: Offer) -> Mark | None:
        """Why an offer is skipped, and until when; None if it is not.

        An offer without a subnet that has free addresses in its zone is as good as sold out.
        """
        return self._marks((offer,))[0]

    def _marks(self, offers: Iterable[Offer], image_id: str = "") -> list[Mark | None]:
        """With an image; empty is the one that instances boot now."""
        if not image_id and self._images.known is not None:
            image_id = self._images.known.image_id
        now, full = self._state.clock.now(), self._full_zones()
        return [
            self.sold_out.mark_of(x.key, now, image_id)
            or self._mark_of_driver(x.instance_type, image_id)
            or full.get(x.zone)
            for x in offers
        ]

    def _mark_of_driver(self, instance_type: str, image_id: str) -> Mark | None:
        """The mark of a GPU that the image's driver certainly does not support: no launch has to
        show it."""
        image = self._images.known
        if image is None or image.image_id != image_id:
            return None
        driver = driver_of_image(image.driver, image.name)
        if not driver.is_known or not (why := self.why_unsupported(instance_type, driver)):
            return None
        now = self._state.clock.now()
        until = now + MARKED_FOR[ErrorClass.UNUSABLE]
        return Mark(ErrorClass.UNUSABLE, UNUSABLE, now, until, why)

    def _full_zones(self) -> Mapping[str, Mark]:
        """Zones whose subnets are all full, each with the mark that ends first."""
        now = self._state.clock.now()
        marks: dict[str, list[Mark | None]] = {}
        for subnet, zone in self.zones().items():
            marks.setdefault(zone, []).append(self.sold_out.mark_of_subnet(subnet, now))
        held = {zone: [m for m in found if m is not None] for zone, found in marks.items()}
        return {
            zone: min(of_zone, key=lambda mark: mark.until)
            for zone, of_zone in held.items()
            if of_zone and len(of_zone) == len(marks[zone])
        }

    def _offer(self, market: Market, instance_type: str, zone: str) -> Offer:
        price, paid = self._prices.price(market, instance_type, zone), None
        band: int | None = 0
        if market is Market.ON_DEMAND:
            paid = self._prices.paid(instance_type, zone)
        else:
            known = self._catalogue.types.get(instance_type)
            band = known.interruption_band if known else None
        worth = paid or price
        return Offer(
            market=market,
            instance_type=instance_type,
            zone=zone,
            usd_per_hour=worth.usd_per_hour if worth else None,
            interruption_band=band,
            paid=paid is not None,
        )

    def _reserved_offers(self, pools: Iterable[tuple[str, str]], now: datetime) -> Iterator[Offer]:
        """One for each capacity reservation with an unused place in these (type, zone)."""
        if not self._reserved.is_current:
            return
        wanted, unused = set(pools), self._reserved.unused(now)
        for each in self._reserved.active(now):
            name, zone = each.instance_type, each.zone
            if (name, zone) in wanted and unused[each.reservation_id] and may_launch(each, now):
                price = self.reserved_price(name, zone, each.reservation_id)
                yield Offer(
                    market=Market.ON_DEMAND,
                    instance_type=name,
                    zone=zone,
                    usd_per_hour=price.usd_per_hour if price else None,
                    interruption_band=0,
                    paid=self._reserved.before_spot,
                    reservation=each.reservation_id,
                    is_block=each.is_block,
                    until=left_at(each),
                )

    def reserved_price(self, instance_type: str, zone: str, reservation_id: str) -> Price | None:
        """What a lease is charged for a place of a capacity reservation: the on-demand price, or
        the rate of a discount, which AWS applies to reservations as well; of a Capacity Block its
        own price, and no other."""
        if self._state.blocks.ends_at(reservation_id) is not None:
            return self._prices.block_price(reservation_id)
        paid = self._prices.paid(instance_type, zone)
        return paid or self._prices.price(Market.ON_DEMAND, instance_type, zone)

    def awaits_prices(self, spec: LaunchSpec) -> bool:
        """Whether what a spec may buy is to be decided once its prices are read, within seconds."""
        return self._prices.first_readings.awaited(spec.instance_types)

    def usd_per_hour(self, key: OfferKey) -> float | None:
        """The current price, USD/hour, without discounts; None is unknown."""
        price = self._prices.price(key.market, key.instance_type, key.zone)
        return price.usd_per_hour if price else None

    @property
    def verification(self) -> Mark | None:
        """Why EC2 launches nothing while AWS verifies the account; None if it has."""
        return self.sold_out.verification(self._state.clock.now())

    def zones(self) -> Mapping[str, str]:
        """Subnet -> zone, of the hub's subnets in the admin's order."""
        return self._state.zones.by_subnet

    # --- purchases ---

    def next_order(
        self,
        spec: LaunchSpec,
        asked: Set[OfferKey],
        count: int,
        taken: Mapping[str, int],
        avoided: Avoided | None = None,
    ) -> Order | None:
        """What to request next; None if nothing is left.

        `asked` are the offers that this round will not ask for again; `taken` are paid places, by
        instance type or id of a capacity reservation, that other calls under way may use up.
        """
        subnet_of = self._subnet_of(spec.subnets)
        marked, limit = self.marked(spec, avoided), spec.max_usd_per_hour
        open_ = [offer for offer, mark in marked if mark is None and offer.zone in subnet_of]
        purchase = next_purchase(open_, asked, self._paid_left(open_, taken), limit)
        if purchase is None:
            return None
        offers = purchase.offers[:MAX_OFFERS]
        return Order(
            market=purchase.market,
            count=count if purchase.at_most is None else min(count, purchase.at_most),
            offers=offers,
            subnets=tuple(subnet_of[offer.zone] for offer in offers),
            preferred=self._preferred(offers),
            markets=frozenset({purchase.market, *(o.market for o in open_ if o.key not in asked)}),
            skipped=tuple(
                (offer, mark)
                for offer, mark in marked
                if mark is not None and offer.key not in asked
            ),
        )

    def learn(self, request: LaunchRequest, answer: FleetResponse) -> None:
        """Remember which offers a launch response says are sold out. What lacks room in a placement
        group, or cannot be in one, may well be launched by anybody else."""
        now = self._state.clock.now()
        self.sold_out.forget_old(now)
        if request.reservation:
            self._log_refusal(request, answer, now)
        brought = {(launched.instance_type, launched.zone) for launched in answer.instances}
        self.sold_out.learn(
            request.market,
            request.offers,
            _of_everybody(request, answer),
            brought,
            self.zones(),
            now,
            request.reservation,
        )

    def _log_refusal(self, request: LaunchRequest, answer: FleetResponse, now: datetime) -> None:
        """Say once for each time that a reservation is left alone that only an admin can help."""
        refused = [e for e in answer.errors if error_class(e.code) is ErrorClass.REFUSED]
        marks = [
            self.sold_out.mark_of(OfferKey(request.market, kind, zone, request.reservation), now)
            for kind, subnet in request.offers
            if (zone := self.zones().get(subnet))
        ]
        if refused and not any(mark and mark.error_class is ErrorClass.REFUSED for mark in marks):
            log.error(
                "EC2 refuses launches into capacity reservation %s (%s: %s). Servers start outside "
                "of it, and its places cost money unused: %s",
                request.reservation,
                refused[0].code,
                refused[0].message,
                fix_of(refused[0].code, refused[0].message) or FIX,
            )

    def learn_of_start(self, instance: Instance, error: CloudError) -> None:
        """Remember that EC2 did not start a stopped instance for lack of capacity or quota."""
        if error_class(error.code) not in {ErrorClass.OFFER, ErrorClass.QUOTA}:
            return  # other errors may concern this instance only
        if error.code == RESERVATION_FULL:
            return  # it was launched into a reservation, and starts nowhere else
        kind, zone = instance.instance_type, instance.zone
        refusal = LaunchError(error.code, error.message, instance_type=kind, zone=zone)
        asked, zones = ((kind, ""),), {"": zone}
        self.sold_out.learn(instance.market, asked, (refusal,), (), zones, self._state.clock.now())

    def learn_unusable(self, instance: Instance, why: str) -> None:
        """Remember that no instance of this type can work with its image, and why, if known."""
        zones, now = {*self.zones().values(), instance.zone}, self._state.clock.now()
        self.sold_out.learn_unusable(instance.instance_type, instance.image_id, zones, why, now)

    def why_unsupported(self, instance_type: str, driver: Driver) -> str:
        """Why this driver does not support the type's GPU or share of one, as a sentence.

        Empty if it does, and if the type is unknown or has no GPU.
        """
        kind = self._catalogue.types.get(instance_type)
        return unsupported(kind.gpu, driver, kind.gpu_partition) if kind is not None else ""

    def _subnet_of(self, subnets: Sequence[str]) -> dict[str, str]:
        """Zone -> the first of its subnets that is not known to be full.

        EC2 refuses two subnets of one zone in a call as duplicate pools.
        """
        zones, now = self.zones(), self._state.clock.now()
        found: dict[str, str] = {}
        for subnet in subnets:
            if subnet in zones and self.sold_out.mark_of_subnet(subnet, now) is None:
                found.setdefault(zones[subnet], subnet)
        return found

    def _paid_left(self, offers: Collection[Offer], taken: Mapping[str, int]) -> Mapping[str, int]:
        """Instance type -> unused places of discounts in whichever zone EC2 launches, and the id
        of each capacity reservation -> its unused places."""
        left: dict[str, int] = {}
        unused = self._reserved.unused(self._state.clock.now())
        for offer in offers:
            if name := offer.reservation:
                left[name] = unused.get(name, 0) - taken.get(name, 0)
            elif offer.paid:
                here = self._prices.paid_left(offer.instance_type, offer.zone)
                here -= taken.get(offer.instance_type, 0)
                left[offer.instance_type] = min(left.get(offer.instance_type, here), here)
        return left

    def _preferred(self, offers: Sequence[Offer]) -> int:
        now = self._state.clock.now()
        hinted = [self.sold_out.is_hinted(offer.key, now) for offer in offers]
        return hinted.index(False) if False in hinted else 0


def _of_everybody(request: LaunchRequest, answer: FleetResponse) -> Iterable[LaunchError]:
    """The errors that concern other launches too."""
    if not request.spec.placement_group:
        return answer.errors
    of_the_group = {ErrorClass.OFFER, ErrorClass.TYPE_IN_ZONE}
    return [each for each in answer.errors if error_class(each.code) not in of_the_group]
