"""What can be bought and what it costs, as the hub's pages and requests read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...core.profiles.profiles import InstanceType
from ..model.cloud.cloud import Cloud
from ..state.state import State
from ..state.zones import Zones
from .images import ImageCache
from .instance_types import Catalogue
from .offers import Offers
from .prices import PriceCache
from .reserved_capacity import ReservedCapacity


@dataclass(frozen=True, slots=True)
class MarketData:
    """All from memory; each part refreshes itself in the background."""

    catalogue: Catalogue
    prices: PriceCache
    offers: Offers
    images: ImageCache
    zones: Zones
    reserved: ReservedCapacity

    @classmethod
    def of(cls, state: State, cloud: Cloud, types: Mapping[str, InstanceType]) -> MarketData:
        """Nothing is read yet. `types` is the bundled table."""
        catalogue, prices = Catalogue(state, cloud, types), PriceCache(state, cloud, types)
        images = ImageCache(state, cloud)
        reserved = ReservedCapacity(state, cloud)
        offers = Offers(state, catalogue, prices, images, reserved)
        return cls(catalogue, prices, offers, images, state.zones, reserved)

    def want(self, instance_types: Iterable[str]) -> None:
        """Keep facts and prices of these types fresh from now on; new ones are read at once."""
        names = tuple(instance_types)
        self.catalogue.want(names)
        self.prices.want(names)
